"""A private description of a column: where it is, how its rows lie around there, and how much of this is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.columns.evidence import ALONE, CountNoise, places
from fattail.columns.location import OCTAVES, find_locations, signed_counts
from fattail.privacy import Bounded, Curator, Gaussian, Laplace, TopK
from fattail.robust.base import ONE
from fattail.robust.histogram import fixed
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]

CELLS = 2 * OCTAVES + 1
"""Octaves of distance on either side of a center."""
_WINDOWS = (1, 2, 4)
USUAL = 5
"""Octave of an everyday number, where zero is all that is known of a column."""
ENOUGH = 6.0
"""A tail is fitted where it holds this many times what a count must hold to be seen."""


class DescriptionPlan(NamedTuple):
    """The releases that a description takes."""

    stages: tuple[TopK, ...]
    counts: Laplace | Gaussian

    @property
    def mechanisms(self) -> tuple[TopK | Laplace | Gaussian, ...]:
        return (*self.stages, self.counts)


@dataclass(frozen=True)
class ColumnDescription:
    """What is known of a column; everything here is a release or public arithmetic.

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
    rank_noise : float
        By how many rows the center may miss the median.
    """

    rows: float
    center: float
    resolution: float
    at_center: float
    counts: Floats
    noise: CountNoise
    rank_noise: float

    @property
    def usual(self) -> int:
        """The likeliest cell of a distance, before any count is looked at."""
        return OCTAVES + (math.frexp(self.center)[1] - 1 if self.center else USUAL)

    @property
    def is_lost(self) -> bool:
        """Whether the center is no median, only a large number by bad luck: most rows lie around zero, seen from there."""
        if not self.center:
            return False
        octave = min(max(self.usual, 1), CELLS - 2)
        return bool(self.counts[int(self.center > 0), octave - 1 : octave + 2].sum() > 0.7 * self.rows)

    @property
    def has_point_mass(self) -> bool:
        """Whether a share of the rows lies at the center itself."""
        return bool(self.at_center > self.noise.threshold(math.log(1 / 0.001)) + 0.05 * self.rows)

    def reach(self, sides: tuple[int, ...], enough: float = 0.0) -> int | None:
        """The last cell on these sides that surely has rows, or that has ``enough``; None if none has.

        Sums of 1, 2 and 4 neighboring cells are looked at. The further beyond the bulk of the column, the more must be
        seen: a scale that is twice too large costs twice as much.
        """
        counts = self.counts[list(sides)].sum(axis=0)
        k = np.arange(CELLS)
        bulk = int(np.argmax(np.convolve(self.counts.sum(axis=0), np.ones(4))[3:]))
        doubt = places(CELLS, len(_WINDOWS))[np.minimum(np.abs(k - self.usual), CELLS - 1)]
        doubt = doubt + math.log(2) * np.maximum(k - bulk, 0) - (math.log(ALONE) if self.has_point_mass else 0.0)
        last = -1
        for length in _WINDOWS:
            sums = np.convolve(counts, np.ones(length))[length - 1 :]
            least = self.noise.threshold(doubt, length * len(sides))
            wanted = np.maximum(least, np.minimum(ENOUGH * least, enough * sums.max()))
            seen = np.flatnonzero(sums > wanted)
            if seen.size:
                last = max(last, int(seen[-1]) + (length - 1) // 2)
        return last if last >= 0 else None

    def tail_start(self, sides: tuple[int, ...], back: int = 2) -> int | None:
        """The cell ``back`` cells before which a tail begins: enough rows are there or beyond, if so many are seen at all."""
        cell = self.reach(sides, enough=1 / 16)
        cell = self.reach(sides) if cell is None else cell
        if cell is None:
            return None
        # A tail falls. While the counts still rise, they belong to the body, or begin at a threshold.
        counts = self.counts[list(sides)].sum(axis=0)
        rise = float(self.noise.threshold(math.log(20.0), 2 * len(sides)))
        for _ in range(back):
            first = max(cell - back, 0)
            if first + 1 < CELLS and counts[first + 1] > 1.2 * max(counts[first], 0.0) + rise:
                cell += 1
        return cell


def describe(curator: Curator, plan: DescriptionPlan, data: PrivateData) -> list[ColumnDescription]:
    """Describe every column, by the releases of a plan.

    Parameters
    ----------
    curator : Curator
        Has planned ``plan.mechanisms``.
    plan : DescriptionPlan
    data : PrivateData

    Notes
    -----
    *Privacy.* ``find_locations``, then one table of counts around the released centers. A row is in exactly one cell of each
    column: replacing it moves two counts by one. Proof: ``location.proof.md``.
    """
    center, resolution = find_locations(curator, plan.stages, data)
    signed = signed_counts(data, center, 1)
    table = np.concatenate((signed[:, :, :1].sum(axis=1), signed[:, 0, 1:], signed[:, 1, 1:]), axis=1)
    moved = {"l1": 2.0 * data.d, "l2": math.sqrt(2.0 * data.d)}[plan.counts.norm]
    # In steps far finer than the noise, so that discrete Gaussian noise composes as a Gaussian.
    noisy = curator.release(plan.counts, Bounded(fixed(table), ONE * moved, plan.counts.norm, unit=1.0 / ONE))
    noise = CountNoise(curator.noise(plan.counts, moved), isinstance(plan.counts, Laplace))
    rank_noise = 2 * curator.noise(plan.stages[min(1, len(plan.stages) - 1)])
    return [
        ColumnDescription(data.n, float(c), float(w), float(cells[0]), cells[1:].reshape(2, CELLS), noise, rank_noise)
        for c, w, cells in zip(center, resolution, noisy, strict=True)
    ]
