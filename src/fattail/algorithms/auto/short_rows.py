"""The sparse ``auto`` for rows with few entries, such as texts: release all scores, then descend.

Short rows have short gradients. Gaussian noise on every column is then smaller than the noise of as many selections, so the
scores themselves are released, and the columns whose scores exceed the noise are fitted by steepest descent. Words are correlated
and too many for a private moment matrix. So the length of each step follows from a released curvature along it, and is shortened
by the share of the gradient that noise explains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from fattail.algorithms.parts.geometry import top_indices
from fattail.algorithms.parts.support_fit import (
    HALF_OCTAVE,
    Floats,
    Indices,
    SupportFit,
    center,
    center_plan,
    clipped_gradient,
    squared_lengths,
    typical,
    typical_entry,
)
from fattail.algorithms.parts.support_moments import squares
from fattail.algorithms.parts.support_plan import SCALE
from fattail.losses import Loss
from fattail.privacy import Curator, Gaussian, TopK
from fattail.robust import Ball, Clip
from fattail.rows.data import Block, PrivateData


@dataclass(frozen=True)
class ShortRowsDefaults:
    """Constants of the method; set by hand in the first version, and ``benchmarks/tuning/vary.py short_rows`` varies them."""

    screening: float = 0.35
    """Share of the scores of all columns."""
    gradients: float = 0.4
    """Share of the gradients of all steps."""
    squares: float = 0.06
    """Share of the second moments of the chosen columns."""
    small: float = 0.8
    """Share of each small release of a step (its size, its curvature, the intercept), relative to one selection of a scale."""
    steps: int = 4
    middle: float = 0.5
    """Quantile of sizes at which a noisy selection has the smallest error."""
    upper: float = 0.75
    """Quantile of row lengths and changes: most rows are shorter."""
    clipping: float = 0.6
    """Quantile of gradient lengths at which they are clipped."""
    prior: float = 10.0
    """So many standard deviations of the noise are added to a second moment, to keep the step of a column with little but noise
    small."""
    least_along: float = 1 / 64
    """Lower limit of the curvature along a step, relative to half of its upper bound."""
    least_curvature: float = 0.1
    """Lower limit of the mean curvature for the intercept's step, relative to the largest curvature of the loss."""


CONSTANTS = ShortRowsDefaults()


def short_rows_fit(
    curator: Curator, data: PrivateData, loss: Loss, k: int, *, feature_scale: Floats, fit_intercept: bool
) -> tuple[Floats, float]:
    """At most ``k`` coefficients and an intercept. Parameters and privacy as for `screened_fit`."""
    c = CONSTANTS
    times = c.steps + 1
    small = c.small * times * SCALE
    entries, width, norm = TopK("typical feature", SCALE), TopK("row norm", SCALE), TopK("row norm on the support", SCALE)
    response = center_plan(loss) if fit_intercept else ()
    spread = (TopK("scale of residuals", SCALE),) if math.isinf(loss.slope) else ()
    scores, second = Gaussian("scores of all columns", c.screening), Gaussian("second moments", c.squares)
    clipping, gradients = TopK("clipping scale", 2 * SCALE, count=2), Gaussian("gradient", c.gradients, count=c.steps)
    along = TopK("size of a step", small, count=times)
    curved = Gaussian("curvature along a step", small, count=times)
    level = (Gaussian("intercept", small, count=times),) if fit_intercept else ()
    curator.plan(entries, *response, *spread, width, scores, norm, second, clipping, gradients, along, curved, *level)

    entry = typical(curator, entries, data, lambda b: typical_entry(b, feature_scale), c.middle)
    fit = SupportFit(loss, feature_scale, entry, fit_intercept)
    if fit_intercept:
        fit.intercept = center(curator, data, loss, response)
    psi = (
        typical(curator, spread[0], data, fit.residual, c.middle)
        if spread
        else float(max(expit(fit.intercept), expit(-fit.intercept)))
    )
    # Rows beyond the radius are shortened, which does little harm if most rows are equally long: a small radius is used.
    radius = HALF_OCTAVE * typical(curator, width, data, lambda b: np.sqrt(squared_lengths(b.X, feature_scale**-2.0)), c.middle)
    chosen, gradient, noise = _columns_above_noise(curator, scores, data, fit, psi, radius, min(k, data.d))
    fit.add(chosen)

    radius = typical(curator, norm, data, fit.row_norms, c.upper)
    moments, uncertain = squares(curator, second, data, fit, radius)
    weights = 1 / (np.maximum(moments, 0.0) + c.prior * uncertain)
    seen, clip = 1, math.inf
    for t in range(c.steps + 1):
        moved = _descend(curator, along, curved, data, fit, gradient, noise / math.sqrt(seen), weights)
        for mechanism in level:
            _step_intercept(curator, mechanism, data, fit, psi)
        if t == c.steps:
            break
        if t < clipping.count:
            clip = min(clip, HALF_OCTAVE * typical(curator, clipping, data, fit.block_sizes, c.clipping))
        fresh, noise_fresh = clipped_gradient(curator, gradients, data, fit, clip)
        if moved or t == 0:
            gradient, noise, seen = fresh[: fit.support.size], noise_fresh, 1
        else:  # the same point again: the two gradients are combined
            gradient, seen = (seen * gradient + fresh[: fit.support.size]) / (seen + 1), seen + 1
    coef = np.zeros(data.d)
    coef[fit.support] = fit.theta / feature_scale[fit.support]
    return coef, fit.intercept


def _columns_above_noise(
    curator: Curator, mechanism: Gaussian, data: PrivateData, fit: SupportFit, psi: float, radius: float, k: int
) -> tuple[Indices, Floats, float]:
    """At most ``k`` columns whose released scores exceed the noise, with those scores as a first gradient."""

    def rows(block: Block) -> tuple[Any, Floats]:
        return block.X, np.clip(fit.residual(block), -psi, psi)

    mean = Ball(radius=psi * radius, scale=fit.scale).mean(data, rows) / fit.scale
    noise = curator.noise(mechanism, mean.raw_sensitivity * float(np.max(np.abs(mean.unit))))
    released = curator.release(mechanism, mean)
    cut = noise * math.sqrt(2 * math.log(max(data.d / k, 2.0)))
    chosen = top_indices(released, max(1, min(k, int(np.sum(np.abs(released) > cut)))))
    # The largest of many scores are partly large by chance: only the excess over the cut is signal.
    return chosen, np.sign(released[chosen]) * np.maximum(np.abs(released[chosen]) - cut, 0.0), 0.0


def _descend(
    curator: Curator,
    along: TopK,
    curved: Gaussian,
    data: PrivateData,
    fit: SupportFit,
    gradient: Floats,
    noise: float,
    weights: Floats,
) -> bool:
    """Step to the minimum along the weighted gradient; no step if noise could explain the gradient."""
    direction = weights * gradient
    explained = noise**2 * (float(weights.sum()) + 2 * math.sqrt(2 * float(np.sum(weights**2))))
    descent = max(float(gradient @ direction) - explained, 0.0)

    def change(block: Block) -> Floats:
        return fit.along(block, direction)

    # Most rows may have none of the columns, so the size of a change is at least that of one typical entry.
    size = max(typical(curator, along, data, change, CONSTANTS.upper) / HALF_OCTAVE, fit.unit * float(np.max(np.abs(direction))))

    def curvature(block: Block) -> tuple[Any, None]:
        return (fit.loss.second(fit.predictor(block), block.y) * change(block) ** 2)[:, None], None

    half = 2 * fit.loss.curvature * size**2
    mean = Clip(center=half, bound=half).mean(data, curvature, width=1)
    curvature_along = max(float(curator.release(curved, mean.to("l2"))[0]), half * CONSTANTS.least_along)
    fit.theta = fit.theta + descent / curvature_along * direction
    return descent > 0


def _step_intercept(curator: Curator, mechanism: Gaussian, data: PrivateData, fit: SupportFit, psi: float) -> None:
    """One Newton step for the intercept alone, from mean residual and mean curvature."""

    def rows(block: Block) -> tuple[Any, None]:
        z = fit.predictor(block)
        r = -fit.loss.derivative(z, block.y)
        return np.column_stack([r, (np.abs(r) <= bound) * fit.loss.second(z, block.y) / fit.loss.curvature]), None

    bound = psi if fit.has_tails else 1.0
    mean = Clip(center=np.array([0.0, 0.5]), bound=np.array([bound, 0.5])).mean(data, rows, width=2)
    residual, curvature = curator.release(mechanism, mean.to("l2"))
    fit.intercept += float(residual) / (fit.loss.curvature * max(float(curvature), CONSTANTS.least_curvature))
