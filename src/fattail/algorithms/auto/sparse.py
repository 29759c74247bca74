"""The sparse ``auto``: screen columns privately, fit the chosen ones, drop what noise explains.

Nothing is declared. Screening compares residuals with bounded faces of the features
rather than with their sizes: a bounded product loses little signal, its noise does not grow with
the tails, and columns may be in any unit and around any center. It runs in a few parts with a
rough fit in between, because what the first columns explain no longer hides the others.

Columns that are all around zero and in about one unit, as if somebody had scaled them, are fitted by steps that take them as
nearly uncorrelated (``parts/support_fit.py``). Columns of a real table have centers and units of their own and are correlated:
there the joint moments of the dense default are released on the chosen columns (``parts/support_joint.py``). Which of the two
it is, released units of the first chosen columns tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

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
    SparseFit,
    center,
    center_plan,
    refine,
    typical,
    typical_entry,
)
from fattail.algorithms.parts.support_joint import JointSupport, columns_are_alike, most_columns
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.columns.location import dense
from fattail.columns.units import DEFAULTS as COUNTS
from fattail.columns.units import ColumnUnits, find_units
from fattail.losses import Logistic, Loss, Needs, Squared
from fattail.privacy import Curator, Gaussian, Mechanism, TopK
from fattail.privacy.calibration import gaussian_multiplier
from fattail.robust import Clip
from fattail.rows.data import Block, PrivateData

# Shares of the budget. Tuned on Gaussian features with t(2.5) noise, reported on others.
SCREENING, UNITS, ROUGH, FINAL = 0.42, 0.04, 0.1, 0.3
# A column around 0 shows in its sign. One that is always positive does not, but in some wave of its logarithm that is
# monotone over the octaves it spans, whatever its unit. Which face is best need not be known: the largest score counts.
PERIODS = np.array([0.5, 2.0, 8.0])
FACES = 1 + 2 * PERIODS.size
# Without a sparsity, more columns are fitted than are good: the fit deserves more. So it does where all columns are fitted.
SCREENING_AUTO, FINAL_AUTO = 0.35, 0.4
ALL_ROUGH, ALL_FINAL = 0.2, 0.6
ALL_ROUGH_STEPS, ALL_FINAL_STEPS = (0.15, 0.2, 0.3, 0.35), (0.1, 0.12, 0.14, 0.17, 0.2, 0.27)
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


@dataclass(frozen=True)
class TableDefaults:
    """What columns in units of their own need; set by hand on the tables that ``benchmarks/real_tables.py`` marks as tuned."""

    looks: float = 0.12
    """Share of centers and scales of columns."""
    clear: tuple[float, float] = (0.05, 0.1)
    """Noise of a count, as a share of the rows, up to which units are looked for: of all columns, and of chosen ones."""
    finish: tuple[float, float, float, float] = (0.02, 0.01, 0.02, 0.02)
    """Shares of mean squares of columns, of the check that the fit is better than none, of the intercept, of standard errors."""
    last: float = 0.1
    """Share of the last round, of which the number of columns is public arithmetic."""
    screening: float = 0.06
    """Share of a selection of columns where those that are alike would all be taken."""


TABLES = TableDefaults()


@dataclass(frozen=True)
class Plan:
    """All releases; public arithmetic on n, d, the budget and what the user declared."""

    sizes: list[int]
    """Columns of each part."""
    everything: bool
    """All columns are taken if they are alike."""
    entries: TopK
    response: tuple[Mechanism, ...]
    centers: tuple[TopK, ...]
    units: tuple[TopK, ...]
    spread: tuple[TopK, ...]
    level: tuple[Gaussian, ...]
    screens: list[TopK]
    rough: list[FitPlan]
    final: FitPlan
    looks: list[tuple[Gaussian, ...]]
    """Rounds of counts: one list for all columns, one for each part, or none where they would show nothing."""
    finish: tuple[Gaussian, ...]

    @classmethod
    def of(
        cls, curator: Curator, data: PrivateData, loss: Loss, k: int, most: int, *, own_units: bool, intercept: bool, told: bool
    ) -> Plan:
        n, d, numbers = data.n, data.d, math.isinf(loss.slope)
        everything = 2 * k >= d
        k = d if everything else k
        parts = 1 if everything else min(5 if 2 * k <= most else 3, k)
        sizes = [k // parts + (q < k % parts) for q in range(parts)]
        # Without a unit of their own, where the budget cannot carry one each, columns share one.
        measured = own_units and selection_noise(curator, UNITS, k) < n / 12
        # A center is looked for among all numbers, a unit near the typical one.
        centered = measured and intercept and selection_noise(curator, UNITS, k) < n / 40
        # Where few columns have to be left out, to find them is worth less than to fit the others.
        screening = (SCREENING if told else SCREENING_AUTO) * min(1.0, max(0.5, math.log(d / k) / 4))
        looks = _looks(curator, n, d, sizes) if numbers and intercept and own_units else []
        names = ("column squares", "gain", "mean residual", "squares of gradients")
        screens = [TopK(f"columns, part {q + 1}", screening * m / k, k=m) for q, m in enumerate(sizes)]
        if everything:
            fitted = most_columns(n, gaussian_multiplier(curator.epsilon, curator.delta) / math.sqrt(TABLES.last))
            screens = [TopK("columns", TABLES.screening, k=fitted)] if looks and fitted < d else []
        return cls(
            sizes,
            everything,
            typical_plan(curator, n),
            center_plan(loss) if intercept else (),
            (TopK("center of a column", UNITS, count=k),) if centered else (),
            (TopK("unit of a column", UNITS, count=k),) if measured else (),
            (TopK("scale of residuals", parts * SCALE, count=parts),) if numbers else (),
            (Gaussian("level of residuals", parts * SCALE / 4, count=parts),) if numbers and intercept and screens else (),
            screens,
            [FitPlan.rough("rough fit", ALL_ROUGH, ALL_ROUGH_STEPS)]
            if everything
            else [FitPlan.rough(f"rough fit {q + 1}", ROUGH / parts, ROUGH_STEPS) for q in range(parts)],
            FitPlan.measured("fit", ALL_FINAL, ALL_FINAL_STEPS)
            if everything
            else FitPlan.measured("fit", FINAL if told else FINAL_AUTO, FINAL_STEPS),
            looks,
            tuple(Gaussian(name, share) for name, share in zip(names, TABLES.finish, strict=True)) if looks else (),
        )

    def __iter__(self) -> Iterator[Mechanism]:
        yield from (self.entries, *self.response, *self.centers, *self.units, *self.spread, *self.level)
        yield from self.screens
        for fit in (*self.rough, self.final):
            yield from fit
        for look in self.looks:
            yield from look
        yield from self.finish

    @property
    def looks_at_all(self) -> bool:
        """Whether the units of all columns are looked for, before any is chosen."""
        return len(self.looks) == 1 < len(self.sizes) or (self.everything and bool(self.looks))


def typical_plan(curator: Curator, n: int) -> TopK:
    """The typical entry, in whose unit all else is: of 900 octaves that hold nothing noise must lift none by n / 2 rows."""
    return TopK("typical feature", min(MOST_ENTRY, max(SCALE, (CLEAR * selection_noise(curator, 1.0) / n) ** 2)))


def _looks(curator: Curator, n: int, d: int, sizes: list[int]) -> list[tuple[Gaussian, ...]]:
    """Rounds of counts for all columns and the response, if these would show; else for each part; else none."""

    def noise(width: int, share: float) -> float:
        return gaussian_multiplier(curator.epsilon, curator.delta) * math.sqrt(2 * width / (share * max(COUNTS.shares))) / n

    def rounds(name: str, share: float) -> tuple[Gaussian, ...]:
        return tuple(Gaussian(f"{name}, round {t + 1}", share * part) for t, part in enumerate(COUNTS.shares))

    if noise(d + 1, TABLES.looks) <= TABLES.clear[0]:
        return [rounds("column counts", TABLES.looks)]
    share = TABLES.looks / len(sizes)
    if noise(sizes[0] + 1, share) > TABLES.clear[1]:
        return []
    return [rounds(f"column counts, part {q + 1}", share) for q in range(len(sizes))]


@registered(
    "auto",
    estimators=Offered("sparse"),
    paper="this library",
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
        Largest number of coefficients that are not 0; None to take what the budget carries.
    feature_scale : array of shape (d,), optional
        Public unit of each column; measured privately by default.
    fit_intercept : bool

    Notes
    -----
    *Privacy.* A fixed list of releases, all bounded row by row: tail counts of magnitudes
    (sensitivity 1), counts of columns, residual times a bounded face of a feature clipped to a public bound, gradients and
    second moments pulled back to a ball. Which columns are fitted and how, the clipping bounds, the
    steps and the shrinkage are functions of earlier releases. Sparse storage is taken as
    public knowledge that rows have few entries and leads to `short_rows_fit`.
    """
    n, d = data.n, data.d
    scale = np.ones(d) if feature_scale is None else feature_scale
    most = carried(curator, n, d, CARRY_AUTO if sparsity is None else CARRY)
    if data.is_sparse:
        k = sparsity or max(most, n // 20)
        return SparseFit(*short_rows_fit(curator, data, loss, k, feature_scale=scale, fit_intercept=fit_intercept))
    if selection_noise(curator, typical_plan(curator, n).share) > n / 20:  # no scale of so few rows can be told from noise
        entries = typical_plan(curator, n)
        curator.plan(entries)
        typical(curator, entries, data, lambda b: typical_entry(b, scale), 0.5)
        return SparseFit(np.zeros(d), 0.0, np.full(d + 1, math.inf))
    k = min(d, most, sparsity or most)
    if sparsity is not None:
        k = min(d, k + min(k, int(SPARE * (most - k))))
    plan = Plan.of(
        curator, data, loss, k, most, own_units=feature_scale is None, intercept=fit_intercept, told=sparsity is not None
    )
    curator.plan(*plan)
    # Typical magnitudes are means, units are closer to root mean squares.
    unit = UNIT * typical(curator, plan.entries, data, lambda b: typical_entry(b, scale), 0.5)
    fit = Fit(loss, unit * scale, 1.0, fit_intercept)
    if fit_intercept:
        fit.intercept = center(curator, data, loss, plan.response)
    found = find_units(curator, plan.looks[0], data, True) if plan.looks_at_all else None
    psi = typical(curator, plan.spread[0], data, fit.residual, RESIDUALS) if plan.spread else 0.5
    first = np.arange(d) if plan.everything else _screen(curator, plan, 0, data, fit, psi, found)
    if plan.looks:
        looked = found if found is not None else find_units(curator, plan.looks[0], data.chosen(first), True)
        noise = curator.noise(plan.looks[0][0], math.sqrt(2 * looked.scale.size)) / n
        if not columns_are_alike(_units_of(looked, first if found is not None else np.arange(first.size)), noise):
            if plan.everything and plan.screens:
                first = _screen(curator, plan, 0, data, fit, psi, found)
            return _of_a_table(curator, data, plan, first, looked, found, sparsity)
    return _of_columns_alike(curator, data, plan, fit, first, psi, sparsity)


def _units_of(found: ColumnUnits, columns: Indices) -> ColumnUnits:
    return ColumnUnits(*(np.asarray(part)[columns] for part in found))


def _of_columns_alike(
    curator: Curator, data: PrivateData, plan: Plan, fit: Fit, chosen: Indices, psi: float, sparsity: int | None
) -> SparseFit:
    """Fit columns in about one unit: each part is screened, then roughly fitted with those before; at last all of them."""
    for release in (*plan.screens, *plan.level) if plan.everything else ():
        curator.waive(release)
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
        if q > 0 and plan.looks[1:]:  # what units of their own would have cost
            rough = replace(rough, gradients=(*plan.looks[q], *rough.gradients))
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


def _of_a_table(
    curator: Curator,
    data: PrivateData,
    plan: Plan,
    chosen: Indices,
    looked: ColumnUnits,
    found: ColumnUnits | None,
    sparsity: int | None,
) -> SparseFit:
    """Fit columns in units of their own: each part is screened and fitted with those before by one round of joint moments."""
    assert plan.final.clip and plan.final.radius and plan.final.moments
    for release in (*plan.centers, *plan.units, plan.final.clip, plan.final.radius):
        for _ in range(release.count):
            curator.waive(release)
    fit = JointSupport(curator, data, float(looked.center[-1]), float(looked.scale[-1]))
    middle, parts = len(plan.final.gradients) // 2 + 1, len(plan.sizes)
    early, last = plan.final.gradients[:middle], plan.final.gradients[middle:]
    most = most_columns(data.n, 1 / math.sqrt(sum(curator.noise(release) ** -2.0 for release in last)))
    for q, rough in enumerate(plan.rough):
        if q > 0:
            psi = typical(curator, plan.spread[0], data, fit.residual, RESIDUALS)
            chosen = _screen(curator, plan, q, data, fit, psi, found)
        chosen = chosen[: max(1, most * (q + 1) // parts - fit.support.size)]  # the first ones have the largest scores
        if found is not None:
            looked = _units_of(found, chosen)
        elif q > 0:
            looked = find_units(curator, plan.looks[q], data.chosen(chosen), False)
        fit.add(chosen, looked)
        if q < parts - 1:
            fit.rounds(rough.gradients)
    wide, guard, mean, squares = plan.finish
    fit.widen(wide)
    joint = fit.rounds(plan.rough[-1].gradients, (plan.final.moments, *early), last)
    result = fit.finish(joint, guard, mean, squares, sparsity)
    return result if found is None else replace(result, hidden=np.flatnonzero(np.isinf(found.scale[: data.d])))


def _screen(
    curator: Curator,
    plan: Plan,
    part: int,
    data: PrivateData,
    fit: Fit | JointSupport,
    psi: float,
    found: ColumnUnits | None,
) -> Indices:
    """Columns outside the support with the largest scores: of ``mean clip(residual) * face``, the largest over faces.

    Clipped residuals are taken around their own released mean, else every column that is
    always positive would score by it. A label's residual is weighted instead of clipped, by
    what it would be for the other label at worst: that leaves its mean at 0 where the fit is right.
    Faces are of columns in their units, where these were looked for; those without a visible spread score last.
    """
    shown = np.ones(data.d, dtype=bool) if found is None else np.isfinite(found.scale[: data.d])

    def residual(block: Block) -> Floats:
        z = fit.predictor(block)
        r = -fit.loss.derivative(z, block.y)
        return np.clip(r, -psi, psi) if fit.has_tails else psi * r / expit(np.abs(z))

    def faces(block: Block) -> tuple[Floats, Floats]:
        X = dense(block)
        if found is not None:
            X = (X - found.center[: data.d]) / np.where(shown, found.scale[: data.d], 1.0)
        return np.asarray(_kernels.waves_of(X, PERIODS)), residual(block) - at

    at, mechanism = 0.0, plan.screens[part]
    if plan.level:
        mean = Clip(bound=psi).mean(data, lambda block: (residual(block)[:, None], None), width=1)
        at = float(np.clip(curator.release(plan.level[0], mean.to("l2"))[0], -psi / 2, psi / 2))
    best = Clip(bound=psi + abs(at)).mean(data, faces, width=FACES * data.d).magnitudes().largest(FACES)
    candidates = np.setdiff1d(np.arange(data.d), fit.support)
    visible = candidates[shown[candidates]]
    candidates = visible if visible.size >= mechanism.k else candidates
    return candidates[curator.select(mechanism, best[candidates])]
