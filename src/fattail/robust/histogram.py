"""Counts of rows in public cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.privacy.bounded import Bounded
from fattail.robust.base import ONE, check_rows
from fattail.rows.data import Block, PrivateData
from fattail.rows.order import Fold


@dataclass(frozen=True)
class Histogram:
    """Number of rows per cell, for ``groups`` histograms of ``cells`` cells each.

    Notes
    -----
    *Privacy.* A row is in exactly one cell of each histogram, whatever its bits: cell numbers
    are clipped to the range and NaN counts as cell 0. Replacing a row moves two counts of a
    histogram by one, so all of them by ``sqrt(2 groups)`` in l2; counts are exact integers. Proof:
    ``histogram.proof.md``.
    """

    cells: int
    groups: int = 1

    def counts(self, data: PrivateData, codes: Callable[[Block], NDArray[Any]], fold: Fold | None = None) -> Bounded:
        """Bounded ``groups x cells`` counts.

        Parameters
        ----------
        data : PrivateData
        codes : callable
            Cell numbers of a block, of shape (rows, groups), as floats or integers.
        fold : Fold, optional
        """

        def partial(block: Block) -> NDArray[np.int64]:
            with np.errstate(all="ignore"):
                code = np.reshape(codes(block), (-1, self.groups))
                check_rows(block, code, None, self.groups)
            out = np.zeros((self.groups, self.cells), dtype=np.int64)
            _kernels.cell_counts(code, out)
            return ONE * out

        # In steps far finer than the noise, so that discrete Gaussian noise composes as a Gaussian.
        return Bounded(data._reduce(partial, fold), math.sqrt(2 * self.groups) * ONE, "l2", fold, unit=1.0 / ONE)
