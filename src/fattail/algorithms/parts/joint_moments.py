"""Least squares by a few releases of joint second moments.

A row is ``k (u, b clip(r, c))``: features u in units of the matrix before, the residual r so far, and a weight k by the
features alone, which keeps ``k u`` in a ball. One released matrix holds the Gram matrix *and* the gradient under the same
weights, so a step cannot overshoot because the two disagree. With ``b = radius / c`` the gradient has the noise that a
release of its own would have. The inverse root of the Gram matrix gives the next round's u, in which directions that were
lost in the noise may show.

The step is a posterior mean: coefficients of standardized columns have independent normal priors whose common variance
maximizes the likelihood, and directions whose variance does not exceed the noise are not moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail._tools.numbers import TINY
from fattail.algorithms.parts.curvature import Curvature
from fattail.algorithms.parts.lengths import Lengths
from fattail.algorithms.parts.linear_rows import LinearFit, Problem
from fattail.algorithms.parts.posterior import OFF_DIAGONAL, beyond, posterior_step, shrunken_moments, smoothed_squares
from fattail.algorithms.parts.response_ends import ResponseEnds, response_ends
from fattail.privacy import Curator, Gaussian
from fattail.robust import Ball, Clip, Gram, symmetric
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JointDefaults:
    """Constants of the rounds, chosen by hand on the tables that ``benchmarks/real_tables.py`` marks as tuned."""

    reach: float = 0.1
    """Squared radius of rows over that at which the noise of a matrix equals what it blurs ..."""
    first_reach: float = 0.05
    """... and in the first round."""
    radii: tuple[float, float] = (1.0, 6.0)
    """Least and largest radius, in units of the root mean square length of rows."""
    noise: float = 0.05
    """Noise of a gradient, in units of the residuals, that decides how far residuals may reach."""
    clips: tuple[float, float] = (2.0, 10.0)
    """Least and largest clip, in units of the root mean square residual."""
    counted_clips: tuple[int, int] = (2, 21)
    """Clips that are tried where residuals were counted, in quarter octaves: 1.4 to 32."""
    aligned: float = 1.0
    """Part of what a clip cuts off that is taken to point in one direction."""
    least_gain: float = 0.02
    """Lower limit of a round's mean square residual, as a fraction of the one before."""
    least_curvature: float = 0.01
    """Added to the curvature, so that the sampling noise of a lost direction is not taken to be zero."""
    heavy: float = 4.0
    """Root mean square of the response over its unit, with rows that no count shows, up to which counts of residuals and
    gradients are believed. It was 1.0 to 2 on most laws and tables, 16 to 20 for areas of land."""
    unknown: float = 2.0
    """Largest eigenvalue of the noise, times this, up to which a direction may be one along which columns are copies."""
    forgetting: float = 0.05
    """Share of the average variance that is added to every coefficient's between rounds."""
    shown_gain: float = 4.5
    """Standard deviations of the noise that a gain, or a mean residual, must exceed where the response's unit is unknown: noise
    does once in 150,000 fits. With three, two of 4,000 intercepts were tens of times as large as the responses."""
    allowed_loss: float = 1.5
    """Standard deviations of the noise by which the gain may be negative: with one, noise took the slopes from one fit in forty
    whose gain is as large as its noise, with one and a half from one in 160."""
    preferred: float = 4.0
    """Standard deviations of the noise of a difference by which a more careful fit must explain more than the fit itself: noise
    alone makes it do so once in 10,000 fits. With one of the noise itself, the slopes of one fit in thirty with heavy tails were
    halved, with four of the noise itself one in 430."""
    most_gain: float = 4.0
    """Bound on a row's gain in squared residuals, in units of the response's scale squared."""
    beyond: float = 0.5
    """Weight of a prediction beyond the visible responses, over the bound on a gain ..."""
    most_beyond: float = 0.02
    """... share of them that a precise fit may have ..."""
    surely: float = 2.0
    """... and standard deviations of the noise by which they must exceed it. The size of residuals is that of most rows: in a
    wild fit, a tenth of the rows was predicted at ten times their size."""
    shrunken: float = 0.5
    """Factor of the slopes of a fit that is tried instead."""
    mean_clips: tuple[float, float] = (4.0, 24.0)
    """Least and largest clip of the mean residual."""
    mean_noise: float = 0.2
    """Product of clip and noise of the mean residual: a clip of c leaves out at most ``1 / (4 c)`` of unit mean square."""


DEFAULTS = JointDefaults()


class JointFit:
    """Coefficients of standardized columns, in rounds; everything here is public.

    Parameters
    ----------
    curator : Curator
    problem : Problem
        Units; columns without a visible spread take no part.
    heavy : float
        How many times larger than its unit the response may be, for rows that no count shows.
    """

    def __init__(self, curator: Curator, problem: Problem, heavy: float = 1.0) -> None:
        self.curator = curator
        self.shown = np.append(np.isfinite(problem.frame.scale), True)
        p = int(self.shown.sum())
        self.unseen = max(1.0, heavy / DEFAULTS.heavy)
        """Factor of what clipped residuals may miss, where rows that no count shows may hold most of the response."""
        self.shape, self.w, self.prior = np.eye(p), np.zeros(p), np.eye(p)
        self.unit = 1.0
        """Size of residuals, in units of the response."""
        self.radius = self.clip = 1.0
        self.error: Floats = np.eye(p)
        """Covariance of the privacy noise in units u and of residuals, after the last round or step."""
        self.doubt: Floats = np.zeros(p)
        """Noise of the curvature in each direction of u, relative to it."""
        self.observed: tuple[Floats, Floats] | None = None
        """A gradient in units of u and residuals, and the covariance of its error, that no step has used yet."""
        self.curvature = Curvature.of(np.ones(p), np.eye(p), np.zeros((p, p)))
        """How well the second moments in units u are known."""
        self.covariance: Floats = np.eye(p)
        """Of the coefficients: sampling and privacy noise."""
        self.residuals: Lengths | None = None
        """Sizes of residuals in their unit, where they were counted."""
        self.sizes: Floats = np.zeros(p)
        """Covariance of standardized columns with sizes of residuals, as far as it exceeds its noise."""
        self.lost = True
        """Whether the last round left a direction whose variance does not exceed its noise."""
        self.faint: NDArray[np.bool_] = np.ones(p, dtype=np.bool_)
        """Directions of u whose variance hardly exceeds its noise."""
        self.unknown: Floats = np.zeros((p, p))
        """Covariance of the coefficients that gradients do not show. After a round: a standardized coefficient of size one along
        each faint direction."""
        self.bound = math.inf
        """Bound on products of rows and residuals in the steps so far, in units of both."""
        self.decided_by_few: NDArray[np.bool_] = np.zeros(p, dtype=np.bool_)
        """Columns whose coefficients may be decided by rows too few to count."""
        self.overshoots = False
        """Whether more predictions lie beyond the responses than a precise fit would have there."""
        self.ends = ResponseEnds()
        """What counts of the response show."""
        self.problem = self._with_shape(problem)

    @property
    def p(self) -> int:
        return len(self.w)

    @property
    def full(self) -> Floats:
        """Coefficients of all columns and the constant."""
        return self.expanded(self.w)

    def expanded(self, w: Floats) -> Floats:
        """Coefficients of all columns and the constant from those of the columns that take part."""
        out = np.zeros(self.shown.size)
        out[self.shown] = w
        return out

    def _with_shape(self, problem: Problem) -> Problem:
        shape = np.zeros((self.p, self.shown.size))
        shape[:, self.shown] = self.shape
        return replace(problem, frame=replace(problem.frame, shape=shape, radius=self.radius))

    def round(self, releases: Sequence[Gaussian], data: PrivateData, first: bool = False, move: bool = True) -> None:
        """Release joint moments, once for each mechanism, and move to the posterior mean, or only note the gradient."""
        p, n, curator = self.p, data.n, self.curator
        multiplier = 1 / math.sqrt(sum(curator.noise(release) ** -2.0 for release in releases))
        radius, clip = bounds(n, p, multiplier, DEFAULTS.first_reach if first else DEFAULTS.reach)
        balance = radius / clip
        bound = math.hypot(radius, balance * clip)
        problem, w, unit = self.problem, self.full, self.unit

        def rows(block: Block) -> tuple[Any, Floats]:
            u, _, length = problem.frame.shaped(block)
            r = (problem.response(block) - problem.frame.predict(block, w)) / unit
            joint = np.column_stack([u, (balance * np.clip(r, -clip, clip)).astype(np.float32)])
            return joint, np.minimum(1.0, radius / np.maximum(length, TINY))

        mean = Gram(radius=bound).mean(data, rows, width=p + 1)
        weights = np.array([curator.noise(release) ** -2.0 for release in releases]) * multiplier**2
        parts = [curator.release(release, mean) for release in releases]
        moments = symmetric(np.asarray(weights @ np.stack(parts)))
        noise = OFF_DIAGONAL * multiplier * math.sqrt(2) * bound**2 / n
        self.radius, self.clip = radius, clip
        square = max(float(moments[p, p]) / balance**2, DEFAULTS.least_gain / 2)
        self._move(moments[:p, :p], moments[:p, p] / balance, square, noise, balance, n, move)

    def count_residuals(self, release: Gaussian, data: PrivateData) -> None:
        """Count the sizes of residuals, from which the mean residual chooses its clip."""
        problem, w, unit = self.problem, self.full, self.unit
        self.residuals = Lengths.counted(
            self.curator, release, data, lambda block: (problem.response(block) - problem.frame.predict(block, w)) / unit
        )

    def _move(self, gram: Floats, gradient: Floats, square: float, noise: float, balance: float, n: int, move: bool) -> None:
        p, gradient_noise, square_noise = self.p, noise / balance, noise / (OFF_DIAGONAL * balance**2)
        gram, errors = shrunken_moments(gram, noise)
        noise = math.sqrt(float(np.max(np.mean(errors**2, axis=1))))  # that of the direction with most of it
        values, vectors = np.linalg.eigh(gram)
        floor = noise * math.sqrt(p)  # about the largest eigenvalue of the noise
        lost = values < floor
        self.lost, self.faint = bool(lost.any()), values < DEFAULTS.unknown * floor
        seen, values = values, np.maximum(values, floor)
        if not move:
            root = vectors / np.sqrt(values)
            self.observed = root.T @ gradient / math.sqrt(square), np.diag(gradient_noise**2 / (values * square) + 1 / n)
            self.shape, self.unit = root.T @ self.shape, self.unit * math.sqrt(square)
            self._note_unknown()
            return
        gram = (vectors * np.where(lost, 0.0, values)) @ vectors.T
        inverse = np.linalg.inv(self.shape)
        prior = inverse.T @ (self.prior / self.unit**2) @ inverse
        size = 0.0
        step, posterior = np.zeros(p), prior
        for _ in range(3):  # the noise of the matrix acts on the step itself
            covariance = (gradient_noise**2 + noise**2 * size) * np.eye(p) + square / n * (
                gram + DEFAULTS.least_curvature * np.eye(p)
            )
            step, posterior = posterior_step(gram, gradient, covariance, prior)
            size = float(step @ step)
        self.w = self.w + self.unit * self.shape.T @ step
        explained = float(2 * step @ gradient - step @ gram @ step)
        back = self.shape.T @ posterior @ self.shape * self.unit**2
        self.prior = (back + back.T) / 2
        self.prior += DEFAULTS.forgetting * float(np.trace(self.prior)) / p * np.eye(p)
        old = self.unit
        # A step along noise seems to explain more than it does, and a unit that is too small would hide most residuals.
        doubt = math.hypot(square_noise, 2 * gradient_noise * math.sqrt(size))
        self.unit *= math.sqrt(min(max(square - explained, DEFAULTS.least_gain * square) + doubt, square + square_noise))
        self.shape = (vectors / np.sqrt(values)).T @ self.shape
        # What the prior takes away from a direction is as uncertain as the noise.
        shrunk = (vectors.T @ gradient) / values - vectors.T @ step
        self.error = np.diag((old / self.unit) ** 2 * ((gradient_noise**2 + noise**2 * size) / values + values * shrunk**2))
        self.doubt = noise * math.sqrt(p) / values
        self.curvature = Curvature.of(seen / values, (vectors / np.sqrt(values)).T, errors)
        self._note_unknown()

    def _note_unknown(self) -> None:
        """Take over the new shape; along its faint directions a column may be a copy of others, and any slope fits."""
        self.problem = self._with_shape(self.problem)
        along = self.shape[self.faint] / np.linalg.norm(self.shape[self.faint], axis=1, keepdims=True)
        self.unknown = along.T @ along

    def look_closer(self, release: Gaussian, data: PrivateData) -> None:
        """Release the second moments of the faint directions alone. They are few and short, so there is far less noise."""
        q, n, curator, problem, faint = int(self.faint.sum()), data.n, self.curator, self.problem, self.faint
        if not q:
            curator.waive(release)
            return
        multiplier = curator.noise(release)
        radius, _ = bounds(n, q, multiplier, DEFAULTS.reach)

        def rows(block: Block) -> tuple[Any, Floats]:
            u = problem.frame.shaped(block)[0][:, faint]
            return u, np.minimum(1.0, radius / np.maximum(np.sqrt(_kernels.row_dots(u, u)), TINY))

        moments = symmetric(curator.release(release, Gram(radius=radius).mean(data, rows, width=q)))
        values, vectors = np.linalg.eigh(moments)
        noise = OFF_DIAGONAL * multiplier * math.sqrt(2) * radius**2 / n
        floor = noise * math.sqrt(q)
        longer = np.maximum(values, floor)
        root = (vectors / np.sqrt(longer)).T
        self.shape[faint] = root @ self.shape[faint]
        self.curvature = self.curvature.renewed(np.flatnonzero(faint), values / longer, root, np.full((q, q), noise))
        self.faint = faint.copy()
        self.faint[faint] = values < DEFAULTS.unknown * floor
        self._note_unknown()

    def start_from(self, w: Floats, covariance: Floats, square: float) -> None:
        """Continue from other coefficients of all columns, with this covariance and mean square of residuals."""
        self.w, self.prior = w[self.shown], covariance[np.ix_(self.shown, self.shown)]
        self.unit = max(math.sqrt(square), self.unit / 4)

    def continue_from(self, w: Floats, covariance: Floats, hidden: Floats, unit: float) -> None:
        """Continue from other coefficients, with these covariances in u of their error and of its part that gradients do not
        show, and residuals of this size."""
        self.w, self.unit, self.error = w, unit, covariance / unit**2
        self.prior, self.unknown = (self.shape.T @ part @ self.shape for part in (covariance, hidden))

    @property
    def turn(self) -> Floats:
        """The rotation of u that brings its directions as close to columns as they can be."""
        left, _, right = np.linalg.svd(self.shape)
        return np.asarray(right.T @ left.T)

    def align(self) -> Floats:
        """Turn u so that its directions are as close to columns as they can be; the rotation."""
        turn = self.turn
        self.shape = turn @ self.shape
        self.problem = self._with_shape(self.problem)
        return turn

    def left_by(self, steps: int, damping: float) -> Floats:
        """Variance in each direction of u that so many Newton steps may leave, where the curvature is in doubt."""
        least = damping * np.maximum(1 - self.doubt, 0.0)
        back = np.linalg.inv(self.shape)
        prior = np.sum((back.T @ self.prior) * back.T, axis=1) / self.unit**2
        return np.asarray((1 - least) ** (2 * steps) * (np.diag(self.error) + prior) * self.unit**2)

    def limit(self, release: Gaussian, data: PrivateData) -> None:
        """Set the ends of predictions by counts of the response, if these show enough."""
        self.ends = response_ends(self.curator, release, data, self.problem, self.unit)

    @property
    def reach(self) -> tuple[float, float]:
        """Ends of predictions in units of the response."""
        low, high = ((end - self.problem.level) / self.problem.size for end in self.response_range)
        return low, high

    def guard(self, release: Gaussian, data: PrivateData, before: Floats | None = None) -> None:
        """Go back if a more careful fit explains more: no slopes, or one ``before`` later steps, one between, one shrunken.

        A row's gain, in squared residuals, is bounded. The gains of all fits are one release. The fit itself is preferred by
        some standard deviations of the noise; without slopes there is no gain.
        """
        problem, most, (low, high) = self.problem, DEFAULTS.most_gain, self.reach
        fits = [self.w]
        if before is not None:
            fits += [before, (self.w + before) / 2] * bool(np.any(before != self.w))
            fits += [before * np.append(np.full(self.p - 1, DEFAULTS.shrunken), 1.0)]
        full, mark = [self.expanded(w) for w in fits], DEFAULTS.beyond * most
        seen_low, seen_high = ((end - problem.level) / problem.size for end in problem.reach)

        def gain(block: Block) -> tuple[Floats, None]:
            y, predicted = problem.response(block), [problem.frame.predict(block, w) for w in full]
            gains = [np.clip(y**2 - (y - np.clip(z, low, high)) ** 2, -most, most) for z in predicted]
            beyond = (predicted[0] < seen_low) | (predicted[0] > seen_high)
            return np.column_stack([*gains, mark * beyond]), None

        bound = math.hypot(most * math.sqrt(len(fits)), mark)
        *gains, marked = self.curator.release(release, Ball(radius=bound).mean(data, gain, width=len(fits) + 1))
        noise = self.curator.noise(release, 2 * bound / data.n)
        self.overshoots = marked > mark * DEFAULTS.most_beyond + DEFAULTS.surely * noise
        # Slopes must show that they explain something where the unit of their noise is a guess.
        least = (DEFAULTS.shown_gain if self.problem.unit_is_guess else -DEFAULTS.allowed_loss) * noise
        preference = DEFAULTS.preferred * math.sqrt(2) * noise * (np.arange(len(fits)) == 0)
        scores = np.where(np.asarray(gains) >= least, gains + preference, -math.inf)
        if np.any(np.isfinite(scores)):
            chosen = fits[int(np.argmax(scores))]
        else:
            # What steps said of the constant was wrong, too: it moves by what a mean residual clearly shows, not by its noise.
            chosen, self.unit, self.prior = np.zeros(self.p), 1.0, np.zeros_like(self.prior)
        self.covariance = self.covariance + np.outer(self.w - chosen, self.w - chosen)
        self.w = chosen

    def move_intercept(self, release: Gaussian, data: PrivateData, unseen: float = 1.0) -> float:
        """Move the constant towards the mean residual, weighted by precision; returns the variance of the result.

        Where residuals were counted, the counts say how far to clip and what that misses. Otherwise only their mean square does,
        times ``unseen``.
        """
        n, curator = data.n, self.curator
        multiplier = curator.noise(release)
        clip = self.unit * float(np.clip(math.sqrt(DEFAULTS.mean_noise * n / multiplier), *DEFAULTS.mean_clips))
        missed = unseen * self.unseen * beyond(self.unit, clip)
        if self.residuals is not None:
            clip = self.unit * best_clip(self.residuals.doubt, 2 * multiplier / n)
            missed = self.unseen * self.unit * self.residuals.doubt(clip / self.unit)
        if self.ends.is_binary:
            clip, missed = min(clip, self.ends.span), 0.0
        problem, w = self.problem, self.full

        def residual(block: Block) -> tuple[Floats, None]:
            return (problem.response(block) - problem.frame.predict(block, w))[:, None], None

        mean = Clip(bound=clip).mean(data, residual, width=1).to("l2")
        shift = float(curator.release(release, mean)[0])
        noise = (2 * clip * multiplier / n) ** 2
        # Before, it was as uncertain as the posterior says, and missed what bounds cut off: as much as noise leaves of the shift.
        before = max(shift**2 - noise, float(self.prior[-1, -1]))
        if not self.problem.unit_is_guess or shift**2 > DEFAULTS.shown_gain**2 * noise:
            self.w[-1] += shift * before / (before + noise)
        return noise + self.unit**2 / n + missed**2

    def measure(self, release: Gaussian, data: PrivateData) -> None:
        """Covariance of the coefficients, from noise and squares of gradients."""
        variance = self.error + np.diag(self.squares(release, data)) / data.n
        self.covariance = self.unit**2 * self.shape.T @ variance @ self.shape

    def squares(self, release: Gaussian, data: PrivateData) -> Floats:
        """Mean squares of the rows' parts of a gradient in each direction of u, in units of the residuals.

        They make standard errors right where residuals vary with the features. What differs among directions counts
        as far as it exceeds its noise.
        """
        radius, clip, problem, w, unit = self.radius, self.clip, self.problem, self.full, self.unit

        def rows(block: Block) -> tuple[Any, Floats]:
            u, _, length = problem.frame.shaped(block)
            pulled = np.minimum(1.0, radius / np.maximum(length, TINY))
            r = (problem.response(block) - problem.frame.predict(block, w)) / unit
            return u**2, (pulled**2 * np.clip(r, -clip, clip)) ** 2

        bound = (radius * clip) ** 2
        found = self.curator.release(release, Ball(radius=bound).mean(data, rows, width=self.p))
        noise = self.curator.noise(release, 2 * bound / data.n)
        return smoothed_squares(found, noise)

    def fit(self, intercept: float, n_iter: int) -> LinearFit:
        """The fit in the user's units, with sampling and privacy noise."""
        covariance = np.zeros((self.shown.size, self.shown.size))
        covariance[np.ix_(self.shown, self.shown)] = self.covariance
        covariance[-1, -1] = max(covariance[-1, -1], intercept)
        few = np.flatnonzero(self.shown)[self.decided_by_few]
        solution = self.problem.solution(self.full, n_iter, covariance)
        return replace(solution, response_range=self.response_range, decided_by_few=few[few < self.shown.size - 1])

    @property
    def response_range(self) -> tuple[float, float]:
        """The seen reach of the response around its center, times its scale over that of the residuals.

        A fit that explains little should not predict beyond the responses. A precise fit can be right outside of their range.
        """
        (low, high), level = self.problem.reach, self.problem.level
        stretch = 1.0 if self.overshoots else 1 / min(self.unit, 1.0)
        low, high = min(level - stretch * (level - low), level), max(level + stretch * (high - level), level)
        return max(low, self.ends.low), min(high, self.ends.high)


def bounds(n: int, p: int, multiplier: float, reach: float) -> tuple[float, float]:
    """Radius of rows and clip of residuals: public arithmetic that limits the noise of a round."""
    radius = float(np.clip(math.sqrt(reach * n / (p * math.sqrt(p) * multiplier)), *DEFAULTS.radii))
    clip = float(np.clip(DEFAULTS.noise * n / (multiplier * p * radius), *DEFAULTS.clips))
    return radius * math.sqrt(p), clip


def best_clip(missed: Callable[[float], float], noise: float) -> float:
    """Clip of residuals of least error: the noise per unit of the clip, and what a clip misses."""
    clips = 2.0 ** (np.arange(*DEFAULTS.counted_clips) / 4)
    cut = np.array([missed(clip) for clip in clips])
    return float(clips[np.argmin((noise * clips) ** 2 + (DEFAULTS.aligned * cut) ** 2)])
