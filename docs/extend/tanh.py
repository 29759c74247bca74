"""A custom robustifier: the hyperbolic tangent of each value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fattail.robust.base import ONE, Factors, Floats, Robustifier, Sums, check_scale
from fattail.robust.plain import plain_rows


@dataclass(frozen=True)
class Tanh(Robustifier):
    """Each value x becomes ``scale * tanh(x / scale)``; NaN counts as ``center``.

    Notes
    -----
    *Privacy.* ``tanh`` lies in [-1, 1], and the product with ``ONE`` is clipped to that range last, whatever the
    library's ``tanh`` returns. So replacing a row moves each coordinate of the integer sum by at most ``2 ONE``.
    """

    scale: ArrayLike = 1.0

    def __post_init__(self) -> None:
        check_scale("scale", self.scale)

    def _scale(self) -> ArrayLike:
        return self.scale

    def _add(self, V: Any, r: Factors, center: Floats | None, inverse: Floats, out: Sums) -> None:
        with np.errstate(all="ignore"):
            bounded = ONE * np.tanh(plain_rows(V, r, center, inverse))
        bounded = np.clip(np.where(np.isnan(bounded), 0.0, bounded), -ONE, ONE)
        out += np.rint(bounded).astype(np.int64).sum(axis=0)
