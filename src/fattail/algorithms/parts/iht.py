"""Common parts of the papers' iterative hard-thresholding methods: units, peeling, and the loop.

The papers assume that features and responses have about unit size. If the user gives no clips, a tenth of the budget is spent
on the typical size of a feature and of the response.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fattail._kernels import Residual
from fattail.algorithms.parts.geometry import project_ball
from fattail.algorithms.parts.support_fit import center, center_plan, typical, typical_entry
from fattail.losses import Huber, Loss, Squared
from fattail.privacy import Bounded, Curator, Gaussian, Mechanism, TopK
from fattail.privacy.peeling import LaplacePeeling, LaplaceValues
from fattail.robust.base import Rows
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]
Gradient = Callable[[Floats, Any], Bounded]

UNITS = 0.03
"""Share of each of the three small releases that find units, relative to one for all steps; set by hand in the first version."""
RESIDUAL_ROOM = 1.5
"""Clip of residuals over their typical size; set by hand in the first version."""
PEEL, VALUES = 0.8, 0.2
"""Shares of the two Laplace steps as printed: one noise scale for both, so 4 to 1."""


@dataclass(frozen=True)
class Options:
    """Public parameters of the papers' sparse methods; None means the default.

    Attributes
    ----------
    sparsity : int
    n_iter : int or None
    step : float or None
        Multiple of the default step.
    feature_clip, response_clip : float or None
        Sizes beyond which features, and responses or residuals, are clipped.
    radius : float
        Coefficients are kept in this ball.
    splitting : bool
        Each step on its own rows, as printed; all rows at each step is better by sqrt(T).
    peeling : {"gumbel", "laplace"}
    fit_intercept : bool
        Fix the intercept at a private center of the response.
    """

    sparsity: int
    n_iter: int | None = None
    step: float | None = None
    feature_clip: float | None = None
    response_clip: float | None = None
    radius: float = math.inf
    splitting: bool = False
    peeling: str = "gumbel"
    fit_intercept: bool = True

    def folds(self, curator: Curator, n: int, n_iter: int) -> tuple[Any, ...]:
        """The rows of each step; None for all of them."""
        return curator.folds(n, n_iter) if self.splitting else (None,) * n_iter


@dataclass(frozen=True)
class SparseUnits:
    """Private sizes of features and responses, and the center of the responses, by three small releases."""

    options: Options
    loss: Loss

    entries: ClassVar[TopK] = TopK("typical feature", UNITS)
    size: ClassVar[TopK] = TopK("typical response", UNITS)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        o = self.options
        return (
            *((self.entries,) if o.feature_clip is None else ()),
            *(center_plan(self.loss) if o.fit_intercept else ()),
            *((self.size,) if self._buys_size else ()),
        )

    @property
    def _buys_size(self) -> bool:
        return self.options.response_clip is None and math.isinf(self.loss.slope)

    def find(self, curator: Curator, data: PrivateData) -> tuple[float, float, float]:
        """Clip of features, clip of residuals, intercept."""
        o = self.options
        K = o.feature_clip
        if K is None:
            ones = np.ones(data.d)
            K = 2 * typical(curator, self.entries, data, lambda b: typical_entry(b, ones), 0.5)
        level = center(curator, data, self.loss, center_plan(self.loss)) if o.fit_intercept else 0.0
        tau = o.response_clip if o.response_clip is not None else self.loss.slope
        if self._buys_size:
            tau = RESIDUAL_ROOM * typical(
                curator, self.size, data, lambda b: self.loss.derivative(np.full(len(b), level), b.y), 0.5
            )
        return float(K), float(tau), level


def residual_rows(loss: Loss, w: Floats, level: float) -> Rows:
    """Gradient rows of a linear model, as (rows, derivative of the loss)."""
    if type(loss) in (Squared, Huber):  # residuals are computed while the rows are summed
        return lambda b: (b.X, Residual(w, np.asarray(b.y), level, loss.slope))
    return lambda b: (b.X, loss.derivative(b.dot(w) + level, b.y))


@dataclass(frozen=True)
class Peeling:
    """Private top-s selection and release (tao2022 Algorithm 4, tian2025 Algorithm 2)."""

    select: Mechanism
    release: Mechanism

    @classmethod
    def planned(cls, options: Options, n_iter: int, share: float = 1.0) -> Peeling:
        s, count, folds = options.sparsity, n_iter, options.splitting
        if options.peeling == "laplace":  # one noise scale for both steps, as printed: shares 4 to 1
            return cls(
                LaplacePeeling("support", PEEL * share, count=count, folds=folds, k=s),
                LaplaceValues("coefficients", VALUES * share, count=count, folds=folds, k=s),
            )
        return cls(
            TopK("support", 0.5 * share, count=count, folds=folds, k=s),
            Gaussian("coefficients", 0.5 * share, count=count, folds=folds),
        )

    def __call__(self, curator: Curator, v: Bounded) -> Floats:
        w = np.zeros(v.size)
        chosen = np.sort(curator.select(self.select, v.magnitudes()))
        w[chosen] = curator.release(self.release, v[chosen].to(self.release.norm))
        return w


def hard_thresholding(
    curator: Curator, peeling: Peeling, gradient: Gradient, d: int, steps: Iterable[tuple[float, Any]], radius: float
) -> Floats:
    """``w <- project(peel(w - step * gradient))`` over (step, fold) pairs."""
    w = np.zeros(d)
    for step, fold in steps:
        w = project_ball(peeling(curator, w - step * gradient(w, fold)), radius)
    return w
