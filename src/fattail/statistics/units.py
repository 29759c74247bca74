"""The contribution of each unit, a row or a person, to each group: a value and a mass. A unit's masses add up to at most one.

A row contributes its value to its group, with a mass of one. A person's rows are first averaged within each group, and each group
gets the share of the person's rows that are in it. So with one row each, persons give the same integers as rows. Rows in no
group, and rows whose missing cell is dropped, do not count, neither in an average nor in a share.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fattail._kernels.groups import group_cells, side_cells
from fattail.columns.location import signed_counts
from fattail.privacy import Bounded
from fattail.robust.base import ONE
from fattail.rows.data import PrivateData
from fattail.statistics.labels import Name
from fattail.statistics.partition import NamedCounts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LARGEST = 2.0**120
"""Larger numbers count as this one where a column is described: octaves end at 2^128, and a tail needs some beyond its start."""
OCTAVES = 33
"""Octaves of the number of a person's rows; the last one holds all larger numbers."""


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """Contributions, one for each pair of a unit and a group that it is in. Results are `Bounded` values.

    Attributes
    ----------
    n : int or None
        How many units the table has, if that is public.
    moves : int
        Units that differ between neighbors: 2 under replace-one (one leaves and one comes), 1 under add-remove.
    _codes, _values, _masses : arrays
        Group (-1: none), value and mass (in units of 1 / ONE) of each contribution.
    _chosen : array of indices
        One contribution of each unit that has any, called its voice: used where a unit may give only one value.
    _names : list or None
        The groups that occur, where they are not declared.

    Notes
    -----
    *Privacy.* Two neighbors differ in the contributions of ``moves`` units. Proof: ``units.proof.md``.
    """

    n: int | None
    moves: int
    _codes: Ints
    _values: Floats
    _masses: Ints
    _chosen: Ints
    _names: list[Name] | None = None
    _rows: Ints | None = None
    """How many rows that count the person of each contribution has; None for rows."""

    def row_counts(self) -> Bounded:
        """Number of persons by octave of the number of their rows."""
        assert self._rows is not None
        octave = np.minimum(np.frexp(self._rows[self._chosen].astype(np.float64))[1] - 1, OCTAVES - 1)
        table = np.bincount(octave, minlength=OCTAVES).astype(np.int64)
        return Bounded(ONE * table, float(ONE * self.moves), "l1", unit=1.0 / ONE)

    def capped(self, most: int) -> Contributions:
        """The same units with masses in proportion to the person's rows, of which at most ``most`` count; so many are one."""
        assert self._rows is not None
        return replace(self, _masses=self._masses * np.minimum(self._rows, most) // most)

    def votes(self) -> NamedCounts:
        """The number of units that vote for each group that occurs."""
        assert self._names is not None
        votes = np.bincount(self._codes[self._chosen], minlength=len(self._names)).astype(np.int64)
        (present,) = np.nonzero(votes)
        return NamedCounts([self._names[k] for k in present.tolist()], votes[present], float(self.moves))

    def within(self, names: Sequence[Name]) -> Contributions:
        """The same units, in these groups only; masses stay as they are."""
        assert self._names is not None
        place_of = {name: k for k, name in enumerate(names)}
        place = np.array([place_of.get(name, -1) for name in self._names], dtype=np.int64)
        return replace(self, _codes=place[self._codes], _names=None)

    def size(self) -> Bounded:
        """How many units are counted by `voices`."""
        return Bounded(np.array([len(self._voices) * ONE]), ONE, "l1", unit=1.0 / ONE)

    def voices(self) -> PrivateData:
        """One value per unit that counts, and an additional zero, so that there is always at least one value."""
        return PrivateData(np.append(self._voices, 0.0)[:, None])

    @cached_property
    def _voices(self) -> Floats:
        return _finite(self._values[self._chosen[self._codes[self._chosen] >= 0]])

    def everyone(self) -> PrivateData:
        """One value per unit, where every unit counts and there is one group."""
        return PrivateData(_finite(self._values)[:, None])

    def side_counts(self, center: float, above: float, below: float, cells: int) -> Bounded:
        """How many voices lie in each of so many equal cells up to these distances above and below a center, and elsewhere."""
        table = np.zeros((2, cells + 1), dtype=np.int64)
        with np.errstate(all="ignore"):
            side_cells(self._voices, center, above, below, table)
        return Bounded(ONE * table, float(ONE * self.moves), "l1", unit=1.0 / ONE)

    def octave_counts(self, center: float, octaves: NDArray[np.bool_]) -> Bounded:
        """How many voices lie in the marked octaves of the distance from a center, marked in a table (side, octave)."""
        table = signed_counts(self.voices(), np.array([center]))[0, :, 1:][octaves]
        return Bounded((ONE * table).astype(np.int64), float(ONE * min(self.moves, table.size)), "l1", unit=1.0 / ONE)

    def counts(self, groups: int, whole: bool) -> Bounded:
        """Units in each group, as whole numbers (of rows) or in parts (of persons)."""
        table = np.zeros(groups, dtype=np.int64)
        inside = self._codes >= 0
        np.add.at(table, self._codes[inside], self._masses[inside])
        if whole:
            return Bounded(table // ONE, float(self.moves), "l1")
        return Bounded(table, float(self.moves * ONE), "l1", unit=1.0 / ONE)

    def cells(self, groups: int, low: float, high: float, each: int = 3) -> Bounded:
        """Three cells per group, or two; see `fattail.statistics.cells`."""
        table = np.zeros((groups, each), dtype=np.int64)
        with np.errstate(all="ignore"):
            group_cells(self._values, self._codes, self._masses, low, high, table)
        return Bounded(table, float(self.moves * ONE), "l1", unit=1.0 / ONE)


def units_of_rows(codes: Ints, values: Floats, *, public: bool, names: list[Name] | None = None) -> Contributions:
    """Every row is a unit; rows with a negative code count in no group."""
    n, moves = (len(codes), 2) if public else (None, 1)
    kept = codes >= 0
    if not kept.all():
        codes, values = codes[kept], values[kept]
    return Contributions(n, moves, codes, values, np.full(len(codes), ONE, dtype=np.int64), np.arange(len(codes)), names)


def units_of_persons(
    codes: Ints,
    values: Floats,
    persons: tuple[Ints, int],
    *,
    public: bool,
    names: list[Name] | None = None,
    sums: bool = False,
    seed: int | None = None,
) -> Contributions:
    """The rows of a person are one unit.

    With ``sums``, a value times its mass is the sum of the person's rows in the group, instead of their average times the mass.
    ``seed`` makes the choice of the voices reproducible (and not private).
    """
    whose, count = persons
    kept = codes >= 0
    codes, values, whose = codes[kept], values[kept], whose[kept]
    # Sorted by value as well: floating-point sums then do not depend on the order of the rows.
    order = np.lexsort((values, codes, whose))
    codes, values, whose = codes[order], values[order], whose[order]
    first = np.append(True, (np.diff(whose) != 0) | (np.diff(codes) != 0))[: len(codes)]
    pair = np.cumsum(first) - 1
    size = np.bincount(pair)
    rows = np.bincount(whose, minlength=count)
    own_rows = rows[whose[first]]
    with np.errstate(all="ignore"):
        average = np.bincount(pair, weights=values, minlength=len(size)) / size
        value = average * own_rows if sums else average
    (present,) = np.nonzero(rows)
    start = np.cumsum(rows) - rows
    # The group of a random row: a person votes for a group with the probability of its mass.
    drawn = start + np.minimum((_labels(count, seed) * rows).astype(np.int64), rows - 1)
    n, moves = (count, 2) if public else (None, 1)
    masses = (size * ONE // own_rows).astype(np.int64)
    return Contributions(n, moves, codes[first], value, masses, pair[drawn[present]], names, own_rows.astype(np.int64))


def _finite(values: Floats) -> Floats:
    """Values clipped to the range of a description: finite, and within its octaves."""
    return np.clip(np.where(np.isfinite(values), values, 0.0), -_LARGEST, _LARGEST)


def _labels(count: int, seed: int | None) -> Floats:
    """A secret number in [0, 1) for each person, independent of everything else."""
    key = os.urandom(32) if seed is None else b"voices %d" % seed
    drawn = np.frombuffer(hashlib.shake_128(key).digest(8 * count), dtype=np.uint64)
    return np.asarray((drawn >> np.uint64(11)) * 2.0**-53, dtype=np.float64)
