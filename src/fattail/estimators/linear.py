"""Private linear regression and classification for data that nobody can bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fattail.algorithms.parts.defaults import is_auto
from fattail.estimators.documentation import LABELS, documented
from fattail.estimators.linear_base import PARAMETERS, PRIVACY, LinearModel, check_number, check_target, refuse
from fattail.estimators.parameters import checked_names
from fattail.estimators.predictors import Responses, TwoLabels
from fattail.losses import Huber, Logistic, Loss, Squared

Floats = NDArray[np.float64]


@documented()
class LinearRegressor(Responses, LinearModel):
    """A linear model whose responses are numbers; a subclass gives the loss, as ``docs/extend/loss.md`` shows."""

    intercept_: float

    def fit(self, X: Any, y: Any = None, *, person: Any = None, **unsupported: Any) -> Any:
        """Fit the model privately.

        {fit}
        """
        refuse(unsupported)
        self._check_parameters()
        data = self._private_data(X, y, person=person)
        check_target(self._loss(), y)
        fit = self._fit(data)
        self.coef_, self.intercept_ = fit.coef, fit.intercept
        self._set_errors(fit)
        if np.isfinite(fit.response_range).any():
            self.response_range_ = np.array(fit.response_range)
        return self


@documented(parameters=PARAMETERS, privacy=PRIVACY)
class DPLinearRegression(LinearRegressor):
    """Least squares: private estimates of conditional means, with no bounds and no tuning.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    coef_ : array of shape (d,)
    intercept_ : float
    standard_errors_ : array of shape (d,)
        Standard errors from sampling and privacy noise (``method="auto"``).
    interval_ : array of shape (d, 2)
        Ends of approximate intervals of the coefficients, of level ``confidence`` (``method="auto"``).
    intercept_standard_error_ : float
        Standard error of the intercept (``method="auto"``).
    response_range_ : array of shape (2,)
        Ends to which ``predict`` clips its answers (``method="auto"``, if the spread of y is visible): the released range of
        the responses, wider the smaller the residuals are beside the responses, and no wider than counts of the responses show.
        Clipped predictions have another mean: where many reach an end, by up to 0.07 deviations of y in tables that were tried.
    n_iter_ : int
    privacy_ : PrivacyReport

    Notes
    -----
    {privacy}

    Examples
    --------
    >>> import numpy as np
    >>> from fattail import DPLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> income = 40_000 * rng.lognormal(size=20_000)
    >>> age = rng.uniform(18, 80, size=20_000)
    >>> spent = 0.3 * income + 100 * age + 5_000 * rng.standard_t(2.5, size=20_000)
    >>> model = DPLinearRegression(epsilon=1.0, random_state=0).fit(np.column_stack([income, age]), spent)
    >>> bool(np.all(np.abs(model.coef_ / [0.3, 100] - 1) < 0.2))
    True
    """

    def _loss(self) -> Loss:
        return Squared()


@documented(parameters=PARAMETERS, privacy=PRIVACY)
@checked_names
@dataclass(kw_only=True, eq=False, repr=False)
class DPHuberRegressor(LinearRegressor):
    """Robust regression: outliers in the response count linearly, not quadratically.

    Parameters
    ----------
    threshold : float or "auto"
        Residual, in units of the response, beyond which the loss is linear. ``"auto"`` lets the method choose it privately, for
        the smallest error of the coefficients.
    {parameters}

    Attributes
    ----------
    coef_ : array of shape (d,)
    intercept_ : float
    standard_errors_, interval_, intercept_standard_error_
        As in ``DPLinearRegression``.
    n_iter_ : int
    privacy_ : PrivacyReport

    Notes
    -----
    With skewed noise the intercept estimates a Huber location, not the mean. The slopes agree with those of least squares if
    noise and features are independent.

    {privacy}

    Examples
    --------
    >>> import numpy as np
    >>> from fattail import DPHuberRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_t(3, size=(20_000, 2))
    >>> y = X @ [1.0, -1.0] + rng.standard_t(1.5, size=20_000)
    >>> DPHuberRegressor(epsilon=1.0, random_state=0).fit(X, y).coef_.round(1)
    array([ 1., -1.])
    """

    threshold: float | str = "auto"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("threshold", self.threshold, 0.0)

    def _loss(self) -> Loss:
        return Huber(math.inf if is_auto(self.threshold) else float(self.threshold))


@documented(parameters=PARAMETERS, privacy=PRIVACY, target=LABELS)
@checked_names
@dataclass(kw_only=True, eq=False, repr=False)
class DPLogisticRegression(TwoLabels, LinearModel):
    """Private logistic regression for two classes.

    Parameters
    ----------
    classes : array of two labels
        The labels, negative first. They are declared, not read from the data, because the presence of a label is private. A
        categorical type of ``y`` (pandas ``category``, polars ``Enum``) declares them too. Any other label in memory raises,
        like NaN. In a stream or file, which is not read for a check, its row contributes zero to the sums.
    {parameters}

    Attributes
    ----------
    classes_ : array of two labels
    coef_ : array of shape (1, d)
    intercept_ : array of shape (1,)
    standard_errors_, interval_, intercept_standard_error_
        As in ``DPLinearRegression``.
    n_iter_ : int
    privacy_ : PrivacyReport

    Notes
    -----
    {privacy}

    Examples
    --------
    >>> import numpy as np
    >>> from fattail import DPLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_t(3, size=(20_000, 2))
    >>> y = (X @ [1.0, -1.0] + rng.logistic(size=20_000) > 0).astype(int)
    >>> model = DPLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    >>> bool(np.linalg.norm(model.coef_ - [1.0, -1.0]) < 0.3)
    True
    """

    classes: ArrayLike = (0, 1)

    def _loss(self) -> Loss:
        return Logistic()

    def fit(self, X: Any, y: Any = None, *, person: Any = None, **unsupported: Any) -> Any:
        """Fit the model privately.

        {fit}
        """
        refuse(unsupported)
        self._check_parameters()
        labels = self._labels(X, y)
        fit = self._fit(self._private_data(X, y, labels=labels, person=person))
        self.classes_ = np.asarray(labels.classes)
        self.coef_, self.intercept_ = fit.coef[None, :], np.array([fit.intercept])
        self._set_errors(fit)
        return self
