"""Gradient EM that is told nothing: private scales, a private spectral start, bounded steps.

The same four movements for the three models of dpem2020:

1. *Units.* The octave of each column's size is selected privately; rows are measured in it.
2. *Start.* One release of second moments: the top eigenvector of ``E[y y']`` for clusters, of
   ``E[+-x x']`` (plus where ``|y|`` is large) for two regressions; zero for missing covariates.
3. *Steps.* Full-batch gradient EM. A row's gradient is shrunk to a ball of about the typical
   length of a residual, which the released noise level says, and one more coordinate
   carries the excess of the squared residual, so the noise level is learnt along.
4. *Average* of the last iterates, to which most of the budget goes: EM contracts, so their noise
   is nearly independent and averages out.

Every release is a mean of rows inside a unit ball.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail._registry import registered
from fattail.algorithms.common.em_models import Terms, missing_terms, mixture_terms, regressions_terms
from fattail.algorithms.common.em_units import Units, bounded_size, column_moments, lengths, response, shrink, whitener
from fattail.data import Block, PrivateData
from fattail.privacy import Bounded, Curator, Fold, Gaussian, TopK
from fattail.robust import Ball, Gram, symmetric
from fattail.scale import magnitude_quantile

Floats = NDArray[np.float64]
Rows = Callable[[Block], Terms]

_EXCESS_WEIGHT = 0.1  # of a row's squared length, for the noise level


@dataclass(frozen=True)
class Fit:
    """What a fit releases: parameters of ``+-<coef, x> + intercept`` and the noise level."""

    coef: Floats
    variance: float
    intercept: float = 0.0
    offset: float = 0.0
    center: Floats = field(default_factory=lambda: np.zeros(0))
    spread: Floats = field(default_factory=lambda: np.zeros(0))
    path: Floats = field(default_factory=lambda: np.zeros((0, 0)))


class Bounding(Protocol):
    """How one step bounds the rows: the mean of (gradient, excess) in their own units."""

    def mean(self, data: PrivateData, terms: Rows, width: int, variance: float, fold: Fold | None) -> Bounded: ...


@dataclass(frozen=True)
class InBall:
    """Gradients shrunk to a ball, the excess clipped; together in the unit ball.

    Parameters
    ----------
    radius : float
        In units of the noise level times the square root of the dimension, or absolute.
    excess : float
        Bound of the excess; 0 to leave it out.
    absolute : bool
    """

    radius: float
    excess: float
    absolute: bool = False

    def mean(self, data: PrivateData, terms: Rows, width: int, variance: float, fold: Fold | None) -> Bounded:
        radius = self.radius * (1.0 if self.absolute else math.sqrt(variance * width))
        if not self.excess:
            return Ball(radius=radius).mean(data, lambda b: (terms(b)[0], None), fold, width=width)
        outer, inner = math.sqrt(1.0 - _EXCESS_WEIGHT), math.sqrt(_EXCESS_WEIGHT)

        def rows(block: Block) -> tuple[Floats, None]:
            gradient, excess = terms(block)
            clipped = np.clip(excess / self.excess, -1.0, 1.0)
            return np.column_stack([shrink(gradient, radius) * (outer / radius), inner * clipped]), None

        unit = np.append(np.full(width, radius / outer), self.excess / inner)
        return Ball(radius=1.0).mean(data, rows, fold, width=width + 1) * unit


@dataclass(frozen=True)
class Schedule:
    """Steps of one EM run: ``early`` ones to arrive, ``late`` ones of which the last ``averaged`` are averaged."""

    early: int
    late: int
    early_share: float
    late_share: float
    step: float
    averaged: int
    folds: bool = False

    @property
    def steps(self) -> int:
        return self.early + self.late

    @property
    def mechanisms(self) -> tuple[Gaussian, ...]:
        late = Gaussian("late EM steps" if self.early else "EM steps", self.late_share, count=self.late, folds=self.folds)
        return (Gaussian("early EM steps", self.early_share, count=self.early), late) if self.early else (late,)


def run(
    curator: Curator,
    data: PrivateData,
    terms: Callable[[Block, Floats, float], Terms],
    bounding: Bounding,
    schedule: Schedule,
    beta: Floats,
    variance: float,
    known: float | None,
) -> tuple[Floats, float, Floats]:
    """Private gradient EM from a public start: averages of the last iterates, and all iterates.

    A known variance is a floor: while the fit is still poor its residuals are larger, and
    responsibilities and bounds follow them.
    """
    width = len(beta)
    folds = data.folds(schedule.steps) if schedule.folds else (None,) * schedule.steps
    betas, variances = [], []
    for t, fold in enumerate(folds):
        mean = bounding.mean(data, _at(terms, beta, variance), width, variance, fold)
        released = curator.release(schedule.mechanisms[0 if t < schedule.early else -1], mean)
        beta = beta + schedule.step * released[:width]
        for excess in released[width:]:
            variance = max(variance * float(np.clip(1.0 + excess, 0.3, 3.0)), known or 0.0)
        betas.append(beta)
        variances.append(variance)
    tail = slice(-schedule.averaged, None)
    return np.mean(betas[tail], axis=0), float(np.exp(np.mean(np.log(variances[tail])))), np.array(betas)


def _at(terms: Callable[[Block, Floats, float], Terms], beta: Floats, variance: float) -> Rows:
    return lambda block: terms(block, beta, variance)


@registered(
    "auto",
    estimators=("DPGaussianMixture",),
    paper="fattail",
    algorithm="symmetric clusters",
    changed="dpem2020's gradient EM with private units, a private start, a learnt noise level and averaged late steps",
    test="tests/estimators/test_mixture.py::test_fuzz",
)
def gaussian_mixture(curator: Curator, data: PrivateData, noise_scale: float | None) -> Fit:
    """Two balanced clusters ``+-beta`` with spherical noise of unknown size.

    The top eigenvalue of the second moments is ``|beta|^2 + variance``, the others are the
    variance. Rows are measured from the origin, which the model makes the centre.
    """
    schedule = Schedule(4, 4, 0.2, 0.62, step=1.2, averaged=4)
    bounding = InBall(1.05 * room(curator, data), 4.0 * math.sqrt(2.0 / data.d))
    known = None if noise_scale is None else noise_scale**2
    size, start = TopK("row length", 0.04), Gaussian("second moments", 0.14)
    curator.plan(size, start, *schedule.mechanisms)
    beta, variance = mixture_start(curator, size, start, data, known or 0.0)

    def terms(block: Block, beta: Floats, variance: float) -> Terms:
        return mixture_terms(block.X, None, beta, variance)

    beta, variance, path = run(curator, data, terms, bounding, schedule, beta, variance, known)
    return Fit(beta, variance if known is None else known, path=path)


def mixture_start(curator: Curator, size: TopK, start: Gaussian, data: PrivateData, floor: float) -> tuple[Floats, float]:
    """Direction, length and noise level from private second moments of rows pulled back to a private length."""
    length = bounded_size(magnitude_quantile(curator, size, data, lambda b: lengths(b.X), 0.6))
    values, vectors = np.linalg.eigh(symmetric(curator.release(start, Gram(radius=1.3 * length).mean(data))))
    top = max(float(values[-1]), 0.01 * length**2)
    # In one dimension second moments cannot tell signal from noise; the steps will.
    rest = float(np.mean(values[:-1])) if data.d > 1 else 0.3 * top
    variance = max(rest, 0.05 * top, floor)
    return vectors[:, -1] * math.sqrt(max(top - variance, 0.25 * top)), variance


@registered(
    "auto",
    estimators=("DPMixtureOfRegressions",),
    paper="fattail",
    algorithm="mirrored regressions",
    changed="dpem2020's gradient EM with private units, a private start, a learnt noise level and averaged late steps",
    test="tests/estimators/test_mixture.py::test_fuzz",
)
def mixture_of_regressions(curator: Curator, data: PrivateData, noise_scale: float | None, fit_intercept: bool) -> Fit:
    """Two balanced regressions ``y = offset +- (<beta, x> + intercept) + noise``.

    Covariates are decorrelated by a private second-moment matrix whose off-diagonal part is
    shrunk by as much as its noise deserves. Large ``|y|`` means large ``|<beta, x>|``: directions
    of x weighted ``+1/2`` where ``|y|`` is above a private middle value and ``-1/2`` elsewhere have
    beta as top eigenvector, and each row's weight in that matrix is at most 1/2.
    """
    d = data.d
    schedule = Schedule(8, 5, 0.2, 0.47, step=1.3, averaged=5)
    bounding = InBall(0.9 * room(curator, data), 6.0)
    known = None if noise_scale is None else noise_scale**2
    units = Units(d + 1, 0.1 if fit_intercept else 0.06, fit_intercept)
    gram, start = Gaussian("covariate moments", 0.07), Gaussian("spectral start", 0.2)
    curator.plan(*units.mechanisms, gram, start, *schedule.mechanisms)
    center, scale = units.release(curator, data)
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
    return Fit(coef, variance if known is None else known, inside, middle, path=path[:, :d] @ W.T)


def regressions_start(
    curator: Curator,
    start: Gaussian,
    data: PrivateData,
    place: Callable[[Block], Floats],
    offset: float,
    size: float,
    floor: float,
) -> tuple[Floats, float]:
    """Direction from signed second moments of the directions of covariates, length from the response's power."""
    d = data.d
    pairs = np.triu_indices(d)
    weight = np.where(pairs[0] == pairs[1], 1.0, math.sqrt(2.0))  # keeps the Frobenius norm
    middle = 0.75 * size  # near the median of |y|: size is the upper edge of its octave

    def rows(block: Block) -> tuple[Floats, None]:
        Z = place(block)
        Z = Z / np.fmax(lengths(Z), 1e-300)[:, None]
        y = response(block) - offset
        sign = np.where(np.abs(y) > middle, 0.45, -0.45)
        power = 0.2 * np.fmin((y / (4.0 * size)) ** 2, 1.0)
        return np.column_stack([sign[:, None] * weight * Z[:, pairs[0]] * Z[:, pairs[1]], power]), None

    released = curator.release(start, Ball(radius=0.5).mean(data, rows, width=len(weight) + 1))
    direction = np.linalg.eigh(symmetric(released[:-1] / weight))[1][:, -1]
    power = max(float(released[-1]) / 0.2 * (4.0 * size) ** 2, (0.3 * size) ** 2)
    variance = max(0.16 * power, floor)
    return direction * math.sqrt(max(power - variance, 0.3 * power)), variance


@registered(
    "auto",
    estimators=("DPMissingCovariateRegression",),
    paper="fattail",
    algorithm="missing covariates",
    changed="dpem2020's gradient EM with private units, a private start, a learnt noise level and averaged late steps",
    test="tests/estimators/test_mixture.py::test_fuzz",
)
def missing_covariates(curator: Curator, data: PrivateData, noise_scale: float | None, fit_intercept: bool) -> Fit:
    """Regression on independent normal covariates of which some are missing (NaN).

    Missing entries are integrated out under ``N(center_j, spread_j^2)``, whose parameters
    are released first. At ``beta = 0`` the first step is the covariance of y with what is observed,
    so no other start is needed.
    """
    d = data.d
    schedule = Schedule(9, 5, 0.24, 0.46, step=1.1, averaged=5)
    bounding = InBall(1.2 * room(curator, data), 6.0)
    known = None if noise_scale is None else noise_scale**2
    units = Units(d + 1, 0.12 if fit_intercept else 0.1, fit_intercept)
    moments = Gaussian("covariate moments", 0.12)
    curator.plan(*units.mechanisms, moments, *schedule.mechanisms)
    center, scale = units.release(curator, data)
    middle, spread, power = column_moments(curator, moments, data, center, scale, fit_intercept)
    offset = float(middle[d])

    def terms(block: Block, beta: Floats, variance: float) -> Terms:
        Z = _with_constant((block.X - middle[:d]) / spread, fit_intercept)
        return missing_terms(Z, response(block) - offset, beta, variance, cut=2.0)

    start = np.zeros(d + fit_intercept)
    beta, variance, path = run(curator, data, terms, bounding, schedule, start, max(power, known or 0.0), known)
    coef = beta[:d] / spread
    intercept = offset + float(beta[d] - coef @ middle[:d]) if fit_intercept else 0.0
    return Fit(coef, variance if known is None else known, intercept, center=middle[:d], spread=spread, path=path[:, :d] / spread)


def room(curator: Curator, data: PrivateData, least: float = 0.7) -> float:
    """How much wider than the typical row a ball may be: wide balls bias less, and large n pays for their noise."""
    return float(min(max((data.n * curator.epsilon / (1000 * data.d)) ** 0.25, least), 2.0))


def _with_constant(Z: Floats, wanted: bool) -> Floats:
    return np.column_stack([Z, np.ones(len(Z))]) if wanted else Z
