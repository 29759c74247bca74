"""Numbers that prevent division by zero and change no answer."""

from __future__ import annotations

TINY = 1e-300
"""Least divisor: far below any length or norm that rows can have, and far enough above zero that its inverse is finite."""
