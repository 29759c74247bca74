"""No parameter, however odd, costs anything unless there is an answer."""

import json
import math

import numpy as np
import pytest

import fattail
from fattail import catalog
from fattail.estimators.parameters import FLAGS, LISTS, NUMBERS

ESTIMATORS = catalog.names()
LARGE = ("DPLinearRegression", "DPHuberRegressor", "DPLogisticRegression")
TEXTS = {"aggregation", "covariance_type", "peeling", "relation", "weight"}
OWN = {"epsilon", "delta", "method", "random_state", "ledger", "classes", "missing", "loss", "public_features"}
HOSTILE = [None, True, "x", "auto", [], [[1.0]], {}, math.nan, math.inf, -1.0, 1e308, 1e-320, 10**400, 10**30, 1.5, 1j, object()]


def table(name, n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + rng.standard_t(3.0, n)
    if name in ("DPMean", "DPGaussianMixture"):
        return (X,)
    return X, (y > 0).astype(int) if name in ("DPLogisticRegression", "DPSparseClassifier") else y


def test_every_parameter_has_a_kind():
    parameters = {p for name in ESTIMATORS for p in getattr(fattail, name)().get_params()}
    assert parameters <= FLAGS | NUMBERS | LISTS | TEXTS | OWN, "say what it can be"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_wrong_with_a_parameter_shows_before_the_charge(name):
    """One parameter at a time: an answer that was paid for, or a ValueError for nothing."""
    rng, cls = np.random.default_rng(1), getattr(fattail, name)
    known = sorted(set(cls().get_params()) & (FLAGS | NUMBERS | LISTS | TEXTS))
    for parameter in known:
        for k in rng.choice(len(HOSTILE), 6, replace=False):
            with fattail.Budget(50.0, 1e-3) as budget:
                method = str(rng.choice(cls._methods))
                try:
                    cls(epsilon=4.0, method=method, **{parameter: HOSTILE[k]}).fit(*table(name))
                except ValueError:
                    assert budget.spent == 0, (method, parameter, HOSTILE[k])
                else:
                    assert budget.spent > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("method", ["auto", "clipped"])
def test_a_penalty_of_any_strength_is_answered(name, method):
    for alpha in (1e30, 1e100):
        model = getattr(fattail, name)(epsilon=4.0, method=method, alpha=alpha, random_state=0).fit(*table(name, 3000))
        assert np.isfinite(model.coef_).all() and np.abs(model.coef_).max() < 1e-6


@pytest.mark.parametrize("threads", ["x", "0", "-1", "99999999999", "1.5"])
def test_an_environment_that_means_nothing_shows_before_the_charge(monkeypatch, threads):
    monkeypatch.setenv("FATTAIL_NUM_THREADS", threads)
    with fattail.Budget(2.0, 1e-5) as budget, pytest.raises(ValueError, match="FATTAIL_NUM_THREADS"):
        fattail.DPMean().fit(np.ones((100_000, 1)))
    assert budget.spent == 0


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
def test_more_clusters_than_rows_are_refused():
    with fattail.Budget(2.0, 1e-5) as budget, pytest.raises(ValueError, match="n_components"):
        fattail.DPGaussianMixture(n_components=1000, symmetric=False).fit(*table("DPGaussianMixture"))
    assert budget.spent == 0


def test_a_message_is_short():
    with pytest.raises(ValueError, match="n_iter must be") as error:
        fattail.DPLinearRegression(n_iter=10**5000).fit(np.ones((9, 1)), np.ones(9))
    assert len(json.dumps(str(error.value))) < 300
