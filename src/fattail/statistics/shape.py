"""Clipping ends of a column with a private number of units."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fattail.columns import ColumnDescription, CountNoise, Ends
from fattail.columns.closer import closer_ends
from fattail.columns.description import CELLS
from fattail.columns.location import find_locations, signed_counts
from fattail.privacy import Bounded, Curator
from fattail.robust.base import ONE
from fattail.statistics.plan import RULES, GroupPlan
from fattail.statistics.units import Contributions

# The half-width must be positive, also after rounding, because it scales the noise.
_NARROWEST, _RELATIVE = 2.0**-140, 2.0**-50
# A group's sum and its size both have noise: the mean's is larger by the root of 1 + 3/2 t^2, here at t = 1/2.
_RATIO = math.sqrt(1 + 1.5 / 4)


class Shape(NamedTuple):
    """Clipping ends, the column's center and the number of units; releases and public arithmetic."""

    ends: Ends
    center: float
    low: float
    high: float
    rows: float
    beyond: float = 0.0
    """Share of the units that the ends cut off."""


def release_shape(curator: Curator, plan: GroupPlan, units: Contributions, groups: int) -> Shape:
    """Describe the units' values, one value per unit, and choose the ends for a group of typical size.

    Notes
    -----
    *Privacy.* The number of units is private: it is released first, and only the release is used. The scores of a
    location move by at most 1 if a unit is replaced, added or removed, the table of counts by ``units.moves`` in l1. Proof:
    ``shape.proof.md``.
    """
    looks, moves = plan.description, units.moves
    rows = max(float(curator.release(plan.size, units.size())[0]), 1.0)
    data = units.voices()
    center, resolution = find_locations(curator, looks.stages, data, looks.grid)
    signed = signed_counts(data, center)[0]
    table = np.concatenate((signed[:, :1].sum(axis=0), signed[0, 1:], signed[1, 1:]))
    noisy = curator.release(looks.counts, Bounded((ONE * table).astype(np.int64), float(ONE * moves), "l1", unit=1.0 / ONE))
    column = ColumnDescription(
        rows,
        float(center[0]),
        float(resolution[0]),
        float(noisy[0]),
        noisy[1:].reshape(2, CELLS),
        CountNoise(curator.noise(looks.counts, moves), laplace=True),
    ).recentered()
    typical = max(rows / groups, min(RULES.typical_size / curator.epsilon, rows))
    # Of a sum of two cells, per unit of the length of the interval.
    noise = _RATIO * curator.noise(plan.cells, moves) / typical
    ends, beyond = closer_ends(curator, plan.closer, units.side_counts, moves, column, noise, groups)
    half = max((ends.high - ends.low) / 2, max(abs(ends.low), abs(ends.high)) * _RELATIVE, _NARROWEST)
    middle = ends.low / 2 + ends.high / 2
    return Shape(ends, column.center, middle - half, middle + half, rows, beyond)
