"""Least squares along a few released directions, for many columns or few rows.

The noise of the second moments of p columns is of the order ``p sqrt(p) / n``, that of a gradient ``p / n``. So gradients may
show in which direction the response changes even if the matrix is mostly noise. Here each released gradient becomes a direction.
The joint moments of the rows' coordinates along all directions then give the step along each of them. There are few directions,
so these moments have little noise.

This is the method of conjugate gradients, or partial least squares, with noisy gradients. The small fit chooses the best
combination of all directions, so it also decides how much of a noisy one to use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail._tools.numbers import TINY
from fattail.algorithms.parts.joint_moments import bounds
from fattail.algorithms.parts.lengths import Lengths
from fattail.algorithms.parts.linear_rows import Problem
from fattail.algorithms.parts.posterior import OFF_DIAGONAL, beyond, posterior_step
from fattail.algorithms.parts.support_fit import typical
from fattail.privacy import Curator, Gaussian, TopK
from fattail.robust import Ball, Clip, Gram, symmetric
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SubspaceDefaults:
    """Constants, chosen by hand on the laws that ``benchmarks/many_columns.py`` marks as tuned."""

    clip: float = 0.8
    """Clip of residuals in gradients, in units of their median size. For a direction, signs matter more than sizes."""
    radius: float = 0.5
    """Length to which longer rows are shortened in gradients, over the root of the number of columns: most rows are longer."""
    reach: float = 0.1
    """Squared radius of the small joint moments, relative to that at which their noise equals their eigenvalues."""
    spread: float = 1.5
    """Root mean square over the median size of a coordinate: that of normal ones."""
    least_square: float = 0.02
    """Lower limit of the mean square residual after a step, as a fraction of the one before it."""
    least_curvature: float = 0.01
    """Added to the curvature, so that a direction hidden by noise has sampling noise, too."""
    stretch: float = 1.5
    """Predictions may exceed the visible range by this power of the ratio of response to residual, because a precise fit
    extrapolates."""
    most_gain: float = 4.0
    """Bound on a row's gain in squared residuals, in units of the response's scale squared."""
    unclipped: float = 0.4
    """Share of residuals within the clip: 0.41 for normal, 0.42 for t(2), 0.43 for Laplace, 0.4 for uniform ones."""
    shown: float = 3.0
    """If the unit of the response is a guess, a gain or a mean residual must exceed this many standard deviations of the
    noise."""
    mean_clip: float = 6.0
    """Clip of the mean residual, in units of the residuals."""


DEFAULTS = SubspaceDefaults()


class Subspace:
    """Coefficients in the span of released directions; everything here is public.

    Parameters
    ----------
    curator : Curator
    data : PrivateData
    problem : Problem
        Units. If its frame has a shape, gradients are taken in the units of that shape.
    start : array of shape (d + 1,), optional
        Coefficients to start from, the constant last.
    unit : float
        Size of residuals there, in units of the response.
    """

    def __init__(
        self, curator: Curator, data: PrivateData, problem: Problem, start: Floats | None = None, unit: float = 1.0
    ) -> None:
        self.curator, self.data, self.problem, self.unit = curator, data, problem, unit
        self.w = np.zeros(data.d + 1) if start is None else start
        self.directions = np.zeros((0, data.d + 1))
        self.response_range = problem.reach
        self.last = math.inf, 1.0, 1.0
        """Noise, clip and mean square row of the last gradient, for standard errors."""

    def descend(self, gradient: Gaussian, size: TopK, moments: Gaussian) -> None:
        """Add the direction of the gradient, and fit the coordinates along all directions.

        Two selections are made: of the size of residuals, then of coordinates along the direction.
        """
        clip = DEFAULTS.clip * typical(self.curator, size, self.data, self._residuals, 0.5)
        frame, direction = self.problem.frame, self._gradient(gradient, clip)
        direction[-1] = 0.0  # the constant has a coordinate of its own
        direction /= max(float(np.linalg.norm(direction)), TINY)
        length = DEFAULTS.spread * typical(self.curator, size, self.data, lambda block: frame.predict(block, direction), 0.5)
        self.directions = np.vstack([self.directions, direction / length])
        radius = DEFAULTS.radius * math.sqrt(self.problem.p or self.w.size)
        # A row of independent columns has about this length, and is pulled back to the radius.
        shortened = min(1.0, radius / (length * math.sqrt(self.w.size)))
        self.last = (
            self.curator.noise(gradient, 2 * radius * clip / self.data.n) * self.unit,
            clip * self.unit,
            shortened * length**2,
        )
        self.solve(moments)

    def _residuals(self, block: Block) -> Floats:
        return np.asarray((self.problem.response(block) - self.problem.frame.predict(block, self.w)) / self.unit)

    def _gradient(self, release: Gaussian, clip: float) -> Floats:
        """Mean of clipped residuals times pulled-back rows, as coefficients of standardized columns."""
        frame = self.problem.frame
        width = self.problem.p or self.w.size
        radius = DEFAULTS.radius * math.sqrt(width)

        def rows(block: Block) -> tuple[Any, Floats]:
            if self.problem.p:
                u, _, length = frame.shaped(block)
            else:
                u = frame.standard(block)
                length = np.sqrt(_kernels.row_dots(u, u))
            return u, np.clip(self._residuals(block), -clip, clip) * np.minimum(1.0, radius / np.maximum(length, TINY))

        released = self.curator.release(release, Ball(radius=radius * clip).mean(self.data, rows, width=width))
        return frame.shape.T @ released if self.problem.p else released

    def solve(self, release: Gaussian) -> None:
        """Move along the directions by a posterior mean from the joint moments of coordinates and residuals."""
        k, n = len(self.directions) + 1, self.data.n
        multiplier = self.curator.noise(release)
        radius, clip = bounds(n, k, multiplier, DEFAULTS.reach)
        balance, bound = radius / clip, math.sqrt(2) * radius
        frame, directions = self.problem.frame, self.directions

        def rows(block: Block) -> tuple[Any, Floats]:
            q = np.column_stack([*(frame.predict(block, v) for v in directions), np.ones(len(block))])
            length = np.sqrt(_kernels.row_dots(q, q))
            joint = np.column_stack([q, balance * np.clip(self._residuals(block), -clip, clip)])
            return joint, np.minimum(1.0, radius / np.maximum(length, TINY))

        matrix = symmetric(self.curator.release(release, Gram(radius=bound).mean(self.data, rows, width=k + 1)))
        noise = OFF_DIAGONAL * multiplier * math.sqrt(2) * bound**2 / n
        gradient_noise, square_noise = noise / balance, noise / (OFF_DIAGONAL * balance**2)
        square = max(float(matrix[k, k]) / balance**2, DEFAULTS.least_square / 2)
        values, vectors = np.linalg.eigh(matrix[:k, :k])
        gram = (vectors * np.where(values < noise * math.sqrt(k), 0.0, values)) @ vectors.T
        gradient, step, size = matrix[:k, k] / balance, np.zeros(k), 0.0
        for _ in range(3):  # the noise of the matrix acts on the step itself
            covariance = (gradient_noise**2 + noise**2 * size) * np.eye(k)
            covariance += square / n * (gram + DEFAULTS.least_curvature * np.eye(k))
            step, _ = posterior_step(gram, gradient, covariance, np.eye(k))
            size = float(step @ step)
        self.w = self.w + self.unit * np.append(step[:-1] @ directions[:, :-1], step[-1])
        # A step along noise seems to explain more than it does, and a unit that is too small would clip most residuals.
        explained = float(2 * step @ gradient - step @ gram @ step)
        doubt = math.hypot(square_noise, 2 * gradient_noise * math.sqrt(size))
        left = max(square - explained, DEFAULTS.least_square * square) + doubt
        self.unit *= math.sqrt(min(left, square + square_noise))

    def errors_if_uncorrelated(self) -> float:
        """Standard error of each coefficient of columns that are alike and uncorrelated, from the last gradient alone.

        The small fit combines all gradients, so its error is about as small.
        """
        noise, clip, square = self.last
        return math.hypot(noise, clip * math.sqrt(square / self.data.n)) / (DEFAULTS.unclipped * square)

    def limit(self, release: Gaussian) -> None:
        """Set the range of predictions: the visible range of rows and responses, wider for a better fit.

        Long rows are shortened in every release, so no other step limits their predictions.
        """
        problem, w, level = self.problem, self.w, self.problem.level
        shown = Lengths.counted(self.curator, release, self.data, lambda block: problem.frame.predict(block, w)).reach
        precision = 1 / min(self.unit, 1.0)
        far = shown * precision**DEFAULTS.stretch * problem.size
        low, high = (level + precision * (end - level) for end in problem.reach)
        self.response_range = max(min(low, level), level - far), min(max(high, level), level + far)

    def guard(self, release: Gaussian) -> None:
        """Set the slopes to zero if they increase the squared residuals."""
        problem, w, most = self.problem, self.w, DEFAULTS.most_gain
        low, high = ((end - problem.level) / problem.size for end in self.response_range)

        def gain(block: Block) -> tuple[Floats, None]:
            y = problem.response(block)
            gains = y**2 - (y - np.clip(problem.frame.predict(block, w), low, high)) ** 2
            return np.clip(gains, -most, most)[:, None], None

        found = float(self.curator.release(release, Clip(bound=most).mean(self.data, gain, width=1).to("l2"))[0])
        # If the unit of the response is a guess, the gain must exceed the noise.
        least = DEFAULTS.shown if self.problem.unit_is_guess else -1.0
        if found < least * self.curator.noise(release, 2 * most / self.data.n):
            self.w, self.unit = np.zeros_like(w), 1.0

    def move_intercept(self, release: Gaussian) -> float:
        """Move the constant by the mean residual; the variance of the result, in units of the response."""
        clip = DEFAULTS.mean_clip

        def residual(block: Block) -> tuple[Floats, None]:
            return self._residuals(block)[:, None], None

        mean = Clip(bound=clip).mean(self.data, residual, width=1).to("l2")
        shift = float(self.curator.release(release, mean)[0])
        noise = self.curator.noise(release, mean.sensitivity) ** 2
        if self.problem.unit_is_guess and shift**2 < DEFAULTS.shown**2 * noise:
            shift = 0.0
        # Before, the constant was known about as well as the noise of a mean residual under a clip of one.
        before = noise / clip**2 + 1 / self.data.n + beyond(1.0, clip) ** 2
        self.w = np.append(self.w[:-1], self.w[-1] + self.unit * shift * before / (before + noise))
        return self.unit**2 * (noise + 1 / self.data.n + beyond(1.0, clip) ** 2)
