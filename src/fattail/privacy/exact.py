"""Noise of a private scale, drawn exactly and rounded once.

A normal variable is an integer part and binary digits that are drawn on demand, so it is a real number and not a float.
``value + scale * noise`` is enclosed between two rationals. When both round to the same double, that double is published;
otherwise more digits are drawn. The release is therefore the ideal real number, correctly rounded. Its grid is that of the
doubles, which is the same for every dataset, and no low bit depends on the data. Proof: ``exact.proof.md``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import decimals

Draw = Callable[[int], bytes]

# Binary digits drawn at first; a release needs more with probability 2^-60.
_BITS = 128


class Uniform:
    """A uniform number in [0, 1) whose binary digits are drawn on demand."""

    __slots__ = ("_digits", "_draw", "_length")

    def __init__(self, draw: Draw) -> None:
        self._draw, self._digits, self._length = draw, 0, 0

    def digits(self, length: int) -> int:
        """Whole part of ``2**length`` times the number, for a multiple of 8."""
        missing = length - self._length
        if missing > 0:
            self._digits = self._digits << missing | int.from_bytes(self._draw(missing // 8), "big")
            self._length = length
        return self._digits >> (self._length - length)


class Normal:
    """A standard normal variable, drawn exactly by rejection.

    Parameters
    ----------
    draw : callable
        ``draw(k)`` gives k random bytes.

    Notes
    -----
    The whole part of the magnitude is proposed with probability ``2 ** -(whole + 1)`` and the
    fraction uniformly; both are kept with probability ``2 ** (whole - 1) * exp(-magnitude**2 / 2)``.
    """

    __slots__ = ("_fraction", "_whole", "negative")

    def __init__(self, draw: Draw) -> None:
        while True:
            self._whole, self._fraction = _leading_zeros(Uniform(draw)), Uniform(draw)
            if self._is_accepted(Uniform(draw)):
                break
        self.negative = bool(draw(1)[0] & 1)

    def magnitude(self, bits: int) -> int:
        """Whole part of ``2**bits`` times the absolute value."""
        return (self._whole << bits) + self._fraction.digits(bits)

    def _is_accepted(self, chance: Uniform) -> bool:
        bits = _BITS
        while True:
            y, u = self.magnitude(bits), chance.digits(bits)
            low, high = exp_bounds(-(y * y), 2 << (2 * bits), bits)
            # The magnitude lies within one step above y, where exp(-y^2 / 2) falls by less than a step.
            if 2 * (u + 1) <= (low - 1) << self._whole:
                return True
            if 2 * u >= high << self._whole:
                return False
            bits *= 2

    def sinh_bounds(self, width: float, bits: int) -> tuple[int, int]:
        """Integers around ``2**bits`` times ``sinh(width * Y) / width``, or times Y itself for width 0."""
        y = self.magnitude(bits)
        low, high = y, y + 1
        if width:
            top, bottom = width.as_integer_ratio()
            e_low, e_high = exp_bounds(top * y, bottom << bits, bits)
            one = 1 << 2 * bits
            low = (e_low - one // e_low - 1) * bottom // (2 * top)
            # The slope of sinh(width y) / width is below exp(width y), and Y lies within one step above y.
            high = (e_high - one // e_high) * bottom // (2 * top) + (e_high >> bits) + 3
        return (-high, -low) if self.negative else (low, high)


def smooth_noise(draw: Draw, value: NDArray[np.float64], scale: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """The doubles nearest to ``value + scale * sinh(width * Y) / width``, one exact normal Y for each.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> smooth_noise(rng.bytes, np.array([10.0, 10.0]), np.array([1e-6, 1.0]), 0.75).round(1)
    array([10. ,  8.6])
    """
    noisy = [_rounded(Normal(draw), float(v), float(s), width) for v, s in zip(value.ravel(), scale.ravel(), strict=True)]
    return np.array(noisy, dtype=np.float64).reshape(value.shape)


def _rounded(normal: Normal, value: float, scale: float, width: float) -> float:
    (a, b), (p, q) = value.as_integer_ratio(), scale.as_integer_ratio()
    bits = _BITS
    while True:
        # a / b + (p / q) (end / 2^bits) over one denominator.
        first, second = (_nearest(((a * q) << bits) + p * b * end, (b * q) << bits) for end in normal.sinh_bounds(width, bits))
        if first == second:
            return first + 0.0  # no negative zero
        bits *= 2


def _nearest(top: int, bottom: int) -> float:
    """The double nearest to a quotient of integers, which Python rounds correctly; overflow saturates."""
    try:
        return top / bottom
    except OverflowError:
        return math.copysign(sys.float_info.max, top)


def _leading_zeros(number: Uniform) -> int:
    length = 64
    while not (digits := number.digits(length)):
        length *= 2
    return length - digits.bit_length()


def exp_bounds(top: int, bottom: int, bits: int) -> tuple[int, int]:
    """Integers around ``2**bits * exp(top / bottom)``, at most 3 apart.

    ``Decimal.exp`` is documented to be correctly rounded, so only the quotient and the product
    round besides, each by one unit in the last of many spare digits.

    Examples
    --------
    >>> exp_bounds(1, 1, 8)  # 256 e is 695.9
    (694, 697)
    """
    spare = 25 + int(abs(top) / bottom)
    context = decimals(int(0.30103 * bits) + spare)
    e = context.exp(context.divide(Decimal(top), Decimal(bottom)))
    low = int(context.multiply(e, Decimal(1 << bits))) - 1
    return low, low + 3
