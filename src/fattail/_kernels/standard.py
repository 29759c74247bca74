"""Rows in units of public centers and scales, and their products with a matrix in single precision."""

from __future__ import annotations

import numpy as np
from numba import njit

from .dense import clamp
from .products import JIT, product_block, row_dot

LARGEST = 1e12  # largest coordinate: squares of sums are far below the largest single-precision number
ROWS = 256  # rows that stay in the cache from one step to the next


@njit(**JIT)
def standard_block(V, c, inv_s, constant, out, squares):
    """Write ``(V - c) inv_s`` and a constant to ``out``, and the squared lengths to ``squares``.

    Coordinates are clipped so that no length overflows in single precision; NaN counts as 0. No privacy bound depends on this.
    """
    n, d = V.shape
    for i in range(n):
        for j in range(d):
            v = (np.float64(V[i, j]) - c[j]) * inv_s[j]
            out[i, j] = clamp(v if v == v else 0.0, LARGEST)
        out[i, d] = constant
    for i in range(n):  # apart, because a row that has just been written one by one cannot be read at once
        squares[i] = row_dot(out, i, out, i)


@njit(**JIT)
def shaped_block(V, c, inv_s, constant, shape, out, squares, lengths):
    """Write the rows of `standard_block` times ``shape`` to ``out``, with the squared lengths of the former and the lengths of
    the latter."""
    z = np.empty((ROWS, V.shape[1] + 1), dtype=np.float32)
    for first in range(0, len(V), ROWS):
        last = min(first + ROWS, len(V))
        standard_block(V[first:last], c, inv_s, constant, z, squares[first:last])
        product_block(z[: last - first], shape, out[first:last])
        for i in range(first, last):
            lengths[i] = np.sqrt(row_dot(out, i, out, i))
