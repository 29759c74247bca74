"""Center, scale and clipping ends for the papers' means, where no moment bound is given."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail._tools.warnings import warn_utility
from fattail.algorithms.parts.estimates import Noise, noise_std, per_column, pure_is_better
from fattail.algorithms.parts.pilot_tails import PilotEnds, choose_pilot_ends
from fattail.algorithms.parts.scale import BELOW, NO_SPREAD, column_medians, column_tails, least_seen
from fattail.privacy import Curator, Gaussian, Laplace, Mechanism, TopK, gaussian_multiplier
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]

# If no tail is visible, the estimate is the center, with an infinite interval.
_NOTHING = PilotEnds(below=2.0**-60, above=2.0**-60, bias=0.0, bias_variance=math.inf, sampling_variance=0.0)


@dataclass(frozen=True)
class PilotConstants:
    """Numbers of the pilot; set by hand in the first version."""

    parts: float = 1.2
    """Number of releases of a pure plan when it is compared with a Gaussian one: one for the mean, a fifth for the pilot."""
    scarce: float = 2.55
    rich: float = 1.3
    """Decimal logarithm of the number of rows over the noise below which rows are scarce, and the number of decades from there
    to many rows."""
    location: tuple[float, float] = (0.12, 0.1)
    counts: tuple[float, float] = (0.42, 0.12)
    """Shares if rows are scarce, and their decrease if there are many rows."""
    most_location: float = 0.3
    """Largest share of the location."""
    refined: float = 0.4
    """Position between scarce (0) and many (1) from which on the location is refined once."""
    near_zero: float = 0.7
    """Share of the rows around zero above which a selected center is taken for noise."""


CONSTANTS = PilotConstants()


@dataclass(frozen=True)
class Pilot:
    """Private center, scale and tail counts of every column, and how to plan for them.

    Parameters
    ----------
    location : TopK
    counts, release : Laplace or Gaussian
        ``release`` is the release that the pilot prepares.
    """

    location: TopK
    counts: Noise
    release: Noise

    @classmethod
    def plan(cls, n: int, d: int, epsilon: float, delta: float) -> Pilot:
        """Shares by public arithmetic: with more rows, the pilot's share is smaller.

        Pure releases add their epsilons, so shares of epsilon enter squared, and a selection
        of bounded range is worth four times as much; shares of Gaussian plans are of rho.
        """
        c = CONSTANTS
        pure = pure_is_better(d, epsilon, delta, parts=c.parts)
        multiplier = math.sqrt(2) * d / epsilon if pure else math.sqrt(d) * gaussian_multiplier(epsilon, delta)
        rows = n / multiplier / 10**c.scarce  # below 1 they are scarce
        t = min(max(math.log10(rows) / c.rich, 0.0), 1.0)
        location, counts = (share - fall * t for share, fall in (c.location, c.counts))
        _check_rows(n, 2 * d / (location * epsilon) if pure else multiplier / math.sqrt(location / 2))
        location = min(location / min(rows, 1.0), c.most_location)
        rest = 1 - location - counts
        looks = d * (2 if t > c.refined else 1)  # where rows allow, the location is refined once
        if pure:
            return cls(
                TopK("location", location**2 / (8 * looks), count=looks),
                Laplace("tail counts", counts**2 / 2),
                Laplace("mean", rest**2 / 2),
            )
        return cls(
            TopK("location", location / 2, count=looks),
            Gaussian("tail counts", counts / 2),
            Gaussian("mean", 1 - (location + counts) / 2),
        )

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        return (self.location, self.counts, self.release)

    def run(
        self, curator: Curator, data: PrivateData, *, symmetric: bool = False, groups: int = 1
    ) -> tuple[Floats, Floats, list[PilotEnds]]:
        """Centers, scales, and the ends chosen for each column, in scales."""
        center = column_medians(curator, self.location, data)
        if self.location.count > data.d:
            center = column_medians(curator, self.location, data, center)
        scale, counts = column_tails(curator, self.counts, data, center)
        count_noise = noise_std(curator, self.counts, {"l1": 2.0 * data.d, "l2": math.sqrt(2.0 * data.d)}[self.counts.norm])
        mean_noise = noise_std(curator, self.release, per_column(self.release, data.d) * groups / data.n)
        rank_noise = 2 * curator.noise(self.location)
        ends = [choose_pilot_ends(c, data.n, count_noise, mean_noise, rank_noise, symmetric=symmetric) for c in counts]
        for j, c in enumerate(center):
            if _lost(c, scale[j], counts[j], data.n, count_noise):
                center[j], scale[j], ends[j] = 0.0, abs(c), _NOTHING
            elif c and scale[j] == NO_SPREAD:  # the rows are too spread out to be visible, and few are at the center itself
                ends[j] = _NOTHING
        return center, scale, ends


def _lost(center: float, scale: float, counts: Floats, n: int, noise: float) -> bool:
    """Whether the selected center is far from the median, by the noise of the selection.

    Then most rows lie around zero, seen from the center; or nothing is visible, with so few rows that all of them may be
    hidden.
    """
    if not center:
        return False
    octave = BELOW + math.floor(math.log2(abs(center) / scale))
    near_zero = counts[int(center > 0), max(octave - 1, 0) : max(octave + 2, 0)]
    return bool(near_zero.sum() > CONSTANTS.near_zero * n) or (scale == NO_SPREAD and n < 2 * least_seen(noise))


def _check_rows(n: int, noise: float) -> None:
    """Warn if the noise of a selection is comparable to half of the rows."""
    wanted = f"{math.ceil(12 * noise)} rows, or a larger epsilon, are needed"
    if n < 2 * noise:
        warn_utility(f"{n} rows are too few to find even the location of the data privately: about {wanted}")
    elif n < 12 * noise:
        warn_utility(f"{n} rows are barely enough to find the location of the data at this budget: about {wanted}")
