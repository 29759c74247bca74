"""The two sides of a described column, and their fitted tails in the unit of the column. Public arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.columns.description import ColumnDescription
from fattail.columns.evidence import TINY
from fattail.columns.location import OCTAVES
from fattail.columns.tail_shapes import ABOVE, ENDS, NEAR, PRIOR
from fattail.columns.tails import MIDDLE, Posterior, Tail

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SideRules:
    """Constants of the sides.

    Set by hand on the tuning laws, ``column_laws.TUNING``, without a search; each can be tried with
    ``benchmarks/tuning/columns.py``.
    """

    hidden_body: float = 0.1
    """Probability that a side without visible rows has rows near the center."""
    beyond_hard_end: float = 0.002
    """Probability that as many rows as the noise may hide lie just beyond an abrupt end."""


SIDES = SideRules()


class Side(NamedTuple):
    """One side of a column."""

    scale: float
    """The distance that is the unit of the tail."""
    cells: Floats
    """Counts of the tail, from ``NEAR`` octaves below the scale on."""
    body: Floats
    """Counts of the octaves nearer to the center."""
    middles: Floats
    """Mean distances of the rows of these octaves."""

    @classmethod
    def of(cls, column: ColumnDescription, side: int, start: int) -> Side:
        first = start - NEAR
        padded = np.pad(column.counts[side], (NEAR, ABOVE + 1))[start : start + NEAR + ABOVE + 1]
        near = max(first, 0)
        middles = MIDDLE * np.exp2(np.arange(near) - OCTAVES)
        return cls(2.0 ** (start - OCTAVES), padded, column.counts[side, :near], middles)

    def body_moment(self, power: int) -> float:
        return float(np.maximum(self.body, 0.0) @ self.middles**power)


class TwoTails(NamedTuple):
    """Both sides of a column, and their tails in the unit of the column; the upper one first."""

    sides: list[Side]
    posteriors: list[Posterior]
    tails: tuple[ScaledTail, ScaledTail]
    places: list[int]
    """Octaves of the tails' scales."""
    common: bool
    """Whether both scales are about the same."""
    guessed: bool


def fit_tails(column: ColumnDescription, release_noise: float) -> TwoTails | None:
    """Fit the tails of a column; None if no row besides the center is visible, or noise selected the center."""
    starts = [column.tail_start((0,)), column.tail_start((1,))]
    if starts == [None, None]:
        starts = [column.tail_start((0, 1))] * 2
    guessed = starts == [None, None]
    if guessed:
        starts = column.guessed_starts()
    if starts == [None, None] or column.center_is_noise:
        return None
    common = None not in starts and abs(starts[0] - starts[1]) <= 1  # type: ignore[operator]
    seen = [s for s in starts if s is not None]
    unseen = [s is None for s in starts]
    places = [max(seen) if common or s is None else s for s in starts]
    sides = [Side.of(column, k, place) for k, place in enumerate(places)]
    posteriors = []
    for k, (side, hidden) in enumerate(zip(sides, unseen, strict=True)):
        within = side.body_moment(2) / side.scale**2 / column.rows**2 + TINY
        known = max((column.reach((1 - k,)) or 0) - places[k], 0)
        noise = column.noise_from(k, places[k] - NEAR)
        posteriors.append(Posterior.of(side.cells, column.rows, noise, release_noise, within, hidden, known))
    least = [p.least * s.scale**2 for p, s in zip(posteriors, sides, strict=True)]
    tails = []
    for k, (side, posterior) in enumerate(zip(sides, posteriors, strict=True)):
        # No rows follow an abrupt end, and a side without visible rows has a small prior probability of a tail already.
        thin = 0.0 if unseen[k] or column.hard_ends[k] else PRIOR.thin
        at = _absolute(posterior.tail(least[1 - k] / side.scale**2, thin), side, column, unseen[k])
        tails.append(_with_hard_end(at, column, k, release_noise))
    up, down = tails
    return TwoTails(sides, posteriors, (up, down), places, common, guessed)


class ScaledTail(NamedTuple):
    """A tail in its scale, and the same numbers in the unit of the column, for the ends at distances ``at`` from the center."""

    tail: Tail
    abrupt: int
    """Index of the candidate that was moved to an abrupt end of the rows; -1 if there is none."""
    at: Floats
    beyond: Floats
    excess: Floats
    variance: Floats
    lie: Floats
    first: Floats
    square: Floats
    counted: Floats
    realized: Floats


def _absolute(tail: Tail, side: Side, column: ColumnDescription, unseen: bool) -> ScaledTail:
    """A tail in the column's unit. A side without visible rows may also be cut at the center itself."""
    s, rows = side.scale, column.rows
    parts = [
        s * ENDS,
        tail.beyond,
        s * tail.excess,
        s**2 * tail.variance,
        s**2 * tail.lie,
        s * tail.first,
        s**2 * tail.square,
        s**2 * tail.counted,
        s**2 * tail.realized,
    ]
    if unseen:
        body = float(side.body @ side.middles) / rows
        error = column.noise.std * float(np.sqrt(np.sum(side.middles**2))) / rows
        excess = parts[2][0] + s * ENDS[0] * tail.beyond[0] + max(body, 0.0)
        first = [
            0.0,
            tail.beyond[0],
            excess,
            parts[3][0] + SIDES.hidden_body * error**2,
            parts[4][0],
            0.0,
            0.0,
            parts[6][0] + parts[7][0],
            parts[8][0],
        ]
        parts = [np.append(f, p) for f, p in zip(first, parts, strict=True)]
    return ScaledTail(tail, -1, *parts)


def _with_hard_end(side: ScaledTail, column: ColumnDescription, above_or_below: int, release_noise: float) -> ScaledTail:
    """Move the candidate at the outer edge of an octave to the abrupt end of its rows, if that reduces the squared noise by more
    than the squared bias that it may add."""
    end = column.hard_ends[above_or_below]
    if end is None:
        return side
    at = int(np.argmin(np.abs(side.at - 2.0 ** (end.octave + 1 - OCTAVES))))
    moved = max(float(side.at[at]) - end.distance, 0.0)
    cut = SIDES.beyond_hard_end * (min(float(side.beyond[at]), column.noise.std / column.rows) * moved) ** 2
    if not (moved * release_noise) ** 2 > cut:
        return side
    nearer, excess, variance = side.at.copy(), side.excess.copy(), side.variance.copy()
    # The rows that the shapes predict beyond the octave are removed: the shapes do not know that the rows end.
    nearer[at], excess[at], variance[at] = nearer[at] - moved, 0.0, cut
    return side._replace(at=nearer, excess=excess, variance=variance, abrupt=at)
