"""Intervals of ratios, sums and differences of noisy numbers. Public arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]
Interval = Callable[[float], Floats]
"""From a confidence level to two ends."""


def normal_quantile(confidence: float) -> float:
    return float(ndtri((1 + confidence) / 2))


def two_laplace_quantile(confidence: float) -> float:
    """Quantile of the absolute sum of two Laplace variables, in standard deviations: it is exceeded with probability ``1 -
    confidence``.

    Two of scale 1: ``P(|sum| > x) = exp(-x) (1 + x / 2)``, of standard deviation 2.

    Examples
    --------
    >>> round(two_laplace_quantile(0.95), 3)
    2.057
    """
    low, high = 0.0, 2 * math.log(4 / (1 - confidence)) + 4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.exp(-middle) * (1 + middle / 2) > 1 - confidence else (low, middle)
    return high / 2


def discrete_laplace_reach(scale: float, confidence: float) -> int:
    """The smallest whole number that whole-number Laplace noise exceeds in size with probability at most ``1 - confidence``.

    Examples
    --------
    >>> discrete_laplace_reach(2.0, 0.95)
    6
    """
    ratio = math.exp(-1 / scale)
    # P(|noise| > k) = 2 ratio^(k + 1) / (1 + ratio)
    return max(math.ceil(-scale * math.log((1 - confidence) * (1 + ratio) / 2) - 1), 0)


def named_count_interval(count: Floats, threshold: float, scale: float, confidence: float) -> Floats:
    """Intervals of counts with Laplace noise that are known only because they exceed a threshold.

    Given that a noisy count exceeds the threshold, its distance from the threshold has the same law for every true count below
    it. So a count near the threshold does not bound the true count from below. The lower end is the smallest true count for
    which so large a noisy count is not too unlikely, given that it is named.
    """
    tail = (1 - confidence) / 2
    high = count - scale * math.log(2 * tail)
    low_side, high_side = np.full_like(count, threshold), np.maximum(count, threshold)
    for _ in range(60):
        middle = (low_side + high_side) / 2
        reached = 0.5 * np.exp(-(count - middle) / scale) / (1 - 0.5 * np.exp(-(middle - threshold) / scale))
        low_side, high_side = np.where(reached < tail, middle, low_side), np.where(reached < tail, high_side, middle)
    low = np.where(np.exp(-(count - threshold) / scale) >= tail, 0.0, low_side)
    return np.stack((low, high), axis=1)


def fieller(
    total: Floats, size: Floats, variance: Floats, sum_noise: float, size_noise: float, normal: float, laplace: float
) -> tuple[Floats, Floats]:
    """Interval of the ratio of a noisy total and a noisy size (Fieller 1954).

    Those r with ``(total - r size)^2 <= normal^2 variance + laplace^2 (sum_noise^2 + r^2 size_noise^2)``. Infinite where the
    size may be zero.
    """
    a = size**2 - (laplace * size_noise) ** 2
    c = total**2 - normal**2 * variance - (laplace * sum_noise) ** 2
    with np.errstate(all="ignore"):
        root = np.sqrt(np.maximum((total * size) ** 2 - a * c, 0.0))
        low, high = (total * size - root) / a, (total * size + root) / a
    known = (a > 0) & (size > 0)
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


# Largest confidence that floating point distinguishes from one; one minus it is the smallest p-value.
_LARGEST_CONFIDENCE = 1.0 - 1e-15


def p_value(interval: Interval) -> float:
    """One minus the confidence of the widest interval that excludes zero."""
    low, high = 0.0, _LARGEST_CONFIDENCE
    if _excludes_zero(interval(high)):
        return 1 - high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _excludes_zero(interval(middle)) else (low, middle)
    return 1 - low


def _excludes_zero(ends: Floats) -> bool:
    return bool(ends[0] > 0 or ends[1] < 0)
