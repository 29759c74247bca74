"""Private sums by group: three cells per group hold its size, its sum and its sum of squares, from one release.

A value clipped to ``[low, high]`` is some x in [0, 1] of the way from one end to the other. Its unit's mass is spread over
three cells as ``x^2``, ``2 x (1 - x)`` and ``(1 - x)^2`` (the Bernstein polynomials of degree 2). The parts are not
negative and add up to the mass, so that a unit moves all cells of all groups together by at most its mass, one. With
``t = 2 x - 1``: the sum of the three is the size, the first minus the last the sum of t, and the first plus the last
minus the middle one the sum of t^2. The sums have sqrt(2) times the noise that they would have alone; half of the budget for
sizes would double it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import Curator, Laplace
from fattail.statistics.units import Units

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cells:
    """Released cells of each group: everything here is public.

    Attributes
    ----------
    low, high : float
        The ends to which values were clipped.
    table : array of shape (groups, 3)
    noise : float
        Standard deviation of the noise of a cell.
    """

    low: float
    high: float
    table: Floats
    noise: float

    @property
    def middle(self) -> float:
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        return self.high / 2 - self.low / 2

    @property
    def size(self) -> Floats:
        """Units in each group."""
        return np.asarray(self.table.sum(axis=1))

    @property
    def size_noise(self) -> float:
        return math.sqrt(3) * self.noise

    @property
    def sum(self) -> Floats:
        """Sum of t, the clipped values seen from the middle in units of ``half``."""
        return np.asarray(self.table[:, 0] - self.table[:, 2])

    @property
    def sum_noise(self) -> float:
        return math.sqrt(2) * self.noise

    def squares(self, around: float) -> tuple[Floats, float]:
        """Sum of ``(t - around)^2`` in each group, and the standard deviation of its noise."""
        weights = np.array([(1 - around) ** 2, around**2 - 1, (1 + around) ** 2])
        return np.asarray(self.table @ weights), self.noise * math.sqrt(float(weights @ weights))


def release_cells(curator: Curator, release: Laplace, units: Units, groups: int, low: float, high: float) -> Cells:
    """Release the cells of all groups.

    Parameters
    ----------
    curator : Curator
        Has planned ``release``.
    release : Laplace
    units : Units
    groups : int
    low, high : float
        Public, ``low < high``.

    Notes
    -----
    *Privacy.* The l1 sensitivity is ``units.moves``, for any values and any groups. Proof: ``cells.proof.md``.
    """
    noisy = curator.release(release, units.cells(groups, low, high))
    return Cells(low, high, noisy, math.sqrt(2) * curator.noise(release, units.moves))
