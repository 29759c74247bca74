"""Latent-variable models through their public estimators."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.utils.estimator_checks import parametrize_with_checks

from fattail import DPGaussianMixture, DPMissingCovariateRegression, DPMixtureOfRegressions, UtilityWarning, audit
from fattail.algorithms.auto.clusters import Clusters
from fattail.rows.data import PrivateData

# Most fits here are on too few rows to mean anything, which is not what they test.
pytestmark = pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")

METHODS = ("auto", "smoothed", "clipped", "local")
ESTIMATORS = (DPGaussianMixture, DPMixtureOfRegressions, DPMissingCovariateRegression)


def problem(estimator, n=4000, d=3, seed=0, noise=1 / 3):
    """The paper's laws: beta of length one, signal to noise 3, a tenth missing."""
    rng = np.random.default_rng(seed)
    beta = rng.standard_normal(d)
    beta *= np.sign(beta[np.argmax(np.abs(beta))]) / np.linalg.norm(beta)
    Z = rng.choice([-1.0, 1.0], n)
    if estimator is DPGaussianMixture:
        return beta, (Z[:, None] * beta + noise * rng.standard_normal((n, d)),)
    X = rng.standard_normal((n, d))
    line = X @ beta
    if estimator is DPMixtureOfRegressions:
        return beta, (X, Z * line + noise * rng.standard_normal(n))
    y = line + noise * rng.standard_normal(n)
    X[rng.random((n, d)) < 0.1] = np.nan
    return beta, (X, y)


def expected_failures(estimator):
    """Checks that a private estimator of these models cannot pass, and why."""
    failures = {"check_dtype_object": "an object array has no schema: whether it can be read would depend on its cells"}
    if isinstance(estimator, DPGaussianMixture):
        return failures
    failures |= {
        "check_regressors_train": "asks for a score above 0.5 on 200 rows, where the noise is larger than the signal",
    }
    if isinstance(estimator, DPMixtureOfRegressions):
        failures["check_regressors_no_decision_function"] = "predict_proba is the posterior of the two lines, not of classes"
    return failures


@parametrize_with_checks([E() for E in ESTIMATORS], expected_failed_checks=expected_failures)
def test_sklearn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("E", ESTIMATORS)
def test_fuzz(E, method):
    """Hostile rows never move a release by more than was declared, and control flow stays public."""
    _, data = problem(E, n=150)
    assert audit.fuzz(lambda *arrays: E(method=method, random_state=0).fit(*arrays), data, trials=8, seed=1) <= 1


@pytest.mark.parametrize("options", [{"symmetric": True}, {"covariance_type": "diag"}, {"n_components": 3}, {"n_components": 1}])
def test_fuzz_of_other_mixtures(options):
    _, data = problem(DPGaussianMixture, n=150)
    assert audit.fuzz(lambda X: DPGaussianMixture(random_state=0, **options).fit(X), data, trials=8, seed=2) <= 1


@pytest.mark.parametrize("E", ESTIMATORS)
def test_fuzz_of_the_printed_algorithm(E):
    _, data = problem(E, n=150)
    options = {"method": "smoothed", "split": True, "moment_bound": 1.0, "init": "random", "n_iter": 5, "noise_scale": 0.5}
    assert audit.fuzz(lambda *arrays: E(random_state=0, **options).fit(*arrays), data, trials=5, seed=3) <= 1


def test_fuzz_sees_patterns_of_missing_entries():
    _, data = problem(DPMissingCovariateRegression, n=150)

    def rows(rng):
        return np.where(rng.random(3) < 0.6, np.nan, 10.0 ** rng.uniform(-300, 300, 3)), float(rng.choice([0.0, 1e300, -1e5]))

    for method in METHODS:
        worst = audit.fuzz(
            lambda *arrays, m=method: DPMissingCovariateRegression(method=m, random_state=0).fit(*arrays),
            data,
            trials=6,
            rows=rows,
        )
        assert worst <= 1


@pytest.mark.parametrize("method", ("auto", "smoothed", "clipped"))
@pytest.mark.parametrize("E", ESTIMATORS)
def test_recovers_beta(E, method):
    beta, data = problem(E, n=20_000, d=4, seed=4)
    model = E(method=method, epsilon=1.0, random_state=1).fit(*data)
    assert np.linalg.norm(model.coef_ - beta) < 0.1
    assert 0.2 < model.noise_scale_ < 0.5


@pytest.mark.parametrize("E", ESTIMATORS)
def test_local_reports_carry_signal(E):
    """The local model needs far more rows; at epsilon 8 it must still beat an answer of zero."""
    beta, data = problem(E, n=100_000, d=2, seed=5)
    model = E(method="local", epsilon=8.0, noise_scale=1 / 3, random_state=1).fit(*data)
    assert min(np.linalg.norm(model.coef_ - beta), np.linalg.norm(model.coef_ + beta)) < 0.5


@pytest.mark.parametrize("E", [DPMixtureOfRegressions, DPMissingCovariateRegression])
def test_raw_units_with_intercept(E):
    beta, (X, y) = problem(E, n=40_000, d=3, seed=6)
    units, center = np.array([1e4, 0.01, 1.0]), np.array([3e4, 0.05, -7.0])
    model = E(epsilon=1.0, random_state=2).fit(center + units * X, 500.0 + 200.0 * y)
    found = model.coef_ * units / 200.0
    if E is DPMixtureOfRegressions:  # known up to sign
        found *= np.sign(found @ beta)
    assert_allclose(found, beta, atol=0.05)
    assert abs(model.noise_scale_ / 200.0 - 1 / 3) < 0.05
    if E is DPMixtureOfRegressions:
        assert abs(model.offset_ - 500.0) < 20
        assert abs(model.intercept_ + model.coef_ @ center) < 20
    else:
        assert abs(model.intercept_ + model.coef_ @ center - 500.0) < 20
        assert_allclose((model.center_ - center) / units, 0.0, atol=0.1)
        assert_allclose(model.spread_, units, rtol=0.1)


@pytest.mark.parametrize("covariance_type", ["spherical", "diag"])
def test_three_clusters_with_unknown_weights_and_variances(covariance_type):
    rng = np.random.default_rng(7)
    n, spread = 60_000, np.array([0.5, 1.0, 2.0])
    label = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    if covariance_type == "spherical":
        X = np.array([[0.0, 0.0, 0], [10, 0, 0], [0, 10, 10]])[label] + spread[label, None] * rng.standard_normal((n, 3))
    else:
        X = np.array([[0.0, 0.0, 0], [10, 0, 0], [0, 10, 10]])[label] + spread * rng.standard_normal((n, 3))
        X *= [1e5, 1.0, 1e-3]
    model = DPGaussianMixture(n_components=3, covariance_type=covariance_type, random_state=3).fit(X)
    order = np.argsort(-model.weights_)
    assert_allclose(model.weights_[order], [0.5, 0.3, 0.2], atol=0.03)
    if covariance_type == "spherical":
        assert_allclose(np.sqrt(model.covariances_[order]), spread, rtol=0.1)
    else:
        assert_allclose(np.sqrt(model.covariances_), np.tile(spread * [1e5, 1.0, 1e-3], (3, 1)), rtol=0.15)
    assert np.mean(model.predict(X) == order[label]) > 0.95


def test_mixture_methods_agree_with_their_definitions():
    _, (X,) = problem(DPGaussianMixture, n=5000)
    model = DPGaussianMixture(n_components=2, covariance_type="diag", random_state=0).fit(X)
    parts = zip(model.weights_, model.means_, model.variances_, strict=True)
    density = [w * multivariate_normal(m, np.diag(v)).pdf(X[:50]) for w, m, v in parts]
    assert_allclose(model.score_samples(X[:50]), np.log(np.sum(density, axis=0)))
    assert_allclose(model.predict_proba(X[:50]), np.transpose(density / np.sum(density, axis=0)), atol=1e-9)
    assert_array_equal(model.predict(X[:50]), np.argmax(density, axis=0))
    drawn, label = model.sample(200_000, random_state=0)
    assert_allclose(drawn[label == 0].mean(axis=0), model.means_[0], atol=0.02)
    assert_allclose(drawn[label == 1].var(axis=0), model.variances_[1], rtol=0.05)
    assert_allclose(model.coef_, (model.means_[0] - model.means_[1]) / 2)


def test_regression_methods_agree_with_their_definitions():
    _, (X, y) = problem(DPMixtureOfRegressions, n=5000)
    model = DPMixtureOfRegressions(random_state=0).fit(X, y)
    both = model.predict_both(X)
    assert_allclose(both[:, 0], model.predict(X))
    normal = np.exp(-0.5 * ((y[:, None] - both) / model.noise_scale_) ** 2)
    assert_allclose(model.predict_proba(X, y), normal / normal.sum(axis=1, keepdims=True), atol=1e-9)
    drawn = model.sample(np.repeat(X[:1], 100_000, axis=0), random_state=0)
    assert_allclose(np.mean(drawn**2), np.mean(both[0] ** 2) + model.noise_scale_**2, rtol=0.05)

    _, (X, y) = problem(DPMissingCovariateRegression, n=5000)
    model = DPMissingCovariateRegression(random_state=0).fit(X, y)
    row = np.array([[1.0, np.nan, -2.0]])
    drawn = model.sample(np.repeat(row, 100_000, axis=0), random_state=0)
    assert_allclose(drawn.mean(), model.predict(row)[0], atol=0.01)
    spread = np.hypot(model.noise_scale_, model.coef_[1] * model.spread_[1])
    assert_allclose(drawn.std(), spread, rtol=0.02)
    assert_allclose(np.exp(model.score_samples(row, model.predict(row))), 1 / np.sqrt(2 * np.pi) / spread, rtol=1e-9)


@pytest.mark.parametrize("E", ESTIMATORS)
def test_blocks_cannot_change_a_result(E):
    _, data = problem(E, n=500)
    whole = E(random_state=0).fit(*data).coef_
    pieces = E(random_state=0).fit(PrivateData(*data, block_bytes=1000)).coef_
    assert_array_equal(whole, pieces)


@pytest.mark.parametrize(
    ("E", "options", "said"),
    [
        (DPGaussianMixture, {"n_components": 0}, "n_components"),
        (DPGaussianMixture, {"covariance_type": "full"}, "covariance_type"),
        (DPGaussianMixture, {"n_components": 3, "method": "smoothed"}, "n_components=2 and covariance_type"),
        (DPGaussianMixture, {"symmetric": False, "method": "clipped"}, "symmetric model only"),
        (DPGaussianMixture, {"noise_scale": 1.0}, "noise_scale"),
        (DPMixtureOfRegressions, {"clip": 2.0}, "clip is not used by method='auto'"),
        (DPMixtureOfRegressions, {"method": "clipped", "clip": -1.0}, "clip"),
        (DPMixtureOfRegressions, {"method": "clipped", "n_iter": 0}, "n_iter"),
        (DPMixtureOfRegressions, {"method": "clipped", "init": "best"}, "init"),
        (DPMixtureOfRegressions, {"method": "clipped", "init": [1.0]}, "3 finite numbers"),
        (DPMissingCovariateRegression, {"method": "local", "fit_intercept": True}, "fit_intercept"),
        (DPMissingCovariateRegression, {"method": "clipped", "split": True}, "split"),
        (DPMissingCovariateRegression, {"delta": 0.0}, "delta"),
    ],
)
def test_parameters_are_checked(E, options, said):
    _, data = problem(E, n=30)
    with pytest.raises(ValueError, match=said):
        E(**options).fit(*data)


def test_two_clusters_are_ordered():
    clusters = Clusters(np.array([0.2, 0.8]), np.array([[-3.0, 1.0], [3.0, 0.0]]), np.ones((2, 2))).ordered()
    assert_array_equal(clusters.means[0], [3.0, 0.0])
    assert_array_equal(clusters.weights, [0.8, 0.2])


@pytest.mark.parametrize("E", ESTIMATORS)
def test_useless_answers_are_announced(E):
    """In most fits: it is read off the released path, and noise may happen to stand still."""
    _, data = problem(E, n=60)
    announced = 0
    for seed in range(8):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            E(epsilon=0.05, random_state=seed).fit(*data)
        announced += any(issubclass(w.category, UtilityWarning) for w in caught)
    assert announced >= 4


@pytest.mark.parametrize("E", ESTIMATORS)
@pytest.mark.filterwarnings("error::fattail.UtilityWarning")
def test_useful_answers_are_not(E):
    _, data = problem(E, n=20_000)
    E(epsilon=1.0, random_state=1).fit(*data)


HOSTILE = {
    "rare ones": lambda rng, n: (rng.random(n) < 0.05).astype(float),
    "mostly zeros": lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, np.exp(6 + rng.standard_normal(n))),
    "years": lambda rng, n: rng.integers(2012, 2021, n).astype(float),
    "1e9 +- 3": lambda rng, n: 1e9 + 3 * rng.standard_normal(n),
    "constant": lambda rng, n: np.full(n, 7.0),
    "other unit": lambda rng, n: 3e-5 + 1e-6 * rng.standard_normal(n),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize(
    ("E", "missing"), [(DPMixtureOfRegressions, 0.0), (DPMissingCovariateRegression, 0.0), (DPMissingCovariateRegression, 0.6)]
)
def test_regressions_with_a_column_of_any_kind(E, missing, kind):
    """A column that says nothing of the response has a coefficient near zero in its unit, and does not disturb the others."""
    rng = np.random.default_rng(11)
    beta, (X, y) = problem(E, n=20_000, d=2, seed=12)
    column = HOSTILE[kind](rng, len(y))
    there = np.where(rng.random(len(y)) < missing, np.nan, column)
    found = E(random_state=1).fit(np.column_stack([X, there]), y).coef_
    assert min(np.linalg.norm(found[:2] - beta), np.linalg.norm(found[:2] + beta)) < 0.03
    assert abs(found[2]) * column.std() < 0.05


@pytest.mark.parametrize("level", [2016.0, 1e6, 1e9])
def test_two_lines_around_any_level(level):
    beta, (X, y) = problem(DPMixtureOfRegressions, n=20_000, d=2, seed=13)
    model = DPMixtureOfRegressions(random_state=1).fit(X, y + level)
    assert min(np.linalg.norm(model.coef_ - beta), np.linalg.norm(model.coef_ + beta)) < 0.03
    assert abs(model.offset_ - level) < 0.05


@pytest.mark.parametrize(
    ("covariance_type", "kind"),
    [
        *(("spherical", kind) for kind in ("years", "1e9 +- 3", "constant")),
        *(("diag", kind) for kind in ("years", "1e9 +- 3", "constant", "other unit")),
    ],
)
def test_clusters_beside_a_column_of_any_kind(covariance_type, kind):
    """Two clusters in two columns are found, and the mean of the third column too."""
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        label = rng.choice(2, 20_000, p=[0.6, 0.4])
        column = HOSTILE[kind](rng, label.size)
        X = np.column_stack([4.0 * label[:, None] + rng.standard_normal((label.size, 2)), column])
        model = DPGaussianMixture(n_components=2, covariance_type=covariance_type, random_state=seed).fit(X)
        found = model.predict(X)
        errors.append(min(np.mean(found == label), np.mean(found != label)))
        spread = column.std() or 2.0  # of a constant, as large as that of the others
        assert abs(model.weights_ @ model.means_[:, 2] - column.mean()) < 0.2 * spread
    assert max(errors) < 0.01


def test_clusters_far_from_zero_with_few_rows():
    rng = np.random.default_rng(14)
    for seed in range(3):
        label = rng.choice(2, 5000, p=[0.6, 0.4])
        X = 100 + 3.0 * label[:, None] + rng.standard_normal((5000, 3))
        model = DPGaussianMixture(n_components=2, covariance_type="spherical", epsilon=0.5, random_state=seed).fit(X)
        assert np.abs(np.sort(model.means_[:, 0]) - [100, 103]).max() < 0.5
