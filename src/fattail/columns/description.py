"""A private description of a column: its center, and noisy counts of its rows around the center."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.columns.evidence import RATES, CountNoise, FarRows, places
from fattail.columns.location import GRID, OCTAVES

Floats = NDArray[np.float64]

CELLS = 2 * OCTAVES + 1
"""Octaves of distance, from ``-OCTAVES`` to ``OCTAVES``, on either side of a center."""


@dataclass(frozen=True)
class ReadingRules:
    """Constants of the interpretation of counts. Set by hand on ``column_laws.TUNING``; each can be tried with
    ``benchmarks/tuning/columns.py``."""

    windows: tuple[int, ...] = (1, 2, 4)
    """Largest number of neighboring cells whose sums are tested."""
    enough: float = 6.0
    """A tail is fitted from the last octave whose count exceeds this multiple of the threshold."""
    enough_share: float = 1 / 16
    """A tail is also fitted from the last octave that holds this share of the fullest cell."""
    rise: float = 1.2
    """A cell still belongs to the body if the next cell holds this many times as many rows."""
    rise_evidence: float = 3.0
    """Evidence required of this rise (one in exp(3) = 20)."""
    around_zero: float = 0.9
    """If a larger share of the rows lies around zero, a center far from zero was selected by noise."""
    mass: float = 0.05
    """A larger share of the rows at the center is a point mass."""
    mass_evidence: float = 6.9
    """Evidence required of this share (one in exp(6.9) = 1000)."""
    apart_evidence: float = 13.0
    """Evidence required of rows at a second distance (one in exp(13) = 4e5, among 514 cells)."""
    bulk: int = 4
    """Number of neighboring cells that hold the bulk of a column: distances within a factor of 16."""
    body: tuple[int, int] = (11, 4)
    """So many cells before and after the outer end of the bulk hold nearly all rows of a smooth column."""
    smooth: tuple[float, float] = (0.3, 0.1)
    """In a smooth column, the next two cells towards the center hold more than these multiples of the fullest cell (1/2 and 1/4
    where the density is constant)."""
    farthest_move: float = 0.25
    """A center moves by at most this part of the bulk's extent."""


READING = ReadingRules()


class HardEnd(NamedTuple):
    """An abrupt end of the rows on one side: the octave of the last rows, and a distance beyond which there are almost none."""

    octave: int
    distance: float


class SecondLook(NamedTuple):
    """Which cells (side, octave) were counted twice, and the noise of the average of both counts."""

    cells: NDArray[np.bool_]
    noise: CountNoise


NOT_YET = SecondLook(np.zeros((2, CELLS), dtype=np.bool_), CountNoise(1.0, laplace=False))
"""Doubtful cells can be counted again, and none has been."""


@dataclass(frozen=True)
class ColumnDescription:
    """The private description of a column; everything here is a release or public arithmetic.

    Parameters
    ----------
    rows : float
    center : float
        A number near the median: the point mass itself, if half of the rows share one.
    resolution : float
        Width of the cell that the center stands for.
    at_center : float
        Noisy number of rows at the center.
    counts : array of shape (2, CELLS)
        Noisy numbers of rows above and below the center, at a distance of ``[2**k, 2**(k+1))`` for k from ``-OCTAVES``.
    noise : CountNoise
    second : SecondLook, optional
        Cells that were counted twice; None where none ever is, or all were. ``counts`` then has the averages of both counts.
    hard_ends : tuple
        Above and below the center, where one was found.
    far : FarRows, optional
    others : CountNoise, optional
        Noise of ``rows - at_center``, the number of all other rows; None if ``rows`` is itself noisy.
    """

    rows: float
    center: float
    resolution: float
    at_center: float
    counts: Floats
    noise: CountNoise
    second: SecondLook | None = None
    hard_ends: tuple[HardEnd | None, HardEnd | None] = (None, None)
    far: FarRows | None = None
    others: CountNoise | None = None

    def noise_from(self, side: int, octave: int) -> CountNoise:
        """Noise of the counts of a side from an octave on: that of the averages, if all were counted twice."""
        twice = self.second is not None and bool(self.second.cells[side, max(octave, 0) :].all())
        return self.second.noise if self.second is not None and twice else self.noise

    @property
    def usual(self) -> int:
        """The most likely cell of a distance, before any count is known."""
        return OCTAVES + (math.frexp(self.center)[1] - 1 if self.center else GRID.everyday)

    @property
    def center_is_noise(self) -> bool:
        """Whether noise selected a center far from the median: nearly all rows lie around zero."""
        if not self.center:
            return False
        octave = min(max(self.usual, 1), CELLS - 2)
        near_zero = self.counts[int(self.center > 0), octave - 1 : octave + 2].sum()
        return bool(near_zero > READING.around_zero * self.rows - math.sqrt(3) * self.noise.std)

    @cached_property
    def _other_rows(self) -> float:
        """Evidence that there are rows besides those at the center, by the count of the latter."""
        rows = max(self.rows - self.at_center, 0.0)
        return 0.0 if self.others is None else max(float(self.others.support(rows, np.array(rows))) - RATES.far_chosen, 0.0)

    @property
    def has_point_mass(self) -> bool:
        """Whether many rows are exactly at the center."""
        return bool(self.at_center > self.noise.threshold(READING.mass_evidence) + READING.mass * self.rows)

    @cached_property
    def bulk(self) -> int | None:
        """The outer of the neighboring cells that hold most rows, both sides together; None if their count may be noise."""
        size = READING.bulk
        sums = np.convolve(self.counts.sum(axis=0), np.ones(size), "valid")
        start = int(np.argmax(sums))
        at = min(abs(start + size - 1 - self.usual), CELLS - 1)
        evidence = places(CELLS, 1, RATES.significant * RATES.no_bulk_factor)[at]
        return start + size - 1 if sums[start] > self.noise.threshold(evidence, 2 * size) else None

    @cached_property
    def _visible(self) -> int:
        """The last octave with clearly visible rows, both sides together. It may lie far beyond the bulk, if most rows share one
        value."""
        return max(self._visible_at_once, self.far_octave[1])

    @cached_property
    def _visible_at_once(self) -> int:
        """The same without rows that only the count of all far rows shows."""
        clear = np.flatnonzero(self.counts.sum(axis=0) > self.noise.threshold(READING.apart_evidence, 2))
        return int(max(self.bulk or 0, clear[-1] if clear.size else 0))

    @cached_property
    def far_octave(self) -> tuple[int, int]:
        """Side and octave of rows far beyond the others; octave -1 if there are none, or if it is not known.

        The evidence that there are such rows, by the count of all of them, adds to that of the count of the octave.
        """
        if self.bulk is None or self.far is None:
            return 0, -1
        windows, start = READING.windows, self.far.start
        least = evidence_beyond_bulk(self._visible_at_once, len(windows), RATES.significant, RATES.significant_slope)[start:]
        best = 0.0, (0, -1)
        for length in windows:
            for side, counts in enumerate(self.counts[:, start:]):
                sums = np.convolve(counts, np.ones(length))[: counts.size]
                required = np.maximum(least - self.far.support(sums), RATES.far_octave)
                margin = sums - self.noise_from(side, start).threshold(required, length)
                best = max(best, (float(margin.max()), (side, start + int(margin.argmax()))))
        return best[1]

    @cached_property
    def density(self) -> float:
        """Rows per unit of length around the center, by the nearest cells that hold half of the rows."""
        within = np.maximum(self.at_center, 0.0) + np.cumsum(self.counts.sum(axis=0)[self._body])
        half = int(np.argmax(within >= 0.5 * self.rows)) if np.any(within >= 0.5 * self.rows) else len(within) - 1
        return float(max(within[half], 0.25 * self.rows) / 2.0 ** (self._body.start + half + 2 - OCTAVES))

    @property
    def is_smooth(self) -> bool:
        """Whether rows lie around the center as those of a smooth law: on each side, the two cells before the fullest have
        rows."""
        body = self.counts[:, self._body]
        fullest = np.argmax(body, axis=1)
        next_one, one_more = READING.smooth
        return all(
            k > 1 and s[k - 1] > next_one * s[k] and s[k - 2] > one_more * s[k] for s, k in zip(body, fullest, strict=True)
        )

    @property
    def _body(self) -> slice:
        """Cells that hold nearly all rows, without cells that are only noise."""
        bulk = CELLS // 2 if self.bulk is None else self.bulk
        before, after = READING.body
        return slice(max(bulk - before, 0), min(bulk + after, CELLS))

    @property
    def off_center(self) -> float:
        """Standard deviation of the distance from the center to the median of the law, after ``recentered``."""
        counted = math.sqrt((self._body.stop - self._body.start) / 2) * self.noise.std
        return math.hypot(counted, 0.5 * math.sqrt(self.rows)) / self.density + self.resolution / 4

    @property
    def is_unresolved(self) -> bool:
        """Whether all visible rows lie at one distance within the resolution.

        The column may then be a point mass and other rows that are too rare to be visible.
        """
        inside = math.frexp(self.resolution)[1] - 1 + OCTAVES if self.resolution else 0
        if np.sum(self.counts > self.noise.threshold(READING.apart_evidence)) > 1:
            return False
        return all((cell := self.reach((side,))) is None or cell <= inside for side in (0, 1))

    def recentered(self) -> ColumnDescription:
        """The description around a median estimated from the counts above and below, which is more accurate than the selected
        center.

        The density at the edges of a cell gives the rows that enter and leave it. The center does not move if a point mass is
        the median, nor beyond the part of the column where the density is known.
        """
        if self.bulk is None or self.has_point_mass or not self.is_smooth:
            return self
        up, down = self.counts
        missing = float((up - down)[self._body].sum()) / 2
        move = missing / self.density
        edges = np.exp2(np.arange(CELLS + 1) - OCTAVES)
        if abs(move) > READING.farthest_move * edges[self.bulk]:
            return self
        inside = np.maximum((up + down) / 2, 0.0) / edges[:-1]
        at_edge = np.sqrt(np.append(0.0, inside) * np.append(inside, 0.0))
        entering = np.where(edges[:-1] > 2 * abs(move), move * (at_edge[:-1] - at_edge[1:]), 0.0)
        return replace(self, center=self.center + move, counts=np.array([up - entering, down + entering]))

    def required_evidence(self, windows: int, rate: float, slope: float) -> Floats:
        """Evidence required at each octave, such that the false-positive probabilities of all octaves add up to at most ``rate``.

        Beyond the bulk the probability decreases by ``exp(-slope)`` per octave. If no bulk is visible, the prior is around the
        center's magnitude. Distance one from a whole number has a prior share of its own, and the count of the center is also
        one of all other rows: its evidence that there are some adds to that of their distance.
        """
        if self.bulk is None:
            evidence = evidence_without_bulk(self.usual, windows, rate)
            if self.center.is_integer():
                share = max(-math.log(RATES.distance_one) - self._other_rows, -math.log(RATES.distance_one_known))
                evidence = np.where(np.arange(CELLS) == OCTAVES, np.minimum(evidence, math.log(windows / rate) + share), evidence)
            return evidence
        return evidence_beyond_bulk(self._visible, windows, rate, slope)

    def reach(self, sides: tuple[int, ...], enough: bool = False) -> int | None:
        """The last cell on these sides with a significant count, or with enough rows to fit a tail; None if there is none.

        The threshold grows with the distance beyond the bulk, because a scale that is twice as large costs twice as much noise.
        Counts of a second look need only the evidence of ``RATES.significant``, first counts that of ``RATES.clear``.
        """
        if sides not in self._reached:
            self._reached[sides] = self._reach(sides)
        last = self._reached[sides][enough]
        return last if last >= 0 else None

    @cached_property
    def _reached(self) -> dict[tuple[int, ...], tuple[int, int]]:
        """Cached answers of ``reach``."""
        return {}

    def _reach(self, sides: tuple[int, ...]) -> tuple[int, int]:
        counts = self.counts[list(sides)].sum(axis=0)
        significant = self.required_evidence(len(READING.windows), RATES.significant, RATES.significant_slope)
        evidence, last = significant, -1
        if self.second is not None:
            evidence = self.required_evidence(len(READING.windows), RATES.clear, RATES.clear_slope)
            confirmed = self.second.cells & (self.counts > self.second.noise.threshold(significant))
            last = max((int(np.flatnonzero(confirmed[side])[-1]) for side in sides if confirmed[side].any()), default=-1)
        far_side, far_octave = self.far_octave
        last = enough = max(last, far_octave if far_side in sides else -1)
        for length in READING.windows:
            sums = np.convolve(counts, np.ones(length))[length - 1 :]
            least = self.noise.threshold(evidence, length * len(sides))
            wanted = np.maximum(least, np.minimum(READING.enough * least, READING.enough_share * sums.max()))
            last = max([last, *np.flatnonzero(sums > least)[-1:].tolist()])
            enough = max([enough, *np.flatnonzero(sums > wanted)[-1:].tolist()])
        return last, enough

    def far_start(self, gap: int) -> int:
        """The octave from which on rows are far; ``CELLS`` if no bulk is visible."""
        if self.bulk is None:
            return CELLS
        return min(max(self._visible, *(self.reach((side,)) or 0 for side in (0, 1))) + 1 + gap, CELLS)

    def guessed_starts(self) -> list[int | None]:
        """Tail starts of a column without significant rows: a distance of one, if the counts make it likely.

        Then a 0/1 column with rare ones is assumed. That improves the estimate; the interval stays infinite.
        """
        evidence = max(RATES.distance_one_evidence - self._other_rows, RATES.distance_one_guess)
        likely = self.center.is_integer() & (self.counts[:, OCTAVES] > self.noise.threshold(evidence))
        return [OCTAVES if here else None for here in likely]

    def possible(self, side: int, end: float, expected: Floats, added_evidence: float = 0.0) -> Floats:
        """For each cell, the largest sum of excesses beyond ``end`` of rows that it may hold in addition to the expected ones.

        A count that is not significant may still be rows if it exceeds the threshold of ``RATES.possible``, raised by
        ``added_evidence``.
        """
        surplus = self.counts[side] - expected
        evidence = self.required_evidence(1, RATES.possible, RATES.possible_slope)
        evidence_again = self.required_evidence(1, RATES.possible_again, RATES.possible_slope)
        if self.far is not None and self.far_octave[1] < 0:
            support = np.where(np.arange(CELLS) < self.far.start, 0.0, self.far.support(np.maximum(surplus, 0.0)))
            evidence, evidence_again = evidence - support, evidence_again - support
        least = self.noise.threshold(evidence + added_evidence)
        if self.second is not None:
            least = np.where(self.second.cells[side], self.second.noise.threshold(evidence_again), least)
        outer = np.exp2(np.arange(CELLS) - OCTAVES + 1)
        if abrupt := self.hard_ends[side]:
            outer[abrupt.octave] = abrupt.distance
        may_hold = (surplus > least) & (outer > end)
        sums = np.where(may_hold, surplus * (outer - end), 0.0)
        if self.far is not None and self.far.shown and self.far_octave[1] < 0:
            # The octave of these rows is not certain: all of them may lie in the last one that is possible.
            beyond = np.flatnonzero(may_hold[self.far.start :]) + self.far.start
            if beyond.size:
                sums[beyond[-1]] += max(self.far.largest - surplus[beyond].sum(), 0.0) * (outer[beyond[-1]] - end)
        return sums

    def counted_again(
        self, cells: NDArray[np.bool_], counts: Floats, noise: CountNoise, at_center: float | None = None
    ) -> ColumnDescription:
        """The description with second counts of some cells, or of all and the center: averages of both replace the first ones."""
        weight, average = self.noise.combined(noise)
        table = self.counts.copy()
        table[cells] = weight * table[cells] + (1 - weight) * counts
        if cells.all():
            known = (
                self if at_center is None else self._centered_again(weight * self.at_center + (1 - weight) * at_center, average)
            )
            return replace(known, counts=table, noise=average, second=None)
        return replace(self, counts=table, second=SecondLook(cells, average))

    def _centered_again(self, at_center: float, noise: CountNoise) -> ColumnDescription:
        return replace(self, at_center=at_center, others=None if self.others is None else noise)

    def tail_start(self, sides: tuple[int, ...], back: int = 2) -> int | None:
        """The cell of the tail's scale, ``back`` cells beyond the beginning of the tail.

        It is the last cell with enough rows, otherwise the last significant one.
        """
        cell = self.reach(sides, enough=True)
        cell = self.reach(sides) if cell is None else cell
        if cell is None:
            return None
        # The counts of a tail decrease. Where they still increase, the body has not ended.
        counts = self.counts[list(sides)].sum(axis=0)
        rise = float(self.noise.threshold(READING.rise_evidence, 2 * len(sides)))
        for _ in range(back):
            first = max(cell - back, 0)
            if first + 1 < CELLS and counts[first + 1] > READING.rise * max(counts[first], 0.0) + rise:
                cell += 1
        return min(cell, CELLS - 1)  # counts may rise up to the last octave that there is


@lru_cache(maxsize=256)
def evidence_without_bulk(usual: int, windows: int, rate: float) -> Floats:
    """``required_evidence`` of a column without a visible bulk, but for distance one."""
    k = np.arange(CELLS)
    far = np.minimum(np.abs(k - usual), CELLS - 1)
    evidence = places(CELLS, windows, rate * RATES.no_bulk_factor)[far] + RATES.no_bulk_slope * np.maximum(k - usual, 0)
    evidence.flags.writeable = False
    return np.asarray(evidence)


@lru_cache(maxsize=256)
def evidence_beyond_bulk(bulk: int, windows: int, rate: float, slope: float) -> Floats:
    """``required_evidence`` of a column with a visible bulk."""
    beyond = np.maximum(np.arange(CELLS) - bulk, 0)
    evidence = np.asarray(math.log(windows / rate) - math.log1p(-math.exp(-slope)) + slope * beyond)
    evidence.flags.writeable = False
    return evidence
