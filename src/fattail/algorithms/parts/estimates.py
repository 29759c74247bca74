"""A mean with its errors, and the noise that a mean of d columns gets."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fattail.columns.plan import pure_is_better
from fattail.privacy import Curator, Gaussian, Laplace

Floats = NDArray[np.float64]
Noise = Laplace | Gaussian

NORMAL = float(ndtri(0.975))
"""Turns the two-sided bounds at 95 % of a description into standard deviations."""

_NARROWEST, _RELATIVE = 2.0**-140, 2.0**-50  # least bound, and least bound over the magnitude of what it bounds


class Estimate(NamedTuple):
    """A mean and, where they are known, its errors per column, for an interval."""

    value: Floats
    noise: Floats | None = None
    """Standard deviation of the noise."""
    spread: Floats | None = None
    """Standard deviation of everything else (sampling, and the known part of the bias): per column, or below and above each."""
    laplace: bool = False
    """The noise is of the Laplace, not the normal law."""

    def interval(self, confidence: float) -> Floats:
        """Normal quantile of the spread and exact quantile of the noise, added in squares; NaN if unknown."""
        if self.noise is None or self.spread is None:
            return np.full((len(self.value), 2), np.nan)
        normal = float(ndtri((1 + confidence) / 2))
        quantile = -math.log1p(-confidence) / math.sqrt(2) if self.laplace else normal
        spread = np.reshape(self.spread, (len(self.value), -1))
        half = np.sqrt((normal * spread) ** 2 + (quantile * self.noise[:, None]) ** 2)
        return np.asarray(self.value[:, None] + np.array([-1.0, 1.0]) * half)


def additive(name: str, d: int, epsilon: float, delta: float, share: float = 1.0) -> Noise:
    """Laplace noise for few columns, Gaussian noise for many: whichever is smaller."""
    return Laplace(name, share) if pure_is_better(d, epsilon, delta) else Gaussian(name, share)


def noise_std(curator: Curator, mechanism: Noise, sensitivity: float) -> float:
    """Standard deviation of the noise that a release with this sensitivity gets."""
    return curator.noise(mechanism, sensitivity) * (math.sqrt(2) if isinstance(mechanism, Laplace) else 1.0)


def positive_bound(bound: Floats, magnitude: Floats) -> Floats:
    """The bound, at least the rounding error of numbers of this magnitude: it scales the noise, so it must be positive."""
    return np.maximum(bound, np.maximum(magnitude * _RELATIVE, _NARROWEST))


def per_column(mechanism: Noise, d: int) -> float:
    """Sensitivity of d columns together when each alone has 1."""
    return float(d) if mechanism.norm == "l1" else math.sqrt(d)
