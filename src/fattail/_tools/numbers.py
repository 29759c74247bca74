"""Numbers that prevent division by zero and change no answer, decimals for proofs, and numbers as text."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context

TINY = 1e-300
"""Least divisor: far below any length or norm that rows can have, and far enough above zero that its inverse is finite."""

_LONGEST = 1e15
"""Numbers from here on are shown with an exponent."""


def decimals(precision: int) -> Context:
    """A decimal context of this precision: rounded to nearest, of any exponent, without traps.

    Every field is given, because a program may change ``decimal.DefaultContext``, from which others are taken.

    Examples
    --------
    >>> decimals(3).divide(2, 3)
    Decimal('0.667')
    """
    limits = {"Emin": MIN_EMIN, "Emax": MAX_EMAX, "clamp": 0}
    return Context(prec=precision, rounding=ROUND_HALF_EVEN, capitals=1, flags=[], traps=[], **limits)


def readable(value: float) -> str:
    """A number with six significant digits, and without an exponent if it is an everyday one.

    Examples
    --------
    >>> readable(9559261.4), readable(0.125), readable(1.5e300), readable(float("inf"))
    ('9559260', '0.125', '1.5e+300', 'inf')
    """
    text = f"{value:.6g}"
    return f"{float(text):.0f}" if "e+" in text and abs(value) < _LONGEST else text
