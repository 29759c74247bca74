"""What every method of the registry promises, through its public estimator."""

import logging
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import fattail
from fattail import audit
from fattail.privacy import Budget, BudgetExceededError, epsilon_of
from fattail.results.card import Card
from fattail.results.model_files import save_model
from listed import CLASSIFIERS, METHODS, UNSUPERVISED, example

N = 240

each_method = pytest.mark.parametrize(("name", "method"), METHODS, ids=[f"{e}-{m}" for e, m in METHODS])


def make(name, method, **changes):
    options = {"epsilon": 1.0, "delta": 1e-5, "random_state": 3, **example(name), **changes}
    return getattr(fattail, name)(method=method, **options)


def dataset(name, seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (n, 3))
    if name in UNSUPERVISED:
        return (X,)
    y = X @ [2.0, -1.0, 0.0] + rng.standard_t(2, n)
    return X, (y > 0).astype(int) if name in CLASSIFIERS else y


def fit(name, method, *data, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        return make(name, method, **changes).fit(*data)


def public_arrays(estimator):
    """Fitted attributes that are numbers, as users see them."""
    found = {k: np.asarray(v) for k, v in vars(estimator).items() if k.endswith("_") and not k.startswith("_")}
    return {k: v for k, v in found.items() if v.dtype.kind in "fiub"}


@each_method
def test_hostile_rows_never_exceed_a_declared_sensitivity(name, method):
    assert audit.fuzz(lambda *data: fit(name, method, *data), dataset(name), trials=8, seed=5) <= 1


@pytest.mark.slow
@each_method
def test_many_hostile_rows_never_exceed_a_declared_sensitivity(name, method):
    for seed in range(4):
        # With few rows a small budget finds no location, and says so.
        n, epsilon = ((97, 8.0), (N, 1.0), (1003, 1.0))[seed % 3]
        data = dataset(name, seed, n=n)
        assert audit.fuzz(lambda *data, e=epsilon: fit(name, method, *data, epsilon=e), data, trials=25, seed=seed) <= 1


@each_method
def test_the_ledger_is_charged_exactly_the_plan_and_refuses_a_second_fit(name, method):
    budget = Budget(1.0, 1e-5)
    estimator = fit(name, method, *dataset(name), ledger=budget)
    report = estimator.privacy_
    assert budget.history[0].events == report.events
    assert epsilon_of(report.events, 1e-5) <= 1.0
    assert report.epsilon_spent <= report.epsilon == 1.0 and report.delta == 1e-5
    with pytest.raises(BudgetExceededError):
        fit(name, method, *dataset(name), ledger=budget)
    assert len(budget.history) == 1


@pytest.mark.parametrize("name", sorted({n for n, _ in METHODS}))
def test_a_parameter_that_a_method_does_not_use_is_refused(name):
    """A value that changes nothing would look as if it did."""
    model = make(name, "auto")
    others = {"n_iter": 7, "clip": 2.0, "groups": 3, "moment_bound": 9.0, "public_features": np.zeros((4, 3)), "splitting": True}
    for parameter in others.keys() & model.get_params().keys():
        with pytest.raises(ValueError, match=f"{parameter} is not used by method='auto'; it is for"):
            make(name, "auto", **{parameter: others[parameter]}).fit(*dataset(name))


@each_method
def test_reports_name_every_release(name, method):
    report = fit(name, method, *dataset(name)).privacy_
    assert report.releases and report.seeded and report.unit == "row" and report.relation == "replace-one"
    assert sum(r.share for r in report.releases) == pytest.approx(1)
    assert "not private" in str(report)
    secure = fit(name, method, *dataset(name), random_state=None).privacy_
    assert not secure.seeded and secure.numerics == "exact"


@each_method
def test_seeds_repeat_and_secure_noise_does_not(name, method):
    a, b = (public_arrays(fit(name, method, *dataset(name))) for _ in range(2))
    assert a.keys() == b.keys() and all(np.array_equal(a[k], b[k], equal_nan=True) for k in a)
    # Few rows get an answer from a coarse grid, zero in one fit of four: two alike mean nothing, twenty would.
    fits = (public_arrays(fit(name, method, *dataset(name), random_state=None)) for _ in range(20))
    first = next(fits)
    assert any(not np.array_equal(first[k], other[k]) for other in fits for k in first)


@each_method
def test_clone_and_pickle(name, method):
    estimator = fit(name, method, *dataset(name))
    assert clone(estimator).get_params() == estimator.get_params()
    again = pickle.loads(pickle.dumps(estimator))
    a, b = public_arrays(estimator), public_arrays(again)
    assert all(np.array_equal(a[k], b[k], equal_nan=True) for k in a)
    # No raw row hides in what is stored.
    stored = pickle.dumps(estimator)
    assert np.float64(dataset(name)[0][0, 0]).tobytes() not in stored


@each_method
def test_one_row_changes_no_warning_shape_or_text(name, method, caplog, capsys):
    data = dataset(name)
    changed = tuple(a.copy() for a in data)
    changed[0][7] = [1e300, -1e300, 0.0]
    if len(changed) > 1:
        changed[1][7] = 1 - changed[1][7] if name in CLASSIFIERS else -1e300
    seen = []
    for arrays in (data, changed):
        caplog.clear()
        with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.DEBUG, logger="fattail"):
            warnings.simplefilter("always")
            estimator = make(name, method, random_state=11).fit(*arrays)
        shapes = {k: (v.shape, v.dtype) for k, v in public_arrays(estimator).items() if k not in ("support_",)}
        # A warning may depend on releases, so only its kind can be compared.
        seen.append((shapes, {w.category for w in caught} - {fattail.UtilityWarning}, logged(caplog), capsys.readouterr()))
    assert seen[0] == seen[1]


def logged(caplog):
    """What the library logged; the compiler of its kernels logs too, when it has work."""
    return [(r.levelno, r.getMessage()) for r in caplog.records if r.name.startswith("fattail")]


def observed(name, method, data, caplog, capsys, tmp_path):
    """All that a fit shows to the outside: numbers, warnings, log, output, model file and card."""
    caplog.clear()
    capsys.readouterr()
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.DEBUG, logger="fattail"):
        warnings.simplefilter("always")
        estimator = make(name, method, random_state=11).fit(*data)
    arrays = {k: (v.dtype.str, v.shape, v.tobytes()) for k, v in public_arrays(estimator).items()}
    file = save_model(estimator, tmp_path / "model.json").read_bytes()
    text = capsys.readouterr()
    return (
        arrays,
        [(w.category, str(w.message)) for w in caught],
        logged(caplog),
        (text.out, text.err),
        file,
        Card.of(estimator).to_html(),
    )


@each_method
def test_given_the_same_releases_a_row_changes_nothing_at_all(name, method, caplog, capsys, tmp_path):
    """Whatever is shown is a function of the releases: the same ones, on a neighbor, give the same bytes."""
    data = dataset(name, seed=2)
    rng = np.random.default_rng(len(name + method))
    for row in (audit.hostile_rows(3, rng)[8], audit.hostile_rows(3, rng)[12]):
        changed = tuple(a.copy() for a in data)
        changed[0][5] = row
        if len(changed) > 1:
            changed[1][5] = 1 - changed[1][5] if name in CLASSIFIERS else 1e300
        seen = []
        audit.replay(lambda *arrays, to=seen: to.append(observed(name, method, arrays, caplog, capsys, tmp_path)), data, changed)
        assert seen[0] == seen[1]


HOSTILE = {
    "huge": lambda X: X * 1e300,
    "tiny": lambda X: X * 1e-300,
    "constant": lambda X: np.full_like(X, 7.0),
    "zero": np.zeros_like,
    "one leverage row": lambda X: np.vstack([[[1e308, -1e308, 1e308]], X[1:] * 1e-8]),
    "mixed units": lambda X: X * [1e12, 1.0, 1e-9],
    "duplicates": lambda X: np.repeat(X[: len(X) // 10], 10, axis=0)[: len(X)],
}


@pytest.mark.parametrize("case", HOSTILE)
@each_method
def test_hostile_data_give_finite_answers(name, method, case):
    X, *rest = dataset(name)
    with np.errstate(all="ignore"):
        X = np.nan_to_num(HOSTILE[case](X), posinf=1e308, neginf=-1e308)
        if rest and name not in CLASSIFIERS and case in ("huge", "tiny"):
            rest = [rest[0] * (1e300 if case == "huge" else 1e-300)]
    estimator = fit(name, method, X, *rest)
    for key, value in public_arrays(estimator).items():
        # Of a column that is left out nothing is known; an interval may not be known at all.
        unknown = key == "interval_" or (key == "standard_errors_" and not np.any(np.isnan(value)))
        # Where labels may be separable, or no spread of the response shows, neither slopes nor intercept have an end.
        if (
            key == "intercept_standard_error_"
            and name in ("DPLogisticRegression", "DPHuberRegressor")
            and np.all(np.isposinf(estimator.standard_errors_))
        ):
            unknown = bool(np.isposinf(value))
        assert unknown or np.all(np.isfinite(value)), key


@pytest.mark.parametrize(
    "bad", [{"epsilon": 0}, {"epsilon": np.nan}, {"delta": 1.0}, {"delta": -1e-9}, {"random_state": "x"}, {"ledger": "file.db"}]
)
@pytest.mark.parametrize("name", sorted({e for e, _ in METHODS}))
def test_meaningless_parameters_are_refused_before_data_are_touched(name, bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        make(name, "auto", **bad).fit(*dataset(name))


@pytest.mark.parametrize("name", sorted({e for e, _ in METHODS}))
def test_an_unknown_method_names_the_known_ones(name):
    with pytest.raises(ValueError, match="auto"):
        make(name, "magic").fit(*dataset(name))


def test_the_page_of_methods_is_current():
    import importlib.util
    from pathlib import Path

    path = Path(__file__).parents[2] / "scripts" / "methods.py"
    spec = importlib.util.spec_from_file_location("methods", path)
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    assert page.PAGE.read_text() == page.current(), "run scripts/methods.py --write"


def test_every_registered_test_exists():
    from pathlib import Path

    root = Path(__file__).parents[2]
    for m in fattail.registry():
        file, _, rest = m.test.partition("::")
        assert (root / file).is_file(), m
        if rest:
            assert f"def {rest.partition('[')[0]}" in (root / file).read_text(), m
