"""``report/index.html``: every panel with its pictures, verdict, claims and a link to its numbers."""

from __future__ import annotations

import base64
import csv
from collections.abc import Sequence
from html import escape
from pathlib import Path

from reproduction import draw
from reproduction.claims import Check
from reproduction.page import page, table
from reproduction.results import Results
from reproduction.spec import Method, Panel
from reproduction.verdict import checks, verdict

PAPERS = {
    "wang2020": "Heavy-tailed stochastic convex optimization (Wang, Xiao, Devadas, Xu, ICML 2020)",
    "dpem2020": "Private gradient EM (Wang, Ding, Hu, Xie, Pan, Xu, 2020)",
    "wanggu2020": "Sparse learning by knowledge transfer (Wang and Gu, AAAI 2020)",
    "tian2025": "Sparse regression with heavy-tailed responses (Tian and others, ECML 2025)",
    "tao2022": "Heavy tails revisited: optimization and sparse learning (Tao, Wu, Cheng, Wang, IJCAI 2022), theorems as plots",
}


def write(
    folder: Path, results: Sequence[Results], skipped: Sequence[tuple[Panel, str]], failures: Sequence[str], note: str
) -> Path:
    """Write the page and the CSV files; give the page's path."""
    for r in results:
        r.write(folder / "csv" / f"{r.panel.key}.csv")
    every = {r.panel.key: checks(r) for r in results}
    _write_claims(folder / "csv" / "claims.csv", every)
    papers = [key for key in PAPERS if any(r.panel.paper == key for r in results) or any(p.paper == key for p, _ in skipped)]
    body = [
        "<h1>The papers, run again</h1>",
        '<p class="lead">Every figure and table of the five papers behind the library, in three families: as '
        "printed, calibrated by this library, and told nothing (<b>auto</b>). Curves are medians over trials, bands the "
        "middle half. Dashed: claims privacy but does not have it. Dotted: no privacy. Noise is seeded here, so these "
        "runs can be repeated and are not themselves private.</p>",
        f'<p class="small">{escape(note)}</p>',
        "<nav>" + "".join(f'<a href="#{key}">{key}</a>' for key in papers) + "</nav>",
        _summary(papers, results, every) + '<p class="small"><a href="csv/claims.csv">all claims (CSV)</a></p>',
    ]
    for key in papers:
        body.append(f'<h2 id="{key}">{key}</h2><p class="lead">{escape(PAPERS[key])}</p>')
        body += [_panel(r, every[r.panel.key]) for r in results if r.panel.paper == key]
        body += [_skipped(p, why) for p, why in skipped if p.paper == key]
    if failures:
        body.append("<h2>Cells that failed</h2><ul>" + "".join(f"<li>{escape(f)}</li>" for f in sorted(set(failures))) + "</ul>")
    path = folder / "index.html"
    path.write_text(page("fattail: the papers, run again", "".join(body)), encoding="utf-8")
    return path


def _write_claims(path: Path, every: dict[str, list[Check]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["panel", "source", "claim", "holds", "evidence"])
        out.writerows(
            [key, c.source, c.claim, "" if c.passed is None else c.passed, c.evidence] for key in every for c in every[key]
        )


def _summary(papers: Sequence[str], results: Sequence[Results], every: dict[str, list[Check]]) -> str:
    rows = []
    for key in papers:
        decided = [c for r in results if r.panel.paper == key for c in every[r.panel.key] if c.passed is not None]
        count = sum(r.panel.paper == key for r in results)
        held = [[bool(c.passed) for c in decided if c.source == source] for source in ("paper", "library")]
        rows.append([f'<a href="#{key}">{key}</a>', str(count), *(f"{sum(h)} of {len(h)}" for h in held)])
    return table(["paper", "panels", "its claims that hold", "ours"], rows)


def _panel(results: Results, decided: list[Check]) -> str:
    panel = results.panel
    if not results.series:
        return _skipped(panel, "no cell finished")
    styles = draw.style(panel)
    if panel.table:
        shown = _table(results)
    else:
        pictures = "".join(
            f'<figure><img alt="{escape(panel.title)} {escape(title)}" src="data:image/svg+xml;base64,{_encode(svg)}">'
            f"<figcaption>{escape(title)}</figcaption></figure>"
            for title, svg in draw.pictures(results)
        )
        shown = f'<div class="facets">{pictures}</div><ul class="legend">' + "".join(
            f"<li>{draw.swatch(m, styles[m.label])}{escape(m.label)}{_tag(m)}</li>" for m in panel.methods if results.of(m.label)
        )
        shown += "<li>⋯ lower bound, with the predicted slope</li></ul>" if panel.bound else "</ul>"
    trials = min(s.errors.shape[1] for s in results.series)
    return (
        f'<section class="panel" id="{panel.key}"><h3>{escape(_name(panel))}: {escape(panel.title)}</h3>'
        f'<p class="verdict">{escape(verdict(results))}</p>{shown}{_claims(decided)}'
        f'<p class="chosen">{trials} trials. {escape(_settings(panel))} {escape(panel.chosen)} '
        f'<a href="csv/{panel.key}.csv">numbers (CSV)</a></p></section>'
    )


def _table(results: Results) -> str:
    """Methods by settings: mean (standard deviation), with the paper's numbers beside."""
    panel = results.panel
    rows = []
    for method in panel.methods:
        curves = results.of(method.label)
        if not curves:
            continue
        cells = [f"{m:.3g} ({sd:.2g})" for m, sd in zip(curves[0].mean, curves[0].errors.std(axis=1), strict=True)]
        picked = [escape(", ".join(results.selected.get(method.label, ())))] if results.selected else []
        rows.append([f"{escape(method.label)}{_tag(method)}", *cells, *picked])
    rows += [[f'<span class="small">in print: {escape(k)}</span>', *map(escape, v)] for k, v in panel.in_print.items()]
    head = ["method", *(f"{panel.x} = {draw.number(x)}" for x in panel.grid[panel.x])]
    return table(head + (["most often selected"] if results.selected else []), rows, wrap=len(head) if results.selected else None)


def _claims(decided: list[Check]) -> str:
    words = {True: ("pass", "holds"), False: ("fail", "fails"), None: ("none", "—")}
    items = []
    for check in decided:
        kind, word = words[check.passed]
        claim = check.claim if check.source == "paper" else f"ours: {check.claim}"
        evidence = f'<span class="small">{escape(check.evidence)}</span>'
        items.append(f'<li><span class="{kind}">{word}</span><span>{escape(claim)} {evidence}</span></li>')
    return f'<ul class="claims">{"".join(items)}</ul>' if items else ""


def _skipped(panel: Panel, why: str) -> str:
    return (
        f'<section class="panel" id="{panel.key}"><h3>{escape(_name(panel))}: {escape(panel.title)}</h3>'
        f'<p class="chosen">Skipped: {escape(why)}</p></section>'
    )


def _name(panel: Panel) -> str:
    """``fig1a`` becomes ``Figure 1a``."""
    part = panel.key.split("-", 1)[1]
    for short, long in (("fig", "Figure "), ("table", "Table "), ("thm", "Theorem ")):
        if part.startswith(short):
            return long + part[len(short) :].replace("-", " ")
    return part


def _settings(panel: Panel) -> str:
    fixed = ", ".join(f"{k} = {draw.number(v)}" for k, v in panel.base.items())
    return f"Settings: {fixed}." if fixed else ""


def _tag(method: Method) -> str:
    if method.flaw:
        return f' <span class="tag">not private: {escape(method.flaw)}</span>'
    return ' <span class="tag">no privacy</span>' if method.family == "not private" else ""


def _encode(svg: str) -> str:
    return base64.b64encode(svg.encode()).decode()
