"""From events to (epsilon, delta).

Three valid bounds are computed, and the best is taken:

* Gaussian DP, exact for any number of adaptive Gaussian releases; bounded-range and pure
  releases enter through the smallest Gaussian that dominates them.
* Concentrated (or, with subsampling, Renyi) DP with the conversion of Canonne, Kamath and
  Steinke (2020).
* Pure releases added up, the rest by one of the two above.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from scipy import optimize
from scipy.special import log_ndtr

from fattail.privacy.events import ORDERS, Cost, Event, total_cost

# Share of delta left for replacing a rounded Gaussian by one on the integers.
_DELTA_KEPT = 1 - 1e-6

# Only pure releases have delta = 0, so a delta that underflows is replaced by this.
_TINY = 5e-324


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Exact delta of a mu-Gaussian-DP release (Balle and Wang 2018, Theorem 8)."""
    if mu <= 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    a = float(log_ndtr(mu / 2 - epsilon / mu))
    b = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return _TINY if b >= a else max(math.exp(a) * -math.expm1(b - a), _TINY)


def concentrated_delta(epsilon: float, rho: float, renyi: tuple[float, ...] = ()) -> float:
    """Delta of a rho-zCDP release, with further Renyi divergences at ``ORDERS`` if given."""
    if math.isinf(rho):
        return 1.0
    if renyi:
        with np.errstate(over="ignore"):  # a delta that overflows is 1
            return min(1.0, max(float(np.exp(np.min(_log_delta(ORDERS, ORDERS * rho + np.array(renyi), epsilon)))), _TINY))
    if rho <= 0:
        return 0.0
    # The minimizer lies near (epsilon + rho) / (2 rho); any order gives a valid bound.
    center = max((epsilon + rho) / (2 * rho), 1 + 1e-6)
    best = optimize.minimize_scalar(
        lambda log_excess: float(_log_delta(1 + np.exp(log_excess), (1 + np.exp(log_excess)) * rho, epsilon)),
        bounds=(math.log(1e-6), math.log(50 * center)),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return max(math.exp(min(best.fun, 0.0)), _TINY)  # at most 1


def _log_delta(order: np.ndarray, divergence: np.ndarray, epsilon: float) -> np.ndarray:
    result: np.ndarray = (order - 1) * (divergence - epsilon) - np.log(order - 1) + order * np.log1p(-1 / order)
    return result


def _as_cost(spent: Cost | Iterable[Event]) -> Cost:
    return spent if isinstance(spent, Cost) else total_cost(spent)


def _routes(cost: Cost, epsilon: float) -> Iterator[float]:
    """Valid values of delta, the cheap and usually smallest ones first."""
    pure = epsilon - cost.pure_epsilon
    if not cost.rho and not cost.renyi:
        yield gaussian_delta(epsilon, math.sqrt(cost.mu2 + cost.pure_mu2))
        if cost.pure_epsilon and pure >= 0:
            yield gaussian_delta(pure, math.sqrt(cost.mu2))
    if cost.rho or cost.renyi or cost.pure_rho:
        yield concentrated_delta(epsilon, cost.mu2 / 2 + cost.pure_rho + cost.rho, cost.renyi)
        if cost.pure_epsilon and pure >= 0:
            yield concentrated_delta(pure, cost.mu2 / 2 + cost.rho, cost.renyi)


def delta_of(spent: Cost | Iterable[Event], epsilon: float) -> float:
    """Smallest delta for which the events are known to be (epsilon, delta)-DP."""
    cost = _as_cost(spent)
    if epsilon < cost.slack:
        return 1.0
    return min(1.0, cost.delta + min(_routes(cost, epsilon - cost.slack)) / _DELTA_KEPT)


def satisfies(spent: Cost | Iterable[Event], epsilon: float, delta: float) -> bool:
    """Whether the events are proved (epsilon, delta)-DP."""
    cost = _as_cost(spent)
    if epsilon < cost.slack:
        return False
    return any(cost.delta + route / _DELTA_KEPT <= delta for route in _routes(cost, epsilon - cost.slack))


def epsilon_of(spent: Cost | Iterable[Event], delta: float) -> float:
    """Smallest epsilon at the given delta, rounded to the safe side; infinite if there is none."""
    cost = _as_cost(spent)
    if satisfies(cost, 0.0, delta):
        return 0.0
    high = 1.0
    while not satisfies(cost, high, delta):
        high *= 2
        if high > 1e6:
            return math.inf
    low = high / 2 if high > 1 else 0.0
    for _ in range(60):
        mid = (low + high) / 2
        low, high = (low, mid) if satisfies(cost, mid, delta) else (mid, high)
        if high - low <= 1e-12 * high:
            break
    return high
