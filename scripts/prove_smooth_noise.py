"""Prove the constants of the sinh-normal noise.

    python scripts/prove_smooth_noise.py

``mechanisms.proof.md`` reduces both claims, for every epsilon and every pair of neighbors, to inequalities
in one variable about

    h(y) = (y + w tanh(w y)) / cosh(w y)    and    k(y) = y tanh(w y) / w + tanh(w y)^2.

This script proves them in integers: [0, reach] is cut into cells, and on each cell monotone pieces are
bounded at its ends by ``exp_bounds``, which encloses the exponential. Nothing is a float.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from fattail.privacy import SmoothNoise
from fattail.privacy.exact import exp_bounds

BITS = 80
ONE = 1 << BITS


class Cell(NamedTuple):
    """Bounds of h, k and exp(-y^2 / 2) on [left, right], in units of 2^-BITS, except the ends."""

    left: Fraction
    right: Fraction
    h: tuple[int, int]
    k: tuple[int, int]
    weight: tuple[int, int]


def cells(width: Fraction, reach: Fraction, per_unit: int) -> list[Cell]:
    points = [Point(Fraction(i, per_unit), width) for i in range(int(reach * per_unit) + 1)]
    return [
        Cell(
            a.y,
            b.y,
            # y + w tanh(w y) grows, 1 / cosh(w y) falls; k grows; the weight falls.
            (a.rising[0] * b.sech[0] >> BITS, (b.rising[1] * a.sech[1] >> BITS) + 1),
            (a.k[0], b.k[1]),
            (b.weight[0], a.weight[1]),
        )
        for a, b in pairwise(points)
    ]


class Point:
    """Enclosures at one y."""

    def __init__(self, y: Fraction, w: Fraction) -> None:
        self.y = y
        q = exp_bounds(*(-w * y).as_integer_ratio(), BITS)
        squares = [x * x >> BITS for x in q]
        squares[1] += 1
        # tanh = (1 - q^2) / (1 + q^2) falls in q, sech = 2 q / (1 + q^2) grows, for q = exp(-w y) <= 1.
        tanh = [(ONE - s) * ONE // (ONE + s) + up for s, up in zip(reversed(squares), (0, 1), strict=True)]
        self.sech = [2 * x * ONE // (ONE + s) + up for x, s, up in zip(q, squares, (0, 1), strict=True)]
        self.rising = [floor(y * ONE + w * t) + up for t, up in zip(tanh, (0, 1), strict=True)]
        self.k = [floor(y * t / w) + (t * t >> BITS) + up for t, up in zip(tanh, (0, 2), strict=True)]
        self.weight = exp_bounds(*(-y * y / 2).as_integer_ratio(), BITS)


def floor(x: Fraction) -> int:
    return x.numerator // x.denominator


def constants(one_shot: bool) -> tuple[Fraction, Fraction, Fraction]:
    """Width, smoothness and scale per unit of epsilon, as the decimals that the code writes."""
    w, a, b = (Fraction(str(c)) for c in SmoothNoise("noise", one_shot=one_shot).constants)
    return w, a, b


def prove_one_shot(w: Fraction, a: Fraction, b: Fraction, per_unit: int = 512) -> tuple[float, float]:
    """Largest b h + a |k - 1| on [0, reach], which must be below 1, and the reach, just short of w / a."""
    reach = w / a - Fraction(1, 10)
    worst = max(
        b * cell.h[1] + a * max(cell.k[1] - ONE, ONE - cell.k[0]) for cell in cells(w, reach + Fraction(1, per_unit), per_unit)
    )
    return float(worst / ONE), float(reach)


def log10_tail(w: Fraction, a: Fraction, b: Fraction, reach: float, epsilon: float) -> float:
    """Log of twice the normal tail beyond what the drift along the path leaves of the reach."""
    # |dy/dr| <= t / w + s / cosh(w y), and 1 / cosh(w y) < 2 exp(-w y) is below 1/1000 beyond y = 12 for w >= 0.65.
    assert reach > 12 and w >= Fraction(65, 100)
    least = Fraction(str(reach)) - Fraction(str(epsilon)) * (a / w + b / 1000)
    assert least > 12
    # P[|Y| > x] <= exp(-x^2 / 2) for x > 1.
    return float(-(least**2) / 2) / 2.302585092994046 + 1e-9


def prove_concentrated(w: Fraction, a: Fraction, b: Fraction, per_unit: int = 1024, steps: int = 64) -> float:
    """Smallest gap E(N - c)_+ - E(X - c)_+ over all c >= 0 and both signs of a, in units of the density's height.

    A positive gap at all c is domination by the standard normal in the convex order.
    """
    reach = Fraction(8)
    parts = cells(w, reach, per_unit)
    highest = max(cell.h[1] for cell in parts)
    x0, slope = Fraction(b * highest, ONE), a / w
    # Beyond the reach h falls, and X <= x0 + slope y everywhere.
    assert w * (reach + w) > 1 and 2 * slope <= 1
    last = x0 / (1 - slope)  # from here on domination follows from the line alone
    assert x0 + a <= last  # with the other sign of a, X is never above x0 + a
    outside = 2 * (x0 / reach + slope) * exp_bounds(*(-reach * reach / 2).as_integer_ratio(), BITS)[1]
    gaps = []
    for sign in (1, -1):
        tops = []
        for cell in parts:
            scale = floor(sign * a * (cell.k[sign > 0] - ONE)) + 1
            tops += [(floor(b * cell.h[1]) + 1 + scale, cell.weight[1]), (floor(-b * cell.h[0]) + 1 + scale, cell.weight[1])]
        for i in range(int(last * steps) + 2):
            # Sums over cells of weight times (X - c)_+ and (y - c)_+, in units of 2^(-2 BITS) and 2^-BITS.
            level, first = (i * ONE) // steps, i * per_unit // steps
            ours = sum(weight * (top - level) for top, weight in tops if top > level)
            theirs = sum(cell.weight[0] * (2 * j + 1) for j, cell in enumerate(parts[first:]))
            gaps.append(Fraction(theirs, 2 * per_unit**2 * ONE) - Fraction(ours, per_unit * ONE**2) - outside / ONE)
    # Between grid points the convex E(X - c)_+ lies below its chord and E(N - c)_+ above its own less this.
    return float(min(gaps) - Fraction(1, 8 * steps**2))


def main() -> int:
    w, a, b = constants(one_shot=True)
    worst, reach = prove_one_shot(w, a, b)
    tail = log10_tail(w, a, b, reach, SmoothNoise.max_epsilon)
    booked = SmoothNoise.tail
    print(f"single release, w = {float(w)}, t = {float(a)} eps, s = {float(b)} eps, any eps <= {SmoothNoise.max_epsilon:g}:")
    print(f"  |loss| <= {worst:.4f} eps where |y| <= {reach:g} on the path; delta <= 10^{tail:.1f}, booked {booked:g}")
    w, a, b = constants(one_shot=False)
    gap = prove_concentrated(w, a, b)
    print(f"composed releases, w = {float(w)}, t = {float(a)} eps, s = {float(b)} eps, any eps:")
    print(f"  dominated by a Gaussian of mu = eps; smallest gap {gap:.5f}")
    proved = worst < 1 and 10**tail < booked and gap > 0
    print("proved" if proved else "NOT PROVED")
    return 0 if proved else 1


if __name__ == "__main__":
    sys.exit(main())
