"""Poisson regression: a custom loss, and an estimator for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.estimators.linear import LinearRegressor
from fattail.losses import Loss, Promise

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Poisson(Loss):
    """``exp(z) - y z`` for counts y, continued by its parabola where the log-rate exceeds ``cap``.

    The continuation bounds the second derivative, which every method needs. Choose ``cap`` above the log-rates that you expect.
    """

    cap: float = 4.0

    @property
    def promise(self) -> Promise:
        return Promise(curvature=float(np.exp(self.cap)), target="nonnegative", response=self.rate, canonical=True)

    def rate(self, z: Floats) -> Floats:
        """Expected counts."""
        return np.exp(np.minimum(z, self.cap)) * (1 + np.maximum(z - self.cap, 0))

    def value(self, z: Floats, y: Any) -> Floats:
        beyond = np.maximum(z - self.cap, 0)
        return np.exp(np.minimum(z, self.cap)) * (1 + beyond + beyond**2 / 2) - y * z

    def derivative(self, z: Floats, y: Any) -> Floats:
        return self.rate(z) - y

    def second(self, z: Floats, y: Any) -> Floats:
        return np.exp(np.minimum(z, self.cap))


class DPPoisson(LinearRegressor):
    """Private Poisson regression."""

    def _loss(self) -> Loss:
        return Poisson()
