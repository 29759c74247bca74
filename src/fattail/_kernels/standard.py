"""Rows in units of public centres and scales, for matrix products in single precision."""

from __future__ import annotations

import numpy as np
from numba import njit

from .dense import FAST, JIT, clamp

LARGEST = 1e12  # squares of sums of these are far from the largest single-precision number
ROWS = 256  # that stay in a core's cache from one step to the next


@njit(**FAST)
def standard_block(V, c, inv_s, constant, out, squares):
    """Write ``(V - c) inv_s`` and a constant to ``out``, and the squared lengths to ``squares``.

    Coordinates are clipped to a size that no length in single precision overflows at; NaN counts as 0. No
    bound rests on these.
    """
    n, d = V.shape
    for i in range(n):
        total = constant * constant
        for j in range(d):
            v = (np.float64(V[i, j]) - c[j]) * inv_s[j]
            v = clamp(v if v == v else 0.0, LARGEST)
            out[i, j] = v
            total += v * v
        out[i, d] = constant
        squares[i] = total


@njit(**JIT)
def product_block(V, W, out):
    """Write ``V W`` to ``out``, in tiles of equal size as `shaped_block` does."""
    v, u = np.zeros((ROWS, V.shape[1])), np.empty((ROWS, W.shape[1]))
    for first in range(0, len(V), ROWS):
        last = min(first + ROWS, len(V))
        v[: last - first] = V[first:last]
        np.dot(v, W, u)
        out[first:last] = u[: last - first]


@njit(**FAST)
def shaped_block(V, c, inv_s, constant, shape, out, squares, lengths):
    """Write the rows of `standard_block` times ``shape`` to ``out``, and the lengths of both: the first's squared.

    All products have the same number of rows, the last ones zeros if need be: BLAS then treats every row alike, and
    a row's product does not depend on where it is in which block.
    """
    z = np.zeros((ROWS, V.shape[1] + 1), dtype=np.float32)
    u = np.empty((ROWS, out.shape[1]), dtype=np.float32)
    for first in range(0, len(V), ROWS):
        last = min(first + ROWS, len(V))
        standard_block(V[first:last], c, inv_s, constant, z, squares[first:last])
        np.dot(z, shape, u)
        out[first:last] = u[: last - first]
        for i in range(first, last):
            total = np.float32(0.0)
            for j in range(out.shape[1]):
                total += out[i, j] * out[i, j]
            lengths[i] = np.sqrt(total)
