"""Logistic fits of labels that are rare, noisy or separable."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

from fattail import DPLogisticRegression, UtilityWarning
from fattail.algorithms.parts.label_gradients import Bend, LabelGradients, Observation

pytestmark = pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")


def table(rng, n, d, share, size):
    """Columns of which the first is 0 or 1, slopes that move predictions by ``size``, and so many positive labels."""
    X = rng.normal(size=(n, d))
    X[:, 0] = rng.random(n) < 0.4
    slopes = rng.normal(size=d)
    z = X @ (slopes * (size / np.std(X @ slopes)))
    low, high = -30.0, 30.0
    for _ in range(50):
        level = (low + high) / 2
        low, high = (level, high) if expit(z + level).mean() < share else (low, level)
    return X, (rng.random(n) < expit(z + level)).astype(int)


def gain(model, X, y):
    """Part of the log-loss of the share of positives that a fit saves."""
    z, share = model.decision_function(X), y.mean()
    constant = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    return 1 - np.mean(np.logaddexp(0, z) - y * z) / constant


def fits(cases, n, d, epsilon, seeds):
    for share, size in cases:
        for seed in range(seeds):
            X, y = table(np.random.default_rng([seed, 7]), n, d, share, size)
            yield DPLogisticRegression(epsilon=epsilon, delta=1e-6, random_state=seed).fit(X, y), X, y


def test_few_rows_are_never_fitted_far_worse_than_their_share():
    """Where no count of row lengths showed, steps were fifty times too long: log-losses of six times the constant's."""
    gains = [gain(*fit) for fit in fits([(0.1, 0.5), (0.25, 1.0), (0.5, 1.0)], 1000, 2, 1.0, 4)]
    assert min(gains) > -0.5 and np.median(gains) > 0


def test_labels_of_a_few_percent_are_never_fitted_wildly():
    """Steps from even odds left fits far from few positive labels: some at 4 to 9 % were many times worse than their share."""
    for model, X, y in fits([(0.04, 0.5), (0.06, 0.5), (0.06, 1.5)], 5000, 2, 0.5, 20):
        assert gain(model, X, y) > -0.25
        assert np.mean(model.predict_proba(X)[:, 1]) < 2.5 * y.mean()


@pytest.mark.parametrize(("n", "d", "cases"), [(1000, 2, [(0.3, 1.0), (0.5, 1.0)]), (10_000, 20, [(0.1, 1.0), (0.1, 2.0)])])
def test_labels_of_ordinary_tables_are_not_taken_to_be_separable(n, d, cases):
    """A quarter of these fits were."""
    for model, _, _ in fits(cases, n, d, 1.0, 6):
        assert np.all(np.isfinite(model.standard_errors_)) and np.isfinite(model.intercept_standard_error_)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_labels_of_which_columns_say_nothing_are_not_taken_to_be_separable(epsilon):
    """With no direction to look along, a quarter of fits with one column of zeros and ones were, at any number of rows."""
    for seed in range(10):
        rng = np.random.default_rng([seed, 13])
        X, y = (rng.random((10_000, 1)) < 0.4).astype(float), (rng.random(10_000) < 0.1).astype(int)
        model = DPLogisticRegression(epsilon=epsilon, delta=1e-6, random_state=seed).fit(X, y)
        assert np.all(np.isfinite(model.standard_errors_))


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_separable_labels_are_noticed(share, epsilon):
    """Rare ones had finite intervals that covered 0.7: the largest slopes were far outside."""
    for seed in range(3):
        rng = np.random.default_rng([seed, 11])
        X = rng.normal(size=(10_000, 5))
        z = X @ rng.normal(size=5)
        y = (z > np.quantile(z, 1 - share)).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.warns(UtilityWarning, match="separable"):
                model = DPLogisticRegression(epsilon=epsilon, delta=1e-6, random_state=seed).fit(X, y)
        assert np.all(np.isinf(model.standard_errors_))


def test_slopes_of_mostly_noise_are_shrunk():
    """Predictions from twenty columns of noise lost one to two percent of the log-loss of the share of positives."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(4000, 20)), (rng.random(4000) < 0.3).astype(int)
    gains = [gain(DPLogisticRegression(epsilon=1.0, delta=1e-6, random_state=s).fit(X, y), X, y) for s in range(8)]
    assert np.median(gains) > -0.007


def test_intercept_of_certain_labels_is_not_shifted():
    """Nine percent positive, slopes so steep that a third of these rows is likely: probabilities above a half were cut off."""
    ratios = [np.mean(model.predict_proba(X)[:, 1]) / y.mean() for model, X, y in fits([(0.09, 4.0)], 20_000, 4, 3.0, 4)]
    np.testing.assert_allclose(np.median(ratios), 1.0, atol=0.04)


def kept(n, epsilon, share, seeds):
    """Parts of the possible gain in log-loss that fits of ten correlated columns keep, on rows of their own."""
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 13])
        X = 10.0 ** np.arange(10) * (rng.normal(size=(2 * n, 10)) + 0.7 * rng.standard_t(4, size=(2 * n, 1)))
        slopes = np.array([1.0, -0.7, 0.4, 0.0, 0.6, -0.4, 0.2, 0.0, 0.3, 0.0])
        z = X @ (slopes / 10.0 ** np.arange(10))
        low, high = -30.0, 30.0
        for _ in range(50):
            level = (low + high) / 2
            low, high = (level, high) if expit(z + level).mean() < share else (low, level)
        y = (rng.random(2 * n) < expit(z + level)).astype(int)
        model = DPLogisticRegression(epsilon=epsilon, delta=1e-5, random_state=seed).fit(X[:n], y[:n])
        found, best = model.decision_function(X[n:]), (z + level)[n:]
        constant = np.full(n, np.log(y.mean() / (1 - y.mean())))
        loss = [np.mean(np.logaddexp(0, p) - y[n:] * p) for p in (constant, found, best)]
        yield (loss[0] - loss[1]) / (loss[0] - loss[2])


@pytest.mark.parametrize(("n", "epsilon", "share", "least"), [(10_000, 1.0, 0.01, 0.4), (10_000, 0.5, 0.05, 0.7)])
def test_few_positive_labels_keep_much_of_what_can_be_gained(n, epsilon, share, least):
    """Newton steps with most of the budget elsewhere kept a third less."""
    parts = list(kept(n, epsilon, share, 5))
    assert np.median(parts) > least and min(parts) > -0.5


def test_more_budget_never_lets_steps_overshoot():
    """Gradients of rare labels were extrapolated with the curvature of the start, and fits jumped to and fro."""
    assert min(kept(20_000, 8.0, 0.08, 3)) > 0.9


def test_many_columns_keep_a_size():
    """With thirty columns for five thousand rows slopes were a twentieth of what they are, and errors .95."""
    errors = []
    for seed in range(5):
        rng = np.random.default_rng([seed, 17])
        X, slopes = rng.standard_t(4, (5000, 30)), rng.normal(size=30) / 30**0.5
        y = (rng.random(5000) < expit(X @ slopes)).astype(int)
        model = DPLogisticRegression(epsilon=0.5, delta=1e-5, random_state=seed).fit(X, y)
        errors.append(np.linalg.norm(model.coef_[0] - slopes) / np.linalg.norm(slopes))
    assert np.median(errors) < 0.7


def test_slopes_of_zeros_and_ones_are_in_their_intervals():
    """What the constant and such a column share was dropped from the curvature: .18 of .3, six errors of the sample."""
    slopes, missed = np.array([0.03, -8e-6, 0.3, 0.2, 0.8]), np.zeros(5)
    for seed in range(6):
        rng = np.random.default_rng([seed, 31])
        n = 20_000
        age, income, visits = rng.uniform(18, 90, n), rng.lognormal(10.5, 0.8, n), rng.poisson(2, n)
        X = np.column_stack([age, income, rng.random(n) < 0.5, visits, rng.random(n) < 0.15])
        y = (rng.random(n) < expit(X @ slopes - 3)).astype(int)
        model = DPLogisticRegression(epsilon=3.0, delta=1e-6, random_state=seed).fit(X, y)
        missed += np.abs(model.coef_.ravel() - slopes) > 1.96 * model.standard_errors_
        assert abs(model.coef_.ravel()[2] - 0.3) < 0.12
    assert missed.max() <= 1


def test_a_direction_that_seems_flat_keeps_its_fit():
    """Noise made the least curvature zero, the last step believed no gradient there, and the prior undid the fit."""
    found = object.__new__(LabelGradients)
    w = np.array([0.5, 1.0, -1.0])
    found.model, found.start, found.seen, found.p = SimpleNamespace(w=w), np.zeros(3), np.ones(3, dtype=bool), 3
    found.observations, found.followed = [Observation(w, np.zeros(3), 1e-6)], []
    found.move(Bend(np.diag([0.2, 0.0, 0.2]), 0.01, 0.01))
    assert found.model.w[1] > 0.5
