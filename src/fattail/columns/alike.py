"""Whether the two tails of a column have the same law. Public arithmetic only.

If they have, clipping both at the same distance cuts off as much above as below, so that the mean is not biased: the two
excesses cancel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fattail.columns.description import CELLS, ColumnDescription
from fattail.columns.location import OCTAVES
from fattail.columns.tail_shapes import ABOVE, NEAR

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AlikeRules:
    """Constants of the comparison.

    ``symmetry``, ``alike`` and ``unlike`` are those of the default mean before commit b4b179c. The others were set by hand on
    ``column_laws.TUNING``; each can be tried with ``benchmarks/tuning/columns.py``.
    """

    symmetry: float = 3.0
    """Prior odds that the two tails are alike."""
    alike: float = 0.015
    """Standard deviation of the relative difference of the counts of two tails that are alike."""
    unlike: float = 0.55
    """The same for two tails that are not alike, from the octave of their scale on. Nearer to the center it is smaller in
    proportion to the distance: near its median, a skewed column has as many rows above as below."""
    level: float = 0.65
    """If a smooth column has no rows beyond an octave, this octave holds less than this multiple of the rows of the octave before
    it (a normal law: at most .61)."""
    beyond: float = 0.06
    """In a heavy tail, of index at most four, each octave holds at least this multiple of the rows of the octave before it."""


ALIKE = AlikeRules()


def probability_alike(column: ColumnDescription, start: int) -> float:
    """Posterior probability that both tails have the same law, from the counts of all cells beyond the body of the column.

    ``start`` is the octave of the tails' scale. The difference of two counts is compared with its variance under both
    hypotheses: noise, sampling and an error of the center, and if the tails differ, a fraction of the rows in addition.
    """
    first = max(start - NEAR - 2, 0)
    counts = column.counts[:, first : min(start + ABOVE + 1, CELLS)]
    both = np.maximum(counts.sum(0), 0.0)
    middles = np.exp2(np.arange(first, first + counts.shape[1]) - OCTAVES + 0.5)
    outer = 2.0 ** (start - OCTAVES + 0.5)
    moved = 2 * both * np.minimum(column.off_center / middles, 1.0)
    same = 2 * column.noise.std**2 + both + moved**2
    other = same + (ALIKE.unlike * np.minimum(middles / outer, 1.0) * both) ** 2
    difference = (counts[0] - counts[1]) ** 2
    by_cell = 0.5 * (np.log(other / same) - difference * (1 / same - 1 / other))
    evidence = np.log(ALIKE.symmetry) + by_cell.sum()
    return float(1 / (1 + np.exp(-np.clip(evidence, -50, 50))))


def canceling(column: ColumnDescription, up: Floats, down: Floats) -> Floats:
    """For each pair of ends, the probability that the excesses beyond them cancel if both tails have the same counts.

    In two smooth tails with the same counts, the rows of an octave also lie at the same places. Point masses at a floor and at a
    ceiling need not: in the same octave, one may lie at the inner edge and the other at the outer edge. Such masses are likely if
    the last octave with rows is as full as the one before it and the next one is empty. Then two ends of which the nearer lies
    within this octave cut off different amounts.
    """
    last = column.reach((0, 1))
    if last is None or not 0 < last < CELLS - 1:
        return np.ones((len(down), len(up)))
    before, here, after = column.counts[:, last - 1 : last + 2].sum(axis=0).tolist()
    std = math.sqrt(2) * column.noise.std
    full = (here - ALIKE.level * before) / math.hypot(1, ALIKE.level)
    empty = (ALIKE.beyond * here - after) / math.hypot(1, ALIKE.beyond)
    masses = float(ndtr(full / std) * ndtr(empty / std))
    return np.where(np.minimum(up, down[:, None]) < 2.0 ** (last + 1 - OCTAVES), 1 - masses, 1.0)
