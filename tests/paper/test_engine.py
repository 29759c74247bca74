"""The engine: cells are computed once, kept at once, equal in any order, and read back as they were."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import reproduction as experiments
from reproduction import engine
from reproduction.claims import Beats
from reproduction.results import collect
from reproduction.spec import Method, Panel, Steps, TrialData
from reproduction.store import Store


def normal(rng, n):
    X = rng.normal(loc=1.0, size=(n, 2))
    return TrialData(X, None, lambda w: float(np.linalg.norm(w - 1.0)))


def noisy_mean(problem, seed, epsilon, scale=1.0):
    return problem.X.mean(axis=0) + scale * np.random.default_rng(seed).normal(size=2) / epsilon


def path(problem, seed, epsilon):
    return np.array([noisy_mean(problem, seed, epsilon) * k for k in (0.0, 0.5, 1.0)])


def some_steps(problem, seed, epsilon):
    return Steps((1, 3), np.array([[4.0, 5.0], [1.0, 1.0]]))


def failing(problem, seed):
    raise RuntimeError("no answer")


def panel(*methods, trials=3, **options):
    settings = {"x": "epsilon", "grid": {"epsilon": (0.5, 1.0)}, "base": {"n": 50}, **options}
    return Panel("toy-fig1", "toy", normal, methods, error="error", trials=trials, **settings)


GOOD = Method("good", "calibrated", partial(noisy_mean, scale=0.01), "mean")
BAD = Method("bad", "printed", noisy_mean, "mean", "too little noise")


def test_cells_are_computed_once(tmp_path):
    calls = []

    def counted(problem, seed, epsilon):
        calls.append(seed)
        return noisy_mean(problem, seed, epsilon)

    toy = panel(Method("counted", "auto", counted))
    for _ in range(2):
        store = Store(tmp_path / "cells.db", code="v1")
        assert engine.run([toy], store, workers=0, show=False) == []
        store.close()
    assert len(calls) == 6 == len(set(calls))
    engine.run([toy], Store(tmp_path / "cells.db", code="v2"), workers=0, show=False)
    assert len(calls) == 12, "another state of the code must not reuse cells"


def test_points_and_panels_that_agree_share_their_cells(tmp_path):
    calls = []

    def without_epsilon(problem, seed):
        calls.append(seed)
        return problem.X.mean(axis=0)

    toy = panel(Method("plain", "not private", without_epsilon))
    other = Panel(**{**vars(toy), "key": "toy-fig2", "grid": {"epsilon": (1.0, 2.0, 4.0)}})
    store = Store(tmp_path / "cells.db")
    engine.run([toy, other], store, workers=0, show=False)
    assert len(calls) == 3, "one for each trial"
    (curve,) = collect(other, store).series
    assert curve.errors.shape == (3, 3)
    np.testing.assert_array_equal(curve.errors[0], curve.errors[2])
    engine.run([panel(Method("plain", "not private", without_epsilon), base={"n": 60})], store, workers=0, show=False)
    assert len(calls) == 6, "other data are another cell"


def test_two_processes_and_one_give_the_same_numbers(tmp_path):
    from reproduction import tao2022

    toy = tao2022.PANELS[0].resized({"n": (100, 200)}, 2)
    toy = Panel(**{**vars(toy), "methods": tuple(m for m in toy.methods if m.label in ("Algorithm 1 as printed", "sample mean"))})
    found = []
    for workers in (0, 2):
        store = Store(tmp_path / f"{workers}.db")
        assert engine.run([toy], store, workers=workers, show=False) == []
        found.append([s.errors for s in collect(toy, store).series])
    np.testing.assert_array_equal(found[0], found[1])


def test_every_epsilon_sees_the_same_rows(tmp_path):
    seen = {}

    def look(problem, seed, epsilon):
        seen.setdefault(epsilon, []).append(problem.X.sum())
        return problem.X.mean(axis=0)

    engine.run([panel(Method("look", "auto", look))], Store(tmp_path / "cells.db"), workers=0, show=False)
    assert seen[0.5] == seen[1.0]
    assert len(set(seen[0.5])) == 3, "trials must differ"


def test_a_failure_is_reported_and_tried_again(tmp_path):
    toy = panel(GOOD, Method("broken", "auto", failing))
    store = Store(tmp_path / "cells.db")
    failures = engine.run([toy], store, workers=0, show=False)
    assert len(failures) == 3
    assert "broken: RuntimeError: no answer" in failures[0]
    assert [t[3][0].label for t in engine.missing([toy], store)] == ["broken"] * 3
    assert Beats("good", "broken").check(collect(toy, store)).passed is None


def test_who_runs_a_report_hears_of_failures(tmp_path, monkeypatch):
    toy = panel(GOOD, Method("broken", "auto", failing))
    monkeypatch.setattr(experiments, "panels", lambda: (toy,))
    with pytest.warns(RuntimeWarning, match="3 fits failed, the first with .*broken: RuntimeError: no answer"):
        page = experiments.main(output=tmp_path, workers=0, show=False)
    assert "no answer" in page.read_text()


def test_iterations_become_curves_and_single_answers_level_lines(tmp_path):
    methods = (Method("path", "calibrated", path), GOOD, Method("some", "auto", some_steps))
    toy = panel(*methods, x="iteration", facet="epsilon", base={"n": 50, "n_iter": 3})
    store = Store(tmp_path / "cells.db")
    engine.run([toy], store, workers=0, show=False)
    results = collect(toy, store)
    curve, level = results.of("path")[1], results.of("good")[1]
    assert curve.x == (1, 2, 3)
    assert curve.errors.shape == (3, 3)
    assert level.x == (1, 3)
    assert np.all(level.errors[0] == level.errors[1])
    assert results.of("some")[1].x == (1, 3)
    np.testing.assert_array_equal(results.of("some")[1].errors, [[5.0] * 3, [0.0] * 3])
    assert len(results.medians("path")) == 2


def test_an_answer_that_is_no_number_counts_as_very_bad():
    problem = normal(np.random.default_rng(0), 10)
    assert engine.judge(problem, [np.nan, 0.0], 0.0).errors == [1e12]


def test_resumes_after_a_kill(tmp_path):
    """A killed run loses at most the cell it was at."""
    script = tmp_path / "slow.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys, time
            sys.path[:0] = [{os.path.dirname(__file__)!r}, {str(Path(__file__).parents[2])!r}]
            from pathlib import Path
            import test_engine as t
            from reproduction import engine
            from reproduction.spec import Method
            from reproduction.store import Store

            def slow(problem, seed, epsilon):
                with open("calls", "a") as file:
                    file.write("x")
                time.sleep(0.2)
                return t.noisy_mean(problem, seed, epsilon)

            toy = t.panel(Method("slow", "auto", slow), trials=6)
            engine.run([toy], Store(Path("cells.db"), code="v1"), workers=0, show=False)
            """
        )
    )
    calls = tmp_path / "calls"
    first = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path)
    while not calls.exists() or len(calls.read_text()) < 4:
        assert first.poll() is None
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = len(calls.read_text())
    assert before < 12
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True)
    assert 12 <= len(calls.read_text()) <= 13, "at most one cell is computed twice"


def test_unknown_settings_are_refused():
    with pytest.raises(ValueError, match="has no setting m"):
        panel(GOOD).resized({"m": 1}, 2)
