"""The privacy card: one page that says what was promised, what was spent and what came out.

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
from fattail._tools.escape import Html, document, fragment, style, tag
from fattail.privacy import PrivacyReport
from fattail.results.release import Release
from fattail.results.summary import INTERCEPT, Summary

SCHEMA = "fattail-card/1"
# More rows than this are cut to the largest in size; a sparse model has few anyway.
_MOST_RESULTS = 60


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
        Public facts worth a line: rows, method, file name.
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
        """The card of a fitted estimator, or of a `Release`; ``account`` is the one it was charged to, if any."""
        if isinstance(estimator, Release):
            return cls.of_release(estimator, names=names, title=title, facts=facts, account=account, notes=notes)
        quantity, results = _results(estimator, names)
        about = {"estimator": type(estimator).__name__, "method": estimator.method} | dict(facts or {})
        limits = _limits(account)
        return cls(
            title or f"{type(estimator).__name__}: privacy card",
            estimator.privacy_,
            results,
            quantity,
            getattr(estimator, "confidence", 0.95 if hasattr(estimator, "interval_") else None),
            about,
            limits,
            tuple(notes),
        )

    @classmethod
    def of_release(
        cls,
        release: Release,
        *,
        names: Sequence[str] | None = None,
        title: str | None = None,
        facts: Mapping[str, Any] | None = None,
        account: Any = None,
        notes: Sequence[str] = (),
    ) -> Card:
        """The card of a statistic, such as ``fattail.mean(..., by="region")``; ``names`` of values that are not of groups."""
        rows = release.rows()
        labels = [str(row[0]) for row in rows] if release.groups is not None or names is None else names
        results = tuple(Result(name, *row[1:]) for name, row in zip(labels, rows, strict=True))
        about = dict(facts or {}) | ({} if release.p_value is None else {"p-value": release.p_value})
        card_title = title or f"{release.quantity}: privacy card"
        limits = _limits(account)
        return cls(card_title, release.privacy, results, release.quantity, release.confidence, about, limits, tuple(notes))

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
            f"{_neighbors(r.unit, r.relation)}: no outcome of this computation becomes more than "
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
        r = self.report
        facts = (
            _fact("epsilon", f"{r.epsilon:g}", "privacy loss claimed"),
            _fact("delta", f"{r.delta:g}", "probability outside the claim"),
            _fact("unit", r.unit, f"neighbors: {r.relation}, number of {r.unit}s {_PUBLIC.get(r.relation, '')}"),
            _fact("numerics", r.numerics, _NUMERICS.get(r.numerics)),
            _fact("noise", "seeded" if r.seeded else "secure", "not private" if r.seeded else "drawn by the operating system"),
            *(_fact(k, _number(v)) for k, v in self.facts.items()),
        )
        parts = [
            tag("h1", self.title),
            tag("p", self.claim, class_="alarm" if r.seeded else "claim"),
            tag("dl", *facts, class_="facts"),
        ]
        if self.results:
            parts += [tag("h2", f"Released {self.quantity}s"), _results_table(self.results, self.quantity, self.interval_name)]
        parts += [tag("h2", "Where the budget went"), _releases_table(r)]
        if self.account:
            parts += [tag("h2", "Budget left"), _account_bar(self.account)]
        if self.notes:
            parts += [tag("h2", "Notes"), tag("ul", *(tag("li", note) for note in self.notes))]
        footer = f"fattail {__version__}. Everything on this page is a release or public arithmetic on one."
        return fragment(style(_CSS), tag("main", *parts, tag("footer", footer), class_="fattail-card"))


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


def _results(estimator: Any, names: Sequence[str] | None) -> tuple[str, tuple[Result, ...]]:
    """Means with intervals, centers of groups, or coefficients (the non-zero ones, with the intercept)."""
    if hasattr(estimator, "means_"):
        labels = names or [f"x{j}" for j in range(np.shape(estimator.means_)[1])]
        return "center", tuple(
            Result(f"{n}, group {k + 1}", float(v))
            for k, center in enumerate(estimator.means_)
            for n, v in zip(labels, center, strict=True)
        )
    if not hasattr(estimator, "mean_"):
        return "coefficient", _coefficients(estimator, names)
    values = np.ravel(estimator.mean_).astype(float)
    ends = np.asarray(getattr(estimator, "interval_", np.full((values.size, 2), np.nan)), dtype=float).reshape(-1, 2)
    labels = names or [f"column {j}" for j in range(values.size)]
    return "mean", tuple(Result(str(n), float(v), *_known(*e)) for n, v, e in zip(labels, values, ends, strict=True))


def _coefficients(estimator: Any, names: Sequence[str] | None) -> tuple[Result, ...]:
    """The rows of a model's summary; for models that have none, its coefficients."""
    labels = names or [f"x{j}" for j in range(np.size(estimator.coef_))]
    if not hasattr(estimator, "summary"):
        found = [Result(str(n), float(v)) for n, v in zip(labels, np.ravel(estimator.coef_), strict=True) if v != 0]
        return (*found, *(Result(INTERCEPT, float(v)) for v in np.ravel(getattr(estimator, "intercept_", ()))))
    table = Summary.of(estimator, labels, getattr(estimator, "confidence", 0.95), joint=False)
    rows = zip(table.low, table.high, table.standard_error, table.p, strict=True)
    return tuple(Result(n, float(v), *_known(*r)) for n, v, r in zip(table.names, table.coefficient, rows, strict=True))


def _known(*numbers: float) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(v) else float(v) for v in numbers)


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{float(value):.4g}"


def _fact(name: str, value: str, note: str | None = None) -> Html:
    return tag("div", tag("dt", name), tag("dd", value, tag("small", note) if note else None))


def _table(heads: Sequence[str], rows: Sequence[Html]) -> Html:
    head = tag("thead", tag("tr", *(tag("th", h) for h in heads)))
    return tag("div", tag("table", head, tag("tbody", *rows)), class_="scroll")


def _results_table(results: Sequence[Result], quantity: str, interval: str) -> Html:
    shown = sorted(results, key=lambda r: -abs(r.value))[:_MOST_RESULTS] if len(results) > _MOST_RESULTS else results
    intervals = any(r.low is not None for r in shown)
    tested = any(r.error is not None for r in shown)
    largest = max((abs(r.value) for r in shown), default=0.0)
    rows = []
    for r in shown:
        ends = tag("td", "" if r.low is None else f"{r.low:.5g} to {r.high:.5g}") if intervals else None
        tests = [tag("td", _shown(v)) for v in (r.error, r.p)] if tested else []
        picture = _interval_plot(r) if intervals else _stem_plot(r, largest)
        rows.append(tag("tr", tag("th", r.name), tag("td", f"{r.value:.5g}"), *tests, ends, tag("td", picture, class_="bar")))
    heads = ["", quantity, *(["std. error", "p"] if tested else [])]
    heads += [interval, "each on its own scale, line at 0"] if intervals else [""]
    rest = tag("p", f"The {len(shown)} largest of {len(results):,}; all are in the JSON.") if len(shown) < len(results) else None
    return fragment(_table(heads, rows), rest)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _interval_plot(r: Result) -> Html | None:
    """Zero in the middle and the interval to scale, since columns are in different units."""
    if r.low is None or r.high is None:
        return None
    reach = max((abs(v) for v in (r.value, r.low, r.high) if math.isfinite(v)), default=0.0)
    return _plot(max(r.low, -reach), min(r.high, reach), r.value, -reach, reach)


def _stem_plot(r: Result, largest: float) -> Html:
    return _plot(min(r.value, 0.0), max(r.value, 0.0), r.value, -largest, largest)


def _plot(low: float, high: float, value: float, left: float, right: float) -> Html:
    span = (right - left) or 1.0
    start, stop, dot = (100 * (v - left) / span for v in (low, high, value))
    return tag(
        "div",
        tag("i", class_="axis", style="left:50%"),
        tag("i", class_="whisker", style=f"left:{start:.2f}%;width:{stop - start:.2f}%"),
        tag("i", class_="dot", style=f"left:{dot:.2f}%"),
        class_="plot",
    )


def _share(percent: float, class_: str = "share") -> Html:
    return tag("div", tag("i", style=f"width:{percent:.2f}%"), class_=class_)


def _releases_table(report: PrivacyReport) -> Html:
    rows = [
        tag(
            "tr",
            tag("th", r.name),
            tag("td", f"{r.mechanism} \u00d7 {r.count}", class_="whole"),
            tag("td", "private" if r.sensitivity is None else f"{r.sensitivity:.4g}"),
            tag("td", "follows the data, kept private" if r.noise is None else f"{r.noise:.4g}"),
            tag("td", _share(100 * r.share), f"{100 * r.share:.1f} %", class_="bar"),
        )
        for r in report.releases
    ]
    cost = f"Proved cost of all releases together: epsilon {report.epsilon_spent:.6g} at delta {report.delta:g}."
    return fragment(_table(("release", "mechanism", "most one row can move it", "noise", "share"), rows), tag("p", cost))


def _account_bar(account: Mapping[str, Any]) -> Html:
    sentence = (
        f": epsilon {account['spent']:.4g} of {account['epsilon']:g} is spent (delta {account['delta']:g}), "
        f"{account['remaining']:.4g} is left for everything else that will ever be asked."
    )
    return fragment(
        _share(100 * min(account["spent"] / account["epsilon"], 1.0), "share tall"),
        tag("p", "Account ", tag("b", account.get("name", "this session")), sentence),
    )


def _neighbors(unit: str, relation: str) -> str:
    """What a neighbor of the data is, as the beginning of a sentence."""
    who = "person, with all their rows," if unit == "person" else unit
    if relation == "add-remove":
        return f"Add any one {who} to the data, or take one away"
    return f"Replace any one {who} of the data by anything"


_PUBLIC = {"replace-one": "public", "add-remove": "private"}

_NUMERICS = {
    "exact": "exact sums and exact sampling; no rounding gap in the proof",
    "idealized": "the proof treats floating-point numbers as reals",
}

_CSS = """
.fattail-card{--ink:#1d2733;--soft:#5b6775;--line:#d9dfe6;--fill:#f4f6f9;--mark:#0b6e99;--paper:#fff;--alarm:#a3200d;
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--paper);
 max-width:46rem;margin:0 auto;padding:1.5rem 1.2rem 2rem;box-sizing:border-box}
@media (prefers-color-scheme:dark){.fattail-card{--ink:#e6eaef;--soft:#a3adb8;--line:#3a444f;--fill:#222a33;--mark:#5fb8e0;
 --paper:#171c22;--alarm:#ff8f7d} :root:has(.fattail-card){background:#171c22}}
@media print{.fattail-card{--ink:#000;--soft:#444;--line:#bbb;--fill:#f4f4f4;--mark:#0b6e99;--paper:#fff;max-width:none;padding:0}
 .fattail-card tr,.fattail-card dl{break-inside:avoid}.fattail-card *{print-color-adjust:exact}}
body:has(>.fattail-card){margin:0}
.fattail-card h1{font-size:1.55rem;line-height:1.25;margin:.2rem 0 1rem}
.fattail-card h2{font-size:1.1rem;margin:2rem 0 .6rem}
.fattail-card .claim{border-left:4px solid var(--mark);padding:.2rem 0 .2rem 1rem;margin:0 0 1.2rem}
.fattail-card .alarm{border:2px solid var(--alarm);color:var(--alarm);padding:.7rem 1rem;border-radius:6px;margin-bottom:1.2rem}
.fattail-card .facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(10rem,1fr));gap:.6rem;margin:0}
.fattail-card .facts div{background:var(--fill);border-radius:6px;padding:.5rem .7rem}
.fattail-card dt{color:var(--soft);font-size:.8rem}
.fattail-card dd{margin:0;font-weight:600;font-size:.9rem;overflow-wrap:anywhere}
.fattail-card small{display:block;font-weight:400;color:var(--soft);font-size:.75rem;line-height:1.3}
.fattail-card .scroll{overflow-x:auto}
.fattail-card table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
.fattail-card th,.fattail-card td{text-align:right;padding:.35rem .5rem;border-bottom:1px solid var(--line);background:none}
.fattail-card thead th{color:var(--soft);font-weight:400;font-size:.8rem;vertical-align:bottom}
.fattail-card th:first-child{text-align:left}.fattail-card tbody th{font-weight:600;overflow-wrap:anywhere}
.fattail-card .whole{white-space:nowrap}
.fattail-card td.bar{width:32%;min-width:7rem}
.fattail-card .plot{position:relative;height:1.1rem;margin:0 .4rem}.fattail-card .plot i{position:absolute;display:block}
.fattail-card .axis{top:-.35rem;bottom:-.35rem;width:1px;background:var(--line)}
.fattail-card .whisker{top:calc(50% - 1px);height:2px;background:var(--mark)}
.fattail-card .dot{top:calc(50% - .25rem);width:.5rem;height:.5rem;margin-left:-.25rem;border-radius:50%;background:var(--mark)}
.fattail-card .share{background:var(--fill);border-radius:4px;height:.6rem;overflow:hidden}
.fattail-card .share i{display:block;height:100%;background:var(--mark)}.fattail-card .tall{height:1.1rem}
.fattail-card p{margin:.5rem 0}.fattail-card footer{color:var(--soft);font-size:.8rem;margin-top:2rem}
"""
