"""Regression with missing covariates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.auto import em
from fattail.algorithms.parts.em_models import missing_log_density
from fattail.estimators.documentation import documented
from fattail.estimators.mixture.base import LatentRegression

Floats = NDArray[np.float64]


@documented()
class DPMissingCovariateRegression(LatentRegression):
    """Linear regression with missing covariates (NaN), under differential privacy.

    Missing entries are integrated out, not imputed: the likelihood of a row is that of y given
    what was observed, for independent normal covariates missing at random.

    Parameters
    ----------
    {budget}
    method : {"auto", "smoothed", "clipped", "local"}, default="auto"
        "auto" needs no other parameter: center and spread of the covariates are estimated privately too. The others
        are dpem2020's gradient EM, which takes covariates to be standard normal.
    fit_intercept : bool or "auto", default="auto"
        "auto": with method "auto" only.
    noise_scale : float or "auto", default="auto"
        Standard deviation of the noise; "auto" learns it privately.
    n_iter, step, clip, moment_bound, init, failure_probability, split
        For the paper's methods, as in `DPGaussianMixture`.
    {common}
    missing : "error"
        The model handles missing covariates itself, so no other value is accepted. A missing response is refused.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_, noise_scale_ : float
    center_, spread_ : arrays of shape (n_features,)
        Mean and standard deviation that stand for a missing covariate.
    path_ : array of shape (n_iter, n_features)
        Released iterates.
    n_iter_ : int
    privacy_ : PrivacyReport

    Notes
    -----
    *Privacy.* (epsilon, delta)-DP for replacement of one row, its response and its pattern of missing
    entries included; no assumption on the data.

    *Utility.* Covariates should be nearly uncorrelated and missing at random; dependence between them
    is not used and biases the coefficients of columns that are often missing.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail import DPMissingCovariateRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30000, 2))
    >>> y = X @ [2.0, -1.0] + 3.0 + 0.3 * rng.normal(size=30000)
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> DPMissingCovariateRegression(epsilon=1.0, random_state=0).fit(X, y).coef_.round(1)
    array([ 2., -1.])
    """

    _model = "missing_covariates"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._how != "error":
            raise ValueError(f"{type(self).__name__} models its missing cells: missing={self.missing!r} is for other estimators")

    def fit(self, X: Any, y: Any = None, *, person: Any = None) -> DPMissingCovariateRegression:
        """Fit the model privately.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            Rows are people. NaN marks what is missing.
        y : array of shape (n,)
        {person}

        Returns
        -------
        self
        """
        self._check_parameters()
        data = self._private_pairs(X, y, person=person, ensure_all_finite="allow-nan")
        data, curator = self._admit(data)
        if self.method == "auto":
            fit = em.missing_covariates(curator, data, self._noise_scale(), self._with_intercept())
        else:
            fit = self._fit_paper(curator, data)
        self._store(fit, up_to_sign=False)
        self.intercept_ = fit.intercept
        self.center_ = fit.center if fit.center.size else np.zeros(data.d)
        self.spread_ = fit.spread if fit.spread.size else np.ones(data.d)
        self.privacy_ = curator.report()
        return self

    def predict(self, X: Any) -> Floats:
        """Expected response given the observed covariates."""
        _, observed = self._standard(X)
        return np.asarray(observed + self.intercept_ + self.center_ @ self.coef_)

    def score_samples(self, X: Any, y: Any = None) -> Floats:
        """Log-density of y given the observed covariates; without y nothing was observed, and it is 0."""
        Z, _ = self._standard(X)
        if y is None:
            return np.zeros(len(Z))
        y = np.asarray(y, dtype=np.float64) - self.intercept_ - self.center_ @ self.coef_
        return missing_log_density(Z, y, self.coef_ * self.spread_, self.noise_scale_**2)

    def sample(self, X: Any, random_state: int | None = None) -> Floats:
        """Draw a response for each row of X; missing covariates are drawn first."""
        rng = np.random.default_rng(random_state)
        Z, known = self._standard(X)
        hidden = np.isnan(Z) * rng.standard_normal(Z.shape)
        noise = self.noise_scale_ * rng.standard_normal(len(Z))
        return np.asarray(known + self.intercept_ + self.center_ @ self.coef_ + hidden @ (self.coef_ * self.spread_) + noise)

    def _standard(self, X: Any) -> tuple[Floats, Floats]:
        """Rows in units of the covariates' spread, and the contribution of their observed part to the response."""
        X = self._new_rows(X, dtype=np.float64, ensure_all_finite="allow-nan")
        Z = (X - self.center_) / self.spread_
        return Z, np.where(np.isnan(Z), 0.0, Z) @ (self.coef_ * self.spread_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
