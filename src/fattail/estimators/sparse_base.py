"""The common part of the two sparse estimators."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from fattail._tools.numbers import TINY
from fattail._tools.threads import one_blas_thread
from fattail._tools.warnings import warn_utility
from fattail.algorithms.auto.sparse import screened_fit
from fattail.algorithms.auto.sparse_plan import shows_no_scale
from fattail.algorithms.papers.cai2021 import iht_squared
from fattail.algorithms.papers.kifer2012 import two_stage
from fattail.algorithms.papers.talwar2015 import frank_wolfe
from fattail.algorithms.papers.tao2022 import iht_truncated
from fattail.algorithms.papers.tian2025 import iht_huber, iht_l1
from fattail.algorithms.papers.wanggu2019 import dp_ight
from fattail.algorithms.papers.wanggu2020 import knowledge_transfer
from fattail.algorithms.parts.defaults import is_auto
from fattail.algorithms.parts.iht import Options
from fattail.algorithms.parts.support_plan import SparseFit
from fattail.algorithms.registry import needs_of
from fattail.estimators.linear_base import check_number
from fattail.estimators.parameters import checked_names
from fattail.estimators.predictors import LinearPredictor
from fattail.losses import Loss, check_loss
from fattail.privacy import gaussian_multiplier
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]

REGRESSION_ONLY = ("iht_huber", "iht_l1", "iht_squared")
ALGORITHMS: dict[str, Any] = {
    "auto": screened_fit,
    "iht_huber": iht_huber,
    "iht_l1": iht_l1,
    "iht_squared": iht_squared,
    "iht_truncated": iht_truncated,
    "ight": dp_ight,
    "knowledge_transfer": knowledge_transfer,
    "frank_wolfe": frank_wolfe,
    "two_stage": two_stage,
}
ALL_METHODS = tuple(ALGORITHMS)
# Methods with steps, whose number a user may set.
STEPPING = tuple(m for m in ALL_METHODS if m not in ("auto", "knowledge_transfer", "two_stage"))
# Parameters that only some methods use, and those methods.
USED_BY = {
    **dict.fromkeys(("feature_clip", "response_clip"), ALL_METHODS[1:]),
    **dict.fromkeys(("n_iter", "step", "radius", "splitting"), STEPPING),
    "peeling": tuple(m for m in STEPPING if m.startswith("iht_")),
    "feature_scale": ("auto",),
    "public_features": ("knowledge_transfer",),
}
# Noise of selecting ``sparsity`` of d columns, as a share of the rows, above which the relative error of coefficients was at
# least one half: 3 and 10 of 50 and 500 uniform columns, t(3) noise and labels, 100 to 10,000 rows.
MOST_NOISE = {**dict.fromkeys(ALGORITHMS, 0.04), "auto": 0.06, "iht_squared": 0.012, "two_stage": 0.012}
# Least value of that noise: the price of finding the scales of features and responses.
LEAST_LOOKS = {**dict.fromkeys(ALGORITHMS, 5.0), "auto": 8.0}
# Largest coefficient that is returned: its square is a finite float, so that predictions and norms do not overflow.
LARGEST = 1e150

PARAMETERS = """\
sparsity : int or "auto"
    Largest number of coefficients that are not zero. "auto" takes as many columns as the budget allows and drops those
    whose coefficients noise could explain.
{budget}
method : str
    ``"auto"`` needs no other parameter and is the most accurate.
    {methods}
fit_intercept : bool
    The methods of the papers have no intercept; for them it is a private center of the
    response.
feature_scale : array of shape (d,), optional
    Public unit of each column, for ``"auto"``. Dense columns may be in any unit; the units of chosen columns are estimated
    privately. Without this parameter, columns of CSR rows should be of similar size. Columns should be centered or mostly
    zero.
n_iter, step : int and float, or "auto"
    Iterations of the papers' methods, and a multiple of their default step.
feature_clip, response_clip : float or "auto"
    Sizes at which the papers' methods clip; private estimates unless given.
radius : float or None
    Coefficients of the hard-thresholding methods are kept in this l2 ball; the l1 ball of
    ``"frank_wolfe"``.
splitting : bool
    Give each step its own rows, as printed, instead of all rows with exact composition.
peeling : {"gumbel", "laplace"}
    Noise of selections: one-shot Gumbel with Gaussian release, or Laplace as printed.
public_features : array or CSR matrix of shape (m, d), optional
    Public rows for ``"knowledge_transfer"``; uniform ones by default.
{common}
{missing}
"""

ATTRIBUTES = """\
support_ : array of int
    Columns with a coefficient that is not zero, in increasing order.
standard_errors_ : array of shape (d,)
    Sampling and privacy noise of chosen columns (``method="auto"`` and dense rows); infinite for the others, of whose
    coefficients nothing is known.
intercept_standard_error_ : float
response_range_ : array of shape (2,)
    Ends between which ``predict`` keeps its answers, for tables of numbers in units of their own.
privacy_ : PrivacyReport
"""

PRIVACY = """\
{unit}
Every access to the data is a sum of row contributions that are bounded at the last step. Selections use Gumbel noise
and values Gaussian noise; all releases are composed exactly. The claim holds for any input; accuracy assumes
independent rows. Proofs are beside the code in ``robust/``; ``tests/estimators/test_sparse.py::test_fuzz`` attacks
every method.
"""


@checked_names
@dataclass(kw_only=True, eq=False, repr=False)
class SparseModel(LinearPredictor):
    """Parameters and steps common to regressor and classifier."""

    _used_by: ClassVar = USED_BY
    # The step for which their descent is a contraction depends on the number of rows.
    _need_n = ("knowledge_transfer", "two_stage")

    sparsity: int | str = "auto"
    fit_intercept: bool = True
    feature_scale: ArrayLike | None = None
    n_iter: int | str = "auto"
    step: float | str = "auto"
    feature_clip: float | str = "auto"
    response_clip: float | str = "auto"
    radius: float | None = None
    splitting: bool = False
    peeling: str = "gumbel"
    public_features: Any = None

    support_: NDArray[np.intp] = field(init=False)

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _check_parameters(self) -> None:
        super()._check_parameters()
        loss = self._loss()
        check_loss(loss)
        needs_of(ALGORITHMS[self.method]).check(loss, f"method={self.method!r}")
        for name in ("n_iter", "step", "feature_clip", "response_clip", "radius"):
            check_number(name, getattr(self, name), 0.0)
        for name in ("n_iter", "sparsity"):
            value = getattr(self, name)
            if not is_auto(value) and (isinstance(value, (bool, str)) or value != int(value) or value < 1):
                raise ValueError(f'{name} must be a positive integer or "auto", got {value!r}')
        if self.peeling not in ("gumbel", "laplace"):
            raise ValueError(f'peeling must be "gumbel" or "laplace", got {self.peeling!r}')

    def _check_shapes(self, d: int) -> None:
        """Refuse parameters that do not fit the number of columns."""
        if not is_auto(self.sparsity) and int(self.sparsity) > d:
            raise ValueError(f"sparsity must be at most the number of columns, {d}, got {self.sparsity!r}")
        for name in ("public_features", "feature_scale"):
            value = getattr(self, name)
            if value is not None and np.shape(value)[-1:] != (d,):
                raise ValueError(f"{name} must have as many columns as X, {d}, got shape {np.shape(value)}")
        if self.feature_scale is not None and not np.all(np.asarray(self.feature_scale, dtype=np.float64) > 0):
            raise ValueError("feature_scale must be positive")
        if self.public_features is not None and len(np.shape(self.public_features)) != 2:
            raise ValueError(f"public_features must have rows and columns, got shape {np.shape(self.public_features)}")

    def _announce(self, data: PrivateData) -> None:
        super()._announce(data)
        if self.method == "auto" and not data.is_sparse and shows_no_scale(self, data.n):
            warn_utility(f"{data.n:,} rows are too few at epsilon={self.epsilon:g}: only an intercept will be fitted")
            return
        # Without a sparsity, and for sparse rows, the budget decides how many columns are taken: at least one.
        taken = 1 if is_auto(self.sparsity) or (self.method == "auto" and data.is_sparse) else int(self.sparsity)
        looks = max(taken * math.log(max(data.d, 2)), LEAST_LOOKS[self.method])
        if self.splitting and self.method != "auto":
            looks *= math.sqrt(6 if is_auto(self.n_iter) else int(self.n_iter))
        multiplier = gaussian_multiplier(self.epsilon, max(self.delta, TINY))
        self._warn_of_noise(data, looks * multiplier / data.n, MOST_NOISE[self.method])

    def _fit(self, data: PrivateData) -> tuple[Floats, float]:
        if not data.has_target:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        self._check_shapes(data.d)
        data, curator = self._admit(data)
        with one_blas_thread, np.errstate(all="ignore"):
            if self.method == "auto":
                fit = screened_fit(curator, data, self._loss(), **self._auto_options())
            else:
                fit = SparseFit(*ALGORITHMS[self.method](curator, data, *self._options(data)))
        self.privacy_ = curator.report()
        coef = np.clip(np.nan_to_num(fit.coef), -LARGEST, LARGEST)
        self.support_ = np.flatnonzero(coef)
        self._set_errors(fit)
        return coef, float(np.clip(np.nan_to_num(fit.intercept), -LARGEST, LARGEST))

    def _set_errors(self, fit: SparseFit) -> None:
        if np.isfinite(fit.response_range).any():
            self.response_range_ = np.array(fit.response_range)
        if fit.errors is None:
            return
        self.standard_errors_: Floats = fit.errors[:-1]
        self.intercept_standard_error_ = float(fit.errors[-1]) if self.fit_intercept else 0.0
        if fit.hidden is not None:
            self._warn_of_hidden(fit.hidden)

    def _auto_options(self) -> dict[str, Any]:
        """The parameters that ``method="auto"`` takes."""
        return {
            "sparsity": None if is_auto(self.sparsity) else int(self.sparsity),
            "feature_scale": None if self.feature_scale is None else np.asarray(self.feature_scale, dtype=np.float64),
            "fit_intercept": self.fit_intercept,
        }

    def _options(self, data: PrivateData) -> tuple[Any, ...]:
        """The parameters that the algorithm of another ``method`` takes."""
        options = Options(
            # The default sparsity of the papers' methods, a tenth of the square root of the number of rows, set by hand.
            min(data.d, max(1, round(math.sqrt(data.n) / 10))) if is_auto(self.sparsity) else int(self.sparsity),
            None if is_auto(self.n_iter) else int(self.n_iter),
            None if is_auto(self.step) else float(self.step),
            None if is_auto(self.feature_clip) else float(self.feature_clip),
            None if is_auto(self.response_clip) else float(self.response_clip),
            math.inf if self.radius is None else float(self.radius),
            self.splitting,
            self.peeling,
            self.fit_intercept,
        )
        extra = (self.public_features,) if self.method == "knowledge_transfer" else ()
        own_loss = () if self.method in REGRESSION_ONLY else (self._loss(),)
        return (*own_loss, options, *extra)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the selected columns: those seen in ``fit``, the given ones, or ``x0, x1, ...``."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None) if input_features is None else np.asarray(input_features, dtype=object)
        if names is None:
            names = np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)
        if len(names) != self.n_features_in_:
            raise ValueError(f"input_features should have length {self.n_features_in_}, got {len(names)}")
        return np.asarray(names, dtype=object)[self.support_]
