"""Attacks on our own claims.

Two kinds. *Replay* runs a fit on a dataset and on its neighbour, feeding the second run the
releases of the first, and compares every unreleased value with its declared sensitivity:
exact, and blind to nothing that passes the curator. *Lower bounds* run a fit many times on
two neighbours and turn the accuracy of a distinguisher into an epsilon that the truth
exceeds with a stated confidence. The distinguisher may see the fitted numbers (`attack`), or
all that the claim covers (`transcript_attack`): every release, each weighed by its likelihood
under either dataset, which no other attack on these two datasets can beat.
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
from scipy import special, stats

from fattail.privacy import (
    Bounded,
    Curator,
    Gaussian,
    Laplace,
    Mechanism,
    PrivacyReport,
    SmoothBounded,
    SmoothNoise,
    TopK,
    delta_of,
    epsilon_of,
)
from fattail.privacy import events as _events
from fattail.privacy.noise import SecureNoise, SeededNoise

Dataset = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class Step:
    """How one release fared: the observed change as a fraction of the declared sensitivity."""

    name: str
    ratio: float
    rho: float = 0.0
    """The release's budget, in zero-concentrated DP."""


def moved(steps: list[Step]) -> float:
    """How much of a fit's budget a pair of neighbours uses: 1 if every release moves by all that it may."""
    total = sum(step.rho for step in steps)
    return math.sqrt(sum(step.rho * step.ratio**2 for step in steps) / total) if total else 0.0


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
    return [Step(r.mechanism.name, _difference(r.ours, r.theirs), r.rho) for r in _releases(fit, data, neighbour)]


@dataclass(frozen=True)
class _Release:
    """One release of a fit of some data, and what the neighbour would have put in its place."""

    mechanism: Mechanism
    rho: float
    ours: Bounded
    theirs: Bounded
    output: NDArray[Any]


def _releases(fit: Callable[..., Any], data: Dataset, neighbour: Dataset) -> list[_Release]:
    record: list[tuple[Mechanism, float, Bounded, Any]] = []
    release = Curator.release

    def first(self: Curator, mechanism: Mechanism, bounded: Bounded) -> NDArray[Any]:
        output = release(self, mechanism, bounded)
        record.append((mechanism, self.rho(mechanism), bounded, output))
        return output

    both: list[_Release] = []

    def second(self: Curator, mechanism: Mechanism, bounded: Bounded) -> NDArray[Any]:
        release(self, mechanism, bounded)  # same checks, same counters
        if len(both) >= len(record) or record[len(both)][0] != mechanism:
            raise AssertionError(f"release {len(both)} depends on the data: {mechanism.name!r}")
        _, rho, before, output = record[len(both)]
        both.append(_Release(mechanism, rho, before, bounded, output))
        return output.copy()  # type: ignore[no-any-return]

    with mock.patch.object(Curator, "release", first):
        fit(*data)
    with mock.patch.object(Curator, "release", second):
        fit(*neighbour)
    if len(both) < len(record):
        raise AssertionError("the number of releases depends on the data")
    return both


def privacy_loss(fit: Callable[..., Any], data: Dataset, neighbour: Dataset) -> float:
    """Log of how much likelier the releases of one fit of ``data`` were under ``data`` than under ``neighbour``.

    Everything that the curator lets out is weighed, as an onlooker (`fattail.progress.watch`) who
    knows both datasets would: the strongest attack on this pair, by the lemma of Neyman and Pearson.
    """
    return float(sum(_log_odds(r) for r in _releases(fit, data, neighbour)))


def _log_odds(r: _Release) -> float:
    if not math.isfinite(_difference(r.ours, r.theirs)):
        return math.inf  # what must be public differs
    if type(r.mechanism) not in (Gaussian, Laplace, TopK, SmoothNoise):
        raise NotImplementedError(f"likelihood of {r.mechanism.kind} releases")
    if isinstance(r.mechanism, TopK):
        return _log_picks(r, r.ours) - _log_picks(r, r.theirs)
    noisy = (r.output - r.ours.offset) / r.ours.unit
    ours, theirs = (noisy - b._value for b in (r.ours, r.theirs))
    if isinstance(r.mechanism, SmoothNoise):
        return _log_smooth(r, ours, r.ours) - _log_smooth(r, theirs, r.theirs)
    scale = r.mechanism.noise(r.rho, r.ours.raw_sensitivity)
    assert scale is not None
    if r.mechanism.norm == "l2":
        return float(np.sum((theirs - ours) * (theirs + ours))) / (2 * scale**2)
    return float(np.sum(np.abs(theirs) - np.abs(ours))) / scale


def _log_picks(r: _Release, bounded: Bounded) -> float:
    """Log-probability of a selection in its order."""
    real = bounded.evaluated()
    scale = r.mechanism.noise(r.rho, real.raw_sensitivity)
    assert scale is not None
    weight = real._value.ravel() / (scale * (0.5 if bounded.monotone else 1.0))
    total = 0.0
    for pick in r.output.astype(np.intp):
        total += float(weight[pick] - special.logsumexp(weight))
        weight[pick] = -math.inf
    return total


def _log_smooth(r: _Release, noise: NDArray[Any], bounded: Bounded) -> float:
    """Log-density of noise in proportion to a smooth sensitivity."""
    assert isinstance(bounded, SmoothBounded) and isinstance(r.mechanism, SmoothNoise)
    width, _, per_epsilon = r.mechanism._constants
    scale = bounded._smooth.ravel() / (per_epsilon * r.mechanism._epsilon(r.rho))
    z = np.arcsinh(width * noise.ravel() / scale) / width
    return float(np.sum(-(z**2) / 2 - np.log(np.cosh(width * z)) - np.log(scale)))


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
    gap : float
        How far the attack's error rates lie below what the claimed events allow at any epsilon, not
        only the nominal one; NaN without events. A positive gap refutes the claim, for any mechanism.
    trials : int
        Runs per dataset on which the bound rests.
    """

    epsilon: float
    gaussian_epsilon: float
    delta: float
    confidence: float
    trials: int
    gap: float = math.nan

    @property
    def refutes(self) -> bool:
        return self.gap > 0


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
    return lower_bound_of_scores(ours @ direction, theirs @ direction, train=half, delta=delta, confidence=confidence)


def lower_bound_of_scores(
    ours: NDArray[Any],
    theirs: NDArray[Any],
    *,
    train: int,
    delta: float,
    confidence: float = 0.95,
    events: tuple[_events.Event, ...] = (),
) -> LowerBound:
    """Lower bound from one number per run, larger where the neighbour is likelier.

    The first ``train`` runs choose thresholds, the others measure error rates.
    """
    curve = _tradeoff(events) if events else None

    def bounds(cut: float, s0: NDArray[Any], s1: NDArray[Any]) -> tuple[float, float, float]:
        # One-sided limits at half the risk each: both error rates are below with the confidence.
        level = 1 - (1 - confidence) / 2
        rates = []
        for errors, runs in ((np.sum(s0 > cut), len(s0)), (np.sum(s1 <= cut), len(s1))):
            rates.append(1.0 if errors == runs else float(stats.beta.ppf(level, errors + 1, runs - errors)))
        alpha, beta = rates
        pure = max(_log_ratio(1 - delta - beta, alpha), _log_ratio(1 - delta - alpha, beta))
        mu = max(float(stats.norm.isf(alpha) - stats.norm.ppf(beta)), 0.0)
        return pure, mu, curve(alpha) - beta if curve else math.nan

    half = min(len(ours), len(theirs))
    train0, train1 = np.sort(ours[:train]), np.sort(theirs[:train])
    test0, test1 = ours[train:half], theirs[train:half]
    cuts = np.unique(np.concatenate([train0, train1])[:: max(1, train // 100)])
    trained = np.array([bounds(c, train0, train1) for c in cuts])
    pure, mu, gap = (bounds(float(cuts[int(np.argmax(t))]), test0, test1)[k] for k, t in enumerate(trained.T))
    gaussian = epsilon_of([_events.Gaussian(1 / mu)], delta) if mu > 1e-6 else 0.0
    return LowerBound(max(pure, 0.0), gaussian, delta, confidence, half - train, gap)


def _log_ratio(top: float, bottom: float) -> float:
    return math.log(top / bottom) if top > 0 and bottom > 0 else -math.inf


def _tradeoff(events: tuple[_events.Event, ...]) -> Callable[[float], float]:
    """Smallest false-negative rate that the events' whole (epsilon, delta) curve allows at a false-positive rate."""
    epsilons = np.concatenate([[0.0], np.geomspace(1e-3, 30.0, 60)])
    deltas = np.array([delta_of(events, float(e)) for e in epsilons])
    powers = np.exp(epsilons)
    return lambda alpha: float(max(0.0, np.max(1 - deltas - powers * alpha), np.max((1 - deltas - alpha) / powers)))


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


def transcript_attack(
    make: Callable[[int], Any],
    data: Dataset,
    neighbour: Dataset,
    *,
    runs: int = 600,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> LowerBound:
    """Bound epsilon from below by the likelihood ratio of everything that fits release.

    Parameters
    ----------
    make : callable
        ``make(seed)`` gives an estimator that has not been fitted.
    data, neighbour : tuples of arrays
        Arguments of ``fit``, the same but for one row.
    runs : int
        Fits per dataset, of which a third choose the threshold.

    Returns
    -------
    LowerBound
        ``gap`` compares with the events of the estimator's own report.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> from fattail import audit
    >>> ours, theirs = (np.concatenate([[[row]], np.zeros((30, 1))]) for row in (1e9, -1e9))
    >>> def make(seed):
    ...     return fattail.DPMean(1.0, 1e-5, "truncated", random_state=seed, moment_bound=1.0)
    >>> audit.transcript_attack(make, (ours,), (theirs,), runs=300).refutes
    False
    >>> with audit.weakened(0.5):
    ...     audit.transcript_attack(make, (ours,), (theirs,), runs=300).refutes
    True
    """
    reports: list[PrivacyReport] = []
    scores = []
    for ours, theirs, first, sign in ((data, neighbour, 0, -1.0), (neighbour, data, runs, 1.0)):
        losses = []
        for seed in range(first, first + runs):

            def fit(*arrays: Any, seed: int = seed) -> None:
                reports[:] = [make(seed).fit(*arrays).privacy_]

            losses.append(sign * privacy_loss(fit, ours, theirs))
        scores.append(np.array(losses))
    events = reports[0].events
    return lower_bound_of_scores(scores[0], scores[1], train=runs // 3, delta=delta, confidence=confidence, events=events)


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
