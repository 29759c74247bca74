"""The sparse ``auto``: screen columns privately, fit them with full-batch Newton steps, shrink.

Nothing is declared. Screening compares the signs of residuals and features rather than their
sizes: a bounded product loses little signal and its noise does not grow with the tails. It
runs in a few parts with a rough fit in between, because what the first columns explain no
longer hides the others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

from fattail._registry import registered
from fattail.algorithms.auto.short_rows import short_rows_fit
from fattail.algorithms.common.support_fit import (
    SCALE,
    Fit,
    FitPlan,
    Floats,
    Indices,
    centre,
    centre_plan,
    refine,
    typical,
    typical_entry,
)
from fattail.data import Block, PrivateData
from fattail.losses import Loss
from fattail.privacy import Curator, TopK
from fattail.privacy.calibration import gaussian_multiplier
from fattail.robust import Clip

# Shares of the budget. Tuned on Gaussian features with t(2.5) noise, reported on others.
SCREENING, ROUGH_SHARE, FINAL_SHARE = 0.45, 0.1, 0.25
ROUGH_STEPS, FINAL_STEPS = (0.3, 0.7), (0.2, 0.3, 0.5)
# Columns to try, as a multiple of what the budget carries, with and without a given sparsity.
CARRY, CARRY_AUTO = 0.3, 0.2


def carried(n: int, d: int, epsilon: float, delta: float, multiple: float) -> int:
    """How many columns the budget can tell from noise: public arithmetic.

    Scores of k equally strong columns are about ``1 / sqrt(k)``, and their Gumbel noise has
    scale ``sqrt(k) / (n sqrt(rho / 2))``; the largest of d such is ``log d`` times that.
    """
    rho = SCREENING / (2 * gaussian_multiplier(epsilon, delta) ** 2)
    return max(1, int(multiple * n * math.sqrt(2 * rho) / max(math.log(d), 1.0)))


@registered(
    "auto",
    estimators=("DPSparseRegressor", "DPSparseClassifier"),
    paper="this library",
    algorithm="screen, fit, shrink",
    changed="new: private screening by bounded products, Newton steps on the chosen columns, empirical-Bayes shrinkage",
    test="tests/estimators/test_sparse.py::test_fuzz",
)
def screened_fit(
    curator: Curator,
    data: PrivateData,
    loss: Loss,
    sparsity: int | None,
    *,
    feature_scale: Floats,
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
    feature_scale : array of shape (d,)
        Public unit of each column.
    fit_intercept : bool

    Notes
    -----
    *Privacy.* A fixed list of releases, all bounded row by row: tail counts of magnitudes
    (sensitivity 1), products of residual and feature clipped to a public bound, gradients and
    second moments pulled back to a ball. Which columns are fitted, the clipping bounds, the
    steps and the shrinkage are functions of earlier releases. Sparse storage is taken as
    public knowledge that rows have few entries and leads to `short_rows_fit`.
    """
    n, d = data.n, data.d
    most = carried(n, d, curator.epsilon, curator.delta, CARRY_AUTO if sparsity is None else CARRY)
    if data.is_sparse:
        return short_rows_fit(
            curator, data, loss, sparsity or max(most, n // 20), feature_scale=feature_scale, fit_intercept=fit_intercept
        )
    k = min(d, most, sparsity or most)
    everything = 2 * k >= d
    parts = 1 if everything else min(5 if 2 * k <= most else 3, k)
    sizes = [k // parts + (q < k % parts) for q in range(parts)]

    entries = TopK("typical feature", SCALE)
    response = centre_plan(loss) if fit_intercept else ()
    spread = TopK("scale of residuals", parts * SCALE, count=parts)
    screens = [TopK(f"columns, part {q + 1}", SCREENING * m / k, k=m) for q, m in enumerate(sizes)]
    screening = () if everything else (spread, *screens) if math.isinf(loss.slope) else tuple(screens)
    fits = [FitPlan.make(f"rough fit {q + 1}", ROUGH_SHARE / (parts - 1), ROUGH_STEPS, 1) for q in range(parts - 1)]
    fits.append(FitPlan.make("fit", FINAL_SHARE, FINAL_STEPS, 2, saturates=math.isfinite(loss.slope)))
    curator.plan(entries, *response, *screening, *(release for fit in fits for release in fit))

    entry = typical(curator, entries, data, lambda b: typical_entry(b, feature_scale), 0.5)
    fit = Fit(loss, feature_scale, entry, fit_intercept)
    if fit_intercept:
        fit.intercept = centre(curator, data, loss, response)
    for q, (screen, plan) in enumerate(zip(screens, fits, strict=True)):
        if everything:
            fit.add(np.arange(d))
        else:
            if math.isinf(loss.slope):
                psi = typical(curator, spread, data, fit.residual, 0.35)
            else:  # with no columns a label's residual is one of two known numbers; later few exceed 3/4
                psi = float(max(expit(fit.intercept), expit(-fit.intercept))) if q == 0 else 0.75
            fit.add(_screen(curator, screen, data, fit, psi, 0.4 * entry))
        refine(curator, data, fit, plan)
    coef = np.zeros(d)
    coef[fit.support] = fit.theta / feature_scale[fit.support]
    return coef, fit.intercept


def _screen(curator: Curator, mechanism: TopK, data: PrivateData, fit: Fit, psi: float, entry: float) -> Indices:
    """Columns with the largest scores ``mean clip(residual * feature)`` that are not in the support."""

    def rows(block: Block) -> tuple[Any, Floats]:
        return block.X, np.clip(fit.residual(block), -psi, psi)

    scores = Clip(bound=psi * entry * fit.scale).mean(data, rows) / fit.scale
    candidates = np.setdiff1d(np.arange(data.d), fit.support)
    return candidates[curator.select(mechanism, scores[candidates].magnitudes())]
