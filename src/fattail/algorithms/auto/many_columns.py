"""Least squares where there are many columns for the number of rows; what is fitted follows from public arithmetic.

1. *Units* of all columns and of the response. Columns that do not show one by one, such as rare dummies, share a unit.
2. *Joint moments* (``parts/joint_moments.py``), one round, unless they would be mostly noise. They give a start, units in which
   columns are less correlated, and standard errors.
3. *Directions* (``parts/subspace.py``): gradients, each followed by a small fit along all of them.
4. *Range* of predictions, a check that the fit is better than none, and the intercept.

Without joint moments, collinear columns cannot be recognized, so single coefficients have infinite intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.joint_moments import JointFit
from fattail.algorithms.parts.lengths import OCTAVES, PER_OCTAVE, codes, edges, seen
from fattail.algorithms.parts.linear_rows import Frame, LinearFit, Problem, Target
from fattail.algorithms.parts.subspace import Subspace
from fattail.columns.units import DEFAULTS as UNITS
from fattail.columns.units import ColumnUnits, find_units, planned_counts, widen
from fattail.privacy import Curator, Gaussian, TopK
from fattail.privacy.calibration import gaussian_multiplier
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ManyColumnsDefaults:
    """Constants, chosen by hand on the laws that ``benchmarks/many_columns.py`` marks as tuned. Fields are shares of the budget
    unless stated otherwise."""

    typical: float = 1.3
    """Squared length of rows over the number of columns, in the blur of joint moments (see `blur`)."""
    blur: float = 0.55
    """If the blur is larger, steps along directions are more accurate than in units of the joint moments."""
    noise: float = 0.9
    """If the blur is larger, even the first round of joint moments is useless."""
    counts: float = 0.25
    """Centers and scales of columns."""
    squares: float = 0.03
    """Mean squares of columns."""
    response: tuple[float, float] = (0.02, 0.08)
    """Range of the share for center and scale of the response. Every later step needs them."""
    response_noise: float = 0.02
    """Within this range, the share gives this noise of a count, as a share of the rows."""
    family: int = 100
    """The response is tested as if there were this many columns, because a false positive in its counts gives every later step a
    wrong unit."""
    shared: float = 0.01
    """The unit of columns without a visible spread."""
    least_hidden: int = 10
    """If there are at least so many such columns, they share a unit."""
    rare: float = 0.2
    """Scale of such a column over its largest distance: that of a dummy that is 1 in every 25th row."""
    moments: float = 0.12
    """All moments along directions."""
    sizes: float = 0.03
    """All sizes of residuals, and of coordinates along directions."""
    joint: float = 0.4
    """Fraction of the remaining budget for joint moments, if they are released."""
    directions: tuple[int, int] = (3, 5)
    """Number of directions, with and without joint moments."""
    growth: float = 1.3
    """Budget of a gradient over that of the one before."""
    errors: float = 0.01
    """Standard errors."""
    ends: float = 0.01
    """Counts of predictions."""
    guard: float = 0.01
    """Check that the fit is better than none."""
    mean: float = 0.015
    """Intercept."""


MANY = ManyColumnsDefaults()


def blur(n: int, d: int, epsilon: float, delta: float) -> float:
    """The *blur* of joint moments of d columns and a constant: their noise over their eigenvalues, for the whole budget.

    The noise matrix has eigenvalues up to ``sqrt(2 p)`` times the noise of an entry, which is ``typical * p`` over n and the
    noise multiplier of the budget. The eigenvalues of standardized columns are about one. If the blur is larger than one, noise
    hides most of them.
    """
    p = d + 1
    return MANY.typical * p * math.sqrt(2 * p) * gaussian_multiplier(epsilon, delta) / n


def has_many_columns(n: int, d: int, epsilon: float, delta: float) -> bool:
    """Whether there are so many columns for the number of rows that they are fitted along directions: public arithmetic."""
    return blur(n, d, epsilon, delta) > MANY.blur


def moments_are_noise(n: int, d: int, epsilon: float, delta: float) -> bool:
    """Whether joint moments would be mostly noise, so that single coefficients have no interval: public arithmetic."""
    return blur(n, d, epsilon, delta) > MANY.noise


@dataclass(frozen=True)
class DirectionsPlan:
    """All releases; public arithmetic on n, d and the budget."""

    columns: tuple[Gaussian, ...]
    response: tuple[Gaussian, ...]
    squares: Gaussian
    shared: Gaussian
    joint: tuple[Gaussian, ...]
    """Joint moments and squares of gradients, or nothing."""
    gradients: tuple[Gaussian, ...]
    sizes: TopK
    moments: Gaussian
    ends: Gaussian
    guard: Gaussian
    mean: Gaussian

    @classmethod
    def of(cls, n: int, multiplier: float, with_moments: bool) -> DirectionsPlan:
        m, count = MANY, MANY.directions[0 if with_moments else 1]
        response = float(np.clip(2 * (multiplier / (m.response_noise * n)) ** 2 / max(UNITS.shares), *m.response))
        fixed = m.counts + response + m.squares + m.shared + m.sizes + m.moments + m.ends + m.guard + m.mean
        left = 1.0 - fixed - (m.errors if with_moments else 0.0)
        joint = m.joint * left if with_moments else 0.0
        powers = m.growth ** np.arange(count)
        shares = (left - joint) * powers / powers.sum()
        return cls(
            planned_counts(m.counts),
            planned_counts(response, "response counts"),
            Gaussian("column squares", m.squares),
            Gaussian("unit of columns that do not show", m.shared),
            (Gaussian("joint moments", joint), Gaussian("squares of gradients", m.errors)) if with_moments else (),
            tuple(Gaussian(f"gradient {t + 1}", float(share)) for t, share in enumerate(shares)),
            TopK("sizes of residuals and along a direction", m.sizes, count=2 * count),
            Gaussian("moments along directions", m.moments, count=count + 1),
            Gaussian("counts of predictions", m.ends),
            Gaussian("gain", m.guard),
            Gaussian("mean residual", m.mean),
        )

    def announce(self, curator: Curator) -> None:
        """Charge all releases."""
        counted = (*self.columns, *self.response, self.squares, self.shared)
        fitted = (*self.joint, *self.gradients, self.sizes, self.moments)
        curator.plan(*counted, *fitted, self.ends, self.guard, self.mean)


def fit_along_directions(curator: Curator, data: PrivateData, target: Target) -> LinearFit:
    """Least squares with an intercept and without a penalty.

    Notes
    -----
    *Privacy.* Each release is a ``Histogram``, a ``Gram``, a selection among octaves or a mean of ``Ball``- or ``Clip``-bounded
    rows; all else is arithmetic on releases. Proof: ``many_columns.proof.md``.
    """
    with_moments = not moments_are_noise(data.n, data.d, curator.epsilon, curator.delta)
    plan = DirectionsPlan.of(data.n, gaussian_multiplier(curator.epsilon, curator.delta), with_moments)
    plan.announce(curator)
    problem, guessed = _standardized(curator, plan, data, target)
    if not plan.joint:
        fit = Subspace(curator, data, problem)
        _descend(fit, plan)
        fit.move_intercept(plan.mean)
        return replace(problem.solution(fit.w, len(plan.gradients)), response_range=fit.response_range)
    moments, squares = plan.joint
    joint = JointFit(curator, replace(problem, frame=replace(problem.frame, shape=np.eye(data.d + 1))))
    joint.round((moments,), data, first=True)
    joint.measure(squares, data)
    fit = Subspace(curator, data, joint.problem, joint.full, joint.unit)
    _descend(fit, plan)
    moved = fit.w[joint.shown] - joint.w
    # The errors are those of the joint moments, and in directions hidden by noise those of the prior. What the directions changed
    # is counted as an error, too.
    joint.w, joint.covariance = fit.w[joint.shown], joint.covariance + joint.prior + np.outer(moved, moved)
    intercept = fit.move_intercept(plan.mean)
    joint.w[-1] = fit.w[-1]
    result = joint.fit(intercept, 1 + len(plan.gradients))
    assert result.covariance is not None
    result.covariance[guessed, guessed] = math.inf
    return replace(result, response_range=fit.response_range)


def _descend(fit: Subspace, plan: DirectionsPlan) -> None:
    for gradient in plan.gradients:
        fit.descend(gradient, plan.sizes, plan.moments)
    fit.solve(plan.moments)
    fit.limit(plan.ends)
    fit.guard(plan.guard)


def _standardized(curator: Curator, plan: DirectionsPlan, data: PrivateData, target: Target) -> tuple[Problem, NDArray[np.intp]]:
    """The problem in private units, and the columns whose unit is a shared one."""
    found = widen(curator, plan.squares, data, find_units(curator, plan.columns, data, False))
    alone = find_units(curator, plan.response, data.chosen(np.zeros(0, dtype=np.intp)), True, MANY.family)
    level, size, reach = alone.response
    hidden = np.isinf(found.scale)
    scale = np.where(hidden, _shared_scale(curator, plan.shared, data, found, hidden), found.scale)
    guessed = np.flatnonzero(hidden & np.isfinite(scale))
    frame = Frame(found.center, scale, 1.0, np.zeros((0, data.d + 1)))
    return Problem(target, frame, level, size if math.isfinite(size) else 1.0, reach), guessed


def _shared_scale(curator: Curator, release: Gaussian, data: PrivateData, found: ColumnUnits, hidden: NDArray[np.bool_]) -> float:
    """One scale for all columns without a visible spread, from the largest distance in each row; infinite if none is visible."""
    if hidden.sum() < MANY.least_hidden:
        curator.waive(release)
        return math.inf
    center = found.center[hidden]

    def largest(block: Block) -> Floats:
        return np.asarray(np.max(np.abs(block.dense - center), axis=1))

    rows = data.chosen(np.flatnonzero(hidden))
    counts = curator.release(release, Histogram(OCTAVES * PER_OCTAVE).counts(rows, codes(largest)))[0]
    shown = np.flatnonzero(seen(counts, curator.noise(release, math.sqrt(2)))[1:])  # the first cell holds zeros
    return MANY.rare * float(edges()[1 + shown[-1]]) if shown.size else math.inf
