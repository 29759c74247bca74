"""Replay of a fit on a neighbor: what every unreleased value would have been with one other row."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import Bounded, Curator, Mechanism, SmoothBounded

Dataset = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class ReplayedRelease:
    """One release of a fit, and the corresponding value for the neighbor."""

    mechanism: Mechanism
    rho: float
    ours: Bounded
    theirs: Bounded
    output: NDArray[Any]


def releases(fit: Callable[..., Any], data: Dataset, neighbor: Dataset) -> list[ReplayedRelease]:
    """All releases of a fit of ``data``, in order; the fit of ``neighbor`` receives the same released values."""
    record: list[tuple[Mechanism, float, Bounded, Any]] = []
    release = Curator.release

    def first(self: Curator, mechanism: Mechanism, bounded: Bounded) -> NDArray[Any]:
        output = release(self, mechanism, bounded)
        record.append((mechanism, self.rho(mechanism), bounded, output.copy()))  # the fit may modify it in place
        return output

    both: list[ReplayedRelease] = []

    def second(self: Curator, mechanism: Mechanism, bounded: Bounded) -> NDArray[Any]:
        release(self, mechanism, bounded)  # same checks, same counters
        if len(both) >= len(record) or record[len(both)][0] != mechanism:
            raise AssertionError(f"release {len(both)} depends on the data: {mechanism.name!r}")
        _, rho, before, output = record[len(both)]
        both.append(ReplayedRelease(mechanism, rho, before, bounded, output))
        return output.copy()  # type: ignore[no-any-return]

    with mock.patch.object(Curator, "release", first):
        fit(*data)
    with mock.patch.object(Curator, "release", second):
        fit(*neighbor)
    if len(both) < len(record):
        raise AssertionError("the number of releases depends on the data")
    return both


def observed_ratio(a: Bounded, b: Bounded) -> float:
    """Observed change as a fraction of what was declared, or infinity where the public parts differ."""
    if (a.raw_sensitivity, a.norm, a.shape) != (b.raw_sensitivity, b.norm, b.shape):
        return math.inf
    if not (np.array_equal(a.unit, b.unit) and np.array_equal(a.offset, b.offset)):
        return math.inf
    if isinstance(a, SmoothBounded) and isinstance(b, SmoothBounded):
        smooth = float(np.max(np.abs(np.log(a._smooth) - np.log(b._smooth)))) / a.smoothness
        local = float(np.max(np.abs(a._value - b._value) / np.minimum(a._smooth, b._smooth)))
        return max(smooth, local) * (1 - 1e-9)
    if a._value.dtype == np.int64:
        change = (a._value.astype(object) - b._value.astype(object)).astype(np.float64).ravel()
    else:
        change = (a._value - b._value).ravel()
    order = {"l1": 1, "l2": 2, "linf": np.inf}[a.norm]
    size = float(np.linalg.norm(change, order)) if change.size else 0.0
    if a.monotone and change.max() > 0 > change.min():
        return math.inf
    return size / a.raw_sensitivity


@dataclass(frozen=True)
class Step:
    """The result for one release: the observed change as a fraction of the declared sensitivity."""

    name: str
    ratio: float
    rho: float = 0.0
    """The release's budget, in zero-concentrated DP."""


def replay(fit: Callable[..., Any], data: Dataset, neighbor: Dataset) -> list[Step]:
    """Declared against observed sensitivity at every release of a fit.

    Parameters
    ----------
    fit : callable
        ``fit(*arrays)`` fits an estimator; its releases are intercepted at the curator.
    data, neighbor : tuples of arrays
        The same arrays except for one row.

    Returns
    -------
    list of Step
        One per release. A ratio above 1 refutes the proof; infinity means that something
        which must be public (order of releases, shapes, units) depended on the row, or that it
        moved releases of two folds, of which a row is in one.
    """
    steps: list[Step] = []
    moved: set[Mechanism] = set()
    for r in releases(fit, data, neighbor):
        ratio = observed_ratio(r.ours, r.theirs)
        if ratio and r.mechanism.folds:
            ratio = math.inf if r.mechanism in moved else ratio
            moved.add(r.mechanism)
        steps.append(Step(r.mechanism.name, ratio, r.rho))
    return steps


def moved(steps: list[Step]) -> float:
    """The share of a fit's budget that a pair of neighbors uses: 1 if every release moves by its full sensitivity."""
    total = sum(step.rho for step in steps)
    return math.sqrt(sum(step.rho * step.ratio**2 for step in steps) / total) if total else 0.0


def hostile_rows(d: int, rng: np.random.Generator, like: NDArray[Any] | None = None) -> list[NDArray[np.float64]]:
    """Hostile finite rows of d numbers: extremes, cancellations, near-copies."""
    signs = rng.choice([-1.0, 1.0], d)
    one = np.zeros(d)
    one[rng.integers(d)] = 1.0
    rows = [
        np.zeros(d),
        signs,
        -signs,
        1e308 * signs,
        -1e308 * signs,
        5e-324 * signs,
        1e-160 * signs,
        1e160 * signs,
        1e308 * one,
        -1e308 * one,
        1e6 * one,
        2.0**53 * signs,
        10.0 ** rng.uniform(-300, 300, d) * signs,
    ]
    if like is not None:
        row = np.asarray(like[rng.integers(len(like))], dtype=float)
        rows += [row, -row, 1e3 * row, -1e9 * row, row + 1e-12]
    return rows


def fuzz(
    fit: Callable[..., Any],
    data: Dataset,
    *,
    trials: int = 30,
    seed: int = 0,
    rows: Callable[[np.random.Generator], tuple[Any, ...]] | None = None,
) -> float:
    """Largest ratio of observed to declared sensitivity over hostile replacements of one row.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> from fattail import audit
    >>> X = np.random.default_rng(0).standard_t(2, (800, 2))
    >>> worst = audit.fuzz(lambda X: fattail.DPMean(random_state=0).fit(X), (X,), trials=5)
    >>> worst <= 1
    True
    """
    rng = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(trials):
        i = int(rng.integers(len(data[0])))
        changed = []
        for k, array in enumerate(data):
            array = np.array(array)
            array[i] = hostile_cells(array, 1, rng)[0] if rows is None else rows(rng)[k]
            changed.append(array)
        worst = max([worst, *(step.ratio for step in replay(fit, data, tuple(changed)))])
    return worst


def hostile_cells(array: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
    """``count`` hostile rows, responses or labels for an array like this one."""
    if array.ndim == 1 and np.array_equal(array, array.astype(bool)):
        return rng.integers(0, 2, count).astype(array.dtype) if count > 1 else 1 - array[:1]
    pool = hostile_rows(array.shape[1] if array.ndim == 2 else 1, rng, array.reshape(len(array), -1))
    if rng.random() < 0.5:  # copies of one row, or all kinds
        pool = [pool[rng.integers(len(pool))]]
    chosen = np.stack([pool[k] for k in rng.integers(len(pool), size=count)])
    return chosen if array.ndim == 2 else chosen[:, 0]


def fuzz_persons(
    fit: Callable[..., Any], data: Dataset, person: NDArray[Any], *, trials: int = 30, seed: int = 0, most: int = 10_000
) -> float:
    """Largest ratio of observed to declared sensitivity over hostile replacements of all rows of one person.

    A person gets one row, a few, or up to ``most``; the rows of everybody else change their order.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> from fattail import audit
    >>> X = np.random.default_rng(0).standard_t(2, (800, 2))
    >>> fit = lambda X, ids: fattail.DPMean(random_state=0).fit(X, person=ids)
    >>> audit.fuzz_persons(fit, (X,), np.arange(800) // 2, trials=5) <= 1
    True
    """
    rng = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(trials):
        changed = _other_rows(data, person, person[rng.integers(len(person))], int(most ** rng.choice([0, 0.25, 0.5, 1])), rng)
        worst = max([worst, *(step.ratio for step in replay(fit, (*data, person), changed))])
    return worst


def _other_rows(data: Dataset, person: NDArray[Any], who: Any, count: int, rng: np.random.Generator) -> Dataset:
    """The table with ``count`` hostile rows of one person instead of theirs, in another order.

    Persons keep the order of their first rows, so that their secret labels stay the same.
    """
    kept = np.flatnonzero(person != who)
    at = int(np.flatnonzero(person == who)[0])
    first = np.concatenate((np.unique(person[kept], return_index=True)[1], []))
    leading = np.sort(kept[first.astype(np.intp)])
    rest = rng.permutation(np.setdiff1d(kept, leading))
    before = int(np.searchsorted(leading, at))

    def table(array: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        old = array[leading]
        return np.concatenate([old[:before], new[:1], old[before:], new[1:], array[rest]])

    return (*(table(a, hostile_cells(a, count, rng)) for a in data), table(person, np.full(count, who)))
