"""Missing cells have one meaning, whatever holds the rows, and how many rows are complete is private."""

import warnings
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from test_methods import CLASSIFIERS, METHODS, UNSUPERVISED, make
from test_person_fits import table
from test_relation import NEED_N, each_served, worst

import fattail
from fattail.robust.passes import sum_over_blocks
from fattail.rows.data import PrivateData
from fattail.rows.sources import Chunks

N = 600


def frame():
    rng = np.random.default_rng(0)
    a, b = rng.normal(50.0, 10.0, (2, N))
    given = pd.DataFrame({"a": a, "b": b, "y": a + 2 * b + rng.normal(size=N)})
    given.loc[::4, "a"] = np.nan
    given.loc[1::9, "b"] = np.nan
    given.loc[5, "y"] = np.nan
    return given


def forms(given, folder):
    import dask.dataframe as dd

    path = folder / "rows.parquet"
    given.to_parquet(path, row_group_size=90)
    rows = given[["a", "b"]].to_numpy()
    return {
        "array": (rows, given["y"].to_numpy()),
        "pandas": (given, "y"),
        "polars": (pl.from_pandas(given), "y"),
        "lazy": (pl.from_pandas(given).lazy(), "y"),
        "csr": (sparse.csr_array(rows), given["y"].to_numpy()),
        "parquet": (str(path), "y"),
        "chunks": (lambda: ((rows[k : k + 70], given["y"].to_numpy()[k : k + 70]) for k in range(0, N, 70)), None),
        "dask": (dd.from_pandas(given, npartitions=5), "y"),
    }


def micros(block):
    """Sums of all cells, in millionths."""
    X = block.X.toarray() if hasattr(block.X, "toarray") else block.X
    return np.rint(1e6 * np.column_stack([X, block.y])).astype(int).sum(axis=0)


@pytest.mark.parametrize("how", ["zero", "drop"])
def test_one_meaning_for_all_sources(how, tmp_path):
    given = frame()
    if how == "zero":
        plain, options = given.fillna(0.0), {}
    else:
        plain, options = given.dropna(), {"relation": "replace-one"}
    expected = sum_over_blocks(PrivateData(plain, "y"), micros)
    models = {}
    for kind, (X, y) in forms(given, tmp_path).items():
        model = fattail.DPLinearRegression(epsilon=4.0, missing=how, random_state=0, **options)
        with mock.patch.object(model, "_admit", wraps=model._admit) as admit:
            models[kind] = model.fit(X, y)
        data = admit.call_args.args[0]
        sums = sum_over_blocks(data, micros)
        np.testing.assert_array_equal(sums, expected, err_msg=kind)
        if kind in ("pandas", "parquet", "dask", "lazy") and how == "drop":  # by columns
            columns = fattail.DPMean(epsilon=4.0, missing=how, random_state=0).fit(X)
            assert columns.mean_[:2] == pytest.approx(given[["a", "b"]].mean().to_numpy(), abs=5.0), kind
    coef = models["array"].coef_
    assert all(np.array_equal(m.coef_, coef) for kind, m in models.items() if kind != "csr")


def test_missing_cells_are_refused_wherever_they_are_before_anything_is_charged(tmp_path):
    account = fattail.Budget(1.0, 1e-6)
    for kind, (X, y) in forms(frame(), tmp_path).items():
        with pytest.raises(ValueError, match="NaN"):
            fattail.DPLinearRegression(ledger=account).fit(X, y)
        assert not account.history, kind


def test_the_mean_of_present_cells():
    rng = np.random.default_rng(1)
    X = rng.normal([100.0, -5.0], [10.0, 1.0], (20_000, 2))
    X[rng.random(20_000) < 0.5, 0] = np.nan
    model = fattail.DPMean(missing="drop", random_state=0).fit(X)
    assert model.mean_ == pytest.approx([100.0, -5.0], abs=1.0) and model.interval_.shape == (2, 2)
    assert model.privacy_.epsilon == 1.0 and model.privacy_.relation == "replace-one"
    assert fattail.DPMean(missing="zero", random_state=0).fit(X).mean_[0] == pytest.approx(50.0, abs=5.0)
    ids = np.arange(20_000) // 2
    by_person = fattail.DPMean(missing="drop", random_state=0).fit(X, person=ids)
    assert by_person.mean_ == pytest.approx([100.0, -5.0], abs=1.0) and by_person.privacy_.unit == "person"


def fit(name, method, *data, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        return make(name, method, **{"epsilon": 3.0 * (3 if name == "DPMean" else 1), "missing": "drop", **changes}).fit(*data)


@each_served
def test_a_row_that_ceases_to_count_never_exceeds_a_declared_sensitivity(name, method):
    if name == "DPMissingCovariateRegression":
        pytest.skip("models its missing cells")
    data = tuple(np.array(a, dtype=float) for a in table(name))
    data[0][::7, 0] = np.nan
    emptied = tuple(a.copy() for a in data)
    emptied[0][-1] = np.nan  # the last one, so that all others keep the places to which secret labels belong
    assert 0 < worst(lambda *d: fit(name, method, *d), data, emptied) <= 1


def test_a_fit_that_looks_at_the_number_of_complete_rows_is_caught():
    data = tuple(np.array(a, dtype=float) for a in table("DPLinearRegression"))
    emptied = tuple(a.copy() for a in data)
    emptied[0][11] = np.nan
    with mock.patch.object(PrivateData, "counted", lambda self, n, noise, swing: self):
        assert worst(lambda *d: fit("DPLinearRegression", "clipped", *d), data, emptied) == np.inf


@pytest.mark.parametrize("name", sorted({n for n, _ in METHODS}))
def test_every_estimator_takes_the_same_words(name):
    data = tuple(np.array(a, dtype=float) for a in table(name))
    data[-1][3] = np.nan
    if name in UNSUPERVISED:
        with pytest.raises(ValueError, match="NaN"):
            make(name, "auto").fit(*data)
    with pytest.raises(ValueError, match="missing must be one of error, zero, drop"):
        make(name, "auto", missing="mean").fit(*data)
    if name == "DPMissingCovariateRegression":
        with pytest.raises(ValueError, match="models its missing cells"):
            make(name, "auto", missing="drop").fit(*data)
        return
    for how in ("zero", "drop"):
        model = fit(name, "auto", *data, missing=how)
        assert model.privacy_.relation == "replace-one"
        assert (model.privacy_.releases[0].name == "number of rows") == (how == "drop")


@pytest.mark.parametrize(("name", "method"), [m for m in METHODS if m[1] in NEED_N and m[0] != "DPMissingCovariateRegression"])
def test_a_method_that_needs_n_does_not_drop(name, method):
    with pytest.raises(ValueError, match="these methods do not need it: auto"):
        make(name, method, missing="drop").fit(*table(name))


def test_an_undeclared_label_is_a_missing_one():
    X, y = table("DPLogisticRegression")
    y = y.astype(float)
    y[4] = 7.0
    assert "DPLogisticRegression" in CLASSIFIERS
    for given in ((X, y), (Chunks(lambda: [(X, y)]), None)):
        with pytest.raises(ValueError, match="label"):
            fattail.DPLogisticRegression().fit(*given)
        dropped = fit("DPLogisticRegression", "clipped", *given)
        assert np.array_equal(dropped.coef_, fit("DPLogisticRegression", "clipped", X, np.where(y == 7, np.nan, y)).coef_)


@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_the_message_names_the_remedy(cell):
    X, y = np.ones((50, 2)), np.ones(50)
    X[3, 1] = cell
    for fit in (lambda: fattail.DPMean().fit(X), lambda: fattail.DPLinearRegression().fit(X, y), lambda: fattail.mean(X[:, 1])):
        with pytest.raises(ValueError, match='missing="drop"') as refused:
            fit()
        assert "scikit-learn" not in str(refused.value)
