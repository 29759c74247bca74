"""Bounded Newton steps for linear models, and the way from a robust fit to conditional means.

A row's part of a gradient is ``psi(r) v``: v depends on the features alone and is pulled back to a radius, and psi clips the
residual. Clip and radius minimize the estimated error, noise included, which is public arithmetic on released counts of
residuals and row lengths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fattail._tools.numbers import TINY
from fattail.algorithms.parts.lengths import LOWEST, OCTAVES, PER_OCTAVE, codes, middles, seen
from fattail.algorithms.parts.linear_rows import WIDEST, LinearFit, Problem, Singles, reshape
from fattail.privacy import Curator, Gaussian
from fattail.robust import Ball, Clip
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

# Shares: of the way to conditional means, and in it those of gradients, of counts of tails, of a mean row and of the intercept.
MEAN_CORRECTION, MEAN_SLOPES, MEAN_TAILS, MEAN_ROW, MEAN_INTERCEPT = 0.4, 0.75, 0.1, 0.05, 0.1
# Lower limits of the released curvature and of the released share of unclipped residuals, and the curvature that a label keeps
# after its second shape.
LEAST_CURVATURE, RENEWED_CURVATURE = 0.02, 0.7
# Share up to which a label is rare; and the rarer label over the other, by weight: at 1 to 9, 0.9 of its information is left.
FREQUENT, RARE = 0.1, 1 / 9
# Bound on predictions when the mean prediction is matched to the share of positives: few rows have a higher probability. It
# halves the noise, and shifts the mean by up to a fifth; it is not needed where the noise is below a tenth of the share.
PREDICTION_BOUND, PRECISE_MEAN = 0.5, 0.1
# Factor of the odds by which a calibration moves them, at most.
MOST_SHIFT = 8.0
# Curvature that steps assume for a rare label, over that of the model without columns: short steps do not overshoot in the few
# rows that are likely (1, 1.5, 2.5 and 4 were tried: ``benchmarks/results/rare_labels.md``).
CURVATURE_MARGIN = 2.5
# Clips that are tried, in units of the response.
CLIPS = 2.0 ** (np.arange(-20, 21) / 2)
TAIL = 3  # octaves beyond a wide clip that hold nearly all rows beyond it: a tail of index two leaves one in 64 of them


@dataclass(frozen=True)
class Choice:
    """Bounds of a step, and the curvature and mean square of a row's part under them."""

    clip: float
    radius: float
    curvature: float
    square: float


class Model:
    """Iterates of a fit, all of them public."""

    def __init__(
        self, curator: Curator, data: PrivateData, moment_sample: PrivateData, count_sample: PrivateData, problem: Problem
    ) -> None:
        self.curator, self.data, self.moment_sample, self.count_sample, self.problem = (
            curator,
            data,
            moment_sample,
            count_sample,
            problem,
        )
        self.p = problem.p
        self.w = problem.start
        self.bend = problem.loss.curvature  # of the loss where the shape was taken, in units of u
        self.renewals = 0
        self.lengths = self.residuals = (np.zeros(1), np.ones(1))
        self.noise = self.sampling = 0.0  # variances of w, per coordinate of u
        self.last = Choice(1.0, 1.0, 1.0, 1.0)
        self.intercept = 0.0  # further variance of the intercept
        # Labels: weights of zeros and ones, their mean, and what they add to the log-odds.
        self.cases, self.mass, self.offset = (1.0, 1.0), 1.0, 0.0
        self.margin = 1.0  # curvature that steps assume for a rare label, over that of the model without columns
        self.scale_variance = 0.0  # of the common factor of the slopes
        self.taken = 0.0  # variance that stands for what shrinkage took away, per coordinate of u

    def balance(self, share: float) -> None:
        """Start labels from the model without columns, and weight the frequent label down to `RARE` of the rarer one.

        Rare labels make steps unstable: the curvature of a row changes by orders of magnitude as it moves. Weighted, one in ten
        is positive; slopes stay what they are, the intercept moves by the log of the weight, and a tenth of the information is
        lost. ``share`` is the released share of positives.
        """
        if min(share, 1 - share) > FREQUENT:
            return
        ones, zeros = min((1 - share) / (RARE * share), 1.0), min(share / (RARE * (1 - share)), 1.0)
        self.cases = zeros, ones
        self.mass = share * ones + (1 - share) * zeros
        self.offset = math.log(zeros / ones)
        even = share * ones / self.mass
        self.w = np.append(self.w[:-1], logit(even))
        # Weights near one need little of the margin.
        self.margin = 1 + (CURVATURE_MARGIN - 1) * (1 - min(zeros, ones))
        self.bend = self.margin * even * (1 - even)

    @property
    def is_rare(self) -> bool:
        """Whether one label is weighted down."""
        return self.mass < 1

    @property
    def is_rare_or_noise(self) -> bool:
        """Whether steps have to be shrunk: noise moves predictions by more than one in log-odds, or a label is rare."""
        return self.is_rare or self.noise * self.p > 1

    def reshape(self, release: Gaussian) -> None:
        """Second moments weighted with the loss's curvature at the present fit."""
        if self.p > WIDEST:
            return
        self.problem = reshape(self.curator, release, self.moment_sample, self.problem, self.w)
        self.bend, self.renewals = 1.0, self.renewals + 1

    def count_lengths(self, release: Gaussian) -> None:
        """Distribution of the lengths of u."""
        frame, unit = self.problem.frame, math.sqrt(self.p)
        cells = codes(lambda block: frame.rows(block)[2] / unit)
        share, length = _distribution(self.curator, release, self.count_sample, cells)
        # Where no count shows, rows are taken to be round: without a curvature a step would be fifty times too long.
        self.lengths = (share, length * unit) if np.any(share) else (np.ones(1), np.full(1, unit))

    def count_residuals(self, release: Gaussian) -> None:
        problem, w = self.problem, self.w
        cells = codes(lambda block: problem.response(block) - problem.frame.predict(block, w))
        self.residuals = _distribution(self.curator, release, self.count_sample, cells)

    def step(self, gradient: Gaussian, reference: Gaussian, damping: float, data: PrivateData) -> None:
        """One bounded Newton step, with the bounds that are best for the noise of the ``reference`` release."""
        n = self.data.n
        best = _best(self, self.curator.noise(reference, 2.0 / n))
        self.last = best
        released = self.gradient(gradient, best, data)
        noise = self.curator.noise(gradient, 2.0 / data.n) * best.clip * best.radius
        # A step of noise would throw predictions by more than later steps can undo.
        damping = min(damping, 2 * damping * best.curvature / (math.sqrt(self.p) * noise))
        self.w = self.problem.move(self.w, -released, damping / best.curvature)
        self.noise = (1 - damping) ** 2 * self.noise + (damping * noise / best.curvature) ** 2
        # In units of a renewed shape a row has one unit of information: no estimate varies less than it allows.
        self.sampling = max(best.square / best.curvature**2, 1.0 / self.mass if self.renewals else 0.0) / n

    def calibrate(self, release: Gaussian, share: float) -> None:
        """Move the intercept so that the mean prediction is the released share of positives, as far as its noise allows."""
        if not self.is_rare:
            for _ in range(release.count):
                self.curator.waive(release)
            return
        problem, w, offset, rarer = self.problem, self.w, self.offset, min(share, 1 - share)

        def predictions(block: Block) -> tuple[Floats, None]:
            z = problem.frame.predict(block, w) + offset
            return expit(z if share <= 0.5 else -z)[:, None], None

        bound = PREDICTION_BOUND if self.curator.noise(release, 1.0 / self.data.n) > PRECISE_MEAN * rarer else 1.0
        for _ in range(release.count):
            mean = Clip(center=bound / 2, bound=bound / 2).mean(self.data, predictions, width=1).to("l2")
            noise = self.curator.noise(release, mean.sensitivity)
            found = float(np.clip(self.curator.release(release, mean)[0], max(noise, rarer / MOST_SHIFT), MOST_SHIFT * rarer))
            shift = (logit(min(rarer, PREDICTION_BOUND)) - logit(min(found, PREDICTION_BOUND))) / (1 + (noise / rarer) ** 2)
            offset += shift if share <= 0.5 else -shift
        self.offset = offset

    def shrink(self) -> None:
        """Shrink slopes by the share of their square that noise explains (James and Stein 1961)."""
        slopes = self.problem.in_u(np.append(self.w[:-1], 0.0))
        square = float(slopes @ slopes)
        keep = max(0.0, 1.0 - self.p * self.noise / max(square, TINY))
        self.w = np.append(keep * self.w[:-1], self.w[-1])
        self.noise *= keep**2
        # What is taken away is as uncertain as the noise.
        self.taken = (1 - keep) ** 2 * square / self.p

    def gradient(self, release: Gaussian, best: Choice, data: PrivateData) -> Floats:
        """Mean of clipped residuals times pulled-back rows."""
        problem, w, (zeros, ones) = self.problem, self.w, self.cases

        def rows(block: Block) -> tuple[Singles, Floats]:
            u, weight, length = problem.frame.rows(block)
            response, prediction = problem.response(block), problem.frame.predict(block, w)
            if problem.target.logistic:  # labels are 0 or 1, so a weighted residual is the larger of two at most
                chance = expit(prediction)
                slope = np.where(response > 0, ones, zeros) * (response - chance)
                length = length * np.maximum(zeros * chance, ones * (1 - chance))
            else:
                slope = np.clip(response - prediction, -best.clip, best.clip)
            return u, slope * weight * np.minimum(1.0, best.radius / np.maximum(length, TINY))

        mean = Ball(radius=best.clip * best.radius).mean(data, rows, width=self.p)
        return self.curator.release(release, mean)

    def covariance(self, left: Floats) -> Floats:
        """Of the coefficients: privacy noise, sampling, and the variance in each direction of u that steps may have left."""
        return self.problem.spread(self.noise + self.sampling + left)

    def mean_square(self, bound: float) -> float:
        """Of residuals, each at most ``bound``."""
        share, size = self.residuals
        return float(share @ np.minimum(size, bound) ** 2)

    def mean_row(self, release: Gaussian, radius: float) -> Floats:
        """Mean of pulled-back rows."""
        frame = self.problem.frame
        mean = Ball(radius=radius).mean(self.count_sample, lambda b: frame.rows(b)[:2], width=self.p)
        return self.curator.release(release, mean)

    def fit(self, steps: int) -> LinearFit:
        """The fit in the user's units."""
        variance = np.full(self.p, self.noise + self.sampling + self.taken)
        if self.is_rare and not self.renewals:
            # Short steps leave an error: no less than if they had been long enough, with all of their noise.
            variance = self.margin**2 * variance
        covariance = self.problem.spread(variance)
        covariance[-1, -1] += self.intercept
        covariance[:-1, :-1] += self.scale_variance * np.outer(self.w[:-1], self.w[:-1])
        return self.problem.solution(np.append(self.w[:-1], self.w[-1] + self.offset), steps, covariance)


@dataclass(frozen=True)
class MeanCorrection:
    """The last stage: from the robust fit towards conditional means."""

    tails: Gaussian
    row: Gaussian
    slopes: tuple[Gaussian, ...]
    intercept: Gaussian
    damping: float

    @classmethod
    def planned(cls, steps: int, damping: float, growth: float, share: float = MEAN_CORRECTION) -> MeanCorrection:
        shares = MEAN_SLOPES * share * growth ** np.arange(steps) / np.sum(growth ** np.arange(steps))
        return cls(
            Gaussian("residual tails", MEAN_TAILS * share, count=steps + 2),
            Gaussian("mean row", MEAN_ROW * share),
            tuple(Gaussian(f"wide gradient {t + 1}", float(a)) for t, a in enumerate(shares)),
            Gaussian("mean residual", MEAN_INTERCEPT * share, count=2),
            damping if steps > 1 else 1.0,
        )

    @property
    def mechanisms(self) -> tuple[Gaussian, ...]:
        return self.tails, self.row, *self.slopes, self.intercept

    def _reach(self, model: Model) -> tuple[float, float]:
        """Upper edge of the highest octave of residuals that is seen, and the share of the rows that may lie beyond twice it."""
        problem, w = model.problem, model.w
        cells = codes(lambda block: problem.frame.predict(block, w) - problem.response(block), 1)
        counts = Histogram(OCTAVES).counts(model.count_sample, cells)
        released, noise = model.curator.release(self.tails, counts)[0], model.curator.noise(self.tails, math.sqrt(2))
        shown = np.flatnonzero(seen(released, noise, 1))
        end = int(shown[-1]) + 1 if len(shown) else 1 - LOWEST
        tail = released[end + 1 : end + 1 + TAIL]
        share = (max(float(tail.sum()), 0.0) + noise * math.sqrt(TAIL)) / model.count_sample.n
        return math.ldexp(1.0, LOWEST + end), share

    def apply(self, model: Model) -> None:
        self._move_intercept(model)
        self._move_slopes(model)
        self._move_intercept(model)

    def _move_slopes(self, model: Model) -> None:
        n, p, curator, start, radius = model.data.n, model.p, model.curator, model.w, math.sqrt(model.p)
        share, size = model.residuals
        weight, length = model.lengths
        pulled = np.minimum(length, radius)
        curvature = max(float(weight @ (pulled * length)), TINY) / max(float(weight @ length**2), TINY)
        # A skewed noise leaves a mean even under a wide clip; it points along the mean row.
        constant = model.mean_row(self.row, radius)
        constant /= max(float(np.linalg.norm(constant)), TINY)
        noise = clip = 0.0
        for release in self.slopes:
            clip, _ = self._reach(model)
            released = model.gradient(release, Choice(clip, radius, 1.0, 1.0), model.data)
            released -= constant * (constant @ released)
            model.w = model.problem.move(model.w, -released, self.damping / curvature)
            noise = (1 - self.damping) ** 2 * noise + (self.damping * curator.noise(release, 2 * clip * radius / n)) ** 2
        change = model.problem.in_u(model.w - start)
        # Error of a coordinate: privacy noise, and sampling under the wide clip.
        square = float(share @ np.minimum(size, clip) ** 2) * float(weight @ pulled**2) / p
        error = (noise + square / n) / curvature**2
        keep = max(0.0, 1.0 - 2.0 * p * error / max(float(change @ change), TINY))
        model.w = model.problem.move(start + keep * model.problem.frame.shape.T @ change, np.zeros(p), 0.0)
        model.noise = (1 - keep) ** 2 * model.noise + keep**2 * error

    def _move_intercept(self, model: Model) -> None:
        n, curator, problem, w = model.data.n, model.curator, model.problem, model.w
        share, size = model.residuals
        reach, cut = self._reach(model)
        clip = 2 * reach

        def residual(block: Block) -> tuple[Floats, None]:
            return (problem.response(block) - problem.frame.predict(block, w))[:, None], None

        shift = curator.release(self.intercept, Clip(bound=clip).mean(model.data, residual, width=1).to("l2"))
        model.w = np.append(w[:-1], w[-1] + shift[0])
        square = float(share @ np.minimum(size, clip) ** 2)
        # Beyond a clip c, a tail of index two or more has a mean excess of at most c. Its sign is not known.
        model.intercept = curator.noise(self.intercept, 2 * clip / n) ** 2 + square / n + (cut * clip) ** 2


def _distribution(curator: Curator, release: Gaussian, data: PrivateData, cells: Any) -> tuple[Floats, Floats]:
    """Released shares of rows by cell, and the middles of the cells."""
    counts = curator.release(release, Histogram(OCTAVES * PER_OCTAVE).counts(data, cells))[0]
    shares = np.where(seen(counts, curator.noise(release, math.sqrt(2)), PER_OCTAVE), counts, 0.0)
    return shares / max(float(shares.sum()), 1.0), middles()


def _best(model: Model, noise: float) -> Choice:
    """Clip and radius of least estimated error.

    The squared error of a Newton step, per coordinate of u, is the variance of a row's part over n
    plus that of the noise, over the curvature squared. Row lengths count as if u were round.
    """
    share, length = model.lengths
    total = max(float(share @ length**2), TINY)
    radii = math.sqrt(model.p) * 2.0 ** (np.arange(-2, 7) / 2)
    pulled = np.minimum(length, radii[:, None])
    curvature = np.maximum(pulled @ (share * length) / total, LEAST_CURVATURE)
    variance = pulled**2 @ share
    if model.problem.target.logistic:
        # A label's variance is the curvature of its loss, which the second matrix contains.
        clips, kept, square = np.ones(1), np.full(1, model.bend * model.mass), np.full(1, model.bend * model.mass)
        variance = variance / total
    else:
        share, size = model.residuals
        clips = CLIPS if math.isinf(model.problem.loss.slope) else np.array([model.problem.loss.slope])
        kept = np.array([share[size <= c].sum() for c in clips])
        square = np.array([share @ np.minimum(size, c) ** 2 for c in clips])
        variance = variance / model.p
    error = square[:, None] * variance / model.data.n + (noise * clips[:, None] * radii) ** 2
    # A clip below the first quartile of residuals has too little curvature to trust.
    least = LEAST_CURVATURE * model.mass
    least_kept = 0.0 if model.problem.target.logistic else 0.25
    error = np.where(kept[:, None] >= least_kept, error / (np.maximum(kept, least)[:, None] * curvature) ** 2, math.inf)
    if not np.any(np.isfinite(error)):
        return Choice(float(clips[len(clips) // 2]), math.sqrt(model.p), 0.5, 1.0)
    i, j = np.unravel_index(int(np.argmin(error)), error.shape)
    kept_curvature = float(max(kept[i], least) * curvature[j])
    if model.renewals > 1:
        # Rows with an almost certain label are now the longest, and have almost no curvature.
        kept_curvature = max(kept_curvature, RENEWED_CURVATURE * model.mass)
    return Choice(float(clips[i]), float(radii[j]), kept_curvature, float(square[i] * variance[j]))
