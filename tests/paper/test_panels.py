"""Every panel runs at a toy size: all methods give answers of the right shape, and the page is written."""

import numpy as np
import pytest

from reproduction import claims, datasets, engine, panels, report
from reproduction.results import collect
from reproduction.spec import name_of
from reproduction.store import Store

SMALL = {"n": 600, "d": 6, "sparsity": 2, "columns": 40, "n_iter": 3, "batch": 200}
ALL = panels()


def toy(panel):
    """Two values of each axis, few rows, one trial."""
    changes = {k: v for k, v in SMALL.items() if k in panel.base}
    for name, values in panel.grid.items():
        sizes = {"n": (600, 900), "d": (4, 6), "sparsity": (1, 2)}
        changes[name] = sizes.get(name, (values[0], values[-1])[: len(values)])
    return panel.resized(changes, 1)


def test_keys_are_unique_and_every_figure_is_there():
    keys = [p.key for p in ALL]
    assert len(set(keys)) == len(keys)
    wanted = [f"wang2020-fig{i}{c}" for i in (1, 2, 3, 4) for c in "abcd"]
    wanted += [f"dpem2020-fig{i}{c}" for i in range(1, 9) for c in "abc"]
    wanted += [f"wanggu2020-fig2{c}" for c in "abcd"] + ["wanggu2020-table2", "wanggu2020-table3"]
    wanted += [f"tian2025-fig{i}{c}" for i in (1, 2) for c in "abcd"] + ["tian2025-table1", "tian2025-table2"]
    wanted += ["tao2022-thm1a", "tao2022-thm3", "tao2022-thm7", "tao2022-thm10"]
    assert set(wanted) <= set(keys)


@pytest.mark.parametrize("panel", ALL, ids=lambda p: p.key)
def test_three_families_and_claims_about_methods_that_exist(panel):
    assert {"printed", "calibrated", "auto"} <= {m.family for m in panel.methods}
    labels = {m.label for m in panel.methods}
    assert len(labels) == len(panel.methods)
    for claim in panel.claims:
        named = {v for k, v in vars(claim).items() if k in ("better", "worse", "label", "other")}
        assert named <= labels, claim
        if isinstance(claim, claims.Moves):
            assert claim.along in (panel.x, panel.facet)
    assert panel.trials >= 20
    assert panel.small().trials < panel.trials
    assert len(list(panel.small().points())) <= len(list(panel.points()))
    assert name_of(panel.problem).startswith("reproduction.")


# One panel per combination of problem and methods is enough: the others differ in their grids.
DISTINCT = {(name_of(p.problem), tuple(m.label for m in p.methods), p.x == "iteration"): p for p in reversed(ALL)}


@pytest.mark.parametrize("panel", DISTINCT.values(), ids=lambda p: p.key)
def test_runs_at_a_toy_size(panel, tmp_path):
    if why := datasets.absent(panel.needs):
        pytest.skip(why)
    if panel.key == "tian2025-table1":
        pytest.skip("13,000 columns: see the slow test")
    small = toy(panel)
    store = Store(tmp_path / "cells.db")
    assert engine.run([small], store, workers=0, show=False) == []
    results = collect(small, store)
    assert {s.method.label for s in results.series} == {m.label for m in small.methods}
    for s in results.series:
        assert np.all(np.isfinite(s.errors)) and np.all(s.errors >= 0)
    text = report.write(tmp_path, [results], [], [], "toy").read_text()
    assert panel.table == ("<td>" in text.split("</h3>")[1])
    assert panel.table or "data:image/svg+xml" in text


@pytest.mark.slow
@pytest.mark.parametrize("key", ["tian2025-table1"])
def test_wide_table(key, tmp_path):
    panel = next(p for p in ALL if p.key == key)
    if why := datasets.absent(panel.needs):
        pytest.skip(why)
    assert engine.run([panel.resized({}, 1)], Store(tmp_path / "cells.db"), workers=0, show=False) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "ours", "theirs"),
    [
        ("tao2022-thm3", "Algorithm 3 calibrated", "Algorithm 3 as printed"),
        ("tian2025-fig2d", "DP-IHT-L calibrated", "DP-IHT-L as printed, step 0.5"),
        ("dpem2020-fig5a", "Algorithm 2 calibrated", "Algorithm 2 as printed"),
    ],
)
def test_the_same_algorithm_calibrated_has_less_error_than_in_print(key, ours, theirs, tmp_path):
    panel = next(p for p in ALL if p.key == key).small()
    store = Store(tmp_path / "cells.db")
    assert engine.run([panel], store, workers=0, show=False) == []
    results = collect(panel, store)
    assert claims.factor(results.medians(ours), results.medians(theirs)) < 0.5
