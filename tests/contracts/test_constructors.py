"""Constructors are alike: keyword-only, and a parameter that a method does not use raises."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import fattail
import listed
from fattail import baselines, catalog

N = 3000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -0.5, 0.0] + 0.3 * RNG.standard_t(4, N)

# For each parameter, a value that no default has and that a method which uses the parameter must answer differently.
OTHER = {
    "aggregation": "smooth", "alpha": 0.5, "batch_size": 100, "blocks": 20, "clip": 0.23, "confidence": 0.5,
    "covariance_type": "diag", "failure_probability": 0.3, "feature_clip": 0.7, "feature_scale": [1.0, 2.0, 3.0],
    "groups": 3, "init": [0.1, 0.2, 0.3], "moment": 1.5, "moment_bound": 0.7, "n_components": 3, "n_iter": 3,
    "noise_scale": 0.8, "peeling": "laplace", "public_features": RNG.normal(size=(50, 3)), "radius": 0.3,
    "response_clip": 0.4, "sparsity": 1, "split": True, "splitting": True, "step": 0.37, "threshold": 0.2, "trim": 40,
}  # fmt: skip
# What every method heeds, tested elsewhere.
COMMON = {"epsilon", "delta", "method", "random_state", "ledger", "relation", "missing", "classes"}
# Whether the model has an intercept, or is symmetric: a method that knows one model only refuses the other value.
MODEL = {"fit_intercept", "symmetric"}

CLASSES = [getattr(fattail, name) for name in catalog.names()] + [getattr(baselines, name) for name in baselines.__all__]


@pytest.mark.parametrize("cls", [*CLASSES, fattail.LocalRandomizer], ids=lambda cls: cls.__name__)
def test_parameters_are_given_by_name(cls):
    kinds = {p.kind for p in inspect.signature(cls).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


def fitted(name, method, **given):
    target = {"none": (), "numbers": (Y,), "labels": ((Y > 0).astype(int),)}[catalog.entry(name).target]
    options = {"epsilon": 40.0, "method": method, "random_state": 0, **listed.example(name), **given}
    model = getattr(fattail, name)(**options).fit(X, *target)
    return {k: np.asarray(v) for k, v in vars(model).items() if k.endswith("_") and k != "privacy_"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "method"), listed.METHODS)
def test_a_parameter_changes_the_answer_or_is_refused(name, method):
    default = fitted(name, method)
    ignored = []
    for parameter in sorted(set(getattr(fattail, name)().get_params()) - COMMON - MODEL):
        try:
            answer = fitted(name, method, **{parameter: OTHER[parameter]})
        except ValueError as error:
            assert parameter in str(error), "the message names another parameter"
            continue
        same = default.keys() == answer.keys() and all(np.array_equal(default[k], v, equal_nan=True) for k, v in answer.items())
        if same:
            ignored.append(parameter)
    assert not ignored


def test_a_parameter_that_was_ignored_would_be_found(monkeypatch):
    monkeypatch.setattr(fattail.DPMean, "_used_by", {})
    with pytest.raises(AssertionError, match="moment_bound"):
        test_a_parameter_changes_the_answer_or_is_refused("DPMean", "auto")


FUNCTIONS = [fattail.count, fattail.mean, fattail.total, fattail.difference]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_take_data_and_column_by_place_and_options_by_name(function):
    parameters = inspect.signature(function).parameters.values()
    by_place = [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert by_place == ["data", "column"][: len(by_place)]


TABLE = {"x": Y, "group": (Y > 0).astype(int), "person": np.arange(N) // 2}
QUESTIONS = {
    "mean of an array": lambda **o: fattail.mean(Y, **o),
    "mean": lambda **o: fattail.mean(TABLE, "x", **o),
    "mean by groups": lambda **o: fattail.mean(TABLE, "x", by="group", groups=[0, 1], **o),
    "mean of persons": lambda **o: fattail.mean(TABLE, "x", person="person", **o),
    "total": lambda **o: fattail.total(TABLE, "x", **o),
    "count": lambda **o: fattail.count(TABLE, by="group", groups=[0, 1], **o),
    "public count": lambda **o: fattail.count(TABLE, **o),
    "difference": lambda **o: fattail.difference(TABLE, "x", by="group", groups=[0, 1], **o),
}


@pytest.mark.parametrize("option", [{"delimiter": ";"}, {"quoted_newlines": True}], ids=str)
@pytest.mark.parametrize("name", QUESTIONS)
def test_options_of_text_files_are_refused_for_other_tables(name, option):
    budget = fattail.Budget(9.0, 1e-3)
    with pytest.raises(ValueError, match="delimiter and quoted_newlines are for text files"):
        QUESTIONS[name](ledger=budget, **option)
    assert not budget.history


@pytest.mark.parametrize("cls", [getattr(fattail, name) for name in catalog.names()], ids=lambda cls: cls.__name__)
def test_an_unknown_parameter_is_refused_in_the_words_of_the_class(cls):
    with pytest.raises(TypeError, match=rf"^{cls.__name__} has no parameter 'epsilom'; did you mean 'epsilon'\?$"):
        cls(epsilom=1.0)
    with pytest.raises(TypeError, match=rf"^{cls.__name__} has no parameter 'xyzzy'; it has .*epsilon.*random_state"):
        cls(xyzzy=1.0)
    with pytest.raises(TypeError, match=rf"^{cls.__name__} takes parameters by name, as in {cls.__name__}\(epsilon=1.0\)$"):
        cls(1.0)


def test_a_subclass_may_have_a_constructor_of_its_own():
    class Penalized(fattail.DPLinearRegression):
        def __init__(self, strength=1.0, epsilon=1.0):
            super().__init__(alpha=strength, epsilon=epsilon)
            self.strength = strength

    assert Penalized(2.0).alpha == Penalized(strength=2.0).alpha == 2.0
    with pytest.raises(TypeError, match="Penalized"):
        Penalized(alpha=2.0)


def test_copies_and_pickles_need_no_parameters():
    model = fattail.DPHuberRegressor(epsilon=2.0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), clone(model)):
        assert other.get_params() == model.get_params()
