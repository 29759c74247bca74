"""Gradients of the latent-variable models against likelihood, loops and the papers' formulas."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from fattail.algorithms.parts import em_models as em

D = 4


def rows(model: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) * 1.3
    y = rng.standard_normal(n) * 2.0
    if model == "gaussian_mixture":
        return X, None
    if model == "missing_covariates":
        X[rng.random((n, D)) < 0.4] = np.nan
        X[0] = np.nan
    return X, y


def log_density(model: str, X: np.ndarray, y: np.ndarray | None, beta: np.ndarray, variance: float) -> np.ndarray:
    if y is None:
        return em.mixture_log_density(X, beta, variance)
    both = em.regressions_log_density if model == "mixture_of_regressions" else em.missing_log_density
    return both(X, y, beta, variance)


def slow_density(model: str, x: np.ndarray, y: float | None, beta: np.ndarray, variance: float) -> float:
    """The definition, one row at a time."""
    s = np.sqrt(variance)
    if y is None:
        return float(np.log(np.mean([np.prod(norm.pdf(x, z * beta, s)) for z in (-1, 1)])))
    if model == "mixture_of_regressions":
        return float(np.log(np.mean([norm.pdf(y, z * x @ beta, s) for z in (-1, 1)])))
    seen = ~np.isnan(x)
    return float(norm.logpdf(y, x[seen] @ beta[seen], np.sqrt(variance + np.sum(beta[~seen] ** 2))))


def slow_gradient(model: str, x: np.ndarray, y: float | None, beta: np.ndarray, variance: float) -> np.ndarray:
    """Eqs. (5), (7), (9)-(11) with the d x d matrix, as corrected."""
    if y is None:
        w = 1 / (1 + np.exp(-2 * beta @ x / variance))
        return (2 * w - 1) * x - beta
    if model == "mixture_of_regressions":
        w = 1 / (1 + np.exp(-2 * y * (beta @ x) / variance))
        return (2 * w - 1) * y * x - np.outer(x, x) @ beta
    z = (~np.isnan(x)).astype(float)
    observed = np.nan_to_num(x)
    hidden = (1 - z) * beta
    v = variance + hidden @ hidden
    m = observed + (y - beta @ observed) / v * hidden
    K = np.diag(1 - z) + np.outer(m, m) - np.outer(hidden, hidden) / v
    return y * m - K @ beta


@pytest.mark.parametrize("model", list(em.MODELS))
def test_log_density_is_the_definition(model: str) -> None:
    X, y = rows(model, 12)
    beta = np.array([0.7, -1.1, 0.4, 0.2])
    slow = [slow_density(model, X[i], None if y is None else y[i], beta, 0.6) for i in range(12)]
    assert_allclose(log_density(model, X, y, beta, 0.6), slow, rtol=1e-12)


@pytest.mark.parametrize("model", list(em.MODELS))
def test_gradient_is_the_derivative_of_the_likelihood(model: str) -> None:
    X, y = rows(model, 30)
    beta, variance, h = np.array([0.7, -1.1, 0.4, 0.2]), 0.6, 1e-5
    gradient, excess = em.MODELS[model](X, y, beta, variance)
    for j in range(D):
        e = h * np.eye(D)[j]
        slope = (log_density(model, X, y, beta + e, variance) - log_density(model, X, y, beta - e, variance)) / (2 * h)
        assert_allclose(gradient[:, j] / variance, slope, atol=1e-7)
    dims = D if y is None else 1
    up, down = (log_density(model, X, y, beta, variance * np.exp(s)) for s in (h, -h))
    assert_allclose(dims * excess / 2, (up - down) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("model", list(em.MODELS))
def test_gradient_is_the_loop(model: str) -> None:
    X, y = rows(model, 25, seed=3)
    beta = np.array([0.3, 1.0, -0.5, 0.8])
    fast, _ = em.MODELS[model](X, y, beta, 1.4)
    slow = [slow_gradient(model, X[i], None if y is None else y[i], beta, 1.4) for i in range(25)]
    assert_allclose(fast, slow, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("model", list(em.MODELS))
def test_truth_is_a_fixed_point(model: str) -> None:
    rng = np.random.default_rng(11)
    n, beta, s = 200_000, np.array([1.0, -0.5, 0.5, 0.2]), 0.5
    Z = rng.choice([-1.0, 1.0], n)
    X, y = rng.standard_normal((n, D)), None
    if model == "gaussian_mixture":
        X = Z[:, None] * beta + s * X
    else:
        y = X @ beta * (Z if model == "mixture_of_regressions" else 1.0) + s * rng.standard_normal(n)
    if model == "missing_covariates":
        X[rng.random((n, D)) < 0.2] = np.nan
    gradient, excess = em.MODELS[model](X, y, beta, s * s)
    for values in (gradient, excess[:, None]):
        assert np.all(np.abs(values.mean(axis=0)) < 5 * values.std(axis=0) / np.sqrt(n))


def test_cut_residuals_keep_the_fixed_point() -> None:
    rng = np.random.default_rng(5)
    n, beta, s = 400_000, np.array([1.0, -0.5, 0.5, 0.2]), 0.5
    X = rng.standard_normal((n, D))
    y = X @ beta + s * rng.standard_normal(n)
    X[rng.random((n, D)) < 0.3] = np.nan
    gradient, excess = em.missing_terms(X, y, beta, s * s, cut=1.5)
    assert np.all(np.abs(gradient.mean(axis=0)) < 5 * gradient.std(axis=0) / np.sqrt(n))
    assert abs(excess.mean()) < 5 * excess.std() / np.sqrt(n)
    z = np.clip(rng.standard_normal(n), -1.5, 1.5)
    assert_allclose(em.cut_second_moment(1.5), np.mean(z**2), rtol=0.01)


def test_missing_gradient_needs_no_matrix_per_row() -> None:
    """O(n d): a block of 2,000 rows of 2,000 covariates would need 64 GB with d x d matrices."""
    X = np.random.default_rng(0).standard_normal((2000, 2000))
    X[::3, ::2] = np.nan
    gradient, _ = em.missing_terms(X, np.ones(2000), np.full(2000, 0.01), 1.0)
    assert gradient.shape == X.shape
    assert np.isfinite(gradient).all()
