"""Second moments of rows projected to a ball, for preconditioners and spectral starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fattail import _kernels
from fattail.privacy.bounded import Bounded
from fattail.robust.base import ONE, Rows, check_rows, check_scale, own_rows
from fattail.robust.passes import sum_over_blocks
from fattail.rows.data import Block, PrivateData
from fattail.rows.order import Fold


@dataclass(frozen=True)
class Gram:
    """Mean of ``z z'`` over rows ``z = (row - center) / scale``, projected to the ball of norm ``radius``. Where a person has
    several rows, their terms are averaged: the result is a mean over persons of the mean of ``z z'``.

    The result is in units of ``scale``: multiply by ``outer(scale, scale)`` to undo that.

    Notes
    -----
    *Privacy.* Two outer products of vectors no longer than ``radius`` differ by at most
    ``sqrt(2) radius**2`` in Frobenius norm. The sums are exact: rows are rounded so that the
    matrix product works on integers. Only one triangle is released, its terms off the diagonal
    with 7/5 of the weight (a little less than ``sqrt(2)``), which keeps the norm: half the noise to
    sample for what averaging the matrix with its transpose would give. Proof: ``gram.proof.md``.
    """

    radius: float = 1.0
    scale: ArrayLike = 1.0
    center: ArrayLike = 0.0

    def __post_init__(self) -> None:
        check_scale("radius", self.radius)
        check_scale("scale", self.scale)

    def mean(self, data: PrivateData, rows: Rows = own_rows, fold: Fold | None = None, *, width: int | None = None) -> Bounded:
        """Bounded upper triangle of a ``width x width`` matrix; `symmetric` makes the matrix of its release."""
        width = data.d if width is None else width
        inverse = 1.0 / np.broadcast_to(np.asarray(self.scale, dtype=np.float64) * self.radius, (width,))
        center = np.broadcast_to(np.asarray(self.center, dtype=np.float64), (width,))
        i, j = np.triu_indices(width)
        weight = np.where(i == j, 5, 7)

        def partial(block: Block) -> NDArray[np.int64]:
            with np.errstate(all="ignore"):
                V, r = rows(block)
                check_rows(block, V, r, width)
            dense = V.toarray() if hasattr(V, "toarray") else V
            return weight * _kernels.exact_gram(dense, r, center, inverse, block.starts)[i, j]

        unit = self.radius**2 / (ONE * data.size(fold) * weight)
        # Adding or removing a row (person) adds or removes one term of norm at most 1. Two terms have a nonnegative inner
        # product, so they differ by at most sqrt(2).
        reach = 1.0 if data.swing < 1 else math.sqrt(2)
        return Bounded(sum_over_blocks(data, partial, fold), 5 * reach * ONE, "l2", fold, unit=unit)


def symmetric(triangle: NDArray[np.float64]) -> NDArray[np.float64]:
    """The symmetric matrix with this upper triangle, given row by row."""
    width = (math.isqrt(8 * triangle.size + 1) - 1) // 2
    matrix = np.empty((width, width))
    i, j = np.triu_indices(width)
    matrix[i, j] = matrix[j, i] = triangle
    return matrix
