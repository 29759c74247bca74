"""Private sizes, so that no bounds are needed.

Magnitudes are counted on a public dyadic grid that covers nearly all floats, and a bin is selected with Gumbel noise. A wider
grid only adds candidates, and the selection error grows with the logarithm of their number. Public weights on the candidates
(magnitudes near one are likelier than 1e40) reduce that error. They shift scores by constants, which does not affect privacy.
Proofs: ``algorithms/parts/scale.proof.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.columns.location import few_bits, log_weight, missed
from fattail.privacy import Bounded, Curator, Fold, Mechanism, TopK
from fattail.robust.base import ONE
from fattail.robust.histogram import PARTS, log_totals, totals
from fattail.rows.data import Block, PrivateData

# Edges 2^LOW .. 2^HIGH. Beyond them, bounds and their inverses would overflow.
LOW, HIGH = -900, 900


@dataclass(frozen=True)
class ScalePrior:
    """Public prior weights of candidates. They decide where the counts do not; privacy does not depend on them.

    Logarithms of weights are in units of the noise of the selection, exponents and widths in octaves. All were set by hand in
    the first versions; ``benchmarks/means.py`` and ``benchmarks/sparse.py`` measure what they change.
    """

    size_width: float = 8.0
    """Octaves from everyday magnitudes at which the weight of the size of a row or a response is a quarter."""
    clear_rank: float = 12.0
    """Number of rows beyond a scale, in units of the noise; the score allows a quarter of it, three units."""
    above_center: float = 6.0
    """Octaves by which a usual scale exceeds its column's center at most: a factor of 64. ..."""
    least_usual: float = 3.0
    """... Scales up to 2**3 are usual for any center. ..."""
    usual_around_zero: float = 12.0
    """... For a center of zero, scales up to 2**12 = 4096 are usual."""
    scale_weight: float = 1.25
    """Factor of the log weights for scales."""
    scale_width: float = 12.0
    """Octaves from the scale with the largest weight at which the weight is a quarter, before ``scale_weight``."""


PRIOR = ScalePrior()

Values = Callable[[Block], NDArray[Any]]
Floats = NDArray[np.float64]


def magnitude_quantile(curator: Curator, selection: TopK, data: PrivateData, values: Values, q: float) -> float:
    """Upper edge of the octave that holds the q-quantile of ``|values|``.

    Parameters
    ----------
    curator : Curator
    selection : TopK
        A planned selection of one candidate.
    data : PrivateData
    values : callable
        One number per row of a block.
    q : float
        In (0, 1).

    Returns
    -------
    float
        A power of two, at least ``2**LOW``; that smallest value stands for zero as well.

    Notes
    -----
    *Privacy.* A candidate's score is minus the number of rows by which the wanted rank
    misses its bin. Replacing a row moves each cumulative count by at most one, so the
    scores have sensitivity 1.
    """
    bins = HIGH - LOW + 2

    def codes(block: Block) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            sizes = np.abs(np.asarray(values(block), dtype=np.float64))
        return _kernels.column_log_cells(sizes[:, None], None, LOW, bins, 1)

    miss = missed(totals(data, (1, bins), codes)[0], few_bits(q * data.n))
    # A prior weight keeps the noise from selecting an absurd scale when there are few rows.
    weight = log_weight(np.arange(LOW, LOW + bins, dtype=np.float64), PRIOR.size_width) * curator.noise(selection)
    chosen = curator.select(selection, Bounded(-miss, 1.0, "linf") + few_bits(weight))[0]
    return float(2.0 ** min(LOW + int(chosen), HIGH))


# Column statistics use a narrower grid: a histogram per column must stay small.
_OCTAVES, _STEPS = 160, 2
_GRID = -_OCTAVES, 2 * _OCTAVES * _STEPS + 2, _STEPS


def column_scales(curator: Curator, selection: TopK, data: PrivateData, center: Floats) -> Floats:
    """Scale of each column around ``center``, beyond which only few rows lie: as few as the selection can distinguish from none.

    Parameters
    ----------
    curator : Curator
    selection : TopK
        A planned selection of one candidate, with ``count`` at least the number of columns.
    data : PrivateData
    center : array of shape (d,)
        Public.

    Returns
    -------
    array of shape (d,)
        ``2 ** -160`` stands for a column without any spread.

    Notes
    -----
    *Privacy.* The score of a candidate C is minus the number of rows that are too many beyond
    C or too few beyond C/4. Replacing a row moves all these numbers of rows by at most one and
    in the same direction, so a score by at most one.
    """
    counts = log_totals(data, center, _GRID)
    edges, rows, noise = _kernels.log_edges(*_GRID), data.n, curator.noise(selection)
    exponent = np.log2(edges)
    # A rank far enough above the noise of the selection; a quarter of it is a multiple of 2^-20, too.
    rank = 4 * few_bits(min(PRIOR.clear_rank * noise, rows / 2) / 4)
    scales = np.empty(len(center))
    for j, c in enumerate(center):
        beyond = np.cumsum(counts[j].sum(axis=0)[::-1])[::-1][1:]
        nearer = np.concatenate((np.full(2 * _STEPS, rows), beyond[: -2 * _STEPS]))
        miss = np.maximum(beyond - rank / 4, 0.0) + np.maximum(rank - nearer, 0.0)
        # Scales far above the usual one get a small weight.
        usual = max(np.log2(abs(c)) + PRIOR.above_center, PRIOR.least_usual) if c else PRIOR.usual_around_zero
        weight = PRIOR.scale_weight * log_weight(exponent, PRIOR.scale_width)
        weight -= 16.0 * np.arcsinh(np.maximum(exponent - usual, 0.0) / 16.0)
        weight[0] = 0.0  # no spread at all
        scales[j] = edges[curator.select(selection, Bounded(-miss, 1.0, "linf") + few_bits(noise * weight))[0]]
    return scales


def column_units(
    curator: Curator,
    selection: TopK,
    data: PrivateData,
    center: Floats,
    usual: Floats,
    width: float = 1.0,
    q: float = 0.85,
) -> Floats:
    """Quantile of the distances other than 0 from a center in each column, to half an octave.

    So a column that is mostly one number has the unit of its other numbers. Missing cells (NaN) count as 0.

    Parameters
    ----------
    curator : Curator
    selection : TopK
        A planned selection of one candidate, with ``count`` at least the number of columns.
    data : PrivateData
    center, usual : arrays of shape (d,)
        Public: the centers, and a guess of each unit, which is preferred where the counts do not decide. With a number more than
        there are columns, the last one is of the response.
    width : float
        Octaves by which a unit may usually differ from the guess.
    q : float

    Notes
    -----
    *Privacy.* As ``magnitude_quantile``, one selection for each column: replacing a row moves the
    difference between the count below a candidate and ``q`` times that of all distances other
    than 0 by at most 1.
    """
    counts = log_totals(data, center, _GRID).sum(axis=1)[:, 1:]
    edges = _kernels.log_edges(*_GRID)
    middles = np.sqrt(edges[:-1] * edges[1:])
    units = np.empty(center.size)
    # Rounded, so that its product with parts of persons is exact.
    q = round(q * PARTS) / PARTS if data.has_several_rows else q
    for j, cells in enumerate(counts):
        miss = missed(cells, few_bits(q * cells.sum()))[:-1]
        preferred = -2 * curator.noise(selection) * np.log1p((np.log2(middles / usual[j]) / width) ** 2)
        units[j] = middles[curator.select(selection, Bounded(-miss, 1.0, "linf") + few_bits(preferred))[0]]
    return units


# Octaves that a row may report in the local model; each one is a noisy number per row.
_LOCAL_LOW, _LOCAL_CELLS = -20, 60


def local_octaves(curator: Curator, release: Mechanism, data: PrivateData, fold: Fold) -> tuple[Floats, Floats, float]:
    """Share of rows per order of magnitude, reported by each row with its own noise.

    Parameters
    ----------
    curator : Curator
    release : Laplace or Gaussian
        Planned for the rows of ``fold``.
    data : PrivateData
    fold : Fold
        The rows that report.

    Returns
    -------
    magnitudes : array of shape (cells,)
        Geometric middles of the octaves.
    shares : array of shape (d, cells)
    error : float
        Standard deviation of the noise in a share.

    Notes
    -----
    *Privacy.* A row's report is a unit vector per column, plus noise for replacing it.
    """
    d, cells = data.d, _LOCAL_CELLS

    def answers(block: Block) -> NDArray[np.int64]:
        with np.errstate(all="ignore"):
            octave = np.floor(np.log2(np.abs(block.dense, dtype=np.float64))) - _LOCAL_LOW
        inside = np.clip(np.where(np.isnan(octave), 0.0, octave), 0, cells - 1).astype(np.intp)
        told: NDArray[np.int64] = ONE * (inside[:, :, None] == np.arange(cells)).astype(np.int64)
        return told

    moved = {"l1": 2.0 * d, "l2": float(np.sqrt(2.0 * d))}[release.norm]
    told = curator.release(release, Bounded(data._gather(answers, fold), ONE * moved, release.norm, fold, unit=1.0 / ONE))
    spread = curator.noise(release, moved) * (np.sqrt(2.0) if release.norm == "l1" else 1.0)
    magnitudes = np.exp2(_LOCAL_LOW + np.arange(cells) + 0.5)
    return magnitudes, told.mean(axis=0), float(spread / np.sqrt(len(fold)))
