"""Released counts of lengths: of rows, of residuals, of gradients.

Lengths are counted by half octaves. Beyond the last cells that show, the distribution goes on as a power of the length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import TINY
from fattail.privacy import Curator, Gaussian
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

PER_OCTAVE = 2
LOWEST, OCTAVES = -12, 32  # of counts, in units of the lengths
# Noises that a count must exceed to be certain, and in its neighborhood to be likely: one certain count in thousands of fits
# may be noise.
CERTAIN, LIKELY = 6.5, 4.0
# Noises that the number of rows beyond an edge must exceed to be the start of a tail: a fifth of it is then noise.
TAIL_START = 5.0
# Share of the rows that must show; with fewer the distribution is taken to be exponential of mean one half.
LEAST_SHOWN, USUAL_RATE = 0.25, 2.0
USUAL_REACH = 2.0  # lengths that show if nothing does
LEAST_INDEX = 1.0  # of a tail: a slower one has no mean


def codes(values: Callable[[Block], Any], per_octave: int = PER_OCTAVE) -> Callable[[Block], Floats]:
    """Cell of a magnitude: octaves from ``LOWEST``, each cut into equal parts."""

    def cells(block: Block) -> Floats:
        mantissa, exponent = np.frexp(np.abs(values(block)))
        inside = per_octave * (exponent - 1.0 - LOWEST) + np.floor(per_octave * (2.0 * mantissa - 1.0))
        return np.where(mantissa > 0, inside, 0.0)[:, None]

    return cells


def edges(per_octave: int = PER_OCTAVE) -> Floats:
    """Lower edges of the cells, and the upper edge of the last one."""
    k = np.arange(OCTAVES * per_octave + 1)
    return np.ldexp(1.0 + (k % per_octave) / per_octave, LOWEST + k // per_octave)


def middles(per_octave: int = PER_OCTAVE) -> Floats:
    ends = edges(per_octave)
    return np.asarray((ends[1:] + ends[:-1]) / 2)


def seen(counts: Floats, noise: float, per_octave: int = PER_OCTAVE) -> NDArray[np.bool_]:
    """Cells that hold rows: those beyond doubt, and within an octave of one the likely ones.

    Tails fall by degrees, so a lone count far from all others is noise more often than rows; one
    believed in thousands of fits would set the clip a million times too wide.
    """
    certain = np.convolve(counts > CERTAIN * noise, np.ones(2 * per_octave + 1), "same") > 0
    return certain & (counts > LIKELY * noise)


@dataclass(frozen=True)
class Lengths:
    """The released distribution of a length, with its tail continued; all of it is public."""

    survival: Floats
    """Share of the rows beyond each edge."""
    reach: float
    """Upper edge of what shows."""

    @classmethod
    def counted(cls, curator: Curator, release: Gaussian, data: PrivateData, values: Callable[[Block], Any]) -> Lengths:
        """Count a length of the rows, in units in which one is typical."""
        counts = curator.release(release, Histogram(OCTAVES * PER_OCTAVE).counts(data, codes(values)))[0]
        noise, ends = curator.noise(release, math.sqrt(2)), edges()
        shown = seen(counts, noise)
        rows = np.where(shown, counts, 0.0)
        if rows.sum() < LEAST_SHOWN * data.n:
            return cls(np.exp(-USUAL_RATE * ends), USUAL_REACH)
        last = int(np.flatnonzero(shown)[-1]) + 1
        beyond = np.append(np.cumsum(rows[::-1])[::-1], 0.0)
        beyond[: last + 1] += max(float(counts[last : last + 2 * PER_OCTAVE].sum()), 0.0)
        enough = np.flatnonzero(beyond > TAIL_START * noise)
        start = int(enough[-1]) if enough.size else last
        before = beyond[max(start - PER_OCTAVE, 0)]
        index = max(math.log2(max(before, TINY) / max(beyond[start], TINY)), LEAST_INDEX)
        tail = beyond[start] * np.maximum(ends / ends[start], 1.0) ** -index
        survival = np.where(np.arange(ends.size) <= start, beyond, tail) / data.n
        return cls(np.minimum(survival, 1.0), float(ends[last]))

    def mean(self, values: Floats) -> float:
        """Mean of a function of the length, given at the middles of the cells."""
        return float(values @ -np.diff(self.survival))

    def square(self, bound: float = math.inf) -> float:
        """Mean square of the lengths, each at most ``bound``."""
        return self.mean(np.minimum(middles(), bound) ** 2)

    def excess(self, bound: float) -> float:
        """Mean of what lengths exceed ``bound`` by."""
        return self.mean(np.maximum(middles() - bound, 0.0))
