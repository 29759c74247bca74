"""Released counts of lengths: of rows, of residuals, of gradients.

Lengths are counted by half octaves, far ones by wider cells. Where rows become few, a mixture of tails goes on, each weighted by
how well it explains the counts from there on. Most of these counts are smaller than their noise, but together they tell a light
tail from a heavy one, and both from one of the *far* kind, where rows too few to count hold most of the mean length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.columns.evidence import CountNoise
from fattail.privacy import Curator, Gaussian
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

PER_OCTAVE = 2
LOWEST, OCTAVES = -12, 32  # of counts, in units of the lengths
# Octaves of a cell, from each of these octaves on. Far rows are few, and a sum of narrow cells has the noise of each: with half
# octaves, 3 % of the rows did not show where they were spread over eight octaves.
WIDTHS = ((LOWEST, 1.0), (-4, 1 / PER_OCTAVE), (2, 1.0), (4, 2.0), (6, 4.0), (10, 10.0))
# Evidence (``columns/evidence.py``) of a certain count, and of a likely one near it. Noise alone is certain in one of twenty
# million tables of 64 cells at most, and likely in one of 3000 cells.
CERTAIN, LIKELY = 21.125, 8.0
# The tail starts where the number of rows beyond an edge is still so many noises, so that it shows in an octave or two, or such a
# share of all rows: what lies farther inside does not look like a tail.
TAIL_START, TAIL_SHARE = 20.0, 0.1
FARTHEST_START = 8.0  # Farther out are few cells, which hardly tell tails apart.
# Share of the rows that must show; with fewer the distribution is taken to be exponential of mean one half, and the heaviest one
# a power.
LEAST_SHOWN, USUAL_RATE, USUAL_INDEX = 0.25, 2.0, 2.0
USUAL_REACH = 2.0  # lengths that show if nothing does
# Tails ``exp(-a (x**k - 1) / k)`` from the start on: local indices a there, which grow as ``x**k``; k of zero is a power.
INDICES = 2.0 ** (np.arange(-2, 11) / 2)
GROWTHS = (0.0, 0.25, 0.5, 1.0, 2.0)
# Mean excess over the start, in units of the start, up to which a tail is believed: that of a power of 1.25.
HEAVIEST = 4.0
# A light tail may be followed by a heavy one, with one of these indices and growths and one of these parts of the rows. A curved
# effect, or a column that is mostly zeros, has such a bend. Both kinds of tail have half of the prior probability.
LATER = ((2.0, 0.0), (1.0, 0.25), (2.0, 0.25), (1.0, 0.5), (2.0, 0.5))
LATER_PARTS = (0.01, 0.03, 0.1, 0.3)
# Tails of the far kind have a mean excess of 4 to 500; products of two heavy columns are such. Indices and growths, indices and
# ends of powers, and the part of the rows that may have it, if not all. Chosen by hand on laws of land, claims, cities and
# turnover (``coverage_linear.LAWS``).
FAR_TAILS = ((0.25, 0.25), (0.35, 0.25), (0.5, 0.25), (0.7, 0.25), (0.25, 0.5), (0.35, 0.5), (0.5, 0.5))
FAR_ENDED = (
    *product((0.1, 0.25, 0.4), 2.0 ** np.arange(6, 15)),
    *product((0.6, 1.0), 2.0 ** np.arange(8, 15, 2)),
)
FAR_PART = 0.3
# Log odds of this kind before counts. The likelier kind is used alone: far tails of small probability would lead every mean.
# Evidence of two counts was below 2.5 for nearly all laws without such a tail, and above it for nearly all with one.
FAR_ODDS = -2.0
LEAST_CHANCE = 1e-6  # Tails that are so much less likely than the likeliest one are left out.
MISFIT = 0.15  # relative error of a tail's cells, as that of the tails of columns
MOST = 0.975  # posterior probability that a tail is no heavier than the heaviest one that is allowed for


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

    Counts of a tail decrease gradually, so a single count far from all others is more often noise than rows. Accepting one in
    thousands of fits would make the clip a million times too wide.
    """
    certain, likely = (counts > CountNoise(noise, laplace=False).threshold(evidence) for evidence in (CERTAIN, LIKELY))
    return (np.convolve(certain, np.ones(2 * per_octave + 1), "same") > 0) & likely


@dataclass(frozen=True)
class Lengths:
    """The released distribution of a length, with its tail continued; all of it is public."""

    survival: Floats
    """Share of the rows beyond each edge."""
    reach: float
    """Upper edge of the last visible cell."""
    heaviest: Floats
    """The same if the tail is as heavy as it may be."""
    far: float = FAR_ODDS
    """Log odds that the tail is of the far kind: rows too few to count then hold most of the mean length."""
    near: Floats | None = None
    """Share of the rows beyond each edge if the tail is not of the far kind, where that is likelier."""

    @classmethod
    def counted(
        cls, curator: Curator, release: Gaussian, data: PrivateData, values: Callable[[Block], Any], far: float = FAR_ODDS
    ) -> Lengths:
        """Count a length of the rows, in units in which one is typical; ``far`` are the log odds by earlier counts."""
        first, ends, narrow = joined(), edges(), codes(values)

        def cells(block: Block) -> Floats:
            return np.asarray(np.searchsorted(first, np.clip(narrow(block), 0, ends.size - 2), side="right") - 1.0)

        counts = curator.release(release, Histogram(first.size).counts(data, cells))[0]
        noise, borders = curator.noise(release, math.sqrt(2)), np.append(first, ends.size - 1)
        shown = seen(counts, noise)
        rows = np.where(shown, counts, 0.0)
        if rows.sum() < LEAST_SHOWN * data.n:
            return cls(np.exp(-USUAL_RATE * ends), USUAL_REACH, (1 + ends) ** -USUAL_INDEX, far)
        last = int(np.flatnonzero(shown)[-1]) + 1
        beyond = np.append(np.cumsum(rows[::-1])[::-1], 0.0)
        beyond[: last + 1] += max(float(counts[last : last + 2 * PER_OCTAVE].sum()), 0.0)
        enough = np.flatnonzero(beyond > min(TAIL_START * noise, TAIL_SHARE * data.n))
        start = min(int(enough[-1]), int(np.searchsorted(ends[first], FARTHEST_START))) if enough.size else 0
        *tail, far = likely_tail(counts[start:], noise, start, far)
        inside = np.interp(np.arange(borders[start]), borders, beyond)
        expected, heaviest, near = (np.minimum(np.append(inside - beyond[start] + part[0], part) / data.n, 1.0) for part in tail)
        return cls(expected, float(ends[borders[last]]), heaviest, far, near)

    def mean(self, values: Floats) -> float:
        """Mean of a function of the length, given at the middles of the cells."""
        return float(values @ -np.diff(self.survival))

    def square(self, bound: float = math.inf) -> float:
        """Mean square of the lengths, each at most ``bound``."""
        return self.mean(np.minimum(middles(), bound) ** 2)

    def excess(self, bound: float) -> float:
        """Mean of what lengths exceed ``bound`` by."""
        return _excess(self.survival, bound)

    def near_excess(self, bound: float) -> float:
        """The same if the tail is not of the far kind. Rows so far out are lost under any bound with bearable noise."""
        return _excess(self.survival if self.near is None else self.near, bound)

    def most_excess(self, bound: float) -> float:
        """The same, if the tail is as heavy as it may be."""
        return _excess(self.heaviest, bound)

    def doubt(self, bound: float) -> float:
        """Root mean square of what lengths exceed ``bound`` by, over the tails that are likely."""
        expected = self.excess(bound)
        return math.hypot(expected, self.most_excess(bound) / 2)


def _excess(survival: Floats, bound: float) -> float:
    """Mean of what lengths exceed ``bound`` by, given the share of them beyond each edge."""
    return float(np.maximum(middles() - bound, 0.0) @ -np.diff(survival))


def likely_tail(counts: Floats, noise: float, start: int, far: float = FAR_ODDS) -> tuple[Floats, Floats, Floats, float]:
    """Rows beyond the edges from cell ``start`` on, given noisy counts: the expected number, the most that is likely, and the
    expected number if the tail is not of the far kind; the log odds of that kind, which were ``far`` before.

    Tails are weighted by their likelihood, each with the mass that explains the counts best.
    """
    survival, cells, prior, is_far = tails(start)
    weight = np.full_like(cells, noise**-2.0)
    mass = np.zeros(len(cells))
    for _ in range(3):
        mass = np.maximum((weight * cells) @ counts / np.sum(weight * cells**2, axis=1), noise)
        model = mass[:, None] * cells
        weight = 1 / (noise**2 + model + (MISFIT * model) ** 2)
    score = prior + np.sum(np.log(weight) - weight * (counts - model) ** 2, axis=1) / 2
    odds = far + float(np.logaddexp.reduce(score[is_far]) - np.logaddexp.reduce(score[~is_far]))
    near = _expected(np.where(is_far, -np.inf, score), mass, survival)
    expected, most = _expected(np.where(is_far, score, -np.inf), mass, survival) if odds > 0 else near
    return expected, most, near[0], odds


def _expected(score: Floats, mass: Floats, survival: Floats) -> tuple[Floats, Floats]:
    """Rows beyond each edge over tails with these logarithms of chances: the mean, and the quantile `MOST`."""
    chance = np.exp(score - score.max())
    likely = np.flatnonzero(chance >= LEAST_CHANCE)
    beyond, chance = mass[likely, None] * survival[likely], chance[likely] / chance[likely].sum()
    order = np.argsort(beyond, axis=0)
    place = np.argmax(np.cumsum(chance[order], axis=0) >= MOST, axis=0)
    return chance @ beyond, beyond[order[place, np.arange(place.size)], np.arange(place.size)]


@lru_cache(maxsize=1)
def joined() -> NDArray[np.intp]:
    """First half octave of each cell of counts."""
    octave = np.arange(OCTAVES * PER_OCTAVE) / PER_OCTAVE + LOWEST
    starts, width = np.array(WIDTHS).T
    zone = np.searchsorted(starts, octave, side="right") - 1
    return np.flatnonzero((octave - starts[zone]) % width[zone] == 0)


@lru_cache(maxsize=16)
def tails(start: int) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Tails from cell ``start`` on: at the edges, one in a row, their cells of counts, the logarithm of their prior
    probabilities among those of their kind, and which are of the far kind."""
    ends, borders = edges(), np.append(joined(), edges().size - 1)
    x = ends[borders[start] :] / ends[borders[start]]
    light, heavy = (np.array([_tail(x, a, k) for a, k in pairs]) for pairs in (_believed(), LATER))
    far = np.array([*(_tail(x, a, k) for a, k in FAR_TAILS), *(_ended(x, a, top) for a, top in FAR_ENDED)])
    kinds = light, *(_bent(light, heavy, part) for part in LATER_PARTS), far, _bent(light[::2], far, FAR_PART)
    survival, numbers = np.concatenate(kinds), [len(kind) for kind in kinds]
    groups = np.repeat([0, *(1 for _ in LATER_PARTS), 2, 3], numbers)
    cells = -np.diff(survival[:, borders[start:] - borders[start]], axis=1)
    return survival, cells, -np.log(2.0 * np.bincount(groups)[groups]), groups > 1


def _bent(first: Floats, later: Floats, part: float) -> Floats:
    """Every tail, followed by every later one for a part of the rows."""
    return np.asarray(((1 - part) * first[:, None] + part * later).reshape(-1, first.shape[1]))


@lru_cache(maxsize=1)
def _believed() -> list[tuple[float, float]]:
    """Index and growth of each tail that is light enough, wherever it starts."""
    return [(a, k) for k, a in product(GROWTHS, INDICES) if _mean_excess(a, k) < HEAVIEST]


def _tail(x: Floats, a: float, k: float) -> Floats:
    return np.asarray(np.exp(-a * (np.log(x) if k == 0 else np.expm1(k * np.log(x)) / k)))


def _ended(x: Floats, a: float, top: float) -> Floats:
    """A power tail that ends at ``top``."""
    return np.asarray(np.maximum(x**-a - top**-a, 0.0) / (1 - top**-a))


def _mean_excess(a: float, k: float) -> float:
    x = 2.0 ** np.arange(0, 2 * OCTAVES, 1 / 8)
    tail = _tail(x, a, k)
    return float(np.sum((tail[1:] + tail[:-1]) / 2 * np.diff(x)))
