"""TukeyEM (Amin, Joseph, Ribero and Vassilvitskii 2022): a deep point among least-squares fits on disjoint rows.

Told: the number of fits, tuned on the true error. Its propose-test-release check is taken as passed and
free of charge, which favors it.
"""

import numpy as np

GRID = [(m,) for m in (100, 250, 500, 1000)]


def fit(X, y, epsilon, delta, rng, told):
    m = told[0]
    n, d = X.shape
    if n // m <= d + 1:
        return np.zeros(d), 0.0
    Z = np.column_stack([X, np.ones(n)])
    parts = np.array_split(rng.permutation(n), m)
    fits = np.sort([np.linalg.lstsq(Z[i], y[i], rcond=None)[0] for i in parts], axis=0)
    depth = np.arange(1, m // 2)
    volume = np.sum(np.log(np.maximum(fits[m - 1 - depth] - fits[depth], 1e-300)), axis=1)
    k = depth[np.argmax(volume + epsilon / 2 * depth + rng.gumbel(size=len(depth)))]
    w = rng.uniform(fits[k], fits[m - 1 - k])
    return w[:-1], w[-1]
