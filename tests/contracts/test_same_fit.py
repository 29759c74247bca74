"""Every source of the same rows gives the same integers, and fits the same estimators."""

from itertools import pairwise

import cloudpickle
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import fattail
from fattail import catalog
from fattail.robust import Ball, Clip, Gram, MedianOfMeans, Smooth, Trimmed
from fattail.robust.passes import Job, sum_over_blocks
from fattail.rows.data import PrivateData
from fattail.rows.order import Sample, SecretOrder
from fattail.rows.sources import Chunks, Parquet
from listed import CLASSIFIERS, DENSE, METHODS

dask_array = pytest.importorskip("dask.array")
dask_frame = pytest.importorskip("dask.dataframe")
delayed = pytest.importorskip("dask").delayed

# Dask itself still uses what pandas deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

N, D = 1003, 3
NAMES = ["a", "b", "c"]
ORDER = SecretOrder(bytes(32), N)


def rows_of(dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_t(1.5, (N, D)).astype(dtype)
    X[rng.random((N, D)) < 0.3] = 0
    return X, rng.standard_t(2, N)


def frame(X, y):
    return pd.DataFrame(X, columns=NAMES).assign(y=y)


def parquet(X, y, path, row_group=97, files=3):
    path.mkdir()
    for k, part in enumerate(np.array_split(np.arange(len(X)), files)):
        table = pa.Table.from_pandas(frame(X[part], y[part]), preserve_index=False)
        pq.write_table(table, path / f"part-{k:03}.parquet", row_group_size=row_group)
    return path


def in_chunks(X, y, sizes):
    edges = np.minimum(np.concatenate(([0], np.cumsum(np.resize(sizes, N)))), N)
    return lambda: ((X[a:b], y[a:b]) for a, b in pairwise(edges) if a < b)


def memory_map(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


SOURCES = {
    "array": lambda X, y, path: PrivateData(X, y),
    "fortran": lambda X, y, path: PrivateData(np.asfortranarray(X), y),
    "strided": lambda X, y, path: PrivateData(np.repeat(X, 2, axis=0)[::2], y),
    "memmap": lambda X, y, path: PrivateData(memory_map(X, path), y),
    "csr": lambda X, y, path: PrivateData(sparse.csr_array(X), y),
    "pandas": lambda X, y, path: PrivateData(frame(X, y), "y"),
    "polars": lambda X, y, path: PrivateData(pl.from_pandas(frame(X, y)), "y"),
    "pyarrow": lambda X, y, path: PrivateData(pa.Table.from_pandas(frame(X, y)), "y"),
    "polars lazy": lambda X, y, path: PrivateData(pl.from_pandas(frame(X, y)).lazy(), "y"),
    "polars scan": lambda X, y, path: PrivateData(pl.scan_parquet(parquet(X, y, path / "p")), "y"),
    "parquet folder": lambda X, y, path: PrivateData(parquet(X, y, path / "p"), "y"),
    "parquet file": lambda X, y, path: PrivateData(str(parquet(X, y, path / "p", files=1) / "part-000.parquet"), "y"),
    "parquet, y apart": lambda X, y, path: PrivateData(Parquet(parquet(X, y, path / "p"), columns=NAMES), y),
    "chunks": lambda X, y, path: PrivateData(in_chunks(X, y, [1, 7, 190])),
    "chunks of frames": lambda X, y, path: PrivateData(
        Chunks(lambda: (frame(X, y).drop(columns="y")[k : k + 90] for k in range(0, N, 90)), n=N, d=D), y
    ),
    "chunks of csr": lambda X, y, path: PrivateData(lambda: (sparse.csr_array(X[k : k + 90]) for k in range(0, N, 90)), y),
    "dask array": lambda X, y, path: PrivateData(dask_array.from_array(X, (101, 2)), dask_array.from_array(y, 77)),
    "dask array, y apart": lambda X, y, path: PrivateData(dask_array.from_array(X, (500, D)), y),
    "dask frame": lambda X, y, path: PrivateData(dask_frame.from_pandas(frame(X, y), npartitions=7), "y"),
    "dask files": lambda X, y, path: PrivateData(dask_frame.read_parquet(parquet(X, y, path / "p")), "y"),
}
CSR = [name for name in SOURCES if "csr" in name]
STREAMED = [name for name in SOURCES if name.split()[0].strip(",") in ("parquet", "chunks", "dask")] + [
    "polars lazy",
    "polars scan",
]

ROBUST = {
    "clip": Clip(bound=2.0),
    "smooth": Smooth(scale=1.5, beta=2.3),
    "ball": Ball(radius=2.0, scale=[1.0, 10.0, 0.1]),
    "gram": Gram(radius=1.5, scale=[1.0, 2.0, 3.0]),
}


def gradient(w):
    """Rows of a linear model's gradient, with a product that any chunk computes alike."""
    return lambda block: (block.X, np.asarray(sum(w[j] * column(block.X, j) for j in range(D)) - block.y))


def column(X, j):
    return X[:, [j]].toarray()[:, 0] if sparse.issparse(X) else X[:, j].astype(np.float64)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", SOURCES)
def test_same_integers_from_every_source(name, dtype, tmp_path):
    X, y = rows_of(dtype)
    reference = PrivateData(X.astype(np.float64), y)
    data = SOURCES[name](X, y, tmp_path)
    assert (data.n, data.d) == (N, D)
    mask = np.random.default_rng(1).random(N) < 0.4
    for rule in ROBUST.values():
        for rows in (None, ORDER.folds(3)[1], ORDER.folds(5)[4], Sample(0.4, mask)):
            if isinstance(rows, Sample) and isinstance(rule, Gram):
                continue
            options = {"rows": gradient(np.array([1.0, -2.0, 0.5])), "fold": rows}
            np.testing.assert_array_equal(rule.mean(data, **options)._value, rule.mean(reference, **options)._value)
            np.testing.assert_array_equal(rule.mean(data, fold=rows)._value, rule.mean(reference, fold=rows)._value)
    median = MedianOfMeans(Clip(bound=2.0), 5)
    everybody = ORDER.cut([0, N])[0]
    np.testing.assert_array_equal(median.mean(data, fold=everybody)._value, median.mean(reference, fold=everybody)._value)
    some = ORDER.cut([0, N // 3])[0]
    for rule in ROBUST.values():
        np.testing.assert_array_equal(rule.mean(data.part(some))._value, rule.mean(reference, fold=some)._value)


@pytest.mark.parametrize("sizes", [[1], [13, 2], [400]])
@pytest.mark.parametrize("block_bytes", [1 << 30, 1 << 14])
def test_a_matrix_product_does_not_see_where_chunks_end(sizes, block_bytes):
    """BLAS rounds the last rows of a product differently, so blocks must end where they always do."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_t(2, (N, 50)), rng.normal(size=50)

    def bits(block):
        return np.sum((block.X @ w).view(np.int64), keepdims=True)

    data = PrivateData(in_chunks(X, X[:, 0], sizes), block_bytes=block_bytes)
    assert sum_over_blocks(data, bits) == sum_over_blocks(PrivateData(X), bits)


@pytest.mark.parametrize("name", STREAMED)
def test_order_statistics_need_rows_in_memory(name, tmp_path):
    data = SOURCES[name](*rows_of(), tmp_path)
    with pytest.raises(ValueError, match="all rows at once"):
        Trimmed(10, 1e3, 0.1).mean(data)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", STREAMED)
def test_a_bad_row_of_a_stream_is_one_bounded_row(name, bad, tmp_path):
    X, y = rows_of()
    X[5], y[7] = bad, bad
    data = SOURCES[name](X, y, tmp_path)
    for rule in ROBUST.values():
        for rows in (lambda b: (b.X, None), gradient(np.ones(D))):
            np.testing.assert_array_equal(rule.mean(data, rows)._value, rule.mean(PrivateData(X, y), rows)._value)


@pytest.mark.parametrize("name", ROBUST)
def test_passes_travel_and_rows_do_not(name, monkeypatch):
    """What a cluster is sent is a function of public parameters; a closure over the rows is refused."""
    X, y = rows_of()
    data = PrivateData(X, y)
    sent = []
    monkeypatch.setattr(Job, "over", lambda job, *rest: sent.append(job))
    ROBUST[name].mean(data, gradient(np.ones(D)))
    monkeypatch.undo()
    job = cloudpickle.loads(cloudpickle.dumps(sent[0]))
    np.testing.assert_array_equal(job([(X, y)], 0), ROBUST[name].mean(data, gradient(np.ones(D)))._value)
    with pytest.raises(TypeError, match="not pickled"):
        cloudpickle.dumps(Job(lambda block: sum_over_blocks(data, lambda b: b.X), 16))


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(("name", "method"), METHODS, ids=[f"{e}-{m}" for e, m in METHODS])
def test_every_pass_of_every_method_travels(name, method, form, monkeypatch):
    """No pass holds on to the rows, so that it could not be sent to a cluster, where others have them."""
    X, y = rows_of()
    data = form(X), (y > 0).astype(float) if name in CLASSIFIERS else y
    if form is sparse.csr_array and name in DENSE:
        with pytest.raises(ValueError, match="dense rows only"):
            fitted(name, method, PrivateData(*data))
        return
    expected = fitted(name, method, PrivateData(*data))
    here = Job.over
    monkeypatch.setattr(Job, "over", lambda job, *rest: here(cloudpickle.loads(cloudpickle.dumps(job)), *rest))
    np.testing.assert_array_equal(fitted(name, method, PrivateData(*data)), expected)


# One method of each, `auto` where none is named.
MODELS = dict.fromkeys(catalog.names(), "auto") | {
    "DPHuberRegressor": "smoothed",
    "DPLogisticRegression": "clipped",
    "DPSparseRegressor": "iht_huber",
    "DPMixtureOfRegressions": "smoothed",
}
AT_ONCE = [("DPMean", "trimmed"), ("DPLinearRegression", "sample_aggregate"), ("DPSparseRegressor", "two_stage")]


def fitted(name, method, data):
    model = getattr(fattail, name)(epsilon=4.0, method=method, random_state=0)
    model.fit(data)
    return np.ravel(model.coef_ if hasattr(model, "coef_") else model.mean_)


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize("name", MODELS)
def test_the_same_fit_from_every_source(name, tmp_path):
    X, y = rows_of()
    if name in CLASSIFIERS:
        y = (y > 0).astype(float)
    expected = fitted(name, MODELS[name], PrivateData(X, y))
    for k, source in enumerate(("parquet folder", "polars scan", "chunks", "dask array", "dask frame")):
        (tmp_path / str(k)).mkdir()
        data = SOURCES[source](X, y, tmp_path / str(k))
        np.testing.assert_array_equal(fitted(name, MODELS[name], data), expected, err_msg=source)


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize("name", ["DPSparseRegressor", "DPSparseClassifier"])
def test_csr_partitions_are_treated_as_csr_rows(name):
    rng = np.random.default_rng(0)
    X = sparse.random(900, 40, 0.1, format="csr", random_state=0)
    y = np.asarray(X[:, :3].sum(axis=1)).ravel() + 0.1 * rng.standard_normal(900)
    y = (y > 0.1).astype(float) if name.endswith("Classifier") else y
    parts = [dask_array.from_delayed(delayed(X[k : k + 300]), (300, 40), float, sparse.csr_array((0, 0))) for k in (0, 300, 600)]
    expected = fitted(name, "auto", PrivateData(X, y))
    np.testing.assert_array_equal(fitted(name, "auto", PrivateData(dask_array.concatenate(parts), y)), expected)


@pytest.mark.parametrize(("name", "method"), AT_ONCE)
def test_methods_that_need_all_rows_refuse_a_stream_before_they_are_charged(name, method):
    with fattail.Budget(epsilon=9.0, delta=1e-3) as budget:
        with pytest.raises(ValueError, match=f"{method}.*all rows at once"):
            fitted(name, method, in_chunks(*rows_of(), [100]))
        assert not budget.history
