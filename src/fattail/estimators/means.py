"""Private means of data that nobody can bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fattail.algorithms.auto.mean import adaptive_mean
from fattail.algorithms.papers.dpem2020 import BETA, local_mean, smoothed_mean
from fattail.algorithms.papers.tao2022 import median_of_means, truncated_mean
from fattail.algorithms.papers.wang2020 import trimmed_mean
from fattail.algorithms.parts.defaults import is_auto
from fattail.algorithms.parts.estimates import Estimate, additive
from fattail.estimators.base import PrivateEstimator
from fattail.privacy import Curator, check_budget, gaussian_multiplier
from fattail.robust import Smooth
from fattail.robust.base import check_scale
from fattail.rows.data import PrivateData
from fattail.rows.door import array_of, target_of
from fattail.rows.frames import is_column, is_frame

Floats = NDArray[np.float64]


class DPMean(PrivateEstimator):
    """Private mean of each column, without bounds on the data.

    Parameters
    ----------
    epsilon, delta : float
        Privacy budget for everything that ``fit`` releases, under replacement of one row.
    method : {"auto", "truncated", "smoothed", "median_of_means", "trimmed", "local"}
        "auto" needs nothing and is meant for all data; the others are the methods of the
        papers, for comparison or where their assumptions are known to hold.
    random_state : int, optional
        Reproducible noise for experiments, which is not private. Secure noise by default.
    ledger : account, optional
        ``Ledger(path).open(...)`` or a ``Budget``; charged before any data are read.
    moment : float or "auto"
        Order, in (1, 2], of the absolute moment that ``moment_bound`` bounds; 2 by default.
    moment_bound : float, array of shape (d,) or "auto"
        What the papers assume known: ``E|x|**moment`` is at most this. "auto" buys a private
        estimate of location and scale instead. Not used by ``method="auto"``.
    groups : int
        For "median_of_means": an odd number of groups.
    confidence : float
        Level of ``interval_``, for each column by itself.
    missing : {"raise", "zero"}
        "zero" accepts values that are not finite: they add nothing to the sum around the
        center, instead of raising an error that depends on the data.

    Attributes
    ----------
    mean_ : array of shape (d,)
    interval_ : array of shape (d, 2)
        Confidence interval for sampling, noise, and the bias of bounding as far as the
        releases show it; NaN where the method's noise is private ("trimmed") or where no
        spread was released ("local" without a moment bound).
    privacy_ : PrivacyReport
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    *Privacy.* (epsilon, delta)-DP, replace one row, the number of rows public; for "local",
    each row by itself. All releases are planned, calibrated together and charged before the
    data are read; each has an enforced sensitivity, so nothing is assumed about the data.
    Assumptions (moments) concern accuracy only. Tested by replaying every fit on hostile
    neighbours: ``tests/estimators/test_means.py``.

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

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        method: str = "auto",
        random_state: int | None = None,
        ledger: Any = None,
        moment: float | str = "auto",
        moment_bound: ArrayLike | str = "auto",
        groups: int = 1,
        confidence: float = 0.95,
        missing: str = "raise",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.random_state = random_state
        self.ledger = ledger
        self.moment = moment
        self.moment_bound = moment_bound
        self.groups = groups
        self.confidence = confidence
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> DPMean:
        """Release the private mean of each column of ``X`` (rows are people); ``y`` is ignored."""
        self._check_parameters()
        data = self._private_data(X, ensure_all_finite=self.missing == "raise")
        self._announce(data)
        curator = self._make_curator()
        estimate = self._algorithm()(curator, data)
        self.mean_: Floats = estimate.value
        self.interval_: Floats = estimate.interval(self.confidence)
        self.privacy_ = curator.report()
        return self

    def _announce(self, data: PrivateData) -> None:
        super()._announce(data)
        # The noise of one released mean of rows of unit size. Where the location is bought, its own check says more.
        noise = 2 * math.sqrt(data.d) * gaussian_multiplier(self.epsilon, max(self.delta, 1e-300)) / data.n
        bought = is_auto(self.moment_bound)
        if self.method == "local":
            self._warn_of_noise(data, noise * math.sqrt(data.n), 0.2 if bought else 0.4, power=2.0)
        elif self.method == "trimmed":
            self._warn_of_noise(data, noise * math.sqrt(data.d), 0.06)
        elif self.method != "auto" and not bought:
            self._warn_of_noise(data, noise * (self.groups if self.method == "median_of_means" else 1), 0.5)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_auto(self.moment) and not 1 < float(self.moment) <= 2:
            raise ValueError(f"moment must lie in (1, 2] or be 'auto', got {self.moment!r}")
        if not is_auto(self.moment_bound):
            check_scale("moment_bound", np.asarray(self.moment_bound, dtype=np.float64))
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must lie in (0, 1), got {self.confidence!r}")
        if self.missing not in ("raise", "zero"):
            raise ValueError(f"missing must be 'raise' or 'zero', got {self.missing!r}")
        if self.groups < 1 or self.groups % 2 == 0:
            raise ValueError(f"groups must be odd and positive, got {self.groups!r}")
        if self.method in ("smoothed", "local") and not is_auto(self.moment) and self.moment != 2:
            raise ValueError(f"method={self.method!r} needs the second moment, got moment={self.moment!r}")

    def _algorithm(self) -> Callable[[Curator, PrivateData], Estimate]:
        moment, bound = 2.0 if is_auto(self.moment) else float(self.moment), self.moment_bound
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
        tags.input_tags.allow_nan = self.missing == "zero"
        return tags


class LocalRandomizer:
    """What one person runs before anything leaves their device (dpem2020 Theorem 3).

    Parameters
    ----------
    epsilon, delta : float
        Budget of one answer; a person who answers T times spends T times.
    scale : float or array of shape (d,)
        Beyond about this size, values are bounded. Agreed upon beforehand, for instance
        ``dpem2020.balanced_scale(second_moment, sqrt(n), noise)``.
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
        self, epsilon: float, delta: float, scale: ArrayLike, *, beta: float = BETA, random_state: int | None = None
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
