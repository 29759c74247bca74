"""The common part of the latent-variable models."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from fattail._tools.warnings import warn_utility
from fattail.algorithms.papers.dpem2020 import clipped_em, local_em, smoothed_em
from fattail.algorithms.parts.defaults import is_auto
from fattail.algorithms.parts.em import LatentFit
from fattail.algorithms.parts.em_problem import LatentProblem
from fattail.estimators.base import PrivateEstimator
from fattail.estimators.parameters import checked_names
from fattail.estimators.predictors import Scores
from fattail.privacy import Curator, gaussian_multiplier
from fattail.rows.data import PrivateData
from fattail.rows.sources import is_stream

Floats = NDArray[np.float64]

# Noise of a mean of unit rows above which the error of coefficients was about as large as they are: 300 to 30,000 normal rows
# of 2 and 10 columns, separated by two standard deviations.
MOST_NOISE = {"auto": 0.05, "smoothed": 0.2, "clipped": 0.2}
# Median step between iterates, relative to the final coefficients, above which the fit has not converged or is mostly noise.
# Set by hand in the first version; benchmarks/em.py measures errors.
STILL_MOVES = 0.15


@dataclass(kw_only=True, eq=False, repr=False)
class LatentModel(PrivateEstimator):
    """The base class of the three models: the paper's parameters and its three algorithms."""

    _methods = ("auto", "smoothed", "clipped", "local")
    _need_n = ("local",)
    _used_by: ClassVar = {
        **dict.fromkeys(("n_iter", "step", "init"), ("smoothed", "clipped", "local")),
        **dict.fromkeys(("moment_bound", "failure_probability"), ("smoothed", "local")),
        "clip": ("clipped",),
        "split": ("smoothed",),
    }
    _model: ClassVar[str]

    noise_scale: Any = "auto"
    n_iter: Any = "auto"
    step: Any = "auto"
    clip: Any = "auto"
    moment_bound: Any = "auto"
    failure_probability: float = 0.05  # set by hand: the usual five percent
    init: Any = "auto"
    split: bool = False

    path_: Floats = field(init=False)
    n_iter_: int = field(init=False)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.delta == 0:
            raise ValueError("delta must be positive: every method releases with Gaussian noise")
        for name in ("noise_scale", "step", "clip", "moment_bound"):
            value = getattr(self, name)
            if not is_auto(value) and not (isinstance(value, (int, float, np.number)) and 0 < float(value) < math.inf):
                raise ValueError(f"{name} must be 'auto' or a positive number, got {value!r}")
        if not is_auto(self.n_iter) and not (isinstance(self.n_iter, (int, np.integer)) and self.n_iter >= 1):
            raise ValueError(f"n_iter must be 'auto' or a positive integer, got {self.n_iter!r}")
        if not 0 < self.failure_probability < 1:
            raise ValueError(f"failure_probability must lie in (0, 1), got {self.failure_probability!r}")
        if isinstance(self.init, str) and self.init not in ("auto", "random"):
            raise ValueError(f"init must be 'auto', 'random' or an array, got {self.init!r}")

    def _announce(self, data: PrivateData) -> None:
        super()._announce(data)
        noise = 2 * (data.d + 1) * gaussian_multiplier(self.epsilon, self.delta) / data.n * self._parts() / 2
        if self.method == "local":
            self._warn_of_noise(data, noise * math.sqrt(data.n), 0.5, power=2.0)
        else:
            if self.split:
                noise *= math.sqrt(20 if is_auto(self.n_iter) else int(self.n_iter))
            self._warn_of_noise(data, noise, MOST_NOISE[self.method])

    def _parts(self) -> int:
        """Number of components among which the rows are divided."""
        return 2

    def _noise_scale(self) -> float | None:
        return None if is_auto(self.noise_scale) else float(self.noise_scale)

    def _start(self, d: int) -> Floats | None:
        """The user's starting point, a public random one, or None for a private one."""
        if isinstance(self.init, str):
            if self.init == "auto" and self.method != "local":
                return None
            seed = None if self.random_state is None else [int(self.random_state), 1]
            point = np.random.default_rng(seed).standard_normal(d)
            return np.asarray(point / np.linalg.norm(point))
        point = np.array(self.init, dtype=np.float64)
        if point.shape != (d,) or not np.all(np.isfinite(point)):
            raise ValueError(f"init must be {d} finite numbers, got an array of shape {point.shape}")
        return point

    def _fit_paper(self, curator: Curator, data: PrivateData) -> LatentFit:
        """Algorithm 1 or 2 of dpem2020, or the latter with local reports."""
        n_iter = None if is_auto(self.n_iter) else int(self.n_iter)
        step = None if is_auto(self.step) else float(self.step)
        problem = LatentProblem(self._model, self._noise_scale(), self._start(data.d), n_iter, step)
        moment_bound = None if is_auto(self.moment_bound) else float(self.moment_bound)
        if self.method == "clipped":
            return clipped_em(curator, data, problem, 1.0 if is_auto(self.clip) else float(self.clip))
        if self.method == "local":
            return local_em(curator, data, problem, moment_bound, self.failure_probability)
        return smoothed_em(curator, data, problem, moment_bound, self.failure_probability, self.split)

    def _store(self, fit: LatentFit, up_to_sign: bool) -> float:
        """Common attributes; returns the sign that makes the largest coefficient positive."""
        sign = -1.0 if up_to_sign and fit.coef[np.argmax(np.abs(fit.coef))] < 0 else 1.0
        self.coef_ = sign * fit.coef
        self.noise_scale_ = math.sqrt(fit.variance)
        self.path_ = sign * fit.path
        self.n_iter_ = len(fit.path)
        moves = np.linalg.norm(np.diff(fit.path, axis=0), axis=1)
        if len(moves) and np.median(moves) > STILL_MOVES * np.linalg.norm(fit.coef):
            warn_utility("released iterates still change by a large part of coef_: more rows or a larger epsilon are needed")
        return sign


@checked_names
@dataclass(kw_only=True, eq=False, repr=False)
class LatentRegression(Scores, RegressorMixin, LatentModel):  # type: ignore[misc]
    """The common part of the two regressions."""

    fit_intercept: Any = "auto"

    def _with_intercept(self) -> bool:
        return self.method == "auto" if is_auto(self.fit_intercept) else bool(self.fit_intercept)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._with_intercept() and self.method != "auto":
            raise ValueError(f"fit_intercept=True needs method='auto'; method={self.method!r} fits the paper's model without one")

    def _private_pairs(self, X: Any, y: Any, **options: Any) -> PrivateData:
        """Private rows (X, y). Only `PrivateData` and streams may hold y themselves."""
        if y is None and not isinstance(X, PrivateData) and not is_stream(X):
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        return self._private_data(X, y, accept_sparse=False, **options)
