"""Parameters, checks and documentation that the private linear models share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fattail._tools.numbers import TINY
from fattail._tools.threads import one_blas_thread
from fattail._tools.warnings import warn_utility
from fattail.algorithms.auto.canonical import auto_canonical
from fattail.algorithms.auto.linear import auto_linear, hopeless
from fattail.algorithms.auto.many_columns import moments_are_noise
from fattail.algorithms.papers.abadi2016 import clipped_descent
from fattail.algorithms.papers.tao2022 import median_of_means_descent
from fattail.algorithms.papers.wang2020 import sample_aggregate, smoothed_descent, trimmed_descent
from fattail.algorithms.parts.defaults import is_auto
from fattail.algorithms.parts.linear_rows import Descent, LinearFit, Target
from fattail.algorithms.registry import needs_of
from fattail.estimators.parameters import checked_names
from fattail.estimators.predictors import LinearPredictor
from fattail.losses import OWN, Loss, Squared, check_loss, curvature_near_zero
from fattail.privacy.calibration import gaussian_multiplier
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]

PARAMETERS = """\
{budget}
method : str
    ``"auto"`` needs nothing else and is the most accurate. From the papers: ``"smoothed"``
    (wang2020 Algorithm 4), ``"trimmed"`` (wang2020 Algorithm 3), ``"sample_aggregate"``
    (wang2020 Algorithm 1), ``"median_of_means"`` (tao2022 Algorithm 2); ``"clipped"`` is the
    usual clipped gradient descent (abadi2016).
alpha : float
    Ridge penalty: ``alpha / 2`` times the squared norm of the coefficients is added to the
    mean loss. Divide it by the square of a column's unit to keep its effect.
radius : float or None
    Coefficients are kept in a ball of this l2 radius.
fit_intercept : bool
n_iter, step : int and float, or "auto"
    Gradient steps of the papers' methods, and their length as a multiple of one over the curvature.
splitting : bool
    Give each step its own rows, as the papers do, instead of all rows with exact composition.
moment, moment_bound : float, or "auto"
    Order of the highest moment of the gradients, and a bound on it, in private units in which
    rows and responses have size 1 (``"smoothed"``, ``"median_of_means"``).
groups : int
    Groups of the median of means; odd.
trim : int or "auto"
    Values dropped at either end (``"trimmed"``).
blocks : int or "auto"
    Blocks of ``"sample_aggregate"``.
aggregation : {"clipped", "smooth"}
    How their fits are combined: clipped means in shrinking balls, or the paper's center of attention.
clip : float or "auto"
    Length of gradients, in private units (``"clipped"``).
batch_size : int or None
    Expected rows of a Poisson sample per step (``"clipped"``); None for all rows.
confidence : float
    Level of ``interval_`` (``method="auto"``).
{common}
{missing}
"""

PRIVACY = """\
{unit}
Every access to the data is a sum of row contributions that are bounded at the last step. The sums are released with
Gaussian noise and composed exactly. Nothing is assumed about the data, so the claim holds for any input; accuracy
assumes independent rows. Proofs are beside the code in ``robust/``; ``tests/contracts/test_methods.py`` attacks
every method.

*Cross-validation* spends the budget once per fold and per candidate: k fits on overlapping rows
compose. Give all of them one account of a ledger, which refuses a fit that exceeds it. Scores are
computed from raw rows without noise, and so is a scaler that is fitted on them. Both are outside the guarantee, and so is a
parameter that they choose.
"""


ALGORITHMS: dict[str, Any] = {
    "auto": auto_linear,
    "smoothed": smoothed_descent,
    "median_of_means": median_of_means_descent,
    "trimmed": trimmed_descent,
    "sample_aggregate": sample_aggregate,
    "clipped": clipped_descent,
}

DESCENTS = ("smoothed", "median_of_means", "trimmed", "clipped")
# Number of steps times their length, in units of the curvature, after which exp(-3), a twentieth, of the first error is left.
CONVERGED = 3.0

# Noise of a mean of unit rows above which the relative error of slopes was at least one half, on 3 and 20 t(4) columns with
# t(3) noise or labels, 300 to 30,000 rows. At a third of that noise it was a fifth.
MOST_NOISE = {
    "auto": 0.06,
    "clipped": 0.06,
    "smoothed": 0.03,
    "median_of_means": 0.03,
    "sample_aggregate": 0.01,
    "trimmed": 0.005,
}
# The same for least squares, whose noise grows with the root of the number of columns: 3, 20 and 100 t(4) columns, t(3) noise.
MOST_NOISE_SQUARED = 0.03


@checked_names
@dataclass(kw_only=True, eq=False, repr=False)
class LinearModel(LinearPredictor):
    """Parameters and steps common to the three models."""

    _methods = tuple(ALGORITHMS)
    _at_once = ("trimmed", "sample_aggregate")
    _need_n = ("trimmed",)
    _used_by: ClassVar = {
        **dict.fromkeys(("n_iter", "step", "splitting"), ("smoothed", "median_of_means", "trimmed", "clipped")),
        "moment_bound": ("smoothed", "median_of_means"),
        **dict.fromkeys(("moment", "groups"), ("median_of_means",)),
        "trim": ("trimmed",),
        **dict.fromkeys(("blocks", "aggregation"), ("sample_aggregate",)),
        **dict.fromkeys(("clip", "batch_size"), ("clipped",)),
        "confidence": ("auto",),
    }

    alpha: float = 0.0
    radius: float | None = None
    fit_intercept: bool = True
    n_iter: int | str = "auto"
    step: float | str = "auto"
    splitting: bool = False
    moment: float = 2.0
    moment_bound: float | str = "auto"
    groups: int = 1
    trim: int | str = "auto"
    blocks: int | str = "auto"
    aggregation: str = "clipped"
    clip: float | str = "auto"
    batch_size: int | None = None
    confidence: float = 0.95  # the usual level of intervals

    n_iter_: int = field(init=False)

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _algorithm(self) -> Any:
        """The function of ``method``; ``auto`` has one for the losses of this library and one for all others."""
        return auto_canonical if self.method == "auto" and type(self._loss()) not in OWN else ALGORITHMS[self.method]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        loss = self._loss()
        check_loss(loss)
        needs_of(self._algorithm()).check(loss, f"method={self.method!r}")
        check_number("alpha", self.alpha, 0.0, closed=True)
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must lie in (0, 1), got {self.confidence!r}")
        for name in ("radius", "n_iter", "step", "moment_bound", "groups", "blocks", "clip", "batch_size"):
            check_number(name, getattr(self, name), 0.0)
        self._check_steps(loss)
        check_number("trim", self.trim, 0.0, closed=True)
        check_number("moment", self.moment, 1.0)
        for name in ("n_iter", "groups", "trim", "blocks", "batch_size"):
            value = getattr(self, name)
            if value is not None and not is_auto(value) and value != int(value):
                raise ValueError(f"{name} must be an integer, got {value!r}")
        if self.moment > 2:
            raise ValueError(f"moment must lie in (1, 2], got {self.moment!r}")
        if self.groups % 2 == 0:
            raise ValueError(f"groups must be odd, got {self.groups!r}")
        if self.aggregation not in ("clipped", "smooth"):
            raise ValueError(f"aggregation must be 'clipped' or 'smooth', got {self.aggregation!r}")
        if self._n_is_private() and self.batch_size is not None:
            raise ValueError("batch_size draws a share of the rows, whose number is private here: leave it out")
        if self.splitting and self.batch_size is not None:
            raise ValueError("splitting gives each step its own rows; batch_size draws them: choose one")

    def _check_steps(self, loss: Loss) -> None:
        """Refuse steps of length one over a promised curvature that is far above the actual one: the coefficients would stay
        near zero."""
        ratio = max(curvature_near_zero(loss), 0.0) / loss.curvature
        descent = self._descent()
        if self.method not in DESCENTS or type(loss) in OWN or ratio >= 0.5 or descent.n_iter * descent.step * ratio >= CONVERGED:
            return
        if ratio == 0:
            raise ValueError(f"method={self.method!r} starts near zero, where {type(loss).__name__} has no curvature")
        needed = math.ceil(CONVERGED / ratio)
        raise ValueError(
            f"method={self.method!r} takes n_iter={descent.n_iter} steps of step={descent.step:g} over the curvature, and "
            f"{type(loss).__name__} promises a curvature {1 / ratio:.3g} times what it has near zero: coefficients would stay "
            f"close to zero. Give n_iter and step with a product of at least {needed}, or promise a lower curvature"
        )

    def _descent(self) -> Descent:
        auto = Descent()
        return Descent(
            auto.n_iter if is_auto(self.n_iter) else int(self.n_iter),
            auto.step if is_auto(self.step) else float(self.step),
            None if is_auto(self.moment_bound) else float(self.moment_bound),
            self.splitting,
        )

    def _fit(self, data: PrivateData) -> LinearFit:
        if not data.has_target:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        data, curator = self._admit(data)
        with one_blas_thread:
            fit: LinearFit = self._algorithm()(curator, data, self._target(), *self._options())
        self.n_iter_ = fit.n_iter
        self.privacy_ = curator.report()
        return fit

    def _target(self) -> Target:
        radius = math.inf if self.radius is None else float(self.radius)
        return Target(self._loss(), float(self.alpha), radius, self.fit_intercept)

    def _options(self) -> tuple[Any, ...]:
        """The parameters that the algorithm of ``method`` takes."""
        descent = self._descent()
        options: dict[str, tuple[Any, ...]] = {
            "auto": (),
            "smoothed": (descent,),
            "median_of_means": (descent, int(self.groups), self.moment),
            "trimmed": (descent, None if is_auto(self.trim) else int(self.trim)),
            "sample_aggregate": (None if is_auto(self.blocks) else int(self.blocks), self.aggregation),
            "clipped": (descent, None if is_auto(self.clip) else float(self.clip), self.batch_size),
        }
        return options[self.method]

    def _announce(self, data: PrivateData) -> None:
        super()._announce(data)
        self._check_groups(data.n)
        if self.method == "auto" and hopeless(data.n, data.d, self.epsilon, self.delta):
            warn_utility(
                f"{data.n:,} rows are too few for {data.d:,} columns at epsilon={self.epsilon:g}: only an intercept will be "
                "fitted; the sparse estimators are for more columns than rows"
            )
            return
        if self._fits_along_directions() and moments_are_noise(data.n, data.d, self.epsilon, self.delta):
            warn_utility(
                f"{data.n:,} rows are too few for {data.d:,} columns at epsilon={self.epsilon:g} to tell columns that are "
                "alike apart: predictions are fitted, single coefficients have infinite intervals"
            )
        # The noise of one released mean of unit rows, over all columns, or in each.
        noise = 2 * gaussian_multiplier(self.epsilon, max(self.delta, TINY)) / data.n
        if self._fits_along_directions():
            self._warn_of_noise(data, noise * math.sqrt(data.d + 1), MOST_NOISE_SQUARED)
            return
        noise *= data.d + 1
        if self.method == "median_of_means":
            noise *= self.groups
        if self.splitting and self.method != "auto":
            noise *= math.sqrt(Descent().n_iter if is_auto(self.n_iter) else int(self.n_iter))
        self._warn_of_noise(data, noise, MOST_NOISE[self.method])

    def _check_groups(self, n: int) -> None:
        """Refuse more groups than a step has rows."""
        steps = self._descent().n_iter if self.splitting else 1
        if self.method == "median_of_means" and n < steps * self.groups:
            raise ValueError(f"groups={self.groups!r} in each of {steps} steps need {steps * self.groups} rows or more, got {n}")

    def _fits_along_directions(self) -> bool:
        """Whether many columns are fitted by ``fit_along_directions``."""
        return self.method == "auto" and isinstance(self._loss(), Squared) and self._target().is_plain

    def _set_errors(self, fit: LinearFit) -> None:
        if self.method != "auto":
            return
        errors = np.full(fit.coef.size + 1, math.inf) if fit.covariance is None else np.sqrt(np.diag(fit.covariance))
        self.standard_errors_: Floats = errors[:-1]
        self.intercept_standard_error_ = float(errors[-1]) if self.fit_intercept else 0.0
        reach = stats.norm.ppf((1 + self.confidence) / 2) * self.standard_errors_
        self.interval_: Floats = np.stack([fit.coef - reach, fit.coef + reach], axis=1)
        if fit.covariance is not None:
            unknown = np.isinf(self.standard_errors_)
            self._warn_of_hidden(np.flatnonzero(unknown & (fit.coef == 0)))
            if self._target().logistic and np.any(unknown & (fit.coef != 0)):
                warn_utility(
                    f"the labels are separable, or noise at epsilon={self.epsilon:g} does not rule it out: slopes may be "
                    "arbitrarily large, so their intervals are infinite"
                )
        if len(fit.decided_by_few):
            warn_utility(
                f"a few rows, too few to show at epsilon={self.epsilon:g}, may decide the coefficients of "
                f"{self._listed(fit.decided_by_few)}: products of columns and residuals have a very heavy tail, so intervals are "
                "very wide; logarithms of such columns and responses would be estimated better"
            )


def refuse(unsupported: dict[str, Any]) -> None:
    weight = unsupported.pop("sample_weight", None)
    if weight is not None:
        raise ValueError(
            "sample_weight is not supported: a row of weight k counts k times, so its privacy would be k times weaker than "
            "the claim, and weights that depend on the data would leak them"
        )
    if unsupported:
        raise TypeError(f"fit() got unexpected arguments {sorted(unsupported)}")


def check_target(loss: Loss, y: Any) -> None:
    """Refuse a negative response if the loss is for nonnegative ones. Like NaN, that is a check for the holder of the data.
    Streams are not read for it; there such a row is bounded like any other.
    """
    if loss.promise.target != "nonnegative" or (not isinstance(y, list | tuple | np.ndarray) and not hasattr(y, "to_numpy")):
        return
    if np.any(np.asarray(y, dtype=np.float64) < 0):
        raise ValueError(f"{type(loss).__name__} is for nonnegative responses, and y has a negative one")


def check_number(name: str, value: Any, low: float, closed: bool = False) -> None:
    """Refuse a number outside (low, inf), or [low, inf) if closed; "auto" and None pass."""
    if value is None or is_auto(value):
        return
    if (
        not isinstance(value, (int, float, np.number))
        or isinstance(value, bool)
        or not (math.isfinite(value) and (value > low or (closed and value == low)))
    ):
        raise ValueError(f"{name} must be {'at least' if closed else 'larger than'} {low:g} and finite, got {value!r}")
