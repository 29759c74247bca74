"""The smallest noise that a planned set of releases needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from fattail.privacy.accountant import satisfies
from fattail.privacy.events import Event, GaussianEvent


def check_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Refuse an invalid budget, before any data are read."""
    epsilon, delta = _number("epsilon", epsilon), _number("delta", delta)
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be positive and finite, got {epsilon!r}")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta!r}")
    return epsilon, delta


def _number(name: str, value: Any) -> float:
    try:
        if not isinstance(value, bool) and hasattr(value, "__float__"):
            return float(value)
    except (TypeError, ValueError, OverflowError):  # an array, or an integer too large for a float
        pass
    raise ValueError(f"{name} must be a number, got {str(value)[:40]!r}")


def largest_rho(
    events: Callable[[float], Sequence[Event]],
    epsilon: float,
    delta: float,
    allowed: Callable[[Sequence[Event]], bool] = lambda _: True,
) -> float:
    """Largest ``rho`` for which ``events(rho)`` is (epsilon, delta)-DP and allowed, on the safe side.

    ``events`` maps a common budget, in units of zero-concentrated DP, to the releases it
    pays for; more budget must mean less noise. The answer is within 1e-10 of the largest.
    """
    epsilon, delta = check_budget(epsilon, delta)

    def small_enough(rho: float) -> bool:
        planned = events(rho)
        return satisfies(planned, epsilon, delta) and allowed(planned)

    low, high = -70.0, 20.0
    if not small_enough(math.exp(low)):
        raise ValueError(
            f"no amount of noise makes this plan (epsilon={epsilon:g}, delta={delta:g})-private: it needs delta > 0"
            if delta == 0
            else f"no amount of noise makes this plan (epsilon={epsilon:g}, delta={delta:g})-private"
        )
    while high - low > 1e-10:
        mid = (low + high) / 2
        low, high = (mid, high) if small_enough(math.exp(mid)) else (low, mid)
    return math.exp(low)


@lru_cache(maxsize=1024)
def gaussian_multiplier(epsilon: float, delta: float, count: int = 1) -> float:
    """Noise multiplier of each of ``count`` Gaussian releases.

    Examples
    --------
    >>> round(gaussian_multiplier(1.0, 1e-5), 3)
    3.731
    """
    rho = largest_rho(lambda r: [GaussianEvent(1 / math.sqrt(2 * r / count), count)], epsilon, delta)
    return 1 / math.sqrt(2 * rho / count)
