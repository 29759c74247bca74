"""The last step of a logistic fit: Newton's, with a released curvature and a prior for what earlier steps left.

Earlier steps are short where labels are rare, and where a direction has less curvature than its units promise: an error is left
that their noise does not show. The last gradient is therefore solved with the curvature at the present fit. How much was left
in the directions that show is averaged over all sizes, each as likely as the gradient makes it. The others keep their
coefficients, of which only an ordinary size is known.

Slopes of mostly noise predict worse than the share of positives. They are replaced by their posterior mean where all slopes have
one scale, which the estimate and the noise of the steps show; what is taken away stays in the errors, as a bias.

The slopes of separable labels have no end. If noise does not rule such labels out (``parts/separable.py``), errors are infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from fattail._tools.numbers import TINY
from fattail.algorithms.parts.linear_rows import LinearFit, Problem, Singles
from fattail.algorithms.parts.newton import Model
from fattail.algorithms.parts.separable import Separation
from fattail.privacy import Gaussian
from fattail.robust import Gram, symmetric
from fattail.rows.data import Block

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabelStepDefaults:
    """Constants, chosen by hand on the laws and tables of ``benchmarks/rare_labels.py``, real ones included."""

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


DEFAULTS = LabelStepDefaults()
# Variances of predictions that steps may have left, in log-odds.
_LEFT = 10.0 ** np.arange(-3.0, 0.25, 0.25)
# Variances of predictions that slopes may cause, in log-odds: from none to a thousand times the usual.
_SCALES = 10.0 ** np.arange(-4.0, 3.25, 0.25)


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
    model: Model, gradient: Gaussian, curvature: Gaussian, separation: Separation, base: Problem, share: float
) -> LastStep:
    """Take the step. ``base`` has units in which rows are round, so that lengths are spreads of predictions.

    Notes
    -----
    *Privacy.* Two releases, a bounded gradient and second moments of rows projected to a ball of public radius, and those of
    ``separation``. Proof: ``label_step.proof.md``.
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
    slopes = np.column_stack([base.in_u(e) for e in np.eye(len(model.w))[:-1]])
    doubt = float(np.trace(slopes @ drawn[:-1, :-1] @ slopes.T))
    has_end = not separation.is_possible(model, _size(base, model.w), doubt, share)
    return LastStep(model, covariance + _left_out(problem), has_end)


def _shift(base: Problem, w: Floats, noise: Floats) -> Floats:
    """From an estimate to its posterior mean where slopes have one scale in units in which rows are round.

    All scales are averaged, each as likely as the estimate makes it.
    """
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
