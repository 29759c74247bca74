"""Where to cut two tails, from their noisy histograms. Public arithmetic only.

A mean clipped to ``[center - a, center + b]`` has three errors: the noise, in proportion to
a + b; the sampling error; and the bias, the mean excess beyond the two ends. From released
counts, a posterior over a bank of tail shapes (Lomax, log-normal, Weibull, none) predicts the excess beyond every candidate
end, even where the counts are mostly noise. The ends with the smallest sum are chosen, and the predicted bias is subtracted
from the answer.

Tail shapes are weighted by their posterior probability divided by their unavoidable error. So the relative error is minimized,
and a heavy tail that is merely possible does not spoil the answer for a light one. Where both sides look alike, their excesses
cancel and the ends can be narrow.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import TINY
from fattail.algorithms.parts.scale import ABOVE, BELOW
from fattail.columns.tails import lognormal, lomax, stopped, weibull

Floats = NDArray[np.float64]

# A tail begins this many octaves below the scale. Below it is the body, of any shape; ends may lie in it where the two sides
# look alike.
_NEAR, _BODY = 2, 6

EDGES: Floats = np.exp2(np.arange(-_NEAR, ABOVE + 1.0))
ENDS: Floats = np.exp2(np.arange(-2 * (_NEAR + _BODY), 2 * ABOVE + 1) / 2)
"""Candidate distances of an end from the center, in scales."""
_OUTER: Floats = ENDS[2 * _BODY :]  # those within the tail

# Mean over geometric middle of an octave in which rows have a density in inverse proportion to the distance, as in the heaviest
# tails: 1 / (log 2 * sqrt 2), rounded.
_MEAN_OF_OCTAVE = 1.02
_CELLS: Floats = np.append(_MEAN_OF_OCTAVE * np.sqrt(EDGES[1:] * EDGES[:-1]), 2 * EDGES[-1])
_BODY_CELLS: Floats = _MEAN_OF_OCTAVE * np.exp2(np.arange(-_BODY, 0) - _NEAR + 0.5)
_CELL_EXCESS: Floats = np.maximum(_CELLS - _OUTER[:, None], 0.0)
_CELL_SQUARE: Floats = np.minimum(_CELLS, _OUTER[:, None]) ** 2

# Prior weights of the shapes. The first ones barely have a mean.
_LOMAX = {1.2: 0.1, 1.4: 0.3, 1.7: 0.6, 2.0: 0.8, 2.5: 1.0, 3.0: 1.0, 4.0: 1.0}
_LOGNORMAL = dict.fromkeys((0.5, 0.75, 1.0, 1.25, 1.5, 2.0), 1.0)
_WEIBULL = dict.fromkeys((0.5, 0.7, 1.0, 1.5, 2.5), 1.0)
_ANY_TAIL = 0.7  # prior odds that there is a tail at all
# Heavy tails may also end at these distances, as in columns with few distinct values.
_STOPS, _STOP_WEIGHT = (4.0, 16.0, 64.0), 0.6
# First and last parameter of the shapes that are heavy enough to end: indices up to 2.5, log standard deviations from 1.5 on.
_LOMAX_STOPS, _LOGNORMAL_STOPS, _WEIBULL_STOPS = (0.0, 2.5), (1.5, 2.0), (0.0, 0.0)
# Scales of the shapes, in octaves of the scale: those from -8 to 2 that change what a histogram from EDGES[0] on shows.
_SHAPE_OCTAVES: Floats = np.arange(-16, 5) / 2
_FARTHEST = 1e12  # end of the integrals, in scales: an index of 1.2 leaves 0.4 % of the mean beyond it

_MISFIT = 0.15  # relative error of a shape of the bank as a description of a real tail
_FLOOR = 0.25  # least relative error of the predicted excess
_REGRET = 0.7  # power of the unavoidable error by which shapes are weighted
# All numbers of this file were set by hand in the first version; benchmarks/means.py measures what they change.
_FIRST_SHARE = 0.3  # initial share of the rows in a tail, for the search
_LEAST_ROWS = 1e-3  # least mass of a shape, in rows
_VALLEY = 0.2  # width, in Laplace scales, of the rounded minimum of the likelihood
_LEAST_WITHIN = 1e-12  # least variance of a row of the body, in squared scales; it is a divisor
_LEAST_NEAR = 0.1  # least share of the rows for the density around the center
_LEAST_ROWS_OF_ALL = 3.0  # least number of rows, above e, so that its log log is positive
_SYMMETRY = 3.0  # prior odds that the two tails are alike
_ALIKE, _UNLIKE = 0.03, 0.55  # relative difference of the counts if the tails are alike, and if not


class PilotShapes(NamedTuple):
    """Shapes of tails, in units of the scale: cell probabilities, and functions of the end. The first has no tail."""

    cells: Floats
    beyond: Floats
    excess: Floats
    square: Floats
    log_prior: Floats


@lru_cache(maxsize=1)
def pilot_shapes() -> PilotShapes:
    """All shapes, at all scales that are visible in a histogram."""
    u = np.geomspace(EDGES[0] / 8, _FARTHEST, 3000)
    step = np.diff(u)
    none = np.zeros(len(_OUTER))
    rows: list[tuple[Floats, Floats, Floats, Floats]] = [(np.zeros(len(EDGES)), none, none, none)]
    prior = [0.0]
    families = ((lomax, _LOMAX, _LOMAX_STOPS), (lognormal, _LOGNORMAL, _LOGNORMAL_STOPS), (weibull, _WEIBULL, _WEIBULL_STOPS))
    for octave in _SHAPE_OCTAVES:
        for family, weights, (first, last) in families:
            for parameter, weight in weights.items():
                stops = _STOPS if first <= parameter <= last and octave == round(octave) else ()
                for stop in (math.inf, *stops):
                    s = stopped(family, parameter, 2.0**octave, stop, u)
                    area = 0.5 * (s[1:] + s[:-1]) * step
                    moment = (s[1:] * u[1:] + s[:-1] * u[:-1]) * step
                    excess = np.append(np.cumsum(area[::-1])[::-1], 0.0)
                    square = u[0] ** 2 * s[0] + np.concatenate(([0.0], np.cumsum(moment)))
                    cells = -np.diff(np.append(stopped(family, parameter, 2.0**octave, stop, EDGES), 0.0))
                    at_ends = [np.asarray(np.interp(_OUTER, u, f)) for f in (s, excess, square)]
                    rows.append((cells, at_ends[0], at_ends[1], at_ends[2]))
                    prior.append(weight if stop == math.inf else _STOP_WEIGHT * weight)
    cells, beyond_ends, excess, square = (np.array(part) for part in zip(*rows, strict=True))
    chances = np.array(prior) * _ANY_TAIL / sum(prior)
    chances[0] = 1.0
    return PilotShapes(cells, beyond_ends, excess, square, np.log(chances))


class PilotTail(NamedTuple):
    """Share of rows and mean excess beyond each end, its variance, and the second moment up to there."""

    beyond: Floats
    excess: Floats
    variance: Floats
    square: Floats


class PilotPosterior(NamedTuple):
    """The posterior of the shapes of the bank, given noisy counts."""

    counts: Floats
    rows: float
    noise: float
    chance: Floats
    share: Floats
    """Share of all rows that belong to the shape, and its standard error."""
    error: Floats
    unavoidable: Floats
    """Squared error that cannot be avoided even if the shape is known."""

    @classmethod
    def of(cls, counts: Floats, rows: float, noise: float, release_noise: float, body: float) -> PilotPosterior:
        """From counts with Laplace noise of this standard deviation."""
        shapes, b = pilot_shapes(), noise / math.sqrt(2)
        P = shapes.cells
        height = np.full(len(P), _FIRST_SHARE * rows)
        for _ in range(5):  # reweighted least squares for the mass of each shape
            model = P * height[:, None]
            weight = 1 / np.hypot(counts - model, _blur(model, b))
            height = np.clip((P * counts * weight).sum(1) / ((P * P * weight).sum(1) + TINY), _LEAST_ROWS, rows)
        model = P * height[:, None]
        blur = _blur(model, b)
        spread = noise**2 + model + (_MISFIT * model) ** 2
        score = shapes.log_prior - ((np.hypot(counts - model, blur) - blur) / b + 0.5 * np.log(spread / noise**2)).sum(1)
        # The evidence of a shape includes a penalty for its free parameter, the mass.
        error = 1 / np.sqrt((P * P / spread).sum(1) + TINY)
        score[1:] += np.log(np.minimum(error / np.maximum(height, error), 1.0))[1:] - np.log(
            np.log(max(rows, _LEAST_ROWS_OF_ALL))
        )
        chance = np.exp(score - score.max())
        share = height / rows
        risk = (
            (shapes.excess * share[:, None]) ** 2
            + shapes.square * (share / rows)[:, None]
            + (release_noise * (_OUTER + 0.5)) ** 2
        )
        risk[0] = (release_noise * 0.5) ** 2
        return cls(counts, rows, noise, chance / chance.sum(), share, np.minimum(error, height) / rows, risk.min(1) + body)

    @property
    def least(self) -> float:
        """Unavoidable error, harmonic mean over the shapes."""
        return float(1 / np.sum(self.chance / self.unavoidable))

    @property
    def model(self) -> Floats:
        """Expected counts."""
        return np.asarray((self.chance * self.share * self.rows) @ pilot_shapes().cells)

    def tail(self, elsewhere: float) -> PilotTail:
        """Expectations over the shapes, weighted as in the docstring of the module; ``elsewhere`` is the unavoidable error of
        the other side."""
        shapes = pilot_shapes()
        weight = self.chance / (self.unavoidable + elsewhere) ** _REGRET
        weight /= weight.sum()
        each = shapes.excess * self.share[:, None]
        mean = weight @ each
        variance = weight @ (each - mean) ** 2 + (weight @ (shapes.excess * self.error[:, None])) ** 2
        # Counts far above the noise that no shape explains (point masses) are used as they are. The threshold grows with the
        # distance, because a false count there costs more.
        octave = np.maximum(np.arange(len(self.counts)) - _NEAR, 0)
        surplus = self.counts - (weight * self.share * self.rows) @ shapes.cells
        odd = np.abs(surplus) > self.noise / np.sqrt(2) * (10 + 2 * octave)
        surplus = np.where(odd, surplus, 0.0) / self.rows
        return PilotTail(
            (weight * self.share) @ shapes.beyond,
            np.maximum(mean + _CELL_EXCESS @ surplus, 0.0),
            variance + _CELL_EXCESS**2 @ (odd * (self.noise**2 + np.abs(self.counts))) / self.rows**2,
            np.maximum((weight * self.share) @ shapes.square + _CELL_SQUARE @ surplus, 0.0),
        )


def _blur(model: Floats, b: float) -> Floats:
    """Width of the minimum of a likelihood that is normal for large counts and Laplace for small ones."""
    return (model + (_MISFIT * model) ** 2) / b + _VALLEY * b


def _with_body(tail: PilotTail, body: Floats, rows: float, noise: float) -> PilotTail:
    """Extend a tail to ends within the body, by the body's counts per octave."""
    beyond, excess, variance, square = ([float(part[0])] for part in tail)
    for j, count in enumerate(np.maximum(body[::-1], 0.0) / rows):
        width = 2.0 ** -(_NEAR + j + 1)
        top = 2 * width
        outside, further, unsure, upto = beyond[-1], excess[-1], variance[-1], square[-1]
        for end in (width * math.sqrt(2), width):
            part = count * (top - end) / width  # rows of the octave beyond the end, spread evenly
            beyond.append(outside + part)
            excess.append(further + (top - end) * (outside + part / 2))
            variance.append(unsure + (noise * math.sqrt(j + 1) * top / rows) ** 2)
            square.append(max(upto - (top**2 - end**2) * (outside + part / 2), end**2 * (outside + part)))
    inner = (beyond, excess, variance, square)
    whole = PilotTail(*(np.concatenate((i[:0:-1], outer)) for i, outer in zip(inner, tail, strict=True)))
    # Shapes describe the tail only; the body adds to the second moment.
    near = np.minimum(_BODY_CELLS, ENDS[:, None]) ** 2 @ (np.maximum(body, 0.0) / rows)
    return whole._replace(square=np.maximum(whole.square, near + np.minimum(ENDS, EDGES[0]) ** 2 * tail.beyond[0]))


class PilotEnds(NamedTuple):
    """The chosen interval in scales: ``center - below`` to ``center + above``, and its errors."""

    below: float
    above: float
    bias: float
    bias_variance: float
    sampling_variance: float


def choose_pilot_ends(
    counts: Floats, rows: float, noise: float, release_noise: float, rank_noise: float, *, symmetric: bool = False
) -> PilotEnds:
    """Interval with the smallest expected squared error of its clipped, corrected mean.

    Parameters
    ----------
    counts : array of shape (2, cells)
        Noisy counts above and below the center, from ``scale.column_tails``.
    rows : float
    noise : float
        Standard deviation of each count.
    release_noise : float
        Standard deviation of the released mean per unit of the interval's length.
    rank_noise : float
        Number of rows by which the center may miss the median.
    symmetric : bool
        The same distance on either side, and no correction: ``bias`` counts as an error.
    """
    start = BELOW - _NEAR
    off_center = _miss(counts, rows, rank_noise)
    body, counts = counts[:, start - _BODY : start], counts[:, start:]
    within = float(np.maximum(body.sum(0), 0.0) @ _BODY_CELLS**2) / rows**2 + _LEAST_WITHIN / rows
    posteriors = [PilotPosterior.of(c, rows, noise, release_noise, within) for c in counts]
    up, down = (
        _with_body(own.tail(other.least), b, rows, noise)
        for own, other, b in zip(posteriors, posteriors[::-1], body, strict=True)
    )
    variances = [t.variance + (_FLOOR * t.excess) ** 2 for t in (up, down)]
    alike = _probability_alike(np.hstack((body[:, -2:], counts)), noise, off_center)
    # Different tails have different excesses; alike tails have the same one, up to the uncertainty of the counts.
    bias = up.excess - down.excess[:, None]
    both, variance = (up.excess + down.excess) / 2, (variances[0] + variances[1]) / 4
    relative = np.minimum(variance / np.maximum(both, math.sqrt(TINY)) ** 2, 4.0)
    total = np.hstack((np.maximum(body.sum(0), 0.0), posteriors[0].model + posteriors[1].model))
    skew, skew_variance = _small_difference(np.hstack((body, counts)), total, rows, noise)
    canceled = both - both[:, None]
    even = canceled + skew
    bias_variance = (1 - alike) * (variances[0] + variances[1][:, None]) + alike * (1 - alike) * (bias - even) ** 2
    bias_variance += alike * (canceled**2 * (relative + relative[:, None]) / 2 + skew_variance)
    # Equal tails cancel only around the median; the center may be off by some rows.
    bias_variance += alike * (off_center * (up.beyond + down.beyond[:, None])) ** 2
    bias = (1 - alike) * bias + alike * even
    sampling = (up.square + down.square[:, None]) / rows
    error = bias_variance + sampling + (release_noise * (ENDS + ENDS[:, None])) ** 2
    if symmetric:
        error = np.where(np.eye(len(ENDS), dtype=bool), error + bias**2, np.inf)
    i, j = np.unravel_index(np.argmin(error), error.shape)
    return PilotEnds(
        below=ENDS[i],
        above=ENDS[j],
        bias=bias[i, j],
        bias_variance=bias_variance[i, j],
        sampling_variance=sampling[i, j],
    )


def _miss(counts: Floats, rows: float, rank_noise: float) -> float:
    """Distance of the center from the median, in scales, by the density of the half of the rows next to it."""
    nearer = rows - np.cumsum(counts.sum(0)[::-1])[::-1]
    half = int(np.argmax(nearer >= 0.5 * rows)) if np.any(nearer >= 0.5 * rows) else BELOW
    return float(rank_noise / max(nearer[half], _LEAST_NEAR * rows) * 2.0 ** (half - BELOW))


def _probability_alike(counts: Floats, noise: float, off_center: float) -> float:
    """Posterior probability that both tails have the same law, by the counts of all cells from the end of the body on."""
    both = np.maximum(counts.sum(0), 0.0)
    moved = 2 * both * np.minimum(off_center / np.concatenate((_BODY_CELLS[-2:], _CELLS)), 1.0)
    alike = 2 * noise**2 + both + moved**2
    unlike = alike + (_UNLIKE * both) ** 2
    difference = (counts[0] - counts[1]) ** 2
    evidence = np.log(_SYMMETRY) + 0.5 * np.sum(np.log(unlike / alike) - difference * (1 / alike - 1 / unlike))
    return float(1 / (1 + np.exp(-np.clip(evidence, -50, 50))))


def _small_difference(counts: Floats, total: Floats, rows: float, noise: float) -> tuple[Floats, Floats]:
    """Bias from a small difference of two tails that look alike: expectation and variance for each pair of ends."""
    prior, observed = (_ALIKE * total) ** 2, 2 * noise**2 + total
    believed = prior / (prior + observed + TINY)
    cells = np.concatenate((_BODY_CELLS, _CELLS))
    lever = np.maximum(cells - ENDS[:, None], 0.0) / (2 * rows)
    mean = lever @ (believed * (counts[0] - counts[1]))
    covariance = (lever * believed * observed) @ lever.T
    own = np.diag(covariance)
    return mean + mean[:, None], own + own[:, None] + 2 * covariance
