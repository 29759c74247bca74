"""Column sums of bounded, quantised terms over one dense block of rows.

Every kernel is serial, holds no lock, and is compiled without licence to reorder or to fuse: a
term has the same bits in a vector lane, in a remainder loop, in numpy and in the sparse twin.
Terms are integers of at most 2**30 held in float64, so sums of up to 2**22 rows are exact, and the
order of rows, blocks and threads cannot show.  The block is read once.

The last step of each term is a projection that is total on the floats: NaN becomes 0.  Privacy
rests on that step alone.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

JIT = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"nsz"}}
UNIT = 2.0**30
CAP = 2.0**20  # arguments of the smoothed map saturate here
HUGE = 1.7976931348623157e308
FLUSH = 1 << 20  # rows between two flushes of the float accumulators
TILE = 64


@njit(**JIT)
def bound(v, edge):
    """Turn ``v`` into ``+-edge`` beyond +-1 and NaN into 0; return it rounded, in units of 2**-30."""
    v = v if v == v else 0.0
    w = v if v <= 1.0 else edge
    w = w if v >= -1.0 else -edge
    return np.rint(w * UNIT)


@njit(**JIT)
def finite(v):
    """Replace NaN and infinity by 0."""
    return v if abs(v) <= HUGE else 0.0


@njit(**JIT)
def far(a, shift, base, cells):
    """Evaluate the smoothed map beyond its core from the cell that the bits of ``|a|`` index."""
    x = min(abs(a), CAP)
    key = np.float64(x).view(np.int64) >> shift
    t = x - np.int64(key << shift).view(np.float64)
    cell = cells[key - base]
    h = ((((cell[5] * t + cell[4]) * t + cell[3]) * t + cell[2]) * t + cell[1]) * t + cell[0]
    return bound(h if a > 0.0 else -h, 1.0)


@njit(**JIT)
def _flush(acc, out):
    for j in range(acc.size):
        out[j] += np.int64(acc[j])
        acc[j] = 0.0


@njit(**JIT)
def bound_block(V, r, c, inv_s, edge, out):
    """Add to ``out`` the column sums of ``bound((r V - c) inv_s, edge)``."""
    n, d = V.shape
    acc = np.zeros(d)
    for i in range(n):
        for j in range(d):
            acc[j] += bound((r[i] * V[i, j] - c[j]) * inv_s[j], edge)
        if i % FLUSH == 0:
            _flush(acc, out)
    _flush(acc, out)


@njit(**JIT)
def smooth_block(V, r, c, inv_s, core, linear, cubic, shift, base, cells, out):
    """Add to ``out`` the column sums of the smoothed map of ``(r V - c) inv_s``.

    A tile of columns is swept once with the core polynomial, in vector registers; only if a term
    lies beyond the core, a second sweep of the cached tile adds those from the table.
    """
    n, d = V.shape
    acc = np.zeros(d)
    for i in range(n):
        for low in range(0, d, TILE):
            high = min(low + TILE, d)
            beyond = 0
            for j in range(low, high):
                a = (r[i] * V[i, j] - c[j]) * inv_s[j]
                h = bound(a * (linear - cubic * (a * a)), 1.0)
                inside = abs(a) <= core
                acc[j] += h if inside else 0.0
                beyond += 0 if inside else 1
            if beyond > 0:
                for j in range(low, high):
                    a = (r[i] * V[i, j] - c[j]) * inv_s[j]
                    if abs(a) > core:  # false for NaN, which has counted as 0
                        acc[j] += far(a, shift, base, cells)
        if i % FLUSH == 0:
            _flush(acc, out)
    _flush(acc, out)


@njit(**JIT)
def _squares(row, ri, c, inv_s, scale):
    """Sum the squares of ``scale (ri row - c) inv_s`` in eight fixed lanes.

    Column j always goes to lane j mod 8, so the sparse twin, which skips zeros, gets the same bits.
    """
    d = row.size
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = d - d % 8
    for j in range(0, whole, 8):
        u0 = finite((ri * row[j] - c[j]) * inv_s[j]) * scale
        u1 = finite((ri * row[j + 1] - c[j + 1]) * inv_s[j + 1]) * scale
        u2 = finite((ri * row[j + 2] - c[j + 2]) * inv_s[j + 2]) * scale
        u3 = finite((ri * row[j + 3] - c[j + 3]) * inv_s[j + 3]) * scale
        u4 = finite((ri * row[j + 4] - c[j + 4]) * inv_s[j + 4]) * scale
        u5 = finite((ri * row[j + 5] - c[j + 5]) * inv_s[j + 5]) * scale
        u6 = finite((ri * row[j + 6] - c[j + 6]) * inv_s[j + 6]) * scale
        u7 = finite((ri * row[j + 7] - c[j + 7]) * inv_s[j + 7]) * scale
        s0 += u0 * u0
        s1 += u1 * u1
        s2 += u2 * u2
        s3 += u3 * u3
        s4 += u4 * u4
        s5 += u5 * u5
        s6 += u6 * u6
        s7 += u7 * u7
    lanes = (s0, s1, s2, s3, s4, s5, s6, s7)
    rest = np.zeros(8)
    for j in range(8):
        rest[j] = lanes[j]
    for j in range(whole, d):
        u = finite((ri * row[j] - c[j]) * inv_s[j]) * scale
        rest[j - whole] += u * u
    return add_lanes(rest)


@njit(**JIT)
def add_lanes(s):
    """Add the eight lanes in a fixed order."""
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


@njit(**JIT)
def rescale(top):
    """Return the power of two that brings ``top`` near 1, so that its square neither over- nor underflows."""
    return math.ldexp(1.0, min(max(-math.frexp(top)[1], -1022), 1022)) if top > 0.0 else 1.0


@njit(**JIT)
def _norm(row, ri, c, inv_s):
    """Return ``(scale, norm of the row times scale)``; the scale is 1 for all but extreme rows."""
    total = _squares(row, ri, c, inv_s, 1.0)
    if 1e-280 < total < 1e300:
        return 1.0, math.sqrt(total)
    top = 0.0
    for j in range(row.size):
        top = max(top, abs(finite((ri * row[j] - c[j]) * inv_s[j])))
    scale = rescale(top)
    return scale, math.sqrt(_squares(row, ri, c, inv_s, scale))


@njit(**JIT)
def norm_block(V, c, inv_s, out):
    """Write to ``out`` the l2 norms of the rows ``(V - c) inv_s``, non-finite coordinates as 0."""
    for i in range(V.shape[0]):
        scale, norm = _norm(V[i], 1.0, c, inv_s)
        out[i] = norm / scale


@njit(**JIT)
def ball_block(V, r, c, inv_s, inside, limit, out):
    """Add to ``out`` the column sums of the rows ``(r V - c) inv_s`` shrunk to an l2 ball.

    ``inside`` is the factor of rows within the ball, ``limit`` the norm given to those beyond.
    """
    n, d = V.shape
    acc = np.zeros(d)
    for i in range(n):
        scale, norm = _norm(V[i], r[i], c, inv_s)
        factor = min(inside / scale, limit / norm)
        for j in range(d):
            acc[j] += bound(finite((r[i] * V[i, j] - c[j]) * inv_s[j]) * scale * factor, 1.0)
        if i % FLUSH == 0:
            _flush(acc, out)
    _flush(acc, out)
