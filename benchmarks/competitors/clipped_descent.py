"""DP gradient descent (Abadi et al. 2016), on all rows or on Poisson samples.

Told: clip, step and number of steps, tuned on the true error; columns that need no scaling.
It has an intercept, exact Gaussian composition, and the average of the second half of its iterates.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import expit

from fattail.privacy import gaussian_multiplier
from fattail.privacy.calibration import largest_rho
from fattail.privacy.events import SubsampledGaussian

GRID = [(c, s, t) for c in (1.0, 4.0, 10.0) for s in (0.1, 0.3, 1.0) for t in (20, 100)]
SAMPLED_GRID = [(c, s, 100) for c in (1.0, 4.0, 10.0) for s in (0.03, 0.1, 0.3)]
RATE = 0.05


@lru_cache
def sampled_multiplier(epsilon, delta, count):
    rho = largest_rho(lambda r: [SubsampledGaussian(1 / math.sqrt(2 * r), RATE, count)], epsilon, delta)
    return 1 / math.sqrt(2 * rho)


def fit(X, y, epsilon, delta, rng, told, logistic, sampled=False):
    clip, step, count = told
    n, d = X.shape
    Z = np.column_stack([X, np.ones(n)])
    norms = np.linalg.norm(Z, axis=1)
    noise = 2 * clip * (sampled_multiplier(epsilon, delta, count) if sampled else gaussian_multiplier(epsilon, delta, count))
    w, late = np.zeros(d + 1), []
    for t in range(count):
        on = rng.random(n) < RATE if sampled else slice(None)
        z, target, size = Z[on], y[on], norms[on]
        slope = (expit(z @ w) if logistic else z @ w) - target
        slope *= np.minimum(1.0, clip / np.maximum(np.abs(slope) * size, 1e-300))
        w = w - step * (z.T @ slope + noise * rng.normal(size=d + 1)) / (n * RATE if sampled else n)
        if t >= count // 2:
            late.append(w)
    w = np.mean(late, axis=0)
    return w[:-1], w[-1]
