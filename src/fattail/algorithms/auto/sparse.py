"""The sparse ``auto``: screen columns privately, fit the chosen ones, drop coefficients that noise could explain.

Nothing is declared. Screening multiplies residuals by bounded transforms of the features, not by the features: a bounded product
loses little signal, its noise does not grow with the tails, and columns may have any unit and center.

Columns of a real table have their own centers and units and are correlated: the chosen ones are fitted by the dense default, on
parts of one release that the plan has for the fit. Columns that are all around zero and in about one unit, as if somebody had
scaled them, are fitted by steps that assume nearly uncorrelated columns (``parts/support_fit.py``). There screening has a few
parts, each followed by a rough fit: after it, the variance that the first columns explain no longer hides the others. If nearly
all columns can be afforded, none is chosen: with much noise, cheap steps on all of them show which to leave out
(``parts/support_descent.py``). Columns count as scaled if a released count of rows and, for numbers, the released units of the
first chosen columns both say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from fattail import _kernels
from fattail.algorithms.auto.least_squares import LEAST, fit_few_rows, least_squares
from fattail.algorithms.auto.linear import auto_linear
from fattail.algorithms.auto.many_columns import blur
from fattail.algorithms.auto.short_rows import short_rows_fit
from fattail.algorithms.auto.sparse_plan import (
    AFFORDABLE,
    AFFORDABLE_AUTO,
    SPARE,
    TABLES,
    Plan,
    affordable_columns,
    shows_no_scale,
)
from fattail.algorithms.parts.geometry import top_indices
from fattail.algorithms.parts.linear_rows import LinearFit, Target
from fattail.algorithms.parts.scale import column_units
from fattail.algorithms.parts.support_descent import DEFAULTS as DESCENT
from fattail.algorithms.parts.support_descent import averaged_descent, even_out
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
from fattail.algorithms.parts.support_joint import columns_are_alike, rows_look_scaled, without_noise
from fattail.algorithms.parts.support_plan import SparseFit
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.columns import DENSE_GRID, find_locations
from fattail.columns.units import ColumnUnits, find_units
from fattail.losses import Logistic, Loss, Needs, Squared
from fattail.privacy import Curator, Gaussian, gaussian_multiplier
from fattail.privacy.allotment import Allotment
from fattail.robust import Clip
from fattail.rows.data import Block, PrivateData

# Bounded transforms of a column: its sign, whether it is positive, and square waves of its logarithm of four phases and these
# periods, in octaves. Signs show a column around 0. A column that is always positive, in any unit, shows in some wave that
# changes its sign near the column's middle. It need not be known which transform is best: the largest score counts.
PERIODS = np.array([2.0**-5, 2.0**-3, 0.5, 2.0, 8.0])
# The first ones are for columns far from zero: where centers are known, they cost time alone.
FINE = 2
# A unit is this multiple of the typical magnitude: root mean square over mean, 1.25 for normal columns, more for heavier tails.
UNIT = 1.4
# Rows over the noise multiplier below which the dense default's many releases cost more than they gain, however few the columns:
# three log-normal columns, n = 6,000 and epsilon 0.6 had errors up to 0.3 with them and 0.07 with moments alone.
FEW_ROWS = 2000.0
# While columns are chosen, residuals are clipped at this quantile: a low one, because signs matter more than sizes for a score.
RESIDUALS = 0.35
# The mean of clipped residuals over this moves their middle: roughly the share that is not clipped. With 0.35, that of residuals
# around their middle, skewed ones were moved too far (fire losses: R2 0.78 instead of 0.91).
UNCLIPPED = 0.5
# Limit of the mean that is left, in clips: a larger one is mostly noise, and the bound of scores grows with it.
MOST_LEVEL = 0.5


@registered(
    "auto",
    estimators=Offered("sparse"),
    paper="fattail",
    algorithm="screen, fit, shrink",
    changed="new: private screening by bounded products, steps or the dense default on the chosen columns, shrinkage",
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
    second moments of rows projected to a ball, and what the dense default releases. Which columns are fitted and how, the
    clipping bounds, the steps and the shrinkage are functions of earlier releases. Sparse storage is taken as
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
    found = find_units(curator, plan.unit_rounds, data, bool(plan.spread)) if plan.finds_all_units else None
    psi = typical(curator, plan.spread[0], data, fit.residual, RESIDUALS) if plan.spread else 0.5
    look_scaled = bool(plan.scaled) and rows_look_scaled(curator, plan.scaled[0], data)
    periods = PERIODS[:0] if look_scaled else PERIODS if found is None else PERIODS[FINE:]
    screen = Selections(curator, plan, data, fit, psi, found, periods)
    if plan.scaled and not look_scaled:
        for release in () if plan.finds_all_units else plan.unit_rounds:
            curator.waive(release)
        return _fit_columns_in_own_units(curator, data, plan, screen, fit.support, sparsity)
    first = np.arange(d) if plan.everything else screen(0, fit.support, 0)
    if plan.scaled and not _columns_are_alike(curator, data, plan, first, found):
        return _fit_columns_in_own_units(curator, data, plan, screen, fit.support if plan.everything else first, sparsity)
    return _fit_alike_columns(curator, data, plan, screen, first, sparsity)


def _columns_are_alike(curator: Curator, data: PrivateData, plan: Plan, first: Indices, found: ColumnUnits | None) -> bool:
    """Whether the units of the first columns agree, of rows that look scaled; where none are released, the rows decide alone."""
    if not plan.spread or not plan.unit_rounds or first.size < min(TABLES.few, data.d):
        return True
    units = found if found is not None else find_units(curator, plan.unit_rounds, data.chosen(first), bool(plan.spread))
    noise = curator.noise(plan.unit_rounds[0], math.sqrt(2 * units.scale.size)) / data.n
    return columns_are_alike(_units_of(units, first if found is not None else np.arange(first.size)), noise)


def intercept_alone(curator: Curator, data: PrivateData, loss: Loss, fit_intercept: bool) -> SparseFit:
    """The model without columns, for the whole budget. All coefficients have infinite errors."""
    response = center_plan(loss)
    curator.plan(*response)
    level = center(curator, data, loss, response)
    return SparseFit(np.zeros(data.d), level * fit_intercept, np.full(data.d + 1, math.inf))


def _units_of(found: ColumnUnits, columns: Indices) -> ColumnUnits:
    return ColumnUnits(*(np.asarray(part)[columns] for part in found))


def _fit_alike_columns(
    curator: Curator, data: PrivateData, plan: Plan, screen: Selections, chosen: Indices, sparsity: int | None
) -> SparseFit:
    """Fit columns in about one unit. Each part is screened and roughly fitted together with the earlier ones; a last fit has
    all."""
    for release in (*plan.screens, *plan.level) if plan.everything else ():
        for _ in range(release.count):
            curator.waive(release)
    expected = math.inf if sparsity is None else float(sparsity)
    fit, psi, curator = screen.fit, screen.psi, Allotment(curator, plan.fit)
    curator.plan(*plan.inner)
    if plan.descends:
        return _in_user_units(data, fit, _descend(curator, data, plan, fit, psi, expected), sparsity)
    for q, rough in enumerate(plan.rough):
        if q > 0:
            psi = typical(curator, plan.spread[0], data, fit.residual, RESIDUALS) if plan.spread else 0.5
            chosen = replace(screen, curator=curator, psi=psi, found=None)(q, fit.support, q)
        part = data.chosen(chosen)
        if plan.centers:
            fit.center[chosen] = find_locations(curator, plan.centers, part, DENSE_GRID)[0]
        if plan.units:
            fit.scale[chosen] = column_units(curator, plan.units[0], part, fit.center[chosen], fit.scale[chosen])
        fit.add(chosen)
        refine(curator, data, fit, rough, clip=psi * math.sqrt(fit.support.size + fit.fit_intercept), most=expected)
    errors = refine(curator, data, fit, plan.final, most=expected)
    return _in_user_units(data, fit, errors, sparsity)


def _descend(curator: Curator, data: PrivateData, plan: Plan, fit: SupportFit, psi: float, expected: float) -> Floats:
    """Fit all columns by cheap steps, which need no second moments; then those that are left, by the same or by `refine`.

    Returns standard errors.
    """
    assert plan.final.clip and plan.final.radius and plan.final.moments
    n, final, clip = data.n, plan.final, psi * math.sqrt(data.d + fit.fit_intercept)
    fit.add(np.arange(data.d))
    even_out(curator, plan.rough[0].gradients[0], data, fit)
    early, late = plan.rough[0].gradients[1:], final.gradients
    looks = (plan.spread[0],) * (plan.spread[0].count - 1)
    _, clip = averaged_descent(curator, data, fit, early, looks, clip=clip, most=expected, skipped=DESCENT.early)
    if blur(n, fit.support.size, curator.epsilon, curator.delta) <= DESCENT.blur:
        return refine(curator, data, fit, final, clip=clip, most=expected)
    sizes = (plan.final.clip,) * plan.final.clip.count
    curator.waive(plan.final.radius)
    return averaged_descent(
        curator, data, fit, (*late, plan.final.moments), sizes, clip=clip, most=expected, skipped=DESCENT.late
    )[0]


def _in_user_units(data: PrivateData, fit: SupportFit, errors: Floats, sparsity: int | None) -> SparseFit:
    """The largest coefficients, and their errors."""
    kept = top_indices(fit.theta, sparsity or fit.support.size)
    support, units = fit.support[kept], fit.scale[fit.support[kept]]
    slopes = fit.theta[kept] / units
    shift = float(slopes @ fit.center[support])
    spread = errors[kept] / units
    moved = float(np.linalg.norm(spread * fit.center[support]))
    level = math.hypot(errors[-1] * fit.unit, moved) if fit.fit_intercept else 0.0
    return SparseFit.of(data.d, support, slopes, fit.intercept - shift, np.append(spread, level))


def _fit_columns_in_own_units(
    curator: Curator, data: PrivateData, plan: Plan, screen: Selections, chosen: Indices, sparsity: int | None
) -> SparseFit:
    """Fit columns in units of their own by the dense default: as many of the chosen ones, best first, as it has rows for."""
    most, first = plan.fitted, int(chosen.size > 0)
    if not plan.screens:
        chosen = np.arange(data.d)
    # All selections see the same residuals, so those with the least noise come first.
    parts = sorted(range(first, len(plan.screens)), key=lambda q: plan.screens[q].k / plan.screens[q].share)
    for t, q in enumerate(parts, first):
        if chosen.size < most:
            chosen = np.append(chosen, screen(q, chosen, t))
            continue
        for release in (plan.screens[q], *plan.level[t : t + 1]):
            curator.waive(release)
    for release in (*plan.centers, *plan.units, *plan.final.sizes, *plan.spread):
        for _ in range(release.count - (release in plan.spread)):
            curator.waive(release)
    chosen = np.sort(chosen[:most])
    dense = _dense(Allotment(curator, plan.fit), data.chosen(chosen), Target(screen.fit.loss))
    result, found = without_noise(dense, data.d, chosen, sparsity), screen.found
    return result if found is None else replace(result, hidden=np.flatnonzero(np.isinf(found.scale[: data.d])))


def _dense(curator: Curator, data: PrivateData, target: Target) -> LinearFit:
    """The dense default, on moments alone if there are few rows for the budget."""
    if target.labels:
        return auto_linear(curator, data, target)
    if data.n < FEW_ROWS * gaussian_multiplier(curator.epsilon, curator.delta):
        return fit_few_rows(curator, data, data, target, LEAST.columns[1])
    return least_squares(curator, data, target)


@dataclass(frozen=True)
class Selections:
    """Selections of columns with the largest scores: of ``mean clip(residual) * transform``, the largest over the transforms.

    The released mean of the clipped residuals is subtracted; otherwise it would give every column that is always positive a
    score. Before the first selection, the residuals are those of a mean, so their middle is moved to zero. A label's residual is
    not clipped but divided by the larger one of its sizes for both labels: its mean then stays 0 where the fit is right. Columns
    are transformed in their units if these were released; those without a visible spread are chosen last.
    """

    curator: Curator
    plan: Plan
    data: PrivateData
    fit: SupportFit
    psi: float
    """Clip of the residuals."""
    found: ColumnUnits | None
    periods: Floats
    """Of the waves. Where rows look scaled there are none: signs are enough, and the best of many scores is often chance."""

    def __call__(self, part: int, taken: Indices, before: int) -> Indices:
        """The columns of one of the planned selections, from those that were not taken yet, after so many selections."""
        data, psi, found, mechanism = self.data, self.psi, self.found, self.plan.screens[part]
        shown = np.ones(data.d, dtype=bool) if found is None else np.isfinite(found.scale[: data.d])
        middle, at = self._middle(self.plan.level[before]) if self.plan.level else (0.0, 0.0)

        def transforms(block: Block) -> tuple[Floats, Floats]:
            X = block.dense
            if found is not None:
                X = (X - found.center[: data.d]) / np.where(shown, found.scale[: data.d], 1.0)
            return np.asarray(_kernels.waves_of(X, self.periods)), self._residual(block, middle) - at

        lists = _kernels.wave_lists(self.periods.size)
        scores = Clip(bound=psi + abs(at)).mean(data, transforms, width=lists * data.d).magnitudes().largest(lists)
        candidates = np.setdiff1d(np.arange(data.d), taken)
        visible = candidates[shown[candidates]]
        candidates = visible if visible.size >= mechanism.k else candidates
        return candidates[self.curator.select(mechanism, scores[candidates])]

    def _residual(self, block: Block, middle: float) -> Floats:
        z = self.fit.predictor(block)
        r = -self.fit.loss.derivative(z, block.y)
        psi = self.psi
        return np.asarray(np.clip(r - middle, -psi, psi) if self.fit.has_tails else psi * r / expit(np.abs(z)))

    def _middle(self, release: Gaussian) -> tuple[float, float]:
        """What is subtracted from the residuals, and what their mean is then."""
        middle = 0.0

        def mean(most: float) -> float:
            rows = Clip(bound=self.psi).mean(self.data, lambda block: (self._residual(block, middle)[:, None], None), width=1)
            return float(np.clip(self.curator.release(release, rows.to("l2"))[0], -most * self.psi, most * self.psi))

        for _ in range(release.count - 1):
            middle += mean(1.0) / UNCLIPPED
        return middle, mean(MOST_LEVEL)
