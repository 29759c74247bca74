"""The trimmed mean: an exact sum, and its smooth sensitivity in linear time."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

_HALF = 26  # bits of a mantissa's lower part: 2**36 of either part fit in 64 bits


def exact_sum(x: NDArray[np.float64]) -> float:
    """Return the sum of finite numbers, rounded once, whatever their order: ``math.fsum``, but faster.

    Examples
    --------
    >>> from fattail._kernels import exact_sum
    >>> exact_sum(np.array([1e300, 1.0, -1e300]))
    1.0
    """
    parts = np.zeros((2, 2048), dtype=np.int64)
    _add_parts(np.ascontiguousarray(x), parts)
    used = np.flatnonzero(parts.any(axis=0))
    # Integers from here on; dividing two of them rounds correctly.
    total = sum(((int(parts[1, e]) << _HALF) + int(parts[0, e])) << int(e) for e in used)
    return total / (1 << 1075)


@njit(cache=True, nogil=True)
def _add_parts(x, parts):
    """Add to ``parts`` the lower and the higher bits of mantissas, by exponent, with their sign."""
    for k in range(x.size):
        bits = x[k : k + 1].view(np.int64)[0]
        exponent = (bits >> 52) & 0x7FF
        mantissa = (bits & 0xFFFFFFFFFFFFF) | ((1 << 52) if exponent > 0 else 0)
        place = max(exponent, 1)
        low, high = mantissa & ((1 << _HALF) - 1), mantissa >> _HALF
        parts[0, place] += -low if bits < 0 else low
        parts[1, place] += -high if bits < 0 else high


@njit(cache=True, nogil=True, error_model="numpy")
def smooth_sensitivity(low, high, t, floor, ceiling):
    """(n - 2m) times the t-smooth sensitivity of the mean trimmed by m at either end.

    Parameters
    ----------
    low, high : float64 arrays of length m + 1
        The m + 1 smallest values, ascending, and the m + 1 largest, ascending.
    t : float
        Smoothness.
    floor, ceiling : float
        Ends of the public interval that all values lie in.

    Notes
    -----
    The answer is the maximum over i in 0..m+1 and j in 0..m+1, not both (m+1, 0), of
    exp(-t (j - i + m)) (H_j - L_i), where L = (floor, low) and H = (high, ceiling). For a fixed j
    the inner term is a line in L_i with slope -exp(-t j); slopes increase with j and the
    queries L_i ascend, so one pass over the upper envelope answers all of them.
    """
    m = low.size - 1
    H = np.empty(m + 2)
    H[: m + 1] = high
    H[m + 1] = ceiling

    hull = np.empty(m + 2, dtype=np.int64)
    size = 0
    for b in range(m + 2):
        while size >= 2 and _crossing(H, t, hull[size - 2], b) <= _crossing(H, t, hull[size - 2], hull[size - 1]):
            size -= 1
        hull[size] = b
        size += 1

    best = 0.0
    p = 0
    for i in range(m + 1):
        z = floor if i == 0 else low[i - 1]
        while p + 1 < size and _crossing(H, t, hull[p], hull[p + 1]) <= z:
            p += 1
        j = hull[p]
        best = max(best, math.exp(-t * (j - i + m)) * (H[j] - z))
    for j in range(1, m + 2):  # i = m + 1 needs a step beyond the data as it is
        best = max(best, math.exp(-t * (j - 1)) * (H[j] - low[m]))
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _crossing(H, t, a, b):
    """Where the line of b > a overtakes the line of a, relative weights to avoid underflow."""
    w = math.exp(-t * (b - a))
    if w == 1.0:
        return -np.inf if H[b] >= H[a] else np.inf
    return (H[a] - w * H[b]) / (1.0 - w)
