"""``auto`` for linear models: told nothing, on raw columns in any unit.

Least squares with many columns for the rows is in ``many_columns.py``. With more rows, `least_squares` takes as many releases as
public arithmetic on rows, columns and budget allows:

1. *Units* of all columns (``fattail.columns.units``).
2. *Joint moments* of rows and residuals, two rounds (``parts/joint_moments.py``). With few rows for the columns that is all
   but the intercept, a check that the fit is better than none, and standard errors.
3. With more rows, one round tells whether all directions show, and evenly. If so, its shape is good for bounded Newton steps
   (``parts/newton.py``); else the same budget buys a better second round.
4. *Steps towards least squares' projection* (``parts/projection.py``): what pulling rows back has hidden enters the answer
   where it shows, and the intervals where it may be.

Robust and logistic models, and models with a penalty, a ball or no intercept, take Newton steps throughout:

1. *Units*, then *shape*: a private second-moment matrix of rows pulled back to a ball. Its inverse root maps rows z to u,
   in which the model is about round. Rows get the weight with which they entered the matrix, so curvature in u is at most
   one whatever the data, and steps cannot overshoot.
2. *Steps*, whose budget grows, since a step undoes most of the noise before it. A label's shape is renewed on the way.

All releases are Gaussian, so the composition is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.auto.many_columns import fit_along_directions, has_many_columns
from fattail.algorithms.parts.columns import ROUNDS, all_hidden
from fattail.algorithms.parts.joint_moments import JointFit
from fattail.algorithms.parts.label_scale import rescale
from fattail.algorithms.parts.linear_rows import LINEAR, WIDEST, Frame, LinearFit, Problem, Target, Units, prepare
from fattail.algorithms.parts.newton import MeanCorrection, Model
from fattail.algorithms.parts.projection import Projection
from fattail.algorithms.parts.support_fit import center, center_plan
from fattail.algorithms.registry import registered
from fattail.columns.units import DEFAULTS as UNITS
from fattail.columns.units import find_units, widen
from fattail.losses import Huber, Logistic, Needs, Squared
from fattail.privacy import Curator, Gaussian
from fattail.privacy.calibration import gaussian_multiplier
from fattail.robust import Clip
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

# Constants of the Newton path were tuned on gamma, Pareto, correlated t(4) and mixed-unit features with Gaussian, t(2.5) and
# Pareto noise. The benchmark's own laws and tables were looked at during design, so they are not held out.
COUNTS = 0.006  # share of each set of counts
SLOPES = 0.06  # share of the common factor of slopes of labels
POSITIVES = 0.03  # share of the share of positive labels
MOST_COLUMNS, MOST_SHAPE = 0.12, 0.15  # shares at most, reached when n is small
ENOUGH = 100_000  # rows for counts and early steps; moments and later steps take twice as many, the last all


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
    mean: float = 0.03
    """Share for the intercept."""
    guard: float = 0.02
    """Share for the check that the fit is better than none."""
    typical: float = 1.3
    """Squared radius of the joint moments over the number of columns, in the blur sqrt(2 p) 1.3 p / (n mu)."""
    newton: float = 0.06
    """Blur up to which steps can follow the joint moments."""
    rounds: tuple[float, float] = (0.4, 0.6)
    """Division of the budget among the rounds, where they are all."""
    start: float = 0.2
    """Share of the round before Newton steps."""
    even: float = 0.02
    """Share of the squares of directions that decide how to go on."""
    heavy: float = 1.3
    """What unseen rows may add to a column's root mean square, as a factor, from which on a faint coefficient is given up."""
    reach: float = 2.0
    """Scales of the response around its center that predictions may reach at least, whatever the counts show."""
    faint: float = 2.0
    """Standard errors below which a coefficient is faint."""
    steps: int = 6
    damping: float = 0.65
    growth: float = 2.0
    widest: float = 10.0
    """Clip of the mean square residual after Newton steps, in units of the residuals before them."""
    length_counts: float = 0.01
    """Share of each set of counts of gradient lengths."""
    wide: float = 0.015
    """Share, times the blur, of what leads from there to least squares' projection ..."""
    wide_shares: tuple[float, float] = (0.15, 0.6)
    """... at least and at most."""
    wide_parts: tuple[float, float, float] = (1.0, 4.0, 2.0)
    """Its division: the gradients, then the moments before them."""


LEAST = LeastSquaresDefaults()


@dataclass(frozen=True)
class NewtonDefaults:
    """Constants of Newton steps for robust and logistic models, tuned on the laws that are named above `COUNTS`.

    Vary them with ``benchmarks/regression.py --only linear,logistic``.
    """

    count_error: float = 0.005
    """Noise of column counts that is wanted, as a share of the rows."""
    moment_error: float = 0.05
    """Noise of the second moments that is wanted, as a share of their size."""
    radius: tuple[float, float] = (1.5, 4.0)
    """Least and largest radius of the ball for second moments, in lengths of a typical row."""
    least_share: float = 0.01
    """Of column counts, and of second moments."""
    cheap_counts: float = 0.03
    """Share of column counts up to which counts over few rows are precise."""
    precise_blur: float = 0.06
    """Blur up to which second moments count as precise."""
    damping: tuple[float, float, float] = (0.5, 0.95, 0.9)
    """For labels: least damping, damping without blur, largest damping."""
    precise_pace: tuple[int, float, float] = (5, 0.85, 3.0)
    """Steps, damping and growth of the budget with precise moments ..."""
    pace: tuple[int, float, float] = (8, 0.65, 2.0)
    """... and with others."""


NEWTON = NewtonDefaults()


@dataclass(frozen=True)
class NewtonShares:
    """Shares of the releases; public arithmetic on n, the number of columns and the noise multiplier."""

    columns: float
    moments: float
    radius: float
    blur: float
    """Size of the noise in the moments, relative to what it blurs; beyond two, only directions that stand out are used."""

    @classmethod
    def of(cls, count_rows: int, moment_rows: int, p: int, multiplier: float) -> NewtonShares:
        """Counts are over ``count_rows`` rows, moments over ``moment_rows``."""
        columns = ROUNDS * 2 * p * (multiplier / (NEWTON.count_error * count_rows)) ** 2
        spectral = math.sqrt(2) * p / moment_rows * math.sqrt(2 * p) * multiplier
        low, high = NEWTON.radius
        radius = min(max(math.sqrt(NEWTON.moment_error * math.sqrt(MOST_SHAPE) / spectral), low), high)
        moments = min(max((radius**2 * spectral / NEWTON.moment_error) ** 2, NEWTON.least_share), MOST_SHAPE)
        columns = min(max(columns, NEWTON.least_share), MOST_COLUMNS)
        return cls(columns, moments, radius, radius**2 * spectral / math.sqrt(moments))

    @property
    def counts_are_precise(self) -> bool:
        """Counts over few rows cost little, so steps over fewer rows are enough."""
        return self.columns <= NEWTON.cheap_counts

    @property
    def moments_are_precise(self) -> bool:
        return self.blur <= NEWTON.precise_blur

    @property
    def radius_is_generous(self) -> bool:
        """Rows fit the radius even in units of a renewed shape, where they are longer.

        Otherwise most rows exceed the radius and the third second-moment matrix is useless.
        """
        return self.moments_are_precise and self.radius >= 2

    @property
    def moments_are_noise(self) -> bool:
        """Most directions are lost in the noise of the moments."""
        return self.blur > 2

    def pace(self, logistic: bool) -> tuple[int, float, float]:
        """Number of steps, their damping and the growth of their budget.

        Precise moments allow few and long steps. A label's curvature changes with the fit, so its steps are as long as the
        blur allows.
        """
        if logistic:
            least, clean, most = NEWTON.damping
            return 7 if self.radius_is_generous else 8, min(max(clean - 2.0 * self.blur, least), most), 2.0
        return NEWTON.precise_pace if self.moments_are_precise else NEWTON.pace


@registered(
    "auto",
    estimators=LINEAR,
    paper="fattail",
    algorithm="-",
    changed="not from a paper: private units, matched second moments, bounded Newton steps",
    test="tests/contracts/test_methods.py",
    needs=Needs(only=(Squared, Huber, Logistic), because="whose curvature its steps are made for"),
)
def auto_linear(curator: Curator, data: PrivateData, target: Target) -> LinearFit:
    """Fit a linear model; a ``Huber`` loss of infinite threshold leaves the threshold to the data.

    Notes
    -----
    *Privacy.* Each release is a ``Histogram``, a ``Gram`` or a mean of ``Ball``- or
    ``Clip``-bounded rows; all else is arithmetic on releases.
    """
    n, p, logistic = data.n, data.d + 1, target.logistic
    if hopeless(n, data.d, curator.epsilon, curator.delta):
        return intercept_only(curator, data, target)
    if isinstance(target.loss, Squared) and target.is_plain and has_many_columns(n, data.d, curator.epsilon, curator.delta):
        return fit_along_directions(curator, data, target)
    if isinstance(target.loss, Squared) and target.is_plain and p <= WIDEST:
        return least_squares(curator, data, target)
    moment_sample, count_sample = _samples(curator, data)
    newton = NewtonShares.of(count_sample.n, moment_sample.n, p, gaussian_multiplier(curator.epsilon, curator.delta))
    steps, damping, growth = newton.pace(logistic)
    # A label's curvature falls as the fit grows, so its shape is taken anew: more often where that is cheap.
    # A Huber loss gains curvature as the fit settles; there a renewed shape makes steps too long.
    renewed = () if not logistic else (2, 4) if newton.radius_is_generous else (4,)
    shapes = 1 + len(renewed)
    units = Units.planned(p, newton.columns, newton.moments, newton.radius, shapes)
    lengths = Gaussian("row length counts", COUNTS * shapes, count=shapes)
    residuals = Gaussian("residual counts", COUNTS * steps, count=steps)
    wide = (
        MeanCorrection.planned(1 if newton.moments_are_noise else 3, damping, growth)
        if isinstance(target.loss, Squared)
        else None
    )
    positives = (Gaussian("share of positives", POSITIVES),) if logistic and target.is_plain else ()
    scales = tuple(Gaussian("factor of the slopes", SLOPES) for _ in positives)
    calibrated = tuple(Gaussian("mean prediction", POSITIVES, count=2) for _ in positives)
    fixed = [
        *units.mechanisms(p),
        lengths,
        *positives,
        *scales,
        *calibrated,
        *(() if logistic else (residuals,)),
        *(wide.mechanisms if wide else ()),
    ]
    shares = (1.0 - sum(m.share for m in fixed)) * growth ** np.arange(steps) / np.sum(growth ** np.arange(steps))
    gradients = [Gaussian(f"gradient {t + 1}", float(share)) for t, share in enumerate(shares)]
    curator.plan(*fixed, *gradients)

    problem = prepare(curator, units, moment_sample, target, count_sample, visible=newton.moments_are_noise)
    half_sample = (
        count_sample.part(curator.subset(n, count_sample.n // 2))
        if logistic and newton.counts_are_precise and count_sample.n < n
        else count_sample
    )
    parts = _parts(data, moment_sample, count_sample, half_sample, steps, logistic)
    model = Model(curator, data, moment_sample, parts[0], problem)
    share = share_of_positives(curator, positives[0], data) if positives else 0.5
    if positives:
        model.balance(share)
    model.count_lengths(lengths)
    for t, gradient in enumerate(gradients):
        if t in renewed:
            model.reshape(units.moments)
            model.count_lengths(lengths)
        if not logistic:
            model.count_residuals(residuals)
        model.step(gradient, gradients[-1], damping, parts[t])
        if logistic and model.is_rare_or_noise:
            model.shrink()
    for release in scales:
        rescale(model, release)
    for release in calibrated:
        model.calibrate(release, share)
    if wide:
        wide.apply(model)
    return model.fit(steps)


def least_squares(curator: Curator, data: PrivateData, target: Target) -> LinearFit:
    """Least squares: as many releases as the rows can carry, by public arithmetic on n, p and the budget."""
    p, multiplier = data.d + 1, gaussian_multiplier(curator.epsilon, curator.delta)
    moment_sample, count_sample = _samples(curator, data)
    blur = LEAST.typical * p * math.sqrt(2 * p) * multiplier / data.n
    columns = float(np.clip(8 * p * (multiplier / (LEAST.counts * count_sample.n)) ** 2, *LEAST.columns))
    if blur > LEAST.newton:
        return _from_moments(curator, data, count_sample, target, columns)
    return _refined(curator, data, moment_sample, count_sample, target, columns, blur)


def _samples(curator: Curator, data: PrivateData) -> tuple[PrivateData, PrivateData]:
    """The rows of second moments, and those of counts and early steps: secret subsets, or all rows if there are few."""
    n = data.n
    moment_sample = data.part(curator.subset(n, n // max(1, n // (2 * ENOUGH))))
    return moment_sample, moment_sample.part(curator.subset(n, n // max(1, n // ENOUGH)))


def _from_moments(curator: Curator, data: PrivateData, count_sample: PrivateData, target: Target, columns: float) -> LinearFit:
    """Few rows for the columns: two rounds of joint moments, the intercept, a check and standard errors."""
    checks = 0.5  # all that can be spared goes into the moments
    units = _units(columns, LEAST.column_squares * checks)
    mean, guard = Gaussian("mean residual", LEAST.mean * checks), Gaussian("gain", LEAST.guard * checks)
    squares = Gaussian("squares of gradients", LEAST.squares * checks)
    left = 1.0 - sum(m.share for m in (*units, mean, guard, squares))
    rounds = [Gaussian(f"joint moments {t + 1}", left * share) for t, share in enumerate(LEAST.rounds)]
    curator.plan(*units, *rounds, squares, guard, mean)

    joint = JointFit(curator, _standardized(curator, units, count_sample, target)[0])
    for release in rounds:
        joint.round((release,), data, first=release is rounds[0])
    joint.measure(squares, data)
    return _finished(joint, data, guard, mean, None, len(rounds))


def _refined(
    curator: Curator,
    data: PrivateData,
    moment_sample: PrivateData,
    count_sample: PrivateData,
    target: Target,
    columns: float,
    blur: float,
) -> LinearFit:
    """Enough rows: joint moments, then either Newton steps or more moments, then steps towards least squares' projection.

    Where the first round shows every direction, Newton steps under narrow clips have the least noise. Where one is lost or
    faint, they would be steps in a wrong shape, and another round of moments does better
    (``benchmarks/results/real_tables.md``: the KEGG table and the latitude of houses).
    """
    units = _units(columns, LEAST.column_squares)
    start, even = Gaussian("joint moments 1", LEAST.start), Gaussian("squares of directions", LEAST.even)
    lengths, residuals = (
        Gaussian("row length counts", COUNTS),
        Gaussian("residual counts", COUNTS * LEAST.steps, count=LEAST.steps),
    )
    mean, guard = Gaussian("mean residual", LEAST.mean, count=2), Gaussian("gain", LEAST.guard)
    squares, counts = Gaussian("squares of gradients", LEAST.squares), LEAST.length_counts
    left = 1.0 - sum(m.share for m in (*units, start, even, lengths, residuals, mean, guard, squares)) - 3 * counts
    wide = left * float(np.clip(LEAST.wide / blur, *LEAST.wide_shares))
    *steps, second_share = (wide * part / sum(LEAST.wide_parts) for part in LEAST.wide_parts)
    second, towards = Gaussian("joint moments 2", second_share), Projection.planned(steps, counts, squares)
    powers = LEAST.growth ** np.arange(LEAST.steps)
    gradients = [Gaussian(f"gradient {t + 1}", float((left - wide) * a / powers.sum())) for t, a in enumerate(powers)]
    curator.plan(*units, start, even, lengths, residuals, second, *gradients, *towards.mechanisms, guard, mean)

    problem, heavy = _standardized(curator, units, count_sample, target)
    joint = JointFit(curator, problem)
    joint.round((start,), moment_sample, first=True)
    is_even = joint.is_even(even, moment_sample)
    if is_even:
        model = Model(curator, data, moment_sample, count_sample, joint.problem)
        model.w = joint.full
        model.count_lengths(lengths)
        for t, gradient in enumerate(gradients):
            model.count_residuals(residuals)
            model.step(gradient, gradients[-1], LEAST.damping, count_sample if t < 2 else moment_sample if t < 3 else data)
        joint.start_from(model.w, model.covariance(joint.left_by(LEAST.steps, LEAST.damping)), model.mean_square(LEAST.widest))
        joint.round((second,), data, move=False)
    else:
        for mechanism in (lengths, residuals):
            for _ in range(mechanism.count):
                curator.waive(mechanism)
        joint.round(gradients[:-1], data)
        joint.round((gradients[-1], second), data)
    joint.move_intercept(mean, data)
    before = joint.w
    towards.apply(joint, data, is_even)
    if not is_even:
        joint.drop(heavy, LEAST.heavy, LEAST.faint)
    return _finished(joint, data, guard, mean, before, 3 + len(steps) + LEAST.steps * is_even)


def _units(counts: float, squares: float) -> tuple[Gaussian, ...]:
    rounds = (Gaussian(f"column counts {t + 1}", counts * share) for t, share in enumerate(UNITS.shares))
    return (*rounds, Gaussian("column squares", squares, count=LEAST.looks))


def _standardized(curator: Curator, units: tuple[Gaussian, ...], data: PrivateData, target: Target) -> tuple[Problem, Floats]:
    """The problem in private units, where columns without a visible spread have an infinite scale; how heavy columns may be."""
    found = find_units(curator, units[:-1], data, True)
    for _ in range(units[-1].count):
        found = widen(curator, units[-1], data, found)
    level, size = float(found.center[-1]), float(found.scale[-1])
    scale = found.scale[:-1]
    frame = Frame(found.center[:-1], scale, 1.0, np.eye(data.d + 1))
    if not math.isfinite(size):
        return Problem(target, frame, level), found.heavy[:-1]
    low, high = found.reach[-1].tolist()
    reach = min(low, level - LEAST.reach * size), max(high, level + LEAST.reach * size)
    return Problem(target, frame, level, size, reach), found.heavy[:-1]


def _finished(
    joint: JointFit, data: PrivateData, guard: Gaussian, mean: Gaussian, before: Floats | None, n_iter: int
) -> LinearFit:
    joint.guard(guard, data, before)
    intercept = joint.move_intercept(mean, data)
    return joint.fit(intercept, n_iter)


def hopeless(n: int, d: int, epsilon: float, delta: float) -> bool:
    """Whether so few rows cannot show the scale of any column, whatever the data: public arithmetic."""
    return all_hidden(n, d + 1, MOST_COLUMNS, gaussian_multiplier(epsilon, delta))


def intercept_only(curator: Curator, data: PrivateData, target: Target) -> LinearFit:
    """The model without columns, for the whole budget and in few passes. Nothing is known of coefficients, so no covariance."""
    plan = center_plan(target.loss)
    curator.plan(*plan)
    level = center(curator, data, target.loss, plan)
    return LinearFit(np.zeros(data.d), level * target.intercept, 0)


def share_of_positives(curator: Curator, release: Gaussian, data: PrivateData) -> float:
    """Released share of ones among labels, taken to be no closer to 0 and 1 than its noise or one row."""

    def labels(block: Block) -> tuple[Floats, None]:
        return np.asarray(block.y, dtype=np.float64)[:, None], None

    mean = Clip(center=0.5, bound=0.5).mean(data, labels, width=1).to("l2")
    least = min(max(curator.noise(release, mean.sensitivity), 1.0 / data.n), 0.5)
    return float(np.clip(curator.release(release, mean)[0], least, 1.0 - least))


def _parts(
    data: PrivateData, moment_sample: PrivateData, count_sample: PrivateData, half_sample: PrivateData, steps: int, logistic: bool
) -> list[PrivateData]:
    """Rows of each step: later steps undo most of the error of the first ones, which need few, or ``half`` of them."""
    if not logistic:
        return [count_sample] * (steps // 2) + [moment_sample] * (steps - steps // 2 - 3) + [data] * 3
    if half_sample is not count_sample:
        return [half_sample] * (steps - 4) + [count_sample, count_sample, moment_sample, data]
    return [count_sample] * (steps - 3) + [moment_sample, moment_sample, data]
