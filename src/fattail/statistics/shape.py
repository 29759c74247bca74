"""Clipping ends of a column with a private number of units."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.columns import ColumnDescription, CountNoise, Ends
from fattail.columns.closer import candidate_ends, closer_ends
from fattail.columns.description import CELLS
from fattail.columns.evidence import RATES
from fattail.columns.location import find_locations, signed_counts
from fattail.privacy import Bounded, Curator, Laplace
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

    def noise() -> float:
        """Of a sum of two cells, per unit of the length of the interval, given what is left of their budget."""
        return _RATIO * curator.noise(plan.cells, moves) / typical

    column = _without_inner_octaves(column)
    chosen = candidate_ends(column, noise(), groups)
    done = np.zeros((2, CELLS), dtype=np.bool_)
    for k in range(RULES.looks if rows * curator.epsilon >= RULES.looks_again else 0):
        doubtful = _in_doubt(chosen) & ~done
        if not doubtful.any():
            break
        column = _without_inner_octaves(_looked_again(curator, plan.cells, f"look {k + 2}", units, column, doubtful))
        done |= doubtful  # other octaves may be in doubt now
        chosen = candidate_ends(column, noise(), groups)
    ends, beyond = closer_ends(curator, plan.closer, units.side_counts, moves, column, chosen, noise(), groups)
    half = max((ends.high - ends.low) / 2, max(abs(ends.low), abs(ends.high)) * _RELATIVE, _NARROWEST)
    middle = ends.low / 2 + ends.high / 2
    return Shape(ends, column.center, middle - half, middle + half, rows, beyond)


def _without_inner_octaves(column: ColumnDescription) -> ColumnDescription:
    """The description without octaves so far inside of the bulk that their rows cannot matter: there are many, and noise is large
    in some."""
    if column.bulk is None:
        return column
    return replace(column, counts=np.where(np.arange(CELLS) >= column.bulk - RULES.inner, column.counts, 0.0))


def _in_doubt(chosen: list[Ends]) -> NDArray[np.bool_]:
    """Octaves (side, octave) that may hold rows; all of them if a tail may have no mean."""
    first = chosen[0]
    doubtful = np.asarray(np.any([ends.doubtful for ends in chosen], axis=0))
    return doubtful | (first.seen and not first.guessed and (first.open_low or first.open_high))


def _looked_again(
    curator: Curator, cells: Laplace, name: str, units: Contributions, column: ColumnDescription, doubtful: NDArray[np.bool_]
) -> ColumnDescription:
    """Count octaves again, with a part of the budget of the cells.

    Noise is large in some octave of many. A number that is many times the noise is of rows. One that is only just large enough to
    be possible rows is no evidence, and is reduced to what surely is none. What lies between is looked at again: the second
    number is fresh, and replaces the first one if it is less than half of what made the octave worth a look. Elsewhere their
    average is used.

    Notes
    -----
    *Privacy.* Which octaves are counted, and with which budget, are functions of releases. Proof: ``shape.proof.md``.
    """
    enough = column.noise.threshold(column.required_evidence(1, RATES.possible, RATES.possible_slope) + RULES.weak)
    everything, unsure = bool(doubtful.all()), column.counts < RULES.sure * enough
    marked = doubtful & (everything | (unsure & (column.counts >= enough)))
    weak = doubtful & unsure & ~marked
    column = replace(column, counts=np.where(weak, np.minimum(column.counts, enough / 2), column.counts))
    if not marked.any():
        return column
    moves = min(units.moves, int(marked.sum()))
    wanted = float(enough[marked.any(axis=0)].min()) / (2 * math.log(1 / (2 * RULES.mistaken)))
    share = min(curator.noise(cells, moves) / wanted, RULES.most_doubtful)
    look = curator.split(cells, name, RULES.open_tails if everything else share)
    fresh = np.zeros_like(column.counts)
    fresh[marked] = curator.release(look, units.octave_counts(column.center, marked))
    counted = column.counted_again(marked, fresh[marked], CountNoise(curator.noise(look, moves), laplace=True))
    if everything:
        return counted
    return replace(counted, counts=np.where(marked & (fresh < enough / 2), fresh, counted.counts), second=None)
