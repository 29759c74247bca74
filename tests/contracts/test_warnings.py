"""What is outside the guarantee, or mostly noise, is said at the caller's line and before anything is charged."""

import ast
import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import typer.main
from sklearn.model_selection import GridSearchCV, cross_val_score

import fattail
from fattail import PrivacyLeakWarning, UtilityWarning, catalog
from fattail._tools import warnings as _warnings
from fattail.privacy import Budget
from listed import CLASSIFIERS, METHODS

SOURCE = Path(fattail.__file__).parent
ESTIMATORS = catalog.names()


def dataset(name, n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(4, (n, d))
    if name == "DPMean":
        return (X,)
    if name == "DPGaussianMixture":
        return (X + 6 * rng.integers(0, 2, n)[:, None],)
    y = X @ np.resize([2.0, -1.0, 1.0], d) + rng.standard_t(3, n)
    return X, (y > 0).astype(int) if name in CLASSIFIERS else y


def said(action):
    """Warnings of an action, and what it raised."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            action()
        except ValueError as error:
            return caught, str(error)
    return caught, ""


@pytest.mark.parametrize(("name", "method"), METHODS, ids=[f"{e}-{m}" for e, m in METHODS])
def test_a_hopeless_request_is_announced_before_the_charge(name, method):
    """With warnings as errors nothing is charged: so a caller may refuse, as the command line does."""
    data, budget = dataset(name, 40, 8), Budget(1.0, 1e-5)
    model = getattr(fattail, name)(method=method, ledger=budget, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        with pytest.raises((UtilityWarning, ValueError), match=r"rows (are few|cannot show|barely|are too few)"):
            model.fit(*data)
    assert not budget.history


@pytest.mark.parametrize(("n", "epsilon"), [(5, 1.0), (400, 0.01)])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_handful_of_rows_is_called_noise_before_the_charge(name, n, epsilon):
    budget = Budget(1.0, 1e-5)
    model = getattr(fattail, name)(
        epsilon=epsilon, ledger=budget, random_state=0, **({"sparsity": 2} if "Sparse" in name else {})
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        with pytest.raises(UtilityWarning, match=f"will be noise: {n} rows at epsilon={epsilon:g} are too few"):
            model.fit(*dataset(name, n))
    assert not budget.history


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_filter_of_the_documents_refuses_what_the_command_line_refuses(name):
    page = (SOURCE.parent.parent / "docs" / "command-line.md").read_text()
    (pattern,) = re.findall(r'filterwarnings\("error", r"(.+)", fattail.UtilityWarning\)', page)
    model = getattr(fattail, name)(ledger=(budget := Budget(1.0, 1e-5)), **({"sparsity": 2} if "Sparse" in name else {}))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", pattern, UtilityWarning)
        with pytest.raises(UtilityWarning):
            model.fit(*dataset(name, 40))
    assert not budget.history


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_useful_request_is_silent(name):
    extra = {"sparsity": 2} if "Sparse" in name else {}
    caught, error = said(lambda: getattr(fattail, name)(random_state=0, **extra).fit(*dataset(name, 8000)))
    assert not caught and not error


def test_columns_that_no_row_can_show_are_not_waited_for():
    """2,000 x 5,000 took four minutes, and gave the same intercept."""
    X, y = dataset("DPLinearRegression", 400, 2000)
    for model in (fattail.DPLinearRegression(random_state=0), fattail.DPHuberRegressor(random_state=0)):
        caught, _ = said(lambda m=model: m.fit(X, y))
        assert [w.category for w in caught] == [UtilityWarning] and "only an intercept" in str(caught[0].message)
        assert not model.coef_.any() and abs(model.intercept_) < 100  # the response spreads by 100
        assert np.all(np.isinf(model.standard_errors_)) and model.interval_.shape == (2000, 2)
        assert len(model.privacy_.releases) <= 2  # not the two dozen of a fit with columns
    label = fattail.DPLogisticRegression(classes=("n", "y"), random_state=0)
    caught, _ = said(lambda: label.fit(X, np.where(y > -20, "y", "n")))
    assert label.intercept_[0] > 0


@pytest.mark.parametrize("name", ESTIMATORS)
def test_weak_claims_get_a_sentence(name):
    data = dataset(name, 3000)
    extra = {"sparsity": 2} if "Sparse" in name else {}
    caught, _ = said(lambda: getattr(fattail, name)(epsilon=11.0, delta=1e-3, random_state=0, **extra).fit(*data))
    leaks = [str(w.message) for w in caught if w.category is PrivacyLeakWarning]
    assert len(leaks) == 2 and "epsilon=11" in leaks[0] and "delta=0.001" in leaks[1]
    assert {w.filename for w in caught} == {__file__}


def test_warnings_point_at_the_line_of_the_caller():
    X, y = dataset("DPLinearRegression", 100)
    here = inspect.currentframe().f_lineno
    calls = [
        lambda: fattail.DPLinearRegression(random_state=0).fit(X, y),
        lambda: fattail.DPSparseRegressor(sparsity=2, random_state=0).fit(X, y),
        lambda: fattail.mean(X[:, 0], random_state=0),
        lambda: fattail.DPMean(random_state=0).fit(X[:, :1]),
        lambda: fattail.DPGaussianMixture(random_state=0).fit(X),
        lambda: cross_val_score(fattail.DPLinearRegression(random_state=0), X, y, cv=2),
    ]
    for k, call in enumerate(calls):
        caught, error = said(call)
        assert caught and not error
        assert {(w.filename, w.lineno) for w in caught} == {(__file__, here + 2 + k)}


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "DPMean"])
def test_scores_warn_and_predictions_do_not(name):
    data = dataset(name, 2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(fattail, name)(random_state=0).fit(*data)
    caught, _ = said(lambda: model.predict(data[0]))
    assert not caught
    caught, _ = said(lambda: model.score(*data))
    assert [w.category for w in caught] == [PrivacyLeakWarning] and name in str(caught[0].message)
    assert "outside the guarantee" in str(caught[0].message) and caught[0].filename == __file__


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
def test_a_search_says_once_that_its_scores_are_not_private(scoring, monkeypatch):
    monkeypatch.setattr(_warnings, "_said", set())  # what this line has said before
    X, y = dataset("DPLinearRegression", 6000)
    search = GridSearchCV(fattail.DPLinearRegression(random_state=0), {"alpha": [0.0, 0.1]}, scoring=scoring, cv=2, refit=False)
    caught, _ = said(lambda: search.fit(X, y))
    assert [w.category for w in caught] == [PrivacyLeakWarning]


def options_that_exist():
    """Parameters of everything public, and options of the command line."""
    names = {"self"}
    for public in (getattr(fattail, name) for name in fattail.__all__):
        functions = [public, *(f for _, f in inspect.getmembers(public, callable))] if inspect.isclass(public) else [public]
        for function in functions:
            try:
                names |= set(inspect.signature(function).parameters)
            except (TypeError, ValueError):
                continue
    from fattail.cli import app

    command = typer.main.get_command(app)
    found = [command, *getattr(command, "commands", {}).values()]
    found += [inner for group in found for inner in getattr(group, "commands", {}).values()]
    flags = {flag for c in found for p in c.params for flag in (*p.opts, *p.secondary_opts)}
    return names, flags | {"--help"}


def messages():
    """Text of every error and warning of the library, with the file that it is in."""
    for file in SOURCE.rglob("*.py"):
        if {"audit", "_kernels"} & set(file.parts):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            raised = isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc
            warned = isinstance(node, ast.Call) and getattr(node.func, "id", "").startswith("warn") and node
            for call in (raised, warned):
                if call:
                    parts = [n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                    yield file.name, " ".join(parts)


def test_errors_and_warnings_name_options_that_exist():
    names, flags = options_that_exist()
    unknown = []
    for file, text in messages():
        # In quotes, what looks like an option is an example of a value.
        unknown += [(file, word) for word in re.findall(r"(?<!')\b([a-z_]+)=", text) if word not in names]
        unknown += [(file, flag) for flag in re.findall(r"(?<![-\w])(--[a-z][a-z-]+)", text) if flag not in flags]
    assert not unknown
