"""Gradient descent without privacy, plain and robust: references for the private linear models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from fattail.losses import Huber, Logistic, Loss, Squared

Floats = NDArray[np.float64]

LOSSES: dict[str, Loss] = {"squared": Squared(), "huber": Huber(1.345), "logistic": Logistic()}


class GradientDescent(BaseEstimator):  # type: ignore[misc]
    """Gradient descent for a linear model, on standardized columns. **Not private.**

    Parameters
    ----------
    loss : {"squared", "huber", "logistic"}
        Labels of the logistic loss are 0 and 1; the Huber threshold is 1.345 in units of the response.
    n_iter : int
    step : float
        In units of one over the largest curvature.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    privacy_ : str
        "none".

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.baselines.descent import GradientDescent
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> GradientDescent().fit(X, X @ [1.0, -2.0] + 3.0).coef_.round(3)
    array([ 1., -2.])
    """

    def __init__(self, *, loss: str = "squared", n_iter: int = 200, step: float = 1.0) -> None:
        self.loss = loss
        self.n_iter = n_iter
        self.step = step

    def fit(self, X: Any, y: Any) -> Any:
        """Fit to rows X and responses y."""
        if self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}; got {self.loss!r}")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        loss, mean, deviation = LOSSES[self.loss], X.mean(axis=0), X.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        Z = np.column_stack([(X - mean) / deviation, np.ones(len(X))])
        top = float(np.linalg.eigvalsh(Z.T @ Z / len(Z))[-1])
        w = np.zeros(Z.shape[1])
        for _ in range(self.n_iter):
            slope = loss.derivative(Z @ w, y)
            w = w - self.step / (loss.curvature * top) * self._mean(Z * slope[:, None])
        self.coef_ = w[:-1] / deviation
        self.intercept_ = float(w[-1] - self.coef_ @ mean)
        self.privacy_ = "none"
        return self

    def _mean(self, rows: Floats) -> Floats:
        return np.asarray(rows.mean(axis=0))

    def predict(self, X: Any) -> Floats:
        """Linear predictor; log-odds for the logistic loss."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False) @ self.coef_ + self.intercept_)


class RobustGradientDescent(GradientDescent):
    """Gradient descent on robust estimates of the mean gradient (Holland and Ikeda 2019). **Not private.**

    Each coordinate of the gradient is an M-estimate of location with the Gudermannian influence
    function at a scale of its standard deviation times ``sqrt(n / log(2 / confidence))``.

    Parameters
    ----------
    loss, n_iter, step
        As in ``GradientDescent``.
    confidence : float
        Probability with which a coordinate's error may exceed its bound.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.baselines.descent import RobustGradientDescent
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(10_000, 2))
    >>> y = X @ [1.0, -2.0] + rng.standard_t(2.5, size=10_000)
    >>> RobustGradientDescent().fit(X, y).coef_.round(1)
    array([ 1., -2.])
    """

    def __init__(self, *, loss: str = "squared", n_iter: int = 200, step: float = 1.0, confidence: float = 0.01) -> None:
        super().__init__(loss=loss, n_iter=n_iter, step=step)
        self.confidence = confidence

    def _mean(self, rows: Floats) -> Floats:
        center = rows.mean(axis=0)
        scale = rows.std(axis=0) * math.sqrt(len(rows) / math.log(2 / self.confidence)) + 1e-300
        for _ in range(5):
            pull = 2 * np.arctan(np.exp(np.clip((rows - center) / scale, -700, 700))) - math.pi / 2
            center = center + scale * pull.mean(axis=0)
        return np.asarray(center)
