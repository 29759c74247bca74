"""Pictures of a panel: one small SVG per facet, so that they stack on a phone and stand side by side on paper."""

from __future__ import annotations

import io
import itertools
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, NullFormatter

from reproduction.results import Results, Series
from reproduction.spec import Method, Panel, Setting, apply

# Hue says family, shade and marker tell methods of one family apart.
HUES = {
    "printed": ("#c1531b", "#e0902f", "#8c2d04", "#b98a00"),
    "calibrated": ("#0b5fa5", "#4f9fd6", "#5a4fb0", "#138a8a", "#8fb8de", "#33557a"),
    "auto": ("#1c7c2c",),
    "not private": ("#6b7280", "#9ca3af"),
}
MARKERS = "osD^vP"
RC = {"svg.fonttype": "none", "svg.hashsalt": "fattail", "font.family": "sans-serif", "font.size": 9}


def style(panel: Panel) -> dict[str, dict[str, Any]]:
    """Color, marker and line of every method; what is not private is not drawn solid."""
    out: dict[str, dict[str, Any]] = {}
    counters = {family: itertools.count() for family in HUES}
    for method in panel.methods:
        i = next(counters[method.family])
        hues = HUES[method.family]
        out[method.label] = {
            "color": hues[i % len(hues)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": {True: "-", False: "--"}[method.private] if method.family != "not private" else ":",
            "linewidth": 2.0 if method.family == "auto" else 1.4,
        }
    return out


def pictures(results: Results) -> list[tuple[str, str]]:
    """Title and SVG source of each facet, all on the same vertical scale."""
    panel = results.panel
    facets = panel.grid[panel.facet] if panel.facet else (None,)
    limits = _limits(results)
    out = []
    for facet in facets:
        curves = [s for s in results.series if s.facet == facet]
        if curves:
            title = f"{panel.facet} = {number(facet)}" if panel.facet else ""
            out.append((title, _picture(panel, facet, curves, limits)))
    return out


def _picture(panel: Panel, facet: Any, curves: list[Series], limits: tuple[float, float]) -> str:
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(3.7, 2.8), layout="constrained")
        ax = figure.subplots()
        styles = style(panel)
        for s in curves:
            _curve(ax, s, styles[s.method.label], numeric=_numeric(panel))
        if panel.bound is not None:
            xs = curves[0].x
            setting = {**panel.base, **({panel.facet: facet} if panel.facet else {})}
            floor = [_bounds(panel, {**setting, panel.x: x}) for x in xs]
            ax.plot(xs, floor, color="#111827", linewidth=1, linestyle=(0, (1, 1)))
        _axes(ax, panel, curves[0].x, limits)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _curve(ax: Any, s: Series, look: dict[str, Any], numeric: bool) -> None:
    x = np.asarray(s.x, dtype=float) if numeric else np.arange(len(s.x))
    every = max(1, len(x) // 8)
    ax.plot(x, s.median, markersize=3.5, markevery=every, **look)
    if s.errors.shape[1] > 1:
        ax.fill_between(x, s.quantile(0.25), s.quantile(0.75), color=look["color"], alpha=0.13, linewidth=0)


def _axes(ax: Any, panel: Panel, xs: tuple[Any, ...], limits: tuple[float, float]) -> None:
    ax.set(yscale="log", xlabel=panel.x.replace("_", " "), ylabel=panel.error, ylim=limits)
    if not _numeric(panel):
        ax.set_xticks(range(len(xs)), [number(x) for x in xs])
    elif panel.x != "iteration" and min(xs) > 0 and max(xs) / min(xs) >= 4:
        ax.set_xscale("log")
        ax.set_xticks(xs, [number(x) for x in xs])
        ax.xaxis.set_minor_formatter(NullFormatter())
    if limits[1] / limits[0] < 30:
        ax.yaxis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(2, 0.6)))
        ax.yaxis.set_major_formatter(LogFormatterSciNotation())
    ax.tick_params(axis="y", which="minor", labelsize=7)
    ax.grid(True, which="major", color="#e5e7eb", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _limits(results: Results) -> tuple[float, float]:
    """A common scale that shows everything within a factor 2000 of the best, and a bound not too far below."""
    best = max(min(float(s.quantile(0.25).min()) for s in results.series), 1e-9)
    high = max(float(s.quantile(0.75).max()) for s in results.series)
    low = best
    if results.panel.bound is not None:
        low = max(min(_bounds(results.panel, point) for point in results.panel.points()), best / 30)
    return min(low, best) * 0.8, min(high * 1.25, best * 2000)


def _bounds(panel: Panel, setting: Setting) -> float:
    assert panel.bound is not None
    return float(apply(panel.bound, setting))


def _numeric(panel: Panel) -> bool:
    return panel.x == "iteration" or all(isinstance(v, int | float) for v in panel.grid[panel.x])


def swatch(method: Method, look: dict[str, Any]) -> str:
    """A line of the legend, as inline SVG."""
    dash = {"-": "", "--": "5 3", ":": "1.5 2.5"}[look["linestyle"]]
    width = look["linewidth"] * 1.3
    return (
        f'<svg width="30" height="10" aria-hidden="true"><line x1="1" y1="5" x2="29" y2="5" stroke="{look["color"]}" '
        f'stroke-width="{width}" stroke-dasharray="{dash}"/></svg>'
    )


def number(value: Any) -> str:
    """Short form of a setting's value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if value >= 10_000 and value % 1000 == 0:
        return f"{value // 1000:g}k"
    return f"{value:g}"
