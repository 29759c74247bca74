"""What the pages name exists: a moved module must not leave a page behind."""

import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import fattail
import listed
from fattail import catalog

DOCS = Path(__file__).parents[2] / "docs"
NAMES = re.findall(r"^   ([A-Za-z_.]+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
ROLES = sorted(
    {
        name
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts
        for name in re.findall(r"\{(?:class|func|mod|meth)\}`~?(fattail[A-Za-z_.0-9]*)`", page.read_text())
    }
)


def resolve(name):
    """The object of a dotted name: the longest prefix that is a module, then attributes."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_of_the_api_page_exists(name):
    assert resolve(f"fattail.{name}") is not None


def test_every_public_name_is_on_the_api_page():
    """Estimators are on a page of their own, written from the catalog; the page lists robustifiers by their module."""
    public = [n for n in fattail.__all__ if n not in (*catalog.names(), "__version__", "audit", "baselines", "privacy", "robust")]
    public += [f"baselines.{n}" for n in fattail.baselines.__all__]
    public += [f"audit.{n}" for n in fattail.audit.__all__ if n != "Dataset"]  # an alias of a type
    assert not sorted(set(public) - set(NAMES))


def section(cls, title):
    """Names that a section of a docstring in numpydoc's form explains."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=\n\n\S+\n-+\n|\Z)", inspect.getdoc(cls), re.DOTALL | re.MULTILINE)
    heads = [line.split(" : ")[0] for line in found[1].splitlines() if line and not line.startswith(" ")]
    return {name.strip() for head in heads for name in head.split(",")}


CLASSES = [getattr(fattail, name) for name in catalog.names()] + [
    getattr(fattail.baselines, name) for name in fattail.baselines.__all__
]


@pytest.mark.parametrize("cls", [*CLASSES, fattail.LocalRandomizer], ids=lambda cls: cls.__name__)
def test_docstrings_explain_every_parameter(cls):
    assert "{" not in re.sub(r"\{\S+,.*?\}", "", inspect.getdoc(cls)), "a placeholder was not filled"
    assert not sorted(set(inspect.signature(cls).parameters) - section(cls, "Parameters"))


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize("name", catalog.names())
def test_docstrings_explain_every_fitted_attribute(name):
    rng = np.random.default_rng(0)
    X = rng.standard_t(4, (2000, 3))
    y = X[:, 0] + rng.standard_t(4, 2000)
    target = {"none": (), "numbers": (y,), "labels": ((y > 0).astype(int),)}[catalog.entry(name).target]
    model = getattr(fattail, name)(random_state=0, **listed.example(name)).fit(X, *target)
    fitted = {key for key in vars(model) if key.endswith("_") and not key.startswith("_")}
    assert not sorted(fitted - section(type(model), "Attributes") - {"n_features_in_", "feature_names_in_"})


@pytest.mark.parametrize("name", ROLES)
def test_every_object_that_a_page_links_to_exists(name):
    assert resolve(name) is not None


def test_a_name_that_moved_is_found():
    with pytest.raises(AttributeError):
        resolve("fattail.card.Card")


def test_the_pictures_of_the_pages_leave_no_figure_open(monkeypatch):
    """The gallery takes every open figure for one of its first example, whose picture is on the front page."""
    monkeypatch.syspath_prepend(str(DOCS.parent / "benchmarks"))
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)
    before = plt.get_fignums()
    importlib.import_module("pictures").main()
    assert plt.get_fignums() == before
