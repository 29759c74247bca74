"""Center and bound of every column for the papers' means, where no moment bound is given."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.estimates import NORMAL, Estimate, Noise, noise_std, per_column, positive_bound
from fattail.columns import Ends, choose_ends, choose_radius, describe, find_locations, plan_mean
from fattail.privacy import Curator, TopK
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]


class Pilot(NamedTuple):
    """Centers and bounds for a symmetric bounded mean; all of it is released or public arithmetic."""

    center: Floats
    bound: Floats
    """Distance from the center at which a column is clipped."""
    spread: Floats
    """Standard deviation of sampling and bias, below and above."""
    release: Noise
    """Planned, for the mean."""


def run_pilot(curator: Curator, data: PrivateData, groups: int = 1) -> Pilot | None:
    """Describe every column and choose its bound; None where the budget suffices for the locations alone.

    Notes
    -----
    *Privacy.* The releases of a description (``columns/looks.proof.md``); the bounds are public arithmetic. Proof:
    ``pilot.proof.md``.
    """
    planned = plan_mean(data.n, data.d, curator.epsilon, curator.delta)
    if planned is None:
        return None
    plan, release = planned[0], replace(planned[1], parts=1)
    curator.plan(*plan.mechanisms, release)
    # As if doubtful cells could be counted again: then only counts that are certain set a bound.
    columns, _ = describe(curator, plan._replace(looks_again=True), data)
    noise = noise_std(curator, release, per_column(release, data.d) * groups / data.n)
    center = np.array([column.center for column in columns])
    at, spread = np.array([choose_radius(column, noise) for column in columns]).T
    spread = np.array([_with_bias_bounds(s, choose_ends(column, noise)) for s, column in zip(spread, columns, strict=True)])
    return Pilot(center, positive_bound(at, np.abs(center)), spread, release)


def _with_bias_bounds(spread: float, ends: Ends) -> tuple[float, float]:
    """A spread that allows for the bounds of the predicted bias, below and above; infinite where a tail may have no mean."""
    below, above = (math.hypot(spread, bound / NORMAL) for bound in (ends.doubt_below, ends.doubt_above))
    return math.inf if ends.open_low else below, math.inf if ends.open_high else above


def locations_alone(curator: Curator, data: PrivateData) -> Estimate:
    """The locations of the columns, with the whole budget and infinite intervals."""
    look = TopK("location", 1.0, count=data.d)
    curator.plan(look)
    center, _ = find_locations(curator, (look,), data)
    return Estimate(center, np.zeros(data.d), np.full((data.d, 2), np.inf))
