"""The latent-variable models of dpem2020: the contribution of one row to the gradient and the noise level.

Each ``*_terms`` function gives, for a block of rows and parameters that are already public,

* the gradient of the expected complete log-likelihood in ``beta`` times the noise variance,
  at ``beta`` itself: eqs. (5), (7) and (9) of dpem2020 corrected (docs/errata.md), so that it
  equals the noise variance times the gradient of the observed log-likelihood;
* the excess ``E[squared residual | row] / variance - 1``, which is zero on average when the
  noise variance is right.

Rows with NaN, infinite or overflowing entries give NaN here; bounding comes after.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from fattail import _kernels

Floats = NDArray[np.float64]
Terms = tuple[Floats, Floats]
Model = Callable[[Floats, Floats | None, Floats, float], Terms]


def mixture_terms(Y: Floats, _: Floats | None, beta: Floats, variance: float) -> Terms:
    """Two balanced Gaussian clusters ``+-beta`` with spherical noise, eqs. (4) and (5)."""
    along = _kernels.dot(Y, beta)
    sign = np.tanh(along / variance)  # E[Z | y] = 2 w - 1; the printed sigmoid lacks the factor 2
    residual = _kernels.row_dots(Y, Y) - 2.0 * sign * along + beta @ beta
    return sign[:, None] * Y - beta, residual / (len(beta) * variance) - 1.0


def regressions_terms(X: Floats, y: Floats | None, beta: Floats, variance: float) -> Terms:
    """Two balanced regressions ``y = +-<beta, x> + noise``, eqs. (6) and (7)."""
    assert y is not None
    line = _kernels.dot(X, beta)
    sign = np.tanh(y * line / variance)
    residual = y * y - 2.0 * sign * y * line + line * line
    return (sign * y - line)[:, None] * X, residual / variance - 1.0


def missing_terms(X: Floats, y: Floats | None, beta: Floats, variance: float, cut: float = math.inf) -> Terms:
    """Regression on standard normal covariates, NaN where missing, eqs. (8) to (11).

    With residual ``e`` of the observed part, ``B`` the squared length of the missing part of
    beta and ``v = variance + B``, the gradient is ``variance / v (e x_obs + (e^2 / v - 1) beta_mis)``:
    the d x d matrix of (11) never appears, and a row costs O(d).

    Parameters
    ----------
    cut : float
        Residuals are cut at ``cut`` of their own standard deviations and the square is divided by its mean after the cut under
        the model. The gradient is then still zero on average at the truth, and bounded in the residual.
    """
    assert y is not None
    seen = ~np.isnan(X)
    observed = np.where(seen, X, 0.0)
    hidden = np.where(seen, 0.0, beta)
    B = _kernels.row_dots(hidden, hidden)
    v = variance + B
    e = (y - _kernels.dot(observed, beta)) / np.sqrt(v)
    e = np.clip(e, -cut, cut)
    square = e * e / cut_second_moment(cut)
    gradient = (variance / np.sqrt(v) * e)[:, None] * observed + (variance / v * (square - 1.0))[:, None] * hidden
    # E[(y - <x, beta>)^2 | row] = (variance e)^2 / v + variance B / v, in units of the variance.
    return gradient, (variance * square + B) / v - 1.0


def cut_second_moment(cut: float) -> float:
    """Second moment of a standard normal clipped at ``+-cut``."""
    if math.isinf(cut):
        return 1.0
    inside = float(erf(cut / math.sqrt(2.0)))
    density = math.exp(-cut * cut / 2.0) / math.sqrt(2.0 * math.pi)
    return inside - 2.0 * cut * density + cut * cut * (1.0 - inside)


def mixture_log_density(Y: Floats, beta: Floats, variance: float) -> Floats:
    """Log-density of rows under the two-cluster model."""
    square = np.einsum("ij,ij->i", Y, Y) + beta @ beta
    along = np.abs(Y @ beta) / variance
    constant = -0.5 * len(beta) * math.log(2.0 * math.pi * variance)
    density: Floats = constant - square / (2.0 * variance) + along + np.log1p(np.exp(-2.0 * along)) - math.log(2.0)
    return density


def regressions_log_density(X: Floats, y: Floats, beta: Floats, variance: float) -> Floats:
    """Log-density of ``y`` given ``X`` under the two-regression model."""
    line = X @ beta
    along = np.abs(y * line) / variance
    density: Floats = (
        -0.5 * math.log(2.0 * math.pi * variance)
        - (y * y + line * line) / (2.0 * variance)
        + along
        + np.log1p(np.exp(-2.0 * along))
        - math.log(2.0)
    )
    return density


def missing_log_density(X: Floats, y: Floats, beta: Floats, variance: float) -> Floats:
    """Log-density of ``y`` given the observed covariates."""
    seen = ~np.isnan(X)
    v = variance + np.where(seen, 0.0, beta * beta).sum(axis=1)
    e = y - np.where(seen, X, 0.0) @ beta
    density: Floats = -0.5 * (np.log(2.0 * math.pi * v) + e * e / v)
    return density


MODELS: dict[str, Model] = {
    "gaussian_mixture": mixture_terms,
    "mixture_of_regressions": regressions_terms,
    "missing_covariates": missing_terms,
}
