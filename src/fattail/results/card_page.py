"""The privacy card as a page: one HTML fragment without scripts, fonts or pictures from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fattail import __version__
from fattail._tools.escape import Html, fragment, style, tag
from fattail.privacy import PrivacyReport

if TYPE_CHECKING:
    from fattail.results.card import Card, Result

# Tables show at most this many results, the largest in absolute value.
_MOST_RESULTS = 60


def card_html(card: Card) -> Html:
    """The page of a card."""
    r = card.report
    facts = (
        _fact("epsilon", f"{r.epsilon:g}", "privacy loss claimed"),
        _fact("delta", f"{r.delta:g}", "probability outside the claim"),
        _fact("unit", r.protected, f"neighbors: {r.relation}, number of {r.unit}s {_PUBLIC.get(r.relation, '')}"),
        _fact("numerics", r.numerics, _NUMERICS.get(r.numerics)),
        _fact("noise", "seeded" if r.seeded else "secure", "not private" if r.seeded else "drawn by the operating system"),
        *(_fact(k, _number(v)) for k, v in card.facts.items()),
    )
    parts = [
        tag("h1", card.title),
        tag("p", card.claim, class_="alarm" if r.seeded else "claim"),
        tag("dl", *facts, class_="facts"),
    ]
    if card.results:
        parts += [tag("h2", f"Released {card.quantity}s"), _results_table(card.results, card.quantity, card.interval_name)]
    parts += [tag("h2", "Where the budget went"), _releases_table(r)]
    if card.account:
        parts += [tag("h2", "Budget left"), _account_bar(card.account)]
    if card.notes:
        parts += [tag("h2", "Notes"), tag("ul", *(tag("li", note) for note in card.notes))]
    footer = f"fattail {__version__}. Everything on this page is a release or public arithmetic on one."
    return fragment(style(_CSS), tag("main", *parts, tag("footer", footer), class_="fattail-card"))


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
    """The interval, with zero in the middle; each column has its own scale, because units differ."""
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
