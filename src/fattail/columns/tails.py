"""Prediction of the rows beyond an end, from the noisy counts of one tail. Public arithmetic only.

A posterior over a bank of tail shapes (Lomax, log-normal, Weibull, each also ending somewhere, and none at all) predicts
the rows and the mean excess beyond every candidate end, even where the counts are mostly noise. Counts that no shape explains
are point masses, and are used as they are. Shapes without a mean take part in the posterior, not in the
prediction: their probability is that of a tail without a mean.

In the prediction, tail shapes are weighted by their posterior probability divided by a power of their unavoidable error: a
heavy tail that is merely possible does not spoil the answer for a light one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fattail.columns.evidence import RATES, TINY, CountNoise, places

Floats = NDArray[np.float64]

NEAR, ABOVE = 2, 16
"""Octaves of a tail below and above its scale."""
EDGES: Floats = np.exp2(np.arange(-NEAR, ABOVE + 1.0))
ENDS: Floats = np.exp2(np.arange(-2 * NEAR, 2 * ABOVE + 1) / 2)
"""Candidate distances of an end from the center, in scales."""
_TOPS: Floats = np.exp2(np.arange(-2 * NEAR, 2 * ABOVE + 61) / 2)  # candidates of the largest row
MIDDLE = 1 / math.log(2)
"""Mean of an octave in units of its lower edge, for rows that lie evenly on a logarithmic scale."""
_MIDDLE: Floats = np.append(MIDDLE * EDGES[:-1], 2 * EDGES[-1])
_CELL_EXCESS: Floats = np.maximum(_MIDDLE - ENDS[:, None], 0.0)
_CELL_FIRST: Floats = np.minimum(_MIDDLE, ENDS[:, None])
_CELL_SQUARE: Floats = np.minimum(_MIDDLE, ENDS[:, None]) ** 2
_CELL_OVER: Floats = np.append(EDGES[1:], 4 * EDGES[-1]) - np.maximum(EDGES, ENDS[:, None])
_CELL_OVER = np.maximum(_CELL_OVER, 0.0)
_CELL_PART: Floats = _CELL_OVER / _CELL_OVER[0]  # of a cell beyond an end


@dataclass(frozen=True)
class TailPrior:
    """Prior weights of the tail shapes, and the error of a shape as a description of a real tail.

    The shapes and their weights, the misfit, the floor and the power of regret are those of the previous default mean, which
    were tuned on laws other than those of its benchmark. The indices up to 1.2, ``doubt``, ``hidden``, ``inside``,
    ``first_misfit`` and ``point_weight`` were set by hand on the tuning laws, ``column_laws.TUNING``, without a search. Each can
    be tried with ``benchmarks/tuning/columns.py``.
    """

    lomax: dict[float, float] = field(
        default_factory=lambda: {
            0.7: 0.15,
            0.85: 0.15,
            1.0: 0.15,
            1.1: 0.15,
            1.2: 0.2,
            1.4: 0.3,
            1.7: 0.6,
            2.0: 0.8,
            2.5: 1.0,
            3.0: 1.0,
            4.0: 1.0,
        }
    )
    """Weights of tail indices; a mean exists above 1."""
    lognormal: tuple[float, ...] = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
    weibull: tuple[float, ...] = (0.5, 0.7, 1.0, 1.5, 2.5)
    any_tail: float = 0.7
    """Prior odds that there is a tail beyond the visible rows of a side."""
    hidden: float = 0.01
    """Factor of these odds on a side without visible rows."""
    stops: tuple[float, ...] = (4.0, 16.0, 64.0)
    """Heavy tails may also end at these distances, because a column may have finitely many values."""
    stop_weight: float = 0.6
    """Weight of a shape that ends, relative to the same shape without an end."""
    lomax_stops: tuple[float, float] = (0.0, 2.5)
    lognormal_stops: tuple[float, float] = (1.5, 2.0)
    """Parameters, first and last, of shapes heavy enough to end."""
    octaves: tuple[int, int] = (-8, 3)
    """Scales of the shapes, from the first to before the last, in octaves of the tail's scale."""
    least_share: float = 1e-8
    """A shape with a smaller share beyond the first edge is left out."""
    least_rows: float = 1e-3
    """Least mass of a shape, in rows."""
    realized: float = 0.05
    """Rows expected beyond the largest row that a sample is assumed to have."""
    ruled_out: float = 40.0
    """Log evidence by which a shape may fall short of the best one, halfway through the search for its mass."""
    valley: float = 0.2
    """Width, in Laplace scales, of the round bottom of a likelihood: normal for large counts, Laplace for small ones."""
    misfit: float = 0.15
    """Relative error of a shape's cells."""
    first_misfit: float = 0.4
    """Relative error of its first cell, which may still belong to the body."""
    point_weight: float = 0.5
    """Weight of a tail that is one point mass somewhere in a cell."""
    floor: float = 0.25
    """Least relative standard deviation of the predicted excess."""
    regret: float = 0.7
    """Power of the unavoidable error by which shapes are weighted."""
    doubt: tuple[float, float] = (0.02, 0.99)
    """Quantiles of the predicted excess, over the shapes, that an interval includes."""
    thin: float = 0.02
    """Probability of a few rows beyond the visible tail that no shape predicts. 0, .005, .01, .02, .03 and .1 were compared on
    ``column_laws.TUNING``: .02 costs 5 % of error at (10,000, .2) and at most 1 % elsewhere."""
    thin_patterns: tuple[tuple[float, ...], ...] = (
        (1.0, 0.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, 0.0),
        (0.0, 0.0, 1.0, 0.0),
        (1.0, 0.7, 0.5, 0.35),
        (1.0, 0.35, 0.12, 0.04),
    )
    """How they may lie in the first cells there: all in one octave, or decreasing with an index of one half or 1.5."""
    thin_rows: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    """How many there may be, in scales of the noise of a count."""
    inside: float = 0.15
    """Standard deviation of the mean position of a cell's rows, in cells, because it is unknown (0.29: all at one place)."""


PRIOR = TailPrior()
_MISFIT: Floats = np.append(PRIOR.first_misfit, np.full(len(EDGES) - 1, PRIOR.misfit))
_THIN: Floats = np.array([size * np.array(pattern) for pattern in PRIOR.thin_patterns for size in PRIOR.thin_rows])
_POINTS = NEAR + 3  # cells in which a tail may be one point mass


class Bank(NamedTuple):
    """Shapes of tails beyond ``EDGES[0]``, in scales; the first is none at all."""

    has_mean: NDArray[np.bool_]
    log_prior: Floats
    cells: Floats
    excess: Floats
    """At ``ENDS``, as the second moment of the clipped distance."""
    square: Floats
    survival: Floats
    """On ``_TOPS``, as the integrals of S and x S from ``EDGES[0]`` on."""
    area: Floats
    moment: Floats


@lru_cache(maxsize=1)
def bank() -> Bank:
    """All shapes, at all scales that are visible in a histogram."""
    # The grid contains every end and every point where a shape stops; otherwise a small excess would remain beyond a stop.
    u = np.union1d(np.geomspace(EDGES[0], 2.0**90, 4000), np.concatenate((ENDS, _TOPS, 2 * EDGES)))
    step = np.diff(u)
    families = ((lomax, PRIOR.lomax, PRIOR.lomax_stops), (lognormal, dict.fromkeys(PRIOR.lognormal, 1.0), PRIOR.lognormal_stops))
    families += ((weibull, dict.fromkeys(PRIOR.weibull, 1.0), (0.0, 0.0)),)  # type: ignore[assignment]
    rows: list[tuple[Floats, ...]] = []
    prior: list[float] = []
    means: list[bool] = []

    def add(s: Floats, edge: Floats) -> None:
        area = np.append(0.0, np.cumsum(0.5 * (s[1:] + s[:-1]) * step))
        moment = np.append(0.0, np.cumsum(0.5 * (s[1:] * u[1:] + s[:-1] * u[:-1]) * step))
        at_ends = [np.interp(ENDS, u, f) for f in (area[-1] - area, u[0] ** 2 + 2 * moment)]
        rows.append((-np.diff(np.append(edge, 0.0)), *at_ends, *(np.interp(_TOPS, u, f) for f in (s, area, moment))))

    for octave in np.arange(*PRIOR.octaves, dtype=float):
        for family, weights, (first, last) in families:
            for parameter, weight in weights.items():
                whole = family(np.array(EDGES[0] / 2.0**octave), parameter) > PRIOR.least_share
                stops = PRIOR.stops if first <= parameter <= last else ()
                for stop in (math.inf, *stops) if whole else ():
                    s = stopped(family, parameter, 2.0**octave, stop, u)
                    add(s / s[0], stopped(family, parameter, 2.0**octave, stop, EDGES) / s[0])
                    prior.append(weight if stop == math.inf else PRIOR.stop_weight * weight)
                    means.append(family is not lomax or parameter > 1.0 or stop < math.inf)
    for cell in EDGES[:_POINTS]:
        add(np.clip((2 * cell - u) / cell, 0.0, 1.0), np.clip((2 * cell - EDGES) / cell, 0.0, 1.0))
        prior.append(PRIOR.point_weight)
        means.append(True)
    nothing = tuple(np.zeros_like(part) for part in rows[0])
    columns = [np.array(part) for part in zip(nothing, *rows, strict=True)]
    chances = np.array([1.0, *(PRIOR.any_tail * w / sum(prior) for w in prior)])
    return Bank(np.array([True, *means]), np.log(chances), *columns)


def stopped(family: Callable[[Floats, float], Floats], parameter: float, unit: float, stop: float, x: Floats) -> Floats:
    """Probability beyond x of a shape in this unit, given that nothing lies beyond ``stop``."""
    rest = family(np.array(stop / unit), parameter)
    return np.asarray(np.maximum(family(x / unit, parameter) - rest, 0.0) / (1 - rest))


def lomax(x: Floats, a: float) -> Floats:
    """Probability beyond x of a Lomax law of index a."""
    return (1 + x) ** -a


def lognormal(x: Floats, s: float) -> Floats:
    """Probability beyond x of a log-normal law of spread s."""
    return np.asarray(ndtr(-np.log(x) / s))


def weibull(x: Floats, k: float) -> Floats:
    """Probability beyond x of a Weibull law of shape k."""
    return np.asarray(np.exp(-(x**k)))


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
    """Cells of these shapes; below, their mean excesses, and whether they have a mean."""
    excess: Floats
    has_mean: NDArray[np.bool_]
    chance: Floats
    share: Floats
    """Share of all rows that belong to the shape, and its standard error."""
    error: Floats
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

        ``release_noise`` is that of a mean per unit of the interval's length, ``body`` the squared error of what is nearer,
        ``unseen`` means that no row of the side is visible, and ``known`` how many octaves beyond the scale the other side is.
        """
        points = np.zeros_like(counts)
        for _ in range(2):
            shape = cls._fit(counts, points, rows, noise, release_noise, body, unseen)
            expected = shape.model
            surplus = counts - expected
            octave = np.maximum(np.arange(len(counts)) - NEAR - known, 0)
            sure = noise.threshold(places(len(counts), 2, RATES.surely * RATES.alone)[octave] + math.log(2) * octave)
            odd = surplus > np.hypot(sure, 3 * _MISFIT * expected)
            if not odd.any():
                break
            points = np.where(odd, surplus, points)
        return shape

    @classmethod
    def _fit(
        cls, seen: Floats, points: Floats, rows: float, noise: CountNoise, release_noise: float, body: float, unseen: bool
    ) -> Posterior:
        shapes, counts = bank(), seen - points
        cells, prior = shapes.cells, shapes.log_prior
        height = np.full(len(cells), max(counts.sum(), noise.std / math.sqrt(2)))
        for _ in range(2):
            height = _reweighted(cells, height, counts, rows, noise)
        score = _evidence(cells, prior, height, counts, rows, noise)[0]
        # The rest of the search is for shapes that the counts do not rule out.
        plausible = score > score.max() - PRIOR.ruled_out
        plausible[0] = True
        kept = np.flatnonzero(plausible)
        cells, prior, height = cells[kept], prior[kept], height[kept]
        for _ in range(3):
            height = _reweighted(cells, height, counts, rows, noise)
        score, error = _evidence(cells, prior, height, counts, rows, noise)
        if unseen:
            score[1:] += math.log(PRIOR.hidden)
        chance = np.exp(score - score.max())
        chance /= chance.sum()
        share = height / rows
        share[0] = 0.0
        excess = shapes.excess[kept]
        risk = (
            (excess * share[:, None]) ** 2 + shapes.square[kept] * (share / rows)[:, None] + (release_noise * (ENDS + 0.5)) ** 2
        )
        risk[0] = (release_noise * 0.5) ** 2
        error = np.minimum(error, height) / rows
        kinds = cells, excess, shapes.has_mean[kept]
        return cls(seen, points, rows, noise, kept, *kinds, chance, share, error, risk.min(1) + body)

    @property
    def least(self) -> float:
        """Unavoidable error, harmonic mean over the shapes."""
        return float(1 / np.sum(self.chance / self.unavoidable))

    @cached_property
    def model(self) -> Floats:
        """Expected counts of the shapes."""
        return np.asarray((self.chance * self.share * self.rows) @ self.cells)

    @property
    def no_mean(self) -> float:
        """Probability that the tail has no mean."""
        return float(self.chance[~self.has_mean].sum())

    def tail(self, elsewhere: float, thin_chance: float = 0.0) -> Tail:
        """Expectations over the shapes, weighted as in the docstring of the module.

        ``elsewhere`` is the unavoidable error of the other side, ``thin_chance`` that of a thin tail which no shape predicts.
        """
        rows = self.rows
        weight = self.chance / (self.unavoidable + elsewhere) ** PRIOR.regret * self.has_mean
        weight /= weight.sum() + TINY
        cells, excess = self._corrected
        mean, cells = weight @ excess, np.maximum(weight @ cells, 0.0)
        variance = weight @ (excess - mean) ** 2 + (weight @ (self.excess * self.error[:, None])) ** 2
        seen = self.noise.std / rows
        lie = (_CELL_OVER * PRIOR.inside) ** 2 @ cells**2
        variance += _CELL_EXCESS**2 @ (seen**2 * (cells > seen)) / 4 + lie
        points = self.points / rows
        thin, thin_variance = self._thin(cells, thin_chance)
        return Tail(
            beyond=_CELL_PART @ cells,
            excess=np.maximum(mean, 0.0) + _CELL_EXCESS @ thin,
            variance=variance + (PRIOR.floor * mean) ** 2 + thin_variance,
            lie=lie,
            first=_CELL_FIRST @ cells,
            square=_CELL_SQUARE @ (cells + thin),
            realized=self._realized(weight) + _CELL_EXCESS**2 @ (points + thin),
        )

    def _thin(self, cells: Floats, chance: float) -> tuple[Floats, Floats]:
        """Share of the rows that each cell holds besides the predicted ones, as expected, and the variance of its excess.

        Some columns have a few far rows, a thousandth of all, that no shape predicts: a code such as 999, a second kind of claim.
        One count seldom shows them; several together may.
        """
        share = np.zeros_like(cells)
        if not chance:
            return share, np.zeros_like(ENDS)
        b = self.noise.std / math.sqrt(2)
        visible = np.flatnonzero(cells * self.rows > self.noise.std)
        beyond = int(visible[-1]) + 1 if visible.size else 1
        cut = slice(beyond, beyond + _THIN.shape[1])
        surplus = (self.counts - self.points - cells * self.rows)[cut]
        extra, blur = b * _THIN[:, : surplus.size], np.array(PRIOR.valley * b)
        gain = (_length(surplus, blur) - _length(surplus - extra, blur)).sum(axis=1) / b
        weight = np.exp(gain - max(gain.max(), 0.0)) * chance / len(_THIN)
        weight /= (1 - chance) * math.exp(-max(gain.max(), 0.0)) + weight.sum()
        share[cut] = weight @ extra / self.rows
        excess = extra @ _CELL_EXCESS[:, cut].T / self.rows
        return share, weight @ excess**2 - (weight @ excess) ** 2

    @cached_property
    def _corrected(self) -> tuple[Floats, Floats]:
        """Cells and excess beyond each end by shape: its prediction, corrected by the counts.

        A count is weighted by the variance of the shape's error over that plus the noise; a point mass has full weight.
        """
        model = self.cells * self.share[:, None]
        freedom = (_MISFIT * model) ** 2
        trust = np.where(self.points > 0, 1.0, freedom / (freedom + (self.noise.std / self.rows) ** 2))
        surplus = trust * (self.counts / self.rows - model)
        return model + surplus, self.excess * self.share[:, None] + surplus @ _CELL_EXCESS.T

    def _realized(self, weight: Floats) -> Floats:
        """Second moment of the excess in a sample, cut where fewer than one in twenty samples has a row."""
        shapes, kept = bank(), self.kept
        mass = np.maximum(self.share * self.rows, TINY)
        top = np.minimum((shapes.survival[kept] * mass[:, None] > PRIOR.realized).sum(1), len(_TOPS) - 1)
        ends = slice(len(ENDS))
        area = np.maximum(shapes.area[kept, top][:, None] - shapes.area[kept, ends], 0.0)
        moment = np.maximum(shapes.moment[kept, top][:, None] - shapes.moment[kept, ends], 0.0)
        return np.asarray((weight * self.share) @ np.maximum(2 * (moment - ENDS * area), 0.0))

    def doubt(self, used: Tail, end: int) -> Floats:
        """Amounts by which the excess beyond ``ENDS[end]`` may be smaller and larger than the predicted one."""
        excess = self._corrected[1][:, end]
        chance = self.chance * self.has_mean
        order = np.argsort(excess)
        low, high = np.interp(PRIOR.doubt, np.cumsum(chance[order]) / chance.sum(), excess[order])
        return np.maximum([used.excess[end] - low, high - used.excess[end]], 0.0)


class Tail(NamedTuple):
    """For each end, in scales and per row of all: rows and mean excess beyond, its variance, moments of what is nearer."""

    beyond: Floats
    excess: Floats
    variance: Floats
    lie: Floats
    """The part of the variance that is due to how rows lie within their cells."""
    first: Floats
    """First and second moment of the distance, clipped at the end, of rows in the tail."""
    square: Floats
    realized: Floats
    """Second moment of the excess in a sample."""


def _reweighted(P: Floats, height: Floats, counts: Floats, rows: float, noise: CountNoise) -> Floats:
    """A step of reweighted least squares for the mass of each shape with cells ``P``."""
    b = noise.std / math.sqrt(2)
    model = P * height[:, None]
    weight = P / _length(counts - model, _blur(model, b))
    return np.asarray(np.clip(weight @ counts / (np.einsum("ij,ij->i", P, weight) + TINY), PRIOR.least_rows, rows))


def _evidence(
    P: Floats, log_prior: Floats, height: Floats, counts: Floats, rows: float, noise: CountNoise
) -> tuple[Floats, Floats]:
    """Log evidence of each shape with cells ``P`` and its mass, and the standard error of the mass."""
    b = noise.std / math.sqrt(2)
    model = P * height[:, None]
    blur = _blur(model, b)
    variance = noise.std**2 + b * (blur - PRIOR.valley * b)
    score = log_prior - ((_length(counts - model, blur) - blur) / b + 0.5 * np.log(variance / noise.std**2)).sum(1)
    error = 1 / np.sqrt((P**2 / variance).sum(1) + TINY)
    # The evidence of a shape includes a penalty for its free parameter, the mass.
    score[1:] += np.log(np.minimum(error / np.maximum(height, error), 1.0))[1:] - np.log(np.log(max(rows, 3)))
    return score, error


def _blur(model: Floats, b: float) -> Floats:
    """Width of the rounded minimum of the likelihood of a count."""
    return model * ((1 / b) + (_MISFIT**2 / b) * model) + PRIOR.valley * b


def _length(x: Floats, y: Floats) -> Floats:
    """Hypotenuse of numbers whose squares do not overflow; three times as fast as ``np.hypot``."""
    return np.asarray(np.sqrt(x * x + y * y))
