"""The loop of private gradient EM, the bounds of its steps, and private starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import TINY
from fattail.algorithms.parts.em_models import Terms
from fattail.algorithms.parts.em_units import bounded_size, lengths, project_rows, response
from fattail.algorithms.parts.scale import magnitude_quantile
from fattail.privacy import Bounded, Curator, Fold, Gaussian, TopK
from fattail.robust import Ball, Gram, symmetric
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
Rows = Callable[[Block], Terms]


@dataclass(frozen=True)
class LoopConstants:
    """Numbers of the EM loop and of its private starts.

    Those without a derivation were set by hand in the first version; ``benchmarks/tuning/vary.py em`` varies them.
    """

    excess_weight: float = 0.1
    """Part of a row's squared length that carries the noise level; the gradient has the rest."""
    slowest: float = 0.3
    fastest: float = 3.0
    """Least and largest factor by which one step may change the noise level, so that noise cannot make it useless."""
    length_quantile: float = 0.6
    """Quantile of row lengths that sets the ball of second moments."""
    length_factor: float = 1.3
    """Radius of that ball over the quantile."""
    least_top: float = 0.01
    """Least top eigenvalue over the squared length: noise can make the released one negative."""
    noise_of_one: float = 0.3
    """Noise level over the second moment if there is one column, whose moment cannot separate signal and noise."""
    least_noise: float = 0.05
    """Least noise level over the top eigenvalue at the start."""
    least_signal: float = 0.25
    """Least squared length of the start over the top eigenvalue: EM does not leave zero by itself."""
    sign_weight: float = 0.45
    power_weight: float = 0.2
    """Parts of a row for the direction and for the response's power: 0.45^2 + 0.2^2 < 0.5^2, the squared radius of the ball."""
    middle: float = 0.75
    """Middle of an octave over its upper edge, taken as the median of |y|."""
    reach: float = 4.0
    """Clip of responses, in units of their size, for their power."""
    least_power: float = 0.3
    """Least root of the response's power over its size."""
    noise_share: float = 0.16
    """Noise level over the response's power at the start: a model that explains five sixths of it."""
    least_slope: float = 0.3
    """Least squared length of the start over the response's power."""
    least_factor: float = 0.7
    most_factor: float = 2.0
    """Range of `radius_factor`."""


CONSTANTS = LoopConstants()


@dataclass(frozen=True)
class LatentFit:
    """The released parameters of ``+-<coef, x> + intercept``, and the noise level."""

    coef: Floats
    variance: float
    intercept: float = 0.0
    offset: float = 0.0
    center: Floats = field(default_factory=lambda: np.zeros(0))
    spread: Floats = field(default_factory=lambda: np.zeros(0))
    path: Floats = field(default_factory=lambda: np.zeros((0, 0)))


class Bounding(Protocol):
    """The bound of one step: it gives the bounded mean of (gradient, excess)."""

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
        outer, inner = math.sqrt(1.0 - CONSTANTS.excess_weight), math.sqrt(CONSTANTS.excess_weight)

        def rows(block: Block) -> tuple[Floats, None]:
            gradient, excess = terms(block)
            clipped = np.clip(excess / self.excess, -1.0, 1.0)
            return np.column_stack([project_rows(gradient, radius) * (outer / radius), inner * clipped]), None

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

    A known variance is a lower bound: residuals are larger while the fit is poor, and responsibilities and bounds must follow
    them.
    """
    width = len(beta)
    folds = curator.folds(data.n, schedule.steps) if schedule.folds else (None,) * schedule.steps
    betas, variances = [], []
    for t, fold in enumerate(folds):
        mean = bounding.mean(data, _terms_at(terms, beta, variance), width, variance, fold)
        released = curator.release(schedule.mechanisms[0 if t < schedule.early else -1], mean)
        beta = beta + schedule.step * released[:width]
        for excess in released[width:]:
            variance = max(variance * float(np.clip(1.0 + excess, CONSTANTS.slowest, CONSTANTS.fastest)), known or 0.0)
        betas.append(beta)
        variances.append(variance)
    tail = slice(-schedule.averaged, None)
    return np.mean(betas[tail], axis=0), float(np.exp(np.mean(np.log(variances[tail])))), np.array(betas)


def _terms_at(terms: Callable[[Block, Floats, float], Terms], beta: Floats, variance: float) -> Rows:
    return lambda block: terms(block, beta, variance)


def mixture_start(curator: Curator, size: TopK, start: Gaussian, data: PrivateData, floor: float) -> tuple[Floats, float]:
    """Direction, length and noise level from private second moments of rows, projected to a ball of private radius."""
    c = CONSTANTS
    length = bounded_size(magnitude_quantile(curator, size, data, lambda b: lengths(b.X), c.length_quantile))
    values, vectors = np.linalg.eigh(symmetric(curator.release(start, Gram(radius=c.length_factor * length).mean(data))))
    top = max(float(values[-1]), c.least_top * length**2)
    # In one dimension second moments cannot separate signal and noise; the steps do.
    rest = float(np.mean(values[:-1])) if data.d > 1 else c.noise_of_one * top
    variance = max(rest, c.least_noise * top, floor)
    return vectors[:, -1] * math.sqrt(max(top - variance, c.least_signal * top)), variance


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
    c, d = CONSTANTS, data.d
    pairs = np.triu_indices(d)
    weight = np.where(pairs[0] == pairs[1], 1.0, math.sqrt(2.0))  # keeps the Frobenius norm
    middle = c.middle * size  # near the median of |y|: size is the upper edge of its octave

    def rows(block: Block) -> tuple[Floats, None]:
        Z = place(block)
        Z = Z / np.fmax(lengths(Z), TINY)[:, None]
        y = response(block) - offset
        sign = np.where(np.abs(y) > middle, c.sign_weight, -c.sign_weight)
        power = c.power_weight * np.fmin((y / (c.reach * size)) ** 2, 1.0)
        return np.column_stack([sign[:, None] * weight * Z[:, pairs[0]] * Z[:, pairs[1]], power]), None

    released = curator.release(start, Ball(radius=0.5).mean(data, rows, width=len(weight) + 1))
    direction = np.linalg.eigh(symmetric(released[:-1] / weight))[1][:, -1]
    power = max(float(released[-1]) / c.power_weight * (c.reach * size) ** 2, (c.least_power * size) ** 2)
    variance = max(c.noise_share * power, floor)
    return direction * math.sqrt(max(power - variance, c.least_slope * power)), variance


def radius_factor(curator: Curator, data: PrivateData, least: float = CONSTANTS.least_factor) -> float:
    """Radius of a ball over the length of a typical row: wider balls have less bias, and with large n their noise is
    affordable."""
    return float(min(max((data.n * curator.epsilon / (1000 * data.d)) ** 0.25, least), CONSTANTS.most_factor))
