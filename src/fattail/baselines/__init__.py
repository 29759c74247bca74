"""Estimators that are *not private*: references for experiments, never for release."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from fattail.algorithms.parts.em_models import MODELS
from fattail.algorithms.parts.geometry import hard_threshold, top_indices
from fattail.baselines.descent import GradientDescent, RobustGradientDescent
from fattail.losses import Logistic, Loss, Squared

__all__ = ["IGHT", "AdaHuber", "GradientDescent", "GradientEM", "RobustGradientDescent"]

Floats = NDArray[np.float64]


class GradientEM(BaseEstimator):  # type: ignore[misc]
    """Gradient EM for the three models of dpem2020, on all rows and without noise. **Not private.**

    Parameters
    ----------
    model : {"gaussian_mixture", "mixture_of_regressions", "missing_covariates"}
    noise_scale : float or "auto", default="auto"
        Standard deviation of the noise; "auto" estimates it.
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
    >>> np.abs(GradientEM(model="gaussian_mixture").fit(Y).coef_).round(1)
    array([2., 1.])
    """

    def __init__(
        self,
        *,
        model: str = "gaussian_mixture",
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


class IGHT(BaseEstimator):  # type: ignore[misc]
    """Iterative gradient hard thresholding (Yuan, Li and Zhang 2014). **Not private.**

    Parameters
    ----------
    sparsity : int
    loss : {"squared", "logistic"}
        Labels of the logistic loss are 0 and 1.
    n_iter : int

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    privacy_ : str
        "none".

    Notes
    -----
    Steps are as long as the curvature along the gradient on the current support allows
    (normalized hard thresholding); the intercept is fitted too.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.baselines import IGHT
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (500, 100))
    >>> np.flatnonzero(IGHT(sparsity=2).fit(X, X[:, 3] - X[:, 7]).coef_)
    array([3, 7])
    """

    def __init__(self, *, sparsity: int = 10, loss: str = "squared", n_iter: int = 100) -> None:
        self.sparsity = sparsity
        self.loss = loss
        self.n_iter = n_iter

    def fit(self, X: Any, y: Any) -> IGHT:
        """Fit to rows X, dense or CSR, and responses y."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        loss: Loss = Logistic() if self.loss == "logistic" else Squared()
        w, level = np.zeros(X.shape[1]), 0.0
        z = np.zeros(len(y))
        for _ in range(self.n_iter):
            bend = float(np.mean(loss.second(z + level, y)))
            level -= float(np.mean(loss.derivative(z + level, y))) / max(bend, 1e-3)
            gradient = np.asarray(X.T @ loss.derivative(z + level, y)) / len(y)
            on = np.flatnonzero(w) if np.any(w) else top_indices(gradient, self.sparsity)
            along = np.asarray(X[:, on] @ gradient[on])
            curvature = bend * float(np.mean((along - along.mean()) ** 2))
            step = float(gradient[on] @ gradient[on]) / curvature if curvature > 0 else 0.0
            now = float(np.mean(loss.value(z + level, y)))
            for _ in range(20):  # the curvature may be larger on a new support: shorten the step until the loss decreases
                new = hard_threshold(w - step * gradient, self.sparsity)
                moved = np.asarray(X @ new) if sparse.issparse(X) else X[:, new != 0] @ new[new != 0]
                if float(np.mean(loss.value(moved + level, y))) <= now:
                    w, z = new, moved
                    break
                step /= 2
        self.coef_, self.intercept_, self.privacy_ = w, level, "none"
        return self

    def predict(self, X: Any) -> Floats:
        """Linear predictor; log-odds for the logistic loss."""
        return np.asarray(X @ self.coef_ + self.intercept_)


class AdaHuber(BaseEstimator):  # type: ignore[misc]
    """Adaptive Huber regression with an l1 penalty (Sun, Zhou and Fan 2020). **Not private.**

    Parameters
    ----------
    sparsity : int, optional
        Keep this many coefficients at most, and fit them again without the penalty.
    robustness, penalty : float
        Multiples of the theoretical threshold ``sigma sqrt(n / log d)`` and penalty
        ``sigma sqrt(log d / n)``; sigma is the median absolute residual of the current fit.
    n_iter : int

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    privacy_ : str
        "none".

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.baselines import AdaHuber
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (500, 100))
    >>> y = 3 * X[:, 3] - 3 * X[:, 7] + rng.standard_t(2, 500)
    >>> np.flatnonzero(AdaHuber(sparsity=2).fit(X, y).coef_)
    array([3, 7])
    """

    def __init__(self, *, sparsity: int | None = None, robustness: float = 0.5, penalty: float = 0.5, n_iter: int = 150) -> None:
        self.sparsity = sparsity
        self.robustness = robustness
        self.penalty = penalty
        self.n_iter = n_iter

    def fit(self, X: Any, y: Any) -> AdaHuber:
        """Fit to rows X, dense or CSR, and responses y."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        n, d = X.shape
        top = np.random.default_rng(0).normal(size=d)
        for _ in range(20):
            top = np.asarray(X.T @ np.asarray(X @ (top / np.linalg.norm(top)))) / n
        length = float(np.linalg.norm(top)) * 1.02
        w = ahead = np.zeros(d)
        level, momentum = float(np.median(y)), 1.0
        columns = np.sqrt(np.asarray((X.multiply(X) if hasattr(X, "multiply") else X * X).mean(axis=0)).ravel())
        for _ in range(self.n_iter):
            r = y - np.asarray(X @ ahead) - level
            sigma = 1.4826 * float(np.median(np.abs(r - np.median(r))))
            level += float(np.median(r))
            psi = np.clip(r, *(np.array([-1, 1]) * self.robustness * sigma * math.sqrt(n / math.log(max(d, 3)))))
            moved = ahead + np.asarray(X.T @ psi) / (n * length)
            cut = self.penalty * sigma * math.sqrt(2 * math.log(max(d, 3)) / n) * columns / length
            new = np.sign(moved) * np.maximum(np.abs(moved) - cut, 0.0)
            faster = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            ahead, w, momentum = new + (momentum - 1) / faster * (new - w), new, faster
        if self.sparsity is not None:
            w, level = self._refit_largest(X, y, w, level)
        self.coef_, self.intercept_, self.privacy_ = w, level, "none"
        return self

    def _refit_largest(self, X: Any, y: Floats, w: Floats, level: float) -> tuple[Floats, float]:
        """Huber fit of the largest coefficients by reweighted least squares."""
        assert self.sparsity is not None
        kept = top_indices(w, min(self.sparsity, int(np.count_nonzero(w))))
        Z = X[:, kept]
        Z = np.column_stack([Z.toarray() if hasattr(Z, "toarray") else Z, np.ones(len(y))])
        theta = np.append(w[kept], level)
        for _ in range(30):
            r = y - Z @ theta
            bound = 1.345 * 1.4826 * float(np.median(np.abs(r)))
            weight = np.minimum(1.0, bound / np.maximum(np.abs(r), 1e-300))
            theta = np.linalg.lstsq(Z * np.sqrt(weight)[:, None], y * np.sqrt(weight), rcond=None)[0]
        w = np.zeros_like(w)
        w[kept] = theta[:-1]
        return w, float(theta[-1])

    def predict(self, X: Any) -> Floats:
        """Predicted responses of new rows."""
        return np.asarray(X @ self.coef_ + self.intercept_)
