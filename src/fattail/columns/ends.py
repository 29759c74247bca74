"""Where to clip a described column, and what clipping does to its mean. Public arithmetic only.

A mean clipped to ``[low, high]`` has three errors: noise, in proportion to ``high - low``; the sampling error; and a bias, the
mean excess beyond the upper end minus that beyond the lower end. The ends with the smallest sum of squares are chosen, and the
predicted bias is corrected. Where both tails look alike (``alike.py``), their excesses cancel, and the ends can be narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.columns.alike import ALIKE, canceling, probability_alike
from fattail.columns.description import CELLS, ColumnDescription
from fattail.columns.evidence import RATES, TINY
from fattail.columns.location import OCTAVES
from fattail.columns.sides import ScaledTail, Side, TwoTails, fit_tails
from fattail.columns.tail_shapes import ABOVE, ENDS, NEAR
from fattail.columns.tails import MIDDLE, Posterior

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EndRules:
    """Constants of the choice.

    Set by hand on the tuning laws, ``column_laws.TUNING``, without a search; each can be tried with
    ``benchmarks/tuning/columns.py``.
    """

    lattice: float = 0.01
    """The places of rows within their cells add to the variance (``Tail.lie``). If two tails are alike, most of it cancels; this
    part remains."""
    caution: float = 0.7
    """The ends are chosen with the predicted variance of the bias times this. At n = 10,000 and epsilon = .2, the bias of most
    columns is half as large as predicted, so that ends were too far out. .25, .5, .7 and 1 were compared on
    ``column_laws.TUNING``, and with .5 columns of real tables had an error that was 2 % larger at epsilon 3."""
    largest_cut: float = 0.1
    """Largest share of the rows that an end may cut off."""
    position: float = 0.17
    """Standard deviation of the mean of an octave's rows, relative to the middle of the octave (0.2 if all are at one random
    place)."""
    coarse: float = 1.5
    """In a column that is not smooth, the second moment is increased by this many such standard deviations, because all of a few
    values may be at the outer edges of their octaves."""
    hidden_rows: float = 8.0
    """Largest number of rows that the noise of a count may hide, in scales of the noise."""
    hidden_share: float = 0.04
    """An interval allows for hidden rows if they may be at least this share of all rows. 0 was tried: the median width doubles,
    and rows hundreds of times farther out than the others are still not covered."""
    hidden_octaves: float = 4.0
    """An interval allows for hidden rows up to this number of octaves beyond the last visible row."""
    far: float = 10.0
    """The mean is then off by at most this many half-widths if such rows exist. With ``hidden_rows`` of 6 instead of 8, intervals
    are 20 % narrower, but 2 of 1,800 fits are farther off than that."""
    factor: tuple[float, float] = (0.7, 1.45)
    """Lower and upper end of an octave, relative to its middle."""
    worth: float = 0.5
    """A cell is counted again if its possible rows change the mean by more than this many standard errors."""
    no_mean: float = 0.02
    """The interval is infinite on a side if the probability that its tail has no mean is larger than this."""


RULES = EndRules()


class Ends(NamedTuple):
    """The chosen interval, and what clipping to it does to a mean."""

    low: float
    high: float
    bias: float
    """Expected mean excess beyond ``high`` minus that beyond ``low``: it is added to the clipped mean."""
    bias_variance: float
    first: tuple[float, float]
    """First moment of the clipped distance, above and below the center; both are means over all rows of the column."""
    square: tuple[float, float]
    """Second moment of it."""
    blur: float
    """Standard deviation of the first moments by the noise of the counts."""
    realized: float
    """Second moment, in a sample, of the excess beyond the ends."""
    doubt_below: float
    """Bound on how much smaller than ``bias`` the true bias may be (at the quantiles ``TailPrior.bias_quantiles``)."""
    doubt_above: float
    """Bound on how much larger it may be."""
    open_low: bool
    """Whether the interval of the answer is infinite below."""
    open_high: bool
    """Whether it is infinite above."""
    doubtful: NDArray[np.bool_]
    """Cells (side, octave) that should be counted again: the rows that they may hold would change the answer."""
    likely: bool
    """Whether some of them are more likely to hold rows than not."""
    expected: Floats
    """Rows of each octave that the tails predict (side, octave)."""
    guessed: bool
    """Whether no count besides that of the center is significant."""

    @property
    def seen(self) -> bool:
        """Whether any row besides the center is visible."""
        return self.high > self.low


# Squares of very large and very small numbers overflow or underflow here, without a warning.
@np.errstate(all="ignore")
def choose_ends(column: ColumnDescription, release_noise: float) -> Ends:
    """Interval with the smallest expected squared error of its clipped, corrected mean.

    In the tables below, rows are candidates of the lower end and columns those of the upper end.

    Parameters
    ----------
    column : ColumnDescription
    release_noise : float
        Standard deviation of the released mean per unit of the interval's length.
    """
    found = fit_tails(column, release_noise)
    if found is None:
        at = 0.0 if column.center_is_noise else column.center
        doubtful = np.array([column.possible(side, 0.0, np.zeros(CELLS)) > 0 for side in (0, 1)]) & (not column.center_is_noise)
        none = np.zeros((2, CELLS))
        return Ends(at, at, 0.0, math.inf, (0.0, 0.0), (0.0, 0.0), 0.0, 0.0, 0.0, 0.0, True, True, doubtful, False, none, True)
    sides, posteriors, (up, down), places, _, guessed = found
    rows = column.rows
    bias, variance, canceled = _bias_of_pairs(column, found)
    near = sum(s.body_moment(2) for s in sides) / rows
    square = up.square + down.square[:, None] + near
    length = up.at + down.at[:, None]
    # Where the tails cancel, the mean follows the center by the share of the rows that are cut off. The center is about a median,
    # and its covariance with a clipped mean is the mean absolute clipped distance, over twice the density at the center.
    first = up.first + down.first[:, None] + sum(s.body_moment(1) for s in sides) / rows
    with_center = canceled * (up.beyond + down.beyond[:, None]) * first / column.density
    # Otherwise the excess is predicted from counts of the same rows, and has their sampling error, too.
    sampled = square + (1 - canceled) * (up.counted + down.counted[:, None])
    error = RULES.caution * variance + sampled / rows + with_center + (release_noise * length) ** 2
    cut = (up.beyond > RULES.largest_cut) | (down.beyond > RULES.largest_cut)[:, None]
    error = np.where(cut & ~(cut.all()), np.inf, error)
    i, j = (int(k) for k in np.unravel_index(np.argmin(error), error.shape))
    # How far off the bias may be: by the posterior of the tails, by rows that unclear counts may be, and by hidden rows.
    bounds_up, bounds_down = _bias_bounds(posteriors[0], up, j, sides[0]), _bias_bounds(posteriors[1], down, i, sides[1])
    alike = float(canceled[i, j])
    low, high = (1 - alike) * np.hypot(bounds_up, bounds_down[::-1])
    outside = [
        (0, float(up.at[j]), _expected(posteriors[0], places[0])),
        (1, float(down.at[i]), _expected(posteriors[1], places[1])),
    ]
    possible = np.array([column.possible(*side) for side in outside])
    high, low = np.array([high, low]) + possible.sum(axis=1) / rows
    doubtful = possible > RULES.worth * rows * math.sqrt(error[i, j])
    likely = doubtful & (np.array([column.possible(*side, added_evidence=RATES.likely_evidence) for side in outside]) > 0)
    low, high = (max(float(bound), _hidden(column)) for bound in (low, high))
    # If two tails look alike and one has no mean, the other has none.
    no_mean = [max(p.no_mean, alike * o.no_mean) for p, o in zip(posteriors, posteriors[::-1], strict=True)]
    return Ends(
        low=column.center - float(down.at[i]),
        high=column.center + float(up.at[j]),
        bias=float(bias[i, j]),
        bias_variance=float(variance[i, j]),
        first=(float(up.first[j]) + sides[0].body_moment(1) / rows, float(down.first[i]) + sides[1].body_moment(1) / rows),
        square=(float(up.square[j]) + sides[0].body_moment(2) / rows, float(down.square[i]) + sides[1].body_moment(2) / rows),
        blur=max(p.noise.std * s.scale for p, s in zip(posteriors, sides, strict=True)) / rows,
        realized=float(up.realized[j] + down.realized[i]),
        doubt_below=float(low),
        doubt_above=float(high),
        open_low=no_mean[1] > RULES.no_mean or column.is_unresolved or guessed,
        open_high=no_mean[0] > RULES.no_mean or column.is_unresolved or guessed,
        doubtful=doubtful,
        likely=bool(likely.any()),
        expected=np.array([rows for _, _, rows in outside]),
        guessed=guessed,
    )


def _bias_of_pairs(column: ColumnDescription, found: TwoTails) -> tuple[Floats, Floats, Floats]:
    """For each pair of ends: the bias, its variance, and the probability that the excesses beyond the two ends cancel.

    With this probability the bias is that of two equal tails with a small difference, otherwise the difference of the two
    predicted excesses; the variance is that of this mixture.
    """
    up, down = found.tails
    bias, variance = up.excess - down.excess[:, None], up.variance + down.variance[:, None]
    if not found.common:
        return bias, variance, np.zeros_like(bias)
    alike = probability_alike(column, found.places[0]) * canceling(column, up.at, down.at)
    # Of two equal tails, the best estimate of the excess is the mean of both.
    both = (up.excess + down.excess) / 2
    relative = np.minimum((up.variance + down.variance) / 4 / np.maximum(both, math.sqrt(TINY)) ** 2, 4.0)
    left = both - both[:, None]
    skew, skew_variance = _small_difference(found.sides, found.posteriors, column.rows, column.noise.std)
    even = left + skew
    variance = (1 - alike) * variance + alike * (1 - alike) * (bias - even) ** 2
    variance += alike * (
        left**2 * (relative + relative[:, None]) / 2 + skew_variance + RULES.lattice * (up.lie + down.lie[:, None])
    )
    # Equal tails cancel only around the median; the center may be off by some rows.
    variance += alike * (column.off_center * (up.beyond + down.beyond[:, None])) ** 2
    return (1 - alike) * bias + alike * even, variance, alike


@np.errstate(all="ignore")
def choose_radius(column: ColumnDescription, release_noise: float) -> tuple[float, float]:
    """A distance at which to clip both sides: that with the smallest expected squared error of a mean without correction.

    Returns the distance, and the standard deviation of sampling and bias together; zero and infinity if no row besides the
    center is visible.
    """
    found = fit_tails(column, release_noise)
    if found is None or found.guessed:
        return 0.0, math.inf
    distances = np.union1d(*(side.at for side in found.tails))
    distances = distances[distances >= max(side.at[side.at > 0][0] for side in found.tails)]
    up, down = (
        {name: np.interp(distances, side.at, getattr(side, name)) for name in ("excess", "variance", "beyond", "square")}
        for side in found.tails
    )
    alike = probability_alike(column, found.places[0]) if found.common else 0.0
    bias = (1 - alike) * (up["excess"] - down["excess"])
    near = sum(side.body_moment(2) for side in found.sides) / column.rows
    square = (1 - alike) * (up["variance"] + down["variance"]) + bias**2 + (up["square"] + down["square"] + near) / column.rows
    square += alike * (column.off_center * (up["beyond"] + down["beyond"])) ** 2  # equal tails cancel only around the median
    error = square + (2 * release_noise * distances) ** 2
    cut = np.maximum(up["beyond"], down["beyond"]) > RULES.largest_cut
    best = int(np.argmin(np.where(cut & ~cut.all(), np.inf, error)))
    return float(distances[best]), math.sqrt(float(square[best]))


def _bias_bounds(posterior: Posterior, at: ScaledTail, end: int, side: Side) -> Floats:
    """By how much the excess beyond an end may be smaller and larger than predicted, in the unit of the column.

    Zero at an abrupt end, because the tail shapes do not know of it.
    """
    if end == at.abrupt:
        return np.zeros(2)
    return side.scale * posterior.bias_bounds(at.tail, max(end - (len(at.at) - len(ENDS)), 0))


def _hidden(column: ColumnDescription) -> float:
    """Smallest bound of the bias if many rows may be hidden: their effect on the mean, divided by ``RULES.far``.

    The whole effect would make most intervals far too wide, since such rows seldom exist. A tenth limits how wrong an answer can
    be: if they exist, it is off by at most ten half-widths.
    """
    share = RULES.hidden_rows * column.noise.scale / column.rows
    cells = [cell for side in (0, 1) if (cell := column.reach((side,))) is not None]
    if share < RULES.hidden_share or not cells:
        return 0.0
    return float(share / RULES.far * 2.0 ** (max(cells) + 1 + RULES.hidden_octaves - OCTAVES))


def _expected(posterior: Posterior, start: int) -> Floats:
    """Rows of each cell of a side, as predicted by its tail."""
    tail = posterior.model + posterior.points
    cells = np.zeros(CELLS + NEAR + ABOVE + 1)
    cells[start : start + len(tail)] = tail
    cells = cells[NEAR:]
    cells[: max(start - NEAR, 0)] = np.inf
    return cells[:CELLS]


def _small_difference(sides: list[Side], posteriors: list[Posterior], rows: float, noise: float) -> tuple[Floats, Floats]:
    """Bias from a small difference of two tails that look alike: its expectation and variance for each pair of ends.

    The difference of the counts is shrunk: it is the posterior mean for a prior with standard deviation ``ALIKE.alike`` times the
    rows of both tails.
    """
    total = sum(p.model + p.points for p in posteriors)
    prior, observed = (ALIKE.alike * total) ** 2, 2 * noise**2 + total
    weight = prior / (prior + observed + TINY)
    middles = MIDDLE * np.exp2(np.arange(-NEAR, ABOVE + 1))
    lever = sides[0].scale * np.maximum(middles - ENDS[:, None], 0.0) / (2 * rows)
    mean = lever @ (weight * (sides[0].cells - sides[1].cells))
    covariance = (lever * weight * observed) @ lever.T
    own = np.diag(covariance)
    return mean + mean[:, None], own + own[:, None] + 2 * covariance


def clipped_square(ends: Ends, mean: float, release_noise: float) -> tuple[float, float]:
    """Second moment of the clipped distance, given its released mean, and the standard deviation of its error.

    The counts give the octave of a row, but not its place within the octave. The released mean shows how far the rows are on
    average from the middles of their octaves, except where the two sides cancel. The second moment is corrected for that.
    """
    up, down = ends.first
    prior = RULES.position**2
    gap = mean - (up - down)
    total = prior * (up**2 + down**2) + ends.blur**2 + release_noise**2
    moved = [prior * up * gap / (total + TINY), -prior * down * gap / (total + TINY)]
    left = [prior * (1 - prior * m**2 / (total + TINY)) for m in (up, down)]
    factor = [float(np.clip(1 + d, *RULES.factor)) ** 2 + v for d, v in zip(moved, left, strict=True)]
    square = [s * f for s, f in zip(ends.square, factor, strict=True)]
    return sum(square), math.hypot(*(2 * math.sqrt(v) * s for v, s in zip(left, square, strict=True)))


def clipped_variance(
    ends: Ends, center: float, raw: float, half_square: float | None, release_noise: float, smooth: bool
) -> float:
    """Variance of the clipped rows, given their released mean.

    Parameters
    ----------
    ends : Ends
    center : float
    raw : float
        Released mean of the clipped rows.
    half_square : float, optional
        With ``u`` the clipped row, seen from the middle of the interval in units of its half: the released mean of
        ``(1 - u^2) / 2``, times that half. It has the noise of the mean.
    release_noise : float
        Standard deviation of the noise of the mean.
    smooth : bool
        Whether the column is smooth. If it is not, the variance is increased, because all of a few values may be at the outer
        edges of their octaves.
    """
    mean = raw - center
    square, error = clipped_square(ends, mean, release_noise)
    variance = square - mean**2
    if half_square is not None:
        half, off_middle = (ends.high - ends.low) / 2, raw - (ends.low / 2 + ends.high / 2)
        seen = half**2 - 2 * half * half_square - off_middle**2 + release_noise**2
        blur = 2 * release_noise * math.hypot(half, off_middle)
        weight = error**2 / (error**2 + blur**2 + TINY)
        variance, error = variance + weight * (seen - variance), math.sqrt(weight) * blur
    return max(variance, 0.0) + (0.0 if smooth else RULES.coarse * error)
