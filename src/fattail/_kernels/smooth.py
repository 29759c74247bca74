"""Column sums of the smoothed map over one dense block of rows.

As in `dense`: integers of at most 2**30 in float64, no licence to reorder or to fuse, NaN counts as 0.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .dense import FLUSH, GROUP, JIT, LEAST, NEAR, STRIP, TILE, UNIT, argument, clamp, flush, load, residuals, spill
from .memory import address, ask

PROBE = 4  # rows that tell how to begin
LIST = 512  # arguments beyond the core that are dealt with at once


@njit(**JIT)
def inner(b, slope):
    """Evaluate the smoothed map within its core, in units of 2**-30."""
    return b * (slope - b * b)


@njit(**JIT)
def outer(h, a):
    """Turn the tail polynomial ``h`` into the smoothed map at ``a``, as `inner`; NaN counts as 0."""
    return math.copysign(clamp(h, UNIT), a) if a == a else 0.0


@njit(**JIT)
def near(b, slope):
    return np.rint(inner(b, slope))


@njit(**JIT)
def far(h, a):
    return np.rint(outer(h, a))


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
def all_values(args, count, core, slope, tail, u, h):
    """Write to ``h`` the smoothed map at ``args``, both polynomials found everywhere; count those beyond the core."""
    tail_values(args, count, core, tail, u, h)
    beyond = 0
    for k in range(np.uint64(count)):
        a, b = args[k], clamp(args[k], core)
        close, distant = inner(b, slope), outer(h[k], a)
        h[k] = np.rint(close if a == b else distant)  # one rounding serves either
        beyond += 0 if a == b else 1
    return beyond


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


@njit(**JIT, inline="always")
def _add_strip(V, i, start, first, last, ri, c, centre, inverse, core, slope, acc):
    """Add the core polynomial of the clamped arguments of a part of a row; count those moved."""
    count = 0
    for k in range(first, last):
        a = argument(V[i, start + k], ri, c, centre, inverse, k)
        b = clamp(a, core)
        acc[k] += near(b, slope)
        count += 0 if a == b else 1
    return count


@njit(**JIT)
def _add_core(V, rows, start, size, r, c, centre, inverse, core, slope, acc, moved, ahead):
    """Add the strips of some rows, note how many were moved in each, and ask for the memory ``ahead`` bytes on."""
    none, strip, item = np.uint64(0), np.uint64(STRIP), np.uint64(V.itemsize)
    total = 0
    for i in range(rows[0], rows[1]):
        there = address(V, i, start) + np.uint64(ahead)
        if size <= strip:  # a loop from zero on is faster
            count = _add_strip(V, i, start, none, size, r[i], c, centre, inverse, core, slope, acc)
            ask(there, size * item)
            moved[i - rows[0], 0] = count
            total += count
        else:
            for first in range(none, size, strip):
                last = min(first + strip, size)
                count = _add_strip(V, i, start, first, last, r[i], c, centre, inverse, core, slope, acc)
                ask(there + first * item, (last - first) * item)
                moved[i - rows[0], first // strip] = count
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
    """List the arguments that `_add_core` moved and settle them together."""
    here, flags, where = np.empty(STRIP), np.zeros(STRIP, dtype=np.uint8), np.empty(STRIP + 8, dtype=np.uint32)
    words = flags.view(np.uint64)
    args, columns = np.empty(LIST + STRIP), np.empty(LIST + STRIP, dtype=np.uint32)
    u, h = np.empty(LIST + STRIP), np.empty(LIST + STRIP)
    listed = np.uint64(0)
    for i in range(rows[0], rows[1]):
        for first in range(np.uint64(0), size, np.uint64(STRIP)):
            if moved[i - rows[0], first // np.uint64(STRIP)] > 0:
                many, begin = min(np.uint64(STRIP), size - first), start + first
                for k in range(many):
                    here[k] = argument(V[i, begin + k], r[i], c, centre, inverse, first + k)
                    flags[k] = not abs(here[k]) <= core
                end = listed + select(flags, words, many, where)
                for k in range(listed, end):
                    args[k], columns[k] = here[where[k - listed]], where[k - listed] + first
                listed = end
                if listed > np.uint64(LIST):
                    _settle(args, columns, listed, core, slope, tail, u, h, acc)
                    listed = np.uint64(0)
    _settle(args, columns, listed, core, slope, tail, u, h, acc)


@njit(**JIT)
def _add_all(V, rows, start, size, r, c, centre, inverse, core, slope, tail, acc, ahead):
    """Add core or tail polynomial, whichever is valid, count the arguments beyond the core, and ask for memory as `_add_core`."""
    together = max(1, LIST // size)  # rows: loops are long even where rows are short
    args, u, h = np.empty(LIST), np.empty(LIST), np.empty(LIST)
    total = 0
    for top in range(rows[0], rows[1], together):
        bottom = min(top + together, rows[1])
        for first in range(np.uint64(0), size, np.uint64(LIST)):
            many, begin = min(np.uint64(LIST), size - first), start + first
            at = np.uint64(0)
            for i in range(top, bottom):
                for k in range(many):
                    args[at + k] = argument(V[i, begin + k], r[i], c, centre, inverse, first + k)
                ask(address(V, i, begin) + np.uint64(ahead), many * np.uint64(V.itemsize))
                at += many
            total += all_values(args, at, core, slope, tail, u, h)
            at = np.uint64(0)
            for _ in range(top, bottom):
                for k in range(many):
                    acc[first + k] += h[at + k]
                at += many
    return total


@njit(**JIT)
def _beyond(V, rows, start, size, r, c, centre, inverse, core):
    """Count the arguments beyond the core."""
    count = 0
    for i in range(rows[0], rows[1]):
        for k in range(size):
            count += 0 if abs(argument(V[i, start + k], r[i], c, centre, inverse, k)) <= core else 1
    return count


@njit(**JIT)
def smooth_block(V, r, w, y, level, limit, c, inv_s, core, slope, tail, out):
    """Add to ``out`` the column sums of the smoothed map of ``(r V - c) inv_s``; no c is zero.

    A few rows at a time, as in `dense.bound_block`, also as to ``w``. A first sweep clamps the arguments to the
    core, adds the core polynomial in vector registers, and counts the arguments that the clamp moved: few, by design. Those are
    listed, and the tail polynomial replaces what was added for them. While they are many, as
    with a badly chosen scale, rows take both polynomials everywhere instead. Integers, so
    differences are exact; the counts decide speed, never a result. A term is bounded because a
    clamped argument is, and the core polynomial is public and below 2**30 there; beyond the core,
    because `far` ends in a clamp.
    """
    n, d = V.shape
    width, group = min(TILE, d), max(LEAST, GROUP // d)
    acc, sums, inverse, centre = np.zeros(width), np.zeros(d), np.empty(width), np.empty(0 if c is None else width)
    moved = np.empty((group, (width - 1) // STRIP + 1), dtype=np.int64)
    ahead = NEAR if w is None else group * d * V.itemsize
    crowded = False
    for top in range(0, n, group):
        rows = (top, min(top + group, n))
        if w is not None:
            residuals(V, rows[0], rows[1], w, y, level, limit, r)
        for low in range(0, d, TILE):
            start, size = np.uint64(low), np.uint64(min(TILE, d - low))
            if top == 0 or d > TILE:
                load(c, low, size, centre)
                load(inv_s, low, size, inverse)
            if top == 0 and low == 0:
                probe = (0, min(PROBE, n))
                crowded = 4 * _beyond(V, probe, start, size, r, c, centre, inverse, core) > probe[1] * np.int64(size)
            if crowded:
                beyond = _add_all(V, rows, start, size, r, c, centre, inverse, core, slope, tail, acc, ahead)
            else:
                beyond = _add_core(V, rows, start, size, r, c, centre, inverse, core, slope, acc, moved, ahead)
                if beyond > 0:
                    _mend(V, rows, start, size, r, c, centre, inverse, core, slope, tail, acc, moved)
            crowded = 4 * beyond > (rows[1] - rows[0]) * np.int64(size)
            if d > TILE or top % FLUSH < group or rows[1] == n:
                spill(acc, low, size, sums)
        if top % FLUSH < group or rows[1] == n:
            flush(sums, 0, d, out)
