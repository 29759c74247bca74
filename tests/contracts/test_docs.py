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


QUESTIONS = [fattail.count, fattail.mean, fattail.total, fattail.difference]


@pytest.mark.parametrize("function", QUESTIONS, ids=lambda f: f.__name__)
def test_docstrings_of_functions_explain_every_parameter(function):
    parameters = inspect.signature(function).parameters.values()
    names = {f"**{p.name}" if p.kind is p.VAR_KEYWORD else p.name for p in parameters}
    assert not sorted(names - section(function, "Parameters"))
    assert not re.search(r"^\s*\{[a-z]+\}$", inspect.getdoc(function), re.MULTILINE), "a placeholder was not filled"


# Errors, warnings and modules explain themselves elsewhere.
PUBLIC = [
    found
    for name in fattail.__all__
    if callable(found := getattr(fattail, name)) and not (inspect.isclass(found) and issubclass(found, BaseException))
]


@pytest.mark.parametrize("public", PUBLIC, ids=lambda found: found.__name__)
def test_every_public_name_has_an_example_that_runs(public):
    assert "\nExamples\n--------\n>>> " in inspect.getdoc(public) and "+SKIP" not in inspect.getdoc(public)


SPENDING = [getattr(fattail, name) for name in catalog.names()] + [fattail.LocalRandomizer, fattail.Ledger, fattail.Budget]


@pytest.mark.parametrize("public", [*SPENDING, *QUESTIONS], ids=lambda found: found.__name__)
def test_whatever_spends_or_keeps_a_budget_says_what_is_promised(public):
    assert "\n*Privacy.* " in inspect.getdoc(public)


@pytest.mark.parametrize("public", PUBLIC, ids=lambda found: found.__name__)
def test_every_public_method_has_a_docstring(public):
    ours = [c for c in getattr(public, "__mro__", ()) if c.__module__.startswith("fattail")]
    methods = {name for c in ours for name, value in vars(c).items() if callable(value) or isinstance(value, property)}
    assert not [name for name in sorted(methods) if not name.startswith("_") and not inspect.getdoc(getattr(public, name))]


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
