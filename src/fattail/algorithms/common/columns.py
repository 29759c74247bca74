"""Private centre and scale of columns in any unit, from four rounds of counts.

Round one counts each column by sign and octave, on a grid that was fixed before any data. It
settles magnitudes, but a latitude is 47.5 with a spread of 0.1, so two more rounds zoom into
uniform cells between the outer quantiles that the round before has shown. A fourth counts
octaves of only those columns that seem constant, such as rare dummies, or repeats the third if there are
none. A column that is constant but for too few rows to be seen against the noise gets an
infinite scale: it is left out of the model rather than allowed to swamp it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fattail.data import Block, PrivateData
from fattail.privacy import Curator, Gaussian
from fattail.robust.histogram import Histogram

Floats = NDArray[np.float64]

LOW, HIGH = -60, 60  # octaves of round one: what is smaller counts as zero
FINE = 32  # uniform cells of the later rounds, and one beyond either end
TAIL = 0.15  # the spread is half the distance between this quantile and its mirror image
ROUNDS = 4
DUMMY = 20  # octaves of a hidden column among which ones must stand out; they are likelier than the others

_OCTAVES = HIGH - LOW + 1
_EDGES = np.concatenate([-np.ldexp(1.0, np.arange(HIGH + 1, LOW - 1, -1)), np.ldexp(1.0, np.arange(LOW, HIGH + 2))])


def table(block: Block, with_y: bool) -> Floats:
    """Rows of a block as a dense array, with the response as a last column if asked."""
    X = np.asarray(block.X.toarray() if hasattr(block.X, "toarray") else block.X, dtype=np.float64)
    return np.column_stack([X, np.asarray(block.y)]) if with_y else X


def center_and_scale(curator: Curator, release: Gaussian, data: PrivateData, with_y: bool) -> tuple[Floats, Floats]:
    """Centre and scale of every column; the response's come last.

    ``release`` is planned for four Gaussian releases. The scale is of the order of a standard
    deviation for columns with light tails and below it for heavy ones; infinite means that
    the column shows no variation.
    """
    width = data.d + with_y
    noise = curator.noise(release, math.sqrt(2 * width))
    octaves = Histogram(2 * _OCTAVES + 1, width)

    def signed_octave(block: Block) -> Floats:
        x = np.ascontiguousarray(table(block, with_y))
        exponent = (x.view(np.int64) >> 52 & 0x7FF) - 1022  # as frexp's, but faster
        octave = np.where(np.isnan(x), 0, np.clip(exponent - LOW, 0, _OCTAVES))
        return np.asarray(_OCTAVES + np.copysign(octave, x))

    coarse = curator.release(release, octaves.counts(data, signed_octave))
    # No cell without rows passes: a false one would be off by many orders of magnitude.
    seen = np.where(coarse > _certain(coarse.size) * noise, coarse, 0.0)
    for j in np.flatnonzero(seen.sum(axis=1) < data.n / 2):
        seen[j] = max(seen[j], _together(coarse[j], noise, _certain(coarse.size)), key=np.sum)
    low, high = np.array([_span(_EDGES, c) for c in seen]).T

    def zoom(low: Floats, high: Floats) -> tuple[Floats, Floats]:
        step = np.maximum((high - low) / FINE, np.ldexp(1.0, LOW - 8))

        def cell(block: Block) -> Floats:
            return np.floor((table(block, with_y) - low) / step) + 1.0

        counts = curator.release(release, Histogram(FINE + 2, width).counts(data, cell))
        return counts, low[:, None] + step[:, None] * np.arange(-1, FINE + 2)

    middle, edges = zoom(low, high)
    narrow = np.array([_span(e, c, 1.5 * noise) for e, c in zip(edges, middle, strict=True)])
    # Where few cells hold most rows, look closer; elsewhere count again and average.
    between = (edges[:, :-1] >= narrow[:, :1]) & (edges[:, 1:] <= narrow[:, 1:])
    held = (middle * between).sum(axis=1) > 0.6 * data.n
    closer = held & (narrow[:, 1] - narrow[:, 0] <= 4.5 * (edges[:, 1] - edges[:, 0]))
    fine, final = zoom(np.where(closer, narrow[:, 0], low), np.where(closer, narrow[:, 1], high))
    fine = np.where(closer[:, None], fine, (fine + middle) / 2)

    def measure(fine: Floats) -> tuple[Floats, Floats]:
        center, scale = np.zeros(width), np.empty(width)
        for j in range(width):
            center[j], scale[j] = _center_and_spread(final[j], np.where(fine[j] < 1.5 * noise, 0.0, fine[j]), data.n / 4)
            scale[j] = max(scale[j], _atom_spread(center[j], seen[j], coarse[j], noise, data.n))
            if scale[j] < 2.0 ** (LOW + 2) or not seen[j].any():
                scale[j] = math.inf  # constant, or lost in the noise
        return center, scale

    center, scale = measure(fine)
    hidden: NDArray[np.intp] = np.flatnonzero(np.isinf(scale))
    if len(hidden) == 0:
        before = np.where(closer, 1, 2)[:, None]
        return measure((before * fine + zoom(final[:, 1], final[:, -2])[0]) / (before + 1))
    # The fewer columns are counted, the less noise do their octaves need.
    octaves = Histogram(2 * _OCTAVES + 1, len(hidden))
    counts = curator.release(release, octaves.counts(data, lambda block: signed_octave(block)[:, hidden]))
    less = curator.noise(release, math.sqrt(2 * len(hidden)))
    height = np.full(counts.shape[1], _certain(counts.size))
    height[_OCTAVES + 1 - LOW] = _certain(DUMMY * len(hidden))
    for k, j in enumerate(hidden):
        spread = _atom_spread(0.0, np.where(counts[k] > height * less, counts[k], 0.0), counts[k], less, data.n)
        if spread > 0:
            center[j], scale[j] = 0.0, spread
    return center, scale


def _certain(cells: int) -> float:
    """Height, in standard deviations, that the noise of so many cells does not reach."""
    return math.sqrt(2 * math.log(cells)) + 1


def _together(counts: Floats, noise: float, certain: float) -> Floats:
    """Counts of the run of octaves, of both signs, that stands out most; zeros if none does.

    A column that spreads over octaves and both signs may show in no cell by itself.
    """
    both = counts[:_OCTAVES][::-1] + counts[_OCTAVES + 1 :]
    best, inside = certain, np.zeros(_OCTAVES, dtype=bool)
    for length in (2, 4, 8):
        sums = np.convolve(both, np.ones(length), "valid") / (noise * math.sqrt(2 * length))
        k = int(np.argmax(sums))
        if sums[k] > best:
            best, inside = float(sums[k]), (np.arange(_OCTAVES) >= k) & (np.arange(_OCTAVES) < k + length)
    return np.where(np.concatenate([inside[::-1], [False], inside]), np.maximum(counts, 0.0), 0.0)


def _quantile(edges: Floats, counts: Floats, q: float) -> float:
    """Quantile of counts in cells, linear within a cell."""
    total = np.concatenate([[0.0], np.cumsum(counts)])
    k = min(int(np.searchsorted(total[1:], q * total[-1], side="right")), len(counts) - 1)
    inside = (q * total[-1] - total[k]) / max(total[k + 1] - total[k], 1e-9)
    return float(edges[k] + (edges[k + 1] - edges[k]) * min(max(inside, 0.0), 1.0))


def _span(edges: Floats, counts: Floats, threshold: float = 0.0) -> tuple[float, float]:
    """Outer edges of the cells between the two outer quantiles; everything if nothing is seen."""
    counts = np.where(counts > threshold, counts, 0.0)
    if not counts.sum() > 0:
        return (-1.0, 1.0) if edges is _EDGES else (float(edges[0]), float(edges[-1]))
    share = np.cumsum(counts) / counts.sum()
    first, last = np.searchsorted(share, [TAIL, 1 - TAIL], side="right").clip(0, len(counts) - 1)
    return float(edges[first]), float(edges[last + 1])


def _center_and_spread(edges: Floats, counts: Floats, least: float) -> tuple[float, float]:
    """Median and spread, 0 if one cell holds both quantiles; those of the whole grid if fewer than ``least`` rows are seen."""
    if not counts.sum() > least:
        return float(edges[0] + edges[-1]) / 2, float(edges[-1] - edges[0]) / 4
    spread = (_quantile(edges, counts, 1 - TAIL) - _quantile(edges, counts, TAIL)) / 2
    return _quantile(edges, counts, 0.5), spread if spread > float(edges[1] - edges[0]) / 2 else 0.0


def _atom_spread(center: float, seen: Floats, coarse: Floats, noise: float, n: int) -> float:
    """Root mean square distance of octaves from the centre: the spread of dummies and zero-inflated columns."""
    away = np.maximum(0.0, np.maximum(_EDGES[:-1] - center, center - _EDGES[1:]))
    alone = math.sqrt(float(np.sum(seen * away**2)) / max(float(seen.sum()), 1.0))
    if alone > 0 and not seen[_OCTAVES] > n / 2:
        return alone
    # What is not zero may be spread over octaves few of which stand out: try them together. A scale too
    # small would leave the longest rows to chance, one too large costs little beside leaving the column out.
    best, spread = math.sqrt(2 * math.log(coarse.size * 64)) + 1.0, 0.0
    for length in (2, 4, 8):
        together = np.convolve(np.where(away > 0, coarse, 0.0), np.ones(length), "valid")
        k = int(np.argmax(together))
        if together[k] > best * noise * math.sqrt(length):
            best = together[k] / (noise * math.sqrt(length))
            spread = float(np.max(away[k : k + length])) / 2 * math.sqrt(min(together[k] / n, 1.0))
    return max(alone, spread)
