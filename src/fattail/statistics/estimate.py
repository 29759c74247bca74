"""From released cells to means and totals with intervals. Public arithmetic only.

The bias of clipping differs from group to group. It can be predicted from a group's own second moment: where a tail is cut, the
mean excess beyond the ends and the clipped second moment grow in about the same proportion (exactly so for power laws with an
index below 2). The column's predicted bias is therefore multiplied by the ratio of the group's second moment to that of all
groups, shrunk towards one according to its noise. What remains uncertain widens the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail.statistics.cap import NO_CAP, Cap
from fattail.statistics.cells import Cells
from fattail.statistics.intervals import fieller, normal_quantile, two_laplace_quantile
from fattail.statistics.labels import Name
from fattail.statistics.shape import Shape

Floats = NDArray[np.float64]

_NORMAL = 1.96
"""Two-sided 95 % of the normal law, at which `Ends` states its doubts."""
_UNSEEN = 0.25
"""Variance of a group's second moment over that of the column where groups have no squares: scales that differ by a quarter."""
_PULL = 0.3
"""Relative error of the correction for the distance between groups: two groups whose means differ may differ in other ways."""
_LEAST = 2.0**-60
"""A second moment below this is rounding."""
_LISTED = 10
"""So many names of groups at most are listed in a warning."""
_MOST_TIMES = 16.0
"""A group's second moment is clipped to between zero and this many times that of the column."""


@dataclass(frozen=True)
class GroupEstimate:
    """Means and totals of all groups, from one release of cells."""

    cells: Cells
    shape: Shape
    cap: Cap = NO_CAP

    @property
    def _size(self) -> Floats:
        """Sizes, at least of one unit."""
        return np.maximum(self.cells.size, 1.0)

    def _times(self) -> tuple[Floats, Floats, Floats]:
        """Second moment of each group over that of all, its variance, and the second moment itself: empirical Bayes."""
        squares, noise = self.cells.squares()
        size = self._size
        # Not below what noise alone shows: where all groups look empty there is nothing to compare.
        pooled = max(max(float(squares.sum()), noise * math.sqrt(len(size))) / float(size.sum()), _LEAST)
        own = np.clip(squares / (size * pooled), 0.0, _MOST_TIMES)
        # Fourth powers of what is at most 1 + |center| are at most that squared times second powers.
        doubt = (noise**2 + (1 + abs(self.cells.center)) ** 2 * pooled * size) / (size * pooled) ** 2
        weight = 1 / (1 + doubt)
        # One group is not compared with itself.
        between = max(float(weight @ ((own - 1) ** 2 - doubt) / weight.sum()), 0.0) if len(own) > 1 else 0.0
        believed = between / (between + doubt)
        times = 1 + believed * (own - 1)
        variance = between * (1 - believed) if self.cells.has_squares else np.full_like(times, _UNSEEN)
        return times, variance, times * pooled

    def _answered(self) -> Floats:
        """Mean of t in each group; that of all groups where a group is too small for one of its own."""
        total = float(self.cells.sum.sum()) / max(float(self.cells.size.sum()), 1.0)
        too_small = self.cells.size <= _NORMAL * self.cells.size_noise
        return np.clip(np.where(too_small, total, self.cells.sum / self._size), -1.0, 1.0)

    def means(self) -> Floats:
        if not self.shape.ends.seen:  # nothing but a location is known
            return np.full(len(self.cells.size), self.shape.center)
        times, _, _ = self._times()
        clipped = self.cells.middle + self.cells.half * self._answered()
        return np.asarray(clipped + self.shape.ends.bias * times + self._pulled_back())

    def _bias_doubt(self) -> tuple[Floats, Floats]:
        """Standard deviation of the bias of each group's mean, below and above: by the ends, and by the cap of rows.

        Rows beyond the cap may be as different from the others as a single row is.
        """
        ends = self.shape.ends
        times, variance, moment = self._times()
        both = times**2 * ends.bias_variance + variance * ends.bias**2 + self._realized(times)
        both += (self.cap.lost * self.cells.half) ** 2 * moment + (_PULL * self._pulled_back()) ** 2
        below, above = (np.sqrt(both + (times * doubt / _NORMAL) ** 2) for doubt in (ends.doubt_below, ends.doubt_above))
        return (
            np.where(ends.open_low or not ends.seen, np.inf, below),
            np.where(ends.open_high or not ends.seen, np.inf, above),
        )

    @property
    def _pull(self) -> float:
        """Part of the distance between two groups that clipping removes, over the part that it leaves.

        If a group is moved, its rows move with it, except those beyond the ends: they stay at the ends.
        """
        return self.shape.beyond / (1 - self.shape.beyond)

    def _pulled_back(self) -> Floats:
        """How far clipping moves each group towards the mean of all groups."""
        value = self._answered()
        whole = float(value @ self._size) / float(self._size.sum())
        return np.asarray(self._pull * self.cells.half * (value - whole))

    def _clipped_reach(self, confidence: float) -> tuple[Floats, Floats]:
        """How far the clipped mean of each group may lie below and above its estimate: sampling and noise."""
        normal, laplace = normal_quantile(confidence), two_laplace_quantile(confidence)
        cells, value, size = self.cells, self._answered(), self._size
        _, _, moment = self._times()
        variance = self.cap.unevenness * size * np.maximum(moment - (value - self.cells.center) ** 2, 0.0)
        low, high = fieller(cells.sum, cells.size, variance, cells.sum_noise, cells.size_noise, normal, laplace)
        return cells.half * np.maximum(value - low, 0.0), cells.half * np.maximum(high - value, 0.0)

    def _realized(self, times: Floats) -> Floats:
        """Variance of the excess beyond the ends that a group's own units show."""
        return np.asarray(times * self.shape.ends.realized * self.cap.unevenness / self._size)

    def doubts(self, names: Sequence[Name], intervals: Floats, confidence: float) -> list[str]:
        """Why some of these intervals are infinite, and of which groups: sentences, from releases alone."""
        ends = self.shape.ends
        if not ends.seen:
            return ["intervals are infinite: too few units differ from the column's center to be seen at this budget"]
        found = []
        if ends.open_low or ends.open_high:
            sides = " and ".join(side for side, is_open in (("below", ends.open_low), ("above", ends.open_high)) if is_open)
            found.append(f"intervals are infinite {sides}: there the column's tail may have no mean; a larger epsilon may tell")
        (small,) = np.nonzero(np.isinf(self._clipped_reach(confidence)[0]) & np.isinf(intervals).any(axis=1))
        if small.size and len(names) > 1:
            listed = ", ".join(repr(names[k]) for k in small[:_LISTED].tolist())
            more = f" and {small.size - _LISTED} more" if small.size > _LISTED else ""
            found.append(
                f"{small.size} of {len(names)} groups hold too few units to tell, or none: {listed}{more}; their intervals are "
                "infinite, and their value is not theirs but the mean of all groups"
            )
        elif small.size:
            found.append("the interval is infinite: there are too few units to tell at this budget")
        return found

    def mean_intervals(self, confidence: float) -> Floats:
        """Intervals for the mean of a group's law, and of its units."""
        normal, means = normal_quantile(confidence), self.means()
        lower, upper = self._clipped_reach(confidence)
        below, above = self._bias_doubt()
        return np.stack((means - np.hypot(lower, normal * below), means + np.hypot(upper, normal * above)), axis=1)

    def difference_interval(self, confidence: float) -> Floats:
        """Interval for the mean of the first of two groups minus that of the second.

        Sampling and noise of the two are independent, and their intervals are added in squares (MOVER; Zou and Donner 2008).
        The error of the column's predicted bias is common to both: what remains of it is in proportion to the difference
        of their second moments.
        """
        normal, ends, gap = normal_quantile(confidence), self.shape.ends, float(np.subtract(*self.means()))
        (lower, other_lower), (upper, other_upper) = self._clipped_reach(confidence)
        times, variance, _ = self._times()
        doubt = ends.bias_variance + (max(ends.doubt_below, ends.doubt_above) / _NORMAL) ** 2
        bias = float(times[0] - times[1]) ** 2 * doubt + float(variance.sum()) * (ends.bias**2 + doubt)
        bias += float(self._realized(times).sum()) + (_PULL * self.shape.beyond * gap) ** 2
        if not ends.seen or ends.open_low or ends.open_high:
            bias = math.inf
        return np.array(
            [
                gap - math.hypot(lower, other_upper, normal * math.sqrt(bias)),
                gap + math.hypot(upper, other_lower, normal * math.sqrt(bias)),
            ]
        )

    def totals(self) -> Floats:
        if not self.shape.ends.seen:
            return self.means() * np.maximum(self.cells.size, 0.0)
        times, _, _ = self._times()
        return np.asarray(
            self.cells.middle * self.cells.size
            + self.cells.half * self.cells.sum
            + (self.shape.ends.bias * times + self._pulled_back()) * self.cells.size
        )

    def total_intervals(self, confidence: float) -> Floats:
        """Intervals for the total of a group's units: noise, and the uncertain part of the clipping bias."""
        normal, laplace = normal_quantile(confidence), two_laplace_quantile(confidence)
        cells, size = self.cells, self._size
        noise = math.hypot(cells.half * cells.sum_noise, (abs(cells.middle) + abs(self.shape.ends.bias)) * cells.size_noise)
        below, above = (size * doubt for doubt in self._bias_doubt())
        totals = self.totals()
        return np.stack(
            (totals - np.hypot(laplace * noise, normal * below), totals + np.hypot(laplace * noise, normal * above)), axis=1
        )
