"""The trimmed mean: an exact sum, and its smooth sensitivity in linear time."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

_HALF = 26  # bits of the lower part of a mantissa: sums of 2**36 parts fit in 64 bits


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
    # Integers from here on; their division rounds correctly.
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
        Smoothness, with so few bits that its products with integers below 4m are exact.
    floor, ceiling : float
        Ends of the public interval that all values lie in.

    Notes
    -----
    The answer is the maximum over i in 0..m+1 and j in 0..m+1, not both (m+1, 0), of
    exp(-t (j - i + m)) (H_j - L_i), where L = (floor, low) and H = (high, ceiling). As i ascends,
    the best j does not descend, so halving the i's and searching only the j's that their neighbors
    leave takes m log m steps. Distances are from low[m], so that no difference cancels, and an
    almost best j costs almost nothing further down (``robust/trimmed.proof.md``).
    """
    m = low.size - 1
    L = np.empty(m + 1)
    L[0] = floor - low[m]
    L[1:] = low[:m] - low[m]
    H = np.empty(m + 2)
    H[: m + 1] = high - low[m]
    H[m + 1] = ceiling - low[m]
    weight = np.exp(-t * np.arange(m + 2))

    best = 0.0
    for j in range(1, m + 2):  # i = m + 1 needs a step beyond the data as it is
        best = max(best, weight[j - 1] * H[j])
    chosen = np.empty(m + 1, dtype=np.int64)
    gap = 1
    while gap <= m:
        gap *= 2
    while gap >= 1:  # odd multiples of the gap, minus one, lie between those already done
        for i in range(gap - 1, m + 1, 2 * gap):
            first = chosen[i - gap] if i >= gap else 0
            last = chosen[i + gap] if i + gap <= m else m + 1
            top = -1.0
            for j in range(first, last + 1):
                term = weight[j] * (H[j] - L[i])
                if term > top:
                    top = term
                    chosen[i] = j
            # One exponential for the product: the weight alone may underflow.
            best = max(best, math.exp(-t * (chosen[i] - i + m)) * (H[chosen[i]] - L[i]))
        gap //= 2
    return best
