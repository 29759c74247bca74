"""Parameters that are left to the library."""

from __future__ import annotations

from typing import Any


def is_auto(value: Any) -> bool:
    """Whether a parameter is left to the library."""
    return isinstance(value, str) and value == "auto"
