"""The privacy card: one page with the guarantee, what was spent, and the results.

A card is made of a ``PrivacyReport``, fitted attributes and an account's public limits, all
of which are releases or public arithmetic, so nothing on it is private.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fattail import __version__
from fattail._tools.escape import Html, document
from fattail.privacy import PrivacyReport
from fattail.results.card_page import card_html
from fattail.results.release import Release
from fattail.results.summary import INTERCEPT, Summary

SCHEMA = "fattail-card/1"


@dataclass(frozen=True)
class Result:
    """One released number and, where the method gives them, its interval, standard error and p-value."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    error: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class Card:
    """A privacy card.

    Parameters
    ----------
    title : str
    report : PrivacyReport
    results : sequence of Result
        Released numbers.
    quantity : str
        What ``results`` are: "mean", "coefficient".
    confidence : float, optional
        Level of the intervals.
    facts : mapping
        Public facts to show, such as rows, method, file name.
    account : mapping, optional
        ``name``, ``epsilon``, ``delta``, ``spent``, ``remaining`` of the ledger account.
    notes : sequence of str
        Sentences for the end of the page, from releases and public arithmetic only.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> from fattail.results.card import Card
    >>> claims = np.random.default_rng(0).pareto(1.8, (5000, 1))
    >>> model = fattail.DPMean(epsilon=1.0, random_state=0).fit(claims)
    >>> card = Card.of(model, names=["claim"], facts={"rows": 5000})
    >>> card.claim  # because of the seed
    'Not private. The noise came from a seed, ...'
    >>> "<html" in card.to_html()
    True
    """

    title: str
    report: PrivacyReport
    results: tuple[Result, ...] = ()
    quantity: str = "value"
    confidence: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    account: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        estimator: Any,
        *,
        names: Sequence[str] | None = None,
        title: str | None = None,
        facts: Mapping[str, Any] | None = None,
        account: Any = None,
        notes: Sequence[str] = (),
    ) -> Card:
        """The card of a fitted estimator, or of a `Release` such as ``fattail.mean(..., by="region")``.

        ``names`` are those of columns, by default those of the frame that was fitted, or of values that are not of groups;
        ``account`` is the one that was charged, if any.
        """
        if not isinstance(estimator, Release) and not hasattr(estimator, "privacy_"):
            raise ValueError(
                f"a card is made of a fitted estimator or of a release, got {type(estimator).__name__} without a fit"
            )
        if isinstance(estimator, Release):
            confidence: float | None = estimator.confidence
            subject, report = estimator.quantity, estimator.privacy
            quantity, results = estimator.quantity, _results_of_release(estimator, names)
            about = dict(facts or {}) | ({} if estimator.p_value is None else {"p-value": estimator.p_value})
        else:
            subject, report = type(estimator).__name__, estimator.privacy_
            confidence = getattr(estimator, "confidence", 0.95 if hasattr(estimator, "interval_") else None)
            names = _names(estimator, names)
            quantity, results = _results(estimator, names)
            about = {"estimator": subject, "method": estimator.method} | dict(facts or {})
        card_title = title or f"{subject}: privacy card"
        return cls(card_title, report, results, quantity, confidence, about, _limits(account), tuple(notes))

    @property
    def claim(self) -> str:
        """The guarantee in plain words."""
        r = self.report
        if r.seeded:
            return (
                "Not private. The noise came from a seed, for a reproducible experiment: whoever knows the seed can "
                "subtract it. Fit again without one before you share this page."
            )
        return (
            f"{_neighbors(r.protected, r.relation)}: no outcome of this computation becomes more than "
            f"{math.exp(min(r.epsilon, 700.0)):.3g} times as likely, or as unlikely, up to a total probability of {r.delta:g}. "
            f"Someone who knows all other {r.unit}s and finds two contents of this one equally likely is at most "
            f"{100 * _posterior(r.epsilon):.0f} % sure of either after reading this page. What many people have in common "
            f"can be learned from it. The promise holds for any data: no bound, no distribution and no absence of "
            f"outliers is assumed."
        )

    @property
    def interval_name(self) -> str:
        return "interval" if self.confidence is None else f"{100 * self.confidence:g} % interval"

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return {
            "schema": SCHEMA,
            "fattail": __version__,
            "title": self.title,
            "claim": self.claim,
            "facts": dict(self.facts),
            "privacy": self.report.to_dict(),
            "account": dict(self.account) if self.account else None,
            "quantity": self.quantity,
            "confidence": self.confidence,
            # JSON has no infinity: an open end is null.
            "results": [_plain(r) for r in self.results],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def to_html(self) -> str:
        """One self-contained page: no scripts, no fonts or pictures from elsewhere."""
        return document(self.title, Html(self._repr_html_()))

    @staticmethod
    def paths(path: Any) -> tuple[Path, Path]:
        """The files that ``save`` writes: the page, and the same as JSON beside it."""
        page = Path(path).with_suffix(".html")
        return page, page.with_suffix(".json")

    def save(self, path: Any) -> tuple[Path, Path]:
        """Write ``path`` (HTML) and, beside it, the same as JSON."""
        page, data = self.paths(path)
        page.write_text(self.to_html(), encoding="utf-8")
        data.write_text(self.to_json(), encoding="utf-8")
        return page, data

    def _repr_html_(self) -> str:
        return card_html(self)


def _limits(account: Any) -> dict[str, Any] | None:
    if account is None:
        return None
    return {k: getattr(account, k) for k in ("name", "epsilon", "delta", "spent", "remaining") if hasattr(account, k)}


def _plain(result: Result) -> dict[str, Any]:
    """A result in plain types; errors and p-values only where the method gives them."""
    found = {k: v for k, v in asdict(result).items() if k not in ("error", "p") or v is not None}
    return {k: v if k == "name" or _finite(v) else None for k, v in found.items()}


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _posterior(epsilon: float) -> float:
    return 1.0 / (1.0 + math.exp(-epsilon))


def _results_of_release(release: Release, names: Sequence[str] | None) -> tuple[Result, ...]:
    """The values of a statistic, by group or by the given names."""
    rows = release.rows()
    labels = [str(row[0]) for row in rows] if release.groups is not None or names is None else names
    return tuple(Result(name, *row[1:]) for name, row in zip(labels, rows, strict=True))


def _names(estimator: Any, names: Sequence[str] | None) -> Sequence[str] | None:
    """The given names of columns, one for each; by default those of the frame that the estimator was fitted to."""
    columns = getattr(estimator, "n_features_in_", None)
    if names is None:
        return getattr(estimator, "feature_names_in_", None)
    if columns is not None and len(names) != columns:
        raise ValueError(f"names must name each of the {columns} columns of the model, got {len(names)}: {list(names)}")
    return names


def _results(estimator: Any, names: Sequence[str] | None) -> tuple[str, tuple[Result, ...]]:
    """Means with intervals, centers of groups, or coefficients (the non-zero ones, with the intercept)."""
    if hasattr(estimator, "means_"):
        labels = names if names is not None else [f"x{j}" for j in range(np.shape(estimator.means_)[1])]
        return "center", tuple(
            Result(f"{n}, group {k + 1}", float(v))
            for k, center in enumerate(estimator.means_)
            for n, v in zip(labels, center, strict=True)
        )
    if not hasattr(estimator, "mean_"):
        return "coefficient", _coefficients(estimator, names)
    values = np.ravel(estimator.mean_).astype(float)
    ends = np.asarray(getattr(estimator, "interval_", np.full((values.size, 2), np.nan)), dtype=float).reshape(-1, 2)
    labels = names if names is not None else [f"column {j}" for j in range(values.size)]
    return "mean", tuple(Result(str(n), float(v), *_known(*e)) for n, v, e in zip(labels, values, ends, strict=True))


def _coefficients(estimator: Any, names: Sequence[str] | None) -> tuple[Result, ...]:
    """The rows of a model's summary; for models that have none, its coefficients."""
    labels = names if names is not None else [f"x{j}" for j in range(np.size(estimator.coef_))]
    if not hasattr(estimator, "summary"):
        found = [Result(str(n), float(v)) for n, v in zip(labels, np.ravel(estimator.coef_), strict=True) if v != 0]
        return (*found, *(Result(INTERCEPT, float(v)) for v in np.ravel(getattr(estimator, "intercept_", ()))))
    table = Summary.of(estimator, labels, getattr(estimator, "confidence", 0.95), joint=False)
    rows = zip(table.low, table.high, table.standard_error, table.p, strict=True)
    return tuple(Result(n, float(v), *_known(*r)) for n, v, r in zip(table.names, table.coefficient, rows, strict=True))


def _known(*numbers: float) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(v) else float(v) for v in numbers)


def _neighbors(unit: str, relation: str) -> str:
    """The neighbor relation, as the beginning of a sentence."""
    who = f"{unit}, with all their rows," if unit.startswith("person") else unit
    if relation == "add-remove":
        return f"Add any one {who} to the data, or take one away"
    return f"Replace any one {who} of the data by anything"
