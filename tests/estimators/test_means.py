"""Private means: hostile rows, awkward columns, refusals, and scikit-learn's conventions."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import fattail
from fattail import DPMean, LocalRandomizer, UtilityWarning, audit
from fattail.columns import Ends, looks
from fattail.columns.description import CELLS
from fattail.rows.data import PrivateData

METHODS = ["auto", "truncated", "smoothed", "median_of_means", "trimmed", "local"]

pytestmark = pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")

each_method = pytest.mark.parametrize("method", METHODS)


def heavy(n=4000, seed=0):
    """Columns in different units: shifted Student t, log-normal, cost with a spike at zero."""
    rng = np.random.default_rng(seed)
    cost = np.where(rng.random(n) < 0.4, 0.0, rng.lognormal(6, 1, n))
    X = np.column_stack([50 + rng.standard_t(3, n), 1e-3 * rng.lognormal(0, 1, n), cost])
    return X, np.array([50.0, 1e-3 * np.exp(0.5), 0.6 * np.exp(6.5)])


@parametrize_with_checks(
    [DPMean(epsilon=500.0, method=m, random_state=0) for m in METHODS],
    expected_failed_checks=lambda _: {
        "check_dtype_object": "an object array has no schema: whether it can be read would depend on its cells"
    },
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        check(estimator)


@each_method
@pytest.mark.parametrize("bound", ["auto", 30.0])
def test_fuzz(method, bound):
    X = heavy(300)[0][:, :2]
    options = {"groups": 3} if method == "median_of_means" else {}
    if method != "auto":
        options["moment_bound"] = bound

    def fit(X):
        DPMean(epsilon=2.0, delta=1e-5, method=method, random_state=1, **options).fit(X)

    assert audit.fuzz(fit, (X,), trials=12, seed=2) <= 1


@pytest.mark.slow
@each_method
def test_attack_stays_below_the_claim_and_catches_thin_noise(method):
    X, Z = np.zeros((120, 1)), np.zeros((120, 1))
    X[0], Z[0] = -1e300, 1e300
    bound = "auto" if method == "auto" else 1.0

    def run(data, seed):
        return DPMean(epsilon=1.0, delta=1e-5, method=method, moment_bound=bound, random_state=seed).fit(data[0]).mean_

    assert audit.attack(run, (X,), (Z,), runs=600).epsilon <= 1.0
    if method in ("truncated", "smoothed"):  # the only ones whose range these rows exhaust
        with audit.weakened(0.3):
            assert audit.attack(run, (X,), (Z,), runs=600).epsilon > 1.0


@each_method
def test_error_on_columns_of_different_units(method):
    X, truth = heavy(20_000)
    fit = DPMean(epsilon=20.0, delta=1e-5, method=method, random_state=0).fit(X)
    tolerance = {"trimmed": [0.02, 0.4, 0.5], "local": [1.0, 1.0, 1.0]}.get(method, [0.01, 0.1, 0.1])
    assert np.all(np.abs(fit.mean_ / truth - 1) < tolerance)


@each_method
def test_one_answer_for_every_layout(method):
    X = heavy(500)[0]
    X[X < 1e-3] = 0
    want = DPMean(epsilon=5.0, delta=1e-5, method=method, random_state=3).fit(X).mean_
    blocks = PrivateData(X, block_bytes=1 << 9)
    for same in (sparse.csr_array(X), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], blocks):
        got = DPMean(epsilon=5.0, delta=1e-5, method=method, random_state=3).fit(same).mean_
        np.testing.assert_array_equal(got, want)


def test_float32_gives_float32_accuracy():
    X = heavy(2000)[0]
    got = DPMean(epsilon=5.0, random_state=3).fit(X.astype(np.float32)).mean_
    np.testing.assert_allclose(got, DPMean(epsilon=5.0, random_state=3).fit(X).mean_, rtol=0.05)


@pytest.mark.parametrize("value", [37.5, 0.0, -1e-9, 2e6])
def test_constant_column(value):
    fits = [fattail.mean(np.full(5000, value), random_state=seed).value for seed in range(5)]
    np.testing.assert_allclose(fits, value, rtol=2e-3, atol=1e-30)


def test_far_from_zero():
    x = 1.7e9 + 1e5 * np.random.default_rng(0).standard_normal(20_000)
    assert abs(fattail.mean(x, random_state=0).value - 1.7e9) < 2e4


def test_mostly_zeros_are_not_mistaken_for_all_zeros():
    rng = np.random.default_rng(1)
    x = np.where(rng.random(20_000) < 0.9, 0.0, rng.lognormal(3, 1, 20_000))
    assert abs(fattail.mean(x, random_state=0).value / (0.1 * np.exp(3.5)) - 1) < 0.2


def test_rare_rows_are_found_by_the_counts():
    rng = np.random.default_rng(1)
    x = np.where(rng.random(20_000) < 0.96, 0.0, rng.lognormal(7, 1, 20_000))
    answers = np.array([fattail.mean(x, epsilon=0.5, random_state=seed).value for seed in range(9)])
    assert abs(np.median(answers) / (0.04 * np.exp(7.5)) - 1) < 0.3


def test_negated_data_give_a_negated_mean():
    x = 1 + np.random.default_rng(0).pareto(1.8, 20_000)
    up, down = (fattail.mean(s * x, random_state=0).value for s in (1, -1))
    assert up == pytest.approx(2.25, rel=0.1)
    assert down == pytest.approx(-2.25, rel=0.1)


def test_predicted_bias_is_taken_out(monkeypatch):
    x = np.random.default_rng(5).exponential(size=5000)
    values, none = [], np.zeros((2, CELLS), dtype=bool)
    for bias in (0.0, 0.5):
        ends = Ends(0.0, 2.0, bias, 0.0, (1.0, 0.0), (1.0, 0.0), 0.0, 0.0, 0.0, 0.0, False, False, none, False, 1.0 * none, False)
        monkeypatch.setattr(looks, "choose_ends", lambda *a, e=ends: e)
        values.append(fattail.mean(x, random_state=0).value)
    assert values[1] - values[0] == pytest.approx(0.5)


@pytest.mark.slow
def test_interval_covers():
    rng = np.random.default_rng(2)
    hits = []
    for seed in range(150):
        low, high = fattail.mean(rng.lognormal(0, 1, 5000), random_state=seed).interval
        hits.append(low <= np.exp(0.5) <= high)
    assert np.mean(hits) > 0.9


def test_interval_widens_with_confidence_and_is_unknown_where_the_noise_is_private():
    X = heavy(20_000)[0]
    widths = [np.ptp(DPMean(confidence=c, random_state=0).fit(X).interval_, axis=1) for c in (0.5, 0.9, 0.99)]
    assert np.all(widths[0] < widths[1])
    assert np.all(widths[1] < widths[2])
    assert np.isnan(DPMean(method="trimmed", random_state=0).fit(X).interval_).all()


def test_a_moment_bound_saves_the_pilot():
    x = heavy(2000)[0][:, :1]
    names = [r.name for r in DPMean(method="truncated", moment_bound=2600.0).fit(x).privacy_.releases]
    assert names == ["mean"]
    assert [r.name for r in DPMean(method="truncated").fit(x).privacy_.releases] == ["location 1", "location 2", "counts", "mean"]


def test_missing_values_raise_or_count_as_zero_or_not_at_all():
    X = heavy(2000)[0]
    X[::7, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        DPMean().fit(X)
    for method in METHODS:
        fit = DPMean(epsilon=10.0, method=method, missing="zero", random_state=0).fit(X)
        assert np.all(np.isfinite(fit.mean_))
    for how, mean in (("zero", 50 * 6 / 7), ("drop", 50)):
        assert abs(DPMean(epsilon=10.0, missing=how, random_state=0).fit(X).mean_[0] - mean) < 1


def test_too_few_rows_are_announced_with_a_number_that_would_do():
    with pytest.warns(UtilityWarning, match=r"20 rows are too few .* about 200 rows"):
        fattail.mean(np.arange(20.0), epsilon=1.0)
    with pytest.warns(UtilityWarning, match="about 200 rows"):
        fattail.mean(np.arange(100.0), epsilon=1.0)


@pytest.mark.parametrize(
    "bad", [np.zeros((0, 1)), np.zeros((5, 5, 5)), np.array(["a", None], dtype=object), np.array([1, 2], dtype=object)]
)
def test_refused_input(bad):
    with pytest.raises(ValueError, match=r"sample|dimension|object"):
        fattail.mean(bad)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0),
        ("delta", 1.5),
        ("method", "best"),
        ("moment", 3),
        ("moment_bound", -1.0),
        ("groups", 4),
        ("confidence", 95),
        ("missing", "mean"),
    ],
)
def test_refused_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        DPMean(**{name: value}).fit(np.zeros((1000, 1)))


def test_smoothed_needs_the_second_moment():
    with pytest.raises(ValueError, match="second moment"):
        DPMean(method="smoothed", moment=1.5, moment_bound=1.0).fit(np.zeros((1000, 1)))


def test_local_randomizer_is_what_the_local_method_runs():
    client = LocalRandomizer(epsilon=1.0, delta=1e-6, scale=10.0, random_state=0)
    with pytest.raises(ValueError, match="one row"):
        client.randomize(np.zeros((2, 1)))
    answers = [LocalRandomizer(epsilon=4.0, delta=1e-6, scale=10.0, random_state=k).randomize([3.0])[0] for k in range(2000)]
    assert np.mean(answers) == pytest.approx(3.0, abs=0.5)  # standard error 0.1, and a little shrinkage
    for row in ([1e308], [-np.inf], [np.nan], [0.0]):
        assert np.isfinite(client.randomize(row)).all()
    data = (np.zeros((1, 1)),)
    assert audit.fuzz(lambda X: client.randomize(X), data, trials=10) <= 1


@pytest.mark.parametrize("unit", [1e-2, 1.0, 1e3])
def test_a_column_that_is_mostly_zero_is_not_taken_for_constant(unit):
    rng = np.random.default_rng(5)
    x = unit * np.where(rng.random((2000, 3)) < 0.3, rng.gamma(2.0, size=(2000, 3)), 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        fits = [DPMean(epsilon=1.0, random_state=seed).fit(x) for seed in range(6)]
    means = np.array([fit.mean_ for fit in fits])
    widths = np.array([np.diff(fit.interval_)[:, 0] for fit in fits])
    assert np.all(np.median(means, axis=0) > 0.3 * unit)  # the truth is 0.6
    assert np.all(np.median(widths, axis=0) > 0.05 * unit)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_few_rows_give_no_answer_rather_than_a_wild_one(unit):
    rng = np.random.default_rng(3)
    for seed in range(60):
        n = int(rng.integers(60, 400))
        fit = fattail.mean(unit * (1 + rng.pareto(1.6, n)), epsilon=1.0, random_state=seed)
        assert abs(fit.value) < 50 * unit
        assert fit.interval[0] < fit.interval[1]


def test_intervals_of_the_truncated_mean_allow_for_a_tail_that_the_counts_do_not_settle():
    covered = []
    for seed in range(30):
        x = 1 + np.random.default_rng(seed).pareto(1.5, (10_000, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fattail.UtilityWarning)
            low, high = fattail.DPMean(epsilon=0.5, method="truncated", random_state=seed).fit(x).interval_[0]
        covered.append(low <= 3.0 <= high)
    # Spread by the expected bias alone covers less than half of the time.
    assert np.mean(covered) >= 0.85
