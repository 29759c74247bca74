"""The center of a column: the cell of its middle rank, first on a logarithmic grid around zero, then on finer grids.

Every stage is one selection on a public grid. The first grid has an atom at zero and covers every magnitude; the later
ones are uniform and lie within the cells around the answer before. So 1e9 +- 3 is found like 0 +- 1. A center is the
roundest decimal number of its cell: point masses are usually at round numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.privacy import Bounded, Curator, TopK
from fattail.robust.histogram import log_totals, totals
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

OCTAVES = 128
"""Magnitudes from 2**-OCTAVES to 2**OCTAVES are distinguished; smaller ones count as zero, larger ones as the largest."""


@dataclass(frozen=True)
class LocationGrid:
    """The public grids. Sizes are arithmetic: a stage of m cells costs ``4 log(m / error) / n`` of epsilon and m draws."""

    digits: int = 0
    """Binary digits by which octaves of ordinary numbers are divided on the first grid."""
    ordinary: tuple[int, int] = (-10, 32)
    """They reach from 0.001 to above the seconds since 1970."""
    fine: int = 512
    """Cells of a later grid."""
    margin: float = 0.25
    """Cells of the previous grid by which a grid exceeds the chosen cell on either side: each stage adds 8.4 bits."""
    everyday: int = 5
    """Octave of everyday numbers, 32 to 64, around which the public weights of the first grid lie."""
    width: float = 16.0
    """Octaves around it in which three quarters of the weight lies."""
    zero: float = 2.5
    """Log weight of zero relative to an octave, a fifth of all: the commonest number."""

    @property
    def magnitudes(self) -> tuple[int, int, int, int, int]:
        """The first grid, in the form of the kernels."""
        first, last = self.ordinary
        return -OCTAVES, 2 * OCTAVES, OCTAVES + first, OCTAVES + last, self.digits

    @property
    def largest(self) -> int:
        """Cells of the largest of the grids."""
        return max(2 * _kernels.magnitude_edges(*self.magnitudes).size + 1, self.fine)

    def stage(self, error: float) -> float:
        """``n epsilon`` of a selection that misses a cell with all rows with probability at most ``error``.

        Every other cell misses the middle rank by half of the rows, and the noise of a score has scale ``2 / epsilon``.
        """
        return 4 * math.log(self.largest / error)


GRID = LocationGrid()
"""Few draws, where a stage costs next to nothing of the budget."""
DENSE_GRID = LocationGrid(digits=7, fine=4096)
"""Few stages, where each costs a lot: twice the digits for an eighth more of epsilon."""


def familiarity(exponent: Floats) -> Floats:
    """Log of a public weight: largest for magnitudes of everyday size, positive for all."""
    return np.asarray(-2.0 * np.log1p(((exponent - GRID.everyday) / GRID.width) ** 2))


def missed(cells: NDArray[Any], rank: int) -> NDArray[Any]:
    """The number of rows between each cell, in the order of values, and the cell that holds a rank."""
    through = np.cumsum(cells)
    return np.asarray(np.maximum(0, np.maximum(through - cells - rank, rank - through)))


def dense(block: Block) -> NDArray[np.float64]:
    """Rows of a block as an array."""
    V = block.X
    return np.ascontiguousarray(V.toarray() if hasattr(V, "toarray") else V)


def signed_counts(data: PrivateData, center: Floats) -> NDArray[Any]:
    """Counts (column, sign, octave) of ``x - center``; private."""
    return log_totals(data, center, (-OCTAVES, 2 * OCTAVES + 2, 1))


def find_locations(
    curator: Curator, stages: tuple[TopK, ...], data: PrivateData, grid: LocationGrid = GRID
) -> tuple[Floats, Floats]:
    """Center of each column, and the width of the cell that it stands for.

    Parameters
    ----------
    curator : Curator
    stages : tuple of TopK
        Planned selections, each with ``count`` equal to the number of columns.
    data : PrivateData
    grid : LocationGrid

    Notes
    -----
    *Privacy.* A score is minus the number of rows by which a cell misses the middle rank: sensitivity 1, one selection for
    each column and stage. The grids are public, or depend on the selections before. Proof: ``location.proof.md``.
    """
    low, high = _first(curator, stages[0], data, grid)
    center = np.array([roundest(a, b) for a, b in zip(low, high, strict=True)])
    zero = high == low  # a cell of exactly zero is not refined
    for stage in stages[1:]:
        width = np.where(zero, 1.0, high - low)
        first, step = low - grid.margin * width, (1 + 2 * grid.margin) * width / grid.fine
        closer = _closer(curator, stage, data, first, step, grid.fine)
        low, high = (np.where(zero, 0.0, edge) for edge in closer)
        center = np.array([roundest(a, b) for a, b in zip(low, high, strict=True)])
    return center, high - low


def _first(curator: Curator, stage: TopK, data: PrivateData, grid: LocationGrid) -> tuple[Floats, Floats]:
    """Cells on the logarithmic grid."""
    edges = _kernels.magnitude_edges(*grid.magnitudes)
    bins = edges.size + 1
    counts = totals(data, (data.d, 2 * bins), lambda block: _kernels.magnitude_cells(dense(block), *grid.magnitudes))
    upper = np.append(edges[1:], 2 * edges[-1])
    low, high = np.concatenate((-upper[::-1], [0.0], edges)), np.concatenate((-edges[::-1], [0.0], upper))
    weight, zero = familiarity(np.log2(edges)), grid.zero + grid.digits * math.log(2)
    # Multiples of 2^-20, so that their sums with counts are exact.
    weight = np.rint(np.concatenate((weight[::-1], [zero], weight)) * curator.noise(stage) * 2.0**20) / 2.0**20
    chosen = np.empty(data.d, dtype=np.intp)
    for j, (above, below) in enumerate(counts.reshape(-1, 2, bins)):
        cells = np.concatenate((below[:0:-1], [above[0] + below[0]], above[1:]))
        chosen[j] = curator.select(stage, Bounded(-missed(cells, data.n // 2), 1.0, "linf") + weight)[0]
    return low[chosen], high[chosen]


def _closer(curator: Curator, stage: TopK, data: PrivateData, low: Floats, step: Floats, size: int) -> tuple[Floats, Floats]:
    """Cells on uniform grids of ``size`` cells that begin at ``low``."""
    counts = totals(data, (data.d, size + 2), lambda block: _kernels.grid_cells(dense(block), low, step, size))
    chosen = np.empty(data.d, dtype=np.intp)
    for j, cells in enumerate(counts):
        score = Bounded(-missed(cells, data.n // 2)[1:-1], 1.0, "linf")
        chosen[j] = curator.select(stage, score)[0]
    return low + step * chosen, low + step * (chosen + 1)


def roundest(low: float, high: float) -> float:
    """The number in ``[low, high]`` with the fewest decimal digits, of several the one in the middle.

    Examples
    --------
    >>> roundest(1.97, 2.06), roundest(0.3701, 0.3699), roundest(-5123.2, -5122.9)
    (2.0, 0.37, -5123.0)
    """
    low, high = min(low, high), max(low, high)
    if low <= 0.0 <= high:
        return 0.0
    if high < 0:
        return -roundest(-high, -low)
    middle = low + (high - low) / 2
    for power in range(math.floor(math.log10(high)), -330, -1):
        # A division by a whole power of ten rounds once, a product with a negative one twice.
        number, unit = (1.0, float(10**power)) if power >= 0 else (float(10 ** min(-power, 300)), 1.0)
        k = round(middle * number / unit)
        for multiple in (k, k + 1, k - 1):
            value = multiple * unit / number
            if low <= value <= high:
                return float(value)
        if power < -300:
            break
    return middle
