"""One list of estimators: what is entered there is public, saved, documented, tested and on the command line."""

import ast
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import fattail
import listed
from fattail import catalog, cli
from fattail.estimators.linear import LinearRegressor
from fattail.losses import Huber
from fattail.results.model_files import load_model, save_model

ROOT = Path(__file__).parents[2]


class DPToy(LinearRegressor):
    """A new estimator: this class, and one entry."""

    def _loss(self):
        return Huber(1.0)


TOY = catalog.Entry("DPToy", __name__, "linear", "numbers")


@pytest.fixture
def toy():
    with catalog.added(TOY):
        yield
    assert "DPToy" not in catalog.names()


@pytest.mark.usefixtures("toy")
def test_one_entry_makes_an_estimator_public():
    assert fattail.DPToy is DPToy
    assert ("DPToy", "smoothed") in listed.methods() and ("DPToy", "auto") in listed.methods()
    assert "DPToy" in listed.with_target("numbers")
    assert not [m for m in fattail.registry() if "DPToy" in m.estimators and "DPHuberRegressor" not in m.estimators]


@pytest.mark.usefixtures("toy")
def test_one_entry_makes_its_model_files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, (500, 2))
    model = DPToy(method="clipped", random_state=0).fit(X, X @ [1.0, 2.0])
    again = load_model(save_model(model, tmp_path / "toy.json"))
    assert type(again) is DPToy
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.usefixtures("toy")
def test_one_entry_puts_it_on_the_command_line(capsys):
    assert cli.main(["methods", "--estimator", "DPToy", "--json"]) == 0
    assert {m["name"] for m in json.loads(capsys.readouterr().out)["methods"]} == set(DPToy._methods)
    assert cli.main(["audit", "clipped", "--estimator", "DPToy", "--trials", "2"]) == 0


@pytest.mark.usefixtures("toy")
def test_one_entry_makes_neighbors_to_attack_it_with(monkeypatch):
    """The attacks ask for neighbors of every method of the registry, and have them for a new member of a family."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    cases = importlib.import_module("audit_cases").cases()
    assert {c.method for c in cases if c.estimator == "DPToy"} == set(DPToy._methods)


def test_without_its_entry_it_is_nothing(tmp_path):
    with pytest.raises(AttributeError):
        fattail.DPToy  # noqa: B018
    assert cli.main(["methods", "--estimator", "DPToy"]) == 2


def test_two_of_one_name_are_refused():
    with pytest.raises(ValueError, match="already"), catalog.added(catalog.Entry("DPMean", __name__, "mean", "none")):
        pass


@pytest.mark.parametrize("name", catalog.names())
def test_entries_tell_the_truth(name):
    """The class exists, its tags say the same about the target and CSR rows, and its methods are those of the registry."""
    from sklearn.utils import get_tags

    model, entry = catalog.load(name)(), catalog.entry(name)
    tags = get_tags(model)
    assert type(model).__name__ == name
    assert tags.target_tags.required == (entry.target != "none")
    assert (tags.classifier_tags is not None) == (entry.target == "labels")
    assert not (entry.dense and tags.input_tags.sparse)
    assert set(model._methods) == {method for estimator, method in listed.methods() if estimator == name}


def lists_of_estimators(path):
    """Collections in a file that spell out three estimators or more."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        cells = node.keys if isinstance(node, ast.Dict) else node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
        spelled = {c.value for c in cells if isinstance(c, ast.Constant)} & set(catalog.names())
        found += [node.lineno] if len(spelled) >= 3 else []
    return found


def test_no_second_list_of_estimators():
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]
    # Names that a package exports are no list of estimators; they are all defined beside it.
    second = {p.name: lists_of_estimators(p) for p in sources if p.name not in ("catalog.py", "__init__.py")}
    assert not {name: lines for name, lines in second.items() if lines}


def test_a_second_list_would_be_found(tmp_path):
    file = tmp_path / "other.py"
    file.write_text('MINE = {"DPMean": 1, "DPHuberRegressor": 2, "DPSparseRegressor": 3}\n')
    assert lists_of_estimators(file) == [1]
