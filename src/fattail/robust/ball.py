"""Clipping of whole rows to an l2 ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fattail import _kernels
from fattail.privacy.bounded import Norm
from fattail.robust.base import Factors, Floats, Robustifier, Sums, ball_range, check_scale


@dataclass(frozen=True)
class Ball(Robustifier):
    """Project rows to the l2 ball of ``radius`` around ``center``.

    Distance is measured after dividing each column by its ``scale``. Coordinates that are
    not finite count as ``center``.

    Notes
    -----
    *Privacy.* In units of ``scale``, two rows are at most ``2 radius`` apart in l2, so
    replacing one moves the mean by at most ``2 radius / n``, plus the rounding that
    ``ball_range`` counts. Proof: ``ball.proof.md``.
    """

    radius: float = 1.0
    scale: ArrayLike = 1.0

    def __post_init__(self) -> None:
        check_scale("radius", self.radius)
        check_scale("scale", self.scale)

    def _scale(self) -> ArrayLike:
        return np.asarray(self.scale, dtype=np.float64) * self.radius

    def _norm(self) -> Norm:
        return "l2"

    def _row_range(self, width: int) -> float:
        return ball_range(width)

    def _add(self, V: Any, r: Factors, center: Floats | None, inverse: Floats, out: Sums) -> None:
        _kernels.ball_sums(V, r, center, inverse, 1.0, out)
