"""The sparse ``auto`` for rows with few entries, such as texts: release all scores, then descend.

Short rows have short gradients. Gaussian noise on every column is then smaller than the noise
of as many selections, so the scores themselves are released, and columns that stand out are
fitted by steepest descent. Words are correlated and too many for a private moment matrix:
each step is as long as a released curvature along it allows, and is taken only as far as the
gradient exceeds its own noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

from fattail.algorithms.parts.geometry import top_indices
from fattail.algorithms.parts.support_fit import (
    HALF_OCTAVE,
    SCALE,
    Fit,
    Floats,
    Indices,
    centre,
    centre_plan,
    clipped_gradient,
    squared_lengths,
    typical,
    typical_entry,
)
from fattail.algorithms.parts.support_moments import squares
from fattail.losses import Loss
from fattail.privacy import Curator, Gaussian, TopK
from fattail.robust import Ball, Clip
from fattail.rows.data import Block, PrivateData

SCREENING, GRADIENTS, SQUARES = 0.35, 0.4, 0.06
STEPS = 4


def short_rows_fit(
    curator: Curator, data: PrivateData, loss: Loss, k: int, *, feature_scale: Floats, fit_intercept: bool
) -> tuple[Floats, float]:
    """At most ``k`` coefficients and an intercept. Parameters and privacy as for `screened_fit`."""
    entries, width, norm = TopK("typical feature", SCALE), TopK("row norm", SCALE), TopK("row norm on the support", SCALE)
    response = centre_plan(loss) if fit_intercept else ()
    spread = (TopK("scale of residuals", SCALE),) if math.isinf(loss.slope) else ()
    scores, second = Gaussian("scores of all columns", SCREENING), Gaussian("second moments", SQUARES)
    clipping, gradients = TopK("clipping scale", 2 * SCALE, count=2), Gaussian("gradient", GRADIENTS, count=STEPS)
    along = TopK("size of a step", 0.8 * (STEPS + 1) * SCALE, count=STEPS + 1)
    curved = Gaussian("curvature along a step", 0.8 * (STEPS + 1) * SCALE, count=STEPS + 1)
    level = (Gaussian("intercept", 0.8 * (STEPS + 1) * SCALE, count=STEPS + 1),) if fit_intercept else ()
    curator.plan(entries, *response, *spread, width, scores, norm, second, clipping, gradients, along, curved, *level)

    entry = typical(curator, entries, data, lambda b: typical_entry(b, feature_scale), 0.5)
    fit = Fit(loss, feature_scale, entry, fit_intercept)
    if fit_intercept:
        fit.intercept = centre(curator, data, loss, response)
    psi = (
        typical(curator, spread[0], data, fit.residual, 0.5)
        if spread
        else float(max(expit(fit.intercept), expit(-fit.intercept)))
    )
    # Rows beyond the radius are shortened, which costs nothing where most rows are as long: take a low one.
    radius = HALF_OCTAVE * typical(curator, width, data, lambda b: np.sqrt(squared_lengths(b.X, feature_scale**-2.0)), 0.5)
    chosen, gradient, noise = _standing_out(curator, scores, data, fit, psi, radius, min(k, data.d))
    fit.add(chosen)

    radius = typical(curator, norm, data, fit.row_norms, 0.75)
    moments, uncertain = squares(curator, second, data, fit, radius)
    weights = 1 / (np.maximum(moments, 0.0) + 10 * uncertain)
    seen, clip = 1, math.inf
    for t in range(STEPS + 1):
        moved = _descend(curator, along, curved, data, fit, gradient, noise / math.sqrt(seen), weights)
        for mechanism in level:
            _level(curator, mechanism, data, fit, psi)
        if t == STEPS:
            break
        if t < clipping.count:
            clip = min(clip, HALF_OCTAVE * typical(curator, clipping, data, fit.block_sizes, 0.6))
        fresh, noise_fresh = clipped_gradient(curator, gradients, data, fit, clip)
        if moved or t == 0:
            gradient, noise, seen = fresh[: fit.support.size], noise_fresh, 1
        else:  # the same point again: the two gradients say more together
            gradient, seen = (seen * gradient + fresh[: fit.support.size]) / (seen + 1), seen + 1
    coef = np.zeros(data.d)
    coef[fit.support] = fit.theta / feature_scale[fit.support]
    return coef, fit.intercept


def _standing_out(
    curator: Curator, mechanism: Gaussian, data: PrivateData, fit: Fit, psi: float, radius: float, k: int
) -> tuple[Indices, Floats, float]:
    """At most ``k`` columns whose released scores exceed the noise, with those scores as a first gradient."""

    def rows(block: Block) -> tuple[Any, Floats]:
        return block.X, np.clip(fit.residual(block), -psi, psi)

    mean = Ball(radius=psi * radius, scale=fit.scale).mean(data, rows) / fit.scale
    noise = curator.noise(mechanism, mean.raw_sensitivity * float(np.max(np.abs(mean.unit))))
    released = curator.release(mechanism, mean)
    cut = noise * math.sqrt(2 * math.log(max(data.d / k, 2.0)))
    chosen = top_indices(released, max(1, min(k, int(np.sum(np.abs(released) > cut)))))
    # The largest of many are large by luck as well: what exceeds the cut is signal.
    return chosen, np.sign(released[chosen]) * np.maximum(np.abs(released[chosen]) - cut, 0.0), 0.0


def _descend(
    curator: Curator, along: TopK, curved: Gaussian, data: PrivateData, fit: Fit, gradient: Floats, noise: float, weights: Floats
) -> bool:
    """Step to the minimum along the weighted gradient; not at all if noise could explain the gradient."""
    direction = weights * gradient
    explained = noise**2 * (float(weights.sum()) + 2 * math.sqrt(2 * float(np.sum(weights**2))))
    descent = max(float(gradient @ direction) - explained, 0.0)

    def change(block: Block) -> Floats:
        return fit.along(block, direction)

    # Most rows may have none of the columns: a step is no smaller than what one typical entry makes of it.
    size = max(typical(curator, along, data, change, 0.75) / HALF_OCTAVE, fit.unit * float(np.max(np.abs(direction))))

    def curvature(block: Block) -> tuple[Any, None]:
        return (fit.loss.second(fit.predictor(block), block.y) * change(block) ** 2)[:, None], None

    half = 2 * fit.loss.curvature * size**2
    mean = Clip(center=half, bound=half).mean(data, curvature, width=1)
    bend = max(float(curator.release(curved, mean.to("l2"))[0]), half / 64)
    fit.theta = fit.theta + descent / bend * direction
    return descent > 0


def _level(curator: Curator, mechanism: Gaussian, data: PrivateData, fit: Fit, psi: float) -> None:
    """One Newton step for the intercept alone, from mean residual and mean curvature."""

    def rows(block: Block) -> tuple[Any, None]:
        z = fit.predictor(block)
        r = -fit.loss.derivative(z, block.y)
        return np.column_stack([r, (np.abs(r) <= bound) * fit.loss.second(z, block.y) / fit.loss.curvature]), None

    bound = psi if fit.has_tails else 1.0
    mean = Clip(center=np.array([0.0, 0.5]), bound=np.array([bound, 0.5])).mean(data, rows, width=2)
    residual, curvature = curator.release(mechanism, mean.to("l2"))
    fit.intercept += float(residual) / (fit.loss.curvature * max(float(curvature), 0.1))
