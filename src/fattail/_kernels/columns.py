"""The dense kernels for a block stored column by column, as data frames and files store it.

``places`` are the addresses of the columns, each contiguous and of the type of the array ``like``: files are decoded to
columns here and there, and to bring them together would cost more than the sums.  A column is swept
from top to bottom with its own centre and scale.  The terms have the same bits as in `dense`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .dense import FLUSH, JIT, LANES, bound, fold
from .memory import column_at
from .smooth import all_values, beyond, far, near, tail_values

STRIP = 512  # rows whose arguments beyond the core are dealt with at once; a multiple of LANES


@njit(**JIT)
def argument(v, r, c, centre, inverse):
    """Return ``(r v - centre) inverse``; no ``c`` means no centre."""
    if c is None:
        return r * v * inverse
    return (r * v - centre) * inverse


@njit(**JIT)
def bound_columns(places, like, r, c, inv_s, edge, out):
    """Add to ``out`` the column sums of ``bound((r v - c) inv_s, edge)``; no c is zero."""
    d, n = places.size, r.size
    lanes, width = np.zeros(LANES), np.uint64(LANES)
    for j in range(d):
        v, centre, inverse = column_at(places[j], n, like), 0.0 if c is None else c[j], inv_s[j]
        for top in range(np.uint64(0), np.uint64(n), np.uint64(FLUSH)):
            bottom = min(top + np.uint64(FLUSH), np.uint64(n))
            whole = bottom - bottom % width
            for first in range(top, whole, width):
                for k in range(width):
                    lanes[k] += bound(argument(v[first + k], r[first + k], c, centre, inverse), edge)
            for i in range(whole, bottom):
                lanes[0] += bound(argument(v[i], r[i], c, centre, inverse), edge)
            out[j] += np.int64(fold(lanes))


@njit(**JIT)
def _add_core(v, first, size, r, c, centre, inverse, square, slope, lanes):
    """Add the core polynomial of a strip where it is valid; count where it is not."""
    count = 0
    width = np.uint64(LANES)
    last = first + size
    whole = last - size % width
    for start in range(first, whole, width):
        for k in range(width):
            a = argument(v[start + k], r[start + k], c, centre, inverse)
            lanes[k] += near(a, square, slope)
            count += beyond(a, square)
    for i in range(whole, last):
        a = argument(v[i], r[i], c, centre, inverse)
        lanes[0] += near(a, square, slope)
        count += beyond(a, square)
    return count


@njit(**JIT)
def _select(flags, words, size, where):
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
def _list(v, first, size, r, c, centre, inverse, square, here, flags, words, where, args, listed):
    """Append to ``args`` the arguments of a strip that lie beyond the core."""
    for k in range(size):
        here[k] = argument(v[first + k], r[first + k], c, centre, inverse)
        flags[k] = beyond(here[k], square)
    end = listed + _select(flags, words, size, where)
    for k in range(listed, end):
        args[k] = here[where[k - listed]]
    return end


@njit(**JIT)
def _settle(args, count, square, tail, u, h):
    """Return the sum of the tail's values at some arguments."""
    tail_values(args, count, square, tail, u, h)
    total = 0.0
    for k in range(count):
        total += far(h[k], args[k])
    return total


@njit(**JIT)
def _add_all(v, first, size, r, c, centre, inverse, square, slope, tail, args, u, h, lanes):
    """Add core or tail polynomial, whichever is valid; count the arguments beyond the core."""
    for k in range(size):
        args[k] = argument(v[first + k], r[first + k], c, centre, inverse)
    count = all_values(args, size, square, slope, tail, u, h)
    width = np.uint64(LANES)
    whole = size - size % width
    for start in range(np.uint64(0), whole, width):
        for k in range(width):
            lanes[k] += h[start + k]
    for k in range(size - whole):
        lanes[k] += h[whole + k]
    return count


@njit(**JIT)
def smooth_columns(places, like, r, c, inv_s, core, slope, tail, out):
    """Add to ``out`` the column sums of the smoothed map of ``(r v - c) inv_s``; no c is zero.

    As `smooth.smooth_block`, by strips of a column instead of groups of rows: the core polynomial where it is valid
    and the tail's for the few beyond, or both everywhere while those are many.
    """
    d, n = places.size, r.size
    lanes, square = np.zeros(LANES), core * core
    here, where, flags = np.empty(STRIP), np.empty(STRIP + 8, dtype=np.uint32), np.zeros(STRIP, dtype=np.uint8)
    words = flags.view(np.uint64)
    args, u, h = np.empty(2 * STRIP), np.empty(2 * STRIP), np.empty(2 * STRIP)
    crowded = False
    for j in range(d):
        v, centre, inverse = column_at(places[j], n, like), 0.0 if c is None else c[j], inv_s[j]
        total, listed = 0.0, np.uint64(0)
        for first in range(np.uint64(0), np.uint64(n), np.uint64(STRIP)):
            size = min(np.uint64(STRIP), np.uint64(n) - first)
            if crowded:
                count = _add_all(v, first, size, r, c, centre, inverse, square, slope, tail, here, u, h, lanes)
            else:
                count = _add_core(v, first, size, r, c, centre, inverse, square, slope, lanes)
                if count > 0:
                    listed = _list(v, first, size, r, c, centre, inverse, square, here, flags, words, where, args, listed)
                if listed > np.uint64(STRIP):
                    total += _settle(args, listed, square, tail, u, h)
                    listed = np.uint64(0)
            crowded = 4 * count > np.int64(size)
            if first % np.uint64(FLUSH) == 0:
                out[j] += np.int64(total + fold(lanes))
                total = 0.0
        if listed > 0:
            total += _settle(args, listed, square, tail, u, h)
        out[j] += np.int64(total + fold(lanes))
