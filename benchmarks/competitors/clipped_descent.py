"""DP gradient descent (Abadi et al. 2016), on all rows or on Poisson samples.

Told: clip, step and number of steps, tuned on the true error (or ``UNTUNED``: the usual clip of 1 and step of 0.1);
columns that need no scaling.
It has an intercept, exact Gaussian composition, and the average of the second half of its iterates.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import expit

from fattail.privacy import gaussian_multiplier
from fattail.privacy.calibration import largest_rho
from fattail.privacy.events import SubsampledGaussianEvent

GRID = [(c, s, t) for c in (1.0, 4.0, 10.0, 30.0) for s in (0.1, 0.3, 1.0) for t in (20, 100)]
SAMPLED_GRID = [(c, s, 100) for c in (1.0, 4.0, 10.0, 30.0) for s in (0.03, 0.1, 0.3)]
UNTUNED = (1.0, 0.1, 100)
RATE = 0.05


@lru_cache
def sampled_multiplier(epsilon, delta, count):
    rho = largest_rho(lambda r: [SubsampledGaussianEvent(1 / math.sqrt(2 * r), RATE, count)], epsilon, delta)
    return 1 / math.sqrt(2 * rho)


def fit_all(X, y, epsilon, delta, rng, grid, logistic, sampled=False):
    """Fits for every (clip, step, count), those of equal count side by side in the columns of one matrix."""
    fits = {}
    for count in sorted({told[2] for told in grid}):
        together = [told for told in grid if told[2] == count]
        W = _descend(X, y, epsilon, delta, rng, np.array([told[:2] for told in together]).T, count, logistic, sampled)
        fits |= {told: (w[:-1], w[-1]) for told, w in zip(together, W.T, strict=True)}
    return [fits[told] for told in grid]


def _descend(X, y, epsilon, delta, rng, told, count, logistic, sampled):
    clip, step = told.astype(np.float32)
    n, d = X.shape
    Z, y = np.column_stack([X, np.ones(n)]).astype(np.float32), y.astype(np.float32)  # far finer than the noise
    norms = np.linalg.norm(Z, axis=1)
    multiplier = sampled_multiplier(epsilon, delta, count) if sampled else gaussian_multiplier(epsilon, delta, count)
    noise = 2 * clip * np.float32(multiplier)
    W, late = np.zeros((d + 1, len(clip)), dtype=np.float32), []
    for t in range(count):
        on = np.flatnonzero(rng.random(n) < RATE) if sampled else slice(None)
        z, target, size = Z[on], y[on, None], norms[on, None]
        slope = (expit(z @ W) if logistic else z @ W) - target
        bound = clip / size
        np.minimum(slope, bound, out=slope)
        np.maximum(slope, -bound, out=slope)
        noisy = z.T @ slope + noise * rng.standard_normal(W.shape, dtype=np.float32)
        W = W - step * noisy / np.float32(n * RATE if sampled else n)
        if t >= count // 2:
            late.append(W)
    return np.mean(late, axis=0, dtype=np.float64)
