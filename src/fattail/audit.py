"""Attacks on our own claims.

Two kinds. *Replay* runs a fit on a dataset and on its neighbour, feeding the second run the
releases of the first, and compares every unreleased value with its declared sensitivity:
exact, and blind to nothing that passes the curator. *Lower bounds* run a fit many times on
two neighbours and turn the accuracy of a distinguisher into an epsilon that the truth
exceeds with a stated confidence.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fattail.privacy import Bounded, Curator, Mechanism, SmoothBounded, epsilon_of
from fattail.privacy import events as _events
from fattail.privacy.noise import SecureNoise, SeededNoise

Dataset = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class Step:
    """How one release fared: the observed change as a fraction of the declared sensitivity."""

    name: str
    ratio: float


def hostile_rows(d: int, rng: np.random.Generator, like: NDArray[Any] | None = None) -> list[NDArray[np.float64]]:
    """Finite rows of d numbers chosen to break things: extremes, cancellations, near-copies."""
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


def _difference(a: Bounded, b: Bounded) -> float:
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


def replay(fit: Callable[..., Any], data: Dataset, neighbour: Dataset) -> list[Step]:
    """Declared against observed sensitivity at every release of a fit.

    Parameters
    ----------
    fit : callable
        ``fit(*arrays)`` fits an estimator; its releases are intercepted at the curator.
    data, neighbour : tuples of arrays
        The same arrays but for one row.

    Returns
    -------
    list of Step
        One per release. A ratio above 1 refutes the proof; infinity means that something
        which must be public (order of releases, shapes, units) depended on the row.
    """
    record: list[tuple[Mechanism, Bounded, Any]] = []
    release = Curator.release

    def first(self: Curator, mechanism: Mechanism, bounded: Bounded) -> NDArray[Any]:
        output = release(self, mechanism, bounded)
        record.append((mechanism, bounded, output))
        return output

    steps: list[Step] = []

    def second(self: Curator, mechanism: Mechanism, bounded: Bounded) -> NDArray[Any]:
        release(self, mechanism, bounded)  # same checks, same counters
        if len(steps) >= len(record) or record[len(steps)][0] != mechanism:
            raise AssertionError(f"release {len(steps)} depends on the data: {mechanism.name!r}")
        _, before, output = record[len(steps)]
        steps.append(Step(mechanism.name, _difference(before, bounded)))
        return output.copy()  # type: ignore[no-any-return]

    with mock.patch.object(Curator, "release", first):
        fit(*data)
    with mock.patch.object(Curator, "release", second):
        fit(*neighbour)
    if len(steps) < len(record):
        raise AssertionError("the number of releases depends on the data")
    return steps


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
            if rows is not None:
                array[i] = rows(rng)[k]
            elif array.ndim == 2:
                pool = hostile_rows(array.shape[1], rng, array)
                array[i] = pool[rng.integers(len(pool))]
            elif np.array_equal(array, array.astype(bool)):
                array[i] = 1 - array[i]  # a label can only be another label
            else:
                pool = hostile_rows(1, rng, array[:, None])
                array[i] = pool[rng.integers(len(pool))][0]
            changed.append(array)
        worst = max([worst, *(step.ratio for step in replay(fit, data, tuple(changed)))])
    return worst


@dataclass(frozen=True)
class LowerBound:
    """Result of a distinguishing attack.

    Attributes
    ----------
    epsilon : float
        Lower bound from Clopper-Pearson intervals alone; valid for any mechanism.
    gaussian_epsilon : float
        The tighter bound that is valid if the mechanism is Gaussian DP.
    trials : int
        Runs per dataset on which the bound rests (as many again chose the attack).
    """

    epsilon: float
    gaussian_epsilon: float
    delta: float
    confidence: float
    trials: int


def lower_bound(ours: NDArray[Any], theirs: NDArray[Any], *, delta: float, confidence: float = 0.95) -> LowerBound:
    """Lower bound on epsilon from outputs on a dataset and on its neighbour.

    Parameters
    ----------
    ours, theirs : arrays of shape (runs, ...)
        Released outputs. The first half chooses a direction and a threshold, the second
        half measures their error rates, so no choice is tested on the runs that made it.
    """
    ours, theirs = (np.asarray(a, dtype=np.float64).reshape(len(a), -1) for a in (ours, theirs))
    ours, theirs = (np.nan_to_num(a, posinf=1e300, neginf=-1e300) for a in (ours, theirs))
    half = min(len(ours), len(theirs)) // 2
    center = np.median(ours[:half], axis=0)
    spread = np.maximum(np.median(np.abs(ours[:half] - center), axis=0), 1e-100)
    ours, theirs = (np.clip((a - center) / spread, -1e6, 1e6) for a in (ours, theirs))
    # Shift over variance, the best direction for independent Gaussian coordinates.
    direction = np.median(theirs[:half], axis=0)
    score0, score1 = ours @ direction, theirs @ direction
    train0, train1 = np.sort(score0[:half]), np.sort(score1[:half])
    test0, test1 = score0[half : 2 * half], score1[half : 2 * half]

    def bounds(cut: float, s0: NDArray[Any], s1: NDArray[Any]) -> tuple[float, float]:
        # One-sided limits at half the risk each: both error rates are below with the confidence.
        level = 1 - (1 - confidence) / 2
        rates = []
        for errors, runs in ((np.sum(s0 > cut), len(s0)), (np.sum(s1 <= cut), len(s1))):
            rates.append(1.0 if errors == runs else float(stats.beta.ppf(level, errors + 1, runs - errors)))
        alpha, beta = rates
        pure = max(_log_ratio(1 - delta - beta, alpha), _log_ratio(1 - delta - alpha, beta))
        mu = max(float(stats.norm.isf(alpha) - stats.norm.ppf(beta)), 0.0)
        gaussian = epsilon_of([_events.Gaussian(1 / mu)], delta) if mu > 1e-6 else 0.0
        return pure, gaussian

    cuts = np.unique(np.concatenate([train0, train1])[:: max(1, half // 100)])
    trained = [bounds(c, train0, train1) for c in cuts]
    best = [cuts[int(np.argmax([t[k] for t in trained]))] for k in (0, 1)]
    return LowerBound(max(bounds(best[0], test0, test1)[0], 0.0), bounds(best[1], test0, test1)[1], delta, confidence, half)


def _log_ratio(top: float, bottom: float) -> float:
    return math.log(top / bottom) if top > 0 and bottom > 0 else -math.inf


def attack(
    run: Callable[[Dataset, int], NDArray[Any]],
    data: Dataset,
    neighbour: Dataset,
    *,
    runs: int = 2000,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> LowerBound:
    """Run a fit many times on two neighbours and bound its epsilon from below.

    Parameters
    ----------
    run : callable
        ``run(dataset, seed)`` gives the released numbers of one fit.
    data, neighbour : tuples of arrays
    runs : int
        Fits per dataset.
    """
    outputs = [
        np.stack([np.ravel(run(d, seed)) for seed in range(start, start + runs)]) for d, start in ((data, 0), (neighbour, runs))
    ]
    return lower_bound(outputs[0], outputs[1], delta=delta, confidence=confidence)


@contextlib.contextmanager
def weakened(factor: float = 0.5) -> Iterator[None]:
    """Multiply all noise by ``factor``: a mutant that an audit must catch. For tests only."""
    with contextlib.ExitStack() as stack:
        for source in (SecureNoise, SeededNoise):
            for name, position in (("gaussian", 1), ("laplace", 1), ("top_k", 2), ("normal", None)):
                stack.enter_context(mock.patch.object(source, name, _weaker(getattr(source, name), position, factor)))
        yield


def _weaker(sampler: Callable[..., Any], position: int | None, factor: float) -> Callable[..., Any]:
    def sample(self: Any, *args: Any) -> Any:
        if position is None:  # the noise itself, not a scale
            return factor * sampler(self, *args)
        return sampler(self, *(a * factor if k == position else a for k, a in enumerate(args)))

    return sample
