"""AdaSSP (Wang 2018): noisy moments with a ridge chosen from a noisy smallest eigenvalue.

Told: lengths to which rows and responses are clipped, tuned on the true error. It has an intercept.
"""

import math

import numpy as np

GRID = [(r, b) for r in (3.0, 6.0, 12.0, 25.0) for b in (1.0, 3.0, 10.0, 30.0)]


def fit(X, y, epsilon, delta, rng, told):
    radius, bound = told
    n, d = X.shape
    Z = np.column_stack([X, np.ones(n)])
    Z *= np.minimum(1.0, radius / np.linalg.norm(Z, axis=1))[:, None]
    t = np.clip(y, -bound, bound)
    G, p, log = Z.T @ Z, d + 1, math.log(6 / delta)
    share = epsilon / 3
    low = max(np.linalg.eigvalsh(G)[0] + math.sqrt(log) / share * radius**2 * rng.normal() - log / share * radius**2, 0.0)
    ridge = max(0.0, math.sqrt(p * log * math.log(2 * p**2 / 0.05)) * radius**2 / share - low)
    noise = rng.normal(size=(p, p))
    noise = np.triu(noise) + np.triu(noise, 1).T
    G = G + math.sqrt(log) * radius**2 / share * noise
    c = Z.T @ t + math.sqrt(log) * radius * bound / share * rng.normal(size=p)
    w = np.linalg.solve(G + ridge * np.eye(p), c)
    return w[:-1], w[-1]
