"""Private sums by group: three cells per group hold its size, its sum and its sum of squares, from one release.

A value clipped to ``[low, high]`` has a relative position x in [0, 1]. Its unit's mass is spread over
three cells as ``x^2``, ``2 x (1 - x)`` and ``(1 - x)^2`` (the Bernstein polynomials of degree 2). The parts are nonnegative and
add up to the mass, so that adding a unit changes all cells of all groups together by its mass, one. With
``t = 2 x - 1``: the sum of the three is the size, the first minus the last the sum of t, and the first plus the last
minus the middle one the sum of t^2. The noise of the sums is sqrt(2) times what it would be without sizes. With a separate
release of the sizes, for half of the budget, it would be twice as much.

For very many small groups the squares would be mostly noise, and drawing that noise takes most of the time. Such groups get two
cells, ``x`` and ``1 - x``, and their squares are predicted from the description of the column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import Curator, Laplace
from fattail.statistics.plan import RULES
from fattail.statistics.shape import Shape
from fattail.statistics.units import Contributions

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cells:
    """Released cells of each group: everything here is public.

    Attributes
    ----------
    low, high : float
        The ends to which values were clipped.
    table : array of shape (groups, 3), or (groups, 2)
    noise : float
        Standard deviation of the noise of a cell.
    center : float
        The column's center, seen from the middle in units of ``half``.
    square : float
        Second moment of a row around it that the column's description predicts.
    """

    low: float
    high: float
    table: Floats
    noise: float
    center: float
    square: float

    @property
    def has_squares(self) -> bool:
        return bool(self.table.shape[1] == 3)

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
        return math.sqrt(self.table.shape[1]) * self.noise

    @property
    def sum(self) -> Floats:
        """Sum of t, the clipped values seen from the middle in units of ``half``."""
        return np.asarray(self.table[:, 0] - self.table[:, -1])

    @property
    def sum_noise(self) -> float:
        return math.sqrt(2) * self.noise

    def squares(self) -> tuple[Floats, float]:
        """Sum of ``(t - center)^2`` in each group, and the standard deviation of its noise."""
        if not self.has_squares:
            return np.maximum(self.size, 1.0) * self.square, 0.0
        c = self.center
        weights = np.array([(1 - c) ** 2, c**2 - 1, (1 + c) ** 2])
        return np.asarray(self.table @ weights), self.noise * math.sqrt(float(weights @ weights))


def release_cells(curator: Curator, release: Laplace, units: Contributions, groups: int, shape: Shape) -> Cells:
    """Release the cells of all groups.

    Parameters
    ----------
    curator : Curator
        Has planned ``release``.
    release : Laplace
    units : Contributions
    groups : int
    shape : Shape
        Public ends, and the released number of units.

    Notes
    -----
    *Privacy.* The l1 sensitivity is ``units.moves``, for any values and any groups. Proof: ``cells.proof.md``.
    """
    low, high = shape.low, shape.high
    each = 2 if groups > RULES.always_squares and shape.rows * curator.epsilon < RULES.typical_size * groups else 3
    noisy = curator.release(release, units.cells(groups, low, high, each))
    half = high / 2 - low / 2
    center = min(max((shape.center - (high / 2 + low / 2)) / half, -1.0), 1.0)
    noise = math.sqrt(2) * curator.noise(release, units.moves)
    return Cells(low, high, noisy, noise, center, sum(shape.ends.square) / half**2)
