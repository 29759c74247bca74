"""Steps towards the least-squares solution, and intervals that hold when the model is wrong.

Earlier releases shorten long rows and clip residuals. If the relation is curved, the shortened rows matter, and the fit differs
from least squares. Here a row contributes ``u r`` to the gradient and only the length of that product is bounded, so long rows
with small residuals count in full. Bounds minimize noise plus bias, both estimated from released counts of the lengths.

Each gradient g observes the distance D to least squares, with noise R. The earlier releases give a prior ``D ~ N(0, P)``. Their
bias adds an unknown variance k in each direction of u. This has two consequences:

- *Coefficients* move by the posterior mean under P, and further only in directions where g clearly exceeds its noise. A fit that
  was right keeps its precision.
- *Intervals* average over k. Where g is no larger than its noise, they allow for a bias of about that size.

What the last bound cuts off is not seen. Counts say how much it may be, not whether it points anywhere: it does where the
relation is curved, and hardly where it is linear and noise has heavy tails. Rows between a narrower bound and the last one tell
these apart, since they point in the same direction as those beyond. So the last gradient is released under both bounds, and the
intervals allow for a bias in proportion to the difference. Where residuals are skewed and vary in size with the rows, a fit to
clipped residuals balances what is inside against each other, and all of the bias lies beyond: the covariance of sizes with rows
says in which direction, and the mean of what is inside whether they are skewed. A response with two values has no tail.

Where counts say that rows too few to count hold most of the gradient, as where a column and the response are both areas of land,
what is seen inside the bound says nothing of it. Then intervals allow for all of the heaviest likely tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import TINY
from fattail.algorithms.parts.geometry import raise_eigenvalues
from fattail.algorithms.parts.joint_moments import JointFit
from fattail.algorithms.parts.lengths import FAR_ODDS, Lengths
from fattail.algorithms.parts.posterior import OFF_DIAGONAL
from fattail.privacy import Gaussian
from fattail.robust import Ball, Gram, symmetric
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
Rows = Callable[[Block], tuple[Any, Floats]]


@dataclass(frozen=True)
class ProjectionDefaults:
    """Constants, chosen by hand on the laws and tables of ``benchmarks/coverage_linear.py``."""

    bounds: tuple[int, int] = (-4, 25)
    """Bounds of gradients that are tried, in quarter octaves of the typical length."""
    aligned: float = 1.0
    """Part of what is cut off that is taken to point in one direction, where a bound is chosen."""
    inside: float = 4.0
    """The last bound over the narrower one."""
    onward: float = 2.0
    """What rows beyond the last bound add to a direction, over what those between the two bounds do. It was 0.4 to 3, and about
    2 on the laws whose effects are most curved."""
    followed: float = 0.75
    """The same ratio where the fit moves: by that much, where what is seen inside is clear."""
    skewed: float = 5.0
    """What may be hidden where skewed residuals vary in size: this, times the covariance of rows and sizes, of what lies beyond
    the bound. It was 1 to 7, most where the tail grows faster than the clipped size (net assets by income)."""
    clear: float = 10.0
    """Squared ratio of a gradient to its noise beyond which it is followed: 1 in 600 if there is nothing to find."""
    nothing: float = 0.1
    """Prior probability that a direction has no bias; it counts as much as two observed directions."""
    chances: tuple[float, float] = (0.05, 0.95)
    """Least and largest estimate of that probability."""
    hidden: tuple[int, int] = (-4, 13)
    """Octaves of k, in units of the noise, all equally likely at first."""
    far: float = 0.5
    """Part of the mean square length of rows that lies beyond the unit matrix, from which on steps are shortened."""
    least_square: float = 0.25
    """Part of the average variance of gradients that every direction has at least."""


DEFAULTS = ProjectionDefaults()


@dataclass(frozen=True)
class Projection:
    """Planned releases: counts of lengths, gradients, and second moments of the last gradient's rows.

    There are three gradients: one that moves the fit, and two at the same coefficients, under a narrow and a wide bound.
    """

    counts: Gaussian
    steps: tuple[Gaussian, ...]
    squares: Gaussian

    @classmethod
    def planned(cls, shares: Sequence[float], counts: float, squares: Gaussian) -> Projection:
        number = len(shares)
        steps = tuple(Gaussian(f"least squares gradient {t + 1}", float(share)) for t, share in enumerate(shares))
        return cls(Gaussian("gradient length counts", counts * number, count=number), steps, squares)

    @property
    def mechanisms(self) -> tuple[Gaussian, ...]:
        return self.counts, *self.steps, self.squares

    def apply(self, joint: JointFit, data: PrivateData, move: bool) -> None:
        """Move the fit, if directions are even enough for it, and set its covariance.

        Where few rows make up a direction and were pulled back, its curvature is far above one, and a step would be as many
        times too long. Then gradients only tell how wide the interval must be.
        """
        turn, root = joint.align(), math.sqrt(joint.p)
        damping = self.damping(joint, data)
        towards = _ProjectionSteps(joint, damping if move else 0.0)
        if joint.observed is not None:
            sampling = np.eye(joint.p) / data.n
            towards.observe(turn @ joint.observed[0], turn @ joint.observed[1] @ turn.T - sampling, sampling)
        first, narrow, wide = self.steps
        sizes, bound = self.bounded(joint, data, towards, first)
        towards.allow(DEFAULTS.aligned * root * sizes.excess(joint.bound / root))
        square = sizes.square(bound / root) * np.eye(joint.p)
        towards.observe(*self.gradient(towards, data, first, bound), square / data.n)

        sizes, bound = self.bounded(joint, data, towards, wide, sizes.far)
        square = self.square(joint, data, towards.rows(bound), bound)
        inside = bound / DEFAULTS.inside
        less, less_noise = self.gradient(towards, data, narrow, inside)
        gradient, noise = self.gradient(towards, data, wide, bound)
        cut, most = (root * mean(bound / root) for mean in (sizes.excess, sizes.most_excess))
        shown = root * sizes.excess(inside / root) - cut
        towards.observe(gradient, noise, square / data.n)
        towards.extrapolate(gradient - less, noise + less_noise, shown, cut, most)
        joint.covariance = joint.unit**2 * joint.shape.T @ towards.variance @ joint.shape + joint.unknown
        if sizes.far > 0:
            hidden = np.diag(towards.slopes(most * np.sqrt(np.diag(square) / np.trace(square))) ** 2)
            more = joint.unit**2 * joint.shape.T @ hidden @ joint.shape
            joint.decided_by_few = np.diag(more) > np.diag(joint.covariance)
            joint.covariance = joint.covariance + more

    def bounded(
        self, joint: JointFit, data: PrivateData, towards: _ProjectionSteps, release: Gaussian, far: float = FAR_ODDS
    ) -> tuple[Lengths, float]:
        """Lengths of the rows' parts of the gradient, and the best bound on them for the noise of a release."""
        sizes = Lengths.counted(joint.curator, self.counts, data, towards.sizes, far)
        return sizes, best_bound(sizes, joint.curator.noise(release, 2.0 / data.n), joint.p)

    def gradient(self, towards: _ProjectionSteps, data: PrivateData, release: Gaussian, bound: float) -> tuple[Floats, Floats]:
        """A gradient, and the covariance of its noise."""
        curator, p = towards.joint.curator, towards.joint.p
        found = curator.release(release, Ball(radius=bound).mean(data, towards.rows(bound), width=p))
        return found, curator.noise(release, 2 * bound / data.n) ** 2 * np.eye(p)

    def damping(self, joint: JointFit, data: PrivateData) -> float:
        """Factor of steps. Rows beyond the last radius add to the curvature, which is one otherwise."""
        frame, root = joint.problem.frame, math.sqrt(joint.p)
        lengths = Lengths.counted(joint.curator, self.counts, data, lambda block: frame.shaped(block)[2] / root)
        return 1 / (1 + max(lengths.square(lengths.reach) - 1 - DEFAULTS.far, 0.0))

    def square(self, joint: JointFit, data: PrivateData, rows: Rows, bound: float) -> Floats:
        """Second moments of the rows' parts of the gradient; what differs from their level counts as far as it exceeds noise."""
        p = joint.p
        released = symmetric(joint.curator.release(self.squares, Gram(radius=bound).mean(data, rows, width=p)))
        noise = joint.curator.noise(self.squares, math.sqrt(2) * bound**2 / data.n)
        level = max(float(np.trace(released)) / p, noise / math.sqrt(p), TINY)
        differs = released - level * np.eye(p)
        kept = max(0.0, 1 - (OFF_DIAGONAL * noise * p) ** 2 / max(float(np.sum(differs**2)), TINY))
        return raise_eigenvalues(level * np.eye(p) + kept * differs, DEFAULTS.least_square * level)


def best_bound(sizes: Lengths, noise: float, p: int) -> float:
    """Bound of gradients of least error: noise in p directions, and what is cut off."""
    bounds = 2.0 ** (np.arange(*DEFAULTS.bounds) / 4)
    cut = np.array([sizes.near_excess(bound) for bound in bounds])
    return float(bounds[np.argmin(p * (noise * bounds) ** 2 + (DEFAULTS.aligned * cut) ** 2)]) * math.sqrt(p)


class _ProjectionSteps:
    """The state of the steps, in units of u and of residuals; all of it is public."""

    def __init__(self, joint: JointFit, damping: float) -> None:
        self.joint, self.damping = joint, damping
        back = np.linalg.inv(joint.shape)
        self.variance = back.T @ joint.prior @ back / joint.unit**2
        self.known = self.variance
        # The mean row: E u = E u u' a for the a with a'u = 1. The mean residual has a release of its own, with a wider clip.
        self.constant = back[-1] / np.linalg.norm(back[-1])

    def _parts(self) -> Callable[[Block], tuple[Any, Floats, Floats]]:
        """Rows u, residuals and sizes of a block, as a function of public values alone: it is sent to where the rows are."""
        problem, full, unit = self.joint.problem, self.joint.full, self.joint.unit

        def parts(block: Block) -> tuple[Any, Floats, Floats]:
            u, _, length = problem.frame.shaped(block)
            residual = (problem.response(block) - problem.frame.predict(block, full)) / unit
            return u, residual, length * np.abs(residual)

        return parts

    @property
    def sizes(self) -> Callable[[Block], Floats]:
        """Lengths of the rows' parts of the gradient, in units of a typical one."""
        parts, typical = self._parts(), math.sqrt(self.joint.p)
        return lambda block: np.asarray(parts(block)[2] / typical)

    def rows(self, bound: float) -> Rows:
        """The rows' parts of the gradient, in a ball."""
        parts = self._parts()

        def rows(block: Block) -> tuple[Any, Floats]:
            u, residual, size = parts(block)
            return u, residual * np.minimum(1.0, bound / np.maximum(size, TINY))

        return rows

    def allow(self, cut: float) -> None:
        """Allow for what earlier steps cut off, a mean length, in any direction."""
        more = np.diag(self.slopes(np.full(self.known.shape[0], cut)) ** 2)
        self.variance, self.known = self.variance + more, self.known + more

    def slopes(self, gradient: Floats) -> Floats:
        """A gradient without its part along the constant, which the mean residual sees better."""
        return np.asarray(gradient - self.constant * (self.constant @ gradient))

    def observe(self, gradient: Floats, noise: Floats, sampling: Floats) -> None:
        """Take in a gradient with covariances of its noise and of its sampling error."""
        gradient, error = self.slopes(gradient), noise + sampling
        mean, self.variance = averaged(self.variance, gradient, error, np.diag(sampling))
        gain = np.linalg.solve(self.known + error, self.known).T
        rest = gradient - gain @ gradient
        clear = clearly(gradient, np.diag(error + self.known))
        move = self.damping * (gain @ gradient + clear * rest)
        self.known = np.zeros_like(self.known)  # the prior from earlier releases is used once
        self.variance += np.outer(mean - move, mean - move)
        self._move(move)

    def extrapolate(self, inside: Floats, noise: Floats, shown: float, cut: float, most: float) -> None:
        """Allow for rows beyond the last bound, by what rows ``inside`` of it add, and move where that is clear.

        ``shown`` and ``cut`` are mean lengths inside and beyond; ``most`` is the latter if the tail is as heavy as it may be.
        Skewed residuals, which leave a mean inside, are hidden in the direction in which their size varies with the rows.
        """
        skew = min(1.0, abs(float(self.constant @ inside)) * math.sqrt(inside.size) / max(shown, TINY))
        inside = self.slopes(inside)
        mean, variance = averaged(np.zeros_like(noise), inside, noise, np.zeros_like(inside))
        move = self.damping * DEFAULTS.followed * clearly(inside, np.diag(noise)) * mean
        size = np.sqrt(mean**2 + np.minimum(np.diag(variance), shown**2))
        left = DEFAULTS.onward * self.joint.unseen * max(1.0, cut / max(shown, TINY)) * size - np.abs(move)
        most = cut if self.joint.ends.is_binary else self.joint.unseen * most
        varying = DEFAULTS.skewed * skew * most * self.slopes(self.joint.shape @ self.joint.sizes)
        self.variance = self.variance + np.diag(np.minimum(left, most) ** 2) + np.outer(varying, varying)
        self._move(move)

    def _move(self, step: Floats) -> None:
        joint = self.joint
        joint.w = joint.w + joint.unit * joint.shape.T @ step


def clearly(gradient: Floats, error: Floats) -> Floats:
    """Part of a gradient that exceeds its error beyond doubt."""
    return np.asarray(np.maximum(0.0, 1 - DEFAULTS.clear * error / np.maximum(gradient**2, TINY)))


def averaged(known: Floats, gradient: Floats, noise: Floats, sampling: Floats) -> tuple[Floats, Floats]:
    """Posterior mean and covariance of D ~ N(0, known + diag(k)) given gradient = D + N(0, noise), averaged over k.

    What is known and the gradient come from the same rows, so the sampling error that both contain does not average out.
    """
    gain = np.linalg.solve(known + noise, known).T
    rest = gradient - gain @ gradient
    total, error = np.diag(known + noise), np.diag(noise)
    ratio = gradient**2 / total
    sizes = 2.0 ** np.arange(*DEFAULTS.hidden)  # of k, over the total
    least = ratio / (1 + sizes[-1])  # taken off all: otherwise, all would be zero for a gradient beyond the largest k
    something = np.exp(-0.5 * (ratio[:, None] / (1 + sizes) - least[:, None])) / np.sqrt(1 + sizes) / sizes.size
    nothing = np.exp(-0.5 * (ratio - least))
    chance = DEFAULTS.nothing
    for _ in range(20):
        both = chance * nothing + (1 - chance) * something.sum(axis=1)
        clean = np.sum(chance * nothing / both) + 2 * DEFAULTS.nothing
        chance = float(np.clip(clean / (ratio.size + 2), *DEFAULTS.chances))
    weight = (1 - chance) * something / both[:, None]
    share = sizes / (1 + sizes)  # of the gradient that is D's
    first, second = weight @ share, weight @ share**2
    extra = first * error**2 / total + (second - first**2) * rest**2
    followed = np.clip(np.diag(gain) + first * (1 - np.diag(gain)), 0.0, 1.0)  # weight of the gradient
    shared = 2 * followed * (1 - followed) * np.minimum(np.diag(known), sampling)
    return gain @ gradient + first * rest, known - gain @ known + np.diag(extra + shared)
