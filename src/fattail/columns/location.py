"""The center of a column: the cell of its middle rank, first on a logarithmic grid around zero, then on finer grids.

Every stage is one selection on a public grid. The first grid has an atom at zero and covers every magnitude; the later
ones are uniform and lie within the cells around the answer before. So 1e9 +- 3 is found like 0 +- 1. A center is the
roundest decimal number of its cell: point masses are usually at round numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.columns.evidence import CountNoise
from fattail.privacy import Bounded, Curator, Gaussian, Laplace, TopK
from fattail.robust.base import ONE
from fattail.robust.histogram import fixed, log_totals, totals
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
Noise = Laplace | Gaussian

OCTAVES = 128
"""Magnitudes from 2**-OCTAVES to 2**OCTAVES are distinguished; smaller ones count as zero, larger ones as 2**OCTAVES."""
OCTAVE_GRID = (-OCTAVES, 2 * OCTAVES + 2, 1)
"""The same, in the form of the kernels."""


@dataclass(frozen=True)
class LocationGrid:
    """The public grids. Sizes are arithmetic: a stage of m cells costs ``4 log(m / error) / n`` of epsilon and m draws."""

    digits: int = 0
    """On the first grid, an octave of ordinary numbers is divided into 2 to this power cells."""
    ordinary: tuple[int, int] = (-10, 32)
    """First and last octave of ordinary numbers: from 0.001 to more than the seconds since 1970."""
    fine: int = 512
    """Number of cells of a later grid."""
    margin: float = 0.25
    """A grid reaches beyond the chosen cell of the previous grid by this part of the cell on either side. With 512 cells each
    stage adds 8.4 bits."""
    everyday: int = 5
    """Octave of everyday numbers, 32 to 64, around which the public weights of the first grid lie."""
    width: float = 16.0
    """Width of the weight around it, in octaves: within this distance lies three quarters of the weight."""
    zero: float = 2.5
    """Log weight of zero relative to an octave; zero, the most common number, gets a fifth of the total weight."""

    told_apart: int = 45
    """Octaves up to this distance from the everyday one are candidates of their own."""
    together: int = 4
    """Farther away, below 1e-12 and above 1e15, this number of octaves is one candidate."""
    narrow: float = 0.03
    """A cell with a smaller share of the rows is a small part of the column's spread, and is not refined."""
    narrow_evidence: float = 3.0
    """Evidence required of the smaller share (one in exp(3) = 20)."""

    @property
    def magnitudes(self) -> tuple[int, int, int, int, int]:
        """The first grid, in the form of the kernels."""
        first, last = self.ordinary
        return -OCTAVES, 2 * OCTAVES, OCTAVES + first, OCTAVES + last, self.digits

    @property
    def largest(self) -> int:
        """Cells of the largest of the grids."""
        return max(self.candidates[0].size, self.fine)

    @property
    def edges(self) -> Floats:
        """Lower edges of the cells of the first grid for positive numbers."""
        return _edges(self.magnitudes)

    @property
    def candidates(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First and last cells of the candidates of the first selection: all of both signs, or several octaves together."""
        return _candidates(self)

    def stage(self, error: float) -> float:
        """``n epsilon`` of a selection that misses a cell with all rows with probability at most ``error``.

        Every other cell misses the middle rank by half of the rows, and the noise of a score has scale ``2 / epsilon``.
        """
        return 4 * math.log(self.largest / error)


@lru_cache(maxsize=8)
def _edges(magnitudes: tuple[int, int, int, int, int]) -> Floats:
    return _kernels.magnitude_edges(*magnitudes)


@lru_cache(maxsize=8)
def _candidates(grid: LocationGrid) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    octave = np.floor(np.log2(grid.edges)).astype(int)
    usual = np.abs(octave - grid.everyday) <= grid.told_apart
    begins = usual | (octave % grid.together == 0)
    begins[1:] |= usual[:-1] & ~usual[1:]
    begins[0] = True
    positive = np.flatnonzero(begins)
    ends = np.append(positive[1:], grid.edges.size) - 1
    middle = grid.edges.size
    first = np.concatenate((middle - 1 - ends[::-1], [middle], middle + 1 + positive))
    return first, np.append(first[1:], 2 * middle + 1) - 1


GRID = LocationGrid()
"""Few draws, used when a stage is cheap."""
DENSE_GRID = LocationGrid(digits=7, fine=4096)
"""Few stages, used when each is expensive: twice the digits for an eighth more of epsilon."""


def log_weight(exponent: Floats, width: float = GRID.width) -> Floats:
    """Log of the public weight of an octave: largest at everyday magnitudes, and finite for all."""
    return np.asarray(-2.0 * np.log1p(((exponent - GRID.everyday) / width) ** 2))


def few_bits(numbers: Any) -> Any:
    """Ranks and weights as multiples of 2^-20, so that sums with counts are exact and a row moves a score by at most one."""
    return np.floor(numbers * 2.0**20) / 2.0**20


def missed(cells: NDArray[Any], rank: float) -> NDArray[Any]:
    """For each cell, in the order of values: the number of rows between it and the cell that holds a rank."""
    through = np.cumsum(cells)
    return np.asarray(np.maximum(0, np.maximum(through - cells - rank, rank - through)))


def signed_counts(data: PrivateData, center: Floats) -> NDArray[Any]:
    """Counts (column, sign, octave) of ``x - center``; private."""
    return log_totals(data, center, OCTAVE_GRID)


def grid_codes(
    columns: NDArray[np.intp], low: Floats, step: Floats, size: int, with_y: bool = False
) -> Callable[[Block], NDArray[np.int16]]:
    """Cells of some columns, which may repeat: ``size`` cells of width ``step`` from ``low`` on, one before and one after."""

    def codes(block: Block) -> NDArray[np.int16]:
        rows = block.table(with_y)
        everything = np.array_equal(columns, np.arange(rows.shape[1]))
        return _kernels.grid_cells(rows if everything else np.take(rows, columns, axis=1), low, step, size)

    return codes


def find_locations(
    curator: Curator,
    stages: tuple[TopK, ...],
    data: PrivateData,
    grid: LocationGrid = GRID,
    check: Noise | None = None,
    *,
    with_y: bool = False,
    gaps: bool = False,
) -> tuple[Floats, Floats]:
    """Center of each column, and the width of the cell that it stands for.

    Parameters
    ----------
    curator : Curator
    stages : tuple of TopK
        Planned selections, each with ``count`` equal to the number of columns.
    data : PrivateData
    grid : LocationGrid
    check : Laplace or Gaussian, optional
        Planned release of the number of rows in the cell of each column after the second stage. Only columns with many rows
        in that cell are refined further.
    with_y : bool
        Whether the response is located too, as the last column.
    gaps : bool
        Whether cells of the table may be missing (NaN). Their rows are left out of the middle then.

    Notes
    -----
    *Privacy.* A score is minus the number of rows by which a cell misses the middle rank: sensitivity 1, one selection for
    each column and stage. The grids are public, or depend on the selections before. Replacing a row moves each number of rows
    of ``check`` by at most one. Proof: ``location.proof.md``.
    """
    d, magnitudes = data.d + with_y, grid.magnitudes
    shape = d, 2 * (grid.edges.size + 1)
    # Every grid counts missing cells in its cell 0.
    missing = totals(data, (d, 2), lambda block: ~np.isnan(block.table(with_y)))[:, 0] if gaps else np.zeros(d, dtype=np.int64)
    rank = (data.n - missing) / 2 if gaps else np.full(d, data.n // 2)
    if grid.digits:
        counts = totals(data, shape, lambda block: _kernels.magnitude_cells(block.table(with_y), *magnitudes))
    else:  # whole octaves are counted in half the time
        counts = signed_counts(data, np.zeros(d)).reshape(shape)
    counts[:, 0] -= missing
    low, high = _first(curator, stages[0], counts, rank, grid)
    active = high > low  # a cell of exactly zero is not refined
    for k, stage in enumerate(stages[1:]):
        chosen = np.flatnonzero(active)
        for _ in range(d - chosen.size):
            curator.waive(stage)
        width = (high - low)[chosen]
        first, step = low[chosen] - grid.margin * width, (1 + 2 * grid.margin) * width / grid.fine
        shape = chosen.size, grid.fine + 2
        counts = totals(data, shape, grid_codes(chosen, first, step, grid.fine, with_y)) if chosen.size else np.zeros(shape)
        counts[:, 0] -= missing[chosen]
        cells = np.array(
            [_middle_cell(curator, stage, *column) for column in zip(counts, rank[chosen], strict=True)], dtype=np.intp
        )
        low[chosen], high[chosen] = first + step * cells, first + step * (cells + 1)
        if check is not None and k == 0:
            active &= _is_narrow(curator, check, counts[np.arange(chosen.size), cells + 1], chosen, data.n, d)
    return np.array([roundest(a, b) for a, b in zip(low, high, strict=True)]), high - low


def _first(curator: Curator, stage: TopK, counts: NDArray[Any], rank: NDArray[Any], grid: LocationGrid) -> tuple[Floats, Floats]:
    """Cells on the logarithmic grid."""
    edges = grid.edges
    upper = np.append(edges[1:], 2 * edges[-1])
    low, high = np.concatenate((-upper[::-1], [0.0], edges)), np.concatenate((-edges[::-1], [0.0], upper))
    first, last = grid.candidates
    weight, zero = log_weight(np.log2(edges)), grid.zero + grid.digits * math.log(2)
    weight = np.concatenate((weight[::-1], [zero], weight))[first]
    weight = few_bits(weight * curator.noise(stage))
    chosen = np.empty(len(counts), dtype=np.intp)
    for j, (above, below) in enumerate(counts.reshape(-1, 2, edges.size + 1)):
        cells = np.concatenate((below[:0:-1], [above[0] + below[0]], above[1:]))
        cells = np.add.reduceat(cells, first)
        chosen[j] = curator.select(stage, Bounded(-missed(cells, rank[j]), 1.0, "linf") + weight)[0]
    return low[first[chosen]], high[last[chosen]]


def _middle_cell(curator: Curator, stage: TopK, counts: NDArray[Any], rank: float) -> int:
    """The cell of a uniform grid that holds the middle rank; the first and last counts are of what lies outside."""
    return int(curator.select(stage, Bounded(-missed(counts, rank)[1:-1], 1.0, "linf"))[0])


def _is_narrow(
    curator: Curator, check: Noise, inside: NDArray[Any], columns: NDArray[np.intp], n: int, d: int
) -> NDArray[np.bool_]:
    """Whether the cell of each column may hold so many rows that it should be refined."""
    rows = np.zeros(d)
    rows[columns] = inside
    noisy, noise = release_counts(curator, check, rows, d)
    return np.asarray(noisy + noise.threshold(GRID.narrow_evidence) > GRID.narrow * n)


def release_counts(curator: Curator, mechanism: Noise, counts: NDArray[Any], moved: int) -> tuple[Floats, CountNoise]:
    """Noisy counts of which a replaced row moves at most ``moved``, each by at most one, and their noise."""
    size = {"l1": float(moved), "l2": math.sqrt(moved)}[mechanism.norm]
    # In steps far finer than the noise, so that discrete Gaussian noise composes as a Gaussian.
    noisy = curator.release(mechanism, Bounded(fixed(counts), ONE * size, mechanism.norm, unit=1.0 / ONE))
    return noisy, CountNoise(curator.noise(mechanism, size), isinstance(mechanism, Laplace))


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
