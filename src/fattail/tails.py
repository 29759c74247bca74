"""Where to cut two tails, from their noisy histograms. Public arithmetic only.

A mean clipped to ``[center - a, center + b]`` has three errors: the noise, in proportion to
a + b; the sampling error; and the bias, the mean excess beyond the two ends. From released
counts, a posterior over a bank of tail shapes (Lomax, log-normal, Weibull) predicts the
excess beyond every candidate end, even where the counts drown in noise. The ends that
minimise the sum are chosen, and the predicted bias is taken out of the answer.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fattail.scale import ABOVE, BELOW

Floats = NDArray[np.float64]

# A tail begins this many octaves below the scale; further down is the body, which has any shape.
_NEAR = 2

EDGES: Floats = np.exp2(np.arange(-_NEAR, ABOVE + 1.0))
ENDS: Floats = np.exp2(np.arange(-2 * _NEAR, 2 * ABOVE + 1) / 2)
"""Candidate distances of an end from the center, in scales."""

_CELLS: Floats = np.append(1.02 * np.sqrt(EDGES[1:] * EDGES[:-1]), 2 * EDGES[-1])
_CELL_EXCESS: Floats = np.maximum(_CELLS - ENDS[:, None], 0.0)
_CELL_SQUARE: Floats = np.minimum(_CELLS, ENDS[:, None]) ** 2

# Prior weights: how often one meets such a tail. Means barely exist in the first ones.
_LOMAX = {1.2: 0.02, 1.4: 0.08, 1.7: 0.25, 2.0: 0.45, 2.5: 0.75, 3.0: 1.0, 4.0: 1.0}
_LOGNORMAL = {0.5: 1.0, 0.75: 1.0, 1.0: 1.0, 1.25: 0.8, 1.5: 0.5, 2.0: 0.2}
_WEIBULL = {0.5: 0.6, 0.7: 1.0, 1.0: 1.0, 1.5: 1.0, 2.5: 1.0}

_MISFIT = 0.15  # relative error with which a shape of the bank may describe a real tail
_FLOOR = 0.25  # the predicted excess is never trusted further than this
_SYMMETRY = 3.0  # prior odds that the two tails are alike
_UNLIKE = 0.3  # squared relative difference of the counts where they are not


class Bank(NamedTuple):
    """Shapes of tails, in units of the scale: cell probabilities, and functions of the end."""

    cells: Floats
    beyond: Floats
    excess: Floats
    square: Floats
    log_prior: Floats


@lru_cache(maxsize=1)
def bank() -> Bank:
    """All shapes at all scales that a histogram could show."""
    u = np.geomspace(EDGES[0] / 8, 1e12, 3000)
    step = np.diff(u)
    rows: list[tuple[Floats, Floats, Floats, Floats, float]] = []
    for c in np.exp2(np.arange(-8.0, 2.1, 0.5)):
        for beyond, weights in ((_lomax, _LOMAX), (_lognormal, _LOGNORMAL), (_weibull, _WEIBULL)):
            for parameter, weight in weights.items():
                s = beyond(u / c, parameter)
                area = 0.5 * (s[1:] + s[:-1]) * step
                moment = (s[1:] * u[1:] + s[:-1] * u[:-1]) * step
                excess = np.append(np.cumsum(area[::-1])[::-1], 0.0)
                square = u[0] ** 2 * s[0] + np.concatenate(([0.0], np.cumsum(moment)))
                cells = -np.diff(np.append(beyond(EDGES / c, parameter), 0.0))
                at_ends = [np.asarray(np.interp(ENDS, u, f)) for f in (s, excess, square)]
                rows.append((cells, at_ends[0], at_ends[1], at_ends[2], math.log(weight)))
    cells, beyond_ends, excess, square, log_prior = (np.array(part) for part in zip(*rows, strict=True))
    return Bank(cells, beyond_ends, excess, square, log_prior - math.log(len(rows)))


def _lomax(x: Floats, a: float) -> Floats:
    return (1 + x) ** -a


def _lognormal(x: Floats, s: float) -> Floats:
    return np.asarray(ndtr(-np.log(x) / s))


def _weibull(x: Floats, k: float) -> Floats:
    return np.asarray(np.exp(-(x**k)))


class Tail(NamedTuple):
    """Share of rows and mean excess beyond each of ``ENDS``, its variance, and the second moment up to there."""

    beyond: Floats
    excess: Floats
    variance: Floats
    square: Floats


def fit_tail(counts: Floats, rows: float, noise: float) -> Tail:
    """Posterior mean over the bank, given counts with noise of this standard deviation."""
    shapes = bank()
    P, variance = shapes.cells, noise**2
    height = np.full(len(P), 0.3 * rows)
    for _ in range(4):  # reweighted least squares for the mass of each shape, robust to large noise
        model = P * height[:, None]
        spread = variance + model + (_MISFIT * model) ** 2
        weight = np.minimum(1.0, 2.0 * np.sqrt(spread) / np.maximum(np.abs(counts - model), 1e-9)) / spread
        height = np.clip((P * counts * weight).sum(1) / ((P * P * weight).sum(1) + 1e-300), 1e-3, rows)
    model = P * height[:, None]
    spread = variance + model + (_MISFIT * model) ** 2
    error = 1 / np.sqrt((P * P / spread).sum(1) + 1e-300)
    score = shapes.log_prior - _huber((counts - model) / np.sqrt(spread)).sum(1) - 0.5 * np.log(spread / variance).sum(1)
    # The evidence of a shape pays for the freedom of its mass; no tail at all is a shape too.
    score += np.log(np.minimum(error / np.maximum(height, error), 1.0)) - np.log(np.log(max(rows, 3.0)))
    none = -_huber(counts / noise).sum()
    top = max(score.max(), none)
    posterior, empty = np.exp(score - top), np.exp(none - top)
    total = posterior.sum() + empty
    posterior, empty = posterior / total, empty / total
    each = shapes.excess * (height / rows)[:, None]
    mean = posterior @ each
    # Mean absolute deviations: the heaviest shapes have no useful variance.
    deviation = posterior @ np.abs(each - mean) + empty * mean
    own = posterior @ (shapes.excess * (np.minimum(error, height) / rows)[:, None])
    square = (posterior * height) @ shapes.square / rows
    # Counts far beyond the noise that no shape explains (atoms) are believed as they are; the
    # further out, the more they must show, since one false count would cost so much more.
    octave = np.maximum(np.arange(len(counts)) - _NEAR, 0)
    odd = np.abs(counts - posterior @ model) > noise / np.sqrt(2) * (10 + 2 * octave)
    surplus = np.where(odd, counts - posterior @ model, 0.0) / rows
    return Tail(
        (posterior * height) @ shapes.beyond / rows,
        np.maximum(mean + _CELL_EXCESS @ surplus, 0.0),
        0.5 * np.pi * deviation**2
        + own**2
        + _CELL_EXCESS**2 @ (odd * (variance + np.abs(counts))) / rows**2
        + (_FLOOR * mean) ** 2,
        np.maximum(square + _CELL_SQUARE @ surplus, 0.0),
    )


class Ends(NamedTuple):
    """The chosen interval in scales: ``center - below`` to ``center + above``, and its errors."""

    below: float
    above: float
    bias: float
    bias_variance: float
    sampling_variance: float


def choose_ends(
    counts: Floats, rows: float, noise: float, release_noise: float, rank_noise: float, *, symmetric: bool = False
) -> Ends:
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
        By how many rows the center may miss the median.
    symmetric : bool
        The same distance on either side, and no correction: ``bias`` counts as an error.
    """
    shift = _rescue(counts, noise)
    counts = counts[:, BELOW - _NEAR - shift :][:, : len(EDGES)]
    up, down = fit_tail(counts[0], rows, noise), fit_tail(counts[1], rows, noise)
    bias = up.excess - down.excess[:, None]
    spread = up.variance + down.variance[:, None]
    alike = _probability_alike(counts, noise)
    both, variance = (up.excess + down.excess) / 2, (up.variance + down.variance) / 4
    even = both - both[:, None]
    # Equal tails cancel only around their own center; ours is off by some rows of the body.
    body = max(1 - counts.sum() / rows, 0.1)
    off_center = rank_noise / (rows * body) * (up.beyond + down.beyond[:, None])
    relative = np.minimum(variance / np.maximum(both, 1e-150) ** 2, 4.0)
    bias_variance = (1 - alike) * spread + alike * (1 - alike) * (bias - even) ** 2
    bias_variance += alike * (even**2 * (relative + relative[:, None]) / 2 + off_center**2)
    bias = (1 - alike) * bias + alike * even
    sampling = (up.square + down.square[:, None]) / rows
    error = bias_variance + sampling + (release_noise * (ENDS + ENDS[:, None])) ** 2
    if symmetric:
        error = np.where(np.eye(len(ENDS), dtype=bool), error + bias**2, np.inf)
    i, j = np.unravel_index(np.argmin(error), error.shape)
    unit = 2.0**-shift
    return Ends(unit * ENDS[i], unit * ENDS[j], unit * bias[i, j], unit**2 * bias_variance[i, j], unit**2 * sampling[i, j])


def _rescue(counts: Floats, noise: float) -> int:
    """Octaves by which the scale was chosen too large: how far down its first rows are."""
    near = counts.sum(axis=0)
    for shift in range(BELOW - _NEAR + 1):
        start = BELOW - _NEAR - shift
        if near[start : start + 4].sum() > 5 * noise * math.sqrt(8):
            return shift
    return 0


def _probability_alike(counts: Floats, noise: float) -> float:
    """Posterior probability that both tails have the same law, by the counts of all cells."""
    both = np.maximum(counts.sum(0), 0.0)
    alike, unlike = 2 * noise**2 + both, 2 * noise**2 + both + _UNLIKE * both**2
    difference = (counts[0] - counts[1]) ** 2
    evidence = np.log(_SYMMETRY) + 0.5 * np.sum(np.log(unlike / alike) - difference * (1 / alike - 1 / unlike))
    return float(1 / (1 + np.exp(-np.clip(evidence, -50, 50))))


def _huber(z: Floats) -> Floats:
    a = np.abs(z)
    result: Floats = np.where(a < 2, 0.5 * z * z, 2 * a - 2)
    return result
