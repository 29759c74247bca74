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
    """Number of rows (of persons) per cell, for ``groups`` histograms of ``cells`` cells each.

    A person with rows in several cells counts in each by their share of rows there.

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

        # In steps far finer than the noise, so that discrete Gaussian noise composes as a Gaussian.
        total = _total(data, (self.groups, self.cells), codes, None, ONE, fold)
        return Bounded(total, math.sqrt(2 * self.groups) * ONE, "l2", fold, unit=1.0 / ONE)


Codes = Callable[[Block], NDArray[Any]]
Count = Callable[[Block, NDArray[np.int64]], None]

# Parts into which a person is divided for a selection: few, so that sums with ranks and weights of 20 binary digits are exact.
PARTS = 1 << 10


def totals(
    data: PrivateData, shape: tuple[int, int], codes: Codes, fold: Fold | None = None, *, count: Count | None = None
) -> NDArray[Any]:
    """Exact numbers of rows (of persons) in the cells of ``shape[0]`` histograms, for a selection; private.

    Parameters
    ----------
    data : PrivateData
    shape : tuple of int
        Histograms, and cells of each.
    codes : callable
        Cell numbers of a block, of shape (rows, histograms).
    fold : Fold, optional
    count : callable
        Adds a block of persons with one row each to counts, where that is faster by other means than by codes.

    Returns
    -------
    array of integers, or of multiples of ``1 / PARTS`` where persons have several rows
        A person adds 1 in all to each histogram.
    """
    if not data.has_several_rows:
        return _total(data, shape, codes, count, 1, fold)
    return _total(data, shape, codes, count, PARTS, fold) / PARTS


def fixed(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Totals as integers, in units of ``1 / ONE``."""
    return np.asarray(ONE * counts).astype(np.int64)


def _total(
    data: PrivateData, shape: tuple[int, int], codes: Codes, count: Count | None, unit: int, fold: Fold | None
) -> NDArray[np.int64]:
    def partial(block: Block) -> NDArray[np.int64]:
        out = np.zeros(shape, dtype=np.int64)
        if count is not None and block.starts is None:
            count(block, out)
            return unit * out
        with np.errstate(all="ignore"):
            code = np.reshape(codes(block), (-1, shape[0]))
            check_rows(block, code, None, shape[0])
        if block.starts is None:
            _kernels.cell_counts(code, out)
            return unit * out
        _kernels.person_cells(code, block.starts, unit, out)
        return out

    return data._reduce(partial, fold)
