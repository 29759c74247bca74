"""Rows in units of public centres and scales, for matrix products in single precision."""

from __future__ import annotations

import numpy as np
from numba import njit

from .dense import JIT, clamp

LARGEST = 1e12  # squares of sums of these are far from the largest single-precision number


@njit(**{**JIT, "fastmath": {"nsz", "reassoc", "contract"}})
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
