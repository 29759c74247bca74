"""Kernels against plain numpy: the same integers for any floats, blocks, storage and layout."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fattail import _kernels as K
from fattail._kernels import shapes
from fattail.robust import catoni

UNIT = 2.0**30
TABLE = catoni.smooth_map(2.0)
MAPS = ["clip", "truncate", "smooth"]

hostile = st.one_of(
    st.floats(width=64),
    st.sampled_from([0.0, -0.0, 5e-324, -1e-310, 1e-160, 1.0, -1.0, 1e160, 1.7e308, -1.7e308, np.inf, -np.inf, np.nan]),
    st.floats(-2.0, 2.0),
)


def hostile_array(shape, seed):
    """Heavy tails, then a tenth of the entries replaced by floats of random bits."""
    rng = np.random.default_rng(seed)
    V = rng.standard_t(1.5, shape)
    bits = rng.integers(-(2**63), 2**63, shape, dtype=np.int64).view(np.float64)
    return np.where(rng.random(shape) < 0.1, bits, V)


def terms(kind, V, r, c, inv_s):
    """The definition: one integer per entry."""
    with np.errstate(all="ignore"):
        a = (r[:, None] * np.asarray(V, dtype=np.float64) - c) * (inv_s * TABLE.kappa if kind == "smooth" else inv_s)
        if kind == "clip":
            h = np.where(np.isnan(a), 0.0, np.clip(a, -1.0, 1.0)) * UNIT
        elif kind == "truncate":
            h = np.where(np.abs(a) <= 1.0, a, 0.0) * UNIT
        else:
            h = catoni.scaled(a, TABLE)
    return np.rint(h).astype(np.int64)


def sums(kind, block, r, c, inv_s, d):
    out = np.zeros(d, dtype=np.int64)
    if kind == "smooth":
        K.smooth_sums(block, r, c, inv_s, TABLE, out)
    elif kind == "ball":
        K.ball_sums(block, r, c, inv_s, 1.5, out)
    else:
        getattr(K, f"{kind}_sums")(block, r, c, inv_s, out)
    return out


def agree(kind, found, want):
    """The tail of the smoothed map may be found with fewer roundings than numpy's: rarely, an integer differs by one."""
    return np.abs(found - want).max() <= (1 if kind == "smooth" else 0)


def exact_norm(row):
    """l2 norm of a row's finite entries, rounded once, from exact rational arithmetic."""
    square = sum((Fraction(float(v)) ** 2 for v in row if math.isfinite(v)), Fraction(0))
    if not square:
        return 0.0
    shift = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    root = math.sqrt(square / Fraction(4) ** shift)
    with np.errstate(over="ignore"):
        return float(np.ldexp(root, shift))


@given(
    V=arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 70)), elements=hostile),
    scalars=st.tuples(hostile, hostile, hostile),
    kind=st.sampled_from(MAPS),
)
@settings(max_examples=150, deadline=None)
def test_sums_are_the_definition_for_any_floats(V, scalars, kind):
    n, d = V.shape
    factor, center, inverse = scalars
    r, c, inv_s = np.full(n, factor), np.full(d, center), np.full(d, inverse)
    r[: n // 2], c[: d // 2], inv_s[: d // 3] = 1.0, 0.0, 0.7
    want = terms(kind, V, r, c, inv_s)
    assert np.abs(want).max() <= 2**30
    assert agree(kind, sums(kind, V, r, c, inv_s, d), want.sum(axis=0))


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("d", [1, 2, 5, 31, 33, 64, 130])
@pytest.mark.parametrize("spread", [1e-3, 0.3, 1e3])
def test_sums_on_heavy_tails(kind, d, spread):
    rng = np.random.default_rng(d)
    V, r = hostile_array((203, d), seed=d), rng.standard_normal(203)
    c, inv_s = rng.standard_normal(d), spread * (0.1 + rng.random(d))
    assert agree(kind, sums(kind, V, r, c, inv_s, d), terms(kind, V, r, c, inv_s).sum(axis=0))


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 18])
@pytest.mark.parametrize("d", [4095, 4096, 4103])
@pytest.mark.parametrize("spread", [1e-3, 0.02, 0.1, 1.0])
def test_no_row_or_column_is_left_out_at_an_edge(kind, rows, d, spread):
    """Rows are taken by fours and columns by eights and by 4096: one more, one less; few, some and many beyond the core."""
    rng = np.random.default_rng(rows)
    V, r, inv_s = rng.standard_t(3.0, (rows, d)), rng.standard_normal(rows), spread * rng.uniform(0.5, 2.0, d)
    for c in (None, rng.standard_normal(d)):
        want = terms(kind, V, r, 0.0 if c is None else c, inv_s).sum(axis=0)
        assert agree(kind, sums(kind, V, r, c, inv_s, d), want)


@pytest.mark.parametrize("kind", MAPS)
def test_one_row_stays_within_the_bound(kind):
    """The line that privacy rests on, for floats of random bits everywhere."""
    rng = np.random.default_rng(3)
    bits = rng.integers(-(2**63), 2**63, (4, 20_000), dtype=np.int64).view(np.float64)
    V, c, inv_s = bits[:1], bits[1], bits[2]
    for r in (None, bits[3, :1], np.array([np.inf]), np.array([np.nan])):
        out = sums(kind, V, r, c, inv_s, V.shape[1])
        assert np.abs(out).max() <= 2**30


@pytest.mark.parametrize("d", [1, 3, 50, 300])
@pytest.mark.parametrize("kind", [*MAPS, "ball"])
def test_adds_and_ignores_blocks_order_and_defaults(kind, d):
    rng = np.random.default_rng(4)
    V, inv_s = hostile_array((257, d), seed=5), np.full(d, 0.4)
    whole = sums(kind, V, None, None, inv_s, d)
    assert np.array_equal(whole, sums(kind, V, np.ones(257), np.zeros(d), inv_s, d))
    shuffled = np.ascontiguousarray(V[rng.permutation(257)])
    assert np.array_equal(whole, sums(kind, shuffled, None, None, inv_s, d))
    cuts = [0, 1, 4, 70, 71, 200, 257]
    parts = [sums(kind, V[a:b], None, None, inv_s, d) for a, b in pairwise(cuts)]
    assert np.array_equal(whole, sum(parts))


def test_many_rows_do_not_round():
    """Sums of 2**24 odd terms near 2**30 pass 2**53, where a float accumulator would lose units."""
    rows = 2**24
    V, r = np.broadcast_to(1.0 - 2.0**-30, (rows, 1)), np.broadcast_to(1.0, rows)
    given = (r, None, None, 0.0, 0.0)
    for kernel, first, extra in ((K.dense.bound_block, given, [1.0]), (K.dense.ball_block, (r,), [1.0, 1.0])):
        out = np.zeros(1, dtype=np.int64)
        kernel(V, *first, np.zeros(1), np.ones(1), *extra, out)
        assert out == rows * (2**30 - 1)
    out = np.zeros(1, dtype=np.int64)
    smooth = (np.zeros(1), np.array([TABLE.kappa]), TABLE.core, TABLE.slope, TABLE.tail)
    K.smooth.smooth_block(V, *given, *smooth, out)
    assert out == rows * terms("smooth", V[:1], r[:1], 0.0, 1.0).item()
    column = np.full(rows, 1.0 - 2.0**-30)
    where = (np.array([column.ctypes.data]), column[:0])
    K.columns.smooth_columns(*where, r, *smooth, out)
    K.columns.bound_columns(*where, r, np.zeros(1), np.ones(1), 1.0, out)
    assert out == rows * (2 * terms("smooth", V[:1], r[:1], 0.0, 1.0).item() + 2**30 - 1)


@pytest.mark.parametrize("d", [3, 50, 300, 5000])
@pytest.mark.parametrize("spread", [1e-3, 0.1, 1.0, 1e4])
def test_smooth_sums_do_not_depend_on_how_crowded_the_tail_is(d, spread):
    """Quiet, mixed and crowded rows in turn: the kernel's ways of treating them give the same integers."""
    rng = np.random.default_rng(d)
    V = rng.standard_t(2.0, (200, d)) * spread * np.where(np.arange(200) % 60 < 30, 1.0, 1e3)[:, None]
    V[::17, ::2] = np.nan
    r, inv_s = rng.standard_normal(200), rng.uniform(0.5, 2.0, d)
    for c in (None, rng.standard_normal(d)):
        expected = terms("smooth", V, r, 0.0 if c is None else c, inv_s).sum(axis=0)
        assert agree("smooth", sums("smooth", V, r, c, inv_s, d), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [53, 1501])
def test_products_do_not_depend_on_the_block(dtype, d):
    rng = np.random.default_rng(5)
    X, w = rng.standard_t(3.0, (100, d)).astype(dtype), rng.standard_normal(d)
    whole = K.dot(X, w)
    assert whole.dtype == np.float64
    assert np.allclose(whole, X.astype(np.float64) @ w, rtol=1e-13, atol=1e-13)
    for cut in (1, 3, 7, 64):
        assert np.array_equal(np.concatenate([K.dot(X[a : a + cut], w) for a in range(0, 100, cut)]), whole)
    high = np.sort(X.max(axis=1))[50] < X
    assert np.array_equal(np.isnan(K.dot(np.where(high, np.nan, X), w)), high.any(axis=1))


@pytest.mark.parametrize("kind", [*MAPS, "ball"])
@pytest.mark.parametrize("d", [5, 53, 128, 300, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_residuals_found_on_the_way_are_those_found_before(kind, d, dtype):
    """More rows than a group, NaN and infinity among rows, responses and parameters."""
    n, rng = max(37, 40000 // d), np.random.default_rng(d)
    V, w, y = rng.standard_t(2.0, (n, d)).astype(dtype), rng.standard_normal(d), rng.standard_t(2.0, n)
    V[1, 1], V[2, 2], y[3], y[4] = np.nan, np.inf, np.nan, -np.inf
    inv_s = rng.uniform(0.01, 2.0, d)
    for level, limit in ((0.3, 1.5), (-2.0, np.inf)):
        found = K.Residual(w, y, level, limit)
        before = np.clip(K.dot(V, w) + level - y, -limit, limit)
        assert np.isnan(before[[1, 3]]).all()
        blocks = [V, np.asfortranarray(V)] + ([sp.csr_array(V)] if kind != "ball" and d == 53 else [])
        for block in blocks:
            factors = before if isinstance(block, np.ndarray) else K.factors(block, found)
            assert np.allclose(factors, before, rtol=1e-9, equal_nan=True)
            for c in (None, rng.standard_normal(d) if isinstance(block, np.ndarray) else None):
                want = sums(kind, block, factors, c, inv_s, d)
                assert np.array_equal(sums(kind, block, found, c, inv_s, d), want)


@pytest.mark.parametrize("kind", [*MAPS, "ball", "norms"])
def test_float32_is_its_upcast(kind):
    d = 40
    with np.errstate(over="ignore", invalid="ignore"):
        V = hostile_array((101, d), seed=6).astype(np.float32)
    r, inv_s = np.random.default_rng(7).standard_normal(101), np.full(d, 0.4)
    if kind == "norms":
        low, high = np.empty(101), np.empty(101)
        K.row_norms(V, None, inv_s, low)
        K.row_norms(V.astype(np.float64), None, inv_s, high)
    else:
        low, high = (sums(kind, W, r, None, inv_s, d) for W in (V, V.astype(np.float64)))
    assert np.array_equal(low, high)


@pytest.mark.parametrize("kind", [*MAPS, "ball"])
def test_layout_does_not_matter_and_is_not_compiled_for(kind):
    d = 40
    V, r, inv_s = hostile_array((101, d), seed=15), np.linspace(-1.0, 2.0, 101), np.full(d, 0.4)
    kernel = {"smooth": K.smooth.smooth_block, "ball": K.dense.ball_block}.get(kind, K.dense.bound_block)
    want = sums(kind, V, r, np.zeros(d), inv_s, d)
    compiled = len(kernel.signatures)
    locked = V.copy()
    locked.setflags(write=False)
    strided = np.repeat(V, 2, axis=1)[:, ::2]
    for block in (np.asfortranarray(V), locked, strided):
        center, inverse = np.broadcast_to(0.0, d), np.broadcast_to(0.4, d)
        assert np.array_equal(sums(kind, block, np.repeat(r, 2)[::2], center, inverse, d), want)
    assert len(kernel.signatures) == compiled


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("rows", [127, 128, 129, 512, 543, 8000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_are_rows(kind, rows, dtype, monkeypatch):
    """A block by columns is not copied, and gives the integers of rows: quiet, mixed and crowded columns in turn."""
    d, rng = 9, np.random.default_rng(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        V = (hostile_array((rows, d), seed=rows) * np.where(np.arange(rows) % 600 < 400, 1e-3, 1.0)[:, None]).astype(dtype)
    V[:, 0] = rng.standard_normal(rows) * 1e-3
    V[:, 1] *= np.where(rng.random(rows) < 0.01, 1e6, 1e-6)
    V[:, 2] = 1e30
    V[:, 3] = np.where(rng.random(rows) < 0.2, 1e6, 1e-6)
    V[-1, :7] = np.nan, np.inf, -np.inf, np.finfo(dtype).max, np.finfo(dtype).tiny / 8, -0.0, 1.0
    r, inv_s = rng.standard_normal(rows), rng.uniform(0.5, 2.0, d)
    r[:4] = np.inf, np.nan, 0.0, 1e-320
    cases = [(factors, c) for factors in (r, None) for c in (None, rng.standard_normal(d))]
    by_rows = [sums(kind, V, factors, c, inv_s, d) for factors, c in cases]
    if rows >= 128:
        monkeypatch.setattr(K.dense, "bound_block", None)
        monkeypatch.setattr(K.smooth, "smooth_block", None)
    for (factors, c), want in zip(cases, by_rows, strict=True):
        assert np.array_equal(sums(kind, np.asfortranarray(V), factors, c, inv_s, d), want)
        integers = terms(kind, V, np.ones(rows) if factors is None else r, 0.0 if c is None else c, inv_s)
        assert agree(kind, want, integers.sum(axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [*MAPS, "ball", "norms"])
@pytest.mark.parametrize("centered", [False, True])
def test_sparse_is_dense(kind, dtype, centered):
    d, rng = 45, np.random.default_rng(8)
    with np.errstate(over="ignore", invalid="ignore"):
        V = np.where(rng.random((120, d)) < 0.2, hostile_array((120, d), seed=9), 0.0).astype(dtype)
    S = sp.csr_matrix(V)
    r, inv_s = rng.standard_normal(120), np.full(d, 0.4)
    r[:3] = np.inf, np.nan, 0.0
    c = rng.standard_normal(d) if centered else None
    if centered and kind in ("ball", "norms"):
        with pytest.raises(ValueError, match="centered"):
            sums("ball", S, r, c, inv_s, d)
    elif kind == "norms":
        dense, sparse = np.empty(120), np.empty(120)
        K.row_norms(V, None, inv_s, dense)
        K.row_norms(S, None, inv_s, sparse)
        assert np.array_equal(dense, sparse)
    else:
        want = sums(kind, V, r, c, inv_s, d)
        assert np.array_equal(want, sums(kind, S, r, c, inv_s, d))
        assert np.array_equal(want, sums(kind, (S.data, S.indices, S.indptr), r, c, inv_s, d))


@pytest.mark.parametrize("kind", [*MAPS, "ball"])
def test_malformed_sparse_rows_stay_within_the_bound(kind):
    """Duplicate, unsorted and wild columns must not let one row count twice."""
    data = np.full(9, 7.0)
    indices = np.array([2, 2, 2, 0, 1, 3, -1, 99, 3], dtype=np.int32)
    out = sums(kind, (data, indices, np.array([0, 9], dtype=np.int32)), None, None, np.ones(4), 4)
    assert np.linalg.norm(out.astype(float), np.inf if kind != "ball" else 2) <= 2**30 + 1.0


@given(
    V=arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=hostile),
    radius=st.sampled_from([1e-280, 1e-3, 1.0, 1e3, 1e280]),
)
@settings(max_examples=150, deadline=None)
def test_ball_is_a_shrunk_row(V, radius):
    n, d = V.shape
    for i in range(n):
        out = np.zeros(d, dtype=np.int64)
        K.ball_sums(V[i : i + 1], None, None, np.ones(d), radius, out)
        assert math.sqrt(sum(int(q) ** 2 for q in out)) <= 2**30 + math.sqrt(d) / 2
        row = np.where(np.isfinite(V[i]), V[i], 0.0)
        top = np.abs(row).max()
        if top > 0:
            with np.errstate(over="ignore"):  # NumPy 1.26 raises the flag for lanes that it then discards
                norm = np.linalg.norm(row / top)
            with np.errstate(all="ignore"):
                unit = row / top / norm if top * norm > radius else row / radius
            assert np.abs(out - unit * UNIT).max() <= 0.51
        else:
            assert not out.any()


def test_ball_never_exceeds_its_bound_in_high_dimension():
    rng = np.random.default_rng(10)
    for d in (7, 1000, 30_000):
        for row in (np.ones(d), rng.standard_normal(d), rng.standard_t(1.0, d), np.full(d, 1.7e308), np.full(d, 5e-324)):
            out = np.zeros(d, dtype=np.int64)
            K.ball_sums(row[None], None, None, np.ones(d), 0.5, out)
            assert math.sqrt(sum(int(q) ** 2 for q in out)) <= 2**30 + math.sqrt(d) / 2


@given(V=arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=hostile))
@settings(max_examples=100, deadline=None)
def test_row_norms_are_exact_norms(V):
    out = np.empty(len(V))
    K.row_norms(V, None, np.ones(V.shape[1]), out)
    for got, row in zip(out, V, strict=True):
        assert got == pytest.approx(exact_norm(row), rel=1e-14, abs=1e-322)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_log_histogram_is_a_search_among_the_edges(steps):
    low, bins = -12, 20 * steps
    edges = K.log_edges(low, bins, steps)
    v = np.concatenate(
        [hostile_array(3000, seed=11), edges, np.nextafter(edges, 0), np.nextafter(edges, 9e9), [np.nan, np.inf, 0.0]]
    )
    want = np.bincount(np.searchsorted(edges, np.where(np.isnan(v), 0.0, np.abs(v)), side="right"), minlength=bins)
    out = np.zeros((1, 2, bins), dtype=np.int64)
    K.column_log_histogram(v[:, None], None, low, bins, steps, out)
    assert np.array_equal(out[0].sum(axis=0), want)
    K.column_log_histogram(-v[:, None], None, low, bins, steps, out)
    assert np.array_equal(out[0].sum(axis=0), 2 * want)
    codes = K.column_log_cells(v[:, None], None, low, bins, steps)[:, 0]
    assert np.array_equal(np.bincount(codes % bins, minlength=bins), want)


def test_log_edges_are_exact_powers_of_two():
    edges = K.log_edges(-1022, 2 * 2046 + 1, 2)
    assert np.array_equal(edges[::2], np.ldexp(1.0, np.arange(-1022, 1024)))
    assert np.all(np.diff(edges) > 0)


def test_column_log_histogram_splits_by_sign():
    d, low, bins = 3, -20, 44
    V, c = hostile_array((500, d), seed=12), np.array([0.0, 1.5, -2.0])
    out = np.zeros((d, 2, bins), dtype=np.int64)
    K.column_log_histogram(V, c, low, bins, 1, out)
    for j in range(d):
        with np.errstate(all="ignore"):
            v = V[:, j] - c[j]
        for sign, part in enumerate((v[~(v < 0)], v[v < 0])):
            cells = K.column_log_cells(np.abs(part)[:, None], None, low, bins, 1)[:, 0]
            want = np.bincount(cells, minlength=bins)
            assert np.array_equal(out[j, sign], want)


@pytest.mark.parametrize("grid", [(-1023, 5, 1), (0, 1, 1), (0, 5, 3)])
def test_log_histogram_refuses_other_grids(grid):
    with pytest.raises(ValueError, match="steps_per_octave"):
        K.column_log_cells(np.ones((3, 1)), None, *grid)


def test_exact_gram_is_integer_arithmetic():
    Z = hostile_array((300, 6), seed=13)
    got = K.exact_gram(Z)
    assert np.array_equal(got, K.exact_gram(np.ascontiguousarray(Z[::-1])))
    assert np.array_equal(got, sum(K.exact_gram(Z[i : i + 1]) for i in range(300)))
    for row in Z:
        norm = int(np.trace(K.exact_gram(row[None])))
        assert norm <= 2**30  # exactly: the squared norm of the rounded row
    inside = np.random.default_rng(14).uniform(-0.3, 0.3, (100, 6))
    Q = [[round(float(v) * 2**15) for v in row] for row in inside]
    want = [[sum(q[a] * q[b] for q in Q) for b in range(6)] for a in range(6)]
    assert K.exact_gram(inside).tolist() == want


@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan])
def test_ball_refuses_other_radii(radius):
    with pytest.raises(ValueError, match="radius"):
        K.ball_sums(np.ones((2, 2)), None, None, np.ones(2), radius, np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_waves_are_bounded_and_repeat_with_their_period(dtype):
    periods = np.array([0.5, 2.0])
    x = np.array([[3.0, -3.0, 0.0, np.nan, np.inf, 1e-320, -1e308 if dtype == np.float64 else -1e38]], dtype=dtype)
    faces = K.waves_of(x, periods).reshape(10, -1)
    np.testing.assert_array_equal(faces[0], [1, -1, 0, 0, 1, dtype(1e-320) > 0, -1])
    np.testing.assert_array_equal(faces[1], [1, -1, -1, 0, 1, 1 if dtype(1e-320) > 0 else -1, -1])
    assert set(np.unique(faces)) <= {-1.0, 0.0, 1.0}
    np.testing.assert_array_equal(faces[2:, 1], -faces[2:, 0])
    assert not faces[2:, 2:4].any()
    again = K.waves_of(x[:, :1] * dtype(4), periods)  # two octaves on
    np.testing.assert_array_equal(again[0], faces[:, 0])


def test_some_wave_changes_its_sign_near_any_place():
    """Columns of wine and voices were chosen by chance alone: their few tenths of an octave lay within one flank of a wave."""
    for middle in np.geomspace(1.0, 300.0, 40):
        column = middle * np.linspace(0.8, 1.25, 400)[:, None]
        waves = K.waves_of(column, np.array([0.5, 2.0, 8.0]))
        assert np.max(np.abs(np.mean(np.sign(column - middle) * waves, axis=0))) > 0.6  # 0.3 before


@pytest.mark.parametrize("seed", range(40))
def test_an_exact_sum_is_rounded_once(seed):
    """Against ``math.fsum``: all exponents, cancellation, subnormal numbers, both zeros, nothing at all."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 300))
    x = rng.standard_normal(n) * 2.0 ** rng.integers(-1074, -1020 if seed % 2 else 900, n)
    x = np.concatenate([x, -x[: n // 2], [5e-324, -0.0, 0.0, 2.3e-308] * (seed % 3)])
    assert K.exact_sum(rng.permutation(x)) == math.fsum(x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_octave_cells_hold_what_their_edges_say(dtype):
    with np.errstate(over="ignore"):
        V = hostile_array((500, 4), seed=21).astype(dtype)
    V[0] = [0.0, -0.0, 1.0, -1.0]
    lowest, cells = -8, 12
    edges = np.ldexp(1.0, lowest + np.arange(cells))
    got = K.octave_cells(V, lowest, cells)
    size = np.where(np.isnan(V), 0.0, np.abs(V.astype(np.float64)))
    want = np.searchsorted(edges, size, side="right")
    np.testing.assert_array_equal(got, cells + np.where(np.signbit(V), -want, want))


@given(arrays(np.float64, (7, 2), elements=hostile))
@settings(max_examples=100, deadline=None)
def test_grid_cells_are_numpys(V):
    low, step = np.array([-1.0, 1e-3]), np.array([0.25, 7.0])
    with np.errstate(all="ignore"):
        want = np.nan_to_num(np.clip(np.floor((V - low) / step) + 1.0, 0.0, 9.0), nan=0.0)
    np.testing.assert_array_equal(K.grid_cells(V, low, step, 8), want)


@pytest.mark.parametrize("size", [1, 3, 50])
def test_steps_of_the_fit_of_shapes_are_numpys(size):
    rng = np.random.default_rng(size)
    P, height, counts = rng.dirichlet(np.ones(19), size), rng.exponential(1e4, size), rng.normal(100, 300, 19)
    b, misfit, valley, noise = 30.0, rng.uniform(0.1, 0.4, 19), 6.0, 1800.0
    model = P * height[:, None]
    blur = model * (1 / b + misfit * model) + valley
    length, variance = np.sqrt((counts - model) * (counts - model) + blur * blur), noise + b * (blur - valley)
    likelihood = b, misfit, valley, noise
    np.testing.assert_array_equal(shapes.shape_weights(P, height, counts, *likelihood), P / length)
    found = shapes.shape_evidence(P, height, counts, *likelihood)
    np.testing.assert_array_equal(found, [(length - blur) / b, variance / noise, P**2 / variance])

    share, trusted = height / 1e5, counts > 600
    model, errors = P * share[:, None], (misfit * (P * share[:, None])) ** 2
    surplus = np.where(trusted, 1.0, errors / (errors + 1e-4)) * (counts - model)
    found = shapes.shape_surplus(P, share, counts, trusted, misfit, 1e-4)
    np.testing.assert_array_equal(found, [model + surplus, surplus])

    excess, square, at_ends = rng.exponential(1.0, (size, 5)), rng.exponential(9.0, (size, 5)), rng.exponential(1e-3, 5)
    risk = (excess * share[:, None]) ** 2 + square * (share / 1e5)[:, None] + at_ends
    np.testing.assert_array_equal(shapes.shape_risk(excess, square, share, 1e5, at_ends), risk.min(axis=1))

    survival = -np.sort(-(rng.random((size, 9)) ** 4))
    area, moment, kept, ends = np.cumsum(survival, 1), 3 * np.cumsum(survival, 1), np.arange(size)[::2], np.arange(1.0, 6.0)
    top = np.minimum((survival[kept] * height[kept, None] > 50.0).sum(1), 8)
    first, second = (np.maximum(f[kept, top][:, None] - f[kept, :5], 0.0) for f in (area, moment))
    found = shapes.shape_realized(survival, area, moment, kept, height[kept], 50.0, ends)
    np.testing.assert_array_equal(found, np.maximum(2 * (second - ends * first), 0.0))


@pytest.mark.parametrize("rows", [1, 255, 256, 700])
def test_shaped_rows_are_products_of_standard_ones(rows):
    rng = np.random.default_rng(rows)
    V, c, inv_s, shape = rng.standard_t(2, (rows, 5)), rng.normal(size=5), rng.uniform(0.5, 2, 5), rng.normal(size=(4, 6))
    V[0, 0] = np.nan
    z = K.standard_rows(V, c, inv_s, 1.5)
    u, squares, lengths = K.shaped_rows(V, c, inv_s, 1.5, shape)
    np.testing.assert_allclose(u, z @ shape.T, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(squares, np.sum(z.astype(float) ** 2, axis=1), rtol=1e-5)
    np.testing.assert_allclose(lengths, np.linalg.norm(u.astype(float), axis=1), rtol=1e-5)
