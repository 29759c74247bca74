"""The mechanisms that diffprivlib documents for its two models, which do not import beside a current scikit-learn.

LinearRegression: functional mechanism, Laplace noise on the coefficients of the squared loss. Told: bounds on
columns and response, tuned on the true error. LogisticRegression: objective perturbation (Chaudhuri et al.
2011). Told: the norm of rows and the penalty, tuned on the true error. Pure epsilon, as documented.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

LINEAR_GRID = [(b, c) for b in (1.0, 3.0, 10.0) for c in (1.0, 3.0, 10.0)]
LOGISTIC_GRID = [(r, a) for r in (3.0, 6.0, 12.0) for a in (1e-4, 1e-3, 1e-2)]


def fit_linear(X, y, epsilon, delta, rng, told):
    bound, reach = told
    n, d = X.shape
    Z = np.column_stack([np.clip(X, -bound, bound), np.ones(n)])
    t = np.clip(y, -reach, reach)
    p = d + 1
    # Half the budget for the second moments, half for the products with the response.
    quadratic = 2 * (d * bound + 1) ** 2 / (epsilon / 2)
    linear = 2 * (d * bound + 1) * reach / (epsilon / 2)
    noise = np.triu(rng.laplace(size=(p, p)))
    G = Z.T @ Z + quadratic * (noise + np.triu(noise, 1).T)
    values, vectors = np.linalg.eigh(G)
    c = Z.T @ t + linear * rng.laplace(size=p)
    w = vectors @ ((vectors.T @ c) / np.maximum(values, 1e-3 * n))
    return w[:-1], w[-1]


def fit_logistic(X, y, epsilon, delta, rng, told):
    radius, alpha = told
    n, d = X.shape
    Z = np.column_stack([X, np.ones(n)])
    Z *= np.minimum(1.0, radius / np.linalg.norm(Z, axis=1))[:, None]
    s = 2 * y - 1
    left = epsilon - 2 * np.log1p(radius**2 / (4 * n * alpha))
    alpha, left = (alpha, left) if left > 0 else (radius**2 / (4 * n * np.expm1(epsilon / 4)), epsilon / 2)
    direction = rng.normal(size=d + 1)
    b = direction / np.linalg.norm(direction) * rng.gamma(d + 1, 2 * radius / left)

    def objective(w):
        z = s * (Z @ w)
        value = np.mean(np.logaddexp(0, -z)) + b @ w / n + alpha / 2 * w @ w
        return value, -Z.T @ (s * expit(-z)) / n + b / n + alpha * w

    w = minimize(objective, np.zeros(d + 1), jac=True, method="L-BFGS-B").x
    return w[:-1], w[-1]
