"""The smoothed (Catoni-Giulini) mean of wang2020 eq. 12 and dpem2020 Theorem 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fattail import _kernels
from fattail.robust import catoni
from fattail.robust.base import Robustifier, check_scale


@dataclass(frozen=True)
class Smooth(Robustifier):
    """Each value x becomes ``scale * g(x / scale)`` with the bounded, odd, increasing map g.

    g averages Catoni's cubic influence function over multiplicative normal noise of
    precision ``beta``; near zero it is the identity, and it never exceeds ``catoni.sup(beta)``.

    Notes
    -----
    *Privacy.* The map is clamped to its exact supremum M, so a coordinate of the mean moves
    by at most ``2 scale M / n``; accuracy of the map matters for utility only. Proof:
    ``smooth.proof.md``.
    """

    scale: ArrayLike = 1.0
    beta: float = 3.0

    def __post_init__(self) -> None:
        check_scale("scale", self.scale)
        check_scale("beta", self.beta)

    def _scale(self) -> ArrayLike:
        return self.scale

    def _sup(self) -> float:
        return catoni.sup(self.beta)

    def _add(
        self,
        V: Any,
        r: NDArray[np.float64] | None,
        center: NDArray[np.float64],
        inverse: NDArray[np.float64],
        out: NDArray[np.int64],
    ) -> None:
        _kernels.smooth_sums(V, r, center, inverse, catoni.table(self.beta), out)
