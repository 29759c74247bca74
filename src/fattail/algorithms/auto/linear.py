"""``auto`` for linear models: no declared bounds, raw columns in any unit.

Plain least squares is in ``auto/least_squares.py``, with many columns for the rows in ``auto/many_columns.py``, plain logistic
regression in ``auto/labels.py``. Robust models, models with a penalty, a ball or no intercept, and labels of more than 500
columns take Newton steps (`auto_linear`):

1. *Units*, then *shape*: a private second-moment matrix of rows pulled back to a ball. Its inverse root maps rows z to u,
   in which second moments are about the identity. Rows get the weight with which they entered the matrix, so curvature in u is
   at most one whatever the data, and steps cannot overshoot.
2. *Steps*, whose budget grows, since a step undoes most of the noise before it. The shape for labels is renewed on the way.

All releases are Gaussian, so the composition is exact. Where the rows cannot show any column, only an intercept is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.auto.labels import fit_labels, share_of_positives
from fattail.algorithms.auto.least_squares import COUNTS, least_squares, samples
from fattail.algorithms.auto.many_columns import fit_along_directions, has_many_columns
from fattail.algorithms.parts.label_scale import rescale
from fattail.algorithms.parts.linear_rows import LINEAR, WIDEST, LinearFit, Target, Units, prepare
from fattail.algorithms.parts.newton import MeanCorrection, Model
from fattail.algorithms.parts.support_fit import center, center_plan, typical
from fattail.algorithms.registry import registered
from fattail.columns.units import all_hidden, wanted_share
from fattail.losses import Huber, Logistic, Needs, Squared
from fattail.privacy import Curator, Gaussian, TopK
from fattail.privacy.calibration import gaussian_multiplier
from fattail.robust import Clip
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

# Constants of the Newton path were tuned on gamma, Pareto, correlated t(4) and mixed-unit features with Gaussian, t(2.5) and
# Pareto noise. The benchmark's own laws and tables were looked at during design, so they are not held out.
SLOPES = 0.06  # share of a common factor of the slopes of labels
POSITIVES = 0.03  # budget share of the released share of positive labels
MOST_COLUMNS, MOST_SHAPE = 0.12, 0.15  # shares at most, reached when n is small
# Rows over the noise multiplier below which the response is not centered twice: a second selection of its size would have to
# succeed with a quarter of the budget, and one in fifty failed (``benchmarks/results/wild.md``).
RECENTERED = 50.0
ROUGH_CLIP = 3.0  # clip of a rough mean, in median magnitudes of the response


@dataclass(frozen=True)
class NewtonDefaults:
    """Constants of Newton steps for robust and logistic models, tuned on the laws that are named above `POSITIVES`.

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
    least_damping: float = 0.5
    """For labels, as the next two."""
    clean_damping: float = 0.95
    """Without blur; twice the blur is subtracted."""
    most_damping: float = 0.9
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
    """Noise of the second moments over the eigenvalues that it hides; above two, only directions that exceed it are used."""

    @classmethod
    def of(cls, count_rows: int, moment_rows: int, p: int, multiplier: float) -> NewtonShares:
        """Counts are over ``count_rows`` rows, moments over ``moment_rows``."""
        columns = wanted_share(p, count_rows, multiplier, NEWTON.count_error)
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
            damping = min(max(NEWTON.clean_damping - 2.0 * self.blur, NEWTON.least_damping), NEWTON.most_damping)
            return 7 if self.radius_is_generous else 8, damping, 2.0
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
    if method := _plain_method(curator, data, target):
        return method(curator, data, target)
    moment_sample, count_sample = samples(curator, data)
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


def _plain_method(
    curator: Curator, data: PrivateData, target: Target
) -> Callable[[Curator, PrivateData, Target], LinearFit] | None:
    """The method for a mean or a probability with an intercept and without a penalty, or none: public arithmetic."""
    if not target.is_plain or not isinstance(target.loss, (Squared, Logistic)):
        return None
    if target.logistic:
        return fit_labels if data.d < WIDEST else None
    if has_many_columns(data.n, data.d, curator.epsilon, curator.delta):
        return fit_along_directions
    return least_squares if data.d < WIDEST else None


def hopeless(n: int, d: int, epsilon: float, delta: float) -> bool:
    """Whether so few rows cannot show the scale of any column, whatever the data: public arithmetic."""
    return all_hidden(n, d + 1, MOST_COLUMNS, gaussian_multiplier(epsilon, delta))


def intercept_only(curator: Curator, data: PrivateData, target: Target) -> LinearFit:
    """The model without columns, for the whole budget and in few passes. Nothing is known of coefficients, so no covariance."""
    if data.n < RECENTERED * gaussian_multiplier(curator.epsilon, curator.delta) and not target.labels:
        return LinearFit(np.zeros(data.d), _rough_level(curator, data) * target.intercept, 0)
    plan = center_plan(target.loss)
    curator.plan(*plan)
    level = center(curator, data, target.loss, plan)
    return LinearFit(np.zeros(data.d), level * target.intercept, 0)


def _rough_level(curator: Curator, data: PrivateData) -> float:
    """Mean of the response, clipped to a multiple of its median magnitude; the noise cannot carry it beyond the clip."""
    size, mean = TopK("size of the response", 0.5), Gaussian("center of the response", 0.5)
    curator.plan(size, mean)

    def response(block: Block) -> Any:
        return np.asarray(block.y, dtype=np.float64)

    bound = ROUGH_CLIP * typical(curator, size, data, response, 0.5)
    clipped = Clip(bound=bound).mean(data, lambda block: (response(block)[:, None], None), width=1)
    return float(np.clip(curator.release(mean, clipped.to("l2"))[0], -bound, bound))


def _parts(
    data: PrivateData, moment_sample: PrivateData, count_sample: PrivateData, half_sample: PrivateData, steps: int, logistic: bool
) -> list[PrivateData]:
    """Rows of each step: later steps undo most of the error of the first ones, which need few, or ``half`` of them."""
    if not logistic:
        return [count_sample] * (steps // 2) + [moment_sample] * (steps - steps // 2 - 3) + [data] * 3
    if half_sample is not count_sample:
        return [half_sample] * (steps - 4) + [count_sample, count_sample, moment_sample, data]
    return [count_sample] * (steps - 3) + [moment_sample, moment_sample, data]
