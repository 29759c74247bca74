"""Gaussian clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from fattail.algorithms.auto import em
from fattail.algorithms.auto.clusters import STEPS, Clusters, gaussian_clusters
from fattail.algorithms.parts.defaults import is_auto
from fattail.estimators.documentation import documented
from fattail.estimators.mixture.base import LatentModel
from fattail.estimators.parameters import checked_names

Floats = NDArray[np.float64]


@documented()
@checked_names
@dataclass(kw_only=True, eq=False, repr=False)
class DPGaussianMixture(DensityMixin, LatentModel):  # type: ignore[misc]
    """Gaussian clusters under differential privacy, without bounds on the data.

    Parameters
    ----------
    n_components : int, default=2
    {budget}
    method : {"auto", "smoothed", "clipped", "local"}, default="auto"
        "auto" needs no other parameter. The others are dpem2020's gradient EM for the symmetric model: with smoothed
        gradients (Algorithm 2), clipped ones (Algorithm 1), or reports that each row perturbs by itself.
    symmetric : bool or "auto", default="auto"
        Two clusters of equal weight at ``+-coef_`` with spherical noise: the paper's model. "auto" means
        False for method "auto", True for the others, which have no other model.
    covariance_type : {"spherical", "diag"}, default="spherical"
        Spherical: columns must share a unit. Diagonal: columns may be in any units.
    noise_scale : float or "auto", default="auto"
        Standard deviation of the noise in the symmetric model; "auto" learns it privately.
    n_iter, step, clip, moment_bound, init : "auto" or values for the paper's methods
        ``init`` is "auto" (a private spectral start; a random one for "local"), "random" or an array.
    failure_probability : float, default=0.05
        The paper's zeta, for the smoothing scale.
    split : bool, default=False
        Disjoint batches as printed in Algorithm 2, for "smoothed".
    {common}
    {missing}

    Attributes
    ----------
    means_ : array of shape (n_components, n_features)
    weights_ : array of shape (n_components,)
    variances_ : array of shape (n_components, n_features)
    covariances_ : array of shape (n_components,) or (n_components, n_features)
        As scikit-learn shapes them for the covariance type.
    coef_ : array of shape (n_features,)
        Half the difference of the two means (only for two components); dpem2020's beta.
    noise_scale_ : float
        Root mean variance.
    path_ : array
        Released iterates of beta in the symmetric model.
    n_iter_ : int
    privacy_ : PrivacyReport

    Notes
    -----
    *Privacy.* (epsilon, delta)-DP for replacement of one row; no assumption on the data. Every release
    is a Gumbel selection on public bins, an exact histogram, or a mean of rows projected to a ball.

    *Utility.* For K components expect to recover clusters some four standard deviations apart that
    hold several thousand rows each at epsilon 1; the start uses at most four directions, so many
    clusters in general position need more rows. Less separated clusters need the symmetric model.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail import DPGaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30000, 2)) + 6.0 * rng.integers(0, 2, 30000)[:, None]
    >>> DPGaussianMixture(epsilon=1.0, random_state=0).fit(X).coef_.round(0)
    array([3., 3.])
    """

    _model = "gaussian_mixture"

    n_components: int = 2
    symmetric: Any = "auto"
    covariance_type: str = "spherical"

    def fit(self, X: Any, y: Any = None, *, person: Any = None) -> DPGaussianMixture:
        """Fit the clusters privately.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            Rows are people.
        y : ignored
        {person}

        Returns
        -------
        self
        """
        self._check_parameters()
        data = self._private_data(X, accept_sparse=False, person=person)
        # Checked before the charge, and only if the number of rows is public.
        if not self._n_is_private() and not self._is_symmetric() and self.n_components > data.n:
            raise ValueError(f"n_components must be at most the number of {data.unit}s, {data.n}, got {self.n_components!r}")
        data, curator = self._admit(data)
        if self._is_symmetric():
            fit = (
                em.gaussian_mixture(curator, data, self._noise_scale())
                if self.method == "auto"
                else self._fit_paper(curator, data)
            )
            self._store(fit, up_to_sign=True)
            both = np.array([self.coef_, -self.coef_])
            clusters = Clusters(np.array([0.5, 0.5]), both, np.full((2, data.d), fit.variance))
        else:
            clusters = gaussian_clusters(curator, data, int(self.n_components), self.covariance_type)
            self.noise_scale_ = math.sqrt(float(np.mean(clusters.variances)))
            self.n_iter_ = STEPS
            if self.n_components == 2:
                clusters = clusters.ordered()
                self.coef_ = (clusters.means[0] - clusters.means[1]) / 2.0
        self.weights_, self.means_, self.variances_ = clusters.weights, clusters.means, clusters.variances
        self.covariances_ = self.variances_[:, 0] if self.covariance_type == "spherical" else self.variances_
        self.privacy_ = curator.report()
        return self

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Most probable component of each row."""
        return np.asarray(np.argmax(self._log_joint(X), axis=1))

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each component, of shape (n_samples, n_components)."""
        rows = self._rows(X)
        return self._clusters().responsibilities(rows)

    def score_samples(self, X: Any) -> Floats:
        """Log-density of each row."""
        return np.asarray(np.logaddexp.reduce(self._log_joint(X), axis=1))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of rows, with a `PrivacyLeakWarning`: it is computed from these rows, without noise."""
        self._warn_of_scores()
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: int | None = None) -> tuple[Floats, NDArray[np.intp]]:
        """Draw rows from the fitted mixture, with their components: synthetic data at no further cost."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {n_samples!r}")
        rng = np.random.default_rng(random_state)
        label = rng.choice(len(self.weights_), size=n_samples, p=self.weights_)
        noise = rng.standard_normal((n_samples, self.means_.shape[1]))
        return self.means_[label] + np.sqrt(self.variances_)[label] * noise, label

    def _parts(self) -> int:
        return max(2, int(self.n_components))

    def _is_symmetric(self) -> bool:
        return self.method != "auto" if is_auto(self.symmetric) else bool(self.symmetric)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.n_components, (int, np.integer)) and self.n_components >= 1):
            raise ValueError(f"n_components must be a positive integer, got {self.n_components!r}")
        if self.covariance_type not in ("spherical", "diag"):
            raise ValueError(f"covariance_type must be 'spherical' or 'diag', got {self.covariance_type!r}")
        symmetric = self._is_symmetric()
        if symmetric and (self.n_components != 2 or self.covariance_type != "spherical"):
            raise ValueError(
                f"the symmetric model has n_components=2 and covariance_type='spherical', got {self.n_components!r} and "
                f"{self.covariance_type!r}; use method='auto' with symmetric=False for others"
            )
        if not symmetric and self.method != "auto":
            raise ValueError(f"method={self.method!r} fits the symmetric model only; use method='auto'")
        if not symmetric and not is_auto(self.noise_scale):
            raise ValueError("noise_scale is known in the symmetric model only; variances of the general one are estimated")

    def _rows(self, X: Any) -> Floats:
        return np.asarray(self._new_rows(X, dtype=np.float64))

    def _clusters(self) -> Clusters:
        return Clusters(self.weights_, self.means_, self.variances_)

    def _log_joint(self, X: Any) -> Floats:
        rows = self._rows(X)
        return self._clusters().log_joint(rows)
