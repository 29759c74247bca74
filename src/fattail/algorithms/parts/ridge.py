"""Regularized descent on few columns, with a sensitivity that does not depend on the number of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.losses import Huber, Logistic, Loss, Needs
from fattail.privacy.bounded import Bounded
from fattail.robust.base import check_scale
from fattail.robust.clip import Clip
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

# The sensitivity needs a derivative that never decreases and increases no faster than the curvature. Clipping cannot enforce
# that, because common rows are evaluated at two different coefficients, so it must be proved.
NEEDS = Needs(slope=True, only=(Huber, Logistic), because="since its privacy rests on a proved curvature")
FARTHEST_LEVEL = 1e3  # bound of log-odds, up to which the rounding of predictions is accounted for


ROUNDING = 1e-9
"""Relative error of a computed singular value: far above the rounding error for matrices that fit into memory."""


@dataclass(frozen=True)
class RidgeDescent:
    """``n_iter`` gradient steps from 0 on mean loss plus ``penalty / 2 |theta|^2``, features clipped.

    Parameters
    ----------
    loss : Huber or Logistic
        Of finite slope. No other loss, nor a subclass: the sensitivity depends on their curvature.
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
        NEEDS.check(self.loss, "RidgeDescent")
        check_scale("slope times feature_clip", self.loss.slope * self.feature_clip)
        if not math.isfinite(self.level) or (isinstance(self.loss, Logistic) and abs(self.level) > FARTHEST_LEVEL):
            raise ValueError(f"level must be finite, and log-odds within {FARTHEST_LEVEL:g}, got {self.level!r}")

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
                slope = self._slope(_kernels.dot(Z, at), block.y)
                return Z, np.clip(np.where(np.isnan(slope), 0.0, slope), -G, G)

            mean = bound.mean(data, pull, width=s)
            theta = theta - step * (mean.unit * mean._value + self.penalty * theta)
        # Terms, averages of terms, predictions.
        rounding = data.n * (2.0**-30 + 2.0**-32 + 2.0**-49 * s**2 * smooth / self.penalty)
        sensitivity = 2 * G * math.sqrt(s) * K / (data.n * self.penalty) * (1 + rounding)
        if public is None:
            return Bounded(theta, sensitivity, "l2")
        # A linear map increases distances by at most its largest singular value.
        stretch = float(np.linalg.norm(public, 2)) * (1 + ROUNDING)
        return Bounded(public @ theta, sensitivity * stretch, "l2")

    def _slope(self, z: Floats, y: Any) -> Floats:
        """Derivative at the prediction ``z + level``.

        The level of a Huber loss is subtracted from the response: added to a prediction, it could round the prediction away,
        and a derivative with jumps is not a contraction.
        """
        if isinstance(self.loss, Huber):
            return self.loss.derivative(z, np.asarray(y, dtype=np.float64) - self.level)
        return self.loss.derivative(z + self.level, y)

    def _columns(self, block: Block) -> Any:
        """The chosen columns in double precision, each entry clipped; entries that CSR stores twice are added first."""
        Z, K = block.X[:, self.columns].astype(np.float64), self.feature_clip
        if hasattr(Z, "toarray"):
            Z.sum_duplicates()
            Z.data = np.clip(np.where(np.isnan(Z.data), 0.0, Z.data), -K, K)
            return Z
        return np.ascontiguousarray(np.clip(np.where(np.isnan(Z), 0.0, Z), -K, K))
