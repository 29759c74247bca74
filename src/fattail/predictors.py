"""What fitted linear models do with new rows. All of it is post-processing and costs no budget."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fattail.base import PrivateEstimator
from fattail.rows.labels import Labels, declared

Floats = NDArray[np.float64]


class LinearPredictor(PrivateEstimator):
    """An estimator with ``coef_`` and ``intercept_``."""

    coef_: Floats
    intercept_: Any

    def _linear(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False, dtype=[np.float64, np.float32])
        with np.errstate(over="ignore", invalid="ignore"):
            scores = X @ np.ravel(self.coef_) + float(np.ravel(self.intercept_)[0])
        return np.asarray(np.nan_to_num(scores), dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags


class Responses(RegressorMixin):  # type: ignore[misc]
    """Numbers as answers; put it before a ``LinearPredictor``."""

    def predict(self, X: Any) -> Floats:
        """Predicted responses of new rows; costs no budget."""
        scores: Floats = self._linear(X)
        return scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class TwoLabels(ClassifierMixin):  # type: ignore[misc]
    """Two declared ``classes``; put it before a ``LinearPredictor``."""

    classes: ArrayLike
    classes_: NDArray[Any]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        labels = np.asarray(self.classes)
        if labels.shape != (2,) or labels[0] == labels[1]:
            raise ValueError(f"classes must be two different labels, got {self.classes!r}")

    def _labels(self, X: Any, y: Any) -> Labels:
        """The declared labels: ``classes``, or the categories that the type of ``y`` declares."""
        return declared(self.classes, X, y)

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class; costs no budget."""
        scores: Floats = self._linear(X)
        return scores

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the two classes, a column each; costs no budget."""
        second = expit(self.decision_function(X))
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
