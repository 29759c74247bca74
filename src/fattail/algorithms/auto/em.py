"""Gradient EM without parameters: private scales, a private spectral start, bounded steps.

The same four steps for the three models of dpem2020:

1. *Units.* The octave of each column's size is selected privately; rows are measured in it.
2. *Start.* One release of second moments: the top eigenvector of ``E[y y']`` for clusters, of
   ``E[+-x x']`` (plus where ``|y|`` is large) for two regressions; zero for missing covariates.
3. *Steps.* Full-batch gradient EM. A row's gradient is shrunk to a ball of about the typical length of a residual, given by the
released noise level. One more coordinate carries the excess of the squared residual, which updates the noise level.
4. *Average* of the last iterates, to which most of the budget goes: EM contracts, so their noise
   is nearly independent and averages out.

Every release is a mean of rows inside a unit ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.algorithms.parts.em import InBall, LatentFit, Schedule, mixture_start, radius_factor, regressions_start, run
from fattail.algorithms.parts.em_models import Terms, missing_terms, mixture_terms, regressions_terms
from fattail.algorithms.parts.em_units import LatentUnits, clipped_means, column_moments, response, whitener
from fattail.algorithms.registry import registered
from fattail.privacy import Curator, Gaussian, TopK
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EMConstants:
    """Numbers of one model; set by hand in the first version, and ``benchmarks/tuning/vary.py`` varies them (em_...).

    Attributes
    ----------
    schedule : Schedule
        Steps and their shares of the budget.
    ball : float
        Radius of a gradient, in units of a typical residual, before `radius_factor` widens it.
    excess : float
        Largest excess of a squared residual that counts for the noise level, over the noise level.
    units, centered_units : float
        Share of the budget for units, and where columns have a center too.
    means : float
        Share of the means of columns that have a center.
    start : float
        Share of the release that starts the fit.
    moments : float
        Share of the covariates' second moments; 0 where none are needed.
    cut : float
        Standardized residual beyond which a row with missing cells counts less.
    """

    schedule: Schedule
    ball: float
    excess: float
    units: float
    centered_units: float = 0.0
    means: float = 0.0
    start: float = 0.0
    moments: float = 0.0
    cut: float = math.inf


# Shares of a model add up to one, those of its schedule included.
CLUSTERS = EMConstants(Schedule(4, 4, 0.2, 0.62, step=1.2, averaged=4), ball=1.05, excess=4.0, units=0.04, start=0.14)
REGRESSIONS = EMConstants(
    Schedule(8, 5, 0.2, 0.47, step=1.3, averaged=5),
    ball=0.9,
    excess=6.0,
    units=0.06,
    centered_units=0.07,
    means=0.03,
    start=0.2,
    moments=0.07,
)
MISSING = EMConstants(
    Schedule(9, 5, 0.24, 0.46, step=1.1, averaged=5), ball=1.2, excess=6.0, units=0.1, centered_units=0.12, moments=0.12, cut=2.0
)


_default = partial(
    registered,
    "auto",
    paper="fattail",
    changed="dpem2020's gradient EM with private units, a private start, a learned noise level and averaged late steps",
    test="tests/estimators/test_mixture.py::test_fuzz",
)


@_default(estimators=("DPGaussianMixture",), algorithm="symmetric clusters")
def gaussian_mixture(curator: Curator, data: PrivateData, noise_scale: float | None) -> LatentFit:
    """Two balanced clusters ``+-beta`` with spherical noise of unknown size.

    The top eigenvalue of the second moments is ``|beta|^2 + variance``, the others are the
    variance. The origin is the center of the model, so rows are not centered.
    """
    c, schedule = CLUSTERS, CLUSTERS.schedule
    bounding = InBall(c.ball * radius_factor(curator, data), c.excess * math.sqrt(2.0 / data.d))
    known = None if noise_scale is None else noise_scale**2
    size, start = TopK("row length", c.units), Gaussian("second moments", c.start)
    curator.plan(size, start, *schedule.mechanisms)
    beta, variance = mixture_start(curator, size, start, data, known or 0.0)

    def terms(block: Block, beta: Floats, variance: float) -> Terms:
        return mixture_terms(block.X, None, beta, variance)

    beta, variance, path = run(curator, data, terms, bounding, schedule, beta, variance, known)
    return LatentFit(beta, variance if known is None else known, path=path)


@_default(estimators=("DPMixtureOfRegressions",), algorithm="mirrored regressions")
def mixture_of_regressions(curator: Curator, data: PrivateData, noise_scale: float | None, fit_intercept: bool) -> LatentFit:
    """Two balanced regressions ``y = offset +- (<beta, x> + intercept) + noise``.

    Covariates are decorrelated by a private second-moment matrix whose off-diagonal part is shrunk according to its noise.
    Large ``|y|`` means large ``|<beta, x>|``: directions
    of x weighted ``+1/2`` where ``|y|`` is above a private middle value and ``-1/2`` elsewhere have
    beta as top eigenvector, and each row's weight in that matrix is at most 1/2.
    """
    c, d, schedule = REGRESSIONS, data.d, REGRESSIONS.schedule
    bounding = InBall(c.ball * radius_factor(curator, data), c.excess)
    known = None if noise_scale is None else noise_scale**2
    share = c.centered_units if fit_intercept else c.units
    units = LatentUnits.planned(curator, data.n, d + 1, share, fit_intercept)
    means = tuple(Gaussian("column means", c.means) for _ in range(fit_intercept))
    gram, start = Gaussian("covariate moments", c.moments), Gaussian("spectral start", c.start)
    curator.plan(*units.mechanisms, *means, gram, start, *schedule.mechanisms)
    center, scale = units.release(curator, data)
    for release in means:
        center = clipped_means(curator, release, data, center, scale)
    W = whitener(curator, gram, data, center[:d], scale[:d])
    offset, size = float(center[d]), float(scale[d])

    def place(block: Block) -> Floats:
        return _kernels.product(block.X - center[:d], W)

    beta, variance = regressions_start(curator, start, data, place, offset, size, known or 0.0)
    beta = np.append(beta, np.zeros(2 * fit_intercept))

    def terms(block: Block, beta: Floats, variance: float) -> Terms:
        Z, y = _with_constant(place(block), fit_intercept), response(block) - offset
        if not fit_intercept:
            return regressions_terms(Z, y, beta, variance)
        y = y - beta[-1]
        gradient, excess = regressions_terms(Z, y, beta[:-1], variance)
        line = _kernels.dot(Z, beta[:-1])
        return np.column_stack([gradient, y - np.tanh(y * line / variance) * line]), excess

    beta, variance, path = run(curator, data, terms, bounding, schedule, beta, variance, known)
    coef = W @ beta[:d]
    inside = float(beta[d] - coef @ center[:d]) if fit_intercept else 0.0
    middle = offset + float(beta[-1]) if fit_intercept else 0.0
    return LatentFit(coef, variance if known is None else known, inside, middle, path=path[:, :d] @ W.T)


@_default(estimators=("DPMissingCovariateRegression",), algorithm="missing covariates")
def missing_covariates(curator: Curator, data: PrivateData, noise_scale: float | None, fit_intercept: bool) -> LatentFit:
    """Regression on independent normal covariates of which some are missing (NaN).

    Missing entries are integrated out under ``N(center_j, spread_j^2)``, whose parameters
    are released first. At ``beta = 0`` the first step is the covariance of y with what is observed,
    so no other start is needed.
    """
    c, d, schedule = MISSING, data.d, MISSING.schedule
    bounding = InBall(c.ball * radius_factor(curator, data), c.excess)
    known = None if noise_scale is None else noise_scale**2
    share = c.centered_units if fit_intercept else c.units
    units = LatentUnits.planned(curator, data.n, d + 1, share, fit_intercept)
    moments = Gaussian("covariate moments", c.moments)
    curator.plan(*units.mechanisms, moments, *schedule.mechanisms)
    center, scale = units.release(curator, data, gaps=True)
    middle, spread, power = column_moments(curator, moments, data, center, scale, fit_intercept)
    offset = float(middle[d])

    def terms(block: Block, beta: Floats, variance: float) -> Terms:
        Z = _with_constant((block.X - middle[:d]) / spread, fit_intercept)
        return missing_terms(Z, response(block) - offset, beta, variance, cut=c.cut)

    start = np.zeros(d + fit_intercept)
    beta, variance, path = run(curator, data, terms, bounding, schedule, start, max(power, known or 0.0), known)
    coef = beta[:d] / spread
    intercept = offset + float(beta[d] - coef @ middle[:d]) if fit_intercept else 0.0
    return LatentFit(
        coef, variance if known is None else known, intercept, center=middle[:d], spread=spread, path=path[:, :d] / spread
    )


def _with_constant(Z: Floats, wanted: bool) -> Floats:
    return np.column_stack([Z, np.ones(len(Z))]) if wanted else Z
