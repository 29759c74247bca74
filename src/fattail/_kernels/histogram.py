"""Exact counts on public grids: of magnitudes by octaves, and of anything by cells."""

from __future__ import annotations

import numpy as np
from numba import njit

from .dense import JIT


@njit(**JIT)
def _bin(v, lo_exponent, n_bins, steps, fractions):
    """Return the bin of ``|v|``: its exponent, then comparisons of its mantissa with public edges."""
    bits = np.float64(abs(v)).view(np.int64)
    octave = (bits >> 52) - 1023 - lo_exponent  # zero and subnormals fall below every grid
    if v != v or octave < 0:
        return 0
    mantissa = np.int64(bits & 0x000FFFFFFFFFFFFF | 0x3FF0000000000000).view(np.float64)
    part = 0
    for k in range(steps - 1):
        part += mantissa >= fractions[k]
    return min(1 + octave * steps + part, n_bins - 1)


@njit(**JIT)
def column_histogram_block(V, c, lo_exponent, n_bins, steps, fractions, out):
    """Add to ``out[j, sign]`` the counts of ``V_j - c_j`` by sign and bin."""
    n, d = V.shape
    for i in range(n):
        for j in range(d):
            v = V[i, j] - c[j]
            out[j, 1 if v < 0.0 else 0, _bin(v, lo_exponent, n_bins, steps, fractions)] += 1


@njit(**JIT)
def column_octaves_block(V, c, lo_exponent, n_bins, out):
    """The same for whole octaves. Without branches, and with counting separated from reading, it is ten times as fast."""
    n, d = V.shape
    cells = np.empty(d, dtype=np.int64)
    flat = out.reshape(-1)
    for i in range(n):
        for j in range(d):
            v = np.float64(V[i, j] - c[j])
            size = v.view(np.int64) & 0x7FFFFFFFFFFFFFFF
            cell = min(max((size >> 52) - 1022 - lo_exponent, 0), n_bins - 1)
            cell = cell if size <= 0x7FF0000000000000 else 0  # bits above those of infinity are NaN
            cells[j] = cell + n_bins * (2 * j + (1 if v < 0.0 else 0))
        for j in range(d):
            flat[np.uint64(cells[j])] += 1  # a signed index may count from the end, and is a fifth slower


@njit(**JIT)
def octaves_block(V, lowest, cells, out):
    """Write to ``out`` the cell of each entry: ``cells`` for magnitudes below ``2**lowest``, then one more (one less for
    negative entries) for every octave, up to ``cells`` more.
    """
    n, d = V.shape
    for i in range(n):
        for j in range(d):
            v = np.float64(V[i, j])
            bits = v.view(np.int64)
            cell = min(max((bits >> 52 & 0x7FF) - 1022 - lowest, 0), cells)
            cell = cell if v == v else 0
            out[i, j] = cells + (cell if bits >= 0 else -cell)


@njit(**JIT)
def grid_cells_block(V, low, step, cells, out):
    """Write to ``out`` the cell of each entry: ``cells`` of width ``step`` from ``low`` on, 0 below and one more above."""
    n, d = V.shape
    last = cells + 1.0
    for i in range(n):
        for j in range(d):
            cell = np.floor((V[i, j] - low[j]) / step[j]) + 1.0
            cell = cell if cell > 0.0 else 0.0
            out[i, j] = np.int16(cell if cell < last else last)


@njit(**JIT)
def cells_block(codes, out):
    """Add to ``out[j]`` the counts of ``codes[:, j]``, clipped to the cells; NaN counts as cell 0."""
    n, groups = codes.shape
    last = out.shape[1] - 1
    cells = np.empty(groups, dtype=np.int64)
    flat = out.reshape(-1)
    for i in range(n):
        for j in range(groups):
            v = codes[i, j] if codes[i, j] > 0 else 0
            cells[j] = np.int64(v if v < last else last) + j * out.shape[1]
        for j in range(groups):
            flat[np.uint64(cells[j])] += 1


@njit(**JIT)
def column_codes_block(V, c, lo_exponent, n_bins, steps, fractions, out):
    """Write to ``out`` the bin of ``V_j - c_j``, and ``n_bins`` more if it is negative."""
    n, d = V.shape
    for i in range(n):
        for j in range(d):
            v = V[i, j] - c[j]
            out[i, j] = _bin(v, lo_exponent, n_bins, steps, fractions) + (n_bins if v < 0.0 else 0)


@njit(**JIT)
def magnitude_cells_block(V, lo_exponent, octaves, first, last, digits, out):
    """Write to ``out`` the cell of each entry by magnitude, and add the number of cells if it is negative.

    Cell 0 holds magnitudes below ``2**lo_exponent``, and NaN. The last cell holds those at least ``octaves`` octaves above. The
    cells between are octaves; each octave from ``first`` to before ``last`` is cut into ``2**digits`` equal cells.
    """
    n, d = V.shape
    more = (1 << digits) - 1
    cells = octaves + 2 + (last - first) * more
    for i in range(n):
        for j in range(d):
            v = np.float64(V[i, j])
            bits = v.view(np.int64) & 0x7FFFFFFFFFFFFFFF
            octave = (bits >> 52) - 1023 - lo_exponent
            cell = 1 + octave + more * min(max(octave - first, 0), last - first)
            if first <= octave < last:
                cell += (bits & 0x000FFFFFFFFFFFFF) >> (52 - digits)
            cell = min(cell, cells - 1)
            if v != v or octave < 0:
                cell = 0
            out[i, j] = cell + (cells if v < 0.0 else 0)


@njit(**JIT)
def person_cells_block(codes, starts, unit, out):
    """Add to ``out[j]`` the share of each person's ``codes[:, j]`` in each cell, in whole parts of ``unit``.

    A person's parts add up to ``unit`` exactly: those of the first k cells are ``unit`` times their share, rounded down.
    """
    groups = codes.shape[1]
    last = out.shape[1] - 1.0
    for p in range(len(starts) - 1):
        m = starts[p + 1] - starts[p]
        own = np.empty(m, dtype=np.int64)
        for j in range(groups):
            for i in range(m):
                v = codes[starts[p] + i, j] if codes[starts[p] + i, j] > 0.0 else 0.0
                own[i] = np.int64(v if v < last else last)
            own.sort()
            before = np.int64(0)
            for i in range(m):
                through = unit * (i + 1) // m
                out[j, own[i]] += through - before
                before = through
