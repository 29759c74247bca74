"""A fit leaves nothing of an earlier one: that was released under another claim."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import fattail
from fattail.privacy import Budget, BudgetExceededError
from fattail.results.model_files import load_model, save_model
from listed import CLASSIFIERS, UNSUPERVISED, example

METHODS = {}
for m in fattail.registry():
    for name in m.estimators:
        METHODS.setdefault(name, []).append(m.name)
METHODS["DPGaussianMixture"].append("symmetric")  # `auto` of another model


def dataset(name, n=150):
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, (n, 3))
    if name in UNSUPERVISED:
        return (X,)
    y = X @ [2.0, -1.0, 0.0] + rng.standard_t(2, n)
    return X, (y > 0).astype(int) if name in CLASSIFIERS else y


def options(method):
    return {"method": "auto", "symmetric": True} if method == "symmetric" else {"method": method}


def make(name):
    return getattr(fattail, name)(epsilon=8.0, random_state=0, **example(name))


def fitted(model, method, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        if "symmetric" in model.get_params():
            model.set_params(symmetric="auto")
        return model.set_params(**options(method)).fit(*data)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_refit_has_the_attributes_of_a_fresh_fit(name):
    data, methods = dataset(name), sorted(set(METHODS[name]))
    fresh = {method: set(vars(fitted(make(name), method, data))) for method in methods}
    # Every ordered pair of methods that differ in what they set, and a round through all of them.
    pairs = [(a, b) for a in methods for b in methods if fresh[a] - fresh[b]] + list(pairwise([*methods, methods[0]]))
    for before, after in pairs:
        model = fitted(fitted(make(name), before, data), after, data)
        assert set(vars(model)) == fresh[after], f"{after} after {before}"


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_failed_refit_leaves_no_fit(name):
    data = dataset(name)
    model = fitted(make(name), "auto", data)
    with pytest.raises(ValueError, match="epsilon"):
        model.set_params(epsilon=-1.0).fit(*data)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    model = fitted(make(name), "auto", data)
    with pytest.raises(BudgetExceededError):
        fitted(model.set_params(ledger=Budget(0.1, 1e-7)), "auto", data)
    assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


def test_a_saved_model_holds_the_present_fit_only(tmp_path):
    """The interval of a fit at epsilon 10 stood, with its center the old coefficients, under the claim of one at 0.1."""
    X, y = dataset("DPLinearRegression", 3000)
    model = fitted(fattail.DPLinearRegression(epsilon=10.0, random_state=0), "auto", (X, y))
    assert hasattr(model, "interval_")
    model = fitted(model.set_params(epsilon=0.1), "smoothed", (X, y))
    save_model(model, tmp_path / "model.json")
    assert not hasattr(load_model(tmp_path / "model.json"), "interval_")
    assert "interval_" not in (tmp_path / "model.json").read_text()
