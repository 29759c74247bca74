"""The sparse twins of the dense kernels: one CSR block, its stored entries only.

The terms have the same bits as in `dense`.  An entry whose column is out of range, or not beyond
the one before it in its row, is skipped: a malformed matrix (duplicate or unsorted entries) then
gives a wrong sum but never a contribution beyond the bound.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .dense import JIT, LANES, UNIT, argument, ball_factor, bound, clamp, finite, fold, rescale
from .smooth import all_values, beyond, far, near, tail_values

STRIP = 512  # entries for which the smoothed map is evaluated together


@njit(**JIT)
def bound_rows(data, indices, indptr, r, c, inv_s, edge, out):
    """Add to ``out`` the column sums of ``bound((r V - c) inv_s, edge)``; no c is zero."""
    d = out.size
    zeros = np.zeros(0 if c is None else d, dtype=np.int64)
    rows = 0
    for i in range(indptr.size - 1):
        finite_row = abs(r[i]) < math.inf  # otherwise r * 0 is NaN, and an implicit zero counts 0
        rows += finite_row
        last = -1
        for k in range(indptr[i], indptr[i + 1]):
            j = np.int64(indices[k])
            if last < j < d:
                last = j
                if c is not None:
                    zeros[j] -= finite_row
                out[j] += np.int64(bound(argument(data[k], r[i], c, c, inv_s, j), edge))
    if c is not None:
        for j in range(d):
            out[j] += (rows + zeros[j]) * np.int64(bound((0.0 - c[j]) * inv_s[j], edge))


@njit(**JIT)
def _add_strip(args, columns, count, square, slope, tail, places, u, g, h, out):
    """Add the smoothed map of some arguments to their columns; ``args`` is overwritten.

    As in `smooth`: the core polynomial where it is valid, in vector registers; then the tail polynomial for
    the others, listed without a branch.
    """
    missed = 0
    for k in range(np.uint64(count)):
        h[k] = near(args[k], square, slope)
        missed += beyond(args[k], square)
    if missed > 0:
        listed = np.uint64(0)
        for k in range(np.uint64(count)):
            places[listed] = k
            listed += np.uint64(beyond(args[k], square))
        for k in range(listed):
            args[k] = args[places[k]]
        tail_values(args, listed, square, tail, u, g)
        for k in range(listed):
            g[k] = far(g[k], args[k])
        for k in range(listed):
            h[places[k]] = g[k]
    for k in range(np.uint64(count)):
        out[columns[k]] += np.int64(h[k])


@njit(**JIT)
def smooth_rows(data, indices, indptr, r, c, inv_s, core, slope, tail, out):
    """Add to ``out`` the column sums of the smoothed map of ``(r V - c) inv_s``; no c is zero."""
    d = out.size
    zeros = np.zeros(0 if c is None else d, dtype=np.int64)
    args, u, g, h = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    columns, places = np.empty(STRIP, dtype=np.int64), np.empty(STRIP, dtype=np.uint32)
    have, square = np.uint64(0), core * core
    rows = 0
    for i in range(indptr.size - 1):
        finite_row = abs(r[i]) < math.inf
        rows += finite_row
        last = -1
        for k in range(indptr[i], indptr[i + 1]):
            j = np.int64(indices[k])
            if last < j < d:
                last = j
                if c is not None:
                    zeros[j] -= finite_row
                args[have] = argument(data[k], r[i], c, c, inv_s, j)
                columns[have] = j
                have += np.uint64(1)
                if have == STRIP:
                    _add_strip(args, columns, have, square, slope, tail, places, u, g, h, out)
                    have = np.uint64(0)
    _add_strip(args, columns, have, square, slope, tail, places, u, g, h, out)
    if c is not None:
        at_zero, terms = np.empty(d), np.empty(d)
        for j in range(d):
            at_zero[j] = (0.0 - c[j]) * inv_s[j]
        all_values(at_zero, d, square, slope, tail, np.empty(d), terms)
        for j in range(d):
            out[j] += (rows + zeros[j]) * np.int64(terms[j])


@njit(**JIT)
def _squares(data, indices, start, stop, ri, inv_s, scale, lanes):
    last = -1
    for k in range(start, stop):
        j = indices[k]
        if last < j < inv_s.size:
            last = j
            u = finite(ri * data[k] * inv_s[j]) * scale
            lanes[j % LANES] += u * u
    return fold(lanes)


@njit(**JIT)
def _norm(data, indices, start, stop, ri, inv_s, lanes):
    total = _squares(data, indices, start, stop, ri, inv_s, 1.0, lanes)
    if 1e-280 < total < 1e300:
        return 1.0, math.sqrt(total)
    top = 0.0
    last = -1
    for k in range(start, stop):
        j = indices[k]
        if last < j < inv_s.size:
            last = j
            top = max(top, abs(finite(ri * data[k] * inv_s[j])))
    scale = rescale(top)
    return scale, math.sqrt(_squares(data, indices, start, stop, ri, inv_s, scale, lanes))


@njit(**JIT)
def norm_rows(data, indices, indptr, inv_s, out):
    """Write to ``out`` the l2 norms of the rows ``V inv_s``, non-finite coordinates as 0."""
    lanes = np.zeros(LANES)
    for i in range(indptr.size - 1):
        scale, norm = _norm(data, indices, indptr[i], indptr[i + 1], 1.0, inv_s, lanes)
        out[i] = norm / scale


@njit(**JIT)
def ball_rows(data, indices, indptr, r, inv_s, inside, limit, out):
    """Add to ``out`` the column sums of the rows ``r V inv_s`` shrunk to an l2 ball."""
    lanes = np.zeros(LANES)
    for i in range(indptr.size - 1):
        scale, norm = _norm(data, indices, indptr[i], indptr[i + 1], r[i], inv_s, lanes)
        factor = ball_factor(scale, norm, inside, limit)
        last = -1
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if last < j < inv_s.size:
                last = j
                u = finite(r[i] * data[k] * inv_s[j])
                out[j] += np.int64(np.rint(clamp(u * factor, UNIT)))
