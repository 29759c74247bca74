"""The tail shapes, their prior weights, and what each has beyond every candidate end. Public arithmetic only.

Shapes are Lomax, log-normal and Weibull laws at several scales, the heavier ones also cut off at some distance, point masses in
one cell, and an empty tail. All distances are in units of the tail's scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]

NEAR, ABOVE = 2, 16
"""Octaves of a tail below and above its scale."""
EDGES: Floats = np.exp2(np.arange(-NEAR, ABOVE + 1.0))
"""Lower edges of the cells of a tail, in units of its scale."""
ENDS: Floats = np.exp2(np.arange(-2 * NEAR, 2 * ABOVE + 1) / 2)
"""Candidate distances of a clipping end from the center, in units of the tail's scale."""
TOPS: Floats = np.exp2(np.arange(-2 * NEAR, 2 * ABOVE + 61) / 2)
"""Candidate distances of the largest row, in the same unit."""
POINTS = NEAR + 3
"""Number of first cells in which a tail may be one point mass."""


@dataclass(frozen=True)
class TailPrior:
    """Prior weights of the tail shapes, and the error of a shape as a description of a real tail.

    The shapes and their weights, ``misfit``, ``floor`` and ``regret`` are those of the default mean before commit b4b179c, which
    was tuned on laws other than those of its benchmark. The indices up to 1.2, ``bias_quantiles``, ``hidden``, ``inside``,
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
    """Factor of ``any_tail`` on a side without visible rows."""
    stops: tuple[float, ...] = (4.0, 16.0, 64.0)
    """Heavy shapes are also used cut off at these distances, in scales, because the values of a column may be bounded."""
    stop_weight: float = 0.6
    """Weight of a shape that is cut off, relative to the same shape as a whole."""
    lomax_stops: tuple[float, float] = (0.0, 2.5)
    lognormal_stops: tuple[float, float] = (1.5, 2.0)
    """First and last parameter of the shapes that are also used cut off."""
    octaves: tuple[int, int] = (-8, 3)
    """Scales of the shapes, in octaves relative to the tail's scale: from the first number up to, not including, the second."""
    least_share: float = 1e-8
    """A shape with a smaller share beyond the first edge is left out."""
    least_rows: float = 1e-3
    """Smallest number of rows that a shape may have."""
    realized: float = 0.05
    """A sample is assumed to have no row beyond the distance where this number of rows is expected."""
    ruled_out: float = 40.0
    """Halfway through the search for its number of rows, a shape is dropped if its log evidence is smaller than the best one by
    more than this."""
    valley: float = 0.2
    """The log likelihood of a count is ``-sqrt(x**2 + w**2)``: normal near 0 and Laplace far away. This is the smallest w, in
    Laplace scales of the noise."""
    misfit: float = 0.15
    """Relative standard deviation of a cell's rows from those of the shape, because no real tail has exactly this shape."""
    first_misfit: float = 0.4
    """The same in the first cell, which may still belong to the body."""
    point_weight: float = 0.5
    """Weight of the shape that has all rows somewhere in one cell, as a point mass does."""
    floor: float = 0.25
    """Part of the standard deviation of the predicted excess, relative to it, that no posterior removes."""
    regret: float = 0.7
    """Power of the unavoidable error by which the weight of a shape is divided."""
    bias_quantiles: tuple[float, float] = (0.02, 0.99)
    """Quantiles of the excess over the posterior of the shapes, between which an interval reaches."""
    thin: float = 0.02
    """Prior probability of a few rows beyond the visible tail that no shape predicts. 0, .005, .01, .02, .03 and .1 were compared
    on ``column_laws.TUNING``: at n = 10,000 and epsilon = .2, .02 increases the error by 5 %, elsewhere by at most 1 %."""
    thin_patterns: tuple[tuple[float, ...], ...] = (
        (1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (1.0, 0.7, 0.5),
        (1.0, 0.35, 0.12),
    )
    """How they may lie in the first octaves there: all in one, or decreasing with an index of one half or 1.5. With a fourth
    octave, noise moves the ends of bounded columns out too often."""
    thin_rows: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    """Their possible numbers in the fullest of these cells, in Laplace scales of the noise of a count."""
    inside: float = 0.15
    """Standard deviation of the mean position of a cell's rows, which is unknown, in cells. It would be 0.29 if all rows were at
    one random place."""


PRIOR = TailPrior()


class Bank(NamedTuple):
    """Tail shapes as laws on distances beyond ``EDGES[0]``, in scales; the first one is the empty tail."""

    has_mean: NDArray[np.bool_]
    log_prior: Floats
    cells: Floats
    """Probability of each cell."""
    excess: Floats
    """Mean excess beyond each of ``ENDS``."""
    square: Floats
    """Second moment of the distance, clipped at each of ``ENDS``."""
    survival: Floats
    """Probability S(x) beyond each x of ``TOPS``."""
    area: Floats
    """Integral of S from ``EDGES[0]`` to x."""
    moment: Floats
    """Integral of x S from ``EDGES[0]`` to x."""


@lru_cache(maxsize=1)
def bank() -> Bank:
    """All shapes, at all scales that are visible in a histogram."""
    # The grid contains every end and every point where a shape stops; otherwise a small excess would remain beyond a stop.
    u = np.union1d(np.geomspace(EDGES[0], 2.0**90, 4000), np.concatenate((ENDS, TOPS, 2 * EDGES)))
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
        rows.append((-np.diff(np.append(edge, 0.0)), *at_ends, *(np.interp(TOPS, u, f) for f in (s, area, moment))))

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
    for cell in EDGES[:POINTS]:
        add(np.clip((2 * cell - u) / cell, 0.0, 1.0), np.clip((2 * cell - EDGES) / cell, 0.0, 1.0))
        prior.append(PRIOR.point_weight)
        means.append(True)
    nothing = tuple(np.zeros_like(part) for part in rows[0])
    columns = [np.array(part) for part in zip(nothing, *rows, strict=True)]
    probabilities = np.array([1.0, *(PRIOR.any_tail * w / sum(prior) for w in prior)])
    return Bank(np.array([True, *means]), np.log(probabilities), *columns)


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
