"""Losses of linear models, pointwise: they see a prediction and a response, never a row.

``derivative`` is taken with respect to the prediction ``z``. Bounds are public constants that
hold for every input; privacy never relies on them, since sums are bounded afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]


class Loss(Protocol):
    """What a method may ask of a loss."""

    @property
    def slope(self) -> float:
        """Largest absolute derivative; infinity if there is none."""

    @property
    def curvature(self) -> float:
        """Largest second derivative."""

    def value(self, z: Floats, y: Any) -> Floats: ...

    def derivative(self, z: Floats, y: Any) -> Floats: ...

    def second(self, z: Floats, y: Any) -> Floats: ...


@dataclass(frozen=True)
class Squared:
    """``(z - y)^2 / 2``: its minimiser is the conditional mean.

    Examples
    --------
    >>> Squared().derivative(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    slope: float = math.inf
    curvature: float = 1.0

    def value(self, z: Floats, y: Any) -> Floats:
        return np.asarray(0.5 * (z - y) ** 2)

    def derivative(self, z: Floats, y: Any) -> Floats:
        return np.asarray(z - y, dtype=np.float64)

    def second(self, z: Floats, y: Any) -> Floats:
        return np.ones_like(z)


@dataclass(frozen=True)
class Huber:
    """Squared within ``threshold`` of the response, linear beyond.

    Examples
    --------
    >>> Huber(1.5).derivative(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
    array([1.5, 0. ])
    """

    threshold: float = 1.0
    curvature: float = 1.0

    @property
    def slope(self) -> float:
        return self.threshold

    def value(self, z: Floats, y: Any) -> Floats:
        r = np.abs(z - y)
        return np.asarray(np.where(r <= self.threshold, 0.5 * r**2, self.threshold * (r - 0.5 * self.threshold)))

    def derivative(self, z: Floats, y: Any) -> Floats:
        return np.asarray(np.clip(z - y, -self.threshold, self.threshold))

    def second(self, z: Floats, y: Any) -> Floats:
        return np.asarray(np.abs(z - y) <= self.threshold, dtype=np.float64)


@dataclass(frozen=True)
class Logistic:
    """``log(1 + exp(z)) - y z`` for labels 0 and 1.

    Examples
    --------
    >>> Logistic().derivative(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    slope: float = 1.0
    curvature: float = 0.25

    def value(self, z: Floats, y: Any) -> Floats:
        return np.asarray(np.logaddexp(0.0, z) - y * z)

    def derivative(self, z: Floats, y: Any) -> Floats:
        return np.asarray(expit(z) - y, dtype=np.float64)

    def second(self, z: Floats, y: Any) -> Floats:
        p = expit(z)
        return np.asarray(p * (1.0 - p))
