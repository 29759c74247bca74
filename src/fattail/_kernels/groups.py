"""Sums by group, exact in any order: the mass of each contribution spread over the cells of its group."""

from __future__ import annotations

import math

from numba import njit

from .dense import JIT


@njit(**JIT)
def group_cells(values, codes, masses, low, high, out):
    """Add to ``out[g]`` the masses of the contributions of group g, by the Bernstein polynomials of degree 2, or 1.

    A value is first clipped to ``[low, high]`` and mapped to x in [0, 1]; a NaN counts as the middle. Its mass m goes to three
    cells as ``m x^2``, ``2 m x (1 - x)`` and ``m (1 - x)^2``, or to two as ``m x`` and ``m (1 - x)``: integers, not negative,
    whose sum is m whatever the rounding. A contribution with a negative code is in no group.
    """
    three = out.shape[1] == 3
    half, middle = high / 2 - low / 2, high / 2 + low / 2
    for i in range(values.size):
        g = codes[i]
        if g < 0:
            continue
        t = (values[i] - middle) / half
        if not t >= -1.0:
            t = 0.0 if math.isnan(t) else -1.0
        if t > 1.0:
            t = 1.0
        x = (t + 1.0) / 2.0
        mass = masses[i]
        if not three:
            up = math.floor(mass * x)
            out[g, 0] += up
            out[g, 1] += mass - up
            continue
        up = math.floor(mass * (x * x))
        down = math.floor(mass * ((1.0 - x) * (1.0 - x)))
        out[g, 0] += up
        out[g, 1] += mass - up - down
        out[g, 2] += down


@njit(**JIT)
def side_cells(values, center, above, below, out):
    """Count each value once, by its distance from the center: in ``out[0]`` if it is not below, in ``out[1]`` otherwise.

    The cells of a side are equally wide and reach up to ``above`` or ``below``; the last one holds whatever is not in the others.
    """
    cells = out.shape[1] - 1
    up, down = cells / above, cells / below
    for i in range(values.size):
        distance = values[i] - center
        side = 0 if distance >= 0.0 else 1
        t = distance * up if side == 0 else -distance * down
        out[side, int(t) if t < cells else cells] += 1
