"""The smoothed (Catoni-Giulini) mean of wang2020 eq. 12 and dpem2020 Theorem 2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fattail import _kernels
from fattail.privacy.bounded import Bounded, Norm
from fattail.robust import catoni
from fattail.robust.base import ONE, Factors, Floats, Robustifier, Sums, check_scale, per_person
from fattail.rows.data import Block, PrivateData
from fattail.rows.order import Fold


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

    def rows(self, data: PrivateData, norm: Norm, fold: Fold | None = None) -> Bounded:
        """The bounded rows themselves (n x d), for noise that is added row by row.

        Replacing a row changes that row only, by at most the range of one row.
        """
        center = np.broadcast_to(np.asarray(self.center, dtype=np.float64), (data.d,))
        scale = np.broadcast_to(np.asarray(self.scale, dtype=np.float64), (data.d,))
        beta, sup = self.beta, self._sup()

        def values(block: Block) -> NDArray[np.int64]:
            V, _ = per_person(block, block.X, None, center)
            X = V.toarray() if hasattr(V, "toarray") else V
            with np.errstate(all="ignore"):
                value = catoni.smooth((X - center) * (1.0 / scale), beta) * (ONE / sup)
            # The bound is enforced last, whatever the map returned.
            bounded = np.where(np.abs(value) <= ONE, value, np.where(np.isnan(value), 0.0, np.copysign(ONE, value)))
            return np.rint(bounded).astype(np.int64)

        width = {"l1": float(data.d), "l2": math.sqrt(data.d), "linf": 1.0}[norm]
        unit = np.broadcast_to(scale * (sup / ONE), (int(data.size(fold)), data.d))
        return Bounded(data._gather(values, fold), 2.0 * ONE * width, norm, fold, unit=unit, offset=center)

    def _scale(self) -> ArrayLike:
        return self.scale

    def _sup(self) -> float:
        return catoni.sup(self.beta)

    def _add(self, V: Any, r: Factors, center: Floats | None, inverse: Floats, out: Sums) -> None:
        _kernels.smooth_sums(V, r, center, inverse, catoni.smooth_map(self.beta), out)
