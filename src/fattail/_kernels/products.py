"""Products of rows with public vectors and matrices, whose bits depend on the row alone.

BLAS and the compiler's own reordering round a row's product by where the row stands in its block, and a
table may be kept in any order. Here every sum has one order, written down, of operations that IEEE 754 defines
to the bit (a fused product and sum is one of them), so neither neighbours nor blocks nor vector lanes can show.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import intrinsic

# No licence to reorder or to fuse: the same for all kernels.
JIT = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"nsz"}}


@intrinsic
def fma(typing, a, b, c):
    """Return ``a b + c``, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return a(a, a, a), generate


@njit(**JIT)
def row_dot(v, w):
    """Return the product of two rows in float64: column j is added to partial sum j mod 8, but for the last few."""
    whole = w.size - w.size % 8
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(0, whole, 8):
        s0 = fma(np.float64(v[j]), np.float64(w[j]), s0)
        s1 = fma(np.float64(v[j + 1]), np.float64(w[j + 1]), s1)
        s2 = fma(np.float64(v[j + 2]), np.float64(w[j + 2]), s2)
        s3 = fma(np.float64(v[j + 3]), np.float64(w[j + 3]), s3)
        s4 = fma(np.float64(v[j + 4]), np.float64(w[j + 4]), s4)
        s5 = fma(np.float64(v[j + 5]), np.float64(w[j + 5]), s5)
        s6 = fma(np.float64(v[j + 6]), np.float64(w[j + 6]), s6)
        s7 = fma(np.float64(v[j + 7]), np.float64(w[j + 7]), s7)
    for j in range(whole, w.size):
        s0 = fma(np.float64(v[j]), np.float64(w[j]), s0)
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


@njit(**JIT)
def dot_block(V, first, last, w, out):
    """Write to ``out`` the products of some rows with ``w``."""
    for i in range(first, last):
        out[i] = row_dot(V[i], w)


@njit(**JIT)
def dot_rows(data, indices, indptr, w, out):
    """Write to ``out`` the products of CSR rows with ``w``, to the same bits as `dot_block`: a zero changes no sum."""
    whole = w.size - w.size % 8
    lanes = np.zeros(8)
    for i in range(indptr.size - 1):
        lanes[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = np.int64(indices[k])
            lane = j % 8 if j < whole else 0
            lanes[lane] = fma(np.float64(data[k]), np.float64(w[j]), lanes[lane])
        out[i] = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))


@njit(**JIT)
def dots_block(V, W, out):
    """Write to ``out`` the products of the rows of ``V`` with those of ``W``."""
    for i in range(len(V)):
        out[i] = row_dot(V[i], W[i])


@njit(**JIT)
def _add_products(V, i, W, k, out):
    """Add column k of row i times row k of ``W``."""
    v = V[i, k]
    for j in range(W.shape[1]):
        out[i, j] = fma(v, W[k, j], out[i, j])


@njit(**JIT)
def product_block(V, W, out):
    """Write ``V W`` to ``out``, all three of one type: an entry is a sum over the columns of V from first to last.

    Two rows and four columns at a time, so that memory is asked less; what is done to an entry, and in which
    order, is the same for the last row, which may be alone.
    """
    n, d = V.shape
    m = W.shape[1]
    whole = d - d % 4
    out[:] = 0.0
    for i in range(0, n - 1, 2):
        for k in range(0, whole, 4):
            a0, a1, a2, a3 = V[i, k], V[i, k + 1], V[i, k + 2], V[i, k + 3]
            b0, b1, b2, b3 = V[i + 1, k], V[i + 1, k + 1], V[i + 1, k + 2], V[i + 1, k + 3]
            for j in range(m):
                w0, w1, w2, w3 = W[k, j], W[k + 1, j], W[k + 2, j], W[k + 3, j]
                out[i, j] = fma(a3, w3, fma(a2, w2, fma(a1, w1, fma(a0, w0, out[i, j]))))
                out[i + 1, j] = fma(b3, w3, fma(b2, w2, fma(b1, w1, fma(b0, w0, out[i + 1, j]))))
        for k in range(whole, d):
            _add_products(V, i, W, k, out)
            _add_products(V, i + 1, W, k, out)
    if n % 2:
        for k in range(d):
            _add_products(V, n - 1, W, k, out)
