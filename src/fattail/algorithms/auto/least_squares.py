"""Least squares without declared bounds, on raw columns in any unit.

How many releases it makes is decided by public arithmetic on rows, columns and budget:

1. *Units* of all columns (``fattail.columns.units``).
2. *Joint moments* of rows and residuals, one round (``parts/joint_moments.py``), and closer looks at the directions that its
   noise may hide.
3. *Small steps* under a bound on products of rows and residuals (``parts/descent.py``), chosen by counts of the products. With
   few rows for the columns that is all but the intercept, a check that the fit is better than none, and standard errors. With
   more rows, two small releases show whether every direction is visible and free of very long rows, and whether residuals are as
   large in one direction as in another. If so, and if products have a heavy tail, a few bounded Newton steps take their place
   (``parts/newton.py``): their narrower clips do not move the fit. Without a heavy tail a narrow bound cuts off nothing, and
   small steps have less noise.
4. *Ends* of predictions (``parts/response_ends.py``).
5. *Steps towards least squares' projection* (``parts/projection.py``): the bias of shortened rows is corrected where it exceeds
   the noise, and widens the intervals where it may be hidden by noise. Then a check that the fit is better than none.

All releases are Gaussian, so the composition is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.auto.many_columns import blur
from fattail.algorithms.parts.descent import Products, descend, planned
from fattail.algorithms.parts.evenness import directions_are_even, residuals_are_even
from fattail.algorithms.parts.joint_moments import DEFAULTS as JOINT
from fattail.algorithms.parts.joint_moments import JointFit
from fattail.algorithms.parts.linear_rows import Frame, LinearFit, Problem, Target
from fattail.algorithms.parts.newton import Model
from fattail.algorithms.parts.projection import Projection
from fattail.columns.units import DEFAULTS as UNITS
from fattail.columns.units import find_units, planned_counts, wanted_share, widen
from fattail.privacy import Curator, Gaussian
from fattail.privacy.calibration import gaussian_multiplier
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]

COUNTS = 0.006  # share of each set of counts
SAMPLE_ROWS = 100_000  # for counts and early steps; moments and later steps use twice as many, the last steps all rows


@dataclass(frozen=True)
class LeastSquaresDefaults:
    """Constants of `least_squares`, chosen by hand on the tables and laws that the benchmarks mark as tuned."""

    counts: float = 0.006
    """Noise of column counts that is wanted, as a share of the rows."""
    columns: tuple[float, float] = (0.03, 0.25)
    """Least and largest share of the budget for column counts."""
    column_squares: float = 0.05
    """Share for mean squares of columns."""
    looks: int = 2
    """Rounds of them: a scale that was far too small is enlarged twice."""
    squares: float = 0.02
    """Share for standard errors."""
    means: tuple[float, float] = (0.015, 0.02)
    """Shares for the intercept, before and after steps towards least squares' projection ..."""
    few_means: tuple[float, float] = (0.015, 0.06)
    """... and their range where there are few rows, in which they give this noise in units of the residuals, under the least
    clip. With .015 this noise was a third of the loss of R2 below 3,000 rows."""
    mean_noise: float = 0.08
    products: float = 0.006
    """Share of the counts of products of rows and residuals."""
    ends: float = 0.006
    """Share of the counts that say how far predictions are believed."""
    tail_noise: float = 0.01
    """Noise of a count, as a share of the rows, up to which counts of residuals show what a clipped mean residual misses ..."""
    unseen: float = 2.0
    """... and a factor of what it may miss with more noise. Under log-normal noise, intercepts were then covered in 18 of 20
    fits, with a factor of one in 12 (2,000 rows, epsilon 1)."""
    guard: float = 0.02
    """Share for the check that the fit is better than none."""
    newton: float = 0.06
    """Blur of joint moments up to which steps can follow them."""
    closer: float = 0.03
    """Share of each closer look at faint directions ..."""
    closer_looks: int = 2
    """... and their number."""
    moments: float = 0.2
    """Part of the budget of moments and steps for the moments, where there is nothing else."""
    start: float = 0.2
    """Share of the round before Newton steps."""
    even: float = 0.02
    """Share of the squares of directions that decide how to go on ..."""
    sizes: float = 0.01
    """... and of the sizes of residuals along directions."""
    steps: int = 6
    damping: float = 0.65
    growth: float = 2.0
    widest: float = 10.0
    """Clip of the mean square residual after Newton steps, in units of the residuals before them."""
    length_counts: float = 0.015
    """Share of each set of counts of gradient lengths."""
    wide: float = 0.006
    """Share of the steps towards the least-squares projection, as a multiple of the blur ..."""
    wide_shares: tuple[float, float] = (0.15, 0.6)
    """... and its range."""
    wide_parts: tuple[float, float, float, float] = (1.0, 0.5, 4.0, 2.0)
    """Its division: the gradients, of which the second has a narrower bound, then the moments before them."""


LEAST = LeastSquaresDefaults()


def least_squares(curator: Curator, data: PrivateData, target: Target) -> LinearFit:
    """Least squares: as many releases as the number of rows justifies, by public arithmetic on rows, columns and budget."""
    multiplier = gaussian_multiplier(curator.epsilon, curator.delta)
    moment_sample, count_sample = samples(curator, data)
    blurred = blur(data.n, data.d, curator.epsilon, curator.delta)
    wanted = wanted_share(data.d + UNITS.response, count_sample.n, multiplier, LEAST.counts)
    columns = float(np.clip(wanted, *LEAST.columns))
    if blurred > LEAST.newton:
        return fit_few_rows(curator, data, count_sample, target, columns)
    return _refined(curator, data, moment_sample, count_sample, target, columns, blurred)


def samples(curator: Curator, data: PrivateData) -> tuple[PrivateData, PrivateData]:
    """The rows of second moments, and those of counts and early steps: secret subsets, or all rows if there are few."""
    n = data.n
    moment_sample = data.part(curator.subset(n, n // max(1, n // (2 * SAMPLE_ROWS))))
    return moment_sample, moment_sample.part(curator.subset(n, n // max(1, n // SAMPLE_ROWS)))


def fit_few_rows(curator: Curator, data: PrivateData, count_sample: PrivateData, target: Target, columns: float) -> LinearFit:
    """Few rows for the columns: joint moments, small steps, the intercept, a check and standard errors."""
    checks = 0.5  # half of the usual shares for checks, so that more is left for the steps
    units = _units(columns, LEAST.column_squares * checks)
    multiplier = gaussian_multiplier(curator.epsilon, curator.delta)
    mean_share = (2 * JOINT.mean_clips[0] * multiplier / (LEAST.mean_noise * data.n)) ** 2
    mean, guard = Gaussian("mean residual", float(np.clip(mean_share, *LEAST.few_means))), Gaussian("gain", LEAST.guard)
    ends = Gaussian("counts of the response", LEAST.ends)
    squares = Gaussian("squares of gradients", LEAST.squares * checks)
    closer = Gaussian("faint directions", LEAST.closer * LEAST.closer_looks, count=LEAST.closer_looks)
    products = Gaussian("product counts", LEAST.products)
    left = 1.0 - sum(m.share for m in (*units, mean, guard, ends, squares, closer, products))
    moments, steps = Gaussian("joint moments", LEAST.moments * left), planned((1 - LEAST.moments) * left)
    curator.plan(*units, moments, closer, products, steps, squares, ends, guard, mean)

    joint = JointFit(curator, *_standardized(curator, units, count_sample, target))
    joint.round((moments,), data, first=True)
    for _ in range(closer.count):
        joint.look_closer(closer, data)
    descend(joint, steps, (data,), Products.counted(joint, products, data))
    joint.measure(squares, data)
    joint.limit(ends, data)
    joint.guard(guard, data)
    return joint.fit(joint.move_intercept(mean, data), 1 + steps.parts)


def _refined(
    curator: Curator,
    data: PrivateData,
    moment_sample: PrivateData,
    count_sample: PrivateData,
    target: Target,
    columns: float,
    blurred: float,
) -> LinearFit:
    """Enough rows: joint moments, then either Newton or small steps, then gradients of least squares' projection.

    Where the first round shows every direction, and rows are even and products heavy, Newton steps under narrow clips have the
    least noise, and the last gradients undo what the clips did. Otherwise these gradients only say how wide intervals must be:
    with uneven rows they have more noise than small steps leave error (``benchmarks/results/real_tables.md``).
    """
    units = _units(columns, LEAST.column_squares)
    start, even = Gaussian("joint moments 1", LEAST.start), Gaussian("squares of directions", LEAST.even)
    along = Gaussian("sizes along directions", LEAST.sizes)
    closer = Gaussian("faint directions", LEAST.closer * LEAST.closer_looks, count=LEAST.closer_looks)
    residuals = Gaussian("residual counts", COUNTS)
    means = tuple(Gaussian(f"mean residual {t + 1}", share) for t, share in enumerate(LEAST.means))
    guard = Gaussian("gain", LEAST.guard)
    ends = Gaussian("counts of the response", LEAST.ends)
    squares, counts = Gaussian("squares of gradients", LEAST.squares), LEAST.length_counts
    products = Gaussian("product counts", LEAST.products)
    fixed = (*units, start, even, along, closer, products, residuals, *means, ends, guard, squares)
    left = 1.0 - sum(m.share for m in fixed) - 3 * counts
    wide = left * float(np.clip(LEAST.wide / blurred, *LEAST.wide_shares))
    *towards_shares, second_share = (wide * part / sum(LEAST.wide_parts) for part in LEAST.wide_parts)
    towards = Projection.planned(towards_shares, counts, squares)
    steps = planned(left - wide + second_share)
    curator.plan(*units, start, even, along, closer, residuals, products, steps, *towards.mechanisms, ends, guard, *means)

    joint = JointFit(curator, *_standardized(curator, units, count_sample, target))
    joint.round((start,), moment_sample, first=True)
    residuals_even = residuals_are_even(joint, along, moment_sample)
    directions_even = directions_are_even(joint, even, moment_sample)
    sizes = Products.counted(joint, products, count_sample)
    is_even = residuals_even and directions_even and not (sizes is not None and sizes.are_light)
    if is_even:
        for _ in range(closer.count):
            curator.waive(closer)
        _take_newton_steps(joint, steps, second_share, (count_sample, moment_sample, data))
    else:
        for _ in range(closer.count):
            joint.look_closer(closer, moment_sample)
        descend(joint, steps, (count_sample, count_sample, moment_sample, data), sizes, directions_even)
    joint.limit(ends, data)
    joint.move_intercept(means[0], data)
    before = joint.w
    towards.apply(joint, data, is_even)
    joint.guard(guard, data, before)
    if tails_show := curator.noise(residuals, math.sqrt(2)) < LEAST.tail_noise * count_sample.n:
        joint.count_residuals(residuals, count_sample)
    else:
        curator.waive(residuals)
    intercept = joint.move_intercept(means[1], data, 1.0 if tails_show else LEAST.unseen)
    return joint.fit(intercept, 3 + len(towards.steps) + (LEAST.steps if is_even else steps.parts))


def _take_newton_steps(
    joint: JointFit, release: Gaussian, moments_share: float, samples: tuple[PrivateData, PrivateData, PrivateData]
) -> None:
    """Bounded Newton steps, then joint moments at the end, by parts of one planned release."""
    (count_sample, moment_sample, data), curator, steps = samples, joint.curator, LEAST.steps

    def part(name: str, share: float) -> Gaussian:
        return curator.split(release, name, share / release.share)

    moments, lengths = part("joint moments 2", moments_share), part("row length counts", COUNTS)
    residuals = [part(f"residual counts {t + 1}", COUNTS) for t in range(steps)]
    powers = LEAST.growth ** np.arange(steps)
    shares = (release.share - moments_share - (steps + 1) * COUNTS) * powers / powers.sum()
    gradients = [*(part(f"gradient {t + 1}", float(share)) for t, share in enumerate(shares[:-1])), release]
    model = Model(curator, data, moment_sample, count_sample, joint.problem)
    model.w = joint.full
    model.count_lengths(lengths)
    for t, (gradient, counts) in enumerate(zip(gradients, residuals, strict=True)):
        model.count_residuals(counts)
        model.step(gradient, release, LEAST.damping, count_sample if t < 2 else moment_sample if t < 3 else data)
    joint.start_from(model.w, model.covariance(joint.left_by(steps, LEAST.damping)), model.mean_square(LEAST.widest))
    joint.round((moments,), data, move=False)


def _units(counts: float, squares: float) -> tuple[Gaussian, ...]:
    return (*planned_counts(counts), Gaussian("column squares", squares, count=LEAST.looks))


def _standardized(curator: Curator, units: tuple[Gaussian, ...], data: PrivateData, target: Target) -> tuple[Problem, float]:
    """The problem in private units, where columns without a visible spread have an infinite scale; how heavy the response is."""
    found = widen(curator, units[-1], data, find_units(curator, units[:-1], data, True))
    level, size, reach = found.response
    frame = Frame(found.center[:-1], found.scale[:-1], 1.0, np.eye(data.d + 1))
    return Problem(target, frame, level, size if math.isfinite(size) else 1.0, reach), float(found.heavy[-1])
