"""The table of a fitted linear model: coefficients, standard errors, tests and intervals.

Everything in it is a release or public arithmetic on one, so printing it costs no budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from fattail._tools.escape import Html, for_terminal, fragment, tag
from fattail._tools.extras import extra

Floats = NDArray[np.float64]

INTERCEPT = "intercept"
CONFIDENCE = 0.95
"""The usual level of intervals."""
_MOST_LINES = 60
"""Rows of the text and the page; ``to_frame`` has all of them."""
_HEAD = ("", "coefficient", "std. error", "z", "p", "low", "high")


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Coefficients of a private linear model, with standard errors and intervals.

    Attributes
    ----------
    names : tuple of str
        Columns, and last the intercept where one was fitted.
    coefficient, standard_error : arrays
        A standard error includes sampling and privacy noise. It is NaN where the method gives none, and infinite for a column
        whose spread is not visible above the noise.
    confidence : float
        Level of the intervals.
    joint : bool
        Whether all intervals cover at once with this confidence, instead of each by itself.
    title : str

    Notes
    -----
    Joint intervals use the level ``confidence ** (1 / k)`` for k coefficients with a standard error. For normal errors that is
    enough whatever their correlations (Sidak 1967).

    Examples
    --------
    >>> table = Summary(("age",), np.array([2.0]), np.array([0.5]), 0.95)
    >>> table.z, table.p.round(5), table.high.round(2)
    (array([4.]), array([6.e-05]), array([2.98]))
    """

    names: tuple[str, ...]
    coefficient: Floats
    standard_error: Floats
    confidence: float = CONFIDENCE
    joint: bool = False
    title: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, got {self.confidence!r}")

    @classmethod
    def of(cls, model: Any, names: Sequence[str], confidence: float, joint: bool) -> Summary:
        """The table of a fitted model; coefficients that a sparse model set to zero are left out."""
        coefficient = np.ravel(model.coef_)
        error = np.ravel(getattr(model, "standard_errors_", np.full(coefficient.size, math.nan)))
        shown = np.asarray(getattr(model, "support_", np.arange(coefficient.size)))
        rows = [(str(names[j]), coefficient[j], error[j]) for j in shown]
        if model.fit_intercept:
            last = getattr(model, "intercept_standard_error_", math.nan)
            rows.append((INTERCEPT, float(np.ravel(model.intercept_)[0]), float(last)))
        report = model.privacy_
        title = (
            f"{type(model).__name__}(method={model.method!r}): {len(shown)} of {coefficient.size} columns, "
            f"({report.epsilon:g}, {report.delta:g})-differentially private, unit {report.protected}, {report.relation}"
        )
        labels, values, errors = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(labels, np.array(values, dtype=float), np.array(errors, dtype=float), confidence, joint, title)

    @property
    def z(self) -> Floats:
        """Coefficients in standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.coefficient / self.standard_error)

    @property
    def p(self) -> Floats:
        """Two-sided p-values of the hypothesis that a coefficient is zero."""
        return np.asarray(2 * ndtr(-np.abs(self.z)))

    @property
    def low(self) -> Floats:
        """Lower ends of the intervals."""
        return self.coefficient - self._reach()

    @property
    def high(self) -> Floats:
        """Upper ends of the intervals."""
        return self.coefficient + self._reach()

    def _reach(self) -> Floats:
        known = int(np.isfinite(self.standard_error).sum())
        level = self.confidence ** (1 / max(known, 1)) if self.joint else self.confidence
        return float(ndtri((1 + level) / 2)) * self.standard_error

    def to_frame(self) -> Any:
        """A pandas data frame with a row per coefficient."""
        pd = extra("pandas", "frames")
        columns = ("coefficient", "standard_error", "z", "p", "low", "high")
        return pd.DataFrame({name: getattr(self, name) for name in columns}, index=pd.Index(self.names, name="column"))

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        cells = [tuple(for_terminal(cell) for cell in row) for row in (_HEAD, *self._rows())]
        widths = [max(len(row[k]) for row in cells) for k in range(len(_HEAD))]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in cells]
        return "\n".join([for_terminal(self.title), *lines, *self._remarks()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = tag("tr", *(tag("th", name) for name in _HEAD))
        body = (tag("tr", tag("th", row[0]), *(tag("td", cell) for cell in row[1:])) for row in self._rows())
        table = tag("table", tag("thead", head), tag("tbody", *body))
        return fragment(tag("p", self.title), table, Html(fragment(*(tag("p", line) for line in self._remarks()))))

    def _rows(self) -> list[tuple[str, ...]]:
        """Cells of the lines that are shown: all, or those with the largest coefficients in standard errors."""
        size = np.nan_to_num(np.abs(self.z), nan=-1.0)
        shown = np.sort(np.argsort(-size, kind="stable")[:_MOST_LINES]) if len(self) > _MOST_LINES else np.arange(len(self))
        numbers = (self.coefficient, self.standard_error, self.z, self.p, self.low, self.high)
        return [(self.names[j], *(_number(column[j]) for column in numbers)) for j in shown]

    def _remarks(self) -> list[str]:
        together = "all intervals together" if self.joint else "each interval by itself"
        lines = [f"{100 * self.confidence:g} % intervals ({together}); errors include sampling and privacy noise"]
        if len(self) > _MOST_LINES:
            lines.append(f"{len(self) - _MOST_LINES} more coefficients, smaller beside their error: see to_frame()")
        if np.isnan(self.standard_error).any():
            lines.append("nan: this method gives no standard error")
        if np.isinf(self.standard_error).any():
            lines.append("inf: the noise hides the spread of this column, or the method estimates no error")
        return lines


def _number(value: float) -> str:
    return f"{value:.4g}"
