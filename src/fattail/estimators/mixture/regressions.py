"""A mixture of two regressions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.auto import em
from fattail.algorithms.parts.em_models import regressions_log_density
from fattail.estimators.documentation import documented
from fattail.estimators.mixture.base import LatentRegression

Floats = NDArray[np.float64]


@documented()
class DPMixtureOfRegressions(LatentRegression):
    """Two mirrored regressions ``y = offset +- (<coef, x> + intercept) + noise`` under differential privacy.

    Parameters
    ----------
    {budget}
    method : {"auto", "smoothed", "clipped", "local"}, default="auto"
        "auto" needs no other parameter: private units, a private spectral start, bounded steps. The others are dpem2020's
        gradient EM, which takes covariates to be standard normal.
    fit_intercept : bool or "auto", default="auto"
        Learn ``intercept_`` and ``offset_``. "auto": with method "auto" only; the paper's model has neither.
    noise_scale : float or "auto", default="auto"
        Standard deviation of the noise; "auto" learns it privately.
    n_iter, step, clip, moment_bound, init, failure_probability, split
        For the paper's methods, as in `DPGaussianMixture`.
    {common}
    {missing}

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Of one of the two lines; the other has the opposite sign.
    intercept_, offset_, noise_scale_ : float
    path_ : array of shape (n_iter, n_features)
        Released iterates.
    n_iter_ : int
    privacy_ : PrivacyReport

    Notes
    -----
    *Privacy.* (epsilon, delta)-DP for replacement of one row (x, y); no assumption on the data. Every
    release is a Gumbel selection on public bins or a mean of rows projected to a ball.

    *Utility.* The start is the right direction for covariates with an elliptical distribution, and EM
    needs a signal of at least about the size of the noise.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail import DPMixtureOfRegressions
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30000, 2))
    >>> y = rng.choice([-1, 1], 30000) * (X @ [2.0, -1.0]) + 0.3 * rng.normal(size=30000)
    >>> DPMixtureOfRegressions(epsilon=1.0, random_state=0).fit(X, y).coef_.round(1)
    array([ 2., -1.])
    """

    _model = "mixture_of_regressions"

    def fit(self, X: Any, y: Any = None, *, person: Any = None) -> DPMixtureOfRegressions:
        """Fit the two lines privately.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            Rows are people.
        y : array of shape (n,)
        {person}

        Returns
        -------
        self
        """
        self._check_parameters()
        data = self._private_pairs(X, y, person=person)
        data, curator = self._admit(data)
        if self.method == "auto":
            fit = em.mixture_of_regressions(curator, data, self._noise_scale(), self._with_intercept())
        else:
            fit = self._fit_paper(curator, data)
        sign = self._store(fit, up_to_sign=True)
        self.intercept_, self.offset_ = sign * fit.intercept, fit.offset
        self.privacy_ = curator.report()
        return self

    def predict(self, X: Any) -> Floats:
        """Value of the line ``offset_ + (<coef_, x> + intercept_)``; see `predict_both`."""
        return self.predict_both(X)[:, 0]

    def predict_both(self, X: Any) -> Floats:
        """Values of both lines, of shape (n_samples, 2)."""
        line = self._line(X)
        return np.column_stack([self.offset_ + line, self.offset_ - line])

    def predict_proba(self, X: Any, y: Any = None) -> Floats:
        """Probability of either line given x and y, of shape (n_samples, 2); one half each without y."""
        line = self._line(X)
        y = np.zeros(len(line)) if y is None else np.asarray(y, dtype=np.float64) - self.offset_
        first = 0.5 * (1.0 + np.tanh(y * line / self.noise_scale_**2))
        return np.column_stack([first, 1.0 - first])

    def score_samples(self, X: Any, y: Any = None) -> Floats:
        """Log-density of y given x; without y nothing was observed, and it is 0."""
        line = self._line(X)[:, None]
        if y is None:
            return np.zeros(len(line))
        y = np.asarray(y, dtype=np.float64) - self.offset_
        return regressions_log_density(line, y, np.ones(1), self.noise_scale_**2)

    def sample(self, X: Any, random_state: int | None = None) -> Floats:
        """Draw a response for each row of X."""
        line, rng = self._line(X), np.random.default_rng(random_state)
        sign = rng.choice([-1.0, 1.0], len(line))
        return np.asarray(self.offset_ + sign * line + self.noise_scale_ * rng.standard_normal(len(line)))

    def _line(self, X: Any) -> Floats:
        X = self._new_rows(X, dtype=np.float64)
        return np.asarray(X @ self.coef_ + self.intercept_)
