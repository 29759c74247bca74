"""Predictions of fitted linear models. All of it is post-processing and costs no budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fattail._tools.warnings import warn_utility
from fattail.estimators.base import PrivateEstimator
from fattail.results.summary import CONFIDENCE, Summary
from fattail.rows.classes import Labels, declared

Floats = NDArray[np.float64]

MOST_NAMES = 5
"""Columns that a warning names."""


class LinearPredictor(PrivateEstimator):
    """An estimator with ``coef_`` and ``intercept_``."""

    coef_: Floats
    intercept_: Any

    def _linear(self, X: Any) -> Floats:
        X = self._new_rows(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        with np.errstate(over="ignore", invalid="ignore"):
            scores = X @ np.ravel(self.coef_) + float(np.ravel(self.intercept_)[0])
        return np.asarray(np.nan_to_num(scores), dtype=np.float64)

    def summary(self, confidence: float | None = None, joint: bool = False) -> Summary:
        """The fitted model as a table; costs no budget.

        Parameters
        ----------
        confidence : float, optional
            Level of the intervals. Default: that of the model, which is 0.95 if nothing else was asked for.
        joint : bool
            Make all intervals cover at once with this confidence, instead of each by itself.

        Returns
        -------
        Summary
            Coefficient, standard error, z, p and interval of every column and of the intercept. It prints as text and in
            notebooks, and ``to_frame()`` makes a data frame of it. Methods that give no standard errors have NaN there.

        Examples
        --------
        >>> import numpy as np
        >>> from fattail import DPHuberRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_t(3, size=(20_000, 2))
        >>> y = X @ [1.0, 0.0] + rng.standard_t(2.5, size=20_000)
        >>> table = DPHuberRegressor(random_state=0).fit(X, y).summary()
        >>> table.names, bool(table.p[0] < 1e-6)
        (('x0', 'x1', 'intercept'), True)
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        level = getattr(self, "confidence", CONFIDENCE) if confidence is None else confidence
        return Summary.of(self, names, level, joint)

    def _warn_of_hidden(self, hidden: NDArray[np.intp]) -> None:
        """Name the columns that are left out of the model because their released counts show no spread."""
        if hidden.size:
            warn_utility(
                f"no spread is visible above the noise in {hidden.size} of {self.n_features_in_} columns "
                f"({self._listed(hidden)}) at epsilon={self.epsilon:g}: their coefficients are 0 and their intervals infinite"
            )

    def _listed(self, columns: Sequence[int] | NDArray[np.intp]) -> str:
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        return ", ".join(str(names[j]) for j in columns[:MOST_NAMES]) + ", ..." * (len(columns) > MOST_NAMES)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags


class Scores:
    """A ``score`` that warns that it is not private; put it before scikit-learn's mixins."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """As in scikit-learn, with a `PrivacyLeakWarning`: it is computed from these rows, without noise."""
        self._warn_of_scores()  # type: ignore[attr-defined]
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]


class Responses(Scores, RegressorMixin):  # type: ignore[misc]
    """Numbers as answers; put it before a ``LinearPredictor``."""

    def predict(self, X: Any) -> Floats:
        """Predicted responses of new rows; costs no budget.

        Where the fit has a ``response_range_``, predictions are clipped to it: for a row far beyond those of the fit, the error
        of a coefficient would otherwise dominate the prediction.
        """
        responses: Floats = self._loss().promise.response(self._linear(X))
        low, high = getattr(self, "response_range_", (-np.inf, np.inf))
        return np.clip(responses, low, high)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class TwoLabels(Scores, ClassifierMixin):  # type: ignore[misc]
    """Two declared ``classes``; put it before a ``LinearPredictor``."""

    classes: ArrayLike
    classes_: NDArray[Any]

    def _check_parameters(self) -> None:
        labels = np.asarray(self.classes)
        if labels.shape != (2,) or labels[0] == labels[1]:
            raise ValueError(f"classes must be two different labels, got {self.classes!r}")
        super()._check_parameters()

    def _labels(self, X: Any, y: Any) -> Labels:
        """The declared labels: ``classes``, or the categories that the type of ``y`` declares."""
        return declared(self.classes, X, y)

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class; costs no budget."""
        scores: Floats = self._linear(X)
        return scores

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the two classes, a column each; costs no budget."""
        second = self._loss().promise.response(self.decision_function(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: Any) -> NDArray[Any]:
        """Likelier of the two classes; costs no budget."""
        second = self.decision_function(X) > 0
        labels: NDArray[Any] = self.classes_[second.astype(int)]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags
