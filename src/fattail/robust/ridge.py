"""Regularised descent on few columns, whose sensitivity does not depend on how far it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.data import Block, PrivateData
from fattail.losses import Loss
from fattail.privacy.bounded import Bounded
from fattail.robust.base import check_scale
from fattail.robust.clip import Clip

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RidgeDescent:
    """``n_iter`` gradient steps from 0 on mean loss plus ``penalty / 2 |theta|^2``, features clipped.

    Parameters
    ----------
    loss : Loss
        Convex, with a bounded slope and a bounded second derivative.
    columns : array of int
        Public choice of columns.
    feature_clip : float
        Features are clipped to this magnitude.
    penalty : float
    n_iter : int
    level : float
        Fixed intercept.

    Notes
    -----
    *Privacy.* A step contracts distances by ``1 - step penalty``, and a replaced row adds at
    most ``2 step slope sqrt(s) feature_clip / n`` to them, so after any number of steps the
    iterates are within ``2 slope sqrt(s) feature_clip / (n penalty)``. No minimum need be
    reached. Proof: ``ridge.proof.md``.
    """

    loss: Loss
    columns: NDArray[np.intp]
    feature_clip: float
    penalty: float
    n_iter: int = 100
    level: float = 0.0

    def __post_init__(self) -> None:
        for name in ("feature_clip", "penalty"):
            check_scale(name, getattr(self, name))
        if not (math.isfinite(self.loss.slope) and math.isfinite(self.loss.curvature)):
            raise ValueError("the loss must have a bounded slope and a bounded second derivative")

    def fit(self, data: PrivateData, public: Floats | None = None) -> Bounded:
        """Coefficients of the chosen columns, or the predictions they give for ``public`` rows; unreleased."""
        s, K, G = self.columns.size, self.feature_clip, self.loss.slope
        smooth = self.loss.curvature * s * K**2 + self.penalty
        step = 2 / (smooth + self.penalty)
        bound = Clip(bound=G * K)
        theta = np.zeros(s)
        for _ in range(self.n_iter):

            def pull(block: Block, at: Floats = theta) -> tuple[Any, Floats]:
                Z = self._columns(block)
                slope = self.loss.derivative(_kernels.dot(Z, at) + self.level, block.y)
                return Z, np.clip(np.where(np.isnan(slope), 0.0, slope), -G, G)

            mean = bound.mean(data, pull, width=s)
            theta = theta - step * (mean.unit * mean._value + self.penalty * theta)
        rounding = 2.0**-50 * data.n * (data.n + s**2 * smooth / self.penalty) + data.n * 2.0**-31
        sensitivity = 2 * G * math.sqrt(s) * K / (data.n * self.penalty) * (1 + rounding)
        if public is None:
            return Bounded(theta, sensitivity, "l2")
        stretch = float(np.linalg.norm(public, 2)) * (1 + 1e-9)  # a linear map stretches by its largest singular value
        return Bounded(public @ theta, sensitivity * stretch, "l2")

    def _columns(self, block: Block) -> Any:
        Z = block.X[:, self.columns]
        K = self.feature_clip
        if hasattr(Z, "toarray"):
            Z.data = np.clip(np.where(np.isnan(Z.data), 0.0, Z.data), -K, K)
            return Z
        return np.clip(np.where(np.isnan(Z), 0.0, Z), -K, K)
