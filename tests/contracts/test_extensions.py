"""Parts that users add: what the guides in ``docs/extend`` show works to the end, and lies about a part are harmless."""

import sqlite3
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fattail
from docs.extend.poisson import DPPoisson, Poisson
from docs.extend.sqlite_source import SQLite
from docs.extend.tanh import Tanh
from fattail import audit, catalog
from fattail.estimators.linear import LinearRegressor
from fattail.losses import Loss, Promise, Squared, check_loss
from fattail.privacy import Budget
from fattail.robust.base import ONE
from fattail.rows.data import PrivateData
from fattail.rows.sources import Reader

CENTER, BETA, INTERCEPT = np.array([50.0, 4.0, 0.0]), np.array([0.03, -0.15, 0.3]), 0.2
SPREAD = np.array([10.0, 8**0.5, (5 / 3) ** 0.5])


def counts(n, seed):
    """Counts whose log-rate is linear in columns of three units."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(50, 10, n), rng.gamma(2, 2, n), rng.standard_t(5, n)])
    return X, rng.poisson(np.exp(INTERCEPT + (X - CENTER) @ BETA)).astype(float)


@pytest.mark.parametrize(
    ("method", "options", "most"),
    [("auto", {}, 0.05), ("smoothed", {"n_iter": 40, "step": 6.0}, 0.15), ("clipped", {"n_iter": 40, "step": 6.0}, 0.15)],
)
def test_poisson_recovers_its_coefficients(method, options, most):
    """Errors are in log-rate per standard deviation of a column; the coefficients are .3, .42 and .39 in these units."""
    errors = []
    for seed in range(3):
        X, y = counts(20_000, seed)
        model = DPPoisson(epsilon=1.0, method=method, random_state=seed, **options).fit(X, y)
        errors.append(np.abs(model.coef_ - BETA) * SPREAD)
        assert abs(model.predict(X).mean() / y.mean() - 1) < 0.25
    assert np.max(np.median(errors, axis=0)) < most


def test_auto_serves_a_loss_of_labels_too():
    class Logit(Loss):
        """The library's logistic loss, as somebody else would write it."""

        promise = Promise(curvature=0.25, slope=1.0, target="labels", response=lambda z: 1 / (1 + np.exp(-z)), canonical=True)

        def value(self, z, y):
            return np.logaddexp(0, z) - y * z

        def derivative(self, z, y):
            return 1 / (1 + np.exp(-z)) - y

        def second(self, z, y):
            p = 1 / (1 + np.exp(-z))
            return p * (1 - p)

    class Model(fattail.DPLogisticRegression):
        def _loss(self):
            return Logit()

    rng = np.random.default_rng(0)
    X = rng.standard_t(4, (20_000, 2))
    y = (X @ [1.0, -0.5] + 0.5 + rng.logistic(size=20_000) > 0).astype(int)
    model = Model(random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_[0], [1.0, -0.5], atol=0.12)


def test_negative_responses_are_refused_where_the_loss_is_for_none():
    X, y = counts(300, 0)
    y[3] = -1
    budget = Budget(1.0, 1e-5)
    with pytest.raises(ValueError, match="Poisson is for nonnegative responses"):
        DPPoisson(ledger=budget).fit(X, y)
    assert not budget.history


LINEAR_METHODS = ("auto", "smoothed", "median_of_means", "trimmed", "sample_aggregate", "clipped")
STEPS = {name: {"n_iter": 12, "step": 20.0} for name in ("smoothed", "median_of_means", "trimmed", "clipped")}


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize("method", LINEAR_METHODS)
def test_an_estimator_of_ones_own_keeps_the_contract(method):
    """Everything that a fit publishes is a function of its releases, which move by no more than was charged for them."""
    X, y = counts(200, 0)
    other, response = X.copy(), y.copy()
    other[5], response[5] = [1e12, -1e12, 1e12], 1e12

    def fit(X, y):
        return DPPoisson(epsilon=8.0, delta=1e-5, method=method, ledger=Budget(8.0, 1e-5), **STEPS.get(method, {})).fit(X, y)

    with catalog.added(catalog.Entry("DPPoisson", "docs.extend.poisson", "linear", "numbers")):
        assert audit.record_and_replay(fit, (X, y), (other, response)).violations == ()


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize("form", [sparse.csr_array, np.asfortranarray, lambda X: X.astype(np.float32)])
def test_auto_sees_the_same_rows_in_every_form(form):
    rng = np.random.default_rng(0)
    X, y = rng.integers(-4, 5, (500, 3)) / 4, rng.poisson(2.0, 500).astype(float)
    plain, other = (DPPoisson(epsilon=8.0, random_state=0).fit(rows, y).coef_ for rows in (X, form(X)))
    assert np.any(plain)
    np.testing.assert_array_equal(plain, other)


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize("method", ["iht_truncated", "ight", "frank_wolfe"])
def test_a_false_promise_is_harmless_to_sparse_methods(method):
    class Lies(Loss):
        """Says that its slope is one, and has one of 1e200 for responses that no check tries."""

        promise = Promise(curvature=1.0, slope=1.0)

        def value(self, z, y):
            return np.logaddexp(z - y, y - z) - np.log(2)

        def derivative(self, z, y):
            return np.where(np.abs(y) > 200, 1e200, np.tanh(z - y))

        def second(self, z, y):
            return 1 - np.tanh(z - y) ** 2

    class Model(fattail.DPSparseRegressor):
        def _loss(self):
            return Lies()

    rng = np.random.default_rng(0)
    X, y = rng.standard_t(3, (240, 8)), rng.standard_t(3, 240)
    assert audit.fuzz(lambda X, y: Model(sparsity=2, method=method, random_state=3).fit(X, y), (X, y), trials=6, seed=5) <= 1


def test_steps_that_would_stay_at_zero_are_refused_before_data_are_read():
    for method in ("smoothed", "median_of_means", "trimmed", "clipped"):
        with pytest.raises(ValueError, match="coefficients would stay close to zero"):
            DPPoisson(method=method).fit(None, None)


def test_a_loss_in_other_units_than_the_response_is_announced():
    rng = np.random.default_rng(0)
    X = rng.standard_t(4, (4000, 2))
    y = 1000 * (X @ [1.0, -1.0] + rng.standard_t(3, 4000))
    with pytest.warns(fattail.UtilityWarning, match="close to zero: rescale Huber to the units"):
        fattail.DPHuberRegressor(method="clipped", threshold=1.0, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fattail.UtilityWarning)
        fattail.DPHuberRegressor(method="clipped", threshold=1000.0, random_state=0).fit(X, y)


def test_auto_refuses_a_loss_it_cannot_serve():
    class Asymmetric(Loss):
        promise = Promise(curvature=2.0)

        def value(self, z, y):
            return np.where(z > y, 1.0, 0.5) * (z - y) ** 2

        def derivative(self, z, y):
            return np.where(z > y, 2.0, 1.0) * (z - y)

        def second(self, z, y):
            return np.where(z > y, 2.0, 1.0)

    class Model(LinearRegressor):
        def _loss(self):
            return Asymmetric()

    with pytest.raises(ValueError, match=r"method='auto' needs a loss whose derivative is response\(z\) - y, and Asymmetric"):
        Model().fit(None, None)


def test_a_false_canonical_response_is_refused():
    class Shifted(Poisson):
        def derivative(self, z, y):
            return 2 * (self.rate(z) - y)

        def value(self, z, y):
            return 2 * super().value(z, y)

        def second(self, z, y):
            return 2 * super().second(z, y)

        @property
        def promise(self):
            old = super().promise
            return Promise(2 * old.curvature, old.slope, old.convex, old.target, old.response, canonical=True)

    check_loss(Poisson())
    with pytest.raises(ValueError, match="Shifted promises a canonical response"):
        check_loss(Shifted())


def hostile_counts(rng):
    """A hostile row and a hostile response that is not negative."""
    pool = audit.hostile_rows(3, rng)
    return pool[rng.integers(len(pool))], rng.choice([0.0, 1.0, 61.0, 1e9, 1e308])


class Liar(Poisson):
    """True on every number that is tried, and false elsewhere: huge slopes, falling derivatives, negative curvature."""

    def derivative(self, z, y):
        lie = (y > 60) | (np.abs(z) > 30)
        return np.where(lie, -1e200 * np.sign(z + 0.1), super().derivative(z, y))

    def second(self, z, y):
        return np.where((y > 60) | (np.abs(z) > 30), -1e200, super().second(z, y))


class LiarModel(LinearRegressor):
    def _loss(self):
        return Liar()


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize("method", ["auto", "smoothed", "median_of_means", "trimmed", "sample_aggregate", "clipped"])
def test_a_false_promise_is_harmless(method):
    """What one row moves stays within what was declared, for a loss whose lies no check sees."""
    check_loss(Liar())
    rng = np.random.default_rng(0)
    X, y = rng.standard_t(3, (240, 3)), rng.poisson(3.0, 240).astype(float)
    y[:20] = 1e4  # many rows lie already
    steps = {} if method in ("auto", "sample_aggregate") else {"n_iter": 12, "step": 20.0}

    def fit(X, y):
        return LiarModel(epsilon=8.0, method=method, random_state=3, **steps).fit(X, y)

    assert audit.fuzz(fit, (X, y), trials=6, seed=5, rows=hostile_counts) <= 1


def test_the_attack_sees_a_loss_that_is_not_pointwise():
    """The audit above can fail: a loss that looks at other rows moves a release by more than was declared."""

    class Peeks(Poisson):
        def derivative(self, z, y):
            found = super().derivative(z, y)
            return found + 1e3 * np.max(y) if len(np.atleast_1d(y)) > 100 and np.max(y) > 60 else found

    class Model(LinearRegressor):
        def _loss(self):
            return Peeks()

        def _check_parameters(self):  # the check would find it
            pass

    X, y = np.random.default_rng(0).standard_t(3, (240, 3)), np.full(240, 2.0)
    run = audit.fuzz(
        lambda X, y: Model(method="clipped", n_iter=2, random_state=3).fit(X, y), (X, y), trials=12, seed=5, rows=hostile_counts
    )
    assert run > 1


def test_a_source_of_ones_own_gives_the_same_fit(tmp_path):
    X, y = counts(3000, 0)
    path = tmp_path / "people.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (a REAL, b REAL, c REAL, visits REAL)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", np.column_stack([X, y]).tolist())
    people = SQLite(path, "people", ("a", "b", "c", "visits"), target=True, batch=700)
    for options in ({}, {"method": "clipped", "splitting": True}):
        model = fattail.DPLinearRegression(random_state=0, **options)
        here, there = (model.fit(*data).coef_.copy() for data in ((X, y), (people,)))
        np.testing.assert_array_equal(here, there)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE people SET a = NULL WHERE rowid = 7")
    with pytest.raises(ValueError, match="NaN"):
        model.fit(people)
    assert np.all(np.isfinite(fattail.DPLinearRegression(random_state=0, missing="drop").fit(people).coef_))


class Listed(Reader):
    """A custom source that gives its chunks in some form."""

    def __init__(self, X, y, form, **public):
        self.n, self.d = X.shape
        self.has_target = y is not None
        self._made = lambda: [form(X[k : k + 70], None if y is None else y[k : k + 70]) for k in range(0, len(X), 70)]
        vars(self).update(public)

    def _chunks(self, start, stop):
        return iter(self._made())


def twice(X):
    """CSR that stores every entry as two halves, and zeros."""
    i, j = np.indices(X.shape).reshape(2, -1)
    rows = sparse.coo_array((np.tile(X.ravel() / 2, 2), (np.tile(i, 2), np.tile(j, 2))), X.shape)
    return sparse.csr_array((rows.tocsr().data, rows.tocsr().indices, rows.tocsr().indptr), shape=X.shape)


@pytest.mark.parametrize(
    "form",
    [
        lambda X, y: (X.tolist(), y.tolist()),
        lambda X, y: (X.astype(np.float32), y[:, None]),
        lambda X, y: (X.astype(int), y),
        lambda X, y: (np.asfortranarray(X).astype(object), y.astype(object)),
        lambda X, y: (pd.DataFrame(X), pd.Series(y)),
        lambda X, y: (twice(X), y),
    ],
    ids=["lists", "single precision", "integers", "objects", "frames", "duplicates"],
)
def test_chunks_of_a_custom_source_are_converted_to_the_canonical_form(form):
    rng = np.random.default_rng(0)
    X, y = rng.integers(-8, 9, (400, 3)).astype(float), rng.integers(0, 9, 400).astype(float)
    model = fattail.DPLinearRegression(epsilon=8.0, random_state=0, missing="zero")
    np.testing.assert_array_equal(model.fit(Listed(X, y, form)).coef_, model.fit(X, y).coef_)


def test_labels_of_a_custom_source_are_the_declared_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where(X[:, 0] + rng.logistic(size=400) > 0, "yes", "no").astype(object)
    model = fattail.DPLogisticRegression(epsilon=8.0, random_state=0, classes=("no", "yes"))
    np.testing.assert_array_equal(model.fit(Listed(X, y, lambda X, y: (X, y))).coef_, model.fit(X, y).coef_)


@pytest.mark.parametrize(
    ("form", "public", "message"),
    [
        (lambda X, y: (np.hstack([X, X]), y), {}, "a chunk has 6 columns where 3 were announced"),
        (lambda X, y: (X[:, 0], y), {}, "2-dimensional"),
        (lambda X, y: (X, y[1:]), {}, "rows in X and"),
        (lambda X, y: (X, y), {"n": 401}, "gave 400 rows where 401 were announced"),
        (lambda X, y: (X.astype(str) + "x", y), {}, "NaN"),
    ],
    ids=["wide", "flat", "targets", "rows", "text"],
)
def test_a_custom_source_that_is_wrong_is_refused_with_a_sentence(form, public, message):
    X, y = counts(400, 0)
    budget = Budget(1.0, 1e-5)
    with pytest.raises(ValueError, match=message):
        fattail.DPLinearRegression(ledger=budget).fit(Listed(X, y, form, **public))
    assert not budget.history


def test_a_custom_source_must_say_its_size():
    class Sizeless(Reader):
        def _chunks(self, start, stop):
            yield np.zeros((3, 1)), None

    with pytest.raises(ValueError, match="Sizeless must set n and d"):
        fattail.DPMean().fit(Sizeless())


def test_the_tanh_robustifier_has_the_value_it_says():
    x = np.random.default_rng(0).standard_cauchy((2001, 2))
    mean = Tanh(scale=[1.0, 3.0], center=0.5).mean(PrivateData(x))
    expected = 0.5 + np.mean([1.0, 3.0] * np.tanh((x - 0.5) / [1.0, 3.0]), axis=0)
    np.testing.assert_allclose(mean.offset + mean.unit * mean._value, expected, atol=1e-8)


def test_a_robustifier_of_ones_own_gives_no_warning_that_depends_on_a_row():
    """Warnings are errors in these tests; one about an overflow would tell that a row is huge."""

    @dataclass(frozen=True)
    class Careless(Tanh):
        def _add(self, V, r, center, inverse, out):
            out += np.rint(ONE * np.clip(np.nan_to_num(1e10 * V), -1, 1)).astype(np.int64).sum(axis=0)

    Careless(scale=1.0).mean(PrivateData(np.full((3, 2), 1e300)))


def test_the_sparse_default_refuses_a_loss_that_it_would_ignore():
    """Its steps are made for two losses; a third one is refused with a sentence before data are read."""

    @dataclass(frozen=True)
    class Lopsided(Squared):
        def derivative(self, z, y):
            return np.asarray(z - y, dtype=np.float64)

    class Model(fattail.DPSparseRegressor):
        def _loss(self):
            return Lopsided()

    with pytest.raises(ValueError, match=r"supports the losses Squared and Logistic only, whose curvature.*got Lopsided"):
        Model(sparsity=1).fit(None, None)
