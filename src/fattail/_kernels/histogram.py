"""Exact counts of magnitudes on the public dyadic grid."""

from __future__ import annotations

import numpy as np
from numba import njit

from .dense import JIT


@njit(**JIT)
def _bin(v, lo_exponent, n_bins, steps, fractions):
    """Return the bin of ``|v|``: its exponent, then comparisons of its mantissa with public edges."""
    bits = np.float64(abs(v)).view(np.int64)
    octave = (bits >> 52) - 1023 - lo_exponent  # zero and subnormals fall below every grid
    if v != v or octave < 0:
        return 0
    mantissa = np.int64(bits & 0x000FFFFFFFFFFFFF | 0x3FF0000000000000).view(np.float64)
    part = 0
    for k in range(steps - 1):
        part += mantissa >= fractions[k]
    return min(1 + octave * steps + part, n_bins - 1)


@njit(**JIT)
def histogram_block(v, lo_exponent, n_bins, steps, fractions, out):
    """Add to ``out`` the counts of ``|v|`` by bin."""
    for i in range(v.size):
        out[_bin(v[i], lo_exponent, n_bins, steps, fractions)] += 1


@njit(**JIT)
def column_histogram_block(V, c, lo_exponent, n_bins, steps, fractions, out):
    """Add to ``out[j, sign]`` the counts of ``V_j - c_j`` by sign and bin."""
    n, d = V.shape
    for i in range(n):
        for j in range(d):
            v = V[i, j] - c[j]
            out[j, 1 if v < 0.0 else 0, _bin(v, lo_exponent, n_bins, steps, fractions)] += 1


@njit(**JIT)
def cells_block(codes, out):
    """Add to ``out[j]`` the counts of ``codes[:, j]``, clipped to the cells; NaN counts as cell 0."""
    n, groups = codes.shape
    last = out.shape[1] - 1.0
    for i in range(n):
        for j in range(groups):
            v = codes[i, j] if codes[i, j] > 0.0 else 0.0
            out[j, np.int64(v if v < last else last)] += 1
