"""The last step of a logistic fit: Newton's, with a released curvature and a prior for what earlier steps left.

Earlier steps are short where labels are rare, and where a direction has less curvature than its units promise: an error is left
that their noise does not show. The last gradient is therefore solved with the curvature at the present fit. How much was left
in the directions that show is averaged over all sizes, each as likely as the gradient makes it. The others keep their
coefficients, of which only an ordinary size is known.

The slopes of separable labels grow with every step. If the gradient along the predictor does not rule out a factor that has no
end, their errors are infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from scipy.stats import norm

from fattail._tools.numbers import TINY
from fattail.algorithms.parts.linear_rows import LinearFit, Problem, Singles
from fattail.algorithms.parts.newton import Model
from fattail.privacy import Gaussian
from fattail.robust import Clip, Gram, symmetric
from fattail.rows.data import Block

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabelStepDefaults:
    """Constants, chosen by hand on the synthetic laws of ``benchmarks/rare_labels.py``."""

    room: float = 3.0
    """Squared length of a row, over its mean, up to which it counts for the curvature as it is."""
    factor: float = 0.35
    """Standard deviation of the common factor of the slopes: steps left a quarter to a third of the way (5 % of 10,000). As much
    more is expected where steps were short."""
    constant: float = 1.0
    """Standard deviation of the constant, in log-odds: it moves with the factor where labels are rare."""
    ordinary: float = 2.5
    """Standard deviation of a coefficient per unit of its column, in log-odds (Gelman, Jakulin, Pittau and Su 2008)."""
    flat: float = 2.0
    """Noise deviations up to which the curvature of a direction may be zero."""
    doubted: float = 0.1
    """Least share of the variance of a curvature that counts as its error: a spread may be hidden where none shows."""
    least: float = 0.1
    """Least curvature of a direction that shows, over the mean."""
    shrunk: float = 0.1
    """Least variance of predictions that is left, in log-odds, where steps were short or shrunk."""
    shortfall: float = 0.25
    """Share of the step that is left after it for rare labels, whose curvature falls on the way (1 % of 50,000)."""
    bisection: float = 1.0
    """First step of the bisection, in standard deviations of the predictor."""
    alike: float = 0.95
    """Largest part of the variance of a separating predictor that a fit is believed to have: it may be biased."""
    far: float = 10.0
    """Log-odds per standard deviation of the predictor at which rows on the wrong side are looked for."""
    reach: float = 1.0
    """Distance, in standard deviations of the predictor, up to which a row on the wrong side counts in proportion."""
    certain: float = 3.0
    """Noise deviations by which they must exceed those of separable labels: one fit in a thousand would miss that labels are."""
    least_size: float = 1e-6
    """Least standard deviation of the predictor, in log-odds: slopes below are zero."""


DEFAULTS = LabelStepDefaults()
# Variances of predictions that steps may have left, in log-odds.
_LEFT = 10.0 ** np.arange(-3.0, 0.25, 0.25)
# Variances of predictions that slopes may cause, in log-odds: from none to a thousand times the usual.
_SCALES = 10.0 ** np.arange(-4.0, 3.25, 0.25)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


@dataclass(frozen=True)
class Curvature:
    """Released second derivative of the bounded objective, by direction."""

    values: Floats
    """Zero for directions that do not show."""
    vectors: Floats
    moments: Floats
    """As released."""
    noise: float
    """Of an entry."""
    blur: float
    """What is left of it in an entry after the shrinkage of eigenvalues."""

    @property
    def shown(self) -> NDArray[np.bool_]:
        return self.values > 0

    @classmethod
    def released(cls, model: Model, release: Gaussian) -> Curvature:
        """At the present fit, with the bounds of the step before; noise is taken out of the spread of eigenvalues."""
        problem, w, (zeros, ones), best = model.problem, model.w, model.cases, model.last
        radius = math.sqrt(DEFAULTS.room * model.p * best.curvature)

        def rows(block: Block) -> tuple[Singles, Floats]:
            u, weight, length = problem.frame.rows(block)
            chance, y = expit(problem.frame.predict(block, w)), np.asarray(problem.response(block))
            length = length * np.maximum(zeros * chance, ones * (1 - chance))
            kept = weight * np.minimum(1.0, best.radius / np.maximum(length, TINY))
            return u, np.sqrt(np.where(y > 0, ones, zeros) * kept * chance * (1 - chance))

        gram = Gram(radius=radius).mean(model.data, rows, width=model.p)
        noise = model.curator.noise(release, math.sqrt(2) * radius**2 / model.data.n)
        moments = symmetric(model.curator.release(release, gram))
        values, vectors = np.linalg.eigh(moments)
        mean = max(float(values.mean()), noise)
        # Noise alone spreads equal eigenvalues up to sqrt(2 p) of its deviation.
        shown = (values > DEFAULTS.flat * noise) | (values > mean - noise * math.sqrt(2 * model.p))
        believed = max(0.0, 1.0 - (model.p * noise) ** 2 / max(float(np.sum((values - mean) ** 2)), TINY))
        shrunk = np.maximum(mean + believed * (values - mean), DEFAULTS.least * mean)
        smooth = (vectors * np.where(shown, shrunk, 0.0)) @ vectors.T
        # Along slopes and constant two numbers say more than the eigenvalues of all of the matrix.
        slopes, constant = np.append(w[:-1], 0.0), np.append(np.zeros(w.size - 1), w[-1])
        visible = vectors[:, shown] @ vectors[:, shown].T
        Q = np.linalg.qr(visible @ np.column_stack([problem.in_u(slopes), problem.in_u(constant)]))[0]
        rest = np.eye(model.p) - Q @ Q.T
        inner, turn = np.linalg.eigh(Q.T @ moments @ Q)
        inner = np.maximum(inner, max(DEFAULTS.least * mean, noise))
        values, vectors = np.linalg.eigh(rest @ smooth @ rest + (Q @ turn * inner) @ (Q @ turn).T)
        return cls(
            np.where(values >= DEFAULTS.least * mean / 2, values, 0.0),
            vectors,
            moments,
            noise,
            math.sqrt(max(believed, DEFAULTS.doubted)) * noise,
        )


@dataclass(frozen=True)
class LastStep:
    """What the last step found: the model has moved, and this is the error of where it is."""

    model: Model
    error: Floats
    """Covariance of the parameters in the units of the frame."""
    has_end: bool
    """Whether the slopes are known to be finite."""

    def fit(self, steps: int) -> LinearFit:
        """The fit in the user's units."""
        model = self.model
        fit = model.problem.solution(np.append(model.w[:-1], model.w[-1] + model.offset), steps, self.error)
        if not self.has_end:
            assert fit.covariance is not None
            np.fill_diagonal(fit.covariance, math.inf)
        return fit


def last_step(
    model: Model, gradient: Gaussian, curvature: Gaussian, ends: Gaussian, far: Gaussian, base: Problem, share: float
) -> LastStep:
    """Take the step. ``base`` has units in which rows are round, so that lengths are spreads of predictions.

    Notes
    -----
    *Privacy.* Two releases: a bounded gradient, and second moments of rows projected to a ball of public radius. Proof:
    ``label_step.proof.md``.
    """
    problem, n, best = model.problem, model.data.n, model.last
    noise = model.curator.noise(gradient, 2.0 / n) * best.clip * best.radius
    bend = Curvature.released(model, curvature)
    released = model.gradient(gradient, best, model.data)
    seen = bend.vectors.T @ released * bend.shown
    back = problem.frame.shape.T @ bend.vectors
    change, error = _posterior(model, bend, back, seen, noise)
    error = error + np.diag(_sampling(model, bend)) / n

    moved = back @ change
    taken, left = 1.0, 0.0
    if model.is_rare or model.taken > 0:  # likely rows are few, or coefficients are noise: a long step would overshoot
        taken = 1 / (1 + _size(base, moved) / max(_size(base, model.w), 1.0))
        left = 1 - taken + DEFAULTS.shortfall
    error = error + left**2 * np.outer(change, change)
    model.w = model.w + taken * moved
    covariance = np.asarray(back @ ((error + error.T) / 2) @ back.T)
    # Directions that the curvature hides have the noise of the steps, whatever their size may be.
    steps = model.noise + model.sampling
    drawn = (noise**2 + bend.blur**2 * float(change @ change)) / np.where(bend.shown, bend.values, 1.0) ** 2
    drawn = np.where(bend.shown, steps * drawn / (steps + drawn), steps)
    drawn = (back * drawn) @ back.T
    shift = _shift(base, model.w, drawn)
    model.w = model.w + shift
    covariance += np.outer(shift, shift)
    has_end = not _may_be_separable(model, ends, far, base, share, drawn)
    return LastStep(model, covariance + _left_out(problem), has_end)


def _shift(base: Problem, w: Floats, noise: Floats) -> Floats:
    """From an estimate to its posterior mean where slopes have one scale, in units in which rows are round; all scales are averaged."""
    inner = np.column_stack([base.in_u(e) for e in np.eye(w.size)[:-1]])
    values, vectors = np.linalg.eigh(inner.T @ inner)
    shown = values > TINY
    root = np.sqrt(values[shown])[:, None] * vectors[:, shown].T
    back = np.eye(w.size)[:, :-1] @ vectors[:, shown] / np.sqrt(values[shown])
    variance, turn = np.linalg.eigh(root @ noise[:-1, :-1] @ root.T)
    variance, found = np.maximum(variance, TINY)[:, None], (turn.T @ root @ w[:-1])[:, None]
    total = variance + _SCALES / len(found)
    chance = softmax(-np.sum(np.log(total) + found**2 / total, axis=0) / 2)
    change = -(variance / total) @ chance * found[:, 0]
    # The constant moves as far as its noise depends on that of the slopes.
    constant = turn.T @ root @ noise[:-1, -1] / variance[:, 0]
    return np.asarray((back @ turn + np.outer(np.eye(w.size)[-1], constant)) @ change)


def _left_out(problem: Problem) -> Floats:
    """Covariance of parameters in directions that were left out of the units: together they make predictions of ordinary size."""
    width = problem.frame.shape.shape[1]
    if problem.p == width:
        return np.zeros((width, width))
    Q = np.linalg.qr(problem.frame.shape.T)[0]
    return np.asarray(DEFAULTS.ordinary**2 / (width - problem.p) * (np.eye(width) - Q @ Q.T))


def _size(base: Problem, w: Floats) -> float:
    """Standard deviation of predictions, in log-odds."""
    return float(np.linalg.norm(base.in_u(np.append(w[:-1], 0.0))))


def _posterior(model: Model, bend: Curvature, back: Floats, seen: Floats, noise: float) -> tuple[Floats, Floats]:
    """Mean and covariance of what is left to go, over all sizes that it may have."""
    c, shown, values = DEFAULTS, bend.shown, bend.values[:, None]
    # Steps that were short left an error: no less than if they had been long enough, with all of their noise.
    is_short = model.is_rare and not model.renewals
    margin = model.margin if is_short else 1.0
    sizes = _LEFT[c.shrunk <= _LEFT] if is_short or model.taken > 0 else _LEFT
    known = margin**2 * (model.noise + model.taken)
    ordinary = (c.ordinary / np.maximum(np.linalg.norm(back, axis=0), TINY)) ** 2
    slopes = bend.vectors.T @ model.problem.in_u(np.append(model.w[:-1], 0.0)) * shown
    constant = bend.vectors.T @ model.problem.in_u(np.append(np.zeros(model.w.size - 1), c.constant)) * shown
    along = c.factor**2 * np.outer(slopes, slopes) + np.outer(constant, constant)
    expected = c.factor * slopes * is_short
    surprise = seen - bend.values * expected
    evidence, means, errors = [], [], []
    for left in sizes / model.p:
        prior = np.diag(np.where(shown, known + left, ordinary)) + along
        added = noise**2 + bend.blur**2 * float(np.trace(prior[np.ix_(shown, shown)]))  # the curvature has noise as well
        spread = values * prior * bend.values + added * np.eye(model.p)
        gain = np.linalg.solve(spread, values * prior).T
        evidence.append(-(np.linalg.slogdet(spread)[1] + surprise @ np.linalg.solve(spread, surprise)) / 2)
        means.append(expected + gain @ surprise)
        errors.append(prior - gain @ (values * prior))
    chance = softmax(evidence)
    mean = np.asarray(chance @ np.array(means))
    apart = np.array(means) - mean
    return mean, np.asarray(np.tensordot(chance, np.array(errors), 1) + (apart.T * chance) @ apart)


def _sampling(model: Model, bend: Curvature) -> Floats:
    """Variance that the rows themselves cause, times their number."""
    kept = min(model.last.square / model.last.curvature, 1.0)
    least = 1.0 / model.mass if model.renewals else 0.0  # in units of a renewed shape a row has one unit of information
    return np.where(bend.shown, np.maximum(kept / np.maximum(bend.values, TINY), least), 0.0)


def _end(model: Model, release: Gaussian, predictor: Floats, share: float) -> float:
    """Where the share of rows beyond is about that of positive labels, by bisection around that of a normal law."""
    end, frame = float(norm.isf(share)), model.problem.frame
    for t in range(release.count):

        def beyond(block: Block, end: float = end) -> tuple[Floats, None]:
            return (frame.predict(block, predictor) > end).astype(np.float64)[:, None], None

        mean = Clip(center=0.5, bound=0.5).mean(model.data, beyond, width=1).to("l2")
        end += math.copysign(DEFAULTS.bisection * 0.5**t, float(model.curator.release(release, mean)[0]) - share)
    return end


def _may_be_separable(model: Model, counts: Gaussian, release: Gaussian, base: Problem, share: float, error: Floats) -> bool:
    """Whether noise does not rule out that the labels are separable.

    Their share says where the predictor separates them if it is about normal. The released mean is that of the gradient along a
    far longer predictor, which rows on the wrong side make negative. It is compared with what separable labels would give, whose
    rows are on the wrong side by the error of the predictor alone.
    """
    c, problem, (zeros, ones) = DEFAULTS, model.problem, model.cases
    w = np.append(model.w[:-1], 0.0)
    size = _size(base, w)
    if size < c.least_size:
        model.curator.waive(release)
        return False
    end = _end(model, counts, w / size, share)

    def wrong(x: Floats, y: Floats) -> Floats:
        """Bounded gradient along the predictor, of rows with this distance from the end in standard deviations."""
        weight = np.where(y > 0, ones, zeros)
        return np.asarray(weight * (y - expit(c.far * x)) * np.clip(x, -c.reach, c.reach))

    def rows(block: Block) -> tuple[Floats, None]:
        return wrong(problem.frame.predict(block, w) / size - end, np.asarray(problem.response(block)))[:, None], None

    most = 0.2785 / c.far
    mean = Clip(center=(most - c.reach) / 2, bound=(most + c.reach) / 2).mean(model.data, rows, width=1).to("l2")
    noise = model.curator.noise(release, mean.sensitivity)
    found = float(model.curator.release(release, mean)[0])
    slopes = np.column_stack([base.in_u(e) for e in np.eye(len(w))[:-1]])
    doubt = float(np.trace(slopes @ error[:-1, :-1] @ slopes.T))
    # Part of the variance of the separating predictor that the fit has.
    part = min(size**2 / (size**2 + doubt), c.alike)
    side = norm.cdf((math.sqrt(part) * _NODES - end) / math.sqrt(max(1 - part, TINY)))
    expected = side * wrong(_NODES - end, np.ones_like(_NODES)) + (1 - side) * wrong(_NODES - end, np.zeros_like(_NODES))
    return found + c.certain * noise >= float(_WEIGHTS @ expected) / math.sqrt(2 * math.pi)
