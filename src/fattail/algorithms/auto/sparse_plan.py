"""The releases of the sparse ``auto``: public arithmetic on rows, columns, budget and what the user declared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from fattail.algorithms.auto.many_columns import blur
from fattail.algorithms.parts.support_descent import DEFAULTS as DESCENT
from fattail.algorithms.parts.support_fit import center_plan
from fattail.algorithms.parts.support_joint import most_columns
from fattail.algorithms.parts.support_plan import SCALE, FitPlan
from fattail.columns.units import first_noise, planned_counts
from fattail.losses import Loss
from fattail.privacy import Curator, Gaussian, Mechanism, TopK
from fattail.privacy.calibration import gaussian_multiplier
from fattail.rows.data import PrivateData

# Shares of the budget for screening, units, rough fits and the last fit. Tuned on Gaussian features with t(2.5) noise, reported
# on others.
SCREENING, UNITS, ROUGH, FINAL = 0.42, 0.04, 0.1, 0.3
# Without a given sparsity, too many columns are fitted, so the fit gets a larger share. The same holds where all are fitted.
SCREENING_AUTO, FINAL_AUTO = 0.35, 0.4
ALL_ROUGH, ALL_FINAL = 0.2, 0.6
ALL_ROUGH_STEPS, ALL_FINAL_STEPS = (0.15, 0.2, 0.3, 0.35), (0.1, 0.12, 0.14, 0.17, 0.2, 0.27)
# Numbers are fitted by steps of equal budget (``parts/support_descent.py``). On Gaussian columns with t(2.5) noise, 12 steps were
# better than 16 or 24 below epsilon 1, and as good above.
DESCENT_ROUGH, DESCENT_FINAL = 0.4, 0.4
DESCENT_ROUGH_STEPS, DESCENT_FINAL_STEPS = (0.02, *6 * (0.98 / 6,)), 6 * (1 / 6,)
# A gradient of all columns shows a direction if its noise is below this multiple of the largest gradient that residuals of one
# size can have.
MOST_NOISE = 0.5
# Without a given sparsity, all columns are fitted if so many times the affordable ones are all. With d = 50, n = 4000 and epsilon
# .5, where 17 are affordable, that halves the error for 20 columns that are not zero, and costs a third for 5.
EASILY = 3
ROUGH_STEPS, FINAL_STEPS = (0.3, 0.7), (0.2, 0.3, 0.5)
# Of the fit: more than any of the possible fits makes releases.
PARTS = 64
# Columns to try, relative to the number that noise allows (``affordable_columns``), with and without a given sparsity.
AFFORDABLE, AFFORDABLE_AUTO = 0.3, 0.2
# If the budget allows more columns than are asked for, this share of the others is also fitted, and the best are kept.
SPARE = 0.03
# Largest share of the selection of the typical entry. Below it, the share makes n rows this many scales of the noise.
MOST_ENTRY, CLEAR = 0.1, 30


class Budgeted(Protocol):
    """Whatever has a privacy budget: a curator or an estimator."""

    epsilon: float
    delta: float


def selection_noise(curator: Budgeted, share: float, k: int = 1) -> float:
    """Gumbel scale, in rows, of each of ``k`` selections that divide a share of the budget: public arithmetic."""
    return gaussian_multiplier(curator.epsilon, curator.delta) * math.sqrt(k / share)


def affordable_columns(curator: Curator, n: int, d: int, multiple: float) -> int:
    """How many columns can be told from noise with this budget.

    Scores of k equally strong columns are about ``n / sqrt(k)`` rows, and the largest noise of
    d selections is ``log d`` times its scale, which grows with ``sqrt(k)``.
    """
    return max(1, int(multiple * n / selection_noise(curator, SCREENING) / max(math.log(d), 1.0)))


def gradient_noise(curator: Curator, n: int, d: int) -> float:
    """Length of the noise of a gradient with the whole budget, over the length of a row times the clip of residuals."""
    return 2 * math.sqrt(d + 1) * gaussian_multiplier(curator.epsilon, curator.delta) * math.sqrt(d + 1) / n


@dataclass(frozen=True)
class TableDefaults:
    """Shares and limits for columns in units of their own; set by hand on the tables that ``benchmarks/real_tables.py`` marks as
    tuned."""

    units: tuple[float, float] = (0.12, 0.04)
    """Shares of the counts for centers and scales of all columns, and of those that are chosen first."""
    clear: tuple[float, float] = (0.05, 0.1)
    """Units of all columns, and of chosen ones, are counted if the noise of a count is at most this share of the rows."""
    finish: float = 0.07
    """Share that is added to the last fit."""
    fit: float = 0.2
    """Share of the fit for which the number of columns is public arithmetic."""
    first: float = 0.14
    """Share of the first selection, as large as the fit of a table can be ..."""
    later: float = 0.28
    """... and of the others, of which a table makes those that it needs."""
    few: int = 4
    """Units of fewer columns do not say whether all are alike: one that noise made would turn scaled columns into a table."""
    rows: float = 0.005
    """Share of the count of rows that look scaled. It is compared with half of the rows, so it may be noisy."""
    screening: float = 0.06
    """Share of the selection of columns for a table for which, if its columns were alike, all would be fitted without one."""


TABLES = TableDefaults()


@dataclass(frozen=True)
class Plan:
    """All releases; public arithmetic on n, d, the budget and what the user declared."""

    sizes: list[int]
    """Columns of each part."""
    fitted: int
    """Most columns of a table that are fitted."""
    everything: bool
    """Whether all columns are fitted if they are alike ..."""
    descends: bool
    """... and whether by many cheap steps, since second moments would be mostly noise."""
    entries: TopK
    response: tuple[Mechanism, ...]
    centers: tuple[TopK, ...]
    units: tuple[TopK, ...]
    spread: tuple[TopK, ...]
    level: tuple[Gaussian, ...]
    screens: list[TopK]
    rough: list[FitPlan]
    final: FitPlan
    inner: tuple[Gaussian, ...]
    """The gradients and moments of all fits, if columns are alike: parts of ``fit``."""
    fit: Gaussian
    """The one release that is divided among those of whatever the fit turns out to be."""
    unit_rounds: tuple[Gaussian, ...]
    """Rounds of counts of all columns or of those that are chosen first, or none where they would show nothing."""
    finds_all_units: bool
    """Whether the units of all columns are released before any column is chosen."""
    scaled: tuple[Gaussian, ...]
    """Number of rows that look scaled."""

    @classmethod
    def of(
        cls,
        curator: Curator,
        data: PrivateData,
        loss: Loss,
        k: int,
        most: int,
        *,
        own_units: bool,
        intercept: bool,
        sparsity: int | None,
    ) -> Plan:
        n, d, numbers, told = data.n, data.d, math.isinf(loss.slope), sparsity is not None
        size, raw = size_share(curator, n), intercept and own_units  # a table may have columns in units of their own
        # If most columns are asked for, choosing among them costs more than it saves.
        clear = numbers and intercept and gradient_noise(curator, n, d) < MOST_NOISE
        everything = 2 * max(k, (sparsity or 0) if clear else 0) >= d or (not told and numbers and EASILY * k >= d)
        k = d if everything else k
        fitted = most_columns(n, gaussian_multiplier(curator.epsilon, curator.delta) / math.sqrt(TABLES.fit) / loss.curvature)
        sizes, shares = _selections(k, 1 if everything else min(5 if 2 * k <= most else 3, k), d, told)
        if raw and not told and not everything and fitted < k:
            sizes, shares = _first_and_later(k, fitted)
        # If the budget is too small for a unit of each column, they share one.
        measured = own_units and not numbers and selection_noise(curator, UNITS, k) < n / 12
        # A center may be any number, a unit is near the typical one: a center needs less noise.
        centered = measured and intercept and selection_noise(curator, UNITS, k) < n / 40
        unit_rounds, of_all = _unit_rounds(curator, n, d, sizes[0]) if raw else ((), False)
        is_table_shown = bool(unit_rounds)
        screens = [TopK(f"columns, part {q + 1}", share, k=m) for q, (share, m) in enumerate(zip(shares, sizes, strict=True))]
        if everything:
            screens = [TopK("columns", TABLES.screening, k=fitted)] if is_table_shown and fitted < d else []
        descends = everything and numbers and blur(n, d, curator.epsilon, curator.delta) > DESCENT.blur
        looks = 3 if descends else len(sizes)
        rough, final = _fits(len(sizes), everything, descends, told, size, TABLES.finish if is_table_shown else 0.0)
        inner = (*(gradient for plan in rough for gradient in plan.gradients), *final.values)
        return cls(
            sizes,
            fitted,
            everything,
            descends,
            typical_plan(curator, n),
            center_plan(loss, size) if intercept else (),
            (TopK("center of a column", UNITS, count=k),) if centered else (),
            (TopK("unit of a column", UNITS, count=k),) if measured else (),
            (TopK("scale of residuals", looks * size, count=looks),) if numbers else (),
            _levels(len(sizes)) if numbers and intercept and screens else (),
            screens,
            rough,
            final,
            inner,
            Gaussian("fit", sum(m.share for m in inner), parts=PARTS),
            # The labels' fit finds the units of the chosen columns itself; before, only those of all columns are of use.
            unit_rounds if of_all or (numbers and (everything or sizes[0] >= TABLES.few)) else (),
            of_all,
            (Gaussian("rows that look scaled", TABLES.rows),) if is_table_shown else (),
        )

    def __iter__(self) -> Iterator[Mechanism]:
        yield from (self.entries, *self.response, *self.centers, *self.units, *self.spread, *self.level)
        yield from self.screens
        yield from (*self.final.sizes, self.fit)
        yield from (*self.unit_rounds, *self.scaled)


def _selections(k: int, parts: int, d: int, told: bool) -> tuple[list[int], list[float]]:
    """Columns and budget of each of several selections of about as many columns."""
    # If few columns are left out, the fit needs the budget more than the selection does.
    share = (SCREENING if told else SCREENING_AUTO) * min(1.0, max(0.5, math.log(d / k) / 4))
    sizes = [k // parts + (q < k % parts) for q in range(parts)]
    return sizes, [share * m / k for m in sizes]


def _levels(parts: int) -> tuple[Gaussian, ...]:
    """For each selection. The first, whose residuals have no fit yet, first moves their middle, which is then measured again."""
    later = (Gaussian(f"level of residuals, part {q + 1}", SCALE / 4) for q in range(1, parts))
    return Gaussian("level of residuals", SCALE, count=2), *later


def _first_and_later(k: int, first: int) -> tuple[list[int], list[float]]:
    """Columns and budget of a first selection, which is enough for a table, and of two later ones."""
    rest = k - first
    sizes = [m for m in (first, rest - rest // 2, rest // 2) if m]
    return sizes, [TABLES.first, *(TABLES.later * m / max(rest, first) for m in sizes[1:])]


def _fits(parts: int, everything: bool, descends: bool, told: bool, size: float, more: float) -> tuple[list[FitPlan], FitPlan]:
    """The rough fits and the last one, for columns that are alike; the last one has a share of ``more``."""
    if descends:
        first = FitPlan.rough("descent", DESCENT_ROUGH, DESCENT_ROUGH_STEPS)
        return [first], FitPlan.measured("fit", DESCENT_FINAL + more, DESCENT_FINAL_STEPS, size)
    if everything:
        first = FitPlan.rough("rough fit", ALL_ROUGH, ALL_ROUGH_STEPS)
        return [first], FitPlan.measured("fit", ALL_FINAL + more, ALL_FINAL_STEPS, size)
    rough = [FitPlan.rough(f"rough fit {q + 1}", ROUGH / parts, ROUGH_STEPS) for q in range(parts)]
    return rough, FitPlan.measured("fit", (FINAL if told else FINAL_AUTO) + more, FINAL_STEPS, size)


def shows_no_scale(budget: Budgeted, n: int) -> bool:
    """Whether there are too few rows to tell a scale from noise, so that only an intercept is fitted."""
    return selection_noise(budget, typical_plan(budget, n).share) > n / 20


def typical_plan(curator: Budgeted, n: int) -> TopK:
    """Selection of the typical entry, the unit of everything after it. Noise must not lift any of 900 empty octaves by n / 2
    rows."""
    return TopK("typical feature", size_share(curator, n))


def size_share(curator: Budgeted, n: int) -> float:
    """Share of the selection of a size on which all later steps depend: larger for fewer rows."""
    return min(MOST_ENTRY, max(SCALE, (CLEAR * selection_noise(curator, 1.0) / n) ** 2))


def _unit_rounds(curator: Curator, n: int, d: int, chosen: int) -> tuple[tuple[Gaussian, ...], bool]:
    """Rounds of counts for all columns and the response if their noise is small enough; otherwise for so many chosen ones;
    otherwise none. And whether they are for all columns."""

    def noise(width: int, share: float) -> float:
        return first_noise(width, share, gaussian_multiplier(curator.epsilon, curator.delta)) / n

    every, few = TABLES.units
    if noise(d + 1, every) <= TABLES.clear[0]:
        return planned_counts(every), True
    return (planned_counts(few) if noise(chosen + 1, few) <= TABLES.clear[1] else ()), False
