"""Gaussian noise on the integers, exact and for many coordinates at once.

Laplace noise is proposed and accepted with a probability that makes it Gaussian. A uniform number is compared with that
probability in floating point; where the two are too close for it, further digits of both decide. So nothing is rounded.
Proof: ``discrete_normal.proof.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.privacy.exact import exp_bounds
from fattail.privacy.geometric import Draw, Integers, SignedSizes, signed_sizes, with_noise

_DOUBT = 2.0**-40
"""More than the rounding errors of a probability in floating point, by a factor of 16; see the proof."""
_WORD = 64
"""Binary digits of a uniform number that are drawn at a time."""


def discrete_gaussian(draw: Draw, value: Integers, scale: float) -> Integers:
    """``value`` plus independent integers k, of probability proportional to ``exp(-k**2 / (2 scale**2))``; sums saturate.

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
    >>> discrete_gaussian(rng.bytes, np.zeros(6, dtype=np.int64), 10.0)
    array([-11, -12,   6, -12,  18,  11])
    """
    return with_noise(value, scale, lambda count: _drawn(draw, count, scale))


def _drawn(draw: Draw, count: int, scale: float) -> SignedSizes:
    """Independent signs and sizes."""
    negative, size = signed_sizes(draw, count, scale)
    again = np.flatnonzero(~_accepted(draw, size, scale))
    while again.size:
        negative[again], other = signed_sizes(draw, again.size, scale)
        size = size.astype(object) if other.dtype == object else size
        size[again] = other
        again = again[~_accepted(draw, size[again], scale)]
    return negative, size


def _accepted(draw: Draw, size: NDArray[Any], scale: float) -> NDArray[np.bool_]:
    """Whether proposals are kept: with probability ``exp(-(size / scale - 1)**2 / 2)``."""
    words = np.frombuffer(draw(8 * size.size), dtype=">u8")
    with np.errstate(all="ignore"):
        chance = np.exp(-0.5 * (size.astype(np.float64) / scale - 1.0) ** 2)
    uniform = words * 2.0**-_WORD
    kept = np.asarray(uniform < chance)
    for i in np.flatnonzero(np.abs(uniform - chance) <= _DOUBT).tolist():
        kept[i] = _decided(draw, int(words[i]), int(size[i]), scale)
    return kept


def _decided(draw: Draw, word: int, size: int, scale: float) -> bool:
    """The same for one proposal, exactly; ``word`` holds the first digits of its uniform number."""
    top, bottom = scale.as_integer_ratio()
    bits = _WORD
    while True:
        word, bits = word << _WORD | int.from_bytes(draw(_WORD // 8), "big"), bits + _WORD
        low, high = exp_bounds(-((size * bottom - top) ** 2), 2 * top**2, bits)
        if word + 1 <= low:
            return True
        if word >= high:
            return False
