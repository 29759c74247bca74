"""Logistic regression from few noisy gradients, each of them an observation of the coefficients.

A released gradient at w says ``gradient = curvature (w - truth) + noise``. All of them together, and a prior for the slopes,
have a posterior that is plain linear algebra: no gradient is wasted on the way, directions that noise hides stay at the prior,
and the number of steps needs no tuning. The next gradient is taken at the posterior mean. Where the fit has moved since, a
gradient says less, since the curvature differs on the way; and how much the gradient changed along it corrects the curvature.

Rows are pulled back by a function of their length and of the prediction, never of the label, so that a correct model is
fitted without bias.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from fattail import _kernels
from fattail._tools.numbers import TINY
from fattail.algorithms.parts.geometry import raise_eigenvalues
from fattail.algorithms.parts.linear_rows import Frame, Singles
from fattail.algorithms.parts.newton import Model
from fattail.privacy import Gaussian
from fattail.robust import Ball, Gram, symmetric
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabelGradientDefaults:
    """Constants, chosen by hand on laws and tables of ``benchmarks/rare_labels.py`` and of its notes."""

    clips: tuple[float, float] = (0.5, 2.0)
    """Range of the length to which the gradient of a row is clipped, in lengths of a typical row."""
    noise: float = 0.25
    """Noise of a gradient over the sampling variance up to which the clip is widened."""
    room: float = 2.0
    """Squared length of a row in the curvature over that of a typical row, as a multiple of the clip."""
    room_at_fit: float = 1.4
    """The same for the curvature at the fit, where some rows have more than at the start."""
    size: float = 2.0
    """Prior variance of predictions, in log-odds squared: slopes are alike in units of their columns."""
    useless: tuple[float, float] = (0.1, 0.01)
    """Probability that columns say nothing, and the factor of the prior variance if so."""
    ordinary: float = 2.5
    """Standard deviation of a coefficient per unit of its column, in log-odds (Gelman, Jakulin, Pittau and Su 2008): the prior of
    standard errors, which should not depend on the size of all slopes."""
    constant: float = 2.0
    """Standard deviation of the constant, in log-odds."""
    linear: float = 0.5
    """Error of a gradient that is extrapolated, over the change."""
    bent: float = 0.5
    """Standard deviation of the curvature along one direction, over the mean one or the released one: it changes as the fit
    moves ..."""
    most_bent: float = 4.0
    """... and the largest factor."""
    widened: float = 4.0
    """Factor of a first posterior variance for which the noise of the curvature is allowed."""
    doubted: float = 0.1
    """Least share of the variance of a curvature that counts as its error: a spread may be hidden where none shows."""
    least: float = 0.1
    """Least curvature along slopes and constant, over the mean."""
    lowest: float = 2.0
    """Least curvature that a step assumes, in noise deviations: in a direction that seems flat, the prior would undo the fit."""
    precise: float = 0.3
    """Posterior variance of predictions, over the prior one, from which on the curvature of the start is used alone: it has
    less noise than the one at the fit, and is larger for rare labels, which shrinks more."""


DEFAULTS = LabelGradientDefaults()


@dataclass(frozen=True)
class Bend:
    """A released curvature of the bounded objective, noise taken out of the spread of its eigenvalues."""

    matrix: Floats
    noise: float
    """What is left of the noise, per entry ..."""
    most: float
    """... and what there was."""


@dataclass(frozen=True)
class Observation:
    """A released gradient."""

    w: Floats
    gradient: Floats
    variance: float
    """Of the noise, and of the sample where it has not all of the rows."""


@dataclass(frozen=True)
class LabelPosterior:
    """Mean and covariance of the parameters."""

    mean: Floats
    covariance: Floats
    noise: Floats
    """Covariance of the mean, given the truth."""
    followed: float
    """Expected product of the noise of the last gradient and the way that it makes the mean go, with the sign reversed."""


class LabelGradients:
    """Gradients of labels, and what they say of the coefficients. All of it is public."""

    def __init__(self, model: Model, share: float, per_row: float) -> None:
        """``share`` of positives is released; ``per_row`` is the noise of all gradients together, for rows of length one."""
        c, ones = DEFAULTS, model.cases[1]
        self.model, self.observations = model, list[Observation]()
        self.followed = list[float]()  # product of a gradient's noise and the way that it made the fit go, reversed
        even = share * ones / model.mass
        self.start = np.append(np.zeros(model.w.size - 1), logit(even))
        model.w = self.start
        self.seen = np.append(np.isfinite(model.problem.frame.scale), True)  # other columns are zero in private units
        self.p = int(self.seen.sum())
        self.curvature = even * (1 - even) * model.mass  # mean second derivative at the start
        # The clip that makes noise a given part of the variance which the rows themselves cause.
        clip = math.sqrt(c.noise * self.curvature / model.data.n / self.p) / per_row
        clip = float(np.clip(clip, *c.clips))
        self.clip, self.radius = clip * math.sqrt(self.p), math.sqrt(max(1.0, c.room * clip) * self.p)

    @property
    def _public(self) -> tuple[Frame, Floats, tuple[float, float], float]:
        """What `_pulled_back` needs: passes hold public values alone, since they are sent to where the rows are."""
        return self.model.problem.frame, self.model.w, self.model.cases, self.clip

    def bend(self, release: Gaussian, data: PrivateData, room: float = 1.0) -> Bend:
        """Release the curvature at the present fit; a row has that which the fit expects, whatever its label."""
        model, radius, public = self.model, room * self.radius, self._public
        (zeros, ones), curvature = model.cases, self.curvature

        def rows(block: Block) -> tuple[Singles, Floats]:
            z, chance, kept = _pulled_back(block, *public)
            weight = 1 / (chance / ones + (1 - chance) / zeros)
            return z, np.sqrt(kept * weight * chance * (1 - chance) / curvature)

        moments = symmetric(model.curator.release(release, Gram(radius=radius).mean(data, rows, width=model.p)))
        noise = model.curator.noise(release, math.sqrt(2) * radius**2 / data.n)
        moments = moments[np.ix_(self.seen, self.seen)]
        values, vectors = np.linalg.eigh(moments)
        mean = max(float(values.mean()), noise)
        # The noise has this sum of squares (Ledoit and Wolf 2004).
        believed = max(0.0, 1.0 - (self.p * noise) ** 2 / max(float(np.sum((values - mean) ** 2)), TINY))
        smooth = (vectors * np.maximum(mean + believed * (values - mean), 0.0)) @ vectors.T
        # Along slopes and constant two numbers say more than the eigenvalues of all of the matrix.
        slopes, constant = model.w[self.seen], np.eye(self.p)[-1]
        slopes[-1] = 0.0
        Q = np.linalg.qr(np.column_stack([constant, slopes] if np.any(slopes) else [constant]))[0]
        known = (DEFAULTS.bent * mean) ** 2 / ((DEFAULTS.bent * mean) ** 2 + noise**2)
        own = known * moments + (1 - known) * smooth
        inner, turn = np.linalg.eigh(Q.T @ own @ Q)
        rest = np.eye(self.p) - Q @ Q.T
        # A column of zeros and ones, whose center is one of them, depends on the constant: what is between the two stays.
        between = Q @ (Q.T @ smooth @ rest)
        inner = np.maximum(inner, DEFAULTS.least * mean)
        smooth = raise_eigenvalues(rest @ smooth @ rest + between + between.T + (Q @ turn * inner) @ (Q @ turn).T, 0.0)
        left = math.sqrt(max(believed, DEFAULTS.doubted)) * noise
        return Bend(self.curvature * smooth, self.curvature * left, self.curvature * noise)

    def observe(self, release: Gaussian, data: PrivateData) -> None:
        """Release a gradient at the present fit."""
        model, w, public = self.model, self.model.w, self._public
        problem, (zeros, ones) = model.problem, model.cases

        def rows(block: Block) -> tuple[Singles, Floats]:
            z, chance, kept = _pulled_back(block, *public)
            y = np.asarray(problem.response(block))
            return z, kept * np.where(y > 0, ones, zeros) * (chance - y)

        released = model.curator.release(release, Ball(radius=self.clip).mean(data, rows, width=model.p))
        variance = model.curator.noise(release, 2 * self.clip / data.n) ** 2
        variance += self.curvature * (1 / data.n - 1 / model.data.n)
        self.observations.append(Observation(w, released[self.seen], variance))

    def move(self, bend: Bend) -> LabelPosterior:
        """Move the fit to the posterior mean, with the curvature at the start."""
        return self._move(self._corrected(bend))

    def finish(self, bend: Bend, at_fit: Bend, found: LabelPosterior) -> LabelPosterior:
        """Move it with the curvature at the fit, as far as there is little noise."""
        left = float(np.trace(found.covariance[:-1, :-1])) / DEFAULTS.size
        part = min(left / DEFAULTS.precise, 1.0)
        noise = math.hypot(part * bend.noise, (1 - part) * at_fit.noise)
        return self._move(self._corrected(Bend(part * bend.matrix + (1 - part) * at_fit.matrix, noise, at_fit.most)))

    def _move(self, bend: Bend) -> LabelPosterior:
        c = DEFAULTS
        bend = replace(bend, matrix=raise_eigenvalues(bend.matrix, c.lowest * bend.noise))
        useless, factor = c.useless
        found = [self._posterior(bend, size / max(self.p - 1, 1)) for size in (c.size, factor * c.size)]
        chance = softmax(np.log([1 - useless, useless]) + [evidence for _, evidence in found])
        mean = np.asarray(chance @ np.array([posterior.mean for posterior, _ in found]))
        apart = np.array([posterior.mean for posterior, _ in found]) - mean
        inner = np.asarray(np.tensordot(chance, np.array([posterior.covariance for posterior, _ in found]), 1))
        self._set(mean)
        self.followed.append(found[0][0].followed)
        return LabelPosterior(mean, np.asarray(inner + (apart.T * chance) @ apart), found[0][0].noise, found[0][0].followed)

    def _corrected(self, bend: Bend) -> Bend:
        """The curvature, corrected along each way that the fit has gone by how much the gradient changed."""
        c, H = DEFAULTS, bend.matrix
        for (before, after), chance in zip(itertools.pairwise(self.observations), self.followed, strict=False):
            way = (after.w - before.w)[self.seen]
            expected = float(way @ H @ way)
            if expected <= TINY:
                continue
            found = (float(way @ (after.gradient - before.gradient)) - chance) / expected
            noise = (before.variance + after.variance) * float(way @ way) / expected**2 + (chance / expected) ** 2
            factor = float(np.clip(1 + (found - 1) * c.bent**2 / (c.bent**2 + noise), 1 / c.most_bent, c.most_bent))
            H = H + (factor - 1) * np.outer(H @ way, H @ way) / expected
        return replace(bend, matrix=H)

    def _set(self, mean: Floats) -> None:
        self.model.w = self.start.copy()
        self.model.w[self.seen] += mean

    def _posterior(self, bend: Bend, prior: float, rounds: int = 1) -> tuple[LabelPosterior, float]:
        """Of what the start lacks, for slopes of this variance; and the logarithm of how well it explains the gradients."""
        c, H = DEFAULTS, bend.matrix
        precision = np.append(np.full(self.p - 1, 1 / prior), c.constant**-2)
        start, here = self.start[self.seen], self.model.w[self.seen]
        spread = min(float(np.sum(1 / precision)), c.size)
        for _ in range(rounds):  # the noise of the curvature acts on what is left to go, which the round before bounds
            information, pull, variance = np.diag(precision), np.zeros(self.p), 1.0
            for observation in self.observations:
                at = observation.w[self.seen]
                change = here - at
                variance = observation.variance + c.linear**2 * float(np.sum((H @ change) ** 2)) / self.p
                variance += bend.noise**2 * (float(change @ change) + spread)
                information += H @ H / variance
                pull += H @ (H @ (at - start) - observation.gradient) / variance
            spread = min(spread, c.widened * float(np.trace(np.linalg.inv(information))))
        mean = np.asarray(np.linalg.solve(information, pull), dtype=np.float64)
        evidence = (float(pull @ mean) + float(np.sum(np.log(precision))) - float(np.linalg.slogdet(information)[1])) / 2
        covariance = np.asarray(np.linalg.inv(information), dtype=np.float64)
        followed = float(np.sum(covariance * H)) * observation.variance / variance
        return LabelPosterior(mean, covariance, covariance - covariance @ np.diag(precision) @ covariance, followed), evidence

    def covariance(self, at_fit: Bend, found: LabelPosterior) -> Floats:
        """Covariance of the parameters, what shrinkage takes away, what steps may have left and sampling included."""
        c, model = DEFAULTS, self.model
        free = self._posterior(self._corrected(replace(at_fit, noise=at_fit.most)), c.ordinary**2, rounds=2)[0]
        shrunk = free.mean - found.mean
        ordinary = np.append(np.full(self.p - 1, c.ordinary**-2), c.constant**-2)
        sampling = np.linalg.inv(model.data.n * at_fit.matrix + np.diag(ordinary))
        covariance = np.zeros((model.p, model.p))
        covariance[np.ix_(self.seen, self.seen)] = free.covariance + np.outer(shrunk, shrunk) + sampling
        # A fit that still moves has not arrived.
        ways = np.diff([*(observation.w for observation in self.observations[-3:]), model.w], axis=0)
        return np.asarray(covariance + ways.T @ ways)

    def predictor(self, bend: Bend) -> tuple[Floats, float, float]:
        """Slopes if columns say something, the deviation of their predictions, and the variance that noise adds to these.

        Rows are as they were when this curvature was released.
        """
        found = self._posterior(bend, DEFAULTS.size / max(self.p - 1, 1))[0]
        moments = bend.matrix[:-1, :-1] / max(float(bend.matrix[-1, -1]), TINY)
        slopes, noise = found.mean[:-1], found.noise[:-1, :-1]
        w = np.zeros(self.model.w.size)
        w[self.seen] = np.append(slopes, 0.0)
        return w, math.sqrt(max(float(slopes @ moments @ slopes), 0.0)), float(np.sum(moments * noise))


def _pulled_back(
    block: Block, frame: Frame, w: Floats, cases: tuple[float, float], clip: float
) -> tuple[Singles, Floats, Floats]:
    """Rows in private units, their chances of a one, and the factor that pulls each back.

    A row's residual is at most the larger of two, whatever the label.
    """
    z, (zeros, ones) = frame.standard(block), cases
    chance = expit(frame.predict(block, w))
    largest = np.sqrt(_kernels.row_dots(z, z)) * np.maximum(zeros * chance, ones * (1 - chance))
    return z, chance, np.minimum(1.0, clip / np.maximum(largest, TINY))
