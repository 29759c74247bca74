"""What is released to describe a column: its location, its counts, and second looks where the first leaves doubt.

A first look counts the rows of every octave around the center. Whatever it leaves open is counted again with fresh noise:
everything, if no rows are seen beside a point mass; a few cells, if they may hold rows that would change the answer; the
parts of the last octave, if rows seem to end there. Second looks take their budget from the release that follows them,
which gets all of it where nothing is open.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.columns.description import CELLS, NOT_YET, ColumnDescription, HardEnd
from fattail.columns.ends import Ends, choose_ends
from fattail.columns.evidence import CountNoise
from fattail.columns.location import GRID, OCTAVES, LocationGrid, dense, find_locations, signed_counts
from fattail.privacy import Bounded, Curator, Gaussian, Laplace, TopK
from fattail.robust.base import ONE
from fattail.robust.histogram import fixed, totals
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]
Noise = Laplace | Gaussian


@dataclass(frozen=True)
class LookRules:
    """Constants of second looks. Set by hand on ``column_laws.TUNING``; try others with ``benchmarks/tuning/columns.py``."""

    doubtful: float = 0.15
    """Fraction of the following release's budget for counting doubtful cells again."""
    likely: float = 0.35
    """The same if they rather hold rows than not: to miss them would cost more."""
    unseen: float = 0.5
    """The same for counting everything again, where no rows are seen beside a point mass: there is nothing else to release."""
    biased: float = 1.1
    """What lies beyond the ends is too uncertain where it is so many times less certain than the following release."""
    tails: float = 0.45
    """Budget of all counts there, relative to that of the following release before: tails are counted again up to this."""
    least_tails: float = 0.1
    """Fraction below which that is not worth while."""
    fine: int = 16
    """Parts of an octave: an end lies at most a sixteenth of its distance too far."""
    fine_rate: float = 0.05
    """Chance that noise shows rows in some part of an octave."""
    windows: tuple[int, ...] = (1, 2, 4)
    """Sums of so many neighboring parts are looked at."""
    abrupt: float = 20.0
    """Rows end abruptly where the last ones are this many times what could be seen: in counts of events (Poisson), one value is
    at most this many times as frequent as the next, unless the next is seen as an octave of its own."""
    last_part: float = 0.35
    """Share of the last octave's rows that its last ones are expected to be."""
    resolved: float = 2.0**-30
    """Distance of the octave from the center, relative to the center, above which rounding cannot confuse the two sides."""
    most_fine: float = 0.12
    """Largest fraction of the budget that looking at the parts of an octave is worth."""


LOOKS = LookRules()


class DescriptionPlan(NamedTuple):
    """The releases that a description takes."""

    stages: tuple[TopK, ...]
    counts: Noise
    grid: LocationGrid = GRID
    looks_again: bool = False
    """Whether doubtful cells can be counted again."""

    @property
    def mechanisms(self) -> tuple[TopK | Noise, ...]:
        return (*self.stages, self.counts)


class OctaveCounts:
    """Exact numbers of rows at, above and below public centers, by octave of the distance; private.

    Notes
    -----
    *Privacy.* A row is in exactly one cell of each column: replacing it moves at most two counts of a column by one, and at most
    one if only one is released. Proof: ``looks.proof.md``.
    """

    def __init__(self, data: PrivateData, center: Floats) -> None:
        signed = signed_counts(data, center)
        self._table = np.concatenate((signed[:, :, :1].sum(axis=1), signed[:, 0, 1:], signed[:, 1, 1:]), axis=1)

    def released(self, curator: Curator, mechanism: Noise) -> tuple[Floats, CountNoise]:
        """Noisy counts of all cells, of shape (columns, 1 + 2 CELLS)."""
        return release_counts(curator, mechanism, self._table, 2 * len(self._table))

    def released_cells(self, curator: Curator, mechanism: Noise, cells: NDArray[np.bool_]) -> tuple[Floats, CountNoise]:
        """Noisy counts of some cells of each column, marked in ``cells`` of shape (columns, 2, CELLS), one after the other."""
        marked = cells.reshape(len(cells), -1)
        return release_counts(curator, mechanism, self._table[:, 1:][marked], moved_counts(marked))


def moved_counts(marked: NDArray[np.bool_]) -> int:
    """How many of the marked cells, of shape (columns, cells), a replaced row moves by one: two of a column, if it has two."""
    return int(np.minimum(marked.sum(axis=1), 2).sum())


def release_counts(curator: Curator, mechanism: Noise, counts: NDArray[Any], moved: int) -> tuple[Floats, CountNoise]:
    """Noisy counts of which a replaced row moves at most ``moved``, each by at most one, and their noise."""
    size = {"l1": float(moved), "l2": math.sqrt(moved)}[mechanism.norm]
    # In steps far finer than the noise, so that discrete Gaussian noise composes as a Gaussian.
    noisy = curator.release(mechanism, Bounded(fixed(counts), ONE * size, mechanism.norm, unit=1.0 / ONE))
    return noisy, CountNoise(curator.noise(mechanism, size), isinstance(mechanism, Laplace))


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
        What was counted, for that.

    Notes
    -----
    *Privacy.* ``find_locations``, then one table of counts around the released centers. Proof: ``looks.proof.md``.
    """
    center, resolution = find_locations(curator, plan.stages, data, plan.grid)
    counts = OctaveCounts(data, center)
    noisy, noise = counts.released(curator, plan.counts)
    second = NOT_YET if plan.looks_again else None
    columns = [
        ColumnDescription(data.n, float(c), float(w), float(cells[0]), cells[1:].reshape(2, CELLS), noise, second).recentered()
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
    """Choose the ends of every column, with second looks where the first leaves doubt.

    Parameters
    ----------
    curator : Curator
    release : Laplace or Gaussian
        Planned with three parts: what follows, and two second looks.
    data : PrivateData
    columns, counts
        As ``describe`` returns them.
    unit : callable
        Standard deviation of what follows per length of a column's interval, given what is left of ``release``.

    Notes
    -----
    *Privacy.* Which cells are counted again, and with which budget, are functions of releases. Proof: ``looks.proof.md``.
    """
    ends = [choose_ends(column, unit()) for column in columns]
    if any(column.second is None for column in columns):
        return columns, ends
    unseen = np.array([not e.seen for e in ends])
    tails = LOOKS.tails - _relative_budget(curator, release, columns)
    biased = np.array([e.bias_variance > (LOOKS.biased * unit() * (e.high - e.low)) ** 2 for e in ends]) & ~unseen
    biased &= tails > LOOKS.least_tails
    again = np.array([e.doubtful for e in ends]) | (unseen | biased)[:, None, None]
    if again.any():
        # Between the fractions that all columns of one kind would get.
        likely = np.array([e.likely for e in ends]) & ~(unseen | biased)
        kinds = ((unseen, LOOKS.unseen), (biased, tails), (likely, LOOKS.likely), (~(unseen | biased | likely), LOOKS.doubtful))
        look = curator.split(release, "second look", float(sum(kind.mean() * fraction for kind, fraction in kinds)))
        noisy, noise = counts.released_cells(curator, look, again)
        looked = np.split(noisy, np.cumsum(again.sum(axis=(1, 2)))[:-1])
        counted = [
            c.counted_again(cells, values, noise) if cells.any() else c
            for c, cells, values in zip(columns, again, looked, strict=True)
        ]
        ends = _chosen_anew(columns, counted, ends, unit())
        columns = counted
    found = find_hard_ends(curator, release, data, columns)
    return found, _chosen_anew(columns, found, ends, unit())


def _chosen_anew(before: list[ColumnDescription], now: list[ColumnDescription], ends: list[Ends], unit: float) -> list[Ends]:
    """Ends of columns, chosen again where the description has changed."""
    return [e if new is old else choose_ends(new, unit) for old, new, e in zip(before, now, ends, strict=True)]


def _relative_budget(curator: Curator, release: Noise, columns: list[ColumnDescription]) -> float:
    """Budget of the first counts, relative to that of a release: of epsilon for Laplace noise, of rho for Gaussian noise."""
    return (_noise_of_all(curator, release, len(columns)).scale / columns[0].noise.scale) ** (2 if release.norm == "l2" else 1)


def _noise_of_all(curator: Curator, release: Noise, columns: int) -> CountNoise:
    """Noise of counts in so many columns, if a whole release were spent on them."""
    size = 2.0 * columns if release.norm == "l1" else math.sqrt(2.0 * columns)
    return CountNoise(curator.noise(release, size), isinstance(release, Laplace))


def find_hard_ends(
    curator: Curator, release: Noise, data: PrivateData, columns: list[ColumnDescription]
) -> list[ColumnDescription]:
    """Look where within its last octave a side ends, if so many rows are there that a small part of the budget will show it.

    Notes
    -----
    *Privacy.* A row is in at most one part of the two octaves of a column, since these lie on different sides of the center by
    far more than rounding can hide. Proof: ``looks.proof.md``.
    """
    last = [[column.reach((side,)) for side in (0, 1)] for column in columns]
    rows = np.array(
        [[0.0 if k is None else c.counts[s, k] for s, k in enumerate(ks)] for c, ks in zip(columns, last, strict=True)]
    )
    doubt = math.log(len(LOOKS.windows) * (LOOKS.fine + 1) / LOOKS.fine_rate)
    # Of all columns that could be looked at; those that would need too much of the budget are left out.
    whole = _noise_of_all(curator, release, len(columns))
    power = 1 if whole.laplace else 2
    needed = (LOOKS.abrupt * float(whole.threshold(doubt)) / np.maximum(LOOKS.last_part * rows, 1.0)) ** power
    octave = np.array([[0 if k is None else k for k in ks] for ks in last])
    center = np.array([column.center for column in columns])
    unit = np.exp2(octave - OCTAVES)
    wanted = (needed < LOOKS.most_fine) & (unit > LOOKS.resolved * np.abs(center)[:, None])
    if not wanted.any():
        return columns
    look = curator.split(release, "parts of the last octave", float(needed[wanted].max()))
    table = np.stack([_parts(data, center, unit[:, side], side) for side in (0, 1)], axis=1)
    marked = np.repeat(wanted[:, :, None], table.shape[2], axis=2)
    noisy, noise = release_counts(curator, look, table[marked], moved_counts(marked.reshape(len(columns), -1)))
    seen = dict(zip(zip(*np.nonzero(wanted), strict=True), noisy.reshape(-1, table.shape[2]), strict=True))
    found = []
    for j, column in enumerate(columns):
        ends = [_hard_end(seen[j, s], noise, int(octave[j, s]), doubt) if wanted[j, s] else None for s in (0, 1)]
        found.append(column if ends == [None, None] else replace(column, hard_ends=(ends[0], ends[1])))
    return found


def _parts(data: PrivateData, center: Floats, unit: Floats, side: int) -> NDArray[Any]:
    """Counts of the parts of the octave ``[unit, 2 unit)`` of distances on a side and of one part before it, nearest first."""
    step, size = unit / LOOKS.fine, LOOKS.fine + 1
    low = center + unit - step if side == 0 else center - 2 * unit
    counts = totals(data, (len(center), size + 2), lambda block: _kernels.grid_cells(dense(block), low, step, size))[:, 1:-1]
    return counts if side == 0 else counts[:, ::-1]


def _hard_end(counts: Floats, noise: CountNoise, octave: int, doubt: float) -> HardEnd | None:
    """The end of the last rows that are seen, if they are many."""
    last, strength = -1, 0.0
    for length in LOOKS.windows:
        # Only beyond what is seen already, so that no sum is seen for one of its parts alone.
        beyond, least = counts[last + 1 :], float(noise.threshold(doubt, length))
        sums = np.convolve(beyond, np.ones(length), "valid") if beyond.size >= length else np.zeros(0)
        seen = np.flatnonzero(sums > least)
        if seen.size:
            last, strength = last + int(seen[-1]) + length, float(sums[seen[-1]]) / least
    unit = 2.0 ** (octave - OCTAVES)
    return HardEnd(octave, unit * (1 + last / LOOKS.fine)) if strength > LOOKS.abrupt else None
