"""What is released to describe a column: its location, its counts, and second looks where the first counts are unclear.

A first look counts the rows of every octave around the center. A second look counts again, with fresh noise:

- all rows far beyond the visible ones, in one count, if the first counts support such rows or there are many rows;
- all octaves, if no rows are visible besides a point mass;
- single octaves that may hold rows, if those rows would change the answer, and all far ones if the one count shows rows;
- the parts of the last octave, if many rows lie in it, since they may end abruptly (``closer.py``).

Second looks take their budget from the release that follows them. Where none is needed, that release gets the whole budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail._tools.warnings import warn_utility
from fattail.columns.closer import find_hard_ends, noise_of_all
from fattail.columns.description import CELLS, NOT_YET, ColumnDescription
from fattail.columns.ends import Ends, choose_ends
from fattail.columns.evidence import CountNoise, FarRows
from fattail.columns.hidden import HIDDEN, HiddenRows, prior_of_hidden
from fattail.columns.location import (
    GRID,
    OCTAVE_GRID,
    OCTAVES,
    LocationGrid,
    Noise,
    find_locations,
    release_counts,
)
from fattail.privacy import Curator, TopK
from fattail.robust.histogram import log_totals
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LookRules:
    """Constants of second looks. Set by hand on ``column_laws.TUNING``; try others with ``benchmarks/tuning/columns.py``."""

    doubtful: float = 0.15
    """Fraction of the following release's budget for counting doubtful cells again."""
    likely: float = 0.35
    """The same for cells that are more likely to hold rows than not, because to miss rows costs more."""
    unseen: float = 0.5
    """The same for counting all octaves again, where no rows are visible besides a point mass."""
    biased: float = 1.1
    """Tails are counted again if the standard deviation of the predicted bias exceeds this multiple of the release's noise."""
    tails: float = 0.45
    """Budget of the first and second counts together in that case, as a fraction of the following release's budget before it is
    split."""
    least_tails: float = 0.1
    """Tails are not counted again if less than this fraction would be left for the second counts."""
    far: float = 0.16
    """The same for one count of all rows far beyond the visible ones, in columns whose first counts support such rows."""
    far_always: float = 0.08
    """The same in other columns, if there are many rows."""
    far_rows: tuple[float, float, float] = (3000.0, 6000.0, 20_000.0)
    """Numbers of rows for each scale that the noise of all counts would have by the whole following release (n epsilon of about
    10,000, 20,000 and 50,000): far rows are counted from the first one on if the first counts support them, and always from the
    second one on. From the last one on, both fractions decrease with the root of the number of rows: then few enough rows are
    found, and the noise matters more against the mean of these very rows."""
    suspicion: float = -0.4
    """Least log likelihood ratio of such rows to none that is support. It is exceeded in a fifth to a quarter of columns without
    such rows."""
    inside: int = 16
    """Number of octaves below the resolution of a center that are counted one by one."""
    beyond: int = 24
    """Number of octaves above the magnitude of a center that are counted one by one."""
    around_zero: int = 45
    """Number of octaves above everyday numbers (and below them, if the center is zero) that are counted one by one: from 1e-12 to
    1e15."""
    group: int = 4
    """Outside of these, so many octaves are counted together."""


LOOKS = LookRules()


class DescriptionPlan(NamedTuple):
    """The releases that a description takes."""

    stages: tuple[TopK, ...]
    counts: Noise
    grid: LocationGrid = GRID
    looks_again: bool = False
    """Whether doubtful cells can be counted again."""
    check: Noise | None = None
    """Numbers of rows in the cells of the second stage, which decide whether there are more stages."""

    @property
    def mechanisms(self) -> tuple[TopK | Noise, ...]:
        return (*self.stages, *(() if self.check is None else (self.check,)), self.counts)


class OctaveCounts:
    """Exact numbers of rows at, above and below public centers, by octave of the distance; private.

    Notes
    -----
    *Privacy.* A row is in exactly one cell of each column: replacing it moves at most two counts of a column by one, and at most
    one if only one is released. Proof: ``looks.proof.md``.
    """

    def __init__(self, data: PrivateData, center: Floats, resolution: Floats) -> None:
        signed = log_totals(data, center, OCTAVE_GRID)
        outer = np.array([merged_octaves(c, w) for c, w in zip(center, resolution, strict=True)])
        table = np.zeros((data.d, 2, CELLS), dtype=signed.dtype)
        np.add.at(table, (np.arange(data.d)[:, None, None], np.arange(2)[:, None], outer[:, None]), signed[:, :, 1:])
        self._table = np.concatenate((signed[:, :, :1].sum(axis=1), table.reshape(data.d, -1)), axis=1)
        counted = np.repeat((outer == np.arange(CELLS))[:, None], 2, axis=1).reshape(data.d, -1)
        self._counted = np.concatenate((np.ones((data.d, 1), dtype=np.bool_), counted), axis=1)

    def released(self, curator: Curator, mechanism: Noise) -> tuple[Floats, CountNoise]:
        """Noisy counts of all cells, of shape (columns, 1 + 2 CELLS)."""
        return self._released(curator, mechanism, np.ones_like(self._counted))

    def released_cells(self, curator: Curator, mechanism: Noise, cells: NDArray[np.bool_]) -> tuple[Floats, CountNoise]:
        """Noisy counts of some cells, marked in ``cells`` of shape (columns, 2, CELLS), and of the center if all are; else zero.

        Of shape (columns, 1 + 2 CELLS), the center first.
        """
        everything = np.asarray(cells.all(axis=(1, 2)))
        marked = np.concatenate((everything[:, None], cells.reshape(len(cells), -1)), axis=1)
        return self._released(curator, mechanism, marked)

    def released_beyond(self, curator: Curator, mechanism: Noise, start: NDArray[np.intp]) -> tuple[Floats, CountNoise]:
        """Noisy number of rows of each column from an octave on, both sides together; of no row if it is ``CELLS``."""
        octaves = self._table[:, 1:].reshape(len(start), 2, CELLS).sum(axis=1)
        beyond = np.where(np.arange(CELLS) >= start[:, None], octaves, 0).sum(axis=1)
        return release_counts(curator, mechanism, beyond, int(np.sum(start < CELLS)))

    def _released(self, curator: Curator, mechanism: Noise, marked: NDArray[np.bool_]) -> tuple[Floats, CountNoise]:
        """Noisy counts of the marked cells; octaves that are counted with others are zero."""
        counted, table = marked & self._counted, np.zeros(marked.shape)
        table[counted], noise = release_counts(curator, mechanism, self._table[counted], moved_counts(counted))
        return table, noise


def merged_octaves(center: float, resolution: float) -> NDArray[np.intp]:
    """The octave with which each octave of distance from a center is counted: its own, or the outermost of its group.

    Octaves far below the resolution of the center are one group, because the answer does not depend on them. So are four octaves
    each beyond a distance that few columns have. Public arithmetic; it saves draws of noise.
    """
    k = np.arange(CELLS)
    usual = OCTAVES + (math.frexp(center)[1] - 1 if center else GRID.everyday)
    inside = OCTAVES + math.frexp(resolution)[1] - 1 - LOOKS.inside if resolution else usual - LOOKS.around_zero
    # A center near zero says little about the magnitude of the column, so octaves of everyday distances are never grouped.
    outside = max(usual + LOOKS.beyond, OCTAVES + GRID.everyday + LOOKS.around_zero)
    size = LOOKS.group
    groups = inside - (inside - k) // size * size if not resolution else np.full(CELLS, inside)
    return np.asarray(
        np.clip(np.where(k < inside, groups, np.where(k > outside, outside - (outside - k) // size * size, k)), 0, CELLS - 1)
    )


def moved_counts(marked: NDArray[np.bool_]) -> int:
    """How many of the marked cells, of shape (columns, cells), a replaced row moves by one: two of a column, if it has two."""
    return int(np.minimum(marked.sum(axis=1), 2).sum())


def describe(curator: Curator, plan: DescriptionPlan, data: PrivateData) -> tuple[list[ColumnDescription], OctaveCounts]:
    """Describe every column, by the releases of a plan.

    Parameters
    ----------
    curator : Curator
        Has planned ``plan.mechanisms``.
    plan : DescriptionPlan
    data : PrivateData

    Returns
    -------
    list of ColumnDescription
        Doubtful cells may be counted again.
    OctaveCounts
        The exact counts, which second looks need.

    Notes
    -----
    *Privacy.* ``find_locations``, then one table of counts around the released centers. Proof: ``looks.proof.md``.
    """
    center, resolution = find_locations(curator, plan.stages, data, plan.grid, plan.check)
    counts = OctaveCounts(data, center, resolution)
    noisy, noise = counts.released(curator, plan.counts)
    second = NOT_YET if plan.looks_again else None
    others = None if data.count_noise else noise
    columns = [
        ColumnDescription(
            data.n, float(c), float(w), float(cells[0]), cells[1:].reshape(2, CELLS), noise, second, others=others
        ).recentered()
        for c, w, cells in zip(center, resolution, noisy, strict=True)
    ]
    return columns, counts


def settle_ends(
    curator: Curator,
    release: Noise,
    data: PrivateData,
    columns: list[ColumnDescription],
    counts: OctaveCounts,
    unit: Callable[[], float],
) -> tuple[list[ColumnDescription], list[Ends]]:
    """Choose the ends of every column, with second looks where the first counts are unclear.

    Parameters
    ----------
    curator : Curator
    release : Laplace or Gaussian
        Planned with four parts: the release that follows, the count of far rows, and two second looks.
    data : PrivateData
    columns, counts
        As ``describe`` returns them.
    unit : callable
        Standard deviation of the release that follows, per unit of a column's interval, for the budget that is left of
        ``release``.

    Notes
    -----
    *Privacy.* Which cells are counted again, and with which budget, are functions of releases. Proof: ``looks.proof.md``.
    """
    ends = [choose_ends(column, unit()) for column in columns]
    prior = prior_of_hidden(_rows_per_scale(curator, release, columns))
    if any(column.second is None for column in columns):
        return columns, _with_hidden_rows(columns, ends, prior, unit())
    described, columns = columns, _with_far_rows(curator, release, columns, ends, counts)
    ends = _chosen_again(described, columns, ends, unit())
    unseen = np.array([e.guessed or not e.seen for e in ends])
    tails = LOOKS.tails - _relative_budget(curator, release, columns)
    biased = np.array([e.bias_variance > (LOOKS.biased * unit() * (e.high - e.low)) ** 2 for e in ends]) & ~unseen
    biased &= tails > LOOKS.least_tails
    again = np.array([e.doubtful for e in ends]) | (unseen | biased)[:, None, None]
    shown = np.array([c.far is not None and c.far.shown for c in columns])
    for cells, column in zip(again, columns, strict=True):
        if column.far is not None and (column.far.shown or cells[:, column.far.start :].any()):
            cells[:, column.far.start :] = True
    if again.any():
        # Interpolate between the fractions for columns of one kind.
        likely = (shown | np.array([e.likely for e in ends])) & ~(unseen | biased)
        kinds = ((unseen, LOOKS.unseen), (biased, tails), (likely, LOOKS.likely), (~(unseen | biased | likely), LOOKS.doubtful))
        look = curator.split(release, "second look", float(sum(kind.mean() * fraction for kind, fraction in kinds)))
        noisy, noise = counts.released_cells(curator, look, again)
        counted = [
            c.counted_again(cells, values[1:].reshape(cells.shape)[cells], noise, float(values[0]) if cells.all() else None)
            if cells.any()
            else c
            for c, cells, values in zip(columns, again, noisy, strict=True)
        ]
        ends = _chosen_again(columns, counted, ends, unit())
        columns = counted
    found = find_hard_ends(curator, release, data, columns)
    return found, _with_hidden_rows(found, _chosen_again(columns, found, ends, unit()), prior, unit())


def _rows_per_scale(curator: Curator, release: Noise, columns: list[ColumnDescription]) -> float:
    """Rows over the scale that the noise of all counts would have by the whole release that follows."""
    return columns[0].rows / noise_of_all(curator, release, len(columns)).scale


def _with_hidden_rows(columns: list[ColumnDescription], ends: list[Ends], prior: float, unit: float) -> list[Ends]:
    """Ends whose bounds of the bias allow for rows that the counts do not rule out; warns where these make an interval wide."""
    allowed, wide = [], 0
    for column, one in zip(columns, ends, strict=True):
        hidden = HiddenRows.of(column, one.expected) if one.seen else None
        if hidden is not None:
            above, below = hidden.bounds(prior) / column.rows
            error = math.sqrt(one.bias_variance + sum(one.square) / column.rows + (unit * (one.high - one.low)) ** 2)
            wide += max(above, below) > HIDDEN.warned * max(error, one.doubt_above, one.doubt_below)
            one = one._replace(doubt_above=max(one.doubt_above, above), doubt_below=max(one.doubt_below, below))
        allowed.append(one)
    if wide:
        warn_utility(
            f"in {wide} of {len(columns)} columns, a few rows far beyond the visible ones may hold much of the mean: "
            "the noisy counts do not rule them out, so the interval is wide"
        )
    return allowed


def _with_far_rows(
    curator: Curator, release: Noise, columns: list[ColumnDescription], ends: list[Ends], counts: OctaveCounts
) -> list[ColumnDescription]:
    """Count all rows far beyond the visible ones of each column at once, where the first counts support such rows.

    A single octave shows rows only if its count is larger than that of many empty octaves may be. One count of all is one test.
    """
    rows = _rows_per_scale(curator, release, columns)
    some, many, plenty = LOOKS.far_rows
    if rows < some:
        return columns
    start = np.array([c.far_start(HIDDEN.gap) for c in columns])
    hidden = [HiddenRows.of(c, e.expected) if e.seen else None for c, e in zip(columns, ends, strict=True)]
    suspected = np.array([h is not None and h.evidence > LOOKS.suspicion for h in hidden])
    if rows < many:
        start[~suspected] = CELLS
    if (start == CELLS).all():
        return columns
    wanted = np.where(start < CELLS, np.where(suspected, LOOKS.far, LOOKS.far_always), 0.0).mean()
    look = curator.split(release, "far rows", float(wanted) * math.sqrt(min(plenty / rows, 1.0)))
    noisy, noise = counts.released_beyond(curator, look, start)
    far = [FarRows(int(k), float(v - e.expected[:, k:].sum()), noise) for k, v, e in zip(start, noisy, ends, strict=True)]
    return [replace(c, far=f) if f.start < CELLS else c for c, f in zip(columns, far, strict=True)]


def _chosen_again(before: list[ColumnDescription], now: list[ColumnDescription], ends: list[Ends], unit: float) -> list[Ends]:
    """Ends of columns, chosen again where the description has changed."""
    return [e if new is old else choose_ends(new, unit) for old, new, e in zip(before, now, ends, strict=True)]


def _relative_budget(curator: Curator, release: Noise, columns: list[ColumnDescription]) -> float:
    """Budget of the first counts, relative to that of a release: of epsilon for Laplace noise, of rho for Gaussian noise."""
    return (noise_of_all(curator, release, len(columns)).scale / columns[0].noise.scale) ** (2 if release.norm == "l2" else 1)
