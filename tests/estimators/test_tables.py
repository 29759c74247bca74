"""The default regression on tables such as people have: mixed units, point masses, copies, few rows for the columns."""

import warnings

import numpy as np
import pytest

from fattail import DPLinearRegression, UtilityWarning
from fattail.algorithms.parts.support_joint import rows_look_scaled
from fattail.privacy import Curator, Gaussian
from fattail.results.model_files import load_model, save_model
from fattail.rows.data import PrivateData

pytestmark = pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")


def table(n, rng):
    """Columns in mixed units; a response of which two thirds can be explained."""
    X = np.column_stack(
        [
            rng.integers(18, 80, n),
            rng.lognormal(10, 0.7, n),
            rng.random(n) < 0.4,
            47.5 + 0.1 * rng.normal(size=n),
            rng.integers(1900, 2020, n),
            rng.gamma(2.0, 1e-4, n),
            np.where(rng.random(n) < 0.8, 0.0, rng.gamma(2.0, 500.0, n)),
            rng.poisson(3, n),
        ]
    ).astype(float)
    signal = (X - X.mean(axis=0)) / X.std(axis=0) @ np.array([1.0, 1.0, -1.0, 0.5, -0.5, 0.3, 0.7, 0.0])
    return X, 250_000 + 40_000 * (signal + rng.standard_t(5, n))


def r2(model, X, y):
    return 1 - np.mean((y - model.predict(X)) ** 2) / np.var(y)


@pytest.mark.parametrize(("n", "epsilon", "least"), [(1_000, 1.0, 0.2), (4_000, 1.0, 0.5), (40_000, 0.5, 0.63)])
def test_a_fit_explains_what_the_rows_can_carry(n, epsilon, least):
    scores = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = table(n, rng)
        scores.append(r2(DPLinearRegression(epsilon=epsilon, random_state=seed).fit(X, y), *table(5_000, rng)))
    assert min(scores) > 0
    assert np.median(scores) > least


def odd_columns(n, rng):
    X, y = table(n, rng)
    odd = [np.full(n, 7.0), X[:, 0], np.arange(n) + 1e9, 20_240_000 + rng.integers(101, 1231, n)]
    odd += [rng.random(n) < share for share in (0.5, 0.05, 0.005, 0.0001)]
    odd += [np.where(rng.random(n) < 0.997, 1.0, rng.random(n))]
    return np.column_stack([X, *odd]).astype(float), y


@pytest.mark.parametrize("n", [1_000, 10_000])
def test_point_masses_identifiers_dates_copies_and_constants_make_no_fit_wild(n):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = odd_columns(n, rng)
        predicted = DPLinearRegression(random_state=seed).fit(X, y).predict(X)
        assert np.quantile(np.abs(predicted - np.median(y)), 0.9) < 10 * np.quantile(np.abs(y - np.median(y)), 0.9)


def test_an_intercept_alone_stays_near_the_responses_with_very_few_rows():
    """Noise selected a size of the response that was up to 10,000 times too large, in one fit of fifty."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(500, 7)), 0.02 * rng.standard_t(2.5, 500)
        predicted = DPLinearRegression(epsilon=0.2, delta=1e-5, random_state=seed).fit(X, y).predict(X)
        assert np.abs(predicted).max() < 10 * np.quantile(np.abs(y), 0.9)


def test_noise_does_not_halve_the_slopes_of_a_good_fit():
    """A shrunken fit was taken instead where the noise of one release was larger than usual."""
    for seed in (*range(12, 24), 57):
        rng = np.random.default_rng(seed)
        X = rng.standard_t(3, size=(10_000, 6))
        y = X.sum(axis=1) / np.sqrt(6) + rng.lognormal(0, 1.2, 10_000)
        slopes = DPLinearRegression(epsilon=0.5, delta=1e-5, random_state=seed).fit(X, y).coef_
        assert np.linalg.norm(slopes - 1 / np.sqrt(6)) < 0.3


def test_a_column_without_spread_is_named_and_has_no_interval():
    X, y = table(5_000, np.random.default_rng(0))
    X[:, 4] = 3.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = DPLinearRegression(random_state=0).fit(X, y)
    messages = [str(w.message) for w in caught if w.category is UtilityWarning]
    assert any("x4" in m and "no spread" in m for m in messages)
    assert model.coef_[4] == 0 and list(model.interval_[4]) == [-np.inf, np.inf]


def varied(n, rng):
    X = rng.normal(size=(n, 5))
    return X, X @ np.array([1.0, 0.5, 0.0, -0.5, -1.0]) + (0.2 + np.abs(X[:, 0])) * rng.normal(size=n)


def collinear(n, rng):
    X = rng.normal(size=(n, 5)) @ (0.5 + 0.5 * np.eye(5))
    return X, X @ np.array([1.0, 0.5, 0.0, -0.5, -1.0]) + rng.normal(size=n)


@pytest.mark.parametrize("law", [varied, collinear])
@pytest.mark.parametrize("n", [1_500, 10_000])
def test_intervals_cover_where_residuals_vary_and_where_columns_go_together(law, n):
    truth, hits = np.array([1.0, 0.5, 0.0, -0.5, -1.0]), []
    for seed in range(40):  # twenty vary by three percent
        low, high = DPLinearRegression(random_state=seed).fit(*law(n, np.random.default_rng(seed))).interval_.T
        hits.append((low <= truth) & (truth <= high))
    assert np.mean(hits) >= 0.88


def curved(n, rng):
    """A slope that grows with a skewed column: the best linear prediction depends on the longest rows."""
    X = rng.gamma(2.0, size=(n, 3)) * np.array([1.0, 50.0, 1000.0])
    return X, X[:, 0] + 0.3 * X[:, 0] ** 2 + 0.02 * X[:, 1] + rng.normal(size=n)


def uneven(n, rng):
    X = np.column_stack([rng.gamma(1.5, size=n), rng.normal(size=n), rng.random(n) < 0.2])
    return X, X @ [1.0, 0.5, 2.0] + rng.normal(size=n) * (0.2 + X[:, 0] + 2 * X[:, 2])


@pytest.mark.parametrize(("law", "least"), [(curved, 0.9), (uneven, 0.9)])
def test_intervals_cover_the_best_linear_prediction_where_the_model_is_wrong(law, least):
    X, y = law(1_000_000, np.random.default_rng(0))
    truth, hits = np.linalg.lstsq(np.column_stack([X, np.ones(y.size)]), y, rcond=None)[0][:-1], []
    for seed in range(20):
        low, high = DPLinearRegression(epsilon=2.0, random_state=seed).fit(*law(20_000, np.random.default_rng(seed))).interval_.T
        hits.append((low <= truth) & (truth <= high))
    assert np.mean(hits) >= least


def test_intervals_are_not_much_wider_than_usual_where_the_model_is_right():
    """They allow for what is cut off only where rows inside the bound point somewhere, and counts show a tail."""
    n, widths = 20_000, []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 5))
        model = DPLinearRegression(epsilon=1.0, delta=1e-5, random_state=seed).fit(X, X @ np.arange(5) + rng.normal(size=n))
        widths.append(np.append(model.standard_errors_, model.intercept_standard_error_) * np.sqrt(n))
    slopes, intercept = np.array(widths)[:, :-1], np.array(widths)[:, -1]
    assert np.median(slopes) < 2.4  # of the classical standard error
    assert np.median(intercept) < 4.0


def test_predictions_add_up_to_the_total():
    """The private mean of the residuals has a noise of 0.03 deviations here, so single fits are off by twice that."""
    off = []
    for seed in range(12):
        X, y = table(20_000, np.random.default_rng(seed))
        y = y + 60_000 * np.random.default_rng(seed).lognormal(0, 1, y.size)
        model = DPLinearRegression(random_state=seed).fit(X, y)
        off.append((model.predict(X).mean() - y.mean()) / y.std())
    assert np.sqrt(np.mean(np.square(off))) < 0.05 and abs(np.mean(off)) < 0.02


def test_confidence_sets_the_level_of_the_intervals():
    X, y = table(5_000, np.random.default_rng(0))
    wide, narrow = (np.diff(DPLinearRegression(confidence=c, random_state=0).fit(X, y).interval_).ravel() for c in (0.99, 0.5))
    np.testing.assert_allclose(wide / narrow, 2.5758 / 0.6745, rtol=1e-3)
    model = DPLinearRegression(random_state=0).fit(X, y)
    assert 0 < model.intercept_standard_error_ < np.inf
    with pytest.raises(ValueError, match="confidence"):
        DPLinearRegression(confidence=1.0).fit(X, y)


@pytest.mark.parametrize("n", [2_000, 10_000])
def test_the_interval_of_the_intercept_covers_under_skewed_noise(n):
    hits = []
    for seed in range(20):
        rng = np.random.default_rng(1_000 + seed)
        X = rng.normal(size=(n, 5))
        y = X @ np.linspace(1, -1, 5) + 1 + rng.lognormal(0, 1.2, n) - np.exp(0.72)
        model = DPLinearRegression(delta=1e-5, random_state=seed).fit(X, y)
        hits.append(abs(model.intercept_ - 1) < 1.96 * model.intercept_standard_error_)
    assert np.mean(hits) >= 0.8


def test_a_signal_in_directions_of_small_variance_is_found():
    truth = np.linspace(1, -1, 10) / np.sqrt(10)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(10_000, 10)) @ (0.5 + 0.5 * np.eye(10))
        y = X @ truth + 1 + rng.normal(size=10_000)
        missed = X @ (DPLinearRegression(epsilon=2.0, delta=1e-5, random_state=seed).fit(X, y).coef_ - truth)
        assert np.var(missed) < 0.4 * np.var(X @ truth)


def test_a_row_far_beyond_what_was_seen_is_not_predicted_by_an_error(tmp_path):
    """One row in 4,000 lies a thousand scales out: no release shows it, and its slope is noise (a table of gifts: R2 of -11)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 4))
    y = X @ [1.0, 0.5, 0.0, 0.0] + rng.normal(size=4_000)
    model = DPLinearRegression(random_state=0).fit(X, y)
    low, high = model.response_range_
    assert low < y.min() and high > y.max()
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    far = np.array([[0.0, 0.0, 1e4, -1e4], [1e300, 0, 0, 0]])
    assert np.all((model.predict(far) >= low) & (model.predict(far) <= high))
    assert high - low < 4 * np.ptp(y)
    again = load_model(save_model(model, tmp_path / "model.json"))
    np.testing.assert_array_equal(again.predict(far), model.predict(far))


def test_a_precise_fit_may_predict_far_beyond_what_was_seen():
    rng = np.random.default_rng(1)
    X = rng.pareto(1.6, size=(20_000, 2))
    y = X.sum(axis=1) + 0.01 * rng.normal(size=20_000)
    model = DPLinearRegression(random_state=0).fit(X, y)
    far = np.array([[100.0, 0.0]])
    assert abs(model.predict(far)[0] - 100) < 30


def test_without_a_visible_response_predictions_are_linear():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 2))
    model = DPLinearRegression(random_state=0).fit(X, np.zeros(500))
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)


def test_a_response_whose_unit_is_not_visible_is_not_fitted_in_a_guessed_one():
    """With so few rows counts show no spread of y. Slopes and intercept were noise in units of one, 20 times that of y."""
    rng = np.random.default_rng(3)
    for seed in range(12):
        X = rng.normal(size=(1_500, 10))
        y = 0.01 * rng.normal(size=1_500)
        predicted = DPLinearRegression(epsilon=0.2, random_state=seed).fit(X, y).predict(X)
        assert np.quantile(np.abs(predicted), 0.9) < 10 * np.quantile(np.abs(y), 0.9), seed


def test_rows_of_positive_or_uneven_columns_do_not_look_scaled() -> None:
    rng = np.random.default_rng(3)
    scaled = rng.normal(size=(1000, 60))
    uneven = scaled * 10.0 ** np.arange(-2, 4).repeat(10)
    positive = np.where(np.arange(60) < 30, np.abs(scaled), scaled)
    one_cost = np.where(np.arange(60) == 0, rng.lognormal(6, 1, (1000, 1)), scaled)  # shows in no quantile of a row

    def answer(X: np.ndarray) -> bool:
        curator, release = Curator(1.0, 1e-5, random_state=0), Gaussian("rows")
        curator.plan(release)
        return rows_look_scaled(curator, release, PrivateData(X))

    assert answer(scaled)
    assert answer(np.where(rng.random(scaled.shape) < 0.7, 0.0, scaled))  # zeros are ignored
    assert not answer(uneven)
    assert not answer(positive)
    assert not answer(one_cost)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answer(np.where(np.arange(1000)[:, None] < 3, [[1e300], [np.nan], [np.inf]] * 333 + [[0.0]], scaled))


def test_a_copy_of_a_column_leaves_both_slopes_open():
    """Months and years of age: their sum is known, neither slope is."""
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, 5_000)
    X, y = np.column_stack([age, 12 * age + 3]), 0.5 * age + rng.normal(0, 10, 5_000)
    for seed in range(3):
        model = DPLinearRegression(epsilon=4.0, delta=1e-5, random_state=seed).fit(X, y)
        assert model.coef_ @ [1, 12] == pytest.approx(0.5, abs=0.05)
        for truth, coef, error in zip((0.5, 0.5 / 12), model.coef_, model.standard_errors_, strict=True):
            assert error > 0.5 * truth and abs(coef - truth) < 1.96 * error and abs(coef) < 1.96 * error


def test_zeros_and_ones_have_narrow_intervals_and_the_right_mean():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(20, 80, 5_000), rng.integers(0, 2, 5_000), rng.normal(27, 5, 5_000)])
    y = (rng.random(5_000) < 0.1 + 0.002 * X[:, 0]).astype(float)
    classical = y.std() / np.sqrt(5_000) / X.std(axis=0)
    for seed in range(4):
        model = DPLinearRegression(epsilon=4.0, delta=1e-5, random_state=seed).fit(X, y)
        assert np.median(model.standard_errors_ / classical) < 3.5
        assert abs(np.mean(model.predict(X)) - y.mean()) < 0.03 * y.std()
