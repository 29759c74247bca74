"""Logistic regression without declared bounds, on raw columns in any unit.

1. *Units* of all columns (``fattail.columns.units``), and the share of positive labels. A rare label keeps its weight, the other
   is weighted down (`Model.balance`).
2. *Curvature* at the start, and a few gradients of equal budget, of which each is taken at the posterior mean of those before it
   (``parts/label_gradients.py``).
3. *Curvature* at the fit, for standard errors and, where there is little noise, for the fit.
4. Whether labels may be separable (``parts/separable.py``), and for rare labels the mean prediction.

All releases are Gaussian, so the composition is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.auto.least_squares import samples
from fattail.algorithms.parts.label_gradients import DEFAULTS, LabelGradients
from fattail.algorithms.parts.linear_rows import Frame, LinearFit, Problem, Target
from fattail.algorithms.parts.newton import Model
from fattail.algorithms.parts.separable import Separation
from fattail.columns.units import find_units, planned_counts, wanted_share, widen
from fattail.privacy import Curator, Gaussian
from fattail.privacy.calibration import gaussian_multiplier
from fattail.robust import Clip
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabelDefaults:
    """Constants of `fit_labels`, chosen as those of `LabelGradients`."""

    counts: float = 0.005
    """Noise of column counts that is wanted, as a share of the rows."""
    columns: tuple[float, float] = (0.01, 0.12)
    """Least and largest share of the budget for them."""
    column_squares: float = 0.04
    """Share for mean squares of columns."""
    looks: int = 2
    """Rounds of them: a scale that was far too small is enlarged twice."""
    positives: float = 0.03
    """Share of the released share of positive labels."""
    bends: tuple[float, float] = (0.1, 0.06)
    """Shares of the curvatures at the start and at the fit."""
    calibrated: float = 0.03
    """Share of the mean prediction."""
    steps: int = 8
    """Gradients. The last is taken when the curvature at the fit is known."""
    early: int = 3
    """The first ones are of the rows of counts ..."""
    late: int = 2
    """... and those before the last of all rows; the others of the rows of second moments."""


LABELS = LabelDefaults()


def fit_labels(curator: Curator, data: PrivateData, target: Target) -> LinearFit:
    """Logistic regression with an intercept, without a penalty.

    Notes
    -----
    *Privacy.* Each release is a ``Histogram``, a ``Gram`` or a mean of ``Ball``- or ``Clip``-bounded rows; all else is
    arithmetic on releases. Proof: ``labels.proof.md``.
    """
    n, p, multiplier = data.n, data.d + 1, gaussian_multiplier(curator.epsilon, curator.delta)
    moment_sample, count_sample = samples(curator, data)
    columns = planned_counts(float(np.clip(wanted_share(p, count_sample.n, multiplier, LABELS.counts), *LABELS.columns)))
    squares = Gaussian("column squares", LABELS.column_squares, count=LABELS.looks)
    positives = Gaussian("share of positives", LABELS.positives)
    first, last = (Gaussian(f"curvature at the {name}", s) for name, s in zip(("start", "fit"), LABELS.bends, strict=True))
    separation, calibrated = Separation.planned(), Gaussian("mean prediction", LABELS.calibrated, count=2)
    fixed = (*columns, squares, positives, first, last, *separation.mechanisms, calibrated)
    gradients = Gaussian("gradients", 1.0 - sum(m.share for m in fixed), count=LABELS.steps)
    curator.plan(*fixed, gradients)

    units = widen(curator, squares, count_sample, find_units(curator, columns, count_sample, False))
    model = Model(
        curator, data, moment_sample, count_sample, Problem(target, Frame(units.center, units.scale, math.inf, np.eye(p)))
    )
    share = share_of_positives(curator, positives, data)
    model.balance(share)
    found = LabelGradients(model, share, curator.noise(gradients, 2 / n) / math.sqrt(LABELS.steps))
    bend = found.bend(first, moment_sample)
    for rows in (*[count_sample] * LABELS.early, *[moment_sample] * (LABELS.steps - LABELS.early - LABELS.late - 1)):
        found.observe(gradients, rows)
        posterior = found.move(bend)
    for _ in range(LABELS.late):
        found.observe(gradients, data)
        posterior = found.move(bend)
    at_fit = found.bend(last, data, DEFAULTS.room_at_fit)
    found.observe(gradients, data)
    posterior = found.finish(bend, at_fit, posterior)
    covariance = found.covariance(at_fit, posterior)
    has_end = not separation.is_possible(model, *found.predictor(bend), share)
    model.calibrate(calibrated, share)
    fit = model.problem.solution(np.append(model.w[:-1], model.w[-1] + model.offset), LABELS.steps, covariance)
    if not has_end:
        assert fit.covariance is not None
        np.fill_diagonal(fit.covariance, math.inf)
    return fit


def share_of_positives(curator: Curator, release: Gaussian, data: PrivateData) -> float:
    """Released share of ones among labels, taken to be no closer to 0 and 1 than its noise or one row."""

    def labels(block: Block) -> tuple[Floats, None]:
        return np.asarray(block.y, dtype=np.float64)[:, None], None

    mean = Clip(center=0.5, bound=0.5).mean(data, labels, width=1).to("l2")
    least = min(max(curator.noise(release, mean.sensitivity), 1.0 / data.n), 0.5)
    return float(np.clip(curator.release(release, mean)[0], least, 1.0 - least))
