"""Center and scale of many columns at once, for models that need all of them.

There are four rounds of noisy counts. Each counts the columns that are not finished yet; the fewer they are, the less noise they
get.

1. *Find*: octaves of both signs around zero show the magnitude, or a point mass at zero.
2. *Zoom*: equal cells between the outer quantiles show center and spread.
3. *Tail*: octaves of the distance to the center, or to a point mass, show the root mean square and how far rows reach.
4. Columns with nearly all rows at one distance (a year, a latitude) are zoomed in there; columns without a visible count are
   counted again.

A column without a visible spread has an infinite scale: a model cannot distinguish it from the intercept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.columns.location import roundest
from fattail.privacy import Bounded, Curator, Gaussian
from fattail.robust import Ball
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

LOW, OCTAVES = -60, 124
"""Octaves start at 2**LOW, and there are this many; smaller magnitudes count as zero."""
CELLS = 2 * OCTAVES + 1
_EDGES = np.ldexp(1.0, np.arange(LOW, LOW + OCTAVES + 1))
_BELOW = np.concatenate([-_EDGES[:0:-1], [0.0], _EDGES[:-1]])
_ABOVE = np.concatenate([-_EDGES[-2::-1], [0.0], _EDGES[1:]])
_SQUARE = 7 / 3 * _EDGES[:-1] ** 2
"""Mean square of a uniform law on an octave."""


@dataclass(frozen=True)
class UnitDefaults:
    """Constants of the search, chosen by hand on the tables that ``benchmarks/real_tables.py`` marks as tuned."""

    shares: tuple[float, ...] = (0.35, 0.3, 0.2, 0.15)
    """Shares of the budget of units, by round: later rounds count fewer columns."""
    response: int = 2
    """The response is counted this many times in each round, because a wrong unit of it is worse than that of one column."""
    response_margin: float = 0.7
    """Octaves of the response need a threshold that is higher by this many standard deviations: noise in some far octave would
    otherwise be its unit in one of 500 fits with few rows."""
    enough: float = 0.25
    """The first round ends once visible octaves hold this share of the rows."""
    most: float = 0.5
    """A value with more than this share of the rows is a point mass."""
    outer: float = 0.05
    """Probability of the outer quantiles, and one minus it: the zoom is between them."""
    narrow: float = 0.75
    """If two neighboring cells hold more than this share of the rows, a point mass is assumed there."""
    tail_noise: float = 0.02
    """A tail is counted, and a column is zoomed in again, only if the noise of a count is below this share of the rows."""
    usual: int = 3
    """Octave of everyday numbers."""
    fine: tuple[tuple[float, int], ...] = ((0.01, 32), (0.03, 16), (math.inf, 8))
    """Pairs: largest noise of a count, as a share of the rows, and the number of cells of a zoom for it."""
    growth: float = 3.0
    """Octaves without visible rows add at most this multiple of the visible mean square."""

    merged: float = 0.4
    """If visible octaves hold less than this share of the rows, octaves of both signs are added up."""
    sufficient: float = 0.6
    """Visible cells are used alone, or one distance is taken for all, if they hold more than this share of the rows."""
    widths: tuple[float, float] = (0.12, 0.35)
    """Range of the scale, relative to the span of the grid, if too few cells are visible: between a point mass off center and two
    masses."""
    single: float = 0.9
    """A cell with more than this share of the rows (or of the largest pair of cells) is taken to hold all of them."""
    resolved: float = 0.3
    """A spread of at least this many cells is not an effect of the grid; rows spread over one cell have ``12 ** -0.5``."""
    present: float = 0.8
    """Counts are assumed to hold at least this share of the rows."""
    least_square: float = 0.1
    """A shift of the center leaves at least this part of the mean square about a point mass."""
    find_tests: int = 70
    """Octaves of a column that noise may turn up in: those that need no higher threshold, roughly."""
    margin: float = 0.7
    """A cell is visible if its count exceeds the expected maximum of the noise by this many standard deviations of the noise."""
    run_margin: float = 0.3
    """Additional standard deviations for a run of cells, because runs have several lengths."""
    added_threshold: tuple[int, float] = (12, 0.15)
    """Octaves farther than the first number from everyday numbers need a higher threshold: the second number times the standard
    deviation of the noise for each octave more."""
    added_threshold_tail: tuple[int, float] = (8, 0.2)
    """The same for distances, counted from the width of the last grid."""
    dummy_bonus: float = 0.5
    """Beside a point mass, the threshold of a distance of one is lower by this many standard deviations, because dummies are
    common."""
    square_noise: float = 0.5
    """Noise of a column's mean square, in units of its squared scale."""
    square_doubt: float = 2.0
    """A mean square must exceed one by more than this many standard deviations of the noise to widen a scale."""
    reach: float = 2.0
    """Predictions may always reach this many scales of the response from its center."""
    hidden: float = 1.25
    """If a count had to exceed this multiple of the rows to be visible, no column will be. Not one, since several cells together
    may be visible."""


DEFAULTS = UnitDefaults()


EVERYWHERE = np.array([-math.inf, math.inf])


class ColumnUnits(NamedTuple):
    """Released facts about the columns; those of the response come last if it was described."""

    center: Floats
    scale: Floats
    """Root mean square distance from the center; infinite where no spread is visible."""
    heavy: Floats
    """Factor by which it is larger if the tail continues beyond the last visible octave with the slope that it has there."""
    reach: Floats = EVERYWHERE
    """Visible range of each column, of shape (columns, 2); infinite where no count is visible."""

    @property
    def response(self) -> tuple[float, float, tuple[float, float]]:
        """Center and scale of the last column, and the range of its predictions. If no spread is visible, scale and range are
        infinite."""
        level, size = float(self.center[-1]), float(self.scale[-1])
        if not math.isfinite(size):
            return level, size, (-math.inf, math.inf)
        low, high = self.reach[-1].tolist()
        return level, size, (min(low, level - DEFAULTS.reach * size), max(high, level + DEFAULTS.reach * size))


def planned_counts(share: float, name: str = "column counts") -> tuple[Gaussian, ...]:
    """Releases for `find_units` with this share of the budget in all."""
    return tuple(Gaussian(f"{name} {t + 1}", share * part) for t, part in enumerate(DEFAULTS.shares))


def wanted_share(width: int, n: int, multiplier: float, noise: float) -> float:
    """Share of the budget for which counts of so many columns have this noise, as a share of the rows, if rounds were alike."""
    return len(DEFAULTS.shares) * 2 * width * (multiplier / (noise * n)) ** 2


def all_hidden(n: int, width: int, share: float, multiplier: float) -> bool:
    """Whether even all rows in one cell would hardly exceed the noise, so that every column gets an infinite scale.

    Public arithmetic on the first round of `find_units` with this share of the budget.
    """
    return _threshold(DEFAULTS.find_tests * width) * first_noise(width, share, multiplier) > DEFAULTS.hidden * n


def first_noise(width: int, share: float, multiplier: float) -> float:
    """Noise of the first round of counts of so many columns with this share of the budget."""
    return multiplier * math.sqrt(2 * width / (share * DEFAULTS.shares[0]))


def find_units(
    curator: Curator, releases: tuple[Gaussian, ...], data: PrivateData, with_y: bool, family: int = 1, tails: bool = True
) -> ColumnUnits:
    """Describe all columns by at most as many releases as are given; the others are waived.

    Parameters
    ----------
    curator : Curator
    releases : tuple of Gaussian
        Planned, one for each round.
    data : PrivateData
    with_y : bool
        Whether to describe the response too, as the last column.
    family : int
        Thresholds are those of at least this many columns, so that a column described alone has no more false positives.
    tails : bool
        Whether tails are part of the scale. Otherwise it is that of most rows, for models that pull long rows back.

    Notes
    -----
    *Privacy.* Each round is a table of counts: a row is in one cell of each column that is counted. Which columns are
    counted, and on which grid, are functions of earlier releases. Proof: ``units.proof.md``.
    """
    width = data.d + with_y
    margins = [DEFAULTS.response_margin if with_y and j == data.d else 0.0 for j in range(width)]
    columns = [_Column(data.n, max(width, family), tails, margin) for margin in margins]
    for release in releases:
        active = [j for j in range(width) if columns[j].stage != "done"]
        if not active:
            curator.waive(release)
            continue
        copies = [DEFAULTS.response if with_y and j == data.d else 1 for j in active]
        counted = np.repeat(active, copies)
        counts = curator.release(release, _counts(data, [columns[j] for j in counted], counted, with_y))
        noise = curator.noise(release, math.sqrt(2 * counted.size))
        for j, times, cells in zip(active, copies, np.split(counts, np.cumsum(copies)[:-1]), strict=True):
            columns[j].learn(cells.mean(axis=0), noise / math.sqrt(times))
    return ColumnUnits(*(np.array([getattr(c, name) for c in columns]) for name in ("center", "scale", "heavy", "reach")))


def widen(curator: Curator, release: Gaussian, data: PrivateData, units: ColumnUnits) -> ColumnUnits:
    """Enlarge scales of features that the mean squares of all rows show to be too small, once for each release that is planned.

    Rows too few to be visible in any octave may still hold most of a column's mean square. Squares are bounded such that the
    noise of their mean is half of the expected mean square, which is one.

    Notes
    -----
    *Privacy.* A mean of rows in a ball each time (``robust/ball.proof.md``).
    """
    bound = max(DEFAULTS.square_noise / curator.noise(release, 2.0 / data.n), 1.0)
    center, with_y = units.center, units.scale.size > data.d
    for _ in range(release.count):
        scale = units.scale

        def rows(block: Block, scale: Floats = scale) -> tuple[Floats, None]:
            return np.minimum(((_with_response(block, with_y) - center) / scale) ** 2, bound), None

        squares = curator.release(release, Ball(radius=bound).mean(data, rows, width=scale.size))
        lower = squares - DEFAULTS.square_doubt * DEFAULTS.square_noise
        units = units._replace(scale=scale * np.sqrt(np.where(np.isfinite(scale) & (lower > 1.0), squares, 1.0)))
    return units


def _with_response(block: Block, with_y: bool) -> Floats:
    rows = block.dense
    return np.column_stack([rows, np.asarray(block.y)]) if with_y else rows


def _counts(data: PrivateData, columns: list[_Column], active: Indices, with_y: bool) -> Bounded:
    """Counts of each column on its own grid."""
    zoomed = np.array([c.stage == "zoom" for c in columns])
    origin = np.array([c.low if c.stage == "zoom" else c.origin for c in columns])
    step = np.array([c.step for c in columns])
    cells = np.array([c.cells for c in columns])

    def codes(block: Block) -> NDArray[np.int16]:
        rows = np.take(_with_response(block, with_y), active, axis=1)
        octaves = _kernels.octave_cells(rows - origin, LOW, OCTAVES)
        grid = np.minimum(_kernels.grid_cells(rows, origin, step, max(cells)), cells + 1)
        return np.where(zoomed, grid, octaves).astype(np.int16)

    return Histogram(CELLS, len(columns)).counts(data, codes)


class _Column:
    """The public state of one column: its stage, its grid, and what the counts have shown."""

    def __init__(self, n: int, width: int, tails: bool, margin: float) -> None:
        self.n, self.width, self.tails, self.margin = n, width, tails, margin
        self.stage, self.origin, self.center, self.scale = "find", 0.0, 0.0, math.inf
        self.low, self.high, self.step, self.cells, self.zooms = 0.0, 0.0, 1.0, 1, 0
        self.total: Floats | float = 0.0
        self.precision, self.spread, self.has_mass, self.heavy = 0.0, 0.0, False, 1.0
        self.reach = EVERYWHERE

    def learn(self, counts: Floats, noise: float) -> None:
        """Use a round of counts; those of the same stage are averaged, weighted by their precision."""
        self.total, self.precision = self.total + counts / noise**2, self.precision + noise**-2
        stage = self.stage
        step = {"find": self._find, "zoom": self._zoom, "tail": self._tail}[stage]
        step(np.asarray(self.total / self.precision), 1 / math.sqrt(self.precision))
        if self.stage != stage:
            self.total, self.precision = 0.0, 0.0
        if not self.scale > _EDGES[0] * 8:
            self.scale = math.inf

    def _zoom_to(self, low: float, high: float, noise: float) -> None:
        self.cells = next(cells for share, cells in DEFAULTS.fine if noise <= share * self.n)
        self.low, self.high, self.stage, self.zooms = low, high, "zoom", self.zooms + 1
        self.step = max((high - low) / self.cells, _EDGES[0] + 2.0**-50 * abs(low))

    def _find(self, counts: Floats, noise: float) -> None:
        away = self.margin + _added_threshold(abs(np.arange(CELLS) - OCTAVES) - 1 + LOW - DEFAULTS.usual)
        seen = visible(counts, noise, DEFAULTS.find_tests * self.width, away)
        seen[OCTAVES] = counts[OCTAVES] if counts[OCTAVES] > 4 * noise else 0.0
        if seen.sum() < DEFAULTS.merged * self.n:  # a column that spreads over many octaves may have no visible cell
            both = counts[OCTAVES + 1 :] + counts[:OCTAVES][::-1]
            away = self.margin + _added_threshold(np.arange(OCTAVES) + LOW - DEFAULTS.usual)
            shown = visible(both, noise * math.sqrt(2), DEFAULTS.find_tests * self.width, away) > 0
            merged = np.where(np.concatenate([shown[::-1], [False], shown]), np.maximum(counts, 0.0), 0.0)
            merged[OCTAVES] = seen[OCTAVES]
            seen = merged if merged.sum() > seen.sum() else seen
        total = float(seen.sum())
        if total < DEFAULTS.enough * self.n:
            return
        outermost = np.flatnonzero(seen)[[0, -1]]
        self.reach = np.array([_BELOW[outermost[0]], _ABOVE[outermost[1]]])
        first, last = _outer(seen)
        low, high = float(_BELOW[first]), float(_ABOVE[last])
        if seen[OCTAVES] > DEFAULTS.most * self.n or not high > low:
            self.stage, self.has_mass = "tail", True
            self._tail(counts, noise)
            return
        self.center, self.scale = (low + high) / 2, (high - low) / 3
        self._zoom_to(low, high, noise)

    def _zoom(self, counts: Floats, noise: float) -> None:
        counts, edges = counts[: self.cells + 2], self.low + self.step * np.arange(-1, self.cells + 1)
        middles = edges + self.step / 2
        middles[[0, -1]] += np.array([-2, 2]) * self.step  # the cells at the ends are open
        seen = visible(counts, noise, self.width * self.cells)
        few = seen.sum() < DEFAULTS.sufficient * self.n
        used = counts if few else seen  # linear estimates need no visible cell
        total, width = max(float(used.sum()), 0.5 * self.n), self.high - self.low
        mean = float(np.clip(used @ middles / total, self.low, self.high))
        spread = math.sqrt(max(float(used @ (middles - mean) ** 2) / total, 0.0))
        if few:
            self.center, self.scale, self.stage = (
                mean,
                float(np.clip(spread, DEFAULTS.widths[0] * width, DEFAULTS.widths[1] * width)),
                "done",
            )
            return
        if self.zooms > 1 and seen.max() > DEFAULTS.single * total:  # a point mass that is no round number
            self.center, self.scale, self.stage = mean, math.inf, "done"
            return
        pair = seen[:-1] + seen[1:]
        k = int(np.argmax(pair))
        self.has_mass = bool(pair[k] > DEFAULTS.narrow * total and self.zooms == 1)
        self.center = self.origin = mean
        self.spread = spread if spread > DEFAULTS.resolved * self.step else 0.0
        self.scale = self.spread or self.scale
        if self.has_mass:
            top = k + int(seen[k + 1] > seen[k])
            one = max(seen[k], seen[k + 1]) > DEFAULTS.single * pair[k]
            low = float(edges[top if one else k])
            self.origin = roundest(low, low + (1 if one else 2) * self.step)
        worthwhile = self.has_mass or (self.tails and noise < DEFAULTS.tail_noise * self.n)
        self.stage = "tail" if self.zooms == 1 and worthwhile else "done"

    def _tail(self, counts: Floats, noise: float) -> None:
        above, below = counts[OCTAVES + 1 :], counts[:OCTAVES][::-1]
        size, zero = above + below, counts[OCTAVES] if counts[OCTAVES] > 4 * noise else 0.0
        anchor = math.log2(self.high - self.low) if self.high > self.low else DEFAULTS.usual
        away, cells = _added_threshold(np.arange(OCTAVES) + LOW - anchor, DEFAULTS.added_threshold_tail), 80 * self.width
        away[-LOW] -= DEFAULTS.dummy_bonus
        seen = visible(size, noise * math.sqrt(2), cells, away)
        for side in (above, below):
            seen = np.maximum(seen, np.where(visible(side, noise, cells, away) > 0, np.maximum(size, 0.0), 0.0))
        if not seen.any():  # stays in this stage: counted again in the next round, with fewer columns and less noise
            self.center, self.scale = self.origin, math.inf
            return
        total = float(seen.sum() + zero)
        may_zoom = self.has_mass and self.zooms == 1 and noise < DEFAULTS.tail_noise * self.n
        if may_zoom and not zero > DEFAULTS.most * total:  # most rows may be close together elsewhere
            signed = np.where(np.concatenate([seen[::-1], [zero], seen]) > 0, np.maximum(counts, 0.0), 0.0)
            first, last = _outer(signed)
            squares = signed * np.concatenate([_SQUARE[::-1], [0.0], _SQUARE])
            if squares[first : last + 1].sum() > 0.5 * squares.sum():
                self._zoom_to(self.origin + float(_BELOW[first]), self.origin + float(_ABOVE[last]), noise)
                return
        self._measure(seen, size, above - below, zero, max(total, DEFAULTS.present * self.n), noise)

    def _measure(self, seen: Floats, size: Floats, balance: Floats, zero: float, total: float, noise: float) -> None:
        """Set the scale from the visible octaves, and from what the next octave may add."""
        last = int(np.flatnonzero(seen)[-1])
        around = self.origin + _EDGES[last + 1] * np.array([-1.0, 1.0])
        inner = np.array([max(self.reach[0], around[0]), min(self.reach[1], around[1])])
        self.reach = around if self.has_mass else inner  # the first counts, around zero, may show the point mass only
        squares = np.where(self.has_mass & (np.arange(OCTAVES) == -LOW), 1.0, _SQUARE)  # beside a point mass, assume dummies
        square, bulk = float(seen @ squares) / total, int(np.argmax(size))
        shift = 0.0
        if self.has_mass and not zero > DEFAULTS.most * self.n:
            middles = (_EDGES[:-1] + _EDGES[1:]) / 2
            shift = float(np.where(seen > 0, balance, 0.0) @ np.minimum(middles, 4 * middles[bulk])) / total
        if self.has_mass:
            self.center, self.spread = self.origin + shift, 0.0
        square = max(square - shift**2, DEFAULTS.least_square * square, self.spread**2)
        beyond = min(last + 1, OCTAVES - 1)
        unseen = float(np.clip(size[beyond] - noise * math.sqrt(2), 0.0, seen[last])) * _SQUARE[beyond] / self.n
        square += min(unseen, DEFAULTS.growth * square)
        if zero > DEFAULTS.most * self.n:  # rows at zero, the most common number, may be too few to be visible
            square = max(square, 4 * noise / self.n * self.origin**2)
        self.scale = math.sqrt(square)
        tail = _continued(seen[last - 1], seen[last], size[beyond], noise * math.sqrt(2)) * _SQUARE[beyond] / self.n
        self.heavy = math.sqrt(1 + tail / square)
        self.stage = "done"


def _outer(counts: Floats) -> tuple[int, int]:
    """Cells of the two outer quantiles."""
    ranks = [DEFAULTS.outer, 1 - DEFAULTS.outer]
    first, last = np.searchsorted(np.cumsum(counts) / counts.sum(), ranks, side="right").clip(0, counts.size - 1)
    return int(first), int(last)


def _continued(before: float, last: float, beyond: float, noise: float) -> float:
    """Sum of squares of a power tail beyond its last visible octave, in units of the mean square of the next octave.

    Let the next octave have c rows, and let counts decrease by a factor of ``2 ** -a`` per octave. Then a single row is left
    after ``log2(c) / a`` octaves. If the index a is below two, the last rows contribute most of the sum, which is about ``c ** (2
    / a)``. c is at least the noise of a count, because so many rows may be hidden. For a, the larger one of the slopes before and
    after the last octave is used, because the counts after a light tail are mostly noise.
    """
    count, last = max(beyond, noise, 1.0), max(last, 1.0)
    index = min(max(math.log2(last / count), math.log2(max(before, 1.0) / last), 1.0), 2.0)
    return float(count ** (2 / index))


def _added_threshold(octaves: NDArray[Any], allowed: tuple[int, float] = DEFAULTS.added_threshold) -> Floats:
    """Increase of the threshold, in standard deviations, at these distances (in octaves) from where rows are expected."""
    free, rate = allowed
    return np.asarray(rate * np.clip(np.abs(octaves) - free, 0, 24))


def _threshold(cells: int) -> float:
    """Count that is visible among so many cells, in standard deviations of the noise."""
    return math.sqrt(2 * math.log(cells)) + DEFAULTS.margin


def visible(counts: Floats, noise: float, cells: int, added: Floats | float = 0.0) -> Floats:
    """Counts of cells that are significant alone, within a run, or next to such a cell; zero elsewhere.

    ``cells`` is the number of cells that are tested: the largest noise of so many is about ``sqrt(2 log(cells))`` standard
    deviations. ``added`` raises the threshold.
    """
    least = _threshold(cells) + added * np.ones_like(counts)
    shown = counts > least * noise
    for length in (2, 4):
        runs = np.convolve(counts, np.ones(length), "valid")
        for k in np.flatnonzero(runs > (least[: runs.size] + DEFAULTS.run_margin) * noise * math.sqrt(length)):
            if not shown[k : k + length].any():
                shown[k : k + length] = True
    shown |= (np.convolve(shown, np.ones(3), "same") > 0) & (counts > 2 * noise)
    return np.where(shown, np.maximum(counts, 0.0), 0.0)
