"""Every figure and table of the five papers, regenerated (``make reproduce``, ``python -m reproduction``)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from reproduction import engine, report
from reproduction.datasets import absent
from reproduction.dpem2020 import PANELS as DPEM2020
from reproduction.results import collect, expected_seconds
from reproduction.spec import Method, Panel, TrialData, cell
from reproduction.store import Store
from reproduction.tao2022 import PANELS as TAO2022
from reproduction.tian2025 import PANELS as TIAN2025
from reproduction.wang2020 import PANELS as WANG2020
from reproduction.wanggu2020 import PANELS as WANGGU2020

__all__ = ["Method", "Panel", "TrialData", "main", "panels"]


def panels() -> tuple[Panel, ...]:
    """All panels, in the order of the page."""
    return (*WANG2020, *DPEM2020, *WANGGU2020, *TIAN2025, *TAO2022)


def main(
    figures: Sequence[str] = (), quick: bool = False, *, output: str | Path = "report", workers: int = 2, show: bool = True
) -> Path:
    """Run panels and write the report.

    Parameters
    ----------
    figures : sequence of str
        Keys such as ``wang2020-fig1a``, or their beginnings (``wang2020``); all by default.
    quick : bool
        Smaller data, thinner grids and fewer trials: minutes rather than hours.
    output : path
        Folder of the report. It also holds the finished cells, so an interrupted run resumes.
    workers : int
        Processes; 0 runs everything in this one.
    show : bool
        Whether to show a progress bar.

    Returns
    -------
    pathlib.Path
        The page.

    Warns
    -----
    RuntimeWarning
        Where fits failed. They are tried again by the next run.
    """
    chosen = [p for p in panels() if not figures or any(p.key.startswith(f) for f in figures)]
    if not chosen:
        raise ValueError(f"no figure is called {', '.join(figures)}; there are {', '.join(p.key for p in panels())}")
    folder = Path(output)
    skipped = [(p, why) for p in chosen if (why := absent(p.needs))]
    full = [p for p in chosen if not absent(p.needs)]
    ready = [p.small() if quick else p for p in full]
    store = Store(folder / "cells.db")
    start = time.perf_counter()
    try:
        failures = engine.run(ready, store, workers=workers, show=show)
        results = [collect(p, store) for p in ready]
        fits = _fits(ready)
        busy = sum(done.seconds for fit in fits if (done := store.get(*fit)))
    finally:
        store.close()
    note = (
        f"{len(fits):,} fits took {busy / 60:.1f} minutes of computing; this run took "
        f"{(time.perf_counter() - start) / 60:.1f} minutes with {max(workers, 1)} processes."
    )
    if quick:
        # Panels share fits: what they would take one by one, less what the quick version saved.
        alone = sum(expected_seconds(p, r) for p, r in zip(full, results, strict=True))
        hours = alone * busy / max(sum(r.seconds for r in results), 1e-9) / 3600
        note = (
            f"Quick version: smaller data, thinner grids, few trials. {note} The full version has {len(_fits(full)):,} fits and "
            f"should take about {hours / 2:.1f} hours on two cores."
        )
    page = report.write(folder, results, skipped, failures, note)
    if failures:
        warnings.warn(
            f"{len(failures)} fits failed, the first with {failures[0]}; the page lists them", RuntimeWarning, stacklevel=2
        )
    return page


def _fits(chosen: Sequence[Panel]) -> set[tuple[str, int]]:
    """Cells and trials of some panels, those that they share once."""
    return {(cell(p, m, point), k) for p in chosen for m in p.methods for point in p.points() for k in range(p.trials)}
