"""When a noisy count is evidence of rows: the one rule.

*Evidence* is minus the natural log of a false-positive probability: a sum of noisy counts that exceeds ``threshold(evidence)`` is
significant, because noise alone is as large with probability at most ``exp(-evidence)``. If many places are tested, the required
evidence of a place grows by the log of one over its share of the prior. So the probability of a false positive anywhere beyond
the bulk of a column is at most ``RATES.significant``, for Laplace and Gaussian noise and any number of places. Counts above a
weaker threshold, ``RATES.possible``, may be rows: they only widen an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EvidenceRates:
    """Probabilities of false positives.

    ``significant`` was compared at .05, .15 and .2 on ``column_laws.TUNING``: a lower one misses far point masses (999 as a code
    for "not known"), a higher one widens ordinary columns. The cost of a false positive is noise in proportion to its distance,
    so its probability decreases with the distance.
    """

    significant: float = 0.15
    """Probability that noise alone is significant somewhere beyond the bulk."""
    significant_slope: float = math.log(4)
    """Decrease of the log of this probability per octave: log 4, so that false positives of all octaves have the same expected
    squared cost."""
    clear: float = 0.01
    """The same in the first counts, where doubtful cells can be counted again: only clear counts are accepted at first."""
    clear_slope: float = math.log(8)
    """Decrease of that log probability per octave."""
    no_bulk_factor: float = 0.033
    """Factor of ``significant`` where no bulk is visible: a false positive would then be the only spread that is visible."""
    no_bulk_slope: float = 0.35
    """Increase of the required evidence per octave there, in addition to that by the prior: half of log 2, because the cost
    doubles with each octave."""
    distance_one: float = 0.02
    """Prior share of distance one from an integer center (0/1 answers, rare counts). A false positive at this distance costs
    little, so ``no_bulk_factor`` does not apply."""
    distance_one_evidence: float = 5.0
    """Evidence required to use rows at distance one for an estimate with an infinite interval. It lets one in exp(5) = 150
    constant columns have an answer that is not exact."""
    distance_one_guess: float = 2.0
    """The least that is required if the count of the center shows that there are other rows."""
    distance_one_known: float = 0.2
    """Largest prior share of distance one in that case. With 1, noise at distance one is taken for the rows of rare amounts: 3 of
    120 intervals of zeros with 1.5 % amounts were far off."""
    possible: float = 0.2
    """Probability that noise alone widens an interval."""
    possible_again: float = 0.5
    """The same for cells that were counted twice. It may be larger because there are few of them."""
    likely_evidence: float = 2.0
    """Evidence beyond that of ``possible`` at which a count is more likely rows than noise: one in exp(2) = 7 of the false
    positives remains."""
    possible_slope: float = 0.23
    """Increase of the required evidence per octave for ``possible``: a third of log 2, because codes such as 999 occur at any
    distance."""
    far: float = 0.05
    """Probability that noise alone shows rows far beyond the visible ones, in the one count of all of them."""
    far_octave: float = 3.0
    """Evidence required of the octave that holds these rows, however clear it is that there are some."""
    far_chosen: float = math.log(2)
    """Evidence that the count of all far rows does not add to that of an octave, because octaves are looked at if either shows
    rows."""
    prior_octaves: float = 6.0
    """Octaves around the most likely one that hold half of the prior, where no bulk is visible."""


RATES = EvidenceRates()
TINY = 1e-300
"""Keeps quotients finite where both parts are zero."""
_LEVERS: Floats = np.linspace(0.02, 0.995, 196)  # grid of the minimization in Chernoff's bound of a Laplace sum, in steps of .005


@dataclass(frozen=True)
class CountNoise:
    """Noise of a released count.

    Parameters
    ----------
    scale : float
        Laplace scale, or standard deviation of a Gaussian.
    laplace : bool
    terms : int
        Independent noises of this scale that add up to the noise of one count.

    Examples
    --------
    >>> from fattail.columns.evidence import CountNoise
    >>> round(float(CountNoise(10.0, True).threshold(6.9)), 1)
    62.1
    """

    scale: float
    laplace: bool
    terms: int = 1

    @property
    def std(self) -> float:
        return self.scale * math.sqrt(self.terms * (2 if self.laplace else 1))

    def combined(self, other: CountNoise) -> tuple[float, CountNoise]:
        """Weight of this count in the average with a second count of the same rows, and the noise of the average.

        Laplace noises are weighted by their epsilons, so that their scales become equal; Gaussian ones by their variances.
        """
        power = 1 if self.laplace else 2
        own, others = self.scale**-power, other.scale**-power
        terms = 2 if self.laplace else 1
        return own / (own + others), CountNoise((own + others) ** (-1 / power), self.laplace, terms)

    def support(self, count: float | Floats, rows: Floats) -> Floats:
        """Log likelihood ratio of so many rows to none, given their noisy count; exact for one noise and for the sum of two."""
        if not self.laplace:
            return np.asarray(rows * (count - rows / 2) / (self.terms * self.scale**2))
        without, with_rows = np.abs(count) / self.scale, np.abs(count - rows) / self.scale
        return np.asarray(without - with_rows + (np.log1p(with_rows) - np.log1p(without) if self.terms > 1 else 0.0))

    def threshold(self, evidence: float | Floats, cells: int = 1) -> Floats:
        """Quantile of the noise of a sum of counts: it is exceeded with probability at most ``exp(-evidence)``.

        Chernoff's bound; for one Laplace count the exact quantile.
        """
        evidence, cells = np.maximum(evidence, 1.0), cells * self.terms
        if not self.laplace:
            return np.asarray(self.scale * np.sqrt(2 * cells * evidence))
        if cells == 1:
            return np.asarray(self.scale * (evidence - math.log(2)))
        cost, breaks = _chernoff(cells)
        best = np.searchsorted(breaks, evidence)
        return np.asarray(self.scale * (evidence + cost[best]) / _LEVERS[best])


class FarRows(NamedTuple):
    """The number of all rows from the octave ``start`` on, both sides together, counted at once."""

    start: int
    surplus: float
    """Rows in addition to those that the tails predict."""
    noise: CountNoise

    @property
    def shown(self) -> bool:
        """Whether there are such rows."""
        return bool(self.surplus > self.noise.threshold(-math.log(RATES.far)))

    def support(self, rows: Floats) -> Floats:
        """Evidence for rows in an octave that seems to hold so many: against it, if it seems to hold more than there are."""
        return self.noise.support(self.surplus, np.maximum(rows, self.surplus)) - RATES.far_chosen

    @property
    def largest(self) -> float:
        """The number of rows that there may be."""
        return self.surplus + float(self.noise.threshold(-math.log(RATES.far)))


@lru_cache(maxsize=64)
def _chernoff(terms: int) -> tuple[Floats, Floats]:
    """Chernoff's bound of a sum of Laplace noises, as the least of some straight lines: ``(evidence + cost) / lever``.

    Returns the costs, and the increasing evidences at which one line takes over from the line before.
    """
    cost = -terms * np.log1p(-(_LEVERS**2))
    return cost, (cost[1:] * _LEVERS[:-1] - cost[:-1] * _LEVERS[1:]) / np.diff(_LEVERS)


@lru_cache(maxsize=16)
def places(size: int, windows: int, rate: float) -> Floats:
    """Minus the log prior of octaves at distances 0 .. size - 1 from the most likely one, for ``windows`` tests of each.

    The prior decreases with the square of the distance: slowly, because units of measurement are arbitrary.
    """
    weight = 1 / (1 + (np.arange(size) / RATES.prior_octaves) ** 2)
    weight /= 2 * weight.sum() - weight[0]
    return np.asarray(np.log(windows / rate) - np.log(weight))
