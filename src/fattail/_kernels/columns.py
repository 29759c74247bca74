"""The dense kernels for a block stored column by column, as data frames and files store it.

``places`` are the addresses of the columns, each contiguous and of the type of the array ``like``: files are decoded to
separate columns, and copying them into one array would cost more than the sums. A column is summed from top to bottom with its
own center and scale.  The terms have the same bits as in `dense`.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from .dense import FLUSH, JIT, LANES, bound, fold
from .memory import column_at, stack_array
from .smooth import MANY, all_values, beyond, far, near, tail_values

STRIP = 512  # rows whose arguments beyond the core are processed together; a multiple of LANES
MOST = 2 * STRIP + LANES  # not a power of two, to avoid conflicts in the cache


@njit(**JIT)
def argument(v, r, c, center, inverse):
    """Return ``(r v - center) inverse``; no ``c`` means no center."""
    if c is None:
        return r * v * inverse
    return (r * v - center) * inverse


@njit(**JIT, inline="always")
def _emptied(lanes):
    """Return the sum of the lanes and reset them.

    ``lanes`` is not passed to a function, so the compiler knows that it does not overlap other arrays.
    """
    sums = carray(stack_array(LANES, 0.0), LANES)
    for k in range(LANES):
        sums[k] = lanes[k]
        lanes[k] = 0.0
    return fold(sums)


@njit(**JIT)
def bound_columns(places, like, r, c, inv_s, edge, out):
    """Add to ``out`` the column sums of ``bound((r v - c) inv_s, edge)``; no c is zero."""
    d, n = places.size, r.size
    lanes, width = carray(stack_array(LANES, 0.0), LANES), np.uint64(LANES)
    for k in range(width):
        lanes[k] = 0.0
    for j in range(d):
        v, center, inverse = column_at(places[j], n, like), 0.0 if c is None else c[j], inv_s[j]
        for top in range(np.uint64(0), np.uint64(n), np.uint64(FLUSH)):
            bottom = min(top + np.uint64(FLUSH), np.uint64(n))
            whole = bottom - bottom % width
            for first in range(top, whole, width):
                for k in range(width):
                    lanes[k] += bound(argument(v[first + k], r[first + k], c, center, inverse), edge)
            for i in range(whole, bottom):
                lanes[0] += bound(argument(v[i], r[i], c, center, inverse), edge)
            out[j] += np.int64(_emptied(lanes))


@njit(**JIT, inline="always")
def _add_core(v, first, r, c, center, inverse, square, slope, lanes):
    """Add the core polynomial of a few rows where it is valid; count where it is not."""
    count = 0
    for k in range(np.uint64(LANES)):
        a = argument(v[first + k], r[first + k], c, center, inverse)
        lanes[k] += near(a, square, slope)
        count += beyond(a, square)
    return count


@njit(**JIT)
def _list(v, r, c, center, inverse, square, noted, many, args, listed):
    """Append to ``args``, without a branch, the arguments of noted rows beyond the core; return how many are listed."""
    here = carray(stack_array(LANES, 0.0), LANES)
    for n in range(many):
        for k in range(np.uint64(LANES)):
            here[k] = argument(v[noted[n] + k], r[noted[n] + k], c, center, inverse)
        for k in range(np.uint64(LANES)):
            args[listed] = here[k]
            listed += np.uint64(beyond(here[k], square))
    return listed


@njit(**JIT)
def _tail_sum(args, count, square, tail, u, h):
    """Return the sum of the tail's values at some arguments."""
    tail_values(args, count, square, tail, u, h)
    total = 0.0
    for k in range(count):
        total += far(h[k], args[k])
    return total


@njit(**JIT)
def _add_all(v, first, last, r, c, center, inverse, square, slope, tail, args, u, h):
    """Return the sum of the terms of some rows, with both polynomials evaluated everywhere, and the number beyond the core."""
    size = last - first
    for k in range(size):
        args[k] = argument(v[first + k], r[first + k], c, center, inverse)
    count = all_values(args, size, square, slope, tail, u, h)
    lanes, whole = np.zeros(LANES), size // np.uint64(LANES) * np.uint64(LANES)
    for start in range(np.uint64(0), whole, np.uint64(LANES)):
        for k in range(np.uint64(LANES)):
            lanes[k] += h[start + k]
    for k in range(size - whole):
        lanes[k] += h[whole + k]
    return fold(lanes), count


@njit(**JIT)
def smooth_columns(places, like, r, c, inv_s, core, slope, tail, out):
    """Add to ``out`` the column sums of the smoothed map of ``(r v - c) inv_s``; no c is zero.

    As `smooth.smooth_block`, by strips of a column instead of groups of rows: the core polynomial where it is valid
    and the tail's for the few beyond, or both everywhere while those are many.
    """
    d, n = places.size, np.uint64(r.size)
    width, square = np.uint64(LANES), core * core
    lanes, noted = carray(stack_array(LANES, 0.0), LANES), carray(stack_array(STRIP, np.uint64(0)), STRIP)
    args, u, h, others = np.empty(MOST), np.empty(MOST), np.empty(MOST), np.empty(MOST)
    for k in range(width):
        lanes[k] = 0.0
    crowded = False
    for j in range(d):
        v, center, inverse = column_at(places[j], np.int64(n), like), 0.0 if c is None else c[j], inv_s[j]
        total, listed = 0.0, np.uint64(0)
        for first in range(np.uint64(0), n, np.uint64(STRIP)):
            last = min(first + np.uint64(STRIP), n)
            whole = first if crowded else last - (last - first) % width
            many = np.uint64(0)
            count = 0
            for start in range(first, whole, width):
                missed = _add_core(v, start, r, c, center, inverse, square, slope, lanes)
                noted[many] = start
                many += np.uint64(missed > 0)
                count += missed
            if many > 0:
                listed = _list(v, r, c, center, inverse, square, noted, many, args, listed)
                if listed > np.uint64(STRIP):
                    total += _tail_sum(args, listed, square, tail, u, h)
                    listed = np.uint64(0)
            if whole < last:
                added, missed = _add_all(v, whole, last, r, c, center, inverse, square, slope, tail, others, u, h)
                total += added
                count += missed
            crowded = MANY * count > np.int64(last - first)
            if first % np.uint64(FLUSH) == 0:
                out[j] += np.int64(total + _emptied(lanes))
                total = 0.0
        total += _tail_sum(args, listed, square, tail, u, h)
        out[j] += np.int64(total + _emptied(lanes))
