"""``auto`` for linear models: told nothing, on raw columns in any unit.

1. *Units.* Private centre and scale of every column (``columns``), and a constant column.
2. *Shape.* A private second-moment matrix of rows pulled back to a ball. Its inverse root maps
   rows z to u, in which the model is about round. Rows get the weight with which they entered
   the matrix, so curvature in u is at most one whatever the data, and steps cannot overshoot.
3. *Steps.* Full-batch bounded Newton steps. A row's part is ``psi(r) v``: v depends on the
   features alone and is pulled back to a radius, and psi clips the residual. So a skewed noise
   biases the intercept but not the slopes. Clip and radius minimise the estimated error, noise
   included, which is public arithmetic on released counts of residuals and row lengths.
   The budget grows from step to step, since a step undoes most of the noise before it.
4. *Means* (squared loss only). The fit so far is a robust one; the target is E[y|x]. Further
   steps under a wide clip lead to a second fit; the slopes move towards it, the less the smaller
   its distance is beside its own error. The intercept moves by a private mean of residuals.

All releases are Gaussian, so the composition is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fattail.algorithms.parts.columns import ROUNDS, all_hidden
from fattail.algorithms.parts.linear_rows import WIDEST, LinearFit, Problem, Singles, Target, Units, prepare, reshape
from fattail.algorithms.parts.support_fit import centre, centre_plan
from fattail.algorithms.registry import registered
from fattail.losses import Huber, Logistic, Needs, Squared
from fattail.privacy import Curator, Gaussian
from fattail.privacy.calibration import gaussian_multiplier
from fattail.robust import Ball, Clip
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

# Constants were tuned on gamma, Pareto, correlated t(4) and mixed-unit features with Gaussian, t(2.5) and
# Pareto noise. The benchmark's own laws and tables were looked at during design, so they are not held out.
COUNTS, WIDE = 0.006, 0.4  # shares: each set of counts, and all of movement 4
MOST_COLUMNS, MOST_SHAPE = 0.12, 0.15  # shares at most, reached when n is small
PER_OCTAVE = 2
ENOUGH = 100_000  # rows for counts and early steps; moments and later steps take twice as many, the last all
LOWEST, OCTAVES = -12, 32  # of counts of residuals and row lengths, in their units


@dataclass(frozen=True)
class Budget:
    """Shares of the releases; public arithmetic on n, the number of columns and the noise multiplier."""

    columns: float
    moments: float
    radius: float
    blur: float
    """Size of the noise in the moments, relative to what it blurs; beyond two, only directions that stand out are kept."""

    @classmethod
    def of(cls, few: int, some: int, p: int, multiplier: float) -> Budget:
        """Counts are over ``few`` rows, moments over ``some``."""
        # Counts are wanted to within half a percent of n, moments to a twentieth of their size.
        columns = ROUNDS * 2 * p * (multiplier / (0.005 * few)) ** 2
        spectral = math.sqrt(2) * p / some * math.sqrt(2 * p) * multiplier
        radius = min(max(math.sqrt(0.05 * math.sqrt(MOST_SHAPE) / spectral), 1.5), 4.0)
        moments = min(max((radius**2 * spectral / 0.05) ** 2, 0.01), MOST_SHAPE)
        return cls(min(max(columns, 0.01), MOST_COLUMNS), moments, radius, radius**2 * spectral / math.sqrt(moments))

    @property
    def exact(self) -> bool:
        """Counts over few rows cost little, so that steps over fewer would do."""
        return self.columns <= 0.03

    @property
    def sharp(self) -> bool:
        return self.blur <= 0.06

    @property
    def roomy(self) -> bool:
        """Rows fit the radius even in units of a renewed shape, where they are longer: else a third shape is one of stumps."""
        return self.sharp and self.radius >= 2

    @property
    def lost(self) -> bool:
        """Most directions are lost in the noise of the moments."""
        return self.blur > 2

    def pace(self, logistic: bool) -> tuple[int, float, float]:
        """Number of steps, their damping and the growth of their budget.

        Sharp moments allow few and bold steps. A label's curvature changes with the fit, so its steps
        are as bold as the blur allows.
        """
        if logistic:
            return 7 if self.roomy else 8, min(max(0.95 - 2.0 * self.blur, 0.5), 0.9), 2.0
        return (5, 0.85, 3.0) if self.sharp else (8, 0.65, 2.0)


@registered(
    "auto",
    estimators=("DPLinearRegression", "DPHuberRegressor", "DPLogisticRegression"),
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
    some = data.part(curator.subset(n, n // max(1, n // (2 * ENOUGH))))
    few = some.part(curator.subset(n, n // max(1, n // ENOUGH)))
    budget = Budget.of(few.n, some.n, p, gaussian_multiplier(curator.epsilon, curator.delta))
    steps, damping, growth = budget.pace(logistic)
    # A label's curvature falls as the fit grows, so its shape is taken anew: more often where that is cheap.
    # A Huber loss gains curvature as the fit settles; there a renewed shape makes steps too long.
    renewed = () if not logistic else (2, 4) if budget.roomy else (4,)
    shapes = 1 + len(renewed)
    units = Units.planned(p, budget.columns, budget.moments, budget.radius, shapes)
    lengths = Gaussian("row length counts", COUNTS * shapes, count=shapes)
    residuals = Gaussian("residual counts", COUNTS * steps, count=steps)
    wide = Wide.planned(1 if budget.lost else 3, damping, growth) if isinstance(target.loss, Squared) else None
    fixed = [*units.mechanisms(p), lengths, *(() if logistic else (residuals,)), *(wide.mechanisms if wide else ())]
    shares = (1.0 - sum(m.share for m in fixed)) * growth ** np.arange(steps) / np.sum(growth ** np.arange(steps))
    gradients = [Gaussian(f"gradient {t + 1}", float(share)) for t, share in enumerate(shares)]
    curator.plan(*fixed, *gradients)

    problem = prepare(curator, units, some, target, few, visible=budget.lost)
    half = few.part(curator.subset(n, few.n // 2)) if logistic and budget.exact and few.n < n else few
    parts = _parts(data, some, few, half, steps, logistic)
    model = Model(curator, data, some, parts[0], problem)
    model.count_lengths(lengths)
    for t, gradient in enumerate(gradients):
        if t in renewed:
            model.reshape(units.moments)
            model.count_lengths(lengths)
        if not logistic:
            model.count_residuals(residuals)
        model.step(gradient, gradients[-1], damping, parts[t])
    if wide:
        wide.apply(model)
    return model.fit(steps)


def hopeless(n: int, d: int, epsilon: float, delta: float) -> bool:
    """Whether so few rows cannot show the scale of any column, whatever the data: public arithmetic."""
    return all_hidden(n, d + 1, MOST_COLUMNS, gaussian_multiplier(epsilon, delta))


def intercept_only(curator: Curator, data: PrivateData, target: Target) -> LinearFit:
    """The model without columns, for the whole budget and in few passes. Nothing is known of coefficients, so no covariance."""
    plan = centre_plan(target.loss)
    curator.plan(*plan)
    level = centre(curator, data, target.loss, plan)
    return LinearFit(np.zeros(data.d), level * target.intercept, 0)


@dataclass(frozen=True)
class Choice:
    """Bounds of a step, and the curvature and mean square of a row's part under them."""

    clip: float
    radius: float
    curvature: float
    square: float


class Model:
    """Iterates of a fit, all of them public."""

    def __init__(self, curator: Curator, data: PrivateData, some: PrivateData, few: PrivateData, problem: Problem) -> None:
        self.curator, self.data, self.some, self.few, self.problem = curator, data, some, few, problem
        self.p = problem.p
        self.w = problem.start
        self.bend = problem.loss.curvature  # of the loss where the shape was taken, in units of u
        self.renewals = 0
        self.lengths = self.residuals = (np.zeros(1), np.ones(1))
        self.noise = self.sampling = 0.0  # variances of w, per coordinate of u
        self.intercept = 0.0  # further variance of the intercept

    def reshape(self, release: Gaussian) -> None:
        """Second moments weighted with the loss's curvature at the present fit."""
        if self.p <= WIDEST:
            self.problem = reshape(self.curator, release, self.some, self.problem, self.w)
            self.bend, self.renewals = 1.0, self.renewals + 1

    def count_lengths(self, release: Gaussian) -> None:
        """Distribution of the lengths of u."""
        frame, unit = self.problem.frame, math.sqrt(self.p)
        codes = _codes(lambda block: frame.rows(block)[2] / unit)
        share, length = _distribution(self.curator, release, self.few, codes)
        self.lengths = share, length * unit

    def count_residuals(self, release: Gaussian) -> None:
        problem, w = self.problem, self.w
        codes = _codes(lambda block: problem.response(block) - problem.frame.predict(block, w))
        self.residuals = _distribution(self.curator, release, self.few, codes)

    def step(self, gradient: Gaussian, reference: Gaussian, damping: float, data: PrivateData) -> None:
        """One bounded Newton step, with the bounds that are best for the noise of the ``reference`` release."""
        n = self.data.n
        best = _best(self, self.curator.noise(reference, 2.0 / n))
        released = self.gradient(gradient, best, data)
        noise = self.curator.noise(gradient, 2.0 / data.n) * best.clip * best.radius
        # A step of noise would throw predictions by more than later steps can undo.
        damping = min(damping, 2 * damping * best.curvature / (math.sqrt(self.p) * noise))
        self.w = self.problem.move(self.w, -released, damping / best.curvature)
        self.noise = (1 - damping) ** 2 * self.noise + (damping * noise / best.curvature) ** 2
        # In units of a renewed shape a row has one unit of information: no estimate varies less than it allows.
        self.sampling = max(best.square / best.curvature**2, 1.0 if self.renewals else 0.0) / n

    def gradient(self, release: Gaussian, best: Choice, data: PrivateData) -> Floats:
        """Mean of clipped residuals times pulled-back rows."""
        problem, w = self.problem, self.w

        def rows(block: Block) -> tuple[Singles, Floats]:
            u, weight, length = problem.frame.rows(block)
            response, prediction = problem.response(block), problem.frame.predict(block, w)
            if problem.target.logistic:  # labels are 0 or 1, so a residual is at most max(p, 1 - p)
                chance = expit(prediction)
                slope, length = response - chance, length * np.maximum(chance, 1 - chance)
            else:
                slope = np.clip(response - prediction, -best.clip, best.clip)
            return u, slope * weight * np.minimum(1.0, best.radius / np.maximum(length, 1e-300))

        mean = Ball(radius=best.clip * best.radius).mean(data, rows, width=self.p)
        return self.curator.release(release, mean)

    def mean_row(self, release: Gaussian, radius: float) -> Floats:
        """Mean of pulled-back rows."""
        frame = self.problem.frame
        mean = Ball(radius=radius).mean(self.few, lambda b: frame.rows(b)[:2], width=self.p)
        return self.curator.release(release, mean)

    def fit(self, steps: int) -> LinearFit:
        covariance = self.problem.spread(self.noise + self.sampling)
        covariance[-1, -1] += self.intercept
        return self.problem.solution(self.w, steps, covariance)


@dataclass(frozen=True)
class Wide:
    """Movement 4: from the robust fit towards conditional means."""

    tails: Gaussian
    row: Gaussian
    slopes: tuple[Gaussian, ...]
    intercept: Gaussian
    damping: float

    @classmethod
    def planned(cls, steps: int, damping: float, growth: float) -> Wide:
        shares = 0.75 * WIDE * growth ** np.arange(steps) / np.sum(growth ** np.arange(steps))
        return cls(
            Gaussian("residual tails", 0.1 * WIDE, count=steps + 2),
            Gaussian("mean row", 0.05 * WIDE),
            tuple(Gaussian(f"wide gradient {t + 1}", float(share)) for t, share in enumerate(shares)),
            Gaussian("mean residual", 0.1 * WIDE, count=2),
            damping if steps > 1 else 1.0,
        )

    @property
    def mechanisms(self) -> tuple[Gaussian, ...]:
        return self.tails, self.row, *self.slopes, self.intercept

    def _reach(self, model: Model) -> float:
        """Upper edge of the highest octave of residuals that is seen."""
        problem, w = model.problem, model.w
        codes = _codes(lambda block: problem.frame.predict(block, w) - problem.response(block), 1)
        counts = Histogram(OCTAVES).counts(model.few, codes)
        released = model.curator.release(self.tails, counts)[0]
        seen = np.flatnonzero(_seen(released, model.curator.noise(self.tails, math.sqrt(2)), 1))
        return math.ldexp(1.0, LOWEST + (int(seen[-1]) + 1 if len(seen) else 1 - LOWEST))

    def apply(self, model: Model) -> None:
        self._move_intercept(model)
        self._move_slopes(model)
        self._move_intercept(model)

    def _move_slopes(self, model: Model) -> None:
        n, p, curator, start, radius = model.data.n, model.p, model.curator, model.w, math.sqrt(model.p)
        share, size = model.residuals
        weight, length = model.lengths
        pulled = np.minimum(length, radius)
        curvature = max(float(weight @ (pulled * length)), 1e-12) / max(float(weight @ length**2), 1e-12)
        # A skewed noise leaves a mean even under a wide clip; it points along the mean row.
        constant = model.mean_row(self.row, radius)
        constant /= max(float(np.linalg.norm(constant)), 1e-300)
        noise = clip = 0.0
        for release in self.slopes:
            clip = self._reach(model)
            released = model.gradient(release, Choice(clip, radius, 1.0, 1.0), model.data)
            released -= constant * (constant @ released)
            model.w = model.problem.move(model.w, -released, self.damping / curvature)
            noise = (1 - self.damping) ** 2 * noise + (self.damping * curator.noise(release, 2 * clip * radius / n)) ** 2
        change = model.problem.in_u(model.w - start)
        # Error of a coordinate: privacy noise, and sampling under the wide clip.
        square = float(share @ np.minimum(size, clip) ** 2) * float(weight @ pulled**2) / p
        error = (noise + square / n) / curvature**2
        keep = max(0.0, 1.0 - 2.0 * p * error / max(float(change @ change), 1e-300))
        model.w = model.problem.move(start + keep * model.problem.frame.shape.T @ change, np.zeros(p), 0.0)
        model.noise = (1 - keep) ** 2 * model.noise + keep**2 * error

    def _move_intercept(self, model: Model) -> None:
        n, curator, problem, w = model.data.n, model.curator, model.problem, model.w
        share, size = model.residuals
        clip = 2 * self._reach(model)

        def residual(block: Block) -> tuple[Floats, None]:
            return (problem.response(block) - problem.frame.predict(block, w))[:, None], None

        shift = curator.release(self.intercept, Clip(bound=clip).mean(model.data, residual, width=1).to("l2"))
        model.w = np.append(w[:-1], w[-1] + shift[0])
        model.intercept = curator.noise(self.intercept, 2 * clip / n) ** 2 + float(share @ np.minimum(size, clip) ** 2) / n


def _parts(
    data: PrivateData, some: PrivateData, few: PrivateData, half: PrivateData, steps: int, logistic: bool
) -> list[PrivateData]:
    """Rows of each step: later steps undo most of the error of the first ones, which need few, or ``half`` of them."""
    if not logistic:
        return [few] * (steps // 2) + [some] * (steps - steps // 2 - 3) + [data] * 3
    if half is not few:
        return [half] * (steps - 4) + [few, few, some, data]
    return [few] * (steps - 3) + [some, some, data]


def _codes(values: Any, per_octave: int = PER_OCTAVE) -> Any:
    """Cell of a magnitude: octaves from ``LOWEST``, each cut into equal parts."""

    def codes(block: Block) -> Floats:
        mantissa, exponent = np.frexp(np.abs(values(block)))
        inside = per_octave * (exponent - 1.0 - LOWEST) + np.floor(per_octave * (2.0 * mantissa - 1.0))
        return np.where(mantissa > 0, inside, 0.0)[:, None]

    return codes


def _distribution(curator: Curator, release: Gaussian, data: PrivateData, codes: Any) -> tuple[Floats, Floats]:
    """Released shares of rows by cell, and the middles of the cells."""
    cells = OCTAVES * PER_OCTAVE
    counts = curator.release(release, Histogram(cells).counts(data, codes))[0]
    shares = np.where(_seen(counts, curator.noise(release, math.sqrt(2)), PER_OCTAVE), counts, 0.0)
    k = np.arange(cells)
    middles = np.ldexp(1.0 + (k % PER_OCTAVE + 0.5) / PER_OCTAVE, LOWEST + k // PER_OCTAVE)
    return shares / max(float(shares.sum()), 1.0), middles


def _seen(counts: Floats, noise: float, per_octave: int) -> NDArray[np.bool_]:
    """Cells that hold rows: those beyond doubt, and within an octave of one the likely ones.

    Tails fall by degrees, so a lone count far from all others is noise more often than rows; one
    believed in thousands of fits would set the clip a million times too wide.
    """
    certain = np.convolve(counts > 6.5 * noise, np.ones(2 * per_octave + 1), "same") > 0
    return certain & (counts > 4 * noise)


def _best(model: Model, noise: float) -> Choice:
    """Clip and radius of least estimated error.

    The squared error of a Newton step, per coordinate of u, is the variance of a row's part over n
    plus that of the noise, over the curvature squared. Row lengths count as if u were round.
    """
    share, length = model.lengths
    total = max(float(share @ length**2), 1e-12)
    radii = math.sqrt(model.p) * 2.0 ** np.arange(-1.0, 3.01, 0.5)
    pulled = np.minimum(length, radii[:, None])
    curvature = np.maximum(pulled @ (share * length) / total, 0.02)
    variance = pulled**2 @ share
    if model.problem.target.logistic:
        # A label's variance is the curvature of its loss, which the second matrix contains.
        clips, kept, square = np.ones(1), np.full(1, model.bend), np.full(1, model.bend)
        variance = variance / total
    else:
        share, size = model.residuals
        clips = (
            2.0 ** np.arange(-10.0, 10.01, 0.5) if math.isinf(model.problem.loss.slope) else np.array([model.problem.loss.slope])
        )
        kept = np.array([share[size <= c].sum() for c in clips])
        square = np.array([share @ np.minimum(size, c) ** 2 for c in clips])
        variance = variance / model.p
    error = square[:, None] * variance / model.data.n + (noise * clips[:, None] * radii) ** 2
    # A clip below the first quartile of residuals has too little curvature to trust.
    error = np.where(kept[:, None] >= 0.25, error / (np.maximum(kept, 0.02)[:, None] * curvature) ** 2, math.inf)
    if not np.any(np.isfinite(error)):
        return Choice(float(clips[len(clips) // 2]), math.sqrt(model.p), 0.5, 1.0)
    i, j = np.unravel_index(int(np.argmin(error)), error.shape)
    kept_curvature = float(max(kept[i], 0.02) * curvature[j])
    if model.renewals > 1:
        # Rows whose label is all but certain are by now the longest, and have no curvature to lose.
        kept_curvature = max(kept_curvature, 0.7)
    return Choice(float(clips[i]), float(radii[j]), kept_curvature, float(square[i] * variance[j]))
