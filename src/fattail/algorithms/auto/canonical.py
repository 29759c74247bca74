"""``auto`` for losses of your own: generalized linear models with their canonical response.

1. *Units.* A private center and scale of every column, and second moments of the scaled rows
   (``linear_rows.prepare``). In these units the rows u have about unit variance in every direction.
2. *Start.* The model without columns: a private mean of the response, and the prediction that
   the loss's response maps to it.
3. *Shape.* Second moments weighted with the loss's second derivative at the current fit. Their
   inverse root maps rows to units in which the curvature is about one in every direction.
4. *Steps.* Newton steps on means of gradients pulled back to a radius. The radius minimizes the
   estimated error, which is public arithmetic on released counts of gradient lengths.

Steps 3 and 4 alternate. The budget of the steps grows, since a step undoes most of the noise
before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fattail import _kernels
from fattail._tools.numbers import TINY
from fattail.algorithms.auto.linear import hopeless
from fattail.algorithms.parts.linear_rows import WIDEST, LinearFit, Problem, Singles, Target, Units, prepare
from fattail.algorithms.parts.support_fit import center, center_plan
from fattail.algorithms.registry import registered
from fattail.losses import Loss, Needs
from fattail.privacy import Curator, Gaussian, Mechanism
from fattail.robust import Ball, Gram, symmetric
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
Parts = Callable[[Block], tuple[Singles, Floats]]


@dataclass(frozen=True)
class CanonicalDefaults:
    """Numbers of `auto_canonical`.

    Checked by ``benchmarks/tuning/vary.py canonical``: halving or doubling any of the floats raised the error, or lowered it
    by less than a tenth (counts, n = 4,000 and 30,000, epsilon 1, 12 trials).
    """

    columns: float = 0.08
    """Share of the budget for centers and scales of columns."""
    moments: float = 0.08
    """Share for the second moments of the scaled rows."""
    radius: float = 2.0
    """Length, in units of the root of the number of columns, to which rows are pulled back in second moments."""
    center: float = 0.04
    """Share for the mean response."""
    shapes: float = 0.12
    """Share for all weighted second moments."""
    counts: float = 0.06
    """Share for all counts of gradient lengths."""
    steps: int = 6
    growth: float = 2.0
    """Budget of a step over that of the step before."""
    damping: float = 0.8
    """Length of a step over that of Newton's; below one, since the shape has noise."""
    renewed: tuple[int, ...] = (1, 3)
    """Steps before which the shape is estimated again."""
    reach: float = 2.0
    """Predictions that count for the curvature: within this many standard deviations of their center."""
    longest: float = 2.0
    """Largest change of a prediction by one step, in standard deviations of the prediction."""
    noisiest: float = 0.5
    """Length of a step's noise, in units of curvature one, beyond which the step is shortened to it."""
    evident: float = 6.0
    """A count is used if it exceeds this many standard deviations of the noise, which noise alone does once in a billion."""
    lowest: int = -12
    """Exponent of the first octave of gradient lengths; shorter gradients need no bound."""
    octaves: int = 32
    middle: float = 0.75
    """Middle of an octave over its upper edge: lengths in an octave are taken to lie there."""
    least_bend: float = 1e-9
    """Least second derivative at the start: a loss that is flat there has no Newton step."""
    least_eigenvalue: float = 1e-6
    """Least eigenvalue of second moments in private units, where no noise sets a higher one."""


CONSTANTS = CanonicalDefaults()
# Predictions at which the response is evaluated for the start: dense around zero, and beyond any log-rate of a count.
_START = np.sinh(np.linspace(-4.0, 4.0, 2001))


@registered(
    "auto",
    estimators=(),
    paper="fattail",
    algorithm="losses of your own",
    changed="not from a paper: private units, curvature-weighted second moments, bounded Newton steps for any canonical loss",
    test="tests/contracts/test_extensions.py",
    needs=Needs(canonical=True, targets=("nonnegative", "labels")),
)
def auto_canonical(curator: Curator, data: PrivateData, target: Target) -> LinearFit:
    """Fit a generalized linear model whose loss promises its canonical response.

    Notes
    -----
    *Privacy.* Each release is a ``Histogram``, a ``Gram`` or a mean of ``Ball``- or ``Clip``-bounded rows; all else
    is arithmetic on releases. Of the promises of the loss, privacy needs only that it is pointwise. Proof:
    ``canonical.proof.md``.
    """
    c, p = CONSTANTS, data.d + 1
    if hopeless(data.n, data.d, curator.epsilon, curator.delta):  # too few rows for any column: only the intercept
        plan = center_plan(target.loss)
        curator.plan(*plan)
        return LinearFit(np.zeros(data.d), float(_start_at(curator, data, target, plan)[0][-1]), 0)
    units = Units.planned(p, c.columns, c.moments, c.radius)
    start = center_plan(target.loss)
    share = c.center / sum(m.share for m in start)
    start = tuple(replace(m, share=share * m.share) for m in start)
    renewed = c.renewed if p <= WIDEST else ()
    shape = Gaussian("curvature", c.shapes, count=max(len(renewed), 1))
    counts = Gaussian("gradient length counts", c.counts, count=c.steps)
    fixed = [*units.mechanisms(p), *start, *((shape,) if renewed else ()), counts]
    growth = c.growth ** np.arange(c.steps)
    shares = (1.0 - sum(m.share for m in fixed)) * growth / growth.sum()
    gradients = [Gaussian(f"gradient {t + 1}", float(s)) for t, s in enumerate(shares)]
    curator.plan(*fixed, *gradients)

    rows = prepare(curator, units, data, target)
    w, bend = _start_at(curator, data, target, start)
    problem = rows.with_shape(rows.frame.shape / math.sqrt(bend))
    for t, gradient in enumerate(gradients):
        if t in renewed:
            problem = _reshaped(curator, shape, data, rows, w, c)
        parts = problem.gradient_rows(w)
        radius = _best_radius(curator, counts, data, parts, curator.noise(gradients[-1], 2.0 / data.n) * math.sqrt(p), c)
        mean = Ball(radius=radius).mean(data, parts, width=p)
        released = curator.release(gradient, mean)
        # A step of mostly noise would throw predictions by more than later steps can undo.
        noise = curator.noise(gradient, 2.0 * radius / data.n) * math.sqrt(p)
        shorter = min(1.0, c.noisiest / noise, _limit(rows, problem, released, c))
        w = problem.move(w, released, c.damping * shorter)
    return problem.solution(w, c.steps)


def _start_at(curator: Curator, data: PrivateData, target: Target, plan: tuple[Mechanism, ...]) -> tuple[Floats, float]:
    """The model without columns, and the loss's second derivative there."""
    level = center(curator, data, target.loss, plan)
    # A mean below its own noise would start the fit where the loss is flat.
    mean = float(expit(level)) if target.labels else max(level, 1 / math.sqrt(data.n))
    response = np.nan_to_num(target.loss.promise.response(_START), nan=math.inf)
    z = float(_START[np.argmin(np.abs(response - mean))]) if target.intercept else 0.0
    bend = _second_at(target.loss, np.array([z]))
    return np.append(np.zeros(data.d), z), float(bend[0])


def _second_at(loss: Loss, z: Floats) -> Floats:
    """Second derivative of a canonical loss, which depends on the prediction alone; never zero."""
    return np.maximum(np.nan_to_num(loss.second(z, np.zeros_like(z))), CONSTANTS.least_bend)


def _spread(rows: Problem, w: Floats) -> float:
    """Standard deviation of predictions in private units."""
    return float(np.linalg.norm(rows.in_u(np.append(w[:-1], 0.0))))


def _reshaped(curator: Curator, release: Gaussian, data: PrivateData, rows: Problem, w: Floats, c: CanonicalDefaults) -> Problem:
    """Units of curvature one: second moments of rows, weighted with the loss's second derivative at ``w``."""
    frame, loss = rows.frame, rows.loss
    around = w[-1] * frame.constant + _spread(rows, w) * np.linspace(-c.reach, c.reach, 9)
    top = float(np.max(_second_at(loss, around)))  # rows of more curvature are pulled back

    def weighted(block: Block) -> tuple[Singles, Floats]:
        u, weight, _ = frame.rows(block)
        return u, np.sqrt(weight * loss.second(frame.predict(block, w), rows.response(block)) / top)

    moments = symmetric(curator.release(release, Gram(radius=frame.radius).mean(data, weighted, width=rows.p)))
    noise = curator.noise(release, math.sqrt(2) * frame.radius**2 / data.n)
    values, vectors = np.linalg.eigh(moments)
    # The largest eigenvalue of noise is about sqrt(2 p) of its deviation: below it a value says nothing.
    floor = max(noise * math.sqrt(2 * rows.p), c.least_eigenvalue)
    root = (vectors / np.sqrt(np.maximum(values, floor))).T
    return rows.with_shape(root @ frame.shape / math.sqrt(top))


def _best_radius(
    curator: Curator, release: Gaussian, data: PrivateData, parts: Parts, noise: float, c: CanonicalDefaults
) -> float:
    """Radius with the least sum of squared bias and noise, from released counts of gradients by the octave of their length."""

    def codes(block: Block) -> Floats:
        u, r = parts(block)
        length = np.abs(r) * np.sqrt(_kernels.row_dots(u, u))
        octave: Floats = np.clip(np.frexp(length)[1] - c.lowest, 0, c.octaves - 1).astype(np.float64)
        return octave[:, None]

    counts = curator.release(release, Histogram(c.octaves).counts(data, codes))[0]
    share = np.where(counts > c.evident * curator.noise(release, math.sqrt(2)), counts, 0.0) / data.n
    upper = np.ldexp(1.0, c.lowest + np.arange(c.octaves))
    bias = np.maximum(c.middle * upper - upper[:, None], 0.0) @ share  # lengths lie in the middle of their octave
    error = bias**2 + (noise * upper) ** 2
    return float(upper[np.argmin(error)]) if np.any(share) else 1.0


def _limit(rows: Problem, problem: Problem, gradient: Floats, c: CanonicalDefaults) -> float:
    """Factor that shortens a step which would change predictions by more than ``longest`` standard deviations."""
    change = float(np.linalg.norm(rows.in_u(problem.frame.shape.T @ gradient)))
    return c.longest / max(change, TINY)
