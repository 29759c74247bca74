"""Prediction of the rows beyond an end, from the noisy counts of one tail. Public arithmetic only.

A posterior over a bank of tail shapes (``tail_shapes.py``) predicts the number of rows and the mean excess beyond every candidate
end, even where the counts are mostly noise. Counts that no shape explains are taken to be point masses and are used as they are.
Shapes without a mean take part in the posterior but not in the prediction: their probability is that of a tail without a mean.

In the prediction, the weight of a shape is its posterior probability divided by a power of its unavoidable error, so that a
heavy tail of small probability does not dominate the error of a light one.

Besides, a few rows beyond the visible tail are possible that no shape predicts (``thin`` in `TailPrior`, ``Posterior._thin``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail._kernels.shapes import shape_evidence, shape_realized, shape_risk, shape_surplus, shape_weights
from fattail.columns.evidence import RATES, TINY, CountNoise, places
from fattail.columns.tail_shapes import EDGES, ENDS, NEAR, PRIOR, bank

Floats = NDArray[np.float64]

MIDDLE = 1 / math.log(2)
"""Mean of an octave in units of its lower edge, for rows that lie evenly on a logarithmic scale."""
_MIDDLE: Floats = np.append(MIDDLE * EDGES[:-1], 2 * EDGES[-1])
# For each end and cell, means over rows that lie evenly on a logarithmic scale within the cell: the excess beyond the end, the
# distance clipped at it, its square, and the share beyond it. A row beyond the last cell is in its middle.
_INSIDE: Floats = np.clip(ENDS[:, None] / EDGES, 1.0, 2.0)
_CELL_EXCESS: Floats = EDGES * (2 - _INSIDE - _INSIDE * np.log(2 / _INSIDE)) / math.log(2)
_CELL_EXCESS = np.where(ENDS[:, None] < EDGES, MIDDLE * EDGES - ENDS[:, None], _CELL_EXCESS)
_CELL_EXCESS[:, -1] = np.maximum(_MIDDLE[-1] - ENDS, 0.0)
_CELL_FIRST: Floats = _MIDDLE - _CELL_EXCESS
_CELL_SQUARE: Floats = EDGES**2 * (_INSIDE**2 - 1 + 2 * _INSIDE**2 * np.log(2 / _INSIDE)) / math.log(4)
_CELL_SQUARE = np.where(ENDS[:, None] < EDGES, ENDS[:, None] ** 2, np.where(_INSIDE < 2, _CELL_SQUARE, _MIDDLE**2))
_CELL_SQUARE[:, -1] = np.minimum(_MIDDLE[-1], ENDS) ** 2
_CELL_OVER: Floats = np.append(EDGES[1:], 4 * EDGES[-1]) - np.maximum(EDGES, ENDS[:, None])
_CELL_OVER = np.maximum(_CELL_OVER, 0.0)
_CELL_PART: Floats = np.log2(2 / _INSIDE)  # the part of a cell that lies beyond an end
_CELL_PART[:, -1] = 1.0
_MISFIT: Floats = np.append(PRIOR.first_misfit, np.full(len(EDGES) - 1, PRIOR.misfit))
_THIN: Floats = np.array([size * np.array(pattern) for pattern in PRIOR.thin_patterns for size in PRIOR.thin_rows])


@dataclass(frozen=True)
class Posterior:
    """The posterior of the shapes of the bank, given noisy counts."""

    counts: Floats
    points: Floats
    """Counts that no shape explains."""
    rows: float
    noise: CountNoise
    kept: NDArray[np.intp]
    """Indices in the bank of the shapes that the counts do not rule out."""
    cells: Floats
    """Probabilities of the cells, for each of these shapes."""
    excess: Floats
    """Mean excess of each shape beyond each end."""
    has_mean: NDArray[np.bool_]
    probability: Floats
    """Posterior probability of each shape."""
    share: Floats
    """Share of all rows that lie in the tail, if it has this shape."""
    error: Floats
    """Standard error of ``share``."""
    unavoidable: Floats
    """Squared error that cannot be avoided even if the shape is known."""

    @classmethod
    def of(
        cls,
        counts: Floats,
        rows: float,
        noise: CountNoise,
        release_noise: float,
        body: float,
        unseen: bool = False,
        known: int = 0,
    ) -> Posterior:
        """From the counts of a tail's cells.

        ``release_noise`` is the standard deviation of a released mean per unit of the interval's length, ``body`` the squared
        sampling error of the rows nearer than the tail. ``unseen`` says that no row of this side is visible,
        ``known`` by how many octaves the other side is visible beyond the scale.
        """
        points = np.zeros_like(counts)
        for _ in range(2):
            shape = cls._fit(counts, points, rows, noise, release_noise, body, unseen)
            expected = shape.model
            surplus = counts - expected
            octave = np.maximum(np.arange(len(counts)) - NEAR - known, 0)
            evidence = places(len(counts), 2, RATES.significant * RATES.no_bulk_factor)[octave] + math.log(2) * octave
            unexplained = surplus > np.hypot(noise.threshold(evidence), 3 * _MISFIT * expected)
            if not unexplained.any():
                break
            points = np.where(unexplained, surplus, points)
        return shape

    @classmethod
    def _fit(
        cls, seen: Floats, points: Floats, rows: float, noise: CountNoise, release_noise: float, body: float, unseen: bool
    ) -> Posterior:
        shapes, counts = bank(), seen - points
        cells, prior, likelihood = shapes.cells, shapes.log_prior, Likelihood.of(noise)
        height = np.full(len(cells), max(counts.sum(), noise.std / math.sqrt(2)))
        for _ in range(2):
            height = _reweighted(cells, height, counts, rows, likelihood)
        score = _evidence(cells, prior, height, counts, rows, likelihood)[0]
        # The rest of the search is for shapes that the counts do not rule out.
        plausible = score > score.max() - PRIOR.ruled_out
        plausible[0] = True
        kept = np.flatnonzero(plausible)
        cells, prior, height = cells[kept], prior[kept], height[kept]
        for _ in range(3):
            height = _reweighted(cells, height, counts, rows, likelihood)
        score, error = _evidence(cells, prior, height, counts, rows, likelihood)
        if unseen:
            score[1:] += math.log(PRIOR.hidden)
        probability = np.exp(score - score.max())
        probability /= probability.sum()
        share = height / rows
        share[0] = 0.0
        excess = shapes.excess[kept]
        risk = shape_risk(excess, shapes.square[kept], share, float(rows), (release_noise * (ENDS + 0.5)) ** 2)
        risk[0] = (release_noise * 0.5) ** 2
        error = np.minimum(error, height) / rows
        kinds = cells, excess, shapes.has_mean[kept]
        return cls(seen, points, rows, noise, kept, *kinds, probability, share, error, risk + body)

    @property
    def least(self) -> float:
        """Squared unavoidable error: the harmonic mean over the shapes."""
        return float(1 / np.sum(self.probability / self.unavoidable))

    @cached_property
    def model(self) -> Floats:
        """Expected counts: the mean over the shapes."""
        return np.asarray((self.probability * self.share * self.rows) @ self.cells)

    @property
    def no_mean(self) -> float:
        """Probability that the tail has no mean."""
        return float(self.probability[~self.has_mean].sum())

    def tail(self, elsewhere: float, thin_probability: float = 0.0) -> Tail:
        """Expectations over the shapes, weighted as in the docstring of the module.

        ``elsewhere`` is the unavoidable error of the other side, ``thin_probability`` that of a thin tail that no shape predicts.
        """
        rows = self.rows
        weight = self.probability / (self.unavoidable + elsewhere) ** PRIOR.regret * self.has_mean
        weight /= weight.sum() + TINY
        cells, excess = self._corrected
        mean, cells = weight @ excess, np.maximum(weight @ cells, 0.0)
        variance = weight @ (excess - mean) ** 2 + (weight @ (self.excess * self.error[:, None])) ** 2
        seen = self.noise.std / rows
        lie = (_CELL_OVER * PRIOR.inside) ** 2 @ cells**2
        variance += _CELL_EXCESS**2 @ (seen**2 * (cells > seen)) / 4 + lie
        points = self.points / rows
        thin, thin_variance = self._thin(cells, thin_probability)
        return Tail(
            beyond=_CELL_PART @ cells,
            excess=np.maximum(mean, 0.0) + _CELL_EXCESS @ thin,
            variance=variance + (PRIOR.floor * mean) ** 2 + thin_variance,
            lie=lie,
            first=_CELL_FIRST @ cells,
            square=_CELL_SQUARE @ (cells + thin),
            counted=(_MIDDLE**2 - _CELL_SQUARE) @ np.where(cells > seen, cells, 0.0),
            realized=self._realized(weight) + _CELL_EXCESS**2 @ (points + thin),
        )

    def _thin(self, cells: Floats, probability: float) -> tuple[Floats, Floats]:
        """Expected share of the rows in each cell that no shape predicts, and the variance of their excess beyond each end.

        Some columns have a few far rows, a thousandth of all: a code such as 999, or a second kind of claim. A single count is
        seldom large enough to show them, but several counts together may be. So the hypothesis of no such rows is compared with
        ``thin_patterns`` times ``thin_rows`` in the first cells beyond the visible tail.
        """
        share = np.zeros_like(cells)
        if not probability:
            return share, np.zeros_like(ENDS)
        b = self.noise.std / math.sqrt(2)
        visible = np.flatnonzero(cells * self.rows > self.noise.std)
        beyond = int(visible[-1]) + 1 if visible.size else 1
        cut = slice(beyond, beyond + _THIN.shape[1])
        surplus = (self.counts - self.points - cells * self.rows)[cut]
        extra, blur = b * _THIN[:, : surplus.size], np.array(PRIOR.valley * b)
        # Log likelihood ratio of each pattern to no such rows.
        gain = (_length(surplus, blur) - _length(surplus - extra, blur)).sum(axis=1) / b
        weight = np.exp(gain - max(gain.max(), 0.0)) * probability / len(_THIN)
        weight /= (1 - probability) * math.exp(-max(gain.max(), 0.0)) + weight.sum()
        share[cut] = weight @ extra / self.rows
        excess = extra @ _CELL_EXCESS[:, cut].T / self.rows
        return share, weight @ excess**2 - (weight @ excess) ** 2

    @cached_property
    def _corrected(self) -> tuple[Floats, Floats]:
        """Rows of each cell and excess beyond each end, for each shape: its prediction, corrected by the counts.

        The correction is the difference of count and prediction, times the variance of the shape's error over the sum of this
        variance and that of the noise. A point mass is corrected fully.
        """
        noise = (self.noise.std / self.rows) ** 2
        cells, surplus = shape_surplus(self.cells, self.share, self.counts / self.rows, self.points > 0, _MISFIT, noise)
        return cells, self.excess * self.share[:, None] + surplus @ _CELL_EXCESS.T

    def _realized(self, weight: Floats) -> Floats:
        """Second moment of the excess in a sample, without distances where fewer than one in twenty samples has a row."""
        shapes, kept = bank(), self.kept
        mass = np.maximum(self.share * self.rows, TINY)
        moments = shape_realized(shapes.survival, shapes.area, shapes.moment, kept, mass, PRIOR.realized, ENDS)
        return np.asarray((weight * self.share) @ moments)

    def bias_bounds(self, used: Tail, end: int) -> Floats:
        """By how much the excess beyond ``ENDS[end]`` may be smaller, and by how much it may be larger, than predicted."""
        excess = self._corrected[1][:, end]
        probability = self.probability * self.has_mean
        order = np.argsort(excess)
        low, high = np.interp(PRIOR.bias_quantiles, np.cumsum(probability[order]) / probability.sum(), excess[order])
        return np.maximum([used.excess[end] - low, high - used.excess[end]], 0.0)


class Likelihood(NamedTuple):
    """What the likelihood of a noisy count depends on."""

    b: float
    """Laplace scale of the noise."""
    misfit: Floats
    """Variance of a cell's rows relative to their squared number, over ``b``."""
    valley: float
    """Least blur."""
    variance: float
    """Variance of the noise."""

    @classmethod
    def of(cls, noise: CountNoise) -> Likelihood:
        b = noise.std / math.sqrt(2)
        return cls(b, _MISFIT**2 / b, PRIOR.valley * b, noise.std**2)


class Tail(NamedTuple):
    """What lies beyond and before each of ``ENDS``. Distances are in scales; means are over all rows of the column."""

    beyond: Floats
    """Share of the rows beyond the end."""
    excess: Floats
    """Mean excess beyond the end."""
    variance: Floats
    """Variance of ``excess`` as an estimate."""
    lie: Floats
    """The part of the variance that is due to the unknown places of rows within their cells."""
    first: Floats
    """First moment of the distance, clipped at the end, of rows in the tail."""
    square: Floats
    """Second moment of it."""
    counted: Floats
    """Second moment of the distance, not clipped, of the rows in visible cells, minus that of the clipped distance."""
    realized: Floats
    """Second moment of the excess in a sample."""


def _reweighted(P: Floats, height: Floats, counts: Floats, rows: float, likelihood: Likelihood) -> Floats:
    """One step of iteratively reweighted least squares for the number of rows of each shape; ``P`` has the shapes' cells."""
    weight = shape_weights(P, height, counts, *likelihood)
    return np.asarray(np.clip(weight @ counts / (np.einsum("ij,ij->i", P, weight) + TINY), PRIOR.least_rows, rows))


def _evidence(
    P: Floats, log_prior: Floats, height: Floats, counts: Floats, rows: float, likelihood: Likelihood
) -> tuple[Floats, Floats]:
    """Log evidence of each shape with cells ``P`` and this number of rows (``height``), and the standard error of the number."""
    cost, spread, information = shape_evidence(P, height, counts, *likelihood)
    score = log_prior - (cost + 0.5 * np.log(spread)).sum(1)
    error = 1 / np.sqrt(information.sum(1) + TINY)
    # The evidence of a shape includes a penalty for its free parameter, the number of rows.
    score[1:] += np.log(np.minimum(error / np.maximum(height, error), 1.0))[1:] - np.log(np.log(max(rows, 3)))
    return score, error


def _length(x: Floats, y: Floats) -> Floats:
    """Hypotenuse of numbers whose squares do not overflow; three times as fast as ``np.hypot``."""
    return np.asarray(np.sqrt(x * x + y * y))
