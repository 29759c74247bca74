"""Private sparse linear and logistic models, for more columns than rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fattail.estimators.documentation import LABELS, documented
from fattail.estimators.linear_base import refuse
from fattail.estimators.parameters import checked_names
from fattail.estimators.predictors import Responses, TwoLabels
from fattail.estimators.sparse_base import (
    ALL_METHODS,
    ATTRIBUTES,
    PARAMETERS,
    PRIVACY,
    REGRESSION_ONLY,
    USED_BY,
    SparseModel,
)
from fattail.losses import Logistic, Loss, Squared


@documented(
    methods="""\
    From the papers: ``"iht_huber"`` and ``"iht_l1"`` (tian2025), ``"iht_truncated"`` (tao2022), ``"knowledge_transfer"``
    (wanggu2020). What they compare with: ``"ight"`` (wanggu2019), ``"iht_squared"`` (cai2021), ``"frank_wolfe"`` (talwar2015),
    ``"two_stage"`` (kifer2012).
    """,
    parameters=PARAMETERS,
    attributes=ATTRIBUTES,
    privacy=PRIVACY,
)
class DPSparseRegressor(Responses, SparseModel):
    """Sparse linear regression for responses with heavy tails and more columns than rows.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    coef_ : array of shape (d,)
    intercept_ : float
    {attributes}

    Notes
    -----
    {privacy}

    Examples
    --------
    >>> import numpy as np
    >>> from fattail import DPSparseRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 1000))
    >>> y = 3 * X[:, 2] - 2 * X[:, 40] + rng.standard_t(1.75, 5000)
    >>> DPSparseRegressor(sparsity=2, random_state=0).fit(X, y).support_
    array([ 2, 40])
    """

    _methods = ALL_METHODS
    _at_once = ("two_stage",)
    intercept_: float

    def _loss(self) -> Loss:
        return Squared()

    def fit(self, X: Any, y: Any = None, *, person: Any = None, **unsupported: Any) -> DPSparseRegressor:
        """Fit the model privately.

        {fit}
        """
        refuse(unsupported)
        self._check_parameters()
        self.coef_, self.intercept_ = self._fit(self._private_data(X, y, person=person))
        return self


@documented(
    methods="""\
    From the papers: ``"iht_truncated"`` (tao2022), ``"knowledge_transfer"`` (wanggu2020). What they compare with: ``"ight"``
    (wanggu2019), ``"frank_wolfe"`` (talwar2015), ``"two_stage"`` (kifer2012).
    """,
    parameters=PARAMETERS,
    attributes=ATTRIBUTES,
    privacy=PRIVACY,
    target=LABELS,
)
@checked_names
@dataclass(kw_only=True, eq=False, repr=False)
class DPSparseClassifier(TwoLabels, SparseModel):
    """Sparse logistic regression for more columns than rows, such as texts.

    Parameters
    ----------
    {parameters}
    classes : pair of labels
        The two labels, negative first, declared as in ``DPLogisticRegression``: reading them off the data would leak.

    Attributes
    ----------
    classes_ : array of shape (2,)
    coef_ : array of shape (1, d)
    intercept_ : array of shape (1,)
    {attributes}

    Notes
    -----
    {privacy}

    Examples
    --------
    >>> import numpy as np
    >>> from fattail import DPSparseClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 500))
    >>> y = (4 * X[:, 2] - 4 * X[:, 40] + rng.logistic(size=5000) > 0).astype(int)
    >>> DPSparseClassifier(sparsity=2, random_state=0).fit(X, y).support_
    array([ 2, 40])
    """

    _methods = tuple(m for m in ALL_METHODS if m not in REGRESSION_ONLY)
    _at_once = ("two_stage",)
    _used_by: ClassVar = {**USED_BY, "response_clip": ("iht_truncated",)}
    classes: Any = (0, 1)

    def _check_parameters(self) -> None:
        if self.method in REGRESSION_ONLY:
            raise ValueError(
                f"method {self.method!r} has no logistic form: its loss is for numbers, not labels; "
                f"use one of {', '.join(self._methods)}"
            )
        super()._check_parameters()

    def _loss(self) -> Loss:
        return Logistic()

    def fit(self, X: Any, y: Any = None, *, person: Any = None, **unsupported: Any) -> DPSparseClassifier:
        """Fit the model privately.

        {fit}
        """
        refuse(unsupported)
        self._check_parameters()
        labels = self._labels(X, y)
        coef, intercept = self._fit(self._private_data(X, y, labels=labels, person=person))
        self.classes_ = np.asarray(labels.classes)
        self.coef_, self.intercept_ = coef[None, :], np.array([intercept])
        return self
