"""Imports point downwards: each layer knows only those below it."""

import importlib.util
from pathlib import Path

import pytest

import fattail

PACKAGE = Path(fattail.__file__).parent

spec = importlib.util.spec_from_file_location("layers", PACKAGE.parents[1] / "scripts" / "layers.py")
layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(layers)
RANK, layer_of, module_of, upward = layers.RANK, layers.layer_of, layers.module_of, layers.upward

FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py" and p != PACKAGE / "algorithms" / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_downwards(path):
    assert layer_of(module_of(path)), "a file that is in no layer"
    assert not upward(path)


def test_a_paper_that_imports_a_default_method_is_found(tmp_path):
    file = tmp_path / "algorithms" / "papers" / "somebody2026.py"
    file.parent.mkdir(parents=True)
    file.write_text("def f():\n    from fattail.algorithms.auto.mean import adaptive_mean\n    return adaptive_mean\n")
    assert upward(file, tmp_path) == ["algorithms.auto"]


def test_nothing_below_the_estimators_knows_scikit_learns_estimators():
    below = [p for p in FILES if RANK[layer_of(module_of(p))] > RANK["results"]]
    shells = [p.name for p in below if "sklearn.base" in p.read_text()]
    assert not shells


def test_the_picture_shows_every_import_and_none_upwards():
    found = layers.counts()
    assert layers.picture().count("<circle") == len(found) > 50
    assert all(RANK[a] < RANK[b] for a, b in found)
