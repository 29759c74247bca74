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
CAP = 2.0**30  # scaled arguments of the smoothed map saturate here
HUGE = 1.7976931348623157e308
FLUSH = 1 << 20  # rows between two flushes of the float accumulators
TILE = 4096  # columns swept before the next row, so that their sums stay in a core's cache
STRETCH = 32  # columns searched at once for arguments beyond the core
LANES = 32  # partial sums of a row's squares


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
def clamp(v, edge):
    """Project ``v`` on [-edge, edge]; NaN becomes ``edge``."""
    w = v if v < edge else edge
    return w if w > -edge else -edge


@njit(**JIT)
def near(b, slope):
    """Evaluate the smoothed map within its core, rounded, in units of 2**-30."""
    return np.rint(b * (slope - b * b))


@njit(**JIT)
def horner(cells, k, x):
    """Evaluate the polynomial of cell ``k`` at ``x``, from the cell's lower end."""
    t = x - cells[k, 5]
    return (((cells[k, 4] * t + cells[k, 3]) * t + cells[k, 2]) * t + cells[k, 1]) * t + cells[k, 0]


@njit(**JIT)
def far(a, shift, base, cells):
    """Evaluate the smoothed map beyond its core, as `near`; NaN counts as 0."""
    if a != a:
        return 0.0
    x = min(abs(a), CAP)
    h = horner(cells, (np.float64(x).view(np.uint64) >> np.uint64(shift)) - np.uint64(base), x)
    return np.rint(clamp(h if a > 0.0 else -h, UNIT))


@njit(**JIT)
def _load(value, low, size, default, tile):
    """Copy a stretch of a vector to ``tile``; an empty vector stands for a constant."""
    for k in range(size):
        tile[k] = value[low + k] if value.size > 0 else default


@njit(**JIT)
def _flush(acc, low, size, out):
    for k in range(size):
        out[low + k] += np.int64(acc[k])
        acc[k] = 0.0


@njit(**JIT)
def bound_block(V, r, c, inv_s, edge, out):
    """Add to ``out`` the column sums of ``bound((r V - c) inv_s, edge)``; an empty c is zero."""
    n, d = V.shape
    width = min(TILE, d)
    acc, centre, inverse = np.zeros(width), np.empty(width), np.empty(width)
    for low in range(0, d, TILE):
        size = min(TILE, d - low)
        _load(c, low, size, 0.0, centre)
        _load(inv_s, low, size, 1.0, inverse)
        start = np.uint64(low)
        for i in range(n):
            for k in range(np.uint64(size)):
                acc[k] += bound((r[i] * V[i, start + k] - centre[k]) * inverse[k], edge)
            if i % FLUSH == FLUSH - 1:
                _flush(acc, low, size, out)
        _flush(acc, low, size, out)


@njit(**JIT)
def smooth_block(V, r, c, inv_s, kappa, core, slope, shift, base, cells, out):
    """Add to ``out`` the column sums of the smoothed map of ``(r V - c) inv_s``.

    A first sweep clamps the arguments to the core, adds the core polynomial in vector registers,
    and counts the arguments that the clamp moved: few, by design.  For those the difference to
    the table is added, stretch by stretch if they are few, all together if many.  Integers, so
    the difference is exact; the count decides speed, never a result.  A term is bounded because
    a clamped argument is, and the polynomial is public and below 2**30 there.
    """
    n, d = V.shape
    width = min(TILE, d)
    acc, centre, inverse, table = np.zeros(width), np.empty(width), np.empty(width), np.empty(width)
    bits = table.view(np.uint64)
    rim = near(core, slope)  # what the first sweep adds for an argument beyond, or NaN
    for low in range(0, d, TILE):
        size = min(TILE, d - low)
        _load(c, low, size, 0.0, centre)
        _load(inv_s, low, size, 1.0, inverse)
        for k in range(size):
            inverse[k] *= kappa
        start, stop = np.uint64(low), np.uint64(size)
        for i in range(n):
            beyond = 0
            for k in range(stop):
                a = (r[i] * V[i, start + k] - centre[k]) * inverse[k]
                b = clamp(a, core)
                acc[k] += near(b, slope)
                beyond += 0 if a == b else 1
            if 8 * beyond > size:
                for k in range(stop):
                    x = abs((r[i] * V[i, start + k] - centre[k]) * inverse[k])
                    x = x if x > core else core
                    table[k] = x if x < CAP else CAP
                for k in range(stop):
                    cell = (bits[k] >> np.uint64(shift)) - np.uint64(base)
                    table[k] = horner(cells, cell, table[k])
                for k in range(stop):
                    a = (r[i] * V[i, start + k] - centre[k]) * inverse[k]
                    h = np.rint(clamp(table[k], UNIT)) - rim
                    h = h if a > 0.0 else -h
                    h = h if a == a else -rim
                    acc[k] += 0.0 if abs(a) <= core else h
            elif beyond > 0:
                for first in range(np.uint64(0), stop, np.uint64(STRETCH)):
                    last = min(first + np.uint64(STRETCH), stop)
                    beyond = 0
                    for k in range(first, last):
                        a = (r[i] * V[i, start + k] - centre[k]) * inverse[k]
                        beyond += 0 if abs(a) <= core else 1
                    if beyond > 0:
                        for k in range(first, last):
                            a = (r[i] * V[i, start + k] - centre[k]) * inverse[k]
                            if not abs(a) <= core:
                                acc[k] += far(a, shift, base, cells) + (rim if a < 0.0 else -rim)
            if i % FLUSH == FLUSH - 1:
                _flush(acc, low, size, out)
        _flush(acc, low, size, out)


@njit(**JIT)
def fold(lanes):
    """Add the lanes in a fixed order and reset them."""
    for k in range(16):
        lanes[k] += lanes[k + 16]
    for k in range(8):
        lanes[k] += lanes[k + 8]
    for k in range(4):
        lanes[k] += lanes[k + 4]
    total = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    for k in range(LANES):
        lanes[k] = 0.0
    return total


@njit(**JIT)
def rescale(top):
    """Return a power of two that brings ``top`` near 1, so that its square is a normal number."""
    return math.ldexp(1.0, min(max(-math.frexp(top)[1], -1000), 1000)) if top > 0.0 else 1.0


@njit(**JIT)
def shrink(scale, norm, inside, limit):
    """Return the factor that brings a row into the ball, in units of 2**-30."""
    return min(inside / scale, limit / norm) * scale * UNIT


@njit(**JIT)
def _extreme(row, ri, c, inv_s, lanes):
    """Return ``(scale, norm of the row times scale)`` where plain squares over- or underflow."""
    top = 0.0
    for j in range(row.size):
        top = max(top, abs(finite((ri * row[j] - c[j]) * inv_s[j])))
    scale = rescale(top)
    for j in range(row.size):
        u = finite((ri * row[j] - c[j]) * inv_s[j]) * scale
        lanes[j % LANES] += u * u
    return scale, math.sqrt(fold(lanes))


@njit(**JIT)
def _norms(V, first, last, r, c, inv_s, scales, norms):
    """Find the norms of rows ``first`` to ``last`` of ``(r V - c) inv_s``, as `_extreme` but fast.

    Column j always goes to lane j mod 32: vector registers hold several lanes, and the sparse
    twin, which skips zeros, gets the same bits.
    """
    lanes = np.zeros(LANES)
    d = np.uint64(V.shape[1])
    width = np.uint64(LANES)
    whole = d // width * width
    for i in range(first, last):
        for start in range(np.uint64(0), whole, width):
            for k in range(width):
                u = finite((r[i] * V[i, start + k] - c[start + k]) * inv_s[start + k])
                lanes[k] += u * u
        for k in range(d - whole):
            u = finite((r[i] * V[i, whole + k] - c[whole + k]) * inv_s[whole + k])
            lanes[k] += u * u
        total = fold(lanes)
        if 1e-280 < total < 1e300:
            scales[i - first], norms[i - first] = 1.0, math.sqrt(total)
        else:
            scales[i - first], norms[i - first] = _extreme(V[i], r[i], c, inv_s, lanes)


@njit(**JIT)
def norm_block(V, r, c, inv_s, out):
    """Write to ``out`` the l2 norms of the rows ``(r V - c) inv_s``, non-finite coordinates as 0."""
    scales = np.empty(out.size)
    _norms(V, 0, out.size, r, c, inv_s, scales, out)
    for i in range(out.size):
        out[i] /= scales[i]


@njit(**JIT)
def ball_block(V, r, c, inv_s, inside, limit, out):
    """Add to ``out`` the column sums of the rows ``(r V - c) inv_s`` shrunk to an l2 ball.

    ``inside`` is the factor of rows within the ball, ``limit`` the norm given to those beyond.
    A few rows at a time: first their norms, then, while they are in cache, their sums.
    """
    n, d = V.shape
    acc = np.zeros(d)
    rows = max(1, 4096 // d)
    scales = np.empty(rows)
    norms = np.empty(rows)
    for first in range(0, n, rows):
        last = min(first + rows, n)
        _norms(V, first, last, r, c, inv_s, scales, norms)
        for i in range(first, last):
            factor = shrink(scales[i - first], norms[i - first], inside, limit)
            for j in range(d):
                u = finite((r[i] * V[i, j] - c[j]) * inv_s[j])
                acc[j] += np.rint(clamp(u * factor, UNIT))
            if i % FLUSH == FLUSH - 1:
                _flush(acc, 0, d, out)
    _flush(acc, 0, d, out)
