"""What every robustifier promises, for all of them."""

import numpy as np
import pytest
from scipy import sparse

from docs.extend.tanh import Tanh
from fattail import DPMean, _kernels, audit
from fattail.algorithms.parts import scale
from fattail.privacy import Curator, Gaussian, PrivacyError, SmoothNoise, SubsampledGaussian, TopK
from fattail.robust import Ball, Clip, Gram, MedianOfMeans, Smooth, Trimmed, Truncate, symmetric
from fattail.robust.base import ONE
from fattail.robust.clip_moments import clipped_moments
from fattail.robust.plain import plain_rows
from fattail.rows.data import PrivateData
from fattail.rows.order import SecretOrder

ROBUST = {
    "clip": Clip(bound=2.0),
    "clip per column": Clip(bound=[0.5, 1e6, 3.0], center=[1.0, -2.0, 0.0]),
    "truncate": Truncate(bound=2.0),
    "smooth": Smooth(scale=1.5, beta=2.3),
    "ball": Ball(radius=2.0, scale=[1.0, 10.0, 0.1]),
    "centered ball": Ball(radius=2.0, center=[1.0, 0.0, -1.0]),
    "median of clipped": MedianOfMeans(Clip(bound=2.0), 5),
    "median of balls": MedianOfMeans(Ball(radius=2.0), 7),
    "gram": Gram(radius=1.5, scale=[1.0, 2.0, 3.0]),
    "of one's own": Tanh(scale=1.5),  # from the guide in docs/extend
}


def mean_of(robust, X):
    """The mean; groups are cut from all rows, in the order of the table."""
    with audit.known_order():
        everybody = SecretOrder(b"", len(X)).cut([0, len(X)])[0] if hasattr(robust, "groups") else None
        return robust.mean(PrivateData(X), fold=everybody)


SUMS = [name for name in ROBUST if not name.startswith("median")]


def rows_of(seed=0, n=203, d=3):
    return np.random.default_rng(seed).standard_t(2, (n, d))


def released(bounded):
    return bounded.offset + bounded.unit * bounded._value


def release_one(robust):
    def fit(X):
        curator = Curator(1.0, 1e-6, random_state=0)
        step = Gaussian("step")
        curator.plan(step)
        return curator.release(step, mean_of(robust, X).to("l2"))

    return fit


@pytest.mark.parametrize("name", ROBUST)
def test_hostile_replacement_stays_within_the_declared_sensitivity(name):
    assert audit.fuzz(release_one(ROBUST[name]), (rows_of(),), trials=60, seed=1) <= 1


@pytest.mark.parametrize("name", SUMS)
def test_the_check_for_authors_passes(name):
    audit.check_robustifier(ROBUST[name])


class Unbounded(Tanh):
    def _add(self, V, r, center, inverse, out):
        out += np.rint(ONE * np.clip(np.nan_to_num(plain_rows(V, r, center, inverse)), -100, 100)).astype(np.int64).sum(axis=0)


class Centered(Tanh):
    def _add(self, V, r, center, inverse, out):
        rows = plain_rows(V, r, center, inverse)
        super()._add(rows - rows.mean(axis=0), None, None, np.ones(rows.shape[1]), out)


class Numbered(Tanh):
    def _add(self, V, r, center, inverse, out):
        super()._add(V, np.arange(V.shape[0], dtype=float), center, inverse, out)


class Stored(Tanh):
    def _add(self, V, r, center, inverse, out):
        super()._add(V, r, center, inverse * (2.0 if sparse.issparse(V) else 1.0), out)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Unbounded, "Unbounded declares too small a sensitivity: a row moved"),
        (Centered, "Centered must bound each row by itself: its sum depends on the blocks"),
        (Numbered, "Numbered must bound each row by itself"),
        (Stored, "depends on the storage of the rows"),
    ],
)
def test_the_check_for_authors_refuses_a_broken_one(broken, message):
    with pytest.raises(ValueError, match=message):
        audit.check_robustifier(broken(scale=1.0))


@pytest.mark.parametrize("name", ["clip", "truncate", "smooth", "ball", "median of clipped", "gram"])
def test_the_declared_sensitivity_is_nearly_attained(name):
    """Otherwise noise is wasted: two opposite rows at the edge move the answer by almost all of it."""
    X = np.zeros((15, 3))
    Y = X.copy()
    if name == "median of clipped":
        X[:6], X[9:], Y[:6], Y[9:] = -2.0, 2.0, -2.0, 2.0
    edge = {"truncate": 2.0, "gram": 1.5}.get(name, 1e9)
    X[6], Y[6] = edge, -edge
    if name == "gram":
        X[6], Y[6] = [edge, 0, 0], [0, 2 * edge, 0]
    if name == "median of clipped":
        X[7:9], Y[7:9] = 0.0, 0.0
    ratio = audit.replay(release_one(ROBUST[name]), (X,), (Y,))[0].ratio
    assert {"gram": 0.99, "median of clipped": 0.5}.get(name, 0.999) < ratio <= 1


@pytest.mark.parametrize("name", SUMS)
def test_blocks_and_threads_change_no_bit(name, monkeypatch):
    X = rows_of(n=1000)
    reference = ROBUST[name].mean(PrivateData(X, block_bytes=1 << 30))._value
    for threads, block in (("1", 24), ("2", 24 * 7), ("2", 4096)):
        monkeypatch.setenv("FATTAIL_NUM_THREADS", threads)
        np.testing.assert_array_equal(ROBUST[name].mean(PrivateData(X, block_bytes=block))._value, reference)


@pytest.mark.parametrize("name", SUMS)
def test_layout_and_precision_of_the_input_change_nothing(name):
    X = rows_of().astype(np.float32)
    reference = ROBUST[name].mean(PrivateData(X.astype(np.float64)))._value
    wide = np.zeros((len(X), 6), dtype=np.float32)
    wide[:, ::2] = X
    readonly = X.copy()
    readonly.setflags(write=False)
    for same in (X, np.asfortranarray(X), wide[:, ::2], readonly):
        np.testing.assert_array_equal(ROBUST[name].mean(PrivateData(same))._value, reference)


@pytest.mark.parametrize("name", ["clip", "truncate", "smooth", "gram"])
def test_sparse_rows_give_the_same_integers(name):
    X = np.where(np.random.default_rng(0).random((300, 3)) < 0.3, rows_of(n=300), 0.0)
    r = np.random.default_rng(1).normal(size=300)
    for rows in (lambda b: (b.X, None), lambda b: (b.X, r[b.start : b.stop])):
        dense = ROBUST[name].mean(PrivateData(X), rows)._value
        np.testing.assert_array_equal(ROBUST[name].mean(PrivateData(sparse.csr_matrix(X)), rows)._value, dense)


@pytest.mark.parametrize("name", [n for n in ROBUST if n != "gram"])
def test_light_tailed_means_are_recovered(name):
    X = np.random.default_rng(3).uniform(-0.1, 0.1, (5000, 3)) + np.array([0.7, 0.3, -0.2])
    answer = released(mean_of(ROBUST[name], X))
    expected = X.mean(axis=0)
    if name == "clip per column":
        expected = np.clip(X, [0.5, -1e7, -3], [1.5, 1e7, 3]).mean(axis=0)
    if name == "ball":  # the third column in units of 0.1 pushes rows out of the ball
        expected = np.mean(X * np.minimum(1, 2 / np.linalg.norm(X / [1, 10, 0.1], axis=1))[:, None], axis=0)
    tolerance = 0.06 if name in ("smooth", "of one's own") else 0.01
    np.testing.assert_allclose(answer, expected, atol=tolerance)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ROBUST)
def test_a_non_finite_row_is_one_bounded_row(name, bad):
    X, Y = rows_of(), rows_of()
    Y[7] = bad
    assert audit.replay(release_one(ROBUST[name]), (X,), (Y,))[0].ratio <= 1


def test_products_that_overflow_are_bounded():
    X, r = np.full((4, 2), 1e308), np.array([1e308, -1e308, 0.0, np.nan])
    sums = Clip(bound=1.0).mean(PrivateData(X), lambda b: (b.X, r[b.start : b.stop]))
    np.testing.assert_array_equal(sums._value, [0, 0])


@pytest.mark.parametrize(("trim", "n"), [(0, 11), (3, 40), (19, 41)])
def test_trimmed_mean_and_its_smooth_sensitivity_survive_hostile_rows(trim, n):
    def fit(X):
        curator = Curator(1.0, 1e-6, random_state=0)
        step = SmoothNoise("step", coordinates=X.shape[1])
        curator.plan(step)
        return curator.release(step, Trimmed(trim, 1e4, curator.smoothness(step)).mean(PrivateData(X)))

    for seed in range(5):
        assert audit.fuzz(fit, (rows_of(seed, n, 2),), trials=20, seed=seed) <= 1


def test_smooth_sensitivity_equals_brute_force():
    """Against the definition: all k, all l, order statistics padded by the public ends."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(3, 30))
        m = int(rng.integers(0, (n - 1) // 2 + 1))
        t, end = float(rng.uniform(0.01, 2)), 10.0
        x = np.sort(np.clip(rng.standard_t(1, n), -end, end))

        def order(i, x=x, n=n, end=end):
            return -end if i < 1 else end if i > n else x[i - 1]

        brute = max(np.exp(-k * t) * max(order(n - m + 1 + k - j) - order(m + 1 - j) for j in range(k + 2)) for k in range(n + 1))
        assert _kernels.smooth_sensitivity(x[: m + 1], x[n - m - 1 :], t, -end, end) == pytest.approx(brute, rel=1e-12)
        ours = Trimmed(m, end, t).mean(PrivateData(x[:, None]))._smooth[0] * (n - 2 * m)
        assert brute <= ours <= brute * np.exp(n * t * 2.0**-7) * (1 + 2.0**-19)  # a little smoother, rounded up


def test_a_poisson_sample_is_bounded_around_zero_only():
    step = SubsampledGaussian("step", rate=0.5)
    curator = Curator(1.0, 1e-6, random_state=0)
    curator.plan(step)
    data = PrivateData(rows_of())
    sample = curator.sample_rows(step, data.n)
    with pytest.raises(PrivacyError, match="around zero"):
        Clip(bound=1.0, center=1.0).mean(data, fold=sample)
    expected = np.clip(rows_of()[sample._mask], -2, 2).sum(axis=0) / (0.5 * data.n)
    np.testing.assert_allclose(released(Clip(bound=2.0).mean(data, fold=sample)), expected, atol=1e-6)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf, [[1.0]], [1.0, 0.0]])
def test_meaningless_bounds_are_refused(bound):
    for make in (lambda: Clip(bound=bound), lambda: Ball(radius=1.0, scale=bound), lambda: Smooth(scale=bound)):
        with pytest.raises(ValueError, match="positive and finite"):
            make()


@pytest.mark.parametrize("center", [1e-200, 1.0, 3.7e11])
def test_magnitude_quantile_finds_the_octave(center):
    def fit(X):
        curator = Curator(1.0, 1e-6, random_state=2)
        pick = TopK("scale")
        curator.plan(pick)
        return scale.magnitude_quantile(curator, pick, PrivateData(X), lambda b: b.X[:, 0], 0.5)

    X = center * np.exp(np.random.default_rng(0).normal(0, 0.3, (2000, 1)))
    assert X.min() < fit(X) and np.median(X) / 4 < fit(X) < 4 * np.median(X)
    assert audit.fuzz(fit, (X,), trials=30) <= 1


def test_raw_rows_are_not_pickled_or_shown():
    import pickle

    data = PrivateData(np.full((2, 2), 1234.5))
    assert "1234" not in repr(data)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(data)


def test_trimmed_mean_of_values_that_agree_to_the_last_bit():
    """Rounding moves the mean by one bit at once, however little of it the replaced row accounts for."""
    n, trim = 301, 100
    for low in range(trim + 2, n - trim - 2, 7):
        x = np.where(np.arange(n) < low, 1e15, 1e15 + 0.125)[:, None]
        y = x.copy()
        y[0] = 1e15 + 0.125
        ours, theirs = (Trimmed(trim, 1e16, 1.0).mean(PrivateData(rows)) for rows in (x, y))
        assert abs(ours._value - theirs._value)[0] <= min(ours._smooth[0], theirs._smooth[0])


def test_trimmed_mean_takes_a_bound_for_each_column():
    X = np.random.default_rng(0).normal(size=(500, 2)) * [1e9, 1e-9]
    both = Trimmed(50, np.array([1e11, 1e-7]), 0.5).mean(PrivateData(X))
    for j, bound in enumerate((1e11, 1e-7)):
        alone = Trimmed(50, bound, 0.5).mean(PrivateData(X[:, [j]]))
        assert (both._value[j], both._smooth[j]) == (alone._value[0], alone._smooth[0])


def test_a_released_triangle_is_the_matrix():
    X = np.random.default_rng(4).normal(size=(2000, 3))
    matrix = symmetric(released(Gram(radius=100.0).mean(PrivateData(X))))
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix, X.T @ X / 2000, atol=0.05)


def test_scores_are_sums_without_rounding():
    """A count less a public rank of 53 bits rounds, and the move of one row is then not one."""
    X = np.random.default_rng(3).standard_t(2.1, (97, 3))

    def fit(X):
        DPMean(epsilon=8.0, delta=1e-6, method="trimmed", random_state=0).fit(X)

    assert audit.fuzz(fit, (X,), trials=12) <= 1


@pytest.mark.parametrize(
    "rows",
    [
        lambda b: (b.X, np.ones((len(b), 1))),
        lambda b: (b.X, np.ones(len(b) - 1)),
        lambda b: (b.X[:1], None),
        lambda b: (np.repeat(b.X, 2, axis=0), None),
        lambda b: (b.X[:, :1], None),
    ],
    ids=["column of factors", "too few factors", "too few rows", "too many rows", "too few values"],
)
def test_contributions_that_are_not_one_per_row_are_refused(rows):
    """Kernels do not look where an array ends, and rows that count twice have twice the sensitivity."""
    data = PrivateData(np.ones((50, 2)))
    for robustifier in (Clip(bound=1.0), Ball(radius=1.0), Smooth(scale=1.0), Gram(radius=1.0)):
        with pytest.raises(PrivacyError, match="for 50 rows of 2 values"):
            robustifier.mean(data, rows)


def test_clipped_moments_move_no_further_than_clipped_means():
    center, bound = np.array([1.0, -2.0]), np.array([0.5, 1e6])
    hostile = [0.5, 0.75, 1.0, 1.0 + 2.0**-31, 1.25, 1.5, -1e6, 1e6 - 2.0, 0.0, np.nan, np.inf, -np.inf, 1e308, 5e-324]
    rows = [np.array([a, b]) for a in hostile for b in hostile]
    rows += list(np.random.default_rng(0).uniform(-1, 1, (200, 2)) * bound * 1.1 + center)
    sums = np.array([clipped_moments(PrivateData(row[None]), center, bound)._value for row in rows])
    moved = max(int(np.abs(sums - one).sum(axis=1).max()) for one in sums)
    declared = clipped_moments(PrivateData(rows[0][None]), center, bound).raw_sensitivity
    assert moved == declared == 2 * ONE * 2
    assert declared == Clip(center=center, bound=bound).mean(PrivateData(rows[0][None])).to("l1").raw_sensitivity


def test_clipped_moments_are_those_of_the_clipped_rows():
    X, center, bound = rows_of(n=500), np.array([1.0, -2.0, 0.0]), np.array([0.5, 1e6, 3.0])
    mean, half = np.split(released(clipped_moments(PrivateData(X), center, bound)), 2)
    clipped = np.clip(X, center - bound, center + bound)
    np.testing.assert_allclose(mean, clipped.mean(axis=0), rtol=0, atol=1e-9 * bound.max())
    np.testing.assert_allclose(1 - 2 * half / bound, (((clipped - center) / bound) ** 2).mean(axis=0), rtol=0, atol=4 / ONE)
    for data in (PrivateData(X), PrivateData(X, person=np.arange(500) // 2), PrivateData(sparse.csr_array(X))):
        alone = released(Clip(center=center, bound=bound).mean(data))
        np.testing.assert_array_equal(released(clipped_moments(data, center, bound))[:3], alone)
