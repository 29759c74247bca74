"""Steps of the fit of tail shapes to noisy counts: many short rows, each a shape's probabilities of a few cells.

Compiled because arrays of this size cost more to write and read again than to compute with. Each step has the bits of the same
expression in numpy.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .products import JIT


@njit(**JIT)
def _blur(model, b, misfit, valley):
    """Return the width of the rounded minimum of the likelihood of a count; ``misfit`` is a variance over b."""
    return model * (1.0 / b + misfit * model) + valley


@njit(**JIT)
def _length(x, y):
    """Return the hypotenuse of numbers whose squares do not overflow."""
    return math.sqrt(x * x + y * y)


@njit(**JIT)
def shape_weights(P, height, counts, b, misfit, valley, noise):
    """Return ``P / length`` of each shape and cell, where the length is that of the count's distance from ``P height`` and the
    blur.

    ``b`` to ``noise`` are a `fattail.columns.tails.Likelihood`.
    """
    out = np.empty(P.shape)
    for s in range(len(P)):
        for k in range(P.shape[1]):
            model = P[s, k] * height[s]
            out[s, k] = P[s, k] / _length(counts[k] - model, _blur(model, b, misfit[k], valley))
    return out


@njit(**JIT)
def shape_evidence(P, height, counts, b, misfit, valley, noise):
    """Return three numbers of each shape and cell: minus the log likelihood of the count, its variance relative to that of the
    noise, and its information about the shape's height."""
    cost, spread, information = np.empty(P.shape), np.empty(P.shape), np.empty(P.shape)
    for s in range(len(P)):
        for k in range(P.shape[1]):
            model = P[s, k] * height[s]
            blur = _blur(model, b, misfit[k], valley)
            variance = noise + b * (blur - valley)
            cost[s, k] = (_length(counts[k] - model, blur) - blur) / b
            spread[s, k] = variance / noise
            information[s, k] = P[s, k] * P[s, k] / variance
    return cost, spread, information


@njit(**JIT)
def shape_risk(excess, square, share, rows, noise):
    """Return the least squared error of each shape over all ends, given the squared noise of each end."""
    out = np.empty(len(excess))
    for s in range(len(excess)):
        for k in range(excess.shape[1]):
            bias = excess[s, k] * share[s]
            risk = bias * bias + square[s, k] * (share[s] / rows) + noise[k]
            out[s] = risk if k == 0 else min(out[s], risk)
    return out


@njit(**JIT)
def shape_surplus(P, share, counts, trusted, misfit, noise):
    """Return the share of the rows in each cell, as corrected by the counts, and the correction.

    The correction of a cell is the difference of count and prediction, times the variance of the shape's error over the sum of
    this variance and that of the noise; all of it in ``trusted`` cells.
    """
    corrected, surplus = np.empty(P.shape), np.empty(P.shape)
    for s in range(len(P)):
        for k in range(P.shape[1]):
            model = P[s, k] * share[s]
            error = misfit[k] * model
            trust = 1.0 if trusted[k] else error * error / (error * error + noise)
            surplus[s, k] = trust * (counts[k] - model)
            corrected[s, k] = model + surplus[s, k]
    return corrected, surplus


@njit(**JIT)
def shape_realized(survival, area, moment, kept, mass, least, ends):
    """Return the second moment of each shape's excess beyond each end, without distances beyond which fewer than ``least`` of its
    ``mass`` of rows are expected."""
    out = np.empty((len(kept), len(ends)))
    for s in range(len(kept)):
        shape, top = kept[s], 0
        for k in range(survival.shape[1]):
            top += survival[shape, k] * mass[s] > least
        top = min(top, survival.shape[1] - 1)
        for k in range(len(ends)):
            first = max(area[shape, top] - area[shape, k], 0.0)
            second = max(moment[shape, top] - moment[shape, k], 0.0)
            out[s, k] = max(2.0 * (second - ends[k] * first), 0.0)
    return out
