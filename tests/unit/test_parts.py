"""Some of the rows as data of their own, and sources that may not give the same rows twice."""

import gc
import os
import stat
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import fattail
from fattail.privacy import Curator, SubsampledGaussian
from fattail.robust import Clip
from fattail.robust.passes import sum_over_blocks
from fattail.rows.data import PrivateData
from fattail.rows.order import SecretOrder
from fattail.rows.sources import Chunks, Lazy

N = 2003
ORDER = SecretOrder(bytes(32), N)
X = np.random.default_rng(0).normal(size=(N, 3))
SIZES = [0, 5, 6, 700, 1500, N]


def in_chunks(reads=None, turn=None):
    """A stream of the rows; ``turn`` says how to change them from the second time on."""
    reads = [] if reads is None else reads

    def factory():
        reads.append(1)
        rows = X if turn is None or len(reads) < 4 else turn(X)  # two reads find the shape, a third is the first pass
        return (rows[a:b] for a, b in pairwise(SIZES))

    return Chunks(factory)


SOURCES = {
    "array": lambda: PrivateData(X),
    "sparse": lambda: PrivateData(sparse.csr_matrix(X)),
    "frame": lambda: PrivateData(pl.DataFrame(X)),
    "chunks": lambda: PrivateData(in_chunks()),
    "small blocks": lambda: PrivateData(X, block_bytes=1),
}


def total(data, fold=None):
    return Clip(bound=2.0).mean(data, fold=fold)._value


@pytest.mark.parametrize("keep", [1 << 27, 100])
@pytest.mark.parametrize("size", [1, 2, 700, N - 1, N])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_part_holds_the_rows_of_its_fold(kind, size, keep, monkeypatch):
    monkeypatch.setattr("fattail.rows.data.KEEP_BYTES", keep)
    fold, inner = ORDER.cut([0, size])[0], ORDER.cut([0, size // 2 + 1])[0]
    data = SOURCES[kind]()
    part = data.part(fold)
    assert part.n == size
    np.testing.assert_array_equal(total(part), total(PrivateData(X[fold.positions()])))
    np.testing.assert_array_equal(total(data, fold), total(part))
    smaller = part.part(inner)
    np.testing.assert_array_equal(total(smaller), total(PrivateData(X[inner.positions()])))


def test_order_statistics_see_a_fold_in_its_secret_order():
    for fold in ORDER.folds(3):
        rows = PrivateData(X, block_bytes=1)._gather(lambda block: block.X.copy(), fold)
        np.testing.assert_array_equal(rows, X[fold.positions()])
    assert not np.array_equal(np.sort(fold.positions()), fold.positions())


def test_a_target_goes_with_its_row():
    y = X[:, 0] * 7
    fold = ORDER.cut([0, 300])[0]

    def wrong(block):
        return np.array([np.sum(block.y != block.X[:, 0] * 7)])

    for data in (PrivateData(X, y), PrivateData(in_chunks(), y), PrivateData(pl.DataFrame(X), y)):
        assert sum_over_blocks(data.part(fold), wrong) == 0 == sum_over_blocks(data, wrong, fold)


@pytest.mark.parametrize("keep", [1 << 27, 100])
def test_folds_and_samples_are_drawn_from_all_rows(keep, monkeypatch):
    monkeypatch.setattr("fattail.rows.data.KEEP_BYTES", keep)
    curator = Curator(1.0, 1e-6, random_state=0)
    release = SubsampledGaussian("mean", rate=0.5)
    curator.plan(release)
    part = PrivateData(X).part(ORDER.cut([0, 500])[0])
    with pytest.raises(ValueError, match="all rows"):
        total(part, ORDER.folds(2)[0])
    with pytest.raises(ValueError, match="not all of the fold"):
        part.part(ORDER.cut([400, 600])[0])
    with pytest.raises(ValueError, match="all rows"):
        total(part, curator.sample_rows(release, N))


def test_a_small_part_of_a_stream_is_read_once(monkeypatch):
    reads = []
    data = PrivateData(in_chunks(reads))
    reads.clear()
    part = data.part(ORDER.cut([0, 300])[0])
    half = part.part(ORDER.cut([0, 150])[0])
    for _ in range(3):
        total(part), total(half)
    assert len(reads) == 1
    monkeypatch.setattr("fattail.rows.data.KEEP_BYTES", 100)
    part = data.part(ORDER.cut([0, 300])[0])
    total(part), total(part)
    assert len(reads) == 3


TURNS = {
    "other order": lambda X: X[::-1],
    "two rows exchanged": lambda X: X[[1, 0, *range(2, N)]],
    "another row": lambda X: np.concatenate([X[:-1], X[:1]]),
}


@pytest.mark.parametrize("turn", TURNS)
def test_a_stream_that_changes_between_folds_is_refused(turn):
    data = PrivateData(in_chunks(turn=TURNS[turn]))
    first, second = ORDER.folds(2)
    total(data, first)
    with pytest.raises(ValueError, match="another order"):
        total(data, second)


def test_where_the_chunks_of_a_stream_end_may_change():
    ends = iter([[N], [N], [7, N], [1, 2, 1500, N], [N]])

    def factory():
        edges = [0, *next(ends)]
        return (sparse.csr_array(X[a:b]) for a, b in pairwise(edges))

    data = PrivateData(Chunks(factory))
    for fold in ORDER.folds(3):
        np.testing.assert_array_equal(total(data, fold), total(PrivateData(X), fold))


def test_a_stream_that_changes_its_order_is_refused_by_a_fit_with_folds_before_that_release():
    reads = []

    def factory():
        reads.append(1)
        order = np.random.default_rng(len(reads)).permutation(N)
        return iter([(X[order], X[order, 0])])

    options = {"method": "smoothed", "n_iter": 3, "random_state": 0, "epsilon": 20.0}
    fattail.DPLinearRegression(**options).fit(factory)  # sums over all rows do not depend on the order
    with pytest.raises(ValueError, match="another order"):
        fattail.DPLinearRegression(splitting=True, **options).fit(factory)


def grouped(people=20_000):
    """A query whose rows come in another order each time it runs."""
    frame = pl.DataFrame({"person": np.arange(people), "value": np.arange(people, dtype=float)})
    return frame.lazy().group_by("person").agg(pl.col("value").sum()).select(pl.col("value"), (-pl.col("value")).alias("y"))


def test_nobody_of_a_lazy_group_by_is_in_two_folds():
    """Run again for every fold, the query put thousands of 20,000 people into two of them."""
    data = PrivateData(grouped())
    seen = []
    for fold in SecretOrder(bytes(32), 20_000).folds(5):

        def members(block):
            out = np.zeros(20_000, dtype=np.int64)
            np.add.at(out, block.X[:, 0].astype(np.intp), 1)
            return out

        seen.append(sum_over_blocks(data, members, fold))
    np.testing.assert_array_equal(np.sum(seen, axis=0), np.ones(20_000))


def test_the_answer_of_a_query_is_kept_in_a_private_file_and_removed():
    source = Lazy(grouped(100))
    source.check()
    folder = source._folder.path
    (file,) = folder.iterdir()
    if os.name == "posix":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE(file.stat().st_mode) == 0o600
    with_target = source.with_target("y")
    del source
    gc.collect()
    assert total(PrivateData(with_target)).shape == (1,)
    del with_target
    gc.collect()
    assert not folder.exists()


def test_a_query_that_fails_quotes_no_value():
    query = pl.LazyFrame({"a": ["1", "HIV-positive"]}).select(pl.col("a").cast(pl.Float64))
    with fattail.Budget(epsilon=9.0, delta=1e-3) as budget:
        with pytest.raises(ValueError, match="query failed") as caught:
            fattail.DPMean(random_state=0).fit(query)
        assert "HIV" not in str(caught.value) and caught.value.__cause__ is None and not budget.history


def test_a_partition_that_is_computed_again_in_another_order_is_refused():
    dask = pytest.importorskip("dask")
    dask_array = pytest.importorskip("dask.array")
    made = []

    def part(k):
        made.append(k)
        rows = X[1000 * k : 1000 * (k + 1)]
        return rows[np.random.default_rng(len(made)).permutation(len(rows))]

    def table(make):
        lengths = [(1000, 3), (1000, 3), (N - 2000, 3)]
        return PrivateData(
            dask_array.concatenate([dask_array.from_delayed(dask.delayed(make)(k), s, float) for k, s in enumerate(lengths)])
        )

    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(total(table(part)), total(PrivateData(X)))
        with pytest.raises(ValueError, match="another order"):
            total(table(part), ORDER.folds(2)[0])
        steady = table(lambda k: X[1000 * k : 1000 * (k + 1)])
        for fold in ORDER.folds(2):
            np.testing.assert_array_equal(total(steady, fold), total(PrivateData(X), fold))
