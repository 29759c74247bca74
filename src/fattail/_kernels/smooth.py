"""Column sums of the smoothed map over one dense block of rows.

As in `dense`: integers of at most 2**30 in float64, NaN counts as 0, no permission to reorder or fuse operations. The tail
polynomial uses explicit fused multiply-adds.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray, njit

from .dense import AHEAD, FLUSH, GROUP, JIT, LEAST, TILE, UNIT, argument, clamp, flush, load, residuals, spill
from .memory import address, prefetch, prefetch_range, stack_array
from .vectors import fma

PROBE = 4  # rows that decide which variant to start with
MANY = 5  # if one argument in so many is beyond the core, it is faster to evaluate the tail polynomial everywhere
LIST = 512  # arguments beyond the core that are processed together
BATCH = 4 * 8  # arguments that are processed together
MOST = LIST + BATCH
GROUPS_OF_EIGHT = TILE // 8 + 1


@njit(**JIT)
def beyond(a, square):
    """Return 1 for arguments beyond the core, whose square is ``square``, and for NaN, else 0."""
    return 0 if a * a <= square else 1


@njit(**JIT)
def inner(a, slope):
    """Evaluate the smoothed map within its core, in units of 2**-30."""
    return a * (slope - a * a)


@njit(**JIT)
def outer(h, a):
    """Turn the tail polynomial ``h`` into the smoothed map at ``a``, as `inner`; NaN counts as 0."""
    return math.copysign(clamp(h, UNIT), a) if a == a else 0.0


@njit(**JIT)
def near(a, square, slope):
    """Return the rounded map within its core, and 0 beyond."""
    return 0.0 if beyond(a, square) else np.rint(inner(a, slope))


@njit(**JIT)
def far(h, a):
    return np.rint(outer(h, a))


@njit(**JIT)
def tail_values(args, count, square, tail, u, h):
    """Write to ``h`` the tail polynomial at ``args``, three steps of Horner's rule first, then six at a time.

    Longer chains of steps are limited by latency, shorter ones by memory.
    """
    t0, t1, t2, t3 = tail[0], tail[1], tail[2], tail[3]
    for k in range(np.uint64(count)):
        v = 4.0 * square / fma(args[k], args[k], square) - 1.0
        u[k], h[k] = v, fma(fma(fma(t0, v, t1), v, t2), v, t3)
    for step in range(4, tail.size, 6):
        t0, t1, t2, t3, t4, t5 = tail[step], tail[step + 1], tail[step + 2], tail[step + 3], tail[step + 4], tail[step + 5]
        for k in range(np.uint64(count)):
            v = u[k]
            h[k] = fma(fma(fma(fma(fma(fma(h[k], v, t0), v, t1), v, t2), v, t3), v, t4), v, t5)


@njit(**JIT)
def all_values(args, count, square, slope, tail, u, h):
    """Write to ``h`` the smoothed map at ``args``, with both polynomials evaluated everywhere; count those beyond the core."""
    tail_values(args, count, square, tail, u, h)
    total = 0
    for k in range(np.uint64(count)):
        a = args[k]
        h[k] = np.rint(outer(h[k], a) if beyond(a, square) else inner(a, slope))  # one rounding for both
        total += beyond(a, square)
    return total


@njit(**JIT, inline="always")
def _add_four(V, i, start, first, size, r0, r1, r2, r3, c, center, inverse, square, slope, acc):
    """Add the core polynomial of a part of four rows where it is valid; count where it is not.

    Sums and scales are loaded once for all four.
    """
    count = 0
    for k in range(first, first + size):
        a0 = argument(V[i, start + k], r0, c, center, inverse, k)
        a1 = argument(V[i + 1, start + k], r1, c, center, inverse, k)
        a2 = argument(V[i + 2, start + k], r2, c, center, inverse, k)
        a3 = argument(V[i + 3, start + k], r3, c, center, inverse, k)
        acc[k] += (near(a0, square, slope) + near(a1, square, slope)) + (near(a2, square, slope) + near(a3, square, slope))
        count += beyond(a0, square) + beyond(a1, square) + beyond(a2, square) + beyond(a3, square)
    return count


@njit(**JIT)
def _add_tail(waiting, count, square, tail, acc):
    """Add the tail's values of the listed arguments."""
    args, columns, u, h = waiting
    tail_values(args, count, square, tail, u, h)
    for k in range(np.uint64(count)):
        h[k] = far(h[k], args[k])
    for k in range(np.uint64(count)):
        acc[columns[k]] += h[k]


@njit(**JIT)
def _list_groups(V, i, start, size, r, c, center, inverse, square, tail, noted, many, waiting, listed, acc):
    """List, without a branch, the arguments beyond the core in the noted groups of eight columns of four rows.

    Evaluate them once there are enough; return how many are listed.
    """
    args, columns, _, _ = waiting
    here = carray(stack_array(BATCH, 0.0), BATCH)
    r0, r1, r2, r3 = r[i], r[i + 1], r[i + 2], r[i + 3]
    for n in range(many):
        first = noted[n]
        width = min(np.uint64(8), size - first)
        for k in range(width):
            j = first + k
            here[4 * k] = argument(V[i, start + j], r0, c, center, inverse, j)
            here[4 * k + 1] = argument(V[i + 1, start + j], r1, c, center, inverse, j)
            here[4 * k + 2] = argument(V[i + 2, start + j], r2, c, center, inverse, j)
            here[4 * k + 3] = argument(V[i + 3, start + j], r3, c, center, inverse, j)
        for k in range(4 * width):
            args[listed], columns[listed] = here[k], first + k // np.uint64(4)
            listed += np.uint64(beyond(here[k], square))
        if listed > LIST:
            _add_tail(waiting, listed, square, tail, acc)
            listed = np.uint64(0)
    return listed


@njit(**JIT)
def _add_all(V, rows, low, size, r, c, inv_s, square, slope, tail, sums, ahead):
    """Add the terms of some rows, prefetch the memory ``ahead`` bytes further, and return the number beyond the core.

    Both polynomials are evaluated everywhere.
    """
    together = max(1, LIST // size)  # rows: loops are long even where rows are short
    args, u, h = np.empty(MOST), np.empty(MOST), np.empty(MOST)
    total = 0
    for top in range(rows[0], rows[1], together):
        bottom = min(top + together, rows[1])
        for first in range(np.uint64(0), size, np.uint64(LIST)):
            many, begin = min(np.uint64(LIST), size - first), np.uint64(low) + first
            at = np.uint64(0)
            for i in range(top, bottom):
                for k in range(many):
                    args[at + k] = argument(V[i, begin + k], r[i], c, c, inv_s, begin + k)
                prefetch_range(address(V, i, begin) + np.uint64(ahead), many * np.uint64(V.itemsize))
                at += many
            total += all_values(args, at, square, slope, tail, u, h)
            at = np.uint64(0)
            for _ in range(top, bottom):
                for k in range(many):
                    sums[begin + k] += h[at + k]
                at += many
    return total


@njit(**JIT)
def _add_core(V, rows, low, size, r, c, inv_s, square, slope, tail, sums, ahead):
    """Do as `_add_all`, but evaluate the tail polynomial only for the arguments beyond the core.

    Eight columns of four rows at a time, a cache line each.
    """
    acc, inverse, center = (
        carray(stack_array(TILE, 0.0), TILE),
        carray(stack_array(TILE, 0.0), TILE),
        carray(stack_array(TILE, 0.0), TILE),
    )
    args, columns = carray(stack_array(MOST, 0.0), MOST), carray(stack_array(MOST, np.uint32(0)), MOST)
    waiting = args, columns, carray(stack_array(MOST, 0.0), MOST), carray(stack_array(MOST, 0.0), MOST)
    noted = carray(stack_array(GROUPS_OF_EIGHT, np.uint64(0)), GROUPS_OF_EIGHT)
    load(c, low, size, center)
    load(inv_s, low, size, inverse)
    for k in range(size):
        acc[k] = 0.0
    start, eight = np.uint64(low), np.uint64(8)
    whole = size // eight * eight
    listed, rest = np.uint64(0), rows[1] - (rows[1] - rows[0]) % 4
    total = _add_all(V, (rest, rows[1]), low, size, r, c, inv_s, square, slope, tail, sums, ahead)
    for top in range(rows[0], rest, 4):
        r0, r1, r2, r3 = r[top], r[top + 1], r[top + 2], r[top + 3]
        many = np.uint64(0)
        for first in range(np.uint64(0), size, eight):
            if first < whole:  # a loop of constant length is faster
                count = _add_four(V, top, start, first, eight, r0, r1, r2, r3, c, center, inverse, square, slope, acc)
            else:
                count = _add_four(V, top, start, first, size - whole, r0, r1, r2, r3, c, center, inverse, square, slope, acc)
            for i in range(top, top + 4):
                prefetch(address(V, i, start + first) + np.uint64(ahead))
            noted[many] = first
            many += np.uint64(count > 0)
            total += count
        if many > 0:
            listed = _list_groups(V, top, start, size, r, c, center, inverse, square, tail, noted, many, waiting, listed, acc)
    _add_tail(waiting, listed, square, tail, acc)
    spill(acc, low, size, sums)
    return total


@njit(**JIT)
def _count(V, rows, size, r, c, inv_s, square):
    """Count the arguments beyond the core in the first columns of some rows."""
    count = 0
    for i in range(rows[0], rows[1]):
        for k in range(size):
            count += beyond(argument(V[i, k], r[i], c, c, inv_s, k), square)
    return count


@njit(**JIT)
def smooth_block(V, r, w, y, level, limit, c, inv_s, core, slope, tail, out):
    """Add to ``out`` the column sums of the smoothed map of ``(r V - c) inv_s``; no c is zero.

    A few rows at a time, as in `dense.bound_block`, also as to ``w``. A first sweep adds the core polynomial where it is
    valid, in vector registers, and counts where it is not: at few places, by design. Those are listed, and
    the tail polynomial is added for them. While they are many, as with a badly chosen scale, rows take both polynomials
    everywhere instead. Integers, so the order of additions cannot show; the counts decide speed, never a result.
    A term is bounded because the core polynomial is public and below 2**30 on the core; beyond it,
    because `far` ends in a clamp.
    """
    n, d = V.shape
    group, sums, square = max(LEAST, GROUP // d // 4 * 4), np.zeros(d), core * core
    ahead = AHEAD if w is None else group * d * V.itemsize
    crowded = False
    for top in range(0, n, group):
        rows = (top, min(top + group, n))
        if w is not None:
            residuals(V, rows[0], rows[1], w, y, level, limit, r)
        for low in range(0, d, TILE):
            size = np.uint64(min(TILE, d - low))
            if top == 0 and low == 0:
                probe = (0, min(PROBE, n))
                crowded = MANY * _count(V, probe, size, r, c, inv_s, square) > probe[1] * np.int64(size)
            if crowded:
                count = _add_all(V, rows, low, size, r, c, inv_s, square, slope, tail, sums, ahead)
            else:
                count = _add_core(V, rows, low, size, r, c, inv_s, square, slope, tail, sums, ahead)
            crowded = MANY * count > (rows[1] - rows[0]) * np.int64(size)
        if top % FLUSH < group or rows[1] == n:
            flush(sums, 0, d, out)
