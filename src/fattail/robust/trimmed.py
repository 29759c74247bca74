"""Trimmed mean with its exact smooth sensitivity (wang2020 Algorithm 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fattail import _kernels
from fattail.privacy.mechanisms import SmoothBounded
from fattail.robust.base import Rows, check_scale, own_rows, per_person
from fattail.rows.data import Block, PrivateData
from fattail.rows.order import Fold

# Below this smoothness the global sensitivity is used, because rounding of the smooth one would matter.
_LEAST_SMOOTHNESS = 2.0**-16
# Bounds are clipped to this range, in which sums, differences and products with any noise scale keep their relative accuracy.
# The squares of both ends are normal floats.
_LEAST_BOUND, _LARGEST_BOUND = 1e-150, 1e150


@dataclass(frozen=True)
class Trimmed:
    """Mean of what is left after dropping the ``trim`` smallest and largest values of each column.

    Parameters
    ----------
    trim : int
        Values dropped at either end.
    bound : float or array with one number per column
        Values are clipped to ``[-bound, bound]`` first; it may be huge, since it enters the
        sensitivity only through terms that decay with ``trim``, and its last bits.
    smoothness : float
        The ``t`` of the smooth sensitivity, from the curator.

    Notes
    -----
    *Privacy.* ``S = max_k exp(-t k) LS_k`` over all k, with the exact largest local
    sensitivity at distance k, is the smallest t-smooth upper bound there is. The expression
    printed in the paper is not smooth and leaks an outlier outright. Needs all values of a
    column at once: memory n x d. Proof: ``trimmed.proof.md``.
    """

    trim: int
    bound: ArrayLike
    smoothness: float

    def __post_init__(self) -> None:
        check_scale("bound", self.bound)
        if self.trim < 0 or not self.smoothness > 0:
            raise ValueError(f"trim must be >= 0 and smoothness > 0, got {self.trim!r} and {self.smoothness!r}")

    def mean(self, data: PrivateData, rows: Rows = own_rows, fold: Fold | None = None) -> SmoothBounded:
        bound = np.clip(np.asarray(self.bound, dtype=np.float64), _LEAST_BOUND, _LARGEST_BOUND)

        def values(block: Block) -> NDArray[np.float64]:
            with np.errstate(all="ignore"):
                V, r = per_person(block, *rows(block))
                known = _kernels.factors(V, r)
                dense: Any = V.toarray() if hasattr(V, "toarray") else V
                x = np.asarray(dense, dtype=np.float64) if known is None else known[:, None] * dense
            # fmin and fmax ignore NaN, so NaN becomes the lower end.
            result: NDArray[np.float64] = np.fmax(np.where(np.isnan(x), -bound, np.fmin(x, bound)), -bound)
            return result

        columns = np.ascontiguousarray(data._gather(values, fold).T)
        n, m = columns.shape[1], self.trim
        if 2 * m >= n:
            raise ValueError(f"cannot trim {m} values at either end of {n} rows")
        centers = np.empty(len(columns))
        smooth = np.empty(len(columns))
        for j, (x, reach) in enumerate(zip(columns, np.broadcast_to(bound, len(columns)), strict=True)):
            x.partition(sorted({m, n - m - 1}))
            low, high = np.sort(x[: m + 1]), np.sort(x[n - m - 1 :])
            centers[j] = _kernels.exact_sum(x[m : n - m]) / (n - 2 * m)
            smooth[j] = self._smooth_sensitivity(low, high, reach) / (n - 2 * m)
        # Rounding may move the mean by its last bit, which can exceed the effect of a row. Adding a constant keeps S smooth.
        return SmoothBounded(centers, smooth * (1 + 2.0**-20) + 2.0**-51 * bound, self.smoothness, fold=fold)

    def _smooth_sensitivity(self, low: NDArray[np.float64], high: NDArray[np.float64], reach: float) -> float:
        """``n - 2m`` times the smooth sensitivity; its rounding stays within what is left of the smoothness."""
        if self.smoothness < _LEAST_SMOOTHNESS:
            return 2.0 * reach
        mantissa, exponent = math.frexp(self.smoothness * (1 - 2.0**-8))
        t = math.ldexp(math.floor(mantissa * 2.0**24), exponent - 24)
        return float(_kernels.smooth_sensitivity(low, high, t, -reach, reach))
