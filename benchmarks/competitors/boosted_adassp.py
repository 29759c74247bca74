"""Boosted AdaSSP (Tang and others 2023), also known as BAS: gradient boosting whose base learner is AdaSSP.

The noisy Gram matrix and its ridge are released once. Each round fits the clipped residuals of the rounds before it and adds the
result. A third of the budget each is for the matrix, for its smallest eigenvalue and for all rounds together, composed as
Gaussian differential privacy.

Told: length of rows, clip of residuals and number of rounds, tuned on the true error. It has an intercept.
"""

import math

import numpy as np

from fattail.privacy.calibration import gaussian_multiplier

GRID = [(r, b, t) for r in (3.0, 6.0, 12.0) for b in (1.0, 3.0) for t in (5, 25)]
CONFIDENCE = 1.96  # standard deviations by which the paper's code lowers the eigenvalue and raises the ridge


def fit(X, y, epsilon, delta, rng, told):
    radius, bound, rounds = told
    n, d = X.shape
    Z = np.column_stack([X, np.ones(n)])
    Z *= np.minimum(1.0, radius / np.linalg.norm(Z, axis=1))[:, None]
    p, third = d + 1, math.sqrt(3) * gaussian_multiplier(epsilon, delta)
    moment_noise, gradient_noise = third * radius**2, third * math.sqrt(rounds) * radius * bound
    G = Z.T @ Z
    low = max(np.linalg.eigvalsh(G)[0] + moment_noise * (rng.normal() - CONFIDENCE), 0.0)
    ridge = max(0.0, CONFIDENCE * math.sqrt(p) * moment_noise - low)
    noise = rng.normal(size=(p, p))
    G = G + moment_noise * (np.triu(noise) + np.triu(noise, 1).T) + ridge * np.eye(p)
    w = np.zeros(p)
    for _ in range(rounds):
        residual = np.clip(y - Z @ w, -bound, bound)
        w = w + np.linalg.solve(G, Z.T @ residual + gradient_noise * rng.normal(size=p))
    return w[:-1], w[-1]
