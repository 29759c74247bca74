"""Rows far beyond the visible ones that no count shows clearly: how likely they are, and how far off they would make a mean.

Public arithmetic only. One row in hundreds may hold much of a mean: a code such as 9999, or amounts of another kind. Their counts
are often a few scales of the noise, too few for a decision. So the counts are not tested, but weighed: the hypothesis of no such
rows is compared with that of some number of rows in some octave, by the likelihood of all counts of far octaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.columns.description import CELLS, ColumnDescription
from fattail.columns.location import OCTAVES

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HiddenRules:
    """Constants of this comparison, chosen on ``column_laws.TUNING``; try others with ``benchmarks/tuning/columns.py``."""

    gap: int = 1
    """Number of octaves between the last visible one and the first of these rows."""
    octaves: int = 14
    """Number of octaves in which they may begin."""
    slope: float = 0.35
    """Decrease of their log prior per octave: half of log 2, because the cost of a wide interval doubles with each octave."""
    patterns: tuple[tuple[float, ...], ...] = ((1.0,), (0.3, 0.5, 0.2))
    """How they may lie in neighboring octaves: at one value, or over a factor of eight."""
    rows: tuple[float, float] = (1.0, 64.0)
    """Least and largest number of them, in scales of the noise of a count; twice as many at each step. Fewer rows cannot be told
    from none."""
    doubt: float = 0.025
    """Probability that they shift the mean by more than the bound."""
    warned: float = 5.0
    """A warning says that they make an interval wide if the bound is so many times as large as the other errors."""
    prior: float = 0.02
    """Prior probability that there are such rows, with many rows."""
    many: float = 600.0
    """So many rows for each scale that the noise of all counts would have by the whole following release (n epsilon of 2000)."""
    power: float = 1.35
    """With fewer rows, the prior grows with this power, because a wide interval is better than a wrong one ..."""
    most: float = 0.15
    """... up to this. With .5, intervals of ordinary columns of 300 rows at epsilon 1 were twenty times as wide."""


HIDDEN = HiddenRules()


class _Hypotheses(NamedTuple):
    """One for each number of rows, first octave, and pattern."""

    log_prior: Floats
    rows: Floats
    """In scales of the noise of a count."""
    outer: Floats
    """Outer edge of the fullest octave, in units of the inner edge of the first far octave."""


@lru_cache(maxsize=4)
def _hypotheses(rules: HiddenRules) -> tuple[Floats, list[_Hypotheses]]:
    rows = np.exp2(np.arange(math.log2(rules.rows[0]), math.log2(rules.rows[1]) + 1))
    first = np.arange(rules.octaves)
    every = []
    for pattern in rules.patterns:
        fullest = first + int(np.argmax(pattern))
        log_prior = np.tile(-rules.slope * fullest, (rows.size, 1))
        every.append(
            _Hypotheses(log_prior, np.tile(rows[:, None], (1, first.size)), np.tile(np.exp2(fullest + 1.0), (rows.size, 1)))
        )
    total = math.log(2 * sum(float(np.exp(h.log_prior).sum()) for h in every))
    return rows, [h._replace(log_prior=h.log_prior - total) for h in every]


class HiddenRows(NamedTuple):
    """Hypotheses (side, hypothesis) of far rows, given all counts."""

    weight: Floats
    """Likelihood of the counts, relative to that without such rows, times the prior, which adds up to one."""
    excess: Floats
    """Sum of the distances of these rows from the center."""

    @classmethod
    def of(cls, column: ColumnDescription, expected: Floats) -> HiddenRows | None:
        """From a description, and the rows of each octave that its tails predict (side, octave); None if no bulk is visible."""
        start = column.far_start(HIDDEN.gap) if column.far is None else column.far.start
        width = HIDDEN.octaves + max(len(pattern) for pattern in HIDDEN.patterns) - 1
        if start + width > CELLS:
            return None
        scale = column.noise.std / math.sqrt(2)
        cells = slice(start, start + width)
        surplus = column.counts[:, cells] - expected[:, cells]
        surplus = np.where(np.isfinite(surplus), surplus, 0.0)[:, None]
        weights, excesses = [], []
        sizes, hypotheses = _hypotheses(HIDDEN)
        for pattern, hypothesis in zip(HIDDEN.patterns, hypotheses, strict=True):
            gain = hypothesis.log_prior + np.zeros((2, 1, 1))
            for k, part in enumerate(pattern):
                here, rows = slice(k, k + HIDDEN.octaves), (scale * part * sizes)[:, None]
                support = column.noise.support(surplus[..., here], rows)
                if column.second is not None:
                    again = column.second.cells[:, None, cells][..., here]
                    support = np.where(again, column.second.noise.support(surplus[..., here], rows), support)
                gain += support
            if column.far is not None:
                gain += column.far.noise.support(column.far.surplus, scale * hypothesis.rows)
            weights.append(np.exp(gain).reshape(2, -1))
            excesses.append((scale * hypothesis.rows * hypothesis.outer).ravel())
        return cls(np.concatenate(weights, axis=1), 2.0 ** (start - OCTAVES) * np.concatenate(excesses))

    @property
    def evidence(self) -> float:
        """Log of the average likelihood ratio of such rows to none."""
        return math.log(float(self.weight.sum()))

    def bounds(self, prior: float) -> Floats:
        """Sums of distances that such rows, above and below the center, exceed with probability at most ``HIDDEN.doubt``."""
        order = np.argsort(-self.excess)
        weight = prior * self.weight[:, order]
        more = np.cumsum(weight, axis=1) / (1 - prior + weight.sum())
        excess = np.append(self.excess[order], 0.0)
        return np.array([excess[np.searchsorted(side, HIDDEN.doubt)] for side in more])


def prior_of_hidden(rows: float) -> float:
    """Prior probability of such rows, given the number of rows as in ``HIDDEN.many``."""
    return float(min(HIDDEN.prior * max(HIDDEN.many / rows, 1.0) ** HIDDEN.power, HIDDEN.most))
