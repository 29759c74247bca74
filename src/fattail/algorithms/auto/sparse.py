"""The sparse ``auto``: screen columns privately, fit the chosen ones, drop coefficients that noise could explain.

Nothing is declared. Screening multiplies residuals by bounded transforms of the features, not by the features: a bounded product
loses little signal, its noise does not grow with the tails, and columns may have any unit and center. Screening has a few parts,
each followed by a rough fit: after it, the variance that the first columns explain no longer hides the others.

Columns that are all around zero and in about one unit, as if somebody had scaled them, are fitted by steps that assume nearly
uncorrelated columns (``parts/support_fit.py``). Columns of a real table have their own centers and units and are correlated: for
them the joint moments of the dense default are released on the chosen columns (``parts/support_joint.py``). Columns count as
scaled if a released count of rows and the released units of the first chosen columns both say so.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import expit

from fattail import _kernels
from fattail.algorithms.auto.short_rows import short_rows_fit
from fattail.algorithms.auto.sparse_plan import AFFORDABLE, AFFORDABLE_AUTO, SPARE, Plan, affordable_columns, shows_no_scale
from fattail.algorithms.parts.geometry import top_indices
from fattail.algorithms.parts.linear_rows import Frame, Problem, Target
from fattail.algorithms.parts.scale import column_medians, column_units
from fattail.algorithms.parts.subspace import Subspace
from fattail.algorithms.parts.support_fit import (
    Floats,
    Indices,
    SupportFit,
    center,
    center_plan,
    refine,
    typical,
    typical_entry,
)
from fattail.algorithms.parts.support_joint import JointSupport, columns_are_alike, most_columns, rows_look_scaled
from fattail.algorithms.parts.support_plan import SparseFit
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.columns.units import ColumnUnits, find_units
from fattail.losses import Logistic, Loss, Needs, Squared
from fattail.privacy import Curator
from fattail.robust import Clip
from fattail.rows.data import Block, PrivateData

# Bounded transforms of a column: its sign, and waves of its logarithm of two phases and these periods, in octaves. Signs show
# a column around 0. A column that is always positive, in any unit, shows in some wave that is monotone over its octaves. It need
# not be known which transform is best: the largest score counts.
PERIODS = np.array([0.5, 2.0, 8.0])
TRANSFORMS = 1 + 2 * PERIODS.size
# A unit is this multiple of the typical magnitude: root mean square over mean, 1.25 for normal columns, more for heavier tails.
UNIT = 1.4
# While columns are chosen, residuals are clipped at this quantile: a low one, because signs matter more than sizes for a score.
RESIDUALS = 0.35
# Quantile of the magnitudes of a normal law at `RESIDUALS`, in standard deviations.
PSI = 0.45


@registered(
    "auto",
    estimators=Offered("sparse"),
    paper="fattail",
    algorithm="screen, fit, shrink",
    changed="new: private screening by bounded products, Newton steps or joint moments on the chosen columns, shrinkage",
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
) -> SparseFit:
    """Sparse coefficients and intercept with nothing declared but, if known, the sparsity.

    Parameters
    ----------
    curator : Curator
    data : PrivateData
    loss : Loss
        Squared (made robust by clipping) or logistic.
    sparsity : int or None
        Largest number of coefficients that are not 0; None to take as many columns as the budget allows.
    feature_scale : array of shape (d,), optional
        Public unit of each column; measured privately by default.
    fit_intercept : bool

    Notes
    -----
    *Privacy.* A fixed list of releases, all bounded row by row: tail counts of magnitudes
    (sensitivity 1), counts of columns, residual times a bounded transform of a feature, clipped to a public bound, gradients and
    second moments of rows projected to a ball. Which columns are fitted and how, the clipping bounds, the
    steps and the shrinkage are functions of earlier releases. Sparse storage is taken as
    public knowledge that rows have few entries and leads to `short_rows_fit`.
    """
    n, d = data.n, data.d
    scale = np.ones(d) if feature_scale is None else feature_scale
    most = affordable_columns(curator, n, d, AFFORDABLE_AUTO if sparsity is None else AFFORDABLE)
    if data.is_sparse:
        k = sparsity or max(most, n // 20)
        return SparseFit(*short_rows_fit(curator, data, loss, k, feature_scale=scale, fit_intercept=fit_intercept))
    if shows_no_scale(curator, n):
        return intercept_alone(curator, data, loss, fit_intercept)
    k = min(d, most, sparsity or most)
    if sparsity is not None:
        k = min(d, k + min(k, int(SPARE * (most - k))))
    plan = Plan.of(curator, data, loss, k, most, own_units=feature_scale is None, intercept=fit_intercept, sparsity=sparsity)
    curator.plan(*plan)
    # Typical magnitudes are means, units are closer to root mean squares.
    unit = UNIT * typical(curator, plan.entries, data, lambda b: typical_entry(b, scale), 0.5)
    fit = SupportFit(loss, unit * scale, 1.0, fit_intercept)
    if fit_intercept:
        fit.intercept = center(curator, data, loss, plan.response)
    found = find_units(curator, plan.unit_rounds[0], data, True) if plan.finds_all_units else None
    psi = typical(curator, plan.spread[0], data, fit.residual, RESIDUALS) if plan.spread else 0.5
    first = np.arange(d) if plan.everything else _screen(curator, plan, 0, data, fit, psi, found)
    if plan.unit_rounds:
        units = found if found is not None else find_units(curator, plan.unit_rounds[0], data.chosen(first), True)
        noise = curator.noise(plan.unit_rounds[0][0], math.sqrt(2 * units.scale.size)) / n
        scaled = rows_look_scaled(curator, plan.scaled[0], data)
        if not (scaled and columns_are_alike(_units_of(units, first if found is not None else np.arange(first.size)), noise)):
            if plan.everything and plan.screens:
                first = _screen(curator, plan, 0, data, fit, psi, found)
            return _fit_columns_in_own_units(curator, data, plan, first, units, found, sparsity)
    return _fit_alike_columns(curator, data, plan, fit, first, psi, sparsity)


def intercept_alone(curator: Curator, data: PrivateData, loss: Loss, fit_intercept: bool) -> SparseFit:
    """The model without columns, for the whole budget. All coefficients have infinite errors."""
    response = center_plan(loss)
    curator.plan(*response)
    level = center(curator, data, loss, response)
    return SparseFit(np.zeros(data.d), level * fit_intercept, np.full(data.d + 1, math.inf))


def _units_of(found: ColumnUnits, columns: Indices) -> ColumnUnits:
    return ColumnUnits(*(np.asarray(part)[columns] for part in found))


def _fit_alike_columns(
    curator: Curator, data: PrivateData, plan: Plan, fit: SupportFit, chosen: Indices, psi: float, sparsity: int | None
) -> SparseFit:
    """Fit columns in about one unit. Each part is screened and roughly fitted together with the earlier ones; a last fit has
    all."""
    for release in (*plan.screens, *plan.level) if plan.everything else ():
        curator.waive(release)
    if plan.sizes_along:
        return _along_directions(curator, data, plan, fit, psi, sparsity)
    expected = math.inf if sparsity is None else float(sparsity)
    for q, rough in enumerate(plan.rough):
        if q > 0:
            psi = typical(curator, plan.spread[0], data, fit.residual, RESIDUALS) if plan.spread else 0.5
            chosen = _screen(curator, plan, q, data, fit, psi, None)
        if plan.centers:
            fit.center[chosen] = column_medians(curator, plan.centers[0], data, columns=chosen)
        if plan.units:
            fit.scale[chosen] = column_units(curator, plan.units[0], data, chosen, fit.center[chosen], fit.scale[chosen])
        fit.add(chosen)
        if q > 0 and plan.unit_rounds[1:]:  # the budget share that units per column would have taken
            rough = replace(rough, gradients=(*plan.unit_rounds[q], *rough.gradients))
        refine(curator, data, fit, rough, clip=psi * math.sqrt(fit.support.size + fit.fit_intercept), most=expected)
    final = replace(plan.final, gradients=(*plan.finish, *plan.final.gradients))
    errors = refine(curator, data, fit, final, most=expected)
    kept = top_indices(fit.theta, sparsity or fit.support.size)
    support, units = fit.support[kept], fit.scale[fit.support[kept]]
    slopes = fit.theta[kept] / units
    shift = float(slopes @ fit.center[support])
    spread = errors[kept] / units
    moved = float(np.linalg.norm(spread * fit.center[support]))
    level = math.hypot(errors[-1] * fit.unit, moved) if fit.fit_intercept else 0.0
    return SparseFit.of(data.d, support, slopes, fit.intercept - shift, np.append(spread, level))


def _along_directions(
    curator: Curator, data: PrivateData, plan: Plan, fit: SupportFit, psi: float, sparsity: int | None
) -> SparseFit:
    """Fit all columns, which are in about one unit, along directions: no step needs second moments of all columns."""
    assert plan.final.clip and plan.final.radius and plan.final.moments
    for release in (*plan.centers, *plan.units, plan.final.clip, plan.final.radius):
        for _ in range(release.count):
            curator.waive(release)
    size = psi / PSI
    frame = Frame(fit.center, fit.scale, 1.0, np.zeros((0, data.d + 1)))
    along = Subspace(curator, data, Problem(Target(fit.loss), frame, fit.intercept, size))
    gradients, moments = plan.rough[0].gradients, (*plan.final.gradients, plan.final.moments)
    for gradient, moment in zip(gradients, moments, strict=False):
        along.descend(gradient, plan.sizes_along[0], moment)
    for moment in (*moments[len(gradients) :], *plan.finish):
        along.solve(moment)
    result = along.problem.solution(along.w, 0)
    kept = top_indices(result.coef, sparsity or data.d)
    spread = np.append(size * along.errors_if_uncorrelated() / fit.scale[kept], size * along.unit / math.sqrt(data.n))
    return SparseFit.of(data.d, kept, result.coef[kept], result.intercept, spread)


def _fit_columns_in_own_units(
    curator: Curator,
    data: PrivateData,
    plan: Plan,
    chosen: Indices,
    units: ColumnUnits,
    found: ColumnUnits | None,
    sparsity: int | None,
) -> SparseFit:
    """Fit columns in units of their own. Each part is screened, then fitted with the earlier ones by a round of joint moments."""
    assert plan.final.clip and plan.final.radius and plan.final.moments
    for release in (*plan.centers, *plan.units, *plan.sizes_along, plan.final.clip, plan.final.radius):
        for _ in range(release.count):
            curator.waive(release)
    fit = JointSupport(curator, data, *units.response)
    middle, parts = len(plan.final.gradients) // 2 + 1, len(plan.sizes)
    early, last = plan.final.gradients[:middle], plan.final.gradients[middle:]
    if plan.sizes_along:  # most of the budget is in the gradients of directions
        early, last = plan.final.gradients, plan.rough[0].gradients[2:]
    most = most_columns(data.n, 1 / math.sqrt(sum(curator.noise(release) ** -2.0 for release in last)))
    for q, rough in enumerate(plan.rough):
        if q > 0:
            psi = typical(curator, plan.spread[0], data, fit.residual, RESIDUALS)
            chosen = _screen(curator, plan, q, data, fit, psi, found)
        chosen = chosen[: max(1, most * (q + 1) // parts - fit.support.size)]  # the first ones have the largest scores
        if found is not None:
            units = _units_of(found, chosen)
        elif q > 0:
            units = find_units(curator, plan.unit_rounds[q], data.chosen(chosen), False)
        fit.add(chosen, units)
        if q < parts - 1:
            fit.rounds(rough.gradients)
    wide, guard, mean, squares = plan.finish
    fit.widen(wide)
    first = plan.rough[-1].gradients[:2] if plan.sizes_along else plan.rough[-1].gradients
    joint = fit.rounds(first, (plan.final.moments, *early), last)
    result = fit.finish(joint, guard, mean, squares, sparsity)
    return result if found is None else replace(result, hidden=np.flatnonzero(np.isinf(found.scale[: data.d])))


def _screen(
    curator: Curator,
    plan: Plan,
    part: int,
    data: PrivateData,
    fit: SupportFit | JointSupport,
    psi: float,
    found: ColumnUnits | None,
) -> Indices:
    """Columns outside the support with the largest scores: of ``mean clip(residual) * transform``, the largest over the
    transforms.

    The released mean of the clipped residuals is subtracted; otherwise it would give every column that is always positive a
    score. A label's residual is not clipped but divided by the larger one of its sizes for both labels: its mean then stays 0
    where the fit is right. Columns are transformed in their units if these were released; those without a visible spread are
    chosen last.
    """
    shown = np.ones(data.d, dtype=bool) if found is None else np.isfinite(found.scale[: data.d])

    def residual(block: Block) -> Floats:
        z = fit.predictor(block)
        r = -fit.loss.derivative(z, block.y)
        return np.clip(r, -psi, psi) if fit.has_tails else psi * r / expit(np.abs(z))

    def transforms(block: Block) -> tuple[Floats, Floats]:
        X = block.dense
        if found is not None:
            X = (X - found.center[: data.d]) / np.where(shown, found.scale[: data.d], 1.0)
        return np.asarray(_kernels.waves_of(X, PERIODS)), residual(block) - at

    at, mechanism = 0.0, plan.screens[part]
    if plan.level:
        mean = Clip(bound=psi).mean(data, lambda block: (residual(block)[:, None], None), width=1)
        at = float(np.clip(curator.release(plan.level[0], mean.to("l2"))[0], -psi / 2, psi / 2))
    best = Clip(bound=psi + abs(at)).mean(data, transforms, width=TRANSFORMS * data.d).magnitudes().largest(TRANSFORMS)
    candidates = np.setdiff1d(np.arange(data.d), fit.support)
    visible = candidates[shown[candidates]]
    candidates = visible if visible.size >= mechanism.k else candidates
    return candidates[curator.select(mechanism, best[candidates])]
