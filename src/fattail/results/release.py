"""A private answer in one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fattail._tools.escape import Html, fragment, tag
from fattail.privacy import PrivacyReport


@dataclass(frozen=True)
class Release:
    """A private number (or one per column) and what it cost.

    Attributes
    ----------
    value : float or array
    interval : tuple of two floats, or array of shape (d, 2)
    privacy : PrivacyReport
    """

    value: Any
    interval: Any
    privacy: PrivacyReport

    def __float__(self) -> float:
        return float(self.value)

    def _repr_html_(self) -> str:
        rows = zip(np.ravel(self.value), np.reshape(self.interval, (-1, 2)), strict=True)
        lines = (tag("p", tag("b", f"{value:.6g}"), f" \u00a0 {low:.6g} to {high:.6g}") for value, (low, high) in rows)
        return fragment(*lines, Html(self.privacy._repr_html_()))
