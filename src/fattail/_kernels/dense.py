"""Column sums of bounded, quantised terms over one dense block of rows.

Every kernel is serial, holds no lock, and (but for products with a vector) is compiled without licence to reorder or to fuse: a
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
HUGE = 1.7976931348623157e308
FLUSH = 1 << 20  # rows between two flushes of the float accumulators
TILE = 4096  # columns swept before the next row, so that their sums stay in a core's cache
GROUP = 16384  # terms between two decisions on how to treat those beyond the core
STRIP = 256  # columns of a row whose arguments beyond the core are dealt with at once
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
def far(h, a):
    """Turn the tail polynomial ``h`` into the smoothed map at ``a``, as `near`; NaN counts as 0."""
    h = np.rint(clamp(h, UNIT))
    h = h if a > 0.0 else -h
    return h if a == a else 0.0


@njit(**JIT)
def argument(v, r, c, centre, inverse, k):
    """Return ``(r v - centre[k]) inverse[k]``; no ``c`` means no centre."""
    if c is None:
        return r * v * inverse[k]
    return (r * v - centre[k]) * inverse[k]


@njit(**JIT)
def _load(value, low, size, tile):
    """Copy a stretch of a vector to ``tile``: the compiler can see that nothing else is there."""
    for k in range(size):
        tile[k] = value[low + k]


@njit(**JIT)
def _flush(acc, low, size, out):
    for k in range(size):
        out[low + k] += np.int64(acc[k])
        acc[k] = 0.0


@njit(**JIT)
def bound_block(V, r, c, inv_s, edge, out):
    """Add to ``out`` the column sums of ``bound((r V - c) inv_s, edge)``; no c is zero."""
    n, d = V.shape
    width = min(TILE, d)
    acc, inverse = np.zeros(width), np.empty(width)
    centre = np.empty(0 if c is None else width)
    for low in range(0, d, TILE):
        size = min(TILE, d - low)
        if c is not None:
            _load(c, low, size, centre)
        _load(inv_s, low, size, inverse)
        start = np.uint64(low)
        for i in range(n):
            for k in range(np.uint64(size)):
                acc[k] += bound(argument(V[i, start + k], r[i], c, centre, inverse, k), edge)
            if i % FLUSH == FLUSH - 1:
                _flush(acc, low, size, out)
        _flush(acc, low, size, out)


@njit(**JIT)
def tail_values(args, count, core, tail, u, h):
    """Write to ``h`` the tail polynomial at ``args``, three steps of Horner's rule at a time.

    Longer chains of steps would wait for each other, shorter ones for memory.
    """
    square = core * core
    for k in range(np.uint64(count)):
        u[k] = 4.0 * square / (square + args[k] * args[k]) - 1.0
        h[k] = tail[0]
    for step in range(1, tail.size, 3):
        t0, t1, t2 = tail[step], tail[step + 1], tail[step + 2]
        for k in range(np.uint64(count)):
            h[k] = ((h[k] * u[k] + t0) * u[k] + t1) * u[k] + t2


@njit(**JIT)
def select(flags, words, size, where):
    """Write to ``where`` the positions of the flags that are set; return how many there are.

    ``words`` are the flags eight at a time: most of them are zero, and the rest need no branch.
    """
    eight = np.uint64(8)
    end = np.uint64(0)
    for k in range(size, (size + np.uint64(7)) // eight * eight):
        flags[k] = 0
    for word in range((size + np.uint64(7)) // eight):
        if words[word] != 0:
            for k in range(word * eight, (word + np.uint64(1)) * eight):
                where[end] = k
                end += np.uint64(flags[k])
    return end


@njit(**JIT)
def _add_core(V, rows, start, size, r, c, centre, inverse, core, slope, acc, moved):
    """Add the core polynomial of the clamped arguments; count those moved, by row."""
    total = 0
    for i in range(rows[0], rows[1]):
        count = 0
        for k in range(size):
            a = argument(V[i, start + k], r[i], c, centre, inverse, k)
            b = clamp(a, core)
            acc[k] += near(b, slope)
            count += 0 if a == b else 1
        moved[i - rows[0]] = count
        total += count
    return total


@njit(**JIT)
def _settle(args, columns, count, core, slope, tail, u, h, acc):
    """Replace what `_add_core` added for some arguments by the tail's value."""
    tail_values(args, count, core, tail, u, h)
    for k in range(np.uint64(count)):
        h[k] = far(h[k], args[k]) - near(clamp(args[k], core), slope)
    for k in range(np.uint64(count)):
        acc[columns[k]] += h[k]


@njit(**JIT)
def _mend(V, rows, start, size, r, c, centre, inverse, core, slope, tail, acc, moved):
    """List the arguments that `_add_core` moved, without a branch, and settle them together."""
    here, flags = np.empty(STRIP), np.empty(STRIP, dtype=np.uint8)
    args, columns = np.empty(2 * STRIP), np.empty(2 * STRIP, dtype=np.uint32)
    u, h = np.empty(2 * STRIP), np.empty(2 * STRIP)
    listed = np.uint64(0)
    for i in range(rows[0], rows[1]):
        if moved[i - rows[0]] == 0:
            continue
        for first in range(np.uint64(0), size, np.uint64(STRIP)):
            many, begin = min(np.uint64(STRIP), size - first), start + first
            count = moved[i - rows[0]]
            if STRIP * count < size:  # few strips have any: a look costs less than a list
                count = 0
                for k in range(many):
                    a = argument(V[i, begin + k], r[i], c, centre, inverse, first + k)
                    count += 0 if abs(a) <= core else 1
            if count > 0:
                for k in range(many):
                    here[k] = argument(V[i, begin + k], r[i], c, centre, inverse, first + k)
                    flags[k] = not abs(here[k]) <= core
                end = listed
                for k in range(many):
                    columns[end] = k
                    end += np.uint64(flags[k])
                for k in range(listed, end):
                    args[k] = here[columns[k]]
                    columns[k] += first
                listed = end
                if listed > STRIP:
                    _settle(args, columns, listed, core, slope, tail, u, h, acc)
                    listed = np.uint64(0)
    _settle(args, columns, listed, core, slope, tail, u, h, acc)


@njit(**JIT)
def _add_all(V, rows, start, size, r, c, centre, inverse, core, slope, tail, acc):
    """Add core and tail polynomials, whichever is valid; count the arguments beyond the core."""
    together = max(1, STRIP // size)  # rows: loops are long even where rows are short
    args, u, h = np.empty(2 * STRIP), np.empty(2 * STRIP), np.empty(2 * STRIP)
    total = 0
    for top in range(rows[0], rows[1], together):
        bottom = min(top + together, rows[1])
        for first in range(np.uint64(0), size, np.uint64(STRIP)):
            many, begin = min(np.uint64(STRIP), size - first), start + first
            at = np.uint64(0)
            for i in range(top, bottom):
                for k in range(many):
                    args[at + k] = argument(V[i, begin + k], r[i], c, centre, inverse, first + k)
                at += many
            tail_values(args, at, core, tail, u, h)
            for k in range(at):
                b = clamp(args[k], core)
                inner, outer = near(b, slope), far(h[k], args[k])
                h[k] = inner if args[k] == b else outer
                total += 0 if args[k] == b else 1
            at = np.uint64(0)
            for _ in range(top, bottom):
                for k in range(many):
                    acc[first + k] += h[at + k]
                at += many
    return total


@njit(**JIT)
def smooth_block(V, r, c, inv_s, core, slope, tail, out):
    """Add to ``out`` the column sums of the smoothed map of ``(r V - c) inv_s``; no c is zero.

    A few rows at a time. A first sweep clamps the arguments to the core, adds the core polynomial in
    vector registers, and counts the arguments that the clamp moved: few, by design. Those are
    listed, and the tail polynomial replaces what was added for them. While they are many, as
    with a badly chosen scale, rows take both polynomials everywhere instead. Integers, so
    differences are exact; the counts decide speed, never a result. A term is bounded because a
    clamped argument is, and the core polynomial is public and below 2**30 there; beyond the core,
    because `far` ends in a clamp.
    """
    n, d = V.shape
    width = min(TILE, d)
    acc, inverse, centre = np.zeros(width), np.empty(width), np.empty(0 if c is None else width)
    group = max(1, GROUP // width)
    moved = np.empty(group, dtype=np.int64)
    crowded = False
    for low in range(0, d, TILE):
        start, size = np.uint64(low), np.uint64(min(TILE, d - low))
        if c is not None:
            _load(c, low, size, centre)
        _load(inv_s, low, size, inverse)
        for top in range(0, n, group):
            rows = (top, min(top + group, n))
            if crowded:
                beyond = _add_all(V, rows, start, size, r, c, centre, inverse, core, slope, tail, acc)
            else:
                beyond = _add_core(V, rows, start, size, r, c, centre, inverse, core, slope, acc, moved)
                if beyond > 0:
                    _mend(V, rows, start, size, r, c, centre, inverse, core, slope, tail, acc, moved)
            crowded = 4 * beyond > (rows[1] - rows[0]) * np.int64(size)
            if top % FLUSH < group:
                _flush(acc, low, size, out)
        _flush(acc, low, size, out)


@njit(**{**JIT, "fastmath": {"nsz", "reassoc", "contract"}})
def dot_block(V, w, out):
    """Write to ``out`` the products of the rows with ``w``.

    No bound rests on these, so the compiler may order and fuse the sum of a row as it likes: it
    does so alike for every row.
    """
    n, d = V.shape
    for i in range(n):
        total = 0.0
        for j in range(d):
            total += V[i, j] * w[j]
        out[i] = total


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


@njit(**JIT)
def grid_block(V, r, c, inv_s, inside, limit, out):
    """Write to ``out`` the rows ``(r V - c) inv_s``, times ``inside`` or shrunk to norm ``limit``, rounded to integers."""
    n, d = V.shape
    norms = np.empty(n)
    norm_block(V, r, c, inv_s, norms)
    for i in range(n):
        factor = min(inside, limit / norms[i])
        for j in range(d):
            out[i, j] = np.rint(finite((r[i] * V[i, j] - c[j]) * inv_s[j]) * factor)
