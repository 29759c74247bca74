"""What is computed of a row has the same bits wherever the row stands."""

import numpy as np
import pytest
from scipy import sparse

from fattail import _kernels
from fattail.algorithms.parts.ridge import RidgeDescent
from fattail.losses import Huber
from fattail.robust import catoni
from fattail.rows.data import PrivateData

# Around the lengths of vector registers and the sizes at which BLAS changes its ways.
WIDTHS = [1, 2, 3, 7, 8, 9, 16, 31, 50, 51, 129]
ROWS = [1, 2, 5, 160, 257, 1003]


def rows_of(n, d, dtype, seed=0):
    return np.random.default_rng(seed).standard_t(2, (n, d)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", WIDTHS)
def test_products_depend_on_the_row_alone(d, dtype):
    rng = np.random.default_rng(d)
    w, W, c = rng.normal(size=d), rng.normal(size=(d, 7)).astype(dtype), rng.normal(size=d)
    shape = rng.normal(size=(d + 1, d + 1))

    def values(X):
        u, squares, lengths = _kernels.shaped_rows(np.asarray(X, dtype=np.float64), c, np.ones(d), 1.0, shape)
        return _kernels.dot(X, w), _kernels.product(X, W), _kernels.row_dots(X, X), u, squares, lengths

    X = rows_of(max(ROWS), d, dtype)
    whole = values(X)
    for n in ROWS:
        some = rng.permutation(len(X))[:n]
        for all_rows, these in zip(whole, values(X[some]), strict=True):
            np.testing.assert_array_equal(all_rows[some], these)


@pytest.mark.parametrize("d", WIDTHS)
def test_products_are_what_they_should_be(d):
    X, W = rows_of(60, d, np.float64), rows_of(d, 6, np.float64, 1)
    np.testing.assert_allclose(_kernels.product(X, W), X @ W, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(_kernels.product(X.astype(np.float32), W.astype(np.float32)), X @ W, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(_kernels.dot(X, W[:, 0]), X @ W[:, 0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(_kernels.row_dots(X, X), np.sum(X * X, axis=1), rtol=1e-12)
    assert _kernels.product(X[:0], W).shape == (0, 6)


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 30.0])
@pytest.mark.parametrize("d", [1, 3, 8, 33, 50])
def test_smoothed_sums_do_not_depend_on_the_company(d, scale):
    """Rows beyond the core take one of two ways, by what their neighbors are; both must end at the same integer."""
    X, table = rows_of(1003, d, np.float64), catoni.smooth_map(2.3)
    sums = []
    for seed in range(4):
        total = np.zeros(d, dtype=np.int64)
        order = np.random.default_rng(seed).permutation(len(X)) if seed else np.argsort(np.abs(X[:, 0]))
        for part in np.split(X[order], [100, 437]):
            _kernels.smooth_sums(part, None, None, np.full(d, 1 / scale), table, total)
        sums.append(total)
    for other in sums[1:]:
        np.testing.assert_array_equal(sums[0], other)


@pytest.mark.parametrize("block_bytes", [1, 1 << 14])
def test_a_ridge_descent_does_not_see_the_order_of_rows(block_bytes):
    X = rows_of(500, 12, np.float64)
    y = X[:, 0] + rows_of(500, 1, np.float64, 1)[:, 0]
    order = np.random.default_rng(2).permutation(len(X))
    fits = [
        RidgeDescent(Huber(1.0), np.arange(12), 2.0, 0.1).fit(PrivateData(rows, target, block_bytes=block_bytes))._value
        for rows, target in ((X, y), (X[order], y[order]))
    ]
    np.testing.assert_array_equal(*fits)


@pytest.mark.parametrize("d", [1, 15, 16, 17, 100, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sparse_row_has_the_product_of_the_dense_one(d, dtype):
    rng = np.random.default_rng(d)
    X = (rng.standard_cauchy((50, d)) * (rng.random((50, d)) < 0.3)).astype(dtype)
    w = rng.normal(size=d)
    np.testing.assert_array_equal(_kernels.dot(sparse.csr_array(X), w), _kernels.dot(X, w))
