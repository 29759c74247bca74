"""How far out predictions are believed: as far as counts of the response show that there is something to predict.

Rows far out are pulled back in every release that a fit is made of, so nothing in it keeps their predictions in bounds. Beyond an
end that few responses exceed by little, a prediction is an error of the coefficients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.lengths import OCTAVES, PER_OCTAVE, codes, edges, middles
from fattail.algorithms.parts.linear_rows import Problem
from fattail.columns.units import visible
from fattail.privacy import Curator, Gaussian
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

CELLS = OCTAVES * PER_OCTAVE
"""Of a side."""


@dataclass(frozen=True)
class EndsDefaults:
    """Constants, chosen by hand on the tables that ``benchmarks/real_tables.py`` marks as tuned."""

    shown: float = 0.5
    """Share of the rows that must show; with fewer, counts say nothing about ends."""
    missed: float = 0.01
    """What responses beyond an end may add to the mean square residual, as a share of it. With a tenth, means of clipped
    predictions are off by up to .06 deviations of the response (``benchmarks/results/real_tables.md``)."""
    rest: float = 3.0
    """Deviations of the noise by which all rows may exceed those at two values, if the response has no others."""
    indices: tuple[float, float] = (1.0, 8.0)
    """Least and largest index of the tail beyond the last octave that shows."""


DEFAULTS = EndsDefaults()


@dataclass(frozen=True)
class ResponseEnds:
    """What counts of the response say; all of it is public."""

    low: float = -math.inf
    high: float = math.inf
    """Ends of predictions, as numbers of the user; infinite where too few rows show."""
    span: float = math.inf
    """Distance at most of the two values of a response that has no others, in units of the response."""

    @property
    def is_binary(self) -> bool:
        """Whether the response has two values, so that it has no tail that counts cannot show."""
        return math.isfinite(self.span)


def response_ends(curator: Curator, release: Gaussian, data: PrivateData, problem: Problem, unit: float) -> ResponseEnds:
    """Ends of predictions where residuals have the size ``unit``.

    Notes
    -----
    *Privacy.* One table of counts: a row is in one cell. Proof: ``response_ends.proof.md``.
    """
    distance = codes(problem.response)

    def cells(block: Block) -> Floats:
        return np.where(problem.response(block)[:, None] < 0, CELLS, 0) + np.clip(distance(block), 0, CELLS - 1)

    counts = curator.release(release, Histogram(2 * CELLS).counts(data, cells))[0]
    noise = curator.noise(release, math.sqrt(2))
    shown = visible(counts, noise, counts.size)
    if shown.sum() < DEFAULTS.shown * data.n:
        return ResponseEnds()
    most = DEFAULTS.missed * unit**2 * data.n / 2
    high, low = (_end(side, seen, noise, most) for side, seen in zip(np.split(counts, 2), np.split(shown, 2), strict=True))
    span = _span(shown) if data.n - shown.sum() < DEFAULTS.rest * noise * math.sqrt(2) else math.inf
    return ResponseEnds(problem.level - low * problem.size, problem.level + high * problem.size, span)


def _span(shown: Floats) -> float:
    """Distance of the outer edges of two cells with a gap between them; infinite if others show, or no gap, or no outer edge."""
    reach = np.append(edges()[1:-1], math.inf)
    ends = np.concatenate([-reach[::-1], [0.0], reach])
    places = np.flatnonzero(np.append(shown[CELLS:][::-1], shown[:CELLS]))  # from low to high
    if places.size != 2 or places[1] - places[0] < 2:
        return math.inf
    return float(ends[places[1] + 1] - ends[places[0]])


def _end(counts: Floats, shown: Floats, noise: float, most: float) -> float:
    """Least edge beyond which the squared distances to it add up to ``most`` at most. A tail goes on as a power until it ends."""
    if not shown.any():
        return math.inf
    ends, last = edges(), int(np.flatnonzero(shown)[-1])
    rows, octave = shown.copy(), 2 * PER_OCTAVE
    rest = max(float(counts[last + 1 : last + 1 + octave].sum()), noise * math.sqrt(octave))
    inner, outer = (float(shown[max(last + 1 - k * PER_OCTAVE, 0) : last + 1].sum()) for k in (2, 1))
    falls = max(math.log2(max(outer, 1.0) / rest), math.log2(max(inner - outer, 1.0) / max(outer, 1.0)))
    index = float(np.clip(falls, *DEFAULTS.indices))
    beyond = rest * (ends[last + 1 :] / ends[last + 1]) ** -index
    beyond[beyond < 1] = 0.0
    rows[last + 1 :] = -np.diff(beyond)
    excess = np.maximum(middles() - ends[:, None], 0.0) ** 2 @ rows
    return float(ends[int(np.argmax(excess <= most))])
