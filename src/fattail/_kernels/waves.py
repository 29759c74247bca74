"""Bounded functions of entries (signs, and periodic functions of their logarithm) that work in any unit."""

from __future__ import annotations

import numpy as np
from numba import njit

from .dense import JIT

PHASES = 4
"""Of each wave: one of them changes its sign within an eighth of a period of wherever a column has its middle."""


@njit(**JIT)
def waves_block(V, periods, out):
    """Write to ``out``, one list of columns after another: signs; whether positive; square waves of ``log2 |v|``, with a sign.

    The bits of a float, read as an integer, are its logarithm up to a tenth of an octave, exact at whole octaves and monotone
    between them. A wave is 1 for half a period and -1 for the other half. All values are -1, 0 or 1.
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
            out[i, d + j] = np.float64(v > 0.0) - np.float64(v <= 0.0)
        for k in range(PHASES * periods.size):
            rate, phase = 1.0 / periods[k // PHASES], (k % PHASES) / (2.0 * PHASES)
            wave = out[i, (k + 2) * d : (k + 3) * d]
            for j in range(d):
                t = octaves[j] * rate + phase
                wave[j] = signs[j] if t - np.floor(t) < 0.5 else -signs[j]
