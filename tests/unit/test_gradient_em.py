"""Gradient EM without noise finds what it should, from its own start and from a random one."""

from __future__ import annotations

import numpy as np
import pytest

from fattail.baselines import GradientEM


def draw(model: str, n: int = 20_000, d: int = 4, noise: float = 0.4) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(3)
    beta = np.array([1.0, -0.5, 0.3, 0.1])
    Z, X = rng.choice([-1.0, 1.0], n), rng.standard_normal((n, d))
    if model == "gaussian_mixture":
        return beta, (Z[:, None] * beta + noise * X,)
    y = X @ beta * (Z if model == "mixture_of_regressions" else 1.0) + noise * rng.standard_normal(n)
    if model == "missing_covariates":
        X[rng.random(X.shape) < 0.1] = np.nan
    return beta, (X, y)


@pytest.mark.parametrize("model", ["gaussian_mixture", "mixture_of_regressions", "missing_covariates"])
@pytest.mark.parametrize("noise_scale", ["auto", 0.4])
def test_finds_beta(model: str, noise_scale: float | str) -> None:
    beta, data = draw(model)
    for init in ("auto", np.array([0.5, 0.5, 0.5, 0.5])):
        fit = GradientEM(model=model, noise_scale=noise_scale, init=init).fit(*data)
        error = min(np.linalg.norm(fit.coef_ - beta), np.linalg.norm(fit.coef_ + beta))
        assert error < 0.03
        assert abs(fit.noise_scale_ - 0.4) < 0.02
    assert fit.privacy_ == "none"
    assert fit.path_.shape == (50, 4)


def test_unknown_model() -> None:
    with pytest.raises(ValueError, match="model must be one of"):
        GradientEM(model="clusters").fit(np.ones((3, 2)))
