"""A private answer: value, interval and report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fattail._tools.escape import Html, for_terminal, fragment, tag
from fattail._tools.extras import extra
from fattail._tools.numbers import readable
from fattail.privacy import PrivacyReport

_MOST_LINES = 60


@dataclass(frozen=True, repr=False)
class Release:
    """A private number, or one per group or column, with its privacy report.

    Attributes
    ----------
    value : float or array
    interval : tuple of two floats, or array of shape (k, 2)
    privacy : PrivacyReport
    groups : tuple of names, or None
        The groups of the entries of ``value``, in order.
    confidence : float
        Level of the interval.
    p_value : float or None
        Of a difference: the probability that noise and sampling alone give a larger one.
    quantity : str
        What the value is, in words.

    Examples
    --------
    >>> import fattail
    >>> answer = fattail.count({"region": ["a"] * 300 + ["b"] * 200}, by="region", groups=["a", "b"], random_state=0)
    >>> answer.groups
    ('a', 'b')
    >>> bool(abs(answer.value[0] - 300) < 30)
    True
    """

    value: Any
    interval: Any
    privacy: PrivacyReport
    groups: tuple[Any, ...] | None = None
    confidence: float = 0.95
    p_value: float | None = None
    quantity: str = "value"

    def __float__(self) -> float:
        return float(self.value)

    def rows(self) -> list[tuple[Any, float, float, float]]:
        """Name, value, low and high, one line per group or column."""
        values = np.ravel(self.value)
        names = self.groups if self.groups is not None else [self.quantity] if len(values) == 1 else range(len(values))
        ends = np.reshape(self.interval, (-1, 2))
        return [(n, float(v), float(low), float(high)) for n, v, (low, high) in zip(names, values, ends, strict=True)]

    def to_frame(self) -> Any:
        """The same as a pandas data frame: one line per group, with ``value``, ``low`` and ``high``."""
        pd = extra("pandas", "frames")
        names, values, low, high = zip(*self.rows(), strict=True) if np.size(self.value) else ((), (), (), ())
        first = "group" if self.groups is not None else "quantity"
        return pd.DataFrame({first: list(names), "value": values, "low": low, "high": high})

    def __repr__(self) -> str:
        rows = self.rows()
        name = max((len(str(r[0])) for r in rows[:_MOST_LINES]), default=0)
        lines = [f"{r[0]!s:<{name}}  {readable(r[1])}  ({readable(r[2])} to {readable(r[3])})" for r in rows[:_MOST_LINES]]
        if len(rows) > _MOST_LINES:
            lines.append(f"and {len(rows) - _MOST_LINES} more")
        if self.p_value is not None:
            lines.append(f"p = {self.p_value:.3g}")
        p = self.privacy
        lines.append(
            f"{100 * self.confidence:g} % intervals; ({p.epsilon:g}, {p.delta:g})-differentially private, "
            f"{p.relation} {p.protected}" + (", seeded: not private" if p.seeded else "")
        )
        return "\n".join(map(for_terminal, lines))

    def _repr_html_(self) -> str:
        rows = self.rows()
        if self.groups is None:
            body = [tag("p", tag("b", readable(v)), f" \u00a0 {readable(low)} to {readable(high)}") for _, v, low, high in rows]
        else:
            lines = (
                tag("tr", tag("td", str(n)), *(tag("td", readable(x)) for x in (v, low, high)))
                for n, v, low, high in rows[:_MOST_LINES]
            )
            heads = ("group", self.quantity, "low", "high")
            body = [
                tag("table", tag("thead", tag("tr", *(tag("th", h) for h in heads))), tag("tbody", *lines)),
                *([tag("p", f"and {len(rows) - _MOST_LINES} more")] if len(rows) > _MOST_LINES else []),
            ]
        p = [] if self.p_value is None else [tag("p", f"p = {self.p_value:.3g}")]
        return fragment(*body, *p, Html(self.privacy._repr_html_()))
