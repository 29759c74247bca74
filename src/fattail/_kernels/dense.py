"""Column sums of bounded, quantized terms over one dense block of rows.

Every kernel is serial, releases the lock, and is compiled without permission to reorder or fuse operations. So a term has the
same bits in a vector lane, in a remainder loop, in numpy and in the kernel for sparse rows.
Terms are integers of at most 2**30 held in float64, so sums of up to 2**22 rows are exact, and do not depend on the order of
rows, blocks and threads.  The block is read once.

The last step of each term is a projection that is defined for all floats: NaN becomes 0. Privacy depends on that step alone.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray, njit

from .memory import address, prefetch, stack_array
from .products import JIT, dot_block

UNIT = 2.0**30
HUGE = 1.7976931348623157e308
FLUSH = 1 << 20  # rows between two flushes of the float accumulators
TILE = 4096  # columns processed before the next row, so that their sums stay in the cache
GROUP = 16384  # terms of the rows that are processed together
LEAST = 16  # least number of rows, for any width
AHEAD = 1 << 13  # bytes ahead that are prefetched
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
def argument(v, r, c, center, inverse, k):
    """Return ``(r v - center[k]) inverse[k]``; no ``c`` means no center."""
    if c is None:
        return r * v * inverse[k]
    return (r * v - center[k]) * inverse[k]


@njit(**JIT)
def scaled(values, factor):
    """Return ``values * factor`` without numpy's overflow warnings, whose suppression takes longer than the product."""
    return values * factor


@njit(**JIT)
def load(value, low, size, tile):
    """Copy a stretch of a vector, if there is one, to ``tile``."""
    if value is not None:
        for k in range(size):
            tile[k] = value[low + k]


@njit(**JIT)
def flush(acc, low, size, out):
    for k in range(size):
        out[low + k] += np.int64(acc[k])
        acc[k] = 0.0


@njit(**JIT)
def residuals(V, first, last, w, y, level, limit, r):
    """Write to ``r`` the clipped residuals ``V w + level - y`` of some rows; NaN stays NaN."""
    dot_block(V, first, last, w, r)
    for i in range(first, last):
        v = r[i] + level - y[i]
        v = limit if v > limit else v
        r[i] = -limit if v < -limit else v


@njit(**JIT)
def spill(acc, low, size, sums):
    """Add the sums of a tile to those of all columns."""
    for k in range(np.uint64(size)):
        sums[np.uint64(low) + k] += acc[k]


@njit(**JIT, inline="always")
def _add_row(V, i, start, size, ri, c, center, inverse, edge, acc):
    for k in range(size):
        acc[k] += bound(argument(V[i, start + k], ri, c, center, inverse, k), edge)


@njit(**JIT, inline="always")
def _add_four(V, i, start, first, size, r0, r1, r2, r3, c, center, inverse, edge, acc):
    """Add a part of four rows; sums and scales are loaded once for all four."""
    for k in range(first, first + size):
        b0 = bound(argument(V[i, start + k], r0, c, center, inverse, k), edge)
        b1 = bound(argument(V[i + 1, start + k], r1, c, center, inverse, k), edge)
        b2 = bound(argument(V[i + 2, start + k], r2, c, center, inverse, k), edge)
        b3 = bound(argument(V[i + 3, start + k], r3, c, center, inverse, k), edge)
        acc[k] += (b0 + b1) + (b2 + b3)


@njit(**JIT)
def _add_bounded(V, rows, low, size, r, c, inv_s, edge, sums, ahead):
    """Add the terms of some rows, and prefetch the memory ``ahead`` bytes further.

    Eight columns of four rows at a time, a cache line each.
    """
    acc, inverse, center = (
        carray(stack_array(TILE, 0.0), TILE),
        carray(stack_array(TILE, 0.0), TILE),
        carray(stack_array(TILE, 0.0), TILE),
    )
    load(c, low, size, center)
    load(inv_s, low, size, inverse)
    for k in range(size):
        acc[k] = 0.0
    start, eight = np.uint64(low), np.uint64(8)
    whole, rest = size // eight * eight, rows[1] - (rows[1] - rows[0]) % 4
    for top in range(rows[0], rest, 4):
        r0, r1, r2, r3 = r[top], r[top + 1], r[top + 2], r[top + 3]
        for first in range(np.uint64(0), size, eight):
            if first < whole:  # a loop of constant length is faster
                _add_four(V, top, start, first, eight, r0, r1, r2, r3, c, center, inverse, edge, acc)
            else:
                _add_four(V, top, start, first, size - whole, r0, r1, r2, r3, c, center, inverse, edge, acc)
            for i in range(top, top + 4):
                prefetch(address(V, i, start + first) + np.uint64(ahead))
    for i in range(rest, rows[1]):
        _add_row(V, i, start, size, r[i], c, center, inverse, edge, acc)
    spill(acc, low, size, sums)


@njit(**JIT)
def bound_block(V, r, w, y, level, limit, c, inv_s, edge, out):
    """Add to ``out`` the column sums of ``bound((r V - c) inv_s, edge)``; no c is zero.

    With ``w``, the factors r are computed here, by `residuals`: a few rows at a time, so that the rows are still in the cache
    when their terms are added.
    """
    n, d = V.shape
    group, sums = max(LEAST, GROUP // d // 4 * 4), np.zeros(d)
    ahead = AHEAD if w is None else group * d * V.itemsize
    for top in range(0, n, group):
        rows = (top, min(top + group, n))
        if w is not None:
            residuals(V, rows[0], rows[1], w, y, level, limit, r)
        for low in range(0, d, TILE):
            _add_bounded(V, rows, low, np.uint64(min(TILE, d - low)), r, c, inv_s, edge, sums, ahead)
        if top % FLUSH < group or rows[1] == n:
            flush(sums, 0, d, out)


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
def ball_factor(scale, norm, inside, limit):
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
            factor = ball_factor(scales[i - first], norms[i - first], inside, limit)
            for j in range(d):
                u = finite((r[i] * V[i, j] - c[j]) * inv_s[j])
                acc[j] += np.rint(clamp(u * factor, UNIT))
            if i % FLUSH == FLUSH - 1:
                flush(acc, 0, d, out)
    flush(acc, 0, d, out)


@njit(**JIT)
def grid_block(V, r, c, inv_s, inside, limit, out):
    """Write to ``out`` the rows i of ``(r V - c) inv_s``, times ``inside[i]`` or shrunk to norm ``limit[i]``, as integers."""
    n, d = V.shape
    norms = np.empty(n)
    norm_block(V, r, c, inv_s, norms)
    for i in range(n):
        factor = min(inside[i], limit[i] / norms[i])
        for j in range(d):
            out[i, j] = np.rint(finite((r[i] * V[i, j] - c[j]) * inv_s[j]) * factor)
