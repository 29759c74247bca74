"""Laplace noise on the integers, exact and for many coordinates at once.

The size of the noise is geometric. The binary digits of a geometric variable are independent of each other, so each is one
comparison of a uniform number with a threshold. Uniform numbers are drawn byte by byte, until a comparison is decided; thresholds
are known to as many bytes as that takes. Nothing is rounded. Proof: ``geometric.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import decimals

Draw = Callable[[int], bytes]
Integers = NDArray[np.int64]
SignedSizes = tuple[NDArray[np.bool_], NDArray[Any]]

_TAIL = 5
"""Digits are drawn below ``2**digits``, at least ``2**5`` times the scale. Noise exceeds that with probability below
``exp(-32)``."""
_BYTES = 16
"""Bytes of a threshold that are computed at first; a comparison needs more with probability ``2**-128``."""
_BLOCK = 1 << 15
"""Coordinates per block, so that memory stays small."""
_SAFE = 1 << 62
"""Integers below this can be added without overflow."""


def discrete_laplace(draw: Draw, value: Integers, scale: float) -> Integers:
    """``value`` plus independent integers k, of probability proportional to ``exp(-|k| / scale)``; sums saturate.

    Parameters
    ----------
    draw : callable
        ``draw(k)`` gives k random bytes.
    value : array of int64
    scale : float
        Positive and finite.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> discrete_laplace(rng.bytes, np.zeros(6, dtype=np.int64), 10.0)
    array([-19, -40,   6,  28,   0, -24])
    """
    return with_noise(value, scale, lambda count: signed_sizes(draw, count, scale))


def with_noise(value: Integers, scale: float, signed: Callable[[int], SignedSizes]) -> Integers:
    """``value`` plus noise of this scale, drawn by ``signed`` in blocks; sums saturate."""
    if not 0 < scale < math.inf:
        raise ValueError(f"the scale of noise must be positive and finite, got {scale!r}")
    flat = value.ravel()
    parts = (flat[k : k + _BLOCK] for k in range(0, flat.size, _BLOCK))
    blocks = [_added(part, *signed(part.size)) for part in parts]
    return np.concatenate(blocks).reshape(value.shape) if blocks else value.copy()


def _added(value: Integers, negative: NDArray[np.bool_], size: NDArray[Any]) -> Integers:
    """``value`` plus noise of these signs and sizes; sums saturate."""
    largest = max(abs(int(value.min())), abs(int(value.max())))
    if size.dtype == object or largest >= _SAFE:
        exact = value.astype(object) + np.where(negative, -size.astype(object), size.astype(object))
        about = np.iinfo(np.int64)
        return np.asarray(np.clip(exact, about.min, about.max), dtype=np.int64)
    return np.asarray(value + np.where(negative, -size, size), dtype=np.int64)


def signed_sizes(draw: Draw, count: int, scale: float) -> SignedSizes:
    """Independent signs and sizes of Laplace noise; a negative zero is drawn again, or zero would be twice as likely."""
    negative, size = _drawn(draw, count, scale)
    (again,) = np.nonzero(negative & (size == 0))
    while again.size:
        negative[again], other = _drawn(draw, again.size, scale)
        size = size.astype(object) if other.dtype == object else size
        size[again] = other
        again = again[negative[again] & (size[again] == 0)]
    return negative, size


def _drawn(draw: Draw, count: int, scale: float) -> SignedSizes:
    """Independent signs and geometric sizes, as int64 if all are below 2^62 and as Python integers otherwise."""
    digits = digits_of(scale)
    bits = _bernoulli(draw, np.arange(digits + 2), count, scale)
    kind = np.int64 if digits < 63 else object
    size: NDArray[Any] = np.zeros(count, dtype=kind)
    for j in range(digits):
        size |= bits[j].astype(kind) << j
    beyond, negative = bits[digits], bits[digits + 1]
    if beyond.any():
        size = size.astype(object)
        for i in np.flatnonzero(beyond).tolist():
            times = 1
            while _bernoulli(draw, np.array([digits]), 1, scale)[0, 0]:
                times += 1
            size[i] += times << digits
    return negative, size


def digits_of(scale: float) -> int:
    """Number of binary digits that are drawn one by one."""
    return max(math.frexp(scale)[1] + _TAIL, 0)


def _bernoulli(draw: Draw, rows: NDArray[np.int64], count: int, scale: float) -> NDArray[np.bool_]:
    """Whether uniform numbers, ``count`` in each row, lie below the thresholds of these rows."""
    table = thresholds(scale, _BYTES)[rows]
    drawn = np.frombuffer(draw(len(rows) * count), dtype=np.uint8).reshape(len(rows), count)
    below = drawn < table[:, :1]
    row, column = np.nonzero(drawn == table[:, :1])
    place, length = 1, _BYTES
    while row.size:
        if place == length:
            length *= 2
            table = thresholds(scale, length)[rows]
        digit, own = np.frombuffer(draw(row.size), dtype=np.uint8), table[row, place]
        below[row, column] = digit < own
        tied = digit == own
        row, column, place = row[tied], column[tied], place + 1
    return below


@lru_cache(maxsize=256)
def thresholds(scale: float, length: int) -> NDArray[np.uint8]:
    """The first ``length`` bytes of the probabilities of the digits, of a noise beyond all of them, and of a sign.

    Digit j is one with probability ``1 / (1 + exp(2**j / scale))``; noise is beyond with probability
    ``exp(-2**digits / scale)``.

    Examples
    --------
    >>> int(thresholds(1.0, 2)[0] @ [256, 1]), int(2**16 / (1 + np.e))
    (17625, 17625)
    """
    spare = 30
    while True:
        found = _enclosed(scale, length, spare)
        if found is not None:
            table = np.frombuffer(b"".join(p.to_bytes(length, "big") for p in found), dtype=np.uint8)
            return table.reshape(len(found), length)
        spare *= 2


def _enclosed(scale: float, length: int, spare: int) -> list[int] | None:
    """Whole parts of ``2**(8 length)`` times the probabilities, or None if so many spare decimals do not decide them."""
    digits, one = digits_of(scale), 1 << 8 * length
    top, bottom = scale.as_integer_ratio()
    # Squaring doubles a relative error, and each operation adds one unit in the last place; see the proof.
    precision = math.ceil(8 * length * math.log10(2)) + math.ceil(digits * math.log10(4)) + spare
    context = decimals(precision)
    doubt = Decimal((0, (1,), math.ceil(digits * math.log10(4)) + 5 - precision))  # a power of ten, in no context
    power = context.exp(context.divide(Decimal(-bottom), Decimal(top)))  # exp(-2^j / scale) for j = 0, 1, ...
    chances = []
    for _ in range(digits):
        chances.append(context.divide(power, context.add(Decimal(1), power)))
        power = context.multiply(power, power)
    chances.append(power)
    found = []
    for chance in chances:
        low, high = (
            max(int(context.multiply(Decimal(one), context.add(chance, side)).to_integral_value(ROUND_FLOOR, context)), 0)
            for side in (doubt.copy_negate(), doubt)
        )
        if low != high:
            return None
        found.append(low)
    return [*found, one // 2]
