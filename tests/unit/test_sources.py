"""What each source refuses, counts and remembers."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import fattail
from fattail._tools.threads import blas, one_blas_thread
from fattail.estimators.base import PrivateEstimator
from fattail.robust import Ball, Clip, Gram, Smooth, Truncate
from fattail.robust.passes import sum_over_blocks
from fattail.rows.data import PrivateData, block_rows
from fattail.rows.door import Refusal
from fattail.rows.order import SecretOrder
from fattail.rows.sources import Chunks, Parquet, as_source


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"a": rng.normal(size=50), "b": rng.integers(0, 9, 50), "c": rng.random(50) < 0.5, "y": rng.normal(size=50)}
    )


@pytest.fixture
def path(frame, tmp_path):
    frame.to_parquet(tmp_path / "part.parquet")
    return tmp_path


def total_of(data):
    return sum_over_blocks(data, lambda b: np.rint(1e6 * np.column_stack([b.X, b.y]).sum(axis=0)).astype(np.int64))


@pytest.mark.parametrize("make", [lambda f: f, pl.from_pandas, pa.Table.from_pandas, lambda f: pl.from_pandas(f).lazy()])
def test_integers_and_booleans_are_numbers(frame, make):
    data = PrivateData(make(frame), "y")
    assert data.columns == ("a", "b", "c") and data.d == 3
    np.testing.assert_array_equal(total_of(data), total_of(PrivateData(frame.to_numpy(dtype=float)[:, :3], frame["y"])))


def test_chosen_columns_only_are_read(path, frame):
    data = PrivateData(Parquet(path, columns=["c", "a"]), "y")
    assert data.columns == ("c", "a") and data.has_target
    np.testing.assert_array_equal(
        total_of(data), total_of(PrivateData(frame[["c", "a"]].to_numpy(dtype=float), frame["y"].to_numpy()))
    )


@pytest.mark.parametrize("bad", [["x", "y"] * 25, pd.Categorical(["u", "v"] * 25), pd.date_range("2026-01-01", periods=50)])
def test_columns_that_are_not_numbers_are_refused_before_rows_are_read(frame, bad, tmp_path, monkeypatch):
    frame["bad"] = bad
    frame.to_parquet(tmp_path / "part.parquet")
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_: pytest.fail("rows were read"))
    for X in (tmp_path, frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), pa.Table.from_pandas(frame)):
        with pytest.raises(ValueError, match=r"something else.*'bad'"):
            PrivateData(X, "y")
        with pytest.raises(ValueError, match=r"something else.*'bad'"):
            Regressor().fit(X, "y")
    assert PrivateData(Parquet(tmp_path, columns=["a", "b"]), "y").d == 2


def test_nulls_count_as_zero(tmp_path):
    table = pa.table({"a": [1.0, None, 3.0], "b": pa.array([1, 2, None], pa.int32()), "c": [True, None, False]})
    pq.write_table(table, tmp_path / "part.parquet")
    for X in (tmp_path, pl.from_arrow(table).lazy(), pl.from_arrow(table), table, table.to_pandas(types_mapper=pd.ArrowDtype)):
        sums = Clip(bound=8.0).mean(PrivateData(X))
        np.testing.assert_allclose(sums.unit * sums._value, [4 / 3, 1.0, 1 / 3], atol=1e-6)


def test_a_bad_target_is_refused(path, frame):
    for X in (path, frame, pl.from_pandas(frame).lazy()):
        with pytest.raises(ValueError, match="no columns"):
            PrivateData(X, "price")
        with pytest.raises(ValueError, match="50 rows and y has 49"):
            PrivateData(X, np.zeros(49))
    with pytest.raises(ValueError, match="no named columns"):
        PrivateData(frame.to_numpy(dtype=float), "y")


def test_a_stream_is_counted_once_or_declared():
    starts = []

    def factory():
        starts.append(1)
        return (np.ones((k, 2)) for k in (3, 4, 5))

    source = Chunks(factory)
    assert (source.n, source.d, len(starts)) == (12, 2, 2)  # one look at the first chunk, one count
    starts.clear()
    assert Chunks(factory, n=12).n == 12 and len(starts) == 1


@pytest.mark.parametrize(
    ("chunks", "options", "message"),
    [
        ([np.ones((3, 2))], {"n": 4}, "gave 3 rows where 4"),
        ([np.ones((3, 2)), np.ones((3, 1))], {"n": 6}, "same columns"),
        ([(np.ones((3, 2)), np.ones(3)), np.ones((3, 2))], {"n": 6}, "same columns"),
        ([], {}, "no rows"),
        ([np.ones(3)], {}, "2-dimensional"),
        ([np.array([["a", "b"]])], {}, "only numbers can be read"),
    ],
)
def test_a_stream_that_is_not_what_it_says(chunks, options, message):
    with pytest.raises(ValueError, match=message):
        sum_over_blocks(PrivateData(Chunks(lambda: iter(chunks), **options)), lambda b: np.zeros(1, dtype=np.int64))


def test_an_error_on_one_thread_stops_the_pass(monkeypatch):
    monkeypatch.setenv("FATTAIL_NUM_THREADS", "2")
    seen = []

    def partial(block):
        seen.append(block.start)
        raise RuntimeError("lost disk")

    with pytest.raises(RuntimeError, match="lost disk"):
        sum_over_blocks(PrivateData(np.zeros((160_000, 1)), block_bytes=1), partial)
    assert len(seen) <= 4


def test_blas_is_left_as_it_was():
    """Passes may overlap on the threads of a cluster's worker; the last one out restores the setting."""
    threads = [lib["num_threads"] for lib in blas().info()]
    with one_blas_thread:
        with one_blas_thread:
            pass
        assert all(lib["num_threads"] == 1 for lib in blas().info() if lib["user_api"] == "blas")
    assert [lib["num_threads"] for lib in blas().info()] == threads


class Regressor(PrivateEstimator):
    method = "auto"

    def fit(self, X, y=None):
        self.data = self._private_data(X, y, ensure_min_samples=2)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def test_an_estimator_knows_the_names_of_its_columns(path, frame):
    for X in (path, frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), pa.Table.from_pandas(frame)):
        model = Regressor().fit(X, "y")
        assert list(model.feature_names_in_) == ["a", "b", "c"] and model.n_features_in_ == 3
        np.testing.assert_array_equal(total_of(model.data), total_of(PrivateData(frame, "y")))


def test_an_estimator_checks_a_stream_without_reading_it(path):
    with pytest.raises(ValueError, match="requires y"):
        Regressor().fit(path)
    with pytest.raises(ValueError, match="minimum of 2"):
        Regressor().fit(lambda: iter([(np.ones((1, 2)), np.ones(1))]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_in_memory_are_checked_as_scikit_learn_does(frame, bad):
    frame.loc[3, "a"] = bad
    for X in (frame, pl.from_pandas(frame), frame.to_numpy(dtype=float), sparse.csr_array(frame.to_numpy(dtype=float))):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            Regressor().fit(X, np.zeros(50))


def test_unknown_objects_are_refused():
    with pytest.raises(ValueError, match="2-dimensional array of numbers"):
        as_source(object())


def test_optional_packages_are_not_imported():
    libraries = ("pandas", "polars", "pyarrow", "dask", "distributed")
    code = f"import sys, fattail.rows.data; print([m for m in {libraries} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("some", [1024, 300])
def test_columns_anywhere_in_memory_are_added_up_where_they_are(dtype, some, monkeypatch):
    """Several blocks of columns that are not side by side, next to one that starts in the middle of another's memory."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2.0, (1024, 4)).astype(dtype)
    long = np.concatenate([np.full(7, 99.0), X[:, 3]]).astype(dtype)
    columns = {f"x{j}": X[:, j].copy() for j in (2, 0, 1)} | {"x3": long[7:]}
    table = pl.DataFrame({name: columns[name] for name in sorted(columns)}).to_arrow()
    rules = [
        Clip(bound=1.0, center=0.3),
        Smooth(scale=0.5),
        Smooth(scale=50.0),
        Ball(radius=2.0),
        Truncate(bound=1.0),
        Gram(radius=2.0),
    ]
    for rule in rules:
        fold = SecretOrder(bytes(32), 1024).cut([0, some])[0]
        together = rule.mean(PrivateData(X).part(fold))._value
        for blocks in (None, 1 << 12, 1):
            np.testing.assert_array_equal(rule.mean(PrivateData(table, block_bytes=blocks).part(fold))._value, together)
            np.testing.assert_array_equal(rule.mean(PrivateData(table, block_bytes=blocks), fold=fold)._value, together)
    if some == 1024:  # where the columns are one type of float and contiguous, nothing is copied for a mean
        monkeypatch.setattr("fattail.rows.passes.Piece._copied", lambda *_: pytest.fail("columns were copied"))
        rules[0].mean(PrivateData(table, block_bytes=1 << 12))


def test_blocks_have_many_rows_while_memory_allows():
    assert block_rows(400) == 10_480, "what fits a cache"
    assert block_rows(200_000) == 128, "wide rows: vectors of sums as wide are worth their while"
    assert block_rows(8_000_000) == 16, "and never much memory"
    assert block_rows(400, 1) == 16, "unless the caller says otherwise"


def test_what_a_stream_gave_to_an_earlier_fit_is_forgotten():
    """A table that is kept up to date may have changed: an error would tell that somebody's row has."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 2)), rng.standard_normal(400)
    stream = Chunks(lambda: [(X, y)])
    for source in (stream, PrivateData(stream)):
        for _ in range(2):
            fattail.DPLinearRegression(method="smoothed", splitting=True, random_state=0).fit(source)
            X[7] += 1.0


def test_more_rows_than_sums_can_hold_are_refused_before_the_charge():
    """The terms of a second moment are below 7 * 2^30: a sum over 2^31 rows could leave 64 bits."""
    rows = np.zeros((10, 2))
    with fattail.Budget(1.0, 1e-5) as budget:
        with pytest.raises(ValueError, match="at most 1,073,741,824 rows"):
            fattail.DPMean(epsilon=1.0, delta=1e-5).fit(Chunks(lambda: [rows], n=2**30 + 1))
        assert not budget.history


def test_a_text_file_is_refused_in_words(tmp_path):
    path = tmp_path / "claims.csv"
    path.write_text("age,cost\n1,2\n")
    with pytest.raises(Refusal, match="data frame"):
        fattail.DPLinearRegression().fit(str(path), "cost")
