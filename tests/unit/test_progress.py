"""Watchers see releases, all of them, and cannot change them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import fattail
from fattail.results.progress import Progress, progress_bar, watch


def fit() -> Any:
    X = np.random.default_rng(0).standard_t(3, (3000, 2))
    return fattail.DPHuberRegressor(random_state=0).fit(X, X @ [1.0, 2.0])


def test_watchers_see_every_release_and_nothing_changes() -> None:
    plain, seen = fit(), []
    with watch(seen.append):
        watched = fit()
    assert np.array_equal(plain.coef_, watched.coef_)
    planned = sum(r.count for r in watched.privacy_.releases)
    # Later rounds of column counts are waived, and count as done: the columns are known.
    counts = {r.name for r in watched.privacy_.releases if r.name.startswith("column counts")}
    names = [p.name for p in seen]
    done, waived = [p.done for p in seen], len(counts - set(names))
    assert done == [*range(1, 5 - waived), *range(5, planned + 1)]
    assert {p.total for p in seen} == {planned}
    assert counts | set(names) == {r.name for r in watched.privacy_.releases}
    before = len(seen)
    fit()
    assert len(seen) == before  # the block is over


def test_a_watcher_gets_a_copy() -> None:
    def spoil(progress: Progress) -> None:
        progress.value[...] = 1e9

    with watch(spoil):
        assert np.array_equal(fit().coef_, fit().coef_) and np.all(np.abs(fit().coef_) < 10)


def test_watchers_nest_and_leave_after_an_error() -> None:
    outer: list[Progress] = []
    inner: list[Progress] = []
    with watch(outer.append):
        with pytest.raises(KeyError), watch(inner.append):
            fit()
            raise KeyError
        fit()
    assert len(outer) == 2 * len(inner) > 0


def test_bar_names_releases() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with progress_bar("regression", console):
        model = fit()
    shown = console.file.getvalue()
    total = sum(r.count for r in model.privacy_.releases)
    assert "regression" in shown and f"{total}/{total}" in shown
    assert any(r.name in shown for r in model.privacy_.releases)
