"""Private center and scale of columns in any unit, from four rounds of counts.

Round one counts each column by sign and octave, on a grid that does not depend on the data. It finds magnitudes. That is not
enough for a latitude, which may be 47.5 with a spread of 0.1. So rounds two and three use uniform cells between the outer
quantiles of the previous round. Round four counts the octaves of only those columns that seem constant, such as rare dummies.
If there are none, it refines the cells once more, unless that would gain nothing.

A column gets an infinite scale if the noise hides that it varies. It is then left out of the model: dividing by a scale that is
too small would make it dominate all others.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.columns.evidence import CountNoise
from fattail.privacy import Curator, Gaussian
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
Cells = NDArray[np.int16]

LOW, HIGH, SHIFT = -60, 64, 1  # octaves of round one, 2**SHIFT to a cell; smaller magnitudes count as zero
FINE = 32  # uniform cells of the later rounds, and one beyond either end
TAIL = 0.15  # the spread is half the distance between this quantile and its mirror image
ROUNDS = 4
PRECISE_NOISE = 0.005  # noise of counts, as a share of the rows, below which another count is not worth a pass
FALSE = 0.01  # probability that noise alone is taken for rows in some octave of some column
LIKELY_OCTAVES = 20  # octaves of a hidden column with a lower threshold, because they are more likely than the others

# The next ones were set by hand in the first versions; benchmarks/regression.py measures what they change.
# Evidence (``columns/evidence.py``) below which the count of a uniform cell is set to zero, and that of rows between quantiles.
VISIBLE, SURE = 1.125, 4.5
MOST_THRESHOLD = 1.5  # multiple of the rows; if a count must exceed even that to be visible, no column will be
CERTAIN_SHARE = 0.6  # the next round counts only in cells that certainly hold this share of the rows; below 1 - 2 TAIL
LEAST_COUNT = 1e-9  # least divisor of a position within a cell: far below one row, so that it acts on empty cells only

_CELLS = (HIGH - LOW) >> SHIFT  # of either sign
_EDGES = np.ldexp(1.0, np.arange(LOW, HIGH + 1, 1 << SHIFT))
_EDGES = np.concatenate([-_EDGES[::-1], _EDGES])


def all_hidden(n: int, width: int, share: float, multiplier: float) -> bool:
    """Whether even all rows in one cell would not exceed the noise, so that every column gets an infinite scale.

    Public arithmetic on what `center_and_scale` would compare if it had this share of the budget.
    """
    return _threshold(multiplier * math.sqrt(ROUNDS / share * 2 * width), LIKELY_OCTAVES * width) > MOST_THRESHOLD * n


def center_and_scale(curator: Curator, release: Gaussian, data: PrivateData, with_y: bool) -> tuple[Floats, Floats]:
    """Center and scale of every column; the response's come last.

    ``release`` is planned for four Gaussian releases. The scale is of the order of a standard
    deviation for columns with light tails and below it for heavy ones; infinite if no variation of the column is visible.
    """
    width = data.d + with_y
    noise = curator.noise(release, math.sqrt(2 * width))

    def octave(block: Block) -> Cells:
        return _kernels.octave_cells(block.table(with_y), LOW, SHIFT, _CELLS)

    coarse = curator.release(release, Histogram(2 * _CELLS + 1, width).counts(data, octave))
    # The threshold excludes all empty cells: a false one could be off by many orders of magnitude.
    seen = np.where(coarse > _threshold(noise, coarse.size), coarse, 0.0)
    for j in np.flatnonzero(seen.sum(axis=1) < data.n / 2):
        seen[j] = max(seen[j], _significant_run(coarse[j], noise, coarse.size), key=np.sum)

    def count_cells(spans: Floats) -> tuple[Floats, Floats]:
        low = spans[:, 0]
        step = np.maximum((spans[:, 1] - low) / FINE, np.ldexp(1.0, LOW - 8))

        def cell(block: Block) -> Cells:
            return _kernels.grid_cells(block.table(with_y), low, step, FINE)

        counts = curator.release(release, Histogram(FINE + 2, width).counts(data, cell))
        return counts, low[:, None] + step[:, None] * np.arange(-1, FINE + 2)

    def measure(counts: Floats, edges: Floats) -> tuple[Floats, Floats]:
        center, scale, weak = np.zeros(width), np.empty(width), _least(noise, VISIBLE)
        for j in range(width):
            center[j], scale[j] = _center_and_spread(edges[j], np.where(counts[j] < weak, 0.0, counts[j]), data.n / 4)
            scale[j] = max(scale[j], _atom_spread(center[j], seen[j], coarse[j], noise, data.n))
            if scale[j] < 2.0 ** (LOW + 2) or not seen[j].any():
                scale[j] = math.inf  # constant, or too few rows differ to be visible
        return center, scale

    # If few cells hold most rows, refine them; otherwise count again and average.
    first, edges = count_cells(np.array([_span(_EDGES, counts) for counts in seen]))
    spans, is_refined = _next_spans(first, edges, noise, data.n, 4)
    second, edges = count_cells(spans)
    second = np.where(is_refined[:, None], second, (first + second) / 2)
    center, scale = measure(second, edges)
    hidden: NDArray[np.intp] = np.flatnonzero(np.isinf(scale))
    if len(hidden):
        _count_hidden_again(curator, release, data, with_y, hidden, center, scale)
        return center, scale
    spans, is_refined_again = _next_spans(second, edges, noise, data.n, 2)
    if noise <= PRECISE_NOISE * data.n and not np.any(is_refined_again):
        curator.waive(release)
        return center, scale
    third, edges = count_cells(spans)
    averaged = np.where(is_refined, 1, 2)[:, None]  # counts that the second one is a mean of
    return measure(np.where(is_refined_again[:, None], third, (averaged * second + third) / (averaged + 1)), edges)


def _count_hidden_again(
    curator: Curator, release: Gaussian, data: PrivateData, with_y: bool, hidden: NDArray[np.intp], center: Floats, scale: Floats
) -> None:
    """Count the octaves of the hidden columns again, with less noise because they are fewer, and set center and scale of those
    whose spread is now visible.
    """

    def octave(block: Block) -> Cells:
        return _kernels.octave_cells(block.table(with_y)[:, hidden], LOW, SHIFT, _CELLS)

    counts = curator.release(release, Histogram(2 * _CELLS + 1, len(hidden)).counts(data, octave))
    noise = curator.noise(release, math.sqrt(2 * len(hidden)))
    least = np.full(counts.shape[1], _threshold(noise, counts.size))
    least[_CELLS + 1 + (-LOW >> SHIFT)] = _threshold(noise, LIKELY_OCTAVES * len(hidden))
    for k, j in enumerate(hidden):
        spread = _atom_spread(0.0, np.where(counts[k] > least, counts[k], 0.0), counts[k], noise, data.n)
        if spread > 0:
            center[j], scale[j] = 0.0, spread


def _next_spans(counts: Floats, edges: Floats, noise: float, n: int, cells: int) -> tuple[Floats, NDArray[np.bool_]]:
    """The next spans: the cells between the outer quantiles if these surely hold most rows, otherwise the same as before."""
    narrow = np.array([_span(e, c, _least(noise, VISIBLE)) for e, c in zip(edges, counts, strict=True)])
    between = (edges[:, :-1] >= narrow[:, :1]) & (edges[:, 1:] <= narrow[:, 1:])
    close = (counts * between).sum(axis=1) > CERTAIN_SHARE * n + _least(noise, SURE, cells)
    close &= narrow[:, 1] - narrow[:, 0] <= (cells + 0.5) * (edges[:, 1] - edges[:, 0])
    return np.where(close[:, None], narrow, edges[:, [1, -2]]), close


def _least(noise: float, evidence: float, cells: int = 1) -> float:
    """Sum of counts of so many cells that is evidence of rows."""
    return float(CountNoise(noise, laplace=False).threshold(evidence, cells))


def _threshold(noise: float, tests: int) -> float:
    """Count that noise alone exceeds in one of so many tests with probability at most ``FALSE``."""
    return _least(noise, math.log(tests / FALSE))


def _significant_run(counts: Floats, noise: float, tests: int) -> Floats:
    """Counts of the most significant run of octaves, of both signs; zeros if none is significant.

    A column that spreads over octaves and both signs may be visible in no single cell.
    """
    both = counts[:_CELLS][::-1] + counts[_CELLS + 1 :]
    best, inside = _threshold(1.0, tests), np.zeros(_CELLS, dtype=bool)
    for length in (1, 2, 4):
        sums = np.convolve(both, np.ones(length), "valid") / (noise * math.sqrt(2 * length))
        k = int(np.argmax(sums))
        if sums[k] > best:
            best, inside = float(sums[k]), (np.arange(_CELLS) >= k) & (np.arange(_CELLS) < k + length)
    return np.where(np.concatenate([inside[::-1], [False], inside]), np.maximum(counts, 0.0), 0.0)


def _quantile(edges: Floats, counts: Floats, q: float) -> float:
    """Quantile of counts in cells, linear within a cell."""
    total = np.concatenate([[0.0], np.cumsum(counts)])
    k = min(int(np.searchsorted(total[1:], q * total[-1], side="right")), len(counts) - 1)
    inside = (q * total[-1] - total[k]) / max(total[k + 1] - total[k], LEAST_COUNT)
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
    """Median and spread, 0 if one cell holds both quantiles; those of the whole grid if fewer than ``least`` rows are seen.

    Rows in the open cells at either end may lie anywhere; they are placed eight cells away.
    """
    cell = float(edges[2] - edges[1])
    if not counts.sum() > least:
        return float(edges[0] + edges[-1]) / 2, float(edges[-1] - edges[0]) / 4
    edges = np.concatenate([edges[1:2] - 8 * cell, edges[1:-1], edges[-2:-1] + 8 * cell])
    spread = (_quantile(edges, counts, 1 - TAIL) - _quantile(edges, counts, TAIL)) / 2
    return _quantile(edges, counts, 0.5), spread if spread > cell / 2 else 0.0


def _atom_spread(center: float, seen: Floats, coarse: Floats, noise: float, n: int) -> float:
    """Root mean square distance of octaves from the center: the spread of dummies and zero-inflated columns."""
    away = np.maximum(0.0, np.maximum(_EDGES[:-1] - center, center - _EDGES[1:]))
    alone = math.sqrt(float(np.sum(seen * away**2)) / max(float(seen.sum()), 1.0))
    if alone > 0 and not seen[_CELLS] > n / 2:
        return alone
    # Nonzero rows may be spread over octaves of which few are significant, so runs of octaves are tested. A scale that is too
    # small would clip the longest rows; one that is too large costs little compared with leaving the column out.
    best, spread = _threshold(1.0, coarse.size * 64), 0.0
    for length in (1, 2, 4):
        sums = np.convolve(np.where(away > 0, coarse, 0.0), np.ones(length), "valid")
        k = int(np.argmax(sums))
        if sums[k] > best * noise * math.sqrt(length):
            best = sums[k] / (noise * math.sqrt(length))
            spread = float(np.max(away[k : k + length])) / 2 * math.sqrt(min(sums[k] / n, 1.0))
    return max(alone, spread)
