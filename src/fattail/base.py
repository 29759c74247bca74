"""What all estimators share: validation in scikit-learn's manner, a curator, a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import column_or_1d, validate_data

from fattail.data import PrivateData
from fattail.privacy import Curator, PrivacyReport, check_budget
from fattail.privacy.noise import noise_source
from fattail.rows.door import array_of, rows_of, take_target, target_of
from fattail.rows.labels import Labels
from fattail.sources import is_stream
from fattail.tables import Columns, is_column, is_frame


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Common parameters and steps.

    Parameters are fields of a dataclass, so that a subclass lists only those it adds: scikit-learn
    reads them all from the signature of the constructor that this makes.

    A ``fit`` is: ``_check_parameters`` (before data are touched), ``_private_data``,
    ``_curator``, an algorithm, then public attributes and ``privacy_``.
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    method: str = "auto"
    random_state: int | None = None
    ledger: Any = None

    privacy_: PrivacyReport = field(init=False)

    _methods: ClassVar[tuple[str, ...]] = ()
    # Those of them that look at all rows at once, so that no stream of rows will do.
    _at_once: ClassVar[tuple[str, ...]] = ()

    def _check_parameters(self) -> None:
        check_budget(self.epsilon, self.delta)
        noise_source(self.random_state)
        if self.method not in self._methods:
            raise ValueError(f"method must be one of {', '.join(self._methods)}; got {self.method!r}")

    def _private_data(
        self,
        X: Any,
        y: Any = None,
        *,
        accept_sparse: bool = True,
        labels: Labels | None = None,
        ensure_min_samples: int = 1,
        ensure_all_finite: bool | str = True,
    ) -> PrivateData:
        """Bring the rows through the door, validate as scikit-learn does, and take custody of them.

        NaN or infinity raises here, and so does a label that ``labels`` does not declare: that is the
        curator's check of the file, not a release. Streams (files, clusters) are not read for it; see `fattail.sources`.
        """
        if isinstance(X, PrivateData):
            return self._stream(X if labels is None else X.with_labels(labels), accept_sparse, ensure_min_samples)
        if is_stream(X):
            return self._stream(PrivateData(X, y, labels=labels), accept_sparse, ensure_min_samples)
        if isinstance(y, str) and is_frame(X):
            X, y = take_target(X, y)
        rows = rows_of(X)
        options: dict[str, Any] = {
            "accept_sparse": "csr" if accept_sparse else False,
            "dtype": [np.float64, np.float32],
            "order": None,
            "ensure_all_finite": ensure_all_finite,
            "ensure_min_samples": ensure_min_samples,
        }
        if isinstance(rows, Columns):
            rows = rows.dense()
        if y is not None:
            y = y if is_frame(y) or is_column(y) else array_of(y)
            if isinstance(y, np.ndarray) and y.ndim == 2:
                y = column_or_1d(y, warn=True)
            y = target_of(y) if labels is None else labels.checked(y)
        with np.errstate(all="ignore"):  # the sum that looks for infinities may overflow, and must not say so
            checked = validate_data(self, rows, *(() if y is None else (y,)), **options)
        if is_frame(X):
            validate_data(self, X, skip_check_array=True)  # names of columns
        return PrivateData(*((checked,) if y is None else checked))

    def _stream(self, data: PrivateData, accept_sparse: bool, ensure_min_samples: int) -> PrivateData:
        """The checks that need no row."""
        name = type(self).__name__
        if data.is_sparse and not accept_sparse:
            raise ValueError(f"{name} takes dense rows only, got CSR rows.")
        if self.method in self._at_once:
            data.check_in_memory(f"method={self.method!r}")  # before anything is charged
        if data.n < ensure_min_samples:
            raise ValueError(f"Found {data.n} rows while a minimum of {ensure_min_samples} is required by {name}.")
        if get_tags(self).target_tags.required and not data.has_target:
            raise ValueError(f"{name} requires y to be passed: an array, or the name of a column.")
        self.n_features_in_ = data.d
        if data.columns is not None:
            self.feature_names_in_ = np.asarray(data.columns, dtype=object)
        return data

    def _make_curator(self) -> Curator:
        return Curator(
            self.epsilon,
            self.delta,
            random_state=self.random_state,
            ledger=self.ledger,
            label=f"{type(self).__name__}(method={self.method!r})",
        )


def is_auto(value: Any) -> bool:
    """Whether a parameter is left to the library."""
    return isinstance(value, str) and value == "auto"
