"""The default mean with one weight per row, where persons are protected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail._tools.warnings import warn_utility
from fattail.algorithms.auto.mean import adaptive_mean
from fattail.algorithms.parts.scale import magnitude_quantile
from fattail.privacy import Curator, PrivacyReport, TopK
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RowShares:
    """Shares of epsilon and delta; round numbers, not tuned."""

    cap: float = 0.05
    """One selection among octaves."""
    center: float = 0.25
    """A first mean over persons, which need not be precise."""
    quantile: float = 0.95
    """Share of persons with at most as many rows as the cap."""

    @property
    def all(self) -> tuple[float, float, float]:
        """Shares of the three steps."""
        return self.cap, self.center, 1 - self.cap - self.center


SHARES = RowShares()


def mean_of_rows(
    curator: Callable[[float], Curator], data: PrivateData, confidence: float
) -> tuple[Floats, Floats, list[PrivacyReport]]:
    """Mean over rows, intervals, and reports of the releases.

    Parameters
    ----------
    curator : callable
        A curator for a share of the budget.
    data : PrivateData
        Rows of persons.
    confidence : float

    Notes
    -----
    1. A cap K on rows per person: the octave of the 0.95-quantile of their numbers.
    2. c, a private mean over persons.
    3. Private means of ``w (x - c)`` and of ``w`` over persons, x being the mean of a person's rows and w the smaller of 1 and
       their number over K. The answer is c plus the ratio.

    The rows of a person with more than K rows have weight K over their number. The estimate and its interval are for the mean
    with these weights.

    *Privacy.* Each step is a curator's plan on data of one row per person; the steps add up. No assumption on the data.
    """
    first, select = curator(SHARES.cap), TopK("rows per person")
    first.plan(select)
    cap = magnitude_quantile(first, select, data.row_counts(), lambda block: block.X[:, 0], SHARES.quantile)
    second = curator(SHARES.center)
    center = adaptive_mean(second, data.averages()).value
    third = curator(SHARES.all[-1])
    both = adaptive_mean(third, data.weighted(max(cap, 1.0), center))
    sums, weight = both.value[:-1], both.value[-1]
    # Each of the two intervals has half of the error probability.
    ends = both.interval((1 + confidence) / 2)
    low = float(ends[-1, 0])
    with np.errstate(all="ignore"):
        ratios = np.stack([ends[:-1, [0]] / ends[-1], ends[:-1, [1]] / ends[-1]]).reshape(2, len(sums), 2)
    interval = np.stack([ratios.min(axis=(0, 2)), ratios.max(axis=(0, 2))], axis=1)
    if not low > 0:
        interval[:] = -np.inf, np.inf
    if np.isinf(interval).any():
        warn_utility("weight='rows' at this budget: the weights or a tail are too uncertain, so intervals are infinite")
    value = center + sums / max(float(weight), low, np.finfo(float).tiny)
    return value, center[:, None] + interval, [c.report() for c in (first, second, third)]
