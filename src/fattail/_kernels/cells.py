"""Cells of public grids: the cell of each entry, and the number of entries in each cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import histogram
from .blocks import Floats, Ints, plain, vector


def log_edges(lo_exponent: int, n_bins: int, steps_per_octave: int) -> Floats:
    """Return the ``n_bins - 1`` edges of the dyadic grid: bin k holds ``edge[k-1] <= |v| < edge[k]``."""
    k = np.arange(n_bins - 1)
    with np.errstate(over="ignore"):
        return np.ldexp(np.exp2(k % steps_per_octave / steps_per_octave), lo_exponent + k // steps_per_octave)


def _grid(lo_exponent: int, n_bins: int, steps_per_octave: int) -> tuple[int, int, int, Floats]:
    if lo_exponent < -1022 or n_bins < 2 or steps_per_octave not in (1, 2, 4, 8, 16):
        raise ValueError(
            "need lo_exponent >= -1022, n_bins >= 2 and steps_per_octave in {1, 2, 4, 8, 16}, got "
            f"{lo_exponent!r}, {n_bins!r}, {steps_per_octave!r}"
        )
    fractions = np.exp2(np.arange(1, 16) / steps_per_octave)
    return lo_exponent, n_bins, steps_per_octave, fractions


def column_log_histogram(
    V: NDArray[Any],
    c: Floats | None,
    lo_exponent: int,
    n_bins: int,
    steps_per_octave: int,
    out: Ints,
) -> None:
    """Add to ``out[j, 0]`` and ``out[j, 1]`` the counts of the non-negative and negative ``V_j - c_j``.

    Bins are those of `log_edges`. Bin 0 counts magnitudes below the grid, 0 and, with the non-negative ones, NaN; the last bin
    counts magnitudes above the grid and infinity.
    """
    grid = _grid(lo_exponent, n_bins, steps_per_octave)
    if steps_per_octave == 1:
        histogram.column_octaves_block(plain(V), vector(c, V.shape[1], 0.0), lo_exponent, n_bins, out)
    else:
        histogram.column_histogram_block(plain(V), vector(c, V.shape[1], 0.0), *grid, out)


def column_log_cells(
    V: NDArray[Any], c: Floats | None, lo_exponent: int, n_bins: int, steps_per_octave: int
) -> NDArray[np.int16]:
    """Bins of `column_log_histogram`; ``n_bins`` is added for negative entries."""
    out = np.empty(V.shape, dtype=np.int16)
    grid = _grid(lo_exponent, n_bins, steps_per_octave)
    histogram.column_codes_block(plain(V), vector(c, V.shape[1], 0.0), *grid, out)
    return out


def person_cells(codes: NDArray[Any], starts: Ints, unit: int, out: Ints) -> None:
    """Add to ``out[j, k]`` the share of each person's ``codes[:, j]`` in cell k (see `histogram.person_cells_block`)."""
    codes = plain(codes if codes.dtype == np.int16 else np.asarray(codes, dtype=np.float64))
    histogram.person_cells_block(codes, plain(starts), unit, out)


def octave_cells(V: NDArray[Any], lowest: int, cells: int) -> NDArray[np.int16]:
    """Cells of the entries by sign and magnitude (see `histogram.octaves_block`); NaN counts as zero."""
    out = np.empty(V.shape, dtype=np.int16)
    histogram.octaves_block(plain(V), lowest, cells, out)
    return out


def grid_cells(V: NDArray[Any], low: Floats, step: Floats, cells: int) -> NDArray[np.int16]:
    """Cells of the entries on a grid per column (see `histogram.grid_cells_block`); NaN is in cell 0."""
    out = np.empty(V.shape, dtype=np.int16)
    histogram.grid_cells_block(plain(V), plain(low), plain(step), cells, out)
    return out


def magnitude_cells(V: NDArray[Any], lo_exponent: int, octaves: int, first: int, last: int, digits: int) -> NDArray[np.int16]:
    """Cells of the entries by sign and magnitude (see `histogram.magnitude_cells_block`); NaN counts as zero."""
    out = np.empty(V.shape, dtype=np.int16)
    histogram.magnitude_cells_block(plain(V), lo_exponent, octaves, first, last, digits, out)
    return out


def magnitude_edges(lo_exponent: int, octaves: int, first: int, last: int, digits: int) -> Floats:
    """Lower edges of all cells of `magnitude_cells` but the first."""
    parts = [np.arange(1 << digits) / (1 << digits) if first <= k < last else np.zeros(1) for k in range(octaves + 1)]
    return np.concatenate([np.ldexp(1.0 + part, lo_exponent + k) for k, part in enumerate(parts)])


def cell_counts(codes: NDArray[Any], out: Ints) -> None:
    """Add to ``out[j, k]`` the number of ``codes[:, j]`` in cell k: clipped to the range, NaN as cell 0."""
    histogram.cells_block(plain(codes if codes.dtype == np.int16 else np.asarray(codes, dtype=np.float64)), out)
