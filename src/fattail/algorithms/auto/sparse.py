"""The sparse ``auto``: screen columns privately, fit them with full-batch Newton steps, shrink.

Nothing is declared. Screening compares residuals with bounded faces of the features
rather than with their sizes: a bounded product loses little signal, its noise does not grow with
the tails, and columns may be in any unit and around any center. It runs in a few parts with a
rough fit in between, because what the first columns explain no longer hides the others. Only
chosen columns have their center and unit measured.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from fattail import _kernels
from fattail.algorithms.auto.short_rows import short_rows_fit
from fattail.algorithms.parts.geometry import top_indices
from fattail.algorithms.parts.scale import column_medians, column_units
from fattail.algorithms.parts.support_fit import (
    SCALE,
    Fit,
    FitPlan,
    Floats,
    Indices,
    center,
    center_plan,
    refine,
    typical,
    typical_entry,
)
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.losses import Logistic, Loss, Needs, Squared
from fattail.privacy import Curator, Gaussian, TopK
from fattail.privacy.calibration import gaussian_multiplier
from fattail.robust import Clip
from fattail.rows.data import Block, PrivateData

# Shares of the budget. Tuned on Gaussian features with t(2.5) noise, reported on others.
SCREENING, UNITS, ROUGH, FINAL = 0.42, 0.04, 0.1, 0.3
# A column around 0 shows in its sign. One that is always positive does not, but in some wave of its logarithm that is
# monotone over the octaves it spans, whatever its unit. Which face is best need not be known: the largest score counts.
PERIODS = np.array([0.5, 2.0, 8.0])
FACES = 1 + 2 * PERIODS.size
ROUGH_STEPS, FINAL_STEPS = (0.3, 0.7), (0.2, 0.3, 0.5)
# Columns to try, as a multiple of what the budget carries, with and without a given sparsity.
CARRY, CARRY_AUTO = 0.3, 0.2
# Where much more could be carried than is asked for, this share of it is tried as well and the best are kept.
SPARE = 0.03
# Most of the budget that the typical entry may take, and the noise deviations per half of the rows that it should have.
MOST_ENTRY, CLEAR = 0.1, 30
# Unit over the typical magnitude: root mean square over mean, 1.25 for normal columns and more for heavier tails.
UNIT = 1.4
# Quantile of residuals at which they are clipped while columns are chosen: low, since a screen needs signs more than sizes.
RESIDUALS = 0.35


def selection_noise(curator: Curator, share: float, k: int = 1) -> float:
    """Gumbel scale, in rows, of each of ``k`` selections that divide a share of the budget: public arithmetic."""
    return gaussian_multiplier(curator.epsilon, curator.delta) * math.sqrt(k / share)


def carried(curator: Curator, n: int, d: int, multiple: float) -> int:
    """How many columns the budget can tell from noise.

    Scores of k equally strong columns are about ``n / sqrt(k)`` rows, and the largest noise of
    d selections is ``log d`` times its scale, which grows with ``sqrt(k)``.
    """
    return max(1, int(multiple * n / selection_noise(curator, SCREENING) / max(math.log(d), 1.0)))


@registered(
    "auto",
    estimators=Offered("sparse"),
    paper="this library",
    algorithm="screen, fit, shrink",
    changed="new: private screening by bounded products, Newton steps on the chosen columns, empirical-Bayes shrinkage",
    test="tests/estimators/test_sparse.py::test_fuzz",
    needs=Needs(only=(Squared, Logistic), because="whose curvature its steps are made for"),
)
def screened_fit(
    curator: Curator,
    data: PrivateData,
    loss: Loss,
    sparsity: int | None,
    *,
    feature_scale: Floats | None = None,
    fit_intercept: bool = True,
) -> tuple[Floats, float]:
    """Sparse coefficients and intercept with nothing declared but, if known, the sparsity.

    Parameters
    ----------
    curator : Curator
    data : PrivateData
    loss : Loss
        Squared (made robust by clipping) or logistic.
    sparsity : int or None
        Largest number of coefficients that are not 0; None to take what the budget carries.
    feature_scale : array of shape (d,), optional
        Public unit of each column; measured privately by default.
    fit_intercept : bool

    Notes
    -----
    *Privacy.* A fixed list of releases, all bounded row by row: tail counts of magnitudes
    (sensitivity 1), residual times a bounded face of a feature clipped to a public bound, gradients and
    second moments pulled back to a ball. Which columns are fitted, the clipping bounds, the
    steps and the shrinkage are functions of earlier releases. Sparse storage is taken as
    public knowledge that rows have few entries and leads to `short_rows_fit`.
    """
    n, d = data.n, data.d
    scale = np.ones(d) if feature_scale is None else feature_scale
    most = carried(curator, n, d, CARRY_AUTO if sparsity is None else CARRY)
    if data.is_sparse:
        k = sparsity or max(most, n // 20)
        return short_rows_fit(curator, data, loss, k, feature_scale=scale, fit_intercept=fit_intercept)
    # All else is in this unit, and of 900 octaves that hold nothing noise must lift none by n / 2 rows.
    entries = TopK("typical feature", min(MOST_ENTRY, max(SCALE, (CLEAR * selection_noise(curator, 1.0) / n) ** 2)))
    if selection_noise(curator, entries.share) > n / 20:  # no scale of so few rows can be told from noise
        curator.plan(entries)
        typical(curator, entries, data, lambda b: typical_entry(b, scale), 0.5)
        return np.zeros(d), 0.0
    k = min(d, most, sparsity or most)
    if sparsity is not None:
        k = min(d, k + min(k, int(SPARE * (most - k))))
    everything = 2 * k >= d
    k = d if everything else k
    parts = 1 if everything else min(5 if 2 * k <= most else 3, k)
    sizes = [k // parts + (q < k % parts) for q in range(parts)]
    numbers = math.isinf(loss.slope)

    response = center_plan(loss) if fit_intercept else ()
    # Without a unit of their own, where the budget cannot carry one each, columns share one.
    measured = feature_scale is None and selection_noise(curator, UNITS, k) < n / 12
    units = (TopK("unit of a column", UNITS, count=k),) if measured else ()
    # A center is looked for among all numbers, a unit near the typical one.
    centered = measured and fit_intercept and selection_noise(curator, UNITS, k) < n / 40
    centers = (TopK("center of a column", UNITS, count=k),) if centered else ()
    spread = (TopK("scale of residuals", parts * SCALE, count=parts),) if numbers else ()
    level = (
        (Gaussian("level of residuals", parts * SCALE / 4, count=parts),) if numbers and fit_intercept and not everything else ()
    )
    # Where few columns have to be left out, to find them is worth less than to fit the others.
    screening = SCREENING * min(1.0, max(0.5, math.log(d / k) / 4))
    screens = [TopK(f"columns, part {q + 1}", screening * m / k, k=m) for q, m in enumerate(sizes)]
    fits = [FitPlan.rough(f"rough fit {q + 1}", ROUGH / parts, ROUGH_STEPS) for q in range(parts)]
    final = FitPlan.measured("fit", FINAL, FINAL_STEPS)
    rough = (release for fit in fits for release in fit)
    curator.plan(entries, *response, *centers, *units, *spread, *level, *(() if everything else screens), *rough, *final)
    # Typical magnitudes are means, units are closer to root mean squares.
    unit = UNIT * typical(curator, entries, data, lambda b: typical_entry(b, scale), 0.5)
    fit = Fit(loss, unit * scale, 1.0, fit_intercept)
    if fit_intercept:
        fit.intercept = center(curator, data, loss, response)
    expected = math.inf if sparsity is None else float(sparsity)
    for screen, plan in zip(screens, fits, strict=True):
        psi = typical(curator, spread[0], data, fit.residual, RESIDUALS) if spread else 0.5
        chosen = np.arange(d) if everything else _screen(curator, screen, level, data, fit, psi)
        if centers:
            fit.center[chosen] = column_medians(curator, centers[0], data, columns=chosen)
        if units:
            fit.scale[chosen] = column_units(curator, units[0], data, chosen, fit.center[chosen], fit.scale[chosen])
        fit.add(chosen)
        refine(curator, data, fit, plan, clip=psi * math.sqrt(fit.support.size + fit_intercept), most=expected)
    refine(curator, data, fit, final, most=expected)
    kept = top_indices(fit.theta, sparsity or k)
    coef = np.zeros(d)
    coef[fit.support[kept]] = fit.theta[kept] / fit.scale[fit.support[kept]]
    return coef, fit.intercept - float(coef @ fit.center)


def _screen(curator: Curator, mechanism: TopK, level: tuple[Gaussian, ...], data: PrivateData, fit: Fit, psi: float) -> Indices:
    """Columns outside the support with the largest scores: of ``mean clip(residual) * face``, the largest over faces.

    Clipped residuals are taken around their own released mean, else every column that is
    always positive would score by it. A label's residual is weighted instead of clipped, by
    what it would be for the other label at worst: that leaves its mean at 0 where the fit is right.
    """

    def residual(block: Block) -> Floats:
        z = fit.predictor(block)
        r = -fit.loss.derivative(z, block.y)
        return np.clip(r, -psi, psi) if fit.has_tails else psi * r / expit(np.abs(z))

    at = 0.0
    if level:
        mean = Clip(bound=psi).mean(data, lambda block: (residual(block)[:, None], None), width=1)
        at = float(np.clip(curator.release(level[0], mean.to("l2"))[0], -psi / 2, psi / 2))

    scores = Clip(bound=psi + abs(at)).mean(
        data, lambda block: (_kernels.waves_of(block.X, PERIODS), residual(block) - at), width=FACES * data.d
    )
    candidates = np.setdiff1d(np.arange(data.d), fit.support)
    best = scores.magnitudes().largest(FACES)
    return candidates[curator.select(mechanism, best[candidates])]
