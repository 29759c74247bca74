"""Lower bounds on epsilon from many fits of two neighbors, and the mutants that they must catch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fattail.audit.likelihood import normal_draws, privacy_loss
from fattail.audit.replays import Dataset, ReplayedRelease, releases
from fattail.privacy import Bounded, SmoothNoise, delta_of, epsilon_of, events
from fattail.privacy.noise import SecureNoise, SeededNoise
from fattail.rows.order import SecretOrder


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
        Runs per dataset that the bound uses.
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


def lower_bound(
    ours: NDArray[Any],
    theirs: NDArray[Any],
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    claim: Sequence[events.Event] = (),
) -> LowerBound:
    """Lower bound on epsilon from outputs on a dataset and on its neighbor.

    Parameters
    ----------
    ours, theirs : arrays of shape (runs,) or (runs, ...)
        One number per run is a score, larger where the neighbor is more likely; several are released
        outputs. The first third chooses a direction for these and a threshold, the other runs
        measure their error rates, so no choice is tested on the runs that made it.
    delta : float
        The delta at which epsilon is bounded.
    confidence : float
        With which the bounds hold.
    claim : sequence of events
        What the error rates are compared with at any epsilon, for ``gap``.
    """
    half = min(len(ours), len(theirs))
    ours, theirs = (np.asarray(a[:half], dtype=np.float64) for a in (ours, theirs))
    train = half // 3
    if ours.ndim > 1:
        ours, theirs = _projected(ours.reshape(half, -1), theirs.reshape(half, -1), train)
    curve = tradeoff(claim) if claim else None

    def bounds(cut: float, s0: NDArray[Any], s1: NDArray[Any]) -> tuple[float, float, float]:
        # One-sided limits at half the risk each: both error rates are below their limits with the given confidence.
        level = 1 - (1 - confidence) / 2
        rates = []
        for errors, runs in ((np.sum(s0 > cut), len(s0)), (np.sum(s1 <= cut), len(s1))):
            rates.append(1.0 if errors == runs else float(stats.beta.ppf(level, errors + 1, runs - errors)))
        alpha, beta = rates
        pure = max(_log_ratio(1 - delta - beta, alpha), _log_ratio(1 - delta - alpha, beta))
        mu = max(float(stats.norm.isf(alpha) - stats.norm.ppf(beta)), 0.0)
        return pure, mu, curve(alpha) - beta if curve else math.nan

    first = np.sort(np.concatenate([ours[:train], theirs[:train]]))
    cuts = np.unique(first[:: max(1, train // 100)])
    trained = np.array([bounds(c, ours[:train], theirs[:train]) for c in cuts])
    chosen = [float(cuts[int(np.argmax(kind))]) for kind in trained.T]
    pure, mu, gap = (bounds(cut, ours[train:], theirs[train:])[k] for k, cut in enumerate(chosen))
    gaussian = epsilon_of([events.GaussianEvent(1 / mu)], delta) if mu > 1e-6 else 0.0
    return LowerBound(max(pure, 0.0), gaussian, delta, confidence, half - train, gap)


def _projected(ours: NDArray[Any], theirs: NDArray[Any], train: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Outputs along their shift over their variance, the best direction for independent Gaussian coordinates."""
    ours, theirs = (np.nan_to_num(a, posinf=1e300, neginf=-1e300) for a in (ours, theirs))
    center = np.median(ours[:train], axis=0)
    spread = np.maximum(np.median(np.abs(ours[:train] - center), axis=0), 1e-100)
    ours, theirs = (np.clip((a - center) / spread, -1e6, 1e6) for a in (ours, theirs))
    direction = np.median(theirs[:train], axis=0)
    return ours @ direction, theirs @ direction


def _log_ratio(top: float, bottom: float) -> float:
    return math.log(top / bottom) if top > 0 and bottom > 0 else -math.inf


def tradeoff(claim: Sequence[events.Event]) -> Callable[[float], float]:
    """Smallest false-negative rate that the events' whole (epsilon, delta) curve allows at a false-positive rate.

    Examples
    --------
    >>> from fattail.privacy import events
    >>> round(tradeoff([events.GaussianEvent(1.0)])(0.05), 3)  # an attack with 5 % false alarms misses three of four
    0.74
    """
    epsilons = np.concatenate([[0.0], np.geomspace(1e-3, 30.0, 60)])
    deltas = np.array([delta_of(claim, float(e)) for e in epsilons])
    powers = np.exp(epsilons)
    return lambda alpha: float(max(0.0, np.max(1 - deltas - powers * alpha), np.max((1 - deltas - alpha) / powers)))


def attack(
    run: Callable[[Dataset, int], NDArray[Any] | float], data: Dataset, neighbor: Dataset, *, runs: int = 2000, **bound: Any
) -> LowerBound:
    """Run a fit many times on two neighbors and bound its epsilon from below.

    Parameters
    ----------
    run : callable
        ``run(dataset, seed)`` gives the released numbers of one fit, or one score of them.
    data, neighbor : tuples of arrays
        The same arrays except for one row.
    runs : int
        Fits per dataset.
    **bound
        ``delta``, ``confidence`` and ``claim`` of `lower_bound`.
    """
    ours, theirs = (
        np.stack([np.asarray(run(rows, seed)) for seed in range(first, first + runs)])
        for rows, first in ((data, 0), (neighbor, runs))
    )
    return lower_bound(ours, theirs, **bound)


def transcript_attack(
    make: Callable[[int], Any], data: Dataset, neighbor: Dataset, *, runs: int = 600, **bound: Any
) -> LowerBound:
    """`attack` by the likelihood ratio of everything that fits release.

    Parameters
    ----------
    make : callable
        ``make(seed)`` gives an estimator that has not been fitted; its report is the claim.
        The attacker knows the order of the rows (`known_order`).
    data, neighbor, runs, **bound
        As for `attack`.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> from fattail import audit
    >>> ours, theirs = (np.concatenate([[[row]], np.zeros((30, 1))]) for row in (1e9, -1e9))
    >>> def make(seed):
    ...     return fattail.DPMean(epsilon=1.0, delta=1e-5, method="truncated", random_state=seed, moment_bound=1.0)
    >>> audit.transcript_attack(make, (ours,), (theirs,), runs=300).refutes
    False
    >>> with audit.weakened(0.5):
    ...     audit.transcript_attack(make, (ours,), (theirs,), runs=300).refutes
    True
    """

    def score(rows: Dataset, seed: int) -> float:
        other, sign = (neighbor, -1.0) if rows is data else (data, 1.0)
        return sign * privacy_loss(lambda *arrays: make(seed).fit(*arrays), rows, other)

    with known_order():
        claim = make(0).fit(*data).privacy_.events
        return attack(score, data, neighbor, runs=runs, claim=claim, **bound)


@contextlib.contextmanager
def known_order() -> Iterator[None]:
    """Make the secret order of rows that of the table, so that neighbors can be built against groups and folds.

    If a row is replaced in place, the claim holds given the order, so it also holds for an attacker who knows the order.
    """

    def in_place(order: SecretOrder, start: int, stop: int, purpose: bytes) -> NDArray[np.uint64]:
        return np.arange(start, stop, dtype=np.uint64) * np.uint64(2**63 // max(order.n, 1))

    with mock.patch.object(SecretOrder, "_drawn", in_place):
        yield


# Binary digits at which `lattice_attack` searches for the grid of a draw; finer ones are hidden by the rounding of a double.
_LATTICE_BITS = 44


def lattice_attack(make: Callable[[int], Any], data: Dataset, neighbor: Dataset, *, runs: int = 300, **bound: Any) -> LowerBound:
    """`attack` on noise of a private scale by the grid that its draws lie on.

    An attacker who knows a dataset can compute the normal draw from a release. A draw with finitely many bits lies on a grid
    under its own dataset and not under the neighbor, however similar the densities are.

    Parameters
    ----------
    make, data, neighbor, runs, **bound
        As for `transcript_attack`.
    """

    def score(rows: Dataset, seed: int) -> float:
        other, sign = (neighbor, 1.0) if rows is data else (data, -1.0)
        smooth = [r for r in releases(lambda *a: make(seed).fit(*a), rows, other) if isinstance(r.mechanism, SmoothNoise)]
        return sign * float(sum(_off_grid(r, r.ours) - _off_grid(r, r.theirs) for r in smooth))

    return attack(score, data, neighbor, runs=runs, **bound)


def _off_grid(r: ReplayedRelease, bounded: Bounded) -> float:
    """Mean distance of the draws to multiples of the grid: 0 on it, a quarter off it."""
    steps = normal_draws(r, bounded)[0] * 2.0**_LATTICE_BITS
    return float(np.mean(np.abs(steps - np.rint(steps))))


@contextlib.contextmanager
def coarse_draws(bits: int = 40) -> Iterator[None]:
    """Noise of a private scale from draws of so many bits, in floating point: a mutant that an audit must catch."""

    def smooth(self: Any, value: NDArray[Any], scale: NDArray[Any], width: float) -> NDArray[Any]:
        y = np.rint(np.random.default_rng().standard_normal(value.shape) * 2.0**bits) / 2.0**bits
        result: NDArray[Any] = value + scale * (np.sinh(width * y) / width if width else y)
        return result

    with contextlib.ExitStack() as stack:
        for source in (SecureNoise, SeededNoise):
            stack.enter_context(mock.patch.object(source, "smooth", smooth))
        yield


@contextlib.contextmanager
def weakened(factor: float = 0.5) -> Iterator[None]:
    """Multiply all noise by ``factor``: a mutant that an audit must catch. For tests only."""
    with contextlib.ExitStack() as stack:
        for source in (SecureNoise, SeededNoise):
            for name, position in (("gaussian", 1), ("laplace", 1), ("top_k", 2), ("smooth", 1)):
                stack.enter_context(mock.patch.object(source, name, _weaker(getattr(source, name), position, factor)))
        yield


def _weaker(sampler: Callable[..., Any], position: int, factor: float) -> Callable[..., Any]:
    def sample(self: Any, *args: Any) -> Any:
        return sampler(self, *(a * factor if k == position else a for k, a in enumerate(args)))

    return sample
