"""A closer look at the ends of a column.

Counts by octave say that rows lie up to some distance, or up to half of it: an answer that is yes or no, a label, a year or a
capped amount would be clipped up to twice as far out as its last value. So a second table counts rows in equal cells up to
ends that are wide enough to cut off hardly anything. Cells that surely hold rows are believed as they are. The other rows of an
octave, as many as the first look has told, are spread over its other cells. Ends then move in as far as nothing lies beyond.

With several groups, ends may not rely on two tails that make up for each other: they do in the column, and not in a group that
lies to one side. So ends are also chosen side by side, and cutting off rows has a price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.columns import ColumnDescription, CountNoise, Ends, choose_ends
from fattail.columns.location import OCTAVES
from fattail.privacy import Curator, Laplace
from fattail.statistics.units import Contributions

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CloserRules:
    """Constants of the second look. Compared on ``column_laws.TUNING``, as ``benchmarks/results/groups.md`` tells."""

    cells: int = 64
    """Cells on either side, a power of two: an end is at most 1/32 of its distance too far out. 32 to 256 do as well."""
    factors: tuple[float, ...] = (1.0, 0.5)
    """Ends are also chosen as if noise were smaller by such a factor: the wider ones cut off less."""
    apart: float = 0.15
    """Price of rows that are cut off, in standard deviations of the column: groups may be half of one apart, and the effect of
    ends on their distance is known up to 0.3 of it. What two alike tails hide cancels in the column, and not in a group that
    lies to one side."""
    sure: float = 0.05
    """Chance that noise shows rows in one of the cells."""
    rest: float = 3.0
    """Standard errors that the number of an octave's other rows must exceed; below, there are none."""
    trusted: float = 0.5
    """Relative error of the excess that the second look shows: groups differ."""


RULES = CloserRules()


class _Side(NamedTuple):
    """Candidate ends of one side by their distance from the center, the last one wide, and what each cuts off."""

    at: Floats
    excess: Floats
    """Mean excess of the rows between an end and the wide one."""
    square: Floats
    """Second moment of the distance, clipped at the end."""
    variance: Floats
    """Variance of the excess: noise of the cells, and rows too few to be told from none."""
    beyond: Floats
    """Share of the rows beyond the end."""

    @classmethod
    def of(cls, column: ColumnDescription, side: int, top: float, reach: float, noisy: Floats, fine: CountNoise) -> _Side:
        """From the counts of cells up to ``top``; ``reach`` is the distance of the wide end."""
        if not reach:
            return cls(*np.zeros((5, 1)))
        step, rows, spread = top / RULES.cells, np.zeros(RULES.cells + 1), np.zeros(RULES.cells + 1)
        stop, octave = RULES.cells, math.frexp(top)[1] - 2 + OCTAVES  # of the distances in the outer half of the cells
        counted = dict(enumerate(column.counts[side].tolist()))
        while stop > 1:
            half = slice(stop // 2, stop)
            rows[half], spread[half] = _placed(noisy[half], counted.get(octave, 0.0), column.noise, fine)
            stop, octave = stop // 2, octave - 1
        rows[-1:], spread[-1:] = _placed(noisy[-1:], 0.0, column.noise, fine)  # beyond all cells
        share = rows / column.rows
        edges = step * np.arange(RULES.cells + 1)
        beyond = np.cumsum(share[::-1])[::-1]
        excess = np.append(np.cumsum((step * (beyond[:-1] + beyond[1:]) / 2)[::-1])[::-1], 0.0)
        distance = np.append(edges[1:] - step / 2, reach)
        at = np.append(edges[(edges > 0) & (edges < reach)], reach)
        square = np.minimum(distance, at[:, None]) ** 2 @ share
        lever = np.maximum(np.minimum(distance, reach) - at[:, None], 0.0)
        variance = (lever**2 @ spread + (column.noise.std * (reach - at) / 2) ** 2) / column.rows**2
        cut = np.interp(at, edges, excess) - float(np.interp(reach, edges, excess))
        return cls(at, cut, square, variance, np.interp(at, edges, beyond))


class CloserEnds(NamedTuple):
    """Ends, and the share of the rows that they cut off."""

    ends: Ends
    beyond: float


def closer_ends(
    curator: Curator, release: Laplace, units: Contributions, column: ColumnDescription, noise: float, groups: int
) -> CloserEnds:
    """Ends for clipping, chosen with a second look.

    Parameters
    ----------
    curator : Curator
        Has planned ``release``.
    release : Laplace
    units : Contributions
    column : ColumnDescription
    noise : float
        Standard deviation of the released mean per unit of the interval's length.
    groups : int

    Notes
    -----
    *Privacy.* A voice is counted in one cell: the table moves by ``units.moves`` in l1. Proof: ``closer.proof.md``.
    """
    chosen = [choose_ends(column, factor * noise) for factor in RULES.factors]
    if groups > 1:
        chosen.append(_side_by_side(column, noise))
    center = column.center
    tops = [
        max(_octave_above(reach) for reach in reaches)
        for reaches in zip(*(_reaches(ends, center) for ends in chosen), strict=True)
    ]
    noisy = curator.release(release, units.side_counts(center, tops[0], tops[1], RULES.cells))
    fine = CountNoise(curator.noise(release, units.moves), laplace=True)
    best = CloserEnds(chosen[0], 0.0), math.inf
    for ends in chosen:
        if ends.seen:
            up, down = (
                _Side.of(column, k, top, reach, noisy[k], fine)
                for k, (top, reach) in enumerate(zip(tops, _reaches(ends, center), strict=True))
            )
            best = min(best, _moved_in(ends, center, up, down, noise, RULES.apart if groups > 1 else 0.0), key=lambda one: one[1])
    return best[0]


def _side_by_side(column: ColumnDescription, noise: float) -> Ends:
    """Ends that are chosen for each side as if the other one were empty, so that no tail makes up for the other.

    The noise of an interval's length is that of its parts, each with the root of two times as much where they are equal.
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
        doubt_below=math.hypot(up.doubt_below, down.doubt_below),
        doubt_above=math.hypot(up.doubt_above, down.doubt_above),
        open_low=down.open_low,
        open_high=up.open_high,
    )


def _reaches(ends: Ends, center: float) -> tuple[float, float]:
    return max(ends.high - center, 0.0), max(center - ends.low, 0.0)


def _octave_above(distance: float) -> float:
    """The least power of two that is not below."""
    return 2.0 ** math.ceil(math.log2(distance)) if distance > 0 else 0.0


def _moved_in(ends: Ends, center: float, up: _Side, down: _Side, noise: float, apart: float) -> tuple[CloserEnds, float]:
    """Ends with the smallest error, and its square: noise, and whatever they cut off.

    Groups differ, so that a known mean excess of the column is no reason to cut rows off.
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
        + RULES.trusted**2 * (cut[0] ** 2 + cut[1] ** 2)
        + float(up.variance[j] + down.variance[i]),
        square=(float(up.square[j]), float(down.square[i])),
        # No row between two ends exceeds the nearer one by more than they are apart.
        realized=ends.realized + cut[0] * moved[0] + cut[1] * moved[1],
    )
    return CloserEnds(closer, float(beyond[i, j])), float(error[i, j]) + ends.bias_variance


def _placed(noisy: Floats, total: float, rough: CountNoise, fine: CountNoise) -> tuple[Floats, Floats]:
    """Rows of the cells of an octave that holds about ``total``, and their variances."""
    sure = noisy > fine.threshold(math.log(2 * RULES.cells / RULES.sure))
    rows, variance = np.where(sure, noisy, 0.0), np.where(sure, fine.std**2, 0.0)
    rest, others = total - float(rows.sum()), int(np.sum(~sure))
    if others and rest > RULES.rest * math.hypot(rough.std, math.sqrt(sure.sum()) * fine.std):
        rows[~sure] = on_simplex(noisy[~sure], rest)
        variance[~sure] = min(fine.std**2, rest**2 / others)
    return rows, variance


def on_simplex(noisy: Floats, total: float) -> Floats:
    """The nearest numbers that are not negative and have this positive sum.

    Examples
    --------
    >>> on_simplex(np.array([3.0, -1.0, 2.0, 0.5]), 4.0)
    array([2.5, 0. , 1.5, 0. ])
    """
    largest = np.sort(noisy)[::-1]
    less = (np.cumsum(largest) - total) / np.arange(1, len(noisy) + 1)
    return np.asarray(np.maximum(noisy - less[max(int(np.sum(largest > less)) - 1, 0)], 0.0))
