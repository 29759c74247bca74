"""A closer look at the ends of a column, in equal cells.

Counts by octave show the last octave with rows, but not where within this octave the rows end. So a 0/1 answer, a label, a year
or a capped amount would be clipped up to twice as far out as its last value. Therefore rows are also counted in equal cells.
There are two functions for this, because budgets are used differently.

``find_hard_ends`` is for means. The release of a clipped mean may be split after the first counts: if the last octave of a side
holds so many rows that a small part of the budget shows where they end, equal parts of this octave are counted. This finds
abrupt ends only, and costs nothing where there is none.

``closer_ends`` is for groups: it releases a table of equal cells, up to ends so wide that they
cut off hardly anything. Counts of cells that certainly hold rows are used as they are. The other rows of an octave, by its count
in the description, are spread over its other cells. The ends then move inwards as long as almost no rows lie beyond them. With
several groups, ends must not rely on excesses above and below that cancel: they cancel in the column, but not in a group that
lies to one side. So ends are also chosen for each side by itself, and rows that are cut off have a price.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.columns.description import ColumnDescription, HardEnd
from fattail.columns.ends import Ends, choose_ends
from fattail.columns.evidence import CountNoise
from fattail.columns.location import OCTAVES, Noise, grid_codes, release_counts
from fattail.privacy import Bounded, Curator, Laplace
from fattail.robust.histogram import totals
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HardEndRules:
    """Constants of the look for abrupt ends. Set by hand on ``column_laws.TUNING``; try others with
    ``benchmarks/tuning/columns.py``."""

    fine: int = 16
    """Number of parts of an octave. An end is at most a sixteenth of its distance too far out."""
    fine_rate: float = 0.05
    """Probability that noise alone is significant in some part of an octave."""
    windows: tuple[int, ...] = (1, 2, 4)
    """Numbers of neighboring parts whose sums are tested."""
    abrupt: float = 20.0
    """Rows end abruptly if the count of the last visible parts is this many times the threshold. In counts of events (Poisson) a
    value is at most this many times as frequent as the next one, unless the next one is visible in an octave of its own."""
    last_part: float = 0.35
    """Expected share of the last octave's rows that lie in its last part with rows."""
    resolved: float = 2.0**-30
    """Distance of the octave from the center, relative to the center, above which rounding cannot confuse the two sides."""
    most_fine: float = 0.12
    """Largest fraction of the budget that is spent on the parts of octaves."""


HARD = HardEndRules()


@dataclass(frozen=True)
class CloserRules:
    """Constants of ``closer_ends``. Compared on ``column_laws.TUNING``; the figures are in ``benchmarks/results/groups.md``."""

    cells: int = 64
    """Number of cells on either side, a power of two. An end is at most 1/32 of its distance too far out. 32 to 256 cells are as
    good."""
    factors: tuple[float, ...] = (1.0, 0.5)
    """Ends are chosen for the noise times each of these factors. Less noise gives wider ends, which cut off less."""
    apart: float = 0.15
    """The share of the rows that two ends cut off, times this, times the standard deviation of the column, counts as an error.
    Groups are assumed to be half a standard deviation apart, and 0.3 of the effect of cut-off rows on that distance to stay
    unknown: 0.5 times 0.3. Excesses of two alike tails cancel in the column, but not in a group that lies to one side."""
    sure: float = 0.05
    """Probability that noise alone is taken for rows in any of the cells."""
    rest: float = 3.0
    """The other rows of an octave are taken to be none if their number is below this many standard errors."""
    trusted: float = 0.5
    """Error of the excess between two ends, relative to the excess that the counts show, because groups differ."""


CLOSER = CloserRules()


def noise_of_all(curator: Curator, release: Noise, columns: int) -> CountNoise:
    """Noise of counts if the whole release were spent on counts of so many columns."""
    size = 2.0 * columns if release.norm == "l1" else math.sqrt(2.0 * columns)
    return CountNoise(curator.noise(release, size), isinstance(release, Laplace))


def find_hard_ends(
    curator: Curator, release: Noise, data: PrivateData, columns: list[ColumnDescription]
) -> list[ColumnDescription]:
    """Find where the rows of a side end within its last octave, if it has so many rows that a small part of the budget suffices.

    Notes
    -----
    *Privacy.* A row is in at most one part of the two octaves of a column, since these lie on different sides of the center by
    far more than rounding can hide. Proof: ``closer.proof.md``.
    """
    last = [[column.reach((side,)) for side in (0, 1)] for column in columns]
    rows = np.array(
        [[0.0 if k is None else c.counts[s, k] for s, k in enumerate(ks)] for c, ks in zip(columns, last, strict=True)]
    )
    evidence = math.log(len(HARD.windows) * (HARD.fine + 1) / HARD.fine_rate)
    # The fraction of the release that each side needs if all columns are counted. Sides that need too much are left out.
    whole = noise_of_all(curator, release, len(columns))
    power = 1 if whole.laplace else 2
    needed = (HARD.abrupt * float(whole.threshold(evidence)) / np.maximum(HARD.last_part * rows, 1.0)) ** power
    octave = np.array([[0 if k is None else k for k in ks] for ks in last])
    center = np.array([column.center for column in columns])
    unit = np.exp2(octave - OCTAVES)
    wanted = (needed < HARD.most_fine) & (unit > HARD.resolved * np.abs(center)[:, None])
    if not wanted.any():
        return columns
    look = curator.split(release, "parts of the last octave", float(needed[wanted].max()))
    where, side = np.nonzero(wanted)
    counts = _parts(data, where, center[where], unit[wanted], side)
    noisy, noise = release_counts(curator, look, counts, 2 * int(wanted.any(axis=1).sum()))
    found = list(columns)
    for j, s, parts in zip(where.tolist(), side.tolist(), noisy, strict=True):
        ends = list(found[j].hard_ends)
        ends[s] = _hard_end(parts, noise, int(octave[j, s]), evidence)
        found[j] = found[j] if ends == [None, None] else replace(found[j], hard_ends=(ends[0], ends[1]))
    return found


def _parts(data: PrivateData, columns: NDArray[np.intp], center: Floats, unit: Floats, side: NDArray[np.intp]) -> NDArray[Any]:
    """Counts of the parts of the octaves ``[unit, 2 unit)`` of distances and of one part before them, nearest first."""
    step, size = unit / HARD.fine, HARD.fine + 1
    low = np.where(side == 0, center + unit - step, center - 2 * unit)
    counts = totals(data, (columns.size, size + 2), grid_codes(columns, low, step, size))[:, 1:-1]
    return np.where(side[:, None] == 0, counts, counts[:, ::-1])


def _hard_end(counts: Floats, noise: CountNoise, octave: int, evidence: float) -> HardEnd | None:
    """The outer edge of the last part with visible rows, if these are many times the threshold."""
    last, strength = -1, 0.0
    for length in HARD.windows:
        # Only beyond the parts that are significant already, so that no sum is significant because of one of its parts alone.
        beyond, least = counts[last + 1 :], float(noise.threshold(evidence, length))
        sums = np.convolve(beyond, np.ones(length), "valid") if beyond.size >= length else np.zeros(0)
        seen = np.flatnonzero(sums > least)
        if seen.size:
            last, strength = last + int(seen[-1]) + length, float(sums[seen[-1]]) / least
    unit = 2.0 ** (octave - OCTAVES)
    return HardEnd(octave, unit * (1 + last / HARD.fine)) if strength > HARD.abrupt else None


class _Side(NamedTuple):
    """Candidate ends of one side, by distance from the center, and what each cuts off. The last candidate is the wide end."""

    at: Floats
    excess: Floats
    """Mean excess that an end cuts off in addition to the wide end."""
    square: Floats
    """Second moment of the distance, clipped at the end."""
    variance: Floats
    """Variance of the excess: from the noise of the cells, and from rows too few to be visible."""
    beyond: Floats
    """Share of the rows beyond the end."""

    @classmethod
    def of(cls, column: ColumnDescription, side: int, top: float, reach: float, noisy: Floats, fine: CountNoise) -> _Side:
        """From the counts of cells up to ``top``; ``reach`` is the distance of the wide end."""
        if not reach:
            return cls(*np.zeros((5, 1)))
        step, rows, spread = top / CLOSER.cells, np.zeros(CLOSER.cells + 1), np.zeros(CLOSER.cells + 1)
        stop, octave = CLOSER.cells, math.frexp(top)[1] - 2 + OCTAVES  # of the distances in the outer half of the cells
        counted = dict(enumerate(column.counts[side].tolist()))
        while stop > 1:
            half = slice(stop // 2, stop)
            rows[half], spread[half] = _placed(noisy[half], counted.get(octave, 0.0), column.noise, fine)
            stop, octave = stop // 2, octave - 1
        rows[-1:], spread[-1:] = _placed(noisy[-1:], 0.0, column.noise, fine)  # beyond all cells
        share = rows / column.rows
        edges = step * np.arange(CLOSER.cells + 1)
        beyond = np.cumsum(share[::-1])[::-1]
        excess = np.append(np.cumsum((step * (beyond[:-1] + beyond[1:]) / 2)[::-1])[::-1], 0.0)
        distance = np.append(edges[1:] - step / 2, reach)
        at = np.append(edges[(edges > 0) & (edges < reach)], reach)
        square = np.minimum(distance, at[:, None]) ** 2 @ share
        lever = np.maximum(np.minimum(distance, reach) - at[:, None], 0.0)
        variance = (lever**2 @ spread + (column.noise.std * (reach - at) / 2) ** 2) / column.rows**2
        cut = np.interp(at, edges, excess) - float(np.interp(reach, edges, excess))
        return cls(at, cut, square, variance, np.interp(at, edges, beyond))


SideCounts = Callable[[float, float, float, int], Bounded]


class CloserEnds(NamedTuple):
    """Ends for groups, and the share of the rows that they cut off."""

    ends: Ends
    beyond: float


def candidate_ends(column: ColumnDescription, noise: float, groups: int) -> list[Ends]:
    """Wide ends that `closer_ends` chooses from; ``noise`` and ``groups`` have the same meaning."""
    chosen = [choose_ends(column, factor * noise) for factor in CLOSER.factors]
    return [*chosen, _side_by_side(column, noise)] if groups > 1 else chosen


def closer_ends(
    curator: Curator,
    release: Laplace,
    count: SideCounts,
    moves: float,
    column: ColumnDescription,
    chosen: list[Ends],
    noise: float,
    groups: int,
) -> CloserEnds:
    """Ends for clipping, chosen with a closer look.

    Parameters
    ----------
    curator : Curator
        Has planned ``release``.
    release : Laplace
    count : callable
        Table of the cells above and below a public center, each side up to a public distance, as a bounded sum.
    moves : float
        By how much a neighbor moves the table in l1.
    column : ColumnDescription
    chosen : list of Ends
        As `candidate_ends` returns them.
    noise : float
        Standard deviation of the released mean per unit of the interval's length.
    groups : int

    Notes
    -----
    *Privacy.* A row, or the one value of a unit, is counted in one cell: the table moves by ``moves`` in l1. Proof:
    ``closer.proof.md``.
    """
    center = column.center
    tops = [
        max(_octave_above(reach) for reach in reaches)
        for reaches in zip(*(_reaches(ends, center) for ends in chosen), strict=True)
    ]
    noisy = curator.release(release, count(center, tops[0], tops[1], CLOSER.cells))
    fine = CountNoise(curator.noise(release, moves), laplace=True)
    best = CloserEnds(chosen[0], 0.0), math.inf
    for ends in chosen:
        if ends.seen:
            up, down = (
                _Side.of(column, k, top, reach, noisy[k], fine)
                for k, (top, reach) in enumerate(zip(tops, _reaches(ends, center), strict=True))
            )
            best = min(
                best, _moved_in(ends, center, up, down, noise, CLOSER.apart if groups > 1 else 0.0), key=lambda one: one[1]
            )
    return best[0]


def _side_by_side(column: ColumnDescription, noise: float) -> Ends:
    """Ends that are chosen for each side as if the other one were empty, so that no excess cancels another.

    The noise is in proportion to the sum of both lengths. For two equal lengths, that is the sum in squares of two noises that
    are larger by the root of two; so each side is given this noise.
    """
    up, down = (
        choose_ends(replace(column, counts=np.where(np.arange(2)[:, None] == k, column.counts, 0.0)), math.sqrt(2) * noise)
        for k in (0, 1)
    )
    return up._replace(
        low=min(down.low, column.center),
        high=max(up.high, column.center),
        bias=up.bias + down.bias,
        bias_variance=up.bias_variance + down.bias_variance,
        square=(up.square[0], down.square[1]),
        realized=up.realized + down.realized,
        doubtful=up.doubtful | down.doubtful,
        doubt_below=math.hypot(up.doubt_below, down.doubt_below),
        doubt_above=math.hypot(up.doubt_above, down.doubt_above),
        open_low=down.open_low,
        open_high=up.open_high,
    )


def _reaches(ends: Ends, center: float) -> tuple[float, float]:
    return max(ends.high - center, 0.0), max(center - ends.low, 0.0)


def _octave_above(distance: float) -> float:
    """The smallest power of two that is at least the distance; zero for zero."""
    return 2.0 ** math.ceil(math.log2(distance)) if distance > 0 else 0.0


def _moved_in(ends: Ends, center: float, up: _Side, down: _Side, noise: float, apart: float) -> tuple[CloserEnds, float]:
    """Ends with the smallest error, and its square: from noise, and from all that they cut off.

    The mean excess counts as an error although it is known for the column, because groups differ from the column.
    """
    cost = [side.excess**2 + side.variance for side in (up, down)]
    beyond = up.beyond + down.beyond[:, None]
    spread = up.square[-1] + down.square[-1]
    error = (noise * (up.at + down.at[:, None])) ** 2 + cost[0] + cost[1][:, None] + (apart * beyond) ** 2 * spread
    i, j = (int(k) for k in np.unravel_index(np.argmin(error), error.shape))
    cut = (float(up.excess[j]), float(down.excess[i]))
    moved = (float(up.at[-1] - up.at[j]), float(down.at[-1] - down.at[i]))
    closer = ends._replace(
        low=center - float(down.at[i]),
        high=center + float(up.at[j]),
        bias=ends.bias + cut[0] - cut[1],
        bias_variance=ends.bias_variance
        + CLOSER.trusted**2 * (cut[0] ** 2 + cut[1] ** 2)
        + float(up.variance[j] + down.variance[i]),
        square=(float(up.square[j]), float(down.square[i])),
        # No row between two ends exceeds the nearer one by more than they are apart.
        realized=ends.realized + cut[0] * moved[0] + cut[1] * moved[1],
    )
    return CloserEnds(closer, float(beyond[i, j])), float(error[i, j]) + ends.bias_variance


def _placed(noisy: Floats, total: float, rough: CountNoise, fine: CountNoise) -> tuple[Floats, Floats]:
    """Distribute about ``total`` rows of an octave over its cells by their noisy counts; also the variances of these numbers."""
    sure = noisy > fine.threshold(math.log(2 * CLOSER.cells / CLOSER.sure))
    rows, variance = np.where(sure, noisy, 0.0), np.where(sure, fine.std**2, 0.0)
    rest, others = total - float(rows.sum()), int(np.sum(~sure))
    if others and rest > CLOSER.rest * math.hypot(rough.std, math.sqrt(sure.sum()) * fine.std):
        rows[~sure] = on_simplex(noisy[~sure], rest)
        variance[~sure] = min(fine.std**2, rest**2 / others)
    return rows, variance


def on_simplex(noisy: Floats, total: float) -> Floats:
    """Euclidean projection: the nearest numbers that are not negative and have this positive sum.

    Examples
    --------
    >>> on_simplex(np.array([3.0, -1.0, 2.0, 0.5]), 4.0)
    array([2.5, 0. , 1.5, 0. ])
    """
    largest = np.sort(noisy)[::-1]
    less = (np.cumsum(largest) - total) / np.arange(1, len(noisy) + 1)
    return np.asarray(np.maximum(noisy - less[max(int(np.sum(largest > less)) - 1, 0)], 0.0))
