"""When a noisy count is evidence of rows: the one rule.

A sum of noisy counts is significant if noise alone is as large with probability at most ``exp(-doubt)``. If many places are
tested, ``doubt`` grows by the logarithm of one over a place's share of the prior. So the probability of a false positive
anywhere beyond the bulk of a column is at most ``RATES.surely``, for any law of the noise and any number of places. Counts
above a weaker threshold, ``RATES.possibly``, may be rows: they only widen an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EvidenceRates:
    """Probabilities of false positives.

    ``surely`` was compared at .05, .15 and .2 on ``column_laws.TUNING``: a lower one misses far point masses (999 for what is
    not known), a higher one widens ordinary columns. The cost of a false positive is noise in proportion to its distance, so
    its probability decreases with the distance.
    """

    surely: float = 0.15
    """Probability that noise alone is significant somewhere beyond the bulk."""
    slope: float = math.log(4)
    """Decrease of the log probability per octave: log 4, so that false positives of all octaves have the same squared cost."""
    certainly: float = 0.01
    """The same when doubtful cells can be counted again: at first only clear counts are accepted."""
    certain_slope: float = math.log(8)
    """Decrease of that log probability per octave."""
    alone: float = 0.033
    """Factor of that probability where no bulk is visible: a false positive would then be the only spread of the column."""
    alone_slope: float = 0.35
    """Increase of the doubt per octave there, in addition to the prior: half of log 2, half as fast as the cost grows."""
    one: float = 0.02
    """Prior share of distance one from an integer (0/1 answers, rare counts). A false positive so near costs little, so that
    ``alone`` does not apply."""
    guess: float = 5.0
    """Doubt required to use rows at that distance for an estimate without an interval. Because of it, one in exp(5) = 150
    constant columns is not answered exactly."""
    possibly: float = 0.2
    """Probability that noise alone widens an interval."""
    possibly_again: float = 0.5
    """The same for cells that were counted twice. It may be larger because there are few of them."""
    likely: float = 2.0
    """Added doubt at which a count is more likely rows than noise: one in exp(2) = 7 of the false positives remains."""
    possibly_slope: float = 0.23
    """Increase of the doubt per octave for ``possibly``, a third of log 2: codes such as 999 occur at any distance."""
    usual: float = 6.0
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

    def threshold(self, doubt: float | Floats, cells: int = 1) -> Floats:
        """Quantile of the noise of a sum of counts: it is exceeded with probability at most ``exp(-doubt)``.

        Chernoff's bound; for one Laplace count the exact quantile.
        """
        doubt, cells = np.maximum(doubt, 1.0), cells * self.terms
        if not self.laplace:
            return np.asarray(self.scale * np.sqrt(2 * cells * doubt))
        if cells == 1:
            return np.asarray(self.scale * (doubt - math.log(2)))
        cost, breaks = _chernoff(cells)
        best = np.searchsorted(breaks, doubt)
        return np.asarray(self.scale * (doubt + cost[best]) / _LEVERS[best])


@lru_cache(maxsize=64)
def _chernoff(terms: int) -> tuple[Floats, Floats]:
    """Chernoff's bound of a sum of Laplace noises, as the least of some straight lines: ``(doubt + cost) / lever``.

    The doubts at which one line takes over from the line before are increasing.
    """
    cost = -terms * np.log1p(-(_LEVERS**2))
    return cost, (cost[1:] * _LEVERS[:-1] - cost[:-1] * _LEVERS[1:]) / np.diff(_LEVERS)


@lru_cache(maxsize=16)
def places(size: int, windows: int, rate: float) -> Floats:
    """Minus the log prior of octaves at distances 0 .. size - 1 from the most likely one, for ``windows`` tests of each.

    The prior decreases with the square of the distance: slowly, because units of measurement are arbitrary.
    """
    weight = 1 / (1 + (np.arange(size) / RATES.usual) ** 2)
    weight /= 2 * weight.sum() - weight[0]
    return np.asarray(np.log(windows / rate) - np.log(weight))
