"""What papers say of their figures, as statements that numbers can refute.

A claim's ``source`` is the paper, or this library. Every claim compares medians over trials. A
comparison of two methods passes when the better one has the smaller median in at least three
quarters of the points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reproduction.results import Results, Series
from reproduction.spec import Floats

SHARE = 0.75


class Check(NamedTuple):
    """Outcome of one claim: the claim, whether it holds, and the numbers that decided."""

    claim: str
    passed: bool | None
    evidence: str
    source: str = "paper"


@dataclass(frozen=True)
class Beats:
    """One method has less error than another."""

    better: str
    worse: str
    source: str = "paper"

    def check(self, results: Results) -> Check:
        claim = f"“{self.better}” has less error than “{self.worse}”"
        a, b = results.medians(self.better), results.medians(self.worse)
        if not len(a) or len(a) != len(b):
            return Check(claim, None, "not run", self.source)
        wins = int(np.sum(a < b))
        return Check(claim, wins >= SHARE * len(a), f"in {wins} of {len(a)} settings, ratio {factor(a, b):.2g}", self.source)


@dataclass(frozen=True)
class Near:
    """One method's error is within a factor of another's."""

    label: str
    other: str
    factor: float = 2.0
    source: str = "paper"

    def check(self, results: Results) -> Check:
        claim = f"“{self.label}” is close to “{self.other}” (within {self.factor:g}x)"
        a, b = results.medians(self.label), results.medians(self.other)
        if not len(a) or len(a) != len(b):
            return Check(claim, None, "not run", self.source)
        return Check(claim, factor(a, b) <= self.factor, f"geometric mean ratio {factor(a, b):.2g}", self.source)


@dataclass(frozen=True)
class Moves:
    """Error falls (or rises) along an axis of the grid."""

    label: str
    along: str
    rises: bool = False
    source: str = "paper"

    def check(self, results: Results) -> Check:
        word = "rises" if self.rises else "falls"
        claim = f"the error of “{self.label}” {word} with {self.along}"
        lines = self._lines(results)
        if not lines:
            return Check(claim, None, "not run", self.source)
        sign = 1 if self.rises else -1
        held = [bool(sign * (np.log(line[-1]) - np.log(line[0])) > 0 and sign * trend(line) > 0) for line in lines]
        ends = "; ".join(f"{line[0]:.2g} → {line[-1]:.2g}" for line in lines[:3])
        return Check(claim, sum(held) >= SHARE * len(held), f"{ends} ({sum(held)} of {len(held)} curves)", self.source)

    def _lines(self, results: Results) -> list[Floats]:
        curves = results.of(self.label)
        if self.along == results.panel.x:
            return [s.median for s in curves if len(s.x) > 1]
        last = [s.median[-1] for s in curves]
        return [np.array(last)] if len(last) > 1 else []


@dataclass(frozen=True)
class Varies:
    """One method scatters more over trials than another (by the interquartile range)."""

    label: str
    other: str
    source: str = "paper"

    def check(self, results: Results) -> Check:
        claim = f"“{self.label}” varies more than “{self.other}”"
        a, b = (np.array([_spread(s) for s in results.of(name)]) for name in (self.label, self.other))
        if not len(a) or len(a) != len(b):
            return Check(claim, None, "not run", self.source)
        wins = int(np.sum(a > b))
        return Check(
            claim, wins >= SHARE * len(a), f"interquartile range {np.median(a):.2g} against {np.median(b):.2g}", self.source
        )


@dataclass(frozen=True)
class Slope:
    """Mean error is a power of x: the exponent of a theorem, which bounds it from above."""

    label: str
    predicted: float
    tolerance: float = 0.12
    source: str = "paper"

    def check(self, results: Results) -> Check:
        claim = f"“{self.label}” is no worse than the rate {results.panel.x}^{self.predicted:+.2f}"
        slopes = [slope(s) for s in results.of(self.label) if len(s.x) > 1]
        if not slopes:
            return Check(claim, None, "not run", self.source)
        held = all(value <= self.predicted + self.tolerance for value in slopes)
        return Check(claim, held, "fitted " + ", ".join(f"{value:+.2f}" for value in slopes), self.source)


def slope(series: Series) -> float:
    """Exponent of the least-squares line through the mean errors on log scales."""
    return float(np.polyfit(np.log(np.asarray(series.x, dtype=float)), np.log(series.mean), 1)[0])


def trend(line: Floats) -> float:
    """Sign and strength of the move of a line: slope of log error over ranks."""
    return float(np.polyfit(np.arange(len(line)), np.log(np.maximum(line, 1e-12)), 1)[0])


def factor(a: Floats, b: Floats) -> float:
    """Geometric mean of a / b."""
    return float(np.exp(np.mean(np.log(np.maximum(a, 1e-12)) - np.log(np.maximum(b, 1e-12)))))


def _spread(series: Series) -> float:
    return float(np.median(series.quantile(0.75) - series.quantile(0.25)))
