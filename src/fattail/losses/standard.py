"""The losses of this library, whose promises are proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from .base import Floats, Loss, Promise


@dataclass(frozen=True)
class Squared(Loss):
    """``(z - y)^2 / 2``: its minimizer is the conditional mean.

    Examples
    --------
    >>> Squared().derivative(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    promise = Promise(curvature=1.0, canonical=True)

    def value(self, z: Floats, y: Any) -> Floats:
        return np.asarray(0.5 * (z - y) ** 2)

    def derivative(self, z: Floats, y: Any) -> Floats:
        return np.asarray(z - y, dtype=np.float64)

    def second(self, z: Floats, y: Any) -> Floats:
        return np.ones_like(z)

    def scaled(self, size: float, level: float = 0.0) -> Loss:
        return self


# A threshold must stay positive when the unit of the response is huge.
_LEAST_THRESHOLD = 1e-300


@dataclass(frozen=True)
class Huber(Loss):
    """Squared within ``threshold`` of the response, linear beyond.

    Examples
    --------
    >>> Huber(1.5).derivative(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
    array([1.5, 0. ])
    """

    threshold: float = 1.0

    def __post_init__(self) -> None:
        if not self.threshold > 0:
            raise ValueError(f"threshold must be positive, got {self.threshold!r}")

    @property
    def promise(self) -> Promise:
        return Promise(curvature=1.0, slope=self.threshold)

    def value(self, z: Floats, y: Any) -> Floats:
        r = np.abs(z - y)
        return np.asarray(np.where(r <= self.threshold, 0.5 * r**2, self.threshold * (r - 0.5 * self.threshold)))

    def derivative(self, z: Floats, y: Any) -> Floats:
        return np.asarray(np.clip(z - y, -self.threshold, self.threshold))

    def second(self, z: Floats, y: Any) -> Floats:
        return np.asarray(np.abs(z - y) <= self.threshold, dtype=np.float64)

    def scaled(self, size: float, level: float = 0.0) -> Loss:
        return Huber(max(self.threshold / size, _LEAST_THRESHOLD))


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(z)) - y z`` for labels 0 and 1.

    Examples
    --------
    >>> Logistic().derivative(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    promise = Promise(curvature=0.25, slope=1.0, target="labels", response=expit, canonical=True)

    def value(self, z: Floats, y: Any) -> Floats:
        return np.asarray(np.logaddexp(0.0, z) - y * z)

    def derivative(self, z: Floats, y: Any) -> Floats:
        return np.asarray(expit(z) - y, dtype=np.float64)

    def second(self, z: Floats, y: Any) -> Floats:
        p = expit(z)
        return np.asarray(p * (1.0 - p))


OWN = (Squared, Huber, Logistic)
"""Losses whose promises are proved; subclasses are excluded."""
