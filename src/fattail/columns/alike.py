"""Whether the two tails of a column are alike, so that what clipping cuts off cancels. Public arithmetic only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fattail.columns.description import CELLS, ColumnDescription
from fattail.columns.location import OCTAVES
from fattail.columns.tails import ABOVE, NEAR

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AlikeRules:
    """Constants of the comparison.

    ``symmetry``, ``alike`` and ``unlike`` are those of the previous default mean. The others were set by hand on
    ``column_laws.TUNING``; each can be tried with ``benchmarks/tuning/columns.py``.
    """

    symmetry: float = 3.0
    """Prior odds that the two tails are alike."""
    alike: float = 0.015
    """Relative difference of the counts of two tails that are alike."""
    unlike: float = 0.55
    """Relative difference of the counts of two tails that are not alike."""
    level: float = 0.65
    """In a smooth column that has no rows beyond an octave, the octave holds less than this multiple of the one before (a
    normal law: at most .61)."""
    beyond: float = 0.06
    """A heavy tail, of index at most four, has at least this multiple of an octave's rows in the next one."""


ALIKE = AlikeRules()


def probability_alike(column: ColumnDescription, start: int) -> float:
    """Posterior probability that both tails have the same law, by the counts of all cells from the end of the body on."""
    first = max(start - NEAR - 2, 0)
    counts = column.counts[:, first : min(start + ABOVE + 1, CELLS)]
    both = np.maximum(counts.sum(0), 0.0)
    middles = np.exp2(np.arange(first, first + counts.shape[1]) - OCTAVES + 0.5)
    moved = 2 * both * np.minimum(column.off_center / middles, 1.0)
    same = 2 * column.noise.std**2 + both + moved**2
    other = same + (ALIKE.unlike * both) ** 2
    difference = (counts[0] - counts[1]) ** 2
    by_cell = 0.5 * (np.log(other / same) - difference * (1 / same - 1 / other))
    evidence = np.log(ALIKE.symmetry) + by_cell.sum()
    return float(1 / (1 + np.exp(-np.clip(evidence, -50, 50))))


def canceling(column: ColumnDescription, up: Floats, down: Floats) -> Floats:
    """Probability that rows beyond two ends cancel if both tails have the same counts, for each pair of ends.

    Rows of a smooth tail lie alike within their octave. Masses at a floor and a ceiling do not: one may be at the inner and
    the other at the outer edge. They show as a last octave that is as full as the one before, with nothing beyond it.
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
