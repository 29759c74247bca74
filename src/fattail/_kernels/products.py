"""Products of rows with public vectors and matrices, whose bits depend on the row alone.

With BLAS, or if the compiler reorders sums, the rounding of a row's product depends on the row's position in its block. Here
every sum has one fixed order of operations that IEEE 754 defines to the bit, so the result depends neither on other rows nor on
blocks.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .vectors import LANES, ROWS, VECTORS, fma, partial_dot, tile

# No permission to reorder or fuse operations, as for all kernels.
JIT = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"nsz"}}


@njit(**JIT)
def row_dot(V, i, W, k):
    """Return the product of row i of V and row k of W in float64: of multiples of 16 columns in vector registers, then of the
    others in turn.

    Rows are not passed as arrays: to count the references to them takes as long as the product. Indices are unsigned, since
    others may count from the end.
    """
    size, i, k = np.uint64(V.shape[1]), np.uint64(i), np.uint64(k)
    rest = size % np.uint64(2 * LANES)
    total = partial_dot(V, i, W, k, size) if rest < size else 0.0
    for j in range(size - rest, size):
        total = fma(np.float64(V[i, j]), np.float64(W[k, j]), total)
    return total


@njit(**JIT)
def dot_block(V, first, last, w, out):
    """Write to ``out`` the products of some rows with ``w``."""
    W = w.reshape(1, -1)
    for i in range(first, last):
        out[i] = row_dot(V, i, W, 0)


@njit(**JIT)
def dot_rows(data, indices, indptr, w, out):
    """Write to ``out`` the products of CSR rows, sorted by column, with ``w``.

    To the same bits as `dot_block`, since a zero changes no sum: 16 partial sums, added in halves, then the others in turn.
    """
    whole = w.size - w.size % (2 * LANES)
    sums = np.zeros(2 * LANES)
    for i in range(indptr.size - 1):
        sums[:] = 0.0
        k, stop = indptr[i], indptr[i + 1]
        while k < stop and indices[k] < whole:
            lane = indices[k] % (2 * LANES)
            sums[lane] = fma(np.float64(data[k]), np.float64(w[indices[k]]), sums[lane])
            k += 1
        half = LANES
        while half > 0:
            for lane in range(half):
                sums[lane] += sums[lane + half]
            half //= 2
        total = sums[0]
        while k < stop:
            total = fma(np.float64(data[k]), np.float64(w[indices[k]]), total)
            k += 1
        out[i] = total


@njit(**JIT)
def dots_block(V, W, out):
    """Write to ``out`` the products of the rows of ``V`` with those of ``W``."""
    for i in range(len(V)):
        out[i] = row_dot(V, i, W, i)


@njit(**JIT)
def product_block(V, W, out):
    """Write ``V W`` to ``out``, all three of one type: an entry is a sum over the columns of V from first to last.

    Four rows at a time; where fewer are left the last one is taken several times. Columns are filled up with zeros.
    """
    (n, d), m = V.shape, W.shape[1]
    step = VECTORS * LANES * 8 // V.itemsize
    padded = np.zeros((d, -(-m // step) * step), W.dtype)
    padded[:, :m] = W
    few = np.empty((ROWS, padded.shape[1]), W.dtype)
    for i in range(0, n, ROWS):
        for column in range(0, m, step):
            tile(V, i, min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1), padded, column, few)
        for r in range(min(ROWS, n - i)):
            for j in range(m):
                out[i + r, j] = few[r, j]
