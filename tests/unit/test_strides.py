"""Every k-th row as data of their own."""

import numpy as np
import pytest
from scipy import sparse

from fattail.data import PrivateData
from fattail.robust import Clip
from fattail.sources import Chunks

X = np.random.default_rng(0).normal(size=(1003, 3))


def total(data, fold=None):
    return Clip(bound=2.0).mean(data, fold=fold)._value


@pytest.mark.parametrize("stride", [1, 2, 7, 1003, 5000])
@pytest.mark.parametrize("kind", ["array", "sparse", "chunks", "small blocks"])
def test_a_stride_takes_rows_at_its_multiples(kind, stride):
    data = {
        "array": lambda: PrivateData(X),
        "sparse": lambda: PrivateData(sparse.csr_matrix(X)),
        "chunks": lambda: PrivateData(Chunks(lambda: iter([X[:5], X[5:6], X[6:500], X[500:]]))),
        "small blocks": lambda: PrivateData(X, block_bytes=1),
    }[kind]().every(stride)
    kept = X[::stride]
    assert data.n == len(kept)
    assert np.array_equal(total(data), total(PrivateData(kept)))
    for fold in data.folds(min(3, data.n)):
        assert np.array_equal(total(data, fold), total(PrivateData(kept[fold.start : fold.stop])))


def test_strides_multiply_and_order_statistics_follow():
    data = PrivateData(X, block_bytes=1).every(2).every(3)
    assert np.array_equal(data._gather(lambda block: block.X.copy()), X[::2][::3])
    assert np.array_equal(data._gather(lambda block: block.X.copy(), data.folds(2)[1]), X[::6][84:])


def test_a_poisson_sample_needs_all_rows():
    from fattail.privacy import Curator, SubsampledGaussian

    curator = Curator(1.0, 1e-6, random_state=0)
    release = SubsampledGaussian("mean", rate=0.5)
    curator.plan(release)
    data = PrivateData(X).every(2)
    with pytest.raises(ValueError, match="all rows"):
        Clip(bound=2.0).mean(data, fold=curator.sample_rows(release, data.n))
