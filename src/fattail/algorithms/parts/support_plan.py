"""The releases of one fit on a support, and the sparse model that results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import Gaussian, Mechanism, TopK

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SCALE, MOMENTS = 0.012, 0.03  # shares of the budget, for a scale and for second moments


@dataclass(frozen=True)
class SparseFit:
    """A sparse model in the user's units, and its errors."""

    coef: Floats
    intercept: float
    errors: Floats | None = None
    """Standard errors of coefficients and intercept, infinite for columns that were not fitted."""
    hidden: Indices | None = None
    """Columns without a visible spread."""
    response_range: tuple[float, float] = (-math.inf, math.inf)
    """Range to which predictions are clipped."""

    @classmethod
    def of(cls, d: int, support: Indices, slopes: Floats, intercept: float, errors: Floats) -> SparseFit:
        """From the chosen columns; the last of the errors is the intercept's."""
        coef, spread = np.zeros(d), np.full(d + 1, math.inf)
        coef[support], spread[np.append(support, d)] = slopes, errors
        return cls(coef, intercept, spread, support[np.isinf(errors[:-1])])


@dataclass(frozen=True)
class FitPlan:
    """Releases of one fit on a chosen support; a rough one has gradients only."""

    gradients: tuple[Gaussian, ...]
    clip: TopK | None = None
    radius: TopK | None = None
    moments: Gaussian | None = None

    @classmethod
    def rough(cls, name: str, share: float, steps: tuple[float, ...]) -> FitPlan:
        return cls(tuple(Gaussian(f"{name}: gradient {t + 1}", share * a) for t, a in enumerate(steps)))

    @classmethod
    def measured(cls, name: str, share: float, steps: tuple[float, ...], size: float = SCALE) -> FitPlan:
        """Each selection of a size gets the share ``size``."""
        return cls(
            cls.rough(name, share, steps).gradients,
            TopK(f"{name}: clipping scale", 2 * size, count=2),
            TopK(f"{name}: row norm", size),
            Gaussian(f"{name}: second moments", MOMENTS),
        )

    @property
    def sizes(self) -> tuple[TopK, ...]:
        return tuple(m for m in (self.clip, self.radius) if m is not None)

    @property
    def values(self) -> tuple[Gaussian, ...]:
        return self.gradients if self.moments is None else (*self.gradients, self.moments)

    def __iter__(self) -> Iterator[Mechanism]:
        return (m for m in (*self.gradients, self.clip, self.radius, self.moments) if m is not None)
