"""Every k-th group of rows as data of their own."""

import numpy as np
import pytest
from scipy import sparse

from fattail.data import PrivateData
from fattail.passes import GROUP
from fattail.robust import Clip
from fattail.sources import Chunks

X = np.random.default_rng(0).normal(size=(10 * GROUP + 3, 3))


def kept(rows, stride):
    return rows[np.arange(len(rows)) // GROUP % stride == 0]


def total(data, fold=None):
    return Clip(bound=2.0).mean(data, fold=fold)._value


@pytest.mark.parametrize("stride", [1, 2, 3, 5, 10, 11, 5000])
@pytest.mark.parametrize("kind", ["array", "sparse", "chunks", "small blocks"])
def test_a_stride_takes_groups_at_its_multiples(kind, stride):
    data = {
        "array": lambda: PrivateData(X),
        "sparse": lambda: PrivateData(sparse.csr_matrix(X)),
        "chunks": lambda: PrivateData(Chunks(lambda: iter([X[:5], X[5:6], X[6:GROUP], X[GROUP:1500], X[1500:]]))),
        "small blocks": lambda: PrivateData(X, block_bytes=1),
    }[kind]().every(stride)
    rows = kept(X, stride)
    assert data.n == len(rows)
    assert np.array_equal(total(data), total(PrivateData(rows)))
    for fold in data.folds(min(3, data.n)):
        assert np.array_equal(total(data, fold), total(PrivateData(rows[fold.start : fold.stop])))


def test_strides_multiply_and_order_statistics_follow():
    data = PrivateData(X, block_bytes=1).every(2).every(3)
    rows = kept(kept(X, 2), 3)
    assert np.array_equal(rows, kept(X, 6))
    assert np.array_equal(data._gather(lambda block: block.X.copy()), rows)
    assert np.array_equal(data._gather(lambda block: block.X.copy(), data.folds(2)[1]), rows[len(rows) // 2 :])


def test_a_poisson_sample_needs_all_rows():
    from fattail.privacy import Curator, SubsampledGaussian

    curator = Curator(1.0, 1e-6, random_state=0)
    release = SubsampledGaussian("mean", rate=0.5)
    curator.plan(release)
    data = PrivateData(X).every(2)
    with pytest.raises(ValueError, match="all rows"):
        Clip(bound=2.0).mean(data, fold=curator.sample_rows(release, data.n))


def test_few_rows_of_a_stream_are_kept_and_read_once(monkeypatch):
    reads = []

    def chunks():
        reads.append(1)
        return iter([X[:700], X[700:]])

    data = PrivateData(Chunks(chunks)).every(3)
    reads.clear()
    few = data.kept()
    for _ in range(3):
        assert np.array_equal(total(few), total(PrivateData(kept(X, 3))))
    assert len(reads) == 1
    assert few.n == data.n
    monkeypatch.setattr("fattail.data.KEEP_BYTES", 100)
    assert data.kept() is data
    in_memory = PrivateData(X).every(3)
    assert in_memory.kept() is in_memory
