"""Private means of data that nobody can bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fattail._tools.numbers import TINY
from fattail.algorithms.auto.mean import adaptive_mean
from fattail.algorithms.papers.dpem2020 import BETA, local_mean, smoothed_mean
from fattail.algorithms.papers.tao2022 import median_of_means, truncated_mean
from fattail.algorithms.papers.wang2020 import trimmed_mean
from fattail.algorithms.parts.defaults import is_auto
from fattail.algorithms.parts.estimates import Estimate, additive
from fattail.columns.plan import pure_is_better
from fattail.estimators.base import PrivateEstimator
from fattail.estimators.documentation import documented
from fattail.estimators.parameters import checked_names
from fattail.privacy import Curator, check_budget, gaussian_multiplier
from fattail.robust import Smooth
from fattail.robust.base import check_scale
from fattail.rows.data import PrivateData
from fattail.rows.door import array_of, target_of
from fattail.rows.frames import is_column, is_frame
from fattail.rows.sources import gathered

Floats = NDArray[np.float64]
# With missing="drop", each column has its own curator; this offset gives each its own seed.
_NEXT_SEED = 1 << 41
# Noise of a mean of unit rows above which the error of a mean was about as large as the data: `local` with a moment bound,
# `local` with a private scale, `trimmed`. Measured on synthetic data when the warning was added.
MOST_NOISE = {"local": 0.4, "local, private scale": 0.2, "trimmed": 0.06}


@documented()
@checked_names
@dataclass(kw_only=True, eq=False, repr=False)
class DPMean(PrivateEstimator):
    """Private mean of each column, without bounds on the data.

    Parameters
    ----------
    {budget}
    method : {"auto", "truncated", "smoothed", "median_of_means", "trimmed", "local"}
        "auto" needs no other parameter and is meant for all data. The others are the methods of the papers, for comparison or
        where their assumptions are known to hold.
    moment : float or "auto"
        Order, in (1, 2], of the absolute moment that ``moment_bound`` bounds; 2 by default.
    moment_bound : float, array of shape (d,) or "auto"
        Upper bound of ``E|x|**moment``, which the papers assume known. "auto" spends budget on a private estimate of location
        and scale instead. Not used by ``method="auto"``.
    groups : int
        For "median_of_means": an odd number of groups.
    confidence : float
        Level of ``interval_``, for each column by itself.
    {common}
    missing : {"error", "zero", "drop"}
        How cells that are not finite numbers are handled. "error": the table is refused. "zero": they count as 0. "drop": the
        mean of a column is that of its present cells, whose number is private; the columns divide the budget.

    Attributes
    ----------
    mean_ : array of shape (d,)
    interval_ : array of shape (d, 2)
        Confidence interval. It allows for sampling, for noise, and for the part of the bias of bounding that the releases
        show. NaN where the method's noise is private ("trimmed") or where no spread was released ("local" without a moment
        bound).
    privacy_ : PrivacyReport
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    {unit}
    "local" protects each row by itself. All releases are planned, calibrated together and charged before the
    data are read. Each has an enforced sensitivity, so nothing is assumed about the data.
    Assumptions (moments) concern accuracy only. ``tests/estimators/test_means.py`` replays every fit on hostile neighbors.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail import DPMean
    >>> claims = 1000 * (1 + np.random.default_rng(0).pareto(1.8, size=(20_000, 1)))
    >>> estimate = DPMean(epsilon=1.0, random_state=0).fit(claims)
    >>> bool(2100 < estimate.mean_[0] < 2400)  # the true mean is 2250
    True
    """

    _methods = ("auto", "truncated", "smoothed", "median_of_means", "trimmed", "local")
    _at_once = ("trimmed", "local")
    _need_n = ("trimmed", "local")
    _used_by: ClassVar = {
        "moment": _methods[1:],
        "moment_bound": _methods[1:],
        "groups": ("median_of_means",),
        "confidence": tuple(m for m in _methods if m != "trimmed"),
    }

    moment: float | str = "auto"
    moment_bound: ArrayLike | str = "auto"
    groups: int = 1
    confidence: float = 0.95

    mean_: Floats = field(init=False)
    interval_: Floats = field(init=False)

    def fit(self, X: Any, y: Any = None, *, person: Any = None) -> DPMean:
        """Release the private mean of each column of ``X``; ``y`` is ignored.

        Parameters
        ----------
        X : array, frame, CSR matrix of shape (n, d), or a source of rows
        y : ignored
        person : array of shape (n,) or column name, optional
            The id of the person each row belongs to. A person is then protected with all of their rows, and counts once: the
            estimate is of the mean over persons of the mean of their rows. Without it, a row is a person.

        Returns
        -------
        self
        """
        self._check_parameters()
        if self.missing == "drop":
            X = gathered(X)
        data = self._private_data(X, person=person, ensure_all_finite=self.missing != "drop")
        if self.missing == "drop" and data.d > 1:
            return self._fit_columns(data)
        data, curator = self._admit(data.column(0).averages() if self.missing == "drop" else data.averages())
        estimate = self._algorithm(None)(curator, data)
        self.mean_, self.interval_, self.privacy_ = estimate.value, estimate.interval(self.confidence), curator.report()
        return self

    def _fit_columns(self, data: PrivateData) -> DPMean:
        """Fit each column on its own rows, with an equal part of the budget; one charge pays for all."""
        d, means, intervals = data.d, [], []
        for j, advances in enumerate(self._paid(data, d)):
            part, curator = self._counted(data.column(j).averages(), advances, (self.epsilon / d, self.delta / d), j * _NEXT_SEED)
            estimate = self._algorithm(j)(curator, part)
            means.append(estimate.value)
            intervals.append(estimate.interval(self.confidence))
            report = curator.report()
            self.privacy_ = self.privacy_.then(report, (self.epsilon * (j + 1) / d, self.delta * (j + 1) / d)) if j else report
        self.mean_, self.interval_ = np.concatenate(means), np.concatenate(intervals)
        return self

    def _is_pure(self, d: int, epsilon: float, delta: float) -> bool:
        return pure_is_better(d, epsilon, delta)

    def _announce(self, data: PrivateData) -> None:
        super()._announce(data)
        # The noise of one released mean of rows of unit size. Where location and scale are estimated, the pilot has its own
        # check.
        noise = 2 * math.sqrt(data.d) * gaussian_multiplier(self.epsilon, max(self.delta, TINY)) / data.n
        estimated = is_auto(self.moment_bound)
        if self.method == "local":
            self._warn_of_noise(
                data, noise * math.sqrt(data.n), MOST_NOISE["local, private scale" if estimated else "local"], power=2.0
            )
        elif self.method == "trimmed":
            self._warn_of_noise(data, noise * math.sqrt(data.d), MOST_NOISE["trimmed"])
        elif self.method != "auto" and not estimated:
            self._warn_of_noise(data, noise * (self.groups if self.method == "median_of_means" else 1), 0.5)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_auto(self.moment) and not 1 < float(self.moment) <= 2:
            raise ValueError(f"moment must lie in (1, 2] or be 'auto', got {self.moment!r}")
        if not is_auto(self.moment) and is_auto(self.moment_bound) and self.method != "auto":
            raise ValueError(f"moment={self.moment!r} is the order of moment_bound, which was not given: give both or neither")
        if not is_auto(self.moment_bound):
            check_scale("moment_bound", np.asarray(self.moment_bound, dtype=np.float64))
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must lie in (0, 1), got {self.confidence!r}")
        if self.method == "local" and is_auto(self.moment_bound) and not self._is_default("confidence"):
            raise ValueError("confidence is not used by method='local' without moment_bound: it gives no interval")
        if self.groups < 1 or self.groups % 2 == 0:
            raise ValueError(f"groups must be odd and positive, got {self.groups!r}")
        if self.method in ("smoothed", "local") and not is_auto(self.moment) and self.moment != 2:
            raise ValueError(f"method={self.method!r} needs the second moment, got moment={self.moment!r}")

    def _algorithm(self, column: int | None) -> Callable[[Curator, PrivateData], Estimate]:
        moment, bound = 2.0 if is_auto(self.moment) else float(self.moment), self.moment_bound
        if column is not None and not is_auto(bound) and np.ndim(bound):
            bound = np.asarray(bound, dtype=np.float64)[column]
        return {
            "auto": adaptive_mean,
            "truncated": lambda c, d: truncated_mean(c, d, moment, bound),
            "median_of_means": lambda c, d: median_of_means(c, d, self.groups, moment, bound),
            "smoothed": lambda c, d: smoothed_mean(c, d, bound),
            "trimmed": lambda c, d: trimmed_mean(c, d, moment, bound),
            "local": lambda c, d: local_mean(c, d, bound),
        }[self.method]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing in ("zero", "drop")
        return tags


class LocalRandomizer:
    """Randomize one person's row on their own device (dpem2020 Theorem 3).

    Parameters
    ----------
    epsilon, delta : float
        Budget of one answer; T answers of one person spend T times as much.
    scale : float or array of shape (d,)
        Size at which values are bounded. It must be agreed upon beforehand, for instance
        ``dpem2020.balanced_scale(second_moment, sqrt(n), noise)``.
    beta : float
        Precision of the smoothing noise of the bounding map: small values bound more, large ones distort less.
    random_state : int, optional
        Reproducible noise, which is not private.

    Notes
    -----
    *Privacy.* The answer is (epsilon, delta)-DP for any two values of the row.

    Examples
    --------
    >>> from fattail import LocalRandomizer
    >>> client = LocalRandomizer(epsilon=1.0, delta=1e-6, scale=100.0, random_state=0)
    >>> client.randomize([250.0]).shape
    (1,)
    """

    def __init__(
        self, *, epsilon: float, delta: float, scale: ArrayLike, beta: float = BETA, random_state: int | None = None
    ) -> None:
        self.epsilon, self.delta = check_budget(epsilon, delta)
        self._smooth = Smooth(scale=scale, beta=beta)
        self.random_state = random_state

    def randomize(self, row: Any) -> Floats:
        """The row's bounded value plus noise for its whole range."""
        values = row if is_frame(row) else target_of(row) if is_column(row) else array_of(row)
        data = PrivateData(values.reshape(1, -1) if isinstance(values, np.ndarray) and values.ndim < 2 else values)
        if data.n != 1:
            raise ValueError(f"one row at a time, got {data.n}")
        curator = Curator(self.epsilon, self.delta, random_state=self.random_state, label="LocalRandomizer")
        release = additive("row", data.d, self.epsilon, self.delta)
        curator.plan(release)
        answer: Floats = curator.release(release, self._smooth.rows(data, release.norm))[0]
        return answer
