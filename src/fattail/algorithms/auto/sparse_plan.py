"""The releases of the sparse ``auto``: public arithmetic on rows, columns, budget and what the user declared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from fattail.algorithms.auto.many_columns import blur
from fattail.algorithms.parts.support_fit import center_plan
from fattail.algorithms.parts.support_joint import most_columns
from fattail.algorithms.parts.support_plan import SCALE, FitPlan
from fattail.columns.units import DEFAULTS as COUNTS
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
# With much noise all columns are fitted along directions: shares of gradients, of the small moments after each, and of sizes;
# then how the first two are divided among the steps.
ALONG, ALONG_MOMENTS, ALONG_SIZES = 0.75, 0.1, 0.03
ALONG_STEPS, ALONG_MOMENT_STEPS = (0.11, 0.144, 0.187, 0.243, 0.316), (0.2, 0.2, 0.2, 0.2, 0.2)
# Directions are better if the blur of joint moments (``many_columns.blur``) is larger (d = 50, n = 4000: epsilon 1 and below).
ALONG_BLUR = 0.4
# A gradient of all columns shows a direction if its noise is below this multiple of the largest gradient that residuals of one
# size can have.
MOST_NOISE = 0.5
ROUGH_STEPS, FINAL_STEPS = (0.3, 0.7), (0.2, 0.3, 0.5)
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

    units: float = 0.12
    """Share of the counts for centers and scales of columns."""
    clear: tuple[float, float] = (0.05, 0.1)
    """Units of all columns, and of chosen ones, are counted if the noise of a count is at most this share of the rows."""
    finish: tuple[float, float, float, float] = (0.02, 0.01, 0.02, 0.02)
    """Shares of mean squares of columns, of the check that the fit is better than none, of the intercept, of standard errors."""
    last: float = 0.1
    """Share of the last round, of which the number of columns is public arithmetic."""
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
    everything: bool
    """Whether all columns are fitted if they are alike."""
    entries: TopK
    response: tuple[Mechanism, ...]
    centers: tuple[TopK, ...]
    units: tuple[TopK, ...]
    spread: tuple[TopK, ...]
    sizes_along: tuple[TopK, ...]
    """Sizes of residuals and of coordinates, if all columns are fitted along directions."""
    level: tuple[Gaussian, ...]
    screens: list[TopK]
    rough: list[FitPlan]
    final: FitPlan
    unit_rounds: list[tuple[Gaussian, ...]]
    """Rounds of counts: one list for all columns, one for each part, or none where they would show nothing."""
    scaled: tuple[Gaussian, ...]
    """Number of rows that look scaled."""
    finish: tuple[Gaussian, ...]

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
        size = size_share(curator, n)
        # If most columns are asked for, choosing among them costs more than it saves.
        asked = (sparsity or 0) if numbers and intercept and gradient_noise(curator, n, d) < MOST_NOISE else 0
        everything = 2 * max(k, asked) >= d
        k = d if everything else k
        parts = 1 if everything else min(5 if 2 * k <= most else 3, k)
        sizes = [k // parts + (q < k % parts) for q in range(parts)]
        # If the budget is too small for a unit of each column, they share one.
        measured = own_units and selection_noise(curator, UNITS, k) < n / 12
        # A center may be any number, a unit is near the typical one: a center needs less noise.
        centered = measured and intercept and selection_noise(curator, UNITS, k) < n / 40
        # If few columns are left out, the fit needs the budget more than the selection does.
        screening = (SCREENING if told else SCREENING_AUTO) * min(1.0, max(0.5, math.log(d / k) / 4))
        unit_rounds = _unit_rounds(curator, n, d, sizes) if numbers and intercept and own_units else []
        along = 2 * asked >= d and blur(n, d, curator.epsilon, curator.delta) > ALONG_BLUR
        names = ("column squares", "gain", "mean residual", "squares of gradients")
        screens = [TopK(f"columns, part {q + 1}", screening * m / k, k=m) for q, m in enumerate(sizes)]
        if everything:
            fitted = most_columns(n, gaussian_multiplier(curator.epsilon, curator.delta) / math.sqrt(TABLES.last))
            screens = [TopK("columns", TABLES.screening, k=fitted)] if unit_rounds and fitted < d else []
        return cls(
            sizes,
            everything,
            typical_plan(curator, n),
            center_plan(loss, size) if intercept else (),
            (TopK("center of a column", UNITS, count=k),) if centered else (),
            (TopK("unit of a column", UNITS, count=k),) if measured else (),
            (TopK("scale of residuals", parts * size, count=parts),) if numbers else (),
            (TopK("sizes of residuals and along a direction", ALONG_SIZES, count=2 * len(ALONG_STEPS)),) if along else (),
            (Gaussian("level of residuals", parts * SCALE / 4, count=parts),) if numbers and intercept and screens else (),
            screens,
            [FitPlan.rough("direction", ALONG, ALONG_STEPS)]
            if along
            else [FitPlan.rough("rough fit", ALL_ROUGH, ALL_ROUGH_STEPS)]
            if everything
            else [FitPlan.rough(f"rough fit {q + 1}", ROUGH / parts, ROUGH_STEPS) for q in range(parts)],
            FitPlan.measured("fit", ALONG_MOMENTS, ALONG_MOMENT_STEPS, size)
            if along
            else FitPlan.measured("fit", ALL_FINAL, ALL_FINAL_STEPS, size)
            if everything
            else FitPlan.measured("fit", FINAL if told else FINAL_AUTO, FINAL_STEPS, size),
            unit_rounds,
            (Gaussian("rows that look scaled", TABLES.rows),) if unit_rounds else (),
            tuple(Gaussian(name, share) for name, share in zip(names, TABLES.finish, strict=True)) if unit_rounds else (),
        )

    def __iter__(self) -> Iterator[Mechanism]:
        yield from (self.entries, *self.response, *self.centers, *self.units, *self.spread, *self.sizes_along, *self.level)
        yield from self.screens
        for fit in (*self.rough, self.final):
            yield from fit
        for rounds in self.unit_rounds:
            yield from rounds
        yield from (*self.scaled, *self.finish)

    @property
    def finds_all_units(self) -> bool:
        """Whether the units of all columns are released before any column is chosen."""
        return len(self.unit_rounds) == 1 < len(self.sizes) or (self.everything and bool(self.unit_rounds))


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


def _unit_rounds(curator: Curator, n: int, d: int, sizes: list[int]) -> list[tuple[Gaussian, ...]]:
    """Rounds of counts for all columns and the response if their noise is small enough; otherwise for each part; otherwise
    none."""

    def noise(width: int, share: float) -> float:
        return gaussian_multiplier(curator.epsilon, curator.delta) * math.sqrt(2 * width / (share * max(COUNTS.shares))) / n

    def rounds(name: str, share: float) -> tuple[Gaussian, ...]:
        return tuple(Gaussian(f"{name}, round {t + 1}", share * part) for t, part in enumerate(COUNTS.shares))

    if noise(d + 1, TABLES.units) <= TABLES.clear[0]:
        return [rounds("column counts", TABLES.units)]
    share = TABLES.units / len(sizes)
    if noise(sizes[0] + 1, share) > TABLES.clear[1]:
        return []
    return [rounds(f"column counts, part {q + 1}", share) for q in range(len(sizes))]
