"""Bounded functions of entries (signs, and periodic functions of their logarithm) that work in any unit."""

from __future__ import annotations

import numpy as np
from numba import njit

from .dense import JIT


@njit(**JIT)
def waves_block(V, periods, out):
    """Write signs to the first columns of ``out``, then waves of ``log2 |v|`` with a sign: two phases of each period.

    The bits of a float, read as an integer, are its logarithm up to a tenth of an octave, exact at whole octaves and monotone
    between them. A wave falls from 1 to -1 in half a period and rises again.
    """
    n, d = V.shape
    octaves = np.empty(d)
    signs = np.empty(d)
    for i in range(n):
        for j in range(d):
            v = np.float64(V[i, j])
            octaves[j] = np.float64(np.float64(abs(v)).view(np.int64)) * 2.0**-52
            signs[j] = np.float64(v > 0.0) - np.float64(v < 0.0)
            out[i, j] = signs[j]
        for k in range(2 * periods.size):
            rate, phase = 1.0 / periods[k // 2], 0.25 * (k % 2)
            wave = out[i, (k + 1) * d : (k + 2) * d]
            for j in range(d):
                t = octaves[j] * rate + phase
                wave[j] = signs[j] * (4.0 * abs(t - np.floor(t) - 0.5) - 1.0)
