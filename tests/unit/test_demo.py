"""The demo on a machine without the real files: made-up tables of the same kind, with true answers."""

import numpy as np
import pytest

import demo
import made_up


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("FATTAIL_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_nothing_is_skipped(monkeypatch, capsys):
    quick = (demo.real_mean, demo.real_regression)
    sections = list(demo._run(quick))
    assert [s.title for s in sections] == ["Fire insurance losses, made up", "Household wealth, made up"]
    assert "skipped" not in capsys.readouterr().out
    assert sections[0].table[0][1] == "true"


def test_the_laws_have_their_true_answers():
    losses = made_up.fire_losses(np.random.default_rng(1), 2_000_000)
    np.testing.assert_allclose(losses.mean(axis=0), made_up.true_losses(), rtol=0.03)
    X, y = made_up.households(np.random.default_rng(1), 100_000)
    scale = X.std(axis=0)
    found = demo.huber(X, y, 10_000) * scale
    np.testing.assert_allclose(found, made_up.EFFECTS * scale, atol=120)
    assert X.shape[1] == len(made_up.HOUSEHOLD) == len(made_up.EFFECTS)
