"""Gaussian noise scaled to a smooth sensitivity in l2 (Nissim, Raskhodnikova and Smith 2007), for every ratio of scales."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from fattail.privacy import events
from fattail.privacy.accountant import delta_of
from fattail.privacy.mechanisms import SmoothNoise

# Cells of the log ratio of scales; each costs dimensions times its width in epsilon.
_CELLS = 64
# Relative accuracy of the incomplete gamma function and of Poisson weights, and the largest mass of the tails that are cut off.
_ACCURACY, _CUT = 1e-9, 1e-30


def smooth_delta(epsilon: float, d: int, shift: float, log_scale: float) -> float:
    """Hockey-stick divergence of N(0, I) from N(shift e1, exp(2 log_scale) I) in d dimensions, rounded up.

    The set where the loss exceeds epsilon is a ball or its complement, so both probabilities are
    noncentral chi-square.
    """
    if log_scale == 0:
        return delta_of([events.GaussianEvent(1 / shift)], epsilon) if shift > 0 else 0.0
    inverse = math.exp(-2 * log_scale)
    a = 0.5 * math.expm1(-2 * log_scale)
    center = inverse * shift / (2 * a)
    radius2 = (epsilon - d * log_scale - inverse * shift**2 / 2 + a * center**2) / a
    if radius2 <= 0:
        return 0.0 if a < 0 else 1.0
    p = _ball(radius2, d, center**2, outside=a > 0)
    q = _ball(radius2 * inverse, d, (center - shift) ** 2 * inverse, outside=a > 0)
    return p * (1 + _ACCURACY) + _CUT - math.exp(epsilon) * q * (1 - _ACCURACY)


def _ball(radius2: float, d: int, noncentrality: float, outside: bool) -> float:
    """Noncentral chi-square probability as its Poisson mixture of central ones, all terms positive."""
    mean = noncentrality / 2
    reach = 12 * math.sqrt(mean) + 60
    j = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach) + 1)
    weights = np.exp(special.xlogy(j, mean) - mean - special.gammaln(j + 1))
    central = (special.gammaincc if outside else special.gammainc)(d / 2 + j, radius2 / 2)
    return float(weights @ central)


@lru_cache(maxsize=256)
def smooth_multiplier(epsilon: float, delta: float, d: int, smoothness: float) -> float:
    """Noise, in units of a ``smoothness``-smooth sensitivity, that is (epsilon, delta)-DP.

    Examples
    --------
    >>> round(smooth_multiplier(1.0, 1e-5, 10, 0.004), 1)
    4.0
    """
    step = 2 * smoothness / _CELLS
    left = smoothness * (np.arange(_CELLS) - _CELLS // 2) / (_CELLS // 2)

    def divergence(shift: float, log_scale: float) -> float:
        """Largest divergence over log ratios of scales within ``step`` above this one."""
        return smooth_delta(epsilon - d * step, d, shift * min(1.0, math.exp(log_scale + step)), log_scale)

    # The narrowest neighbor is the worst; all are checked at the end.
    low, high = 1e-9, 10.0
    while high > low * (1 + 1e-6):
        mid = math.sqrt(low * high)
        low, high = (mid, high) if divergence(mid, -smoothness) <= delta else (low, mid)
    while max(divergence(low, float(t)) for t in left) > delta:
        low *= 0.99
    return 1 / low


@dataclass(frozen=True)
class SmoothGaussian(SmoothNoise):
    """One release of a vector with Gaussian noise proportional to its smooth sensitivity in l2.

    ``delta`` is what the release spends of the plan's delta; its epsilon is ``sqrt(2 rho)``. The
    constants of the paper are valid and five times too large.
    """

    delta: float = 1e-7

    def _epsilon(self, rho: float) -> float:
        return math.sqrt(2 * rho)

    def smoothness(self, rho: float) -> float:
        return self._allowed(rho) - 2.0**-45

    def _allowed(self, rho: float) -> float:
        """The smoothness that the noise is calibrated for, which the rounding of a product leaves below."""
        return self._epsilon(rho) / (4 * (self.coordinates + math.log(2 / self.delta)))

    def validate(self, rho: float) -> None:
        super().validate(rho)
        if not 1e-20 <= self.delta < 1:
            raise ValueError(f"{self.name!r} needs a delta of at least 1e-20, got {self.delta:g}")

    def _event(self, rho: float, count: int) -> events.Event:
        return events.Approximate(self._epsilon(rho), self.delta, count)

    @property
    def width(self) -> float:
        return 0.0

    def multiplier(self, rho: float) -> float:
        # A rounded-down epsilon keeps the cache small and errs on the safe side.
        epsilon = math.floor(self._epsilon(rho) * 1e6) / 1e6
        return (1 + 2.0**-40) * smooth_multiplier(epsilon, self.delta, self.coordinates, self._allowed(rho))
