"""Parameters with the value "auto"."""

from __future__ import annotations

from typing import Any

DESCENT_SHARE = 0.84
"""Share of the gradients in the papers' descents: what `linear_rows.Units` leaves, which takes 0.06 and 0.1 by default."""


def is_auto(value: Any) -> bool:
    """Whether a parameter is "auto"."""
    return isinstance(value, str) and value == "auto"
