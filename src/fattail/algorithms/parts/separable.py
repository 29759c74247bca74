"""Whether labels may be separable, so that slopes have no end.

Labels are separable if a predictor has all positive ones beyond an end and no other. A fit is close to that predictor up to its
noise, so few rows are on the wrong side of the end, and close to it. The end is where the share of rows beyond is that of
positive labels. Rows on the wrong side are summed by their distance from it, and compared with what separable labels and the
noise of the fit would give.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from fattail._tools.numbers import TINY
from fattail.privacy import Gaussian
from fattail.robust import Clip
from fattail.rows.data import Block

if TYPE_CHECKING:
    from fattail.algorithms.parts.newton import Model

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SeparationDefaults:
    """Constants, chosen by hand on normal, log-normal, t(3) and mixed columns with separable labels, and on logistic labels."""

    shares: tuple[float, float] = (0.02, 0.07)
    """Of the budget, for the end and for rows on the wrong side."""
    steps: int = 4
    """Of the bisection."""
    bisection: float = 1.0
    """Its first step, in standard deviations of the predictor."""
    far: float = 10.0
    """Log-odds per standard deviation of the predictor: rows on the right side count for almost nothing."""
    reach: float = 1.0
    """Distance, in standard deviations of the predictor, up to which a row on the wrong side counts in proportion."""
    alike: float = 0.9
    """Largest part of the variance of a separating predictor that a fit is taken to have: it may be biased."""
    certain: float = 3.0
    """Noise deviations by which rows on the wrong side must exceed those of separable labels: one fit in a thousand would miss
    that labels are."""
    steep: float = 1.0
    """Least standard deviation of predictions, with `certain` deviations of their noise, of labels that may be separable: fits of
    those had 1.9 or more with 5 to 50 % positive ones, 1.2 with .3 %. Columns that say little have no direction to look along."""
    least_size: float = 1e-6
    """Least standard deviation of the predictor, in log-odds: slopes below are zero."""


DEFAULTS = SeparationDefaults()
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
_RIGHT = 0.2785  # no u / (1 + exp(u)) is larger


@dataclass(frozen=True)
class Separation:
    """Planned releases: counts of rows beyond ends, and the mean distance of rows on the wrong side."""

    ends: Gaussian
    wrong: Gaussian

    @classmethod
    def planned(cls) -> Separation:
        ends, wrong = DEFAULTS.shares
        return cls(Gaussian("rows beyond an end", ends, count=DEFAULTS.steps), Gaussian("rows on the wrong side", wrong))

    @property
    def mechanisms(self) -> tuple[Gaussian, ...]:
        return self.ends, self.wrong

    def is_possible(self, model: Model, slopes: Floats, size: float, doubt: float, share: float) -> bool:
        """Whether noise does not rule out that labels are separable.

        ``size`` is the standard deviation of predictions from these ``slopes`` (the constant is zero), ``doubt`` the variance of
        their noise, ``share`` that of positive labels; all of them are released.

        Notes
        -----
        *Privacy.* Means of one clipped number per row. Proof: ``separable.proof.md``.
        """
        c, curator = DEFAULTS, model.curator
        if size < c.least_size or size + c.certain * math.sqrt(max(doubt, 0.0)) < c.steep:
            for release in (*[self.ends] * self.ends.count, self.wrong):
                curator.waive(release)
            return False
        predictor = slopes / size
        end = self._end(model, predictor, share)
        problem, weights = model.problem, model.cases  # what goes to where the rows are, without the curator

        def rows(block: Block) -> tuple[Floats, None]:
            x = problem.frame.predict(block, predictor) - end
            return _distances(weights, x, np.asarray(problem.response(block)))[:, None], None

        most = _RIGHT / c.far
        mean = Clip(center=(most - c.reach) / 2, bound=(most + c.reach) / 2).mean(model.data, rows, width=1).to("l2")
        found = float(curator.release(self.wrong, mean)[0])
        return found + c.certain * curator.noise(self.wrong, mean.sensitivity) >= _expected(weights, size, doubt, share)

    def _end(self, model: Model, predictor: Floats, share: float) -> float:
        """Where the share of rows beyond is about that of positive labels, by bisection around the end of a normal law."""
        end, frame = float(norm.isf(share)), model.problem.frame
        for t in range(self.ends.count):

            def beyond(block: Block, end: float = end) -> tuple[Floats, None]:
                return (frame.predict(block, predictor) > end).astype(np.float64)[:, None], None

            mean = Clip(center=0.5, bound=0.5).mean(model.data, beyond, width=1).to("l2")
            end += math.copysign(DEFAULTS.bisection / 2**t, float(model.curator.release(self.ends, mean)[0]) - share)
        return end


def _distances(weights: tuple[float, float], x: Floats, y: Floats) -> Floats:
    """Minus the distances of rows on the wrong side: the gradient along a long predictor, x from its end."""
    zeros, ones = weights
    weight = np.where(y > 0, ones, zeros)
    return np.asarray(weight * (y - expit(DEFAULTS.far * x)) * np.clip(x, -DEFAULTS.reach, DEFAULTS.reach))


def _expected(weights: tuple[float, float], size: float, doubt: float, share: float) -> float:
    """Their mean for separable labels, if predictors are normal."""
    end = float(norm.isf(share))
    part = min(size**2 / (size**2 + doubt), DEFAULTS.alike)
    side = norm.cdf((math.sqrt(part) * _NODES - end) / math.sqrt(max(1 - part, TINY)))
    x, one = _NODES - end, np.ones_like(_NODES)
    return float(_WEIGHTS @ (side * _distances(weights, x, one) + (1 - side) * _distances(weights, x, 0 * one)) / _WEIGHTS.sum())
