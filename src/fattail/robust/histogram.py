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
from fattail.robust.passes import Partial, sum_over_blocks
from fattail.rows.data import Block, PrivateData
from fattail.rows.order import Fold


@dataclass(frozen=True)
class Histogram:
    """Number of rows (of persons) per cell, for ``groups`` histograms of ``cells`` cells each.

    A person with rows in several cells counts in each with the share of their rows there.

    Notes
    -----
    *Privacy.* A row is in exactly one cell of each histogram, whatever its bits: cell numbers
    are clipped to the range and NaN counts as cell 0. Replacing a row moves two counts of a
    histogram by one, so all of them by ``sqrt(2 groups)`` in l2; one row more or fewer moves one count
    of each, so all of them by ``sqrt(groups)``. Counts are exact integers. Proof: ``histogram.proof.md``.
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

        # Units far finer than the noise, so that discrete Gaussian noise composes as a Gaussian.
        total = sum_over_blocks(data, _cell_sums((self.groups, self.cells), codes, ONE), fold)
        moves = 1 if data.swing < 1 else 2
        return Bounded(total, math.sqrt(moves * self.groups) * ONE, "l2", fold, unit=1.0 / ONE)


Codes = Callable[[Block], NDArray[Any]]

# Units per person in exact counts: few, so that sums with ranks and weights of 20 binary digits are exact.
PARTS = 1 << 10


def totals(data: PrivateData, shape: tuple[int, int], codes: Codes, fold: Fold | None = None) -> NDArray[Any]:
    """Exact numbers of rows (of persons) in the cells of ``shape[0]`` histograms, for a selection; private.

    Parameters
    ----------
    data : PrivateData
    shape : tuple of int
        Histograms, and cells of each.
    codes : callable
        Cell numbers of a block, of shape (rows, histograms).
    fold : Fold, optional

    Returns
    -------
    array of integers, or of multiples of ``1 / PARTS`` where persons have several rows
        A person adds 1 in all to each histogram.
    """
    unit = PARTS if data.has_several_rows else 1
    return _in_persons(sum_over_blocks(data, _cell_sums(shape, codes, unit), fold), unit)


def log_totals(
    data: PrivateData,
    center: NDArray[np.float64],
    grid: tuple[int, int, int],
    fold: Fold | None = None,
) -> NDArray[Any]:
    """Exact numbers of rows (of persons) per column, sign and magnitude of ``x - center``; private.

    Parameters
    ----------
    data : PrivateData
    center : array of shape (d,)
        Public. With a number more than there are columns, the response is counted as a last column.
    grid : tuple of int
        Lowest exponent, number of bins and steps per octave (`fattail._kernels.log_edges`).
    fold : Fold, optional

    Returns
    -------
    array of shape (d, 2, bins)
        As `totals`. Entry ``[j, 0]`` counts ``x >= center``, entry ``[j, 1]`` the rest.
    """
    shape, with_y = (center.size, 2, grid[1]), center.size > data.d
    unit = PARTS if data.has_several_rows else 1

    def partial(block: Block) -> NDArray[np.int64]:
        V = np.ascontiguousarray(block.table(with_y))
        out = np.zeros(shape, dtype=np.int64)
        if block.starts is None:
            _kernels.column_log_histogram(V, center, *grid, out)
            return out if unit == 1 else unit * out
        _kernels.person_cells(_kernels.column_log_cells(V, center, *grid), block.starts, unit, out.reshape(center.size, -1))
        return out

    return _in_persons(sum_over_blocks(data, partial, fold), unit)


def fixed(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Totals as integers, in units of ``1 / ONE``."""
    return np.asarray(ONE * counts).astype(np.int64)


def _in_persons(sums: NDArray[np.int64], unit: int) -> NDArray[Any]:
    return sums if unit == 1 else sums / unit


def _cell_sums(shape: tuple[int, int], codes: Codes, unit: int) -> Partial:
    """A pass that counts cells; a row (a person) adds ``unit`` to each histogram."""

    def partial(block: Block) -> NDArray[np.int64]:
        out = np.zeros(shape, dtype=np.int64)
        with np.errstate(all="ignore"):
            code = np.reshape(codes(block), (-1, shape[0]))
            check_rows(block, code, None, shape[0])
        if block.starts is None:
            _kernels.cell_counts(code, out)
            return out if unit == 1 else unit * out
        _kernels.person_cells(code, block.starts, unit, out)
        return out

    return partial
