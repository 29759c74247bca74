"""Gaussian noise scaled to a smooth sensitivity in l2 (Nissim, Raskhodnikova and Smith 2007), calibrated exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ncx2

from fattail.privacy import events
from fattail.privacy.accountant import delta_of
from fattail.privacy.bounded import Bounded
from fattail.privacy.mechanisms import SmoothBounded, SmoothNoise
from fattail.privacy.noise import NoiseSource

_MARGIN = 0.9  # of delta, for the accuracy of the tail probabilities


def smooth_delta(epsilon: float, d: int, shift: float, log_scale: float) -> float:
    """Hockey-stick divergence of N(0, I) from N(shift e1, exp(2 log_scale) I) in d dimensions.

    The set where the loss exceeds epsilon is a ball or its complement, so both probabilities are
    noncentral chi-square.
    """
    if abs(log_scale) < 1e-12:
        return delta_of([events.Gaussian(1 / shift)], epsilon) if shift > 0 else 0.0
    inverse = math.exp(-2 * log_scale)
    a = 0.5 * (inverse - 1)
    center = inverse * shift / (2 * a)
    radius2 = (epsilon - d * log_scale - inverse * shift**2 / 2 + a * center**2) / a
    if radius2 <= 0:
        return 0.0 if a < 0 else 1.0 - math.exp(epsilon)
    probability = ncx2.cdf if a < 0 else ncx2.sf
    p = probability(radius2, d, center**2)
    q = probability(radius2 * inverse, d, (center - shift) ** 2 * inverse)
    return float(p - math.exp(epsilon) * q)


@lru_cache(maxsize=256)
def smooth_multiplier(epsilon: float, delta: float, d: int, smoothness: float) -> float:
    """Smallest noise, in units of a ``smoothness``-smooth sensitivity, that is (epsilon, delta)-DP.

    Examples
    --------
    >>> round(smooth_multiplier(1.0, 1e-5, 10, 0.004), 1)
    4.0
    """

    def worst(shift: float) -> float:
        scales = np.linspace(-smoothness, smoothness, 9)
        return max(smooth_delta(epsilon, d, shift * min(1.0, math.exp(t)), t) for t in scales)

    low, high = 1e-9, 10.0
    for _ in range(50):
        mid = math.sqrt(low * high)
        low, high = (mid, high) if worst(mid) <= _MARGIN * delta else (low, mid)
    return 1 / low


@dataclass(frozen=True)
class SmoothGaussian(SmoothNoise):
    """One release of a vector with Gaussian noise proportional to its smooth sensitivity in l2.

    ``delta`` is what the release spends of the plan's delta; its epsilon is ``sqrt(2 rho)``. The
    constants of the paper are valid and five times too large; the exact ones are used.
    """

    delta: float = 1e-7

    def _epsilon(self, rho: float) -> float:
        return math.sqrt(2 * rho)

    def smoothness(self, rho: float) -> float:
        return self._epsilon(rho) / (4 * (self.coordinates + math.log(2 / self.delta)))

    def _event(self, rho: float, count: int) -> events.Event:
        return events.Approximate(self._epsilon(rho), self.delta, count)

    def sample(self, source: NoiseSource, bounded: Bounded, rho: float) -> NDArray[np.float64]:
        assert isinstance(bounded, SmoothBounded)
        # A rounded-down epsilon keeps the cache small and errs on the safe side.
        epsilon = math.floor(self._epsilon(rho) * 1e6) / 1e6
        multiplier = smooth_multiplier(epsilon, self.delta, self.coordinates, self.smoothness(rho))
        noise = bounded._smooth * (1 + 2.0**-40) * multiplier * source.normal(bounded.size)
        return np.asarray(bounded.offset + bounded.unit * (bounded._value + noise), dtype=np.float64)
