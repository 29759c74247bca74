"""Numbers that prevent division by zero and change no answer, and numbers as text."""

from __future__ import annotations

TINY = 1e-300
"""Least divisor: far below any length or norm that rows can have, and far enough above zero that its inverse is finite."""

_LONGEST = 1e15
"""Numbers from here on are shown with an exponent."""


def readable(value: float) -> str:
    """A number with six significant digits, and without an exponent if it is an everyday one.

    Examples
    --------
    >>> readable(9559261.4), readable(0.125), readable(1.5e300), readable(float("inf"))
    ('9559260', '0.125', '1.5e+300', 'inf')
    """
    text = f"{value:.6g}"
    return f"{float(text):.0f}" if "e+" in text and abs(value) < _LONGEST else text
