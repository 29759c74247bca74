"""Competitors that are *not private*: yardsticks for experiments, never for release."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from fattail.algorithms.em_models import MODELS

Floats = NDArray[np.float64]


class GradientEM(BaseEstimator):  # type: ignore[misc]
    """Gradient EM for the three models of dpem2020, on all rows and without noise. **Not private.**

    Parameters
    ----------
    model : {"gaussian_mixture", "mixture_of_regressions", "missing_covariates"}
    noise_scale : float or "auto", default="auto"
        Standard deviation of the noise; "auto" learns it along.
    n_iter : int, default=50
    step : float, default=1.0
    init : "auto" or array, default="auto"
        Start; "auto" takes the top eigenvector of second moments, or zero for missing covariates.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    noise_scale_ : float
    path_ : array of shape (n_iter, n_features)
    privacy_ : str
        "none".

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.baselines import GradientEM
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.choice([-1.0, 1.0], 5000)[:, None] * [2.0, 1.0] + rng.normal(size=(5000, 2))
    >>> np.abs(GradientEM("gaussian_mixture").fit(Y).coef_).round(1)
    array([2., 1.])
    """

    def __init__(
        self,
        model: str = "gaussian_mixture",
        *,
        noise_scale: Any = "auto",
        n_iter: int = 50,
        step: float = 1.0,
        init: Any = "auto",
    ) -> None:
        self.model = model
        self.noise_scale = noise_scale
        self.n_iter = n_iter
        self.step = step
        self.init = init

    def fit(self, X: Any, y: Any = None) -> GradientEM:
        """Fit to rows X, or (X, y) for the regressions."""
        if self.model not in MODELS:
            raise ValueError(f"model must be one of {', '.join(MODELS)}; got {self.model!r}")
        finite = "allow-nan" if self.model == "missing_covariates" else True
        if self.model == "gaussian_mixture":
            X, y = validate_data(self, X, dtype=np.float64), None
        else:
            X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_all_finite=finite)
        terms = MODELS[self.model]
        beta, variance = self._start(X, y)
        path = []
        for _ in range(self.n_iter):
            gradient, excess = terms(X, y, beta, variance)
            beta = beta + self.step * gradient.mean(axis=0)
            if self.noise_scale == "auto":
                variance = max(variance * (1.0 + float(excess.mean())), 1e-12)
            path.append(beta)
        self.coef_, self.noise_scale_ = beta, math.sqrt(variance)
        self.path_ = np.array(path)
        self.privacy_ = "none"
        return self

    def _start(self, X: Floats, y: Floats | None) -> tuple[Floats, float]:
        if y is None:
            values, vectors = np.linalg.eigh(X.T @ X / len(X))
            rest = float(np.mean(values[:-1])) if len(values) > 1 else 0.3 * float(values[-1])
            beta, variance = vectors[:, -1] * math.sqrt(max(values[-1] - rest, 0.25 * values[-1])), rest
        elif self.model == "mixture_of_regressions":
            power = float(np.mean(y * y))
            values, vectors = np.linalg.eigh((X * (y * y)[:, None]).T @ X / len(X) - power * (X.T @ X) / len(X))
            beta, variance = vectors[:, -1] * math.sqrt(0.84 * power), 0.16 * power
        else:
            beta, variance = np.zeros(X.shape[1]), float(np.mean(y * y))
        if not isinstance(self.init, str):
            beta = np.array(self.init, dtype=np.float64)
        return beta, max(variance, 1e-12) if self.noise_scale == "auto" else float(self.noise_scale) ** 2
