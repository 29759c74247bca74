"""Numbers of a panel, arranged for claims, pictures and CSV files."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.spec import Floats, Method, Panel, Setting, cell
from reproduction.store import Outcome, Store


@dataclass(frozen=True, eq=False)
class Series:
    """One curve: errors of shape (len(x), trials)."""

    method: Method
    facet: Any
    x: tuple[Any, ...]
    errors: Floats

    @property
    def median(self) -> Floats:
        return np.asarray(np.median(self.errors, axis=1))

    @property
    def mean(self) -> Floats:
        return np.asarray(np.mean(self.errors, axis=1))

    def quantile(self, q: float) -> Floats:
        return np.asarray(np.quantile(self.errors, q, axis=1))


@dataclass(frozen=True, eq=False)
class Results:
    """All curves of a panel."""

    panel: Panel
    series: tuple[Series, ...]
    selected: dict[str, tuple[str, ...]]
    seconds: float

    def of(self, label: str) -> tuple[Series, ...]:
        """Curves of one method, by facet; empty if it did not run."""
        return tuple(s for s in self.series if s.method.label == label)

    def medians(self, label: str) -> Floats:
        """Median errors over all points, in the grid's order; at the last iteration of a curve."""
        return self._flat(label, lambda s: s.median)

    def _flat(self, label: str, value: Any) -> Floats:
        curves = [value(s) for s in self.of(label)]
        return np.concatenate([c[-1:] if self.panel.x == "iteration" else c for c in curves]) if curves else np.empty(0)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row per number."""
        for s in self.series:
            for i, x in enumerate(s.x):
                for trial, error in enumerate(s.errors[i]):
                    facet = {self.panel.facet: s.facet} if self.panel.facet else {}
                    yield {
                        "panel": self.panel.key,
                        "method": s.method.label,
                        "family": s.method.family,
                        "private": s.method.private,
                        **facet,
                        self.panel.x: x,
                        "trial": trial,
                        "error": f"{error:.8g}",
                    }

    def write(self, path: Path) -> None:
        rows = list(self.rows())
        if not rows:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def collect(panel: Panel, store: Store) -> Results:
    """Read a panel's cells; points with no finished trial are left out."""
    series: list[Series] = []
    picks: dict[str, Counter[str]] = {}
    seconds = 0.0
    for method in panel.methods:
        for facet in panel.grid[panel.facet] if panel.facet else (None,):
            xs: list[Any] = []
            errors: list[list[float]] = []
            for setting in panel.points():
                if panel.facet and setting[panel.facet] != facet:
                    continue
                cells = [store.get(cell(panel, method, setting), trial) for trial in range(panel.trials)]
                done = [c for c in cells if c is not None]
                if not done:
                    continue
                seconds += sum(c.seconds for c in done)
                picks.setdefault(method.label, Counter()).update(name for c in done for name in c.selected)
                if panel.x == "iteration":
                    xs, errors = _curves(done, setting["n_iter"])
                else:
                    xs.append(setting[panel.x])
                    errors.append([c.errors[-1] for c in done])
            if xs:
                trials = min(map(len, errors))  # an interrupted run may have more at some points
                series.append(Series(method, facet, tuple(xs), np.array([e[:trials] for e in errors])))
    selected = {label: tuple(name for name, _ in counts.most_common(5)) for label, counts in picks.items() if counts}
    return Results(panel, tuple(series), selected, seconds)


def expected_seconds(panel: Panel, quick: Results) -> float:
    """Computing time of a panel, from its quick version: proportional to rows times columns."""
    points = list(panel.points())
    size = sum(_size(point) for point in points) * panel.trials
    base = sum(_size(point) for point in quick.panel.points()) * quick.panel.trials
    return quick.seconds * size / base


def _size(setting: Setting) -> float:
    return float(setting.get("n", 1)) * float(setting.get("d", setting.get("columns", 1)))


def _curves(runs: list[Outcome], n_iter: int) -> tuple[list[Any], list[list[float]]]:
    """Errors by iteration; a method that only gives its last answer is a level line."""
    first = runs[0]
    if len(first.errors) == 1:
        return [1, n_iter], [[run.errors[0] for run in runs]] * 2
    return first.steps or list(range(1, n_iter + 1)), [list(step) for step in zip(*(run.errors for run in runs), strict=True)]
