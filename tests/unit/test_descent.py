"""Small steps under a bound on products, and what they leave."""

import numpy as np
import pytest

from fattail import DPLinearRegression, audit
from fattail.algorithms.auto.many_columns import has_many_columns
from fattail.algorithms.parts.curvature import Curvature
from fattail.algorithms.parts.descent import Products, descend, planned
from fattail.algorithms.parts.joint_moments import JointFit
from fattail.algorithms.parts.linear_rows import Frame, Problem, Target
from fattail.algorithms.parts.posterior import shrunken_moments
from fattail.losses import Squared
from fattail.privacy import Curator, Gaussian
from fattail.rows.data import PrivateData

pytestmark = pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")


def regression(n=20_000, d=5, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    beta = np.arange(1, d + 1) / d
    return X, X @ beta + 2 + noise * rng.normal(size=n), np.append(beta, 2.0)


def joint_fit(epsilon, d, *mechanisms):
    curator = Curator(epsilon, 1e-5, random_state=0)
    curator.plan(*mechanisms)
    return JointFit(curator, Problem(Target(Squared()), Frame(np.zeros(d), np.ones(d), 1.0, np.eye(d + 1))))


def test_steps_find_least_squares_and_the_size_of_residuals():
    """The size of residuals is not known at the start: it is taken to be one, and is three tenths."""
    X, y, truth = regression()
    steps = planned(1.0)
    joint = joint_fit(20.0, 5, steps)
    descend(joint, steps, (PrivateData(X, y),))
    np.testing.assert_allclose(joint.w, truth, atol=0.02)
    assert joint.unit == pytest.approx(0.3, rel=0.2)
    assert np.all(np.abs(joint.w - truth) < 5 * np.sqrt(np.diag(joint.prior) + 0.3**2 / len(y)))


def test_variances_are_those_of_the_noise():
    """Over seeds, the error is as large as it is said to be: with little data the noise of steps decides it."""
    X, y, truth = regression(2_000, 3, noise=1.0)
    ratios = []
    for seed in range(40):
        steps = planned(1.0)
        curator = Curator(0.5, 1e-5, random_state=seed)
        curator.plan(steps)
        joint = JointFit(curator, Problem(Target(Squared()), Frame(np.zeros(3), np.ones(3), 1.0, np.eye(4))))
        descend(joint, steps, (PrivateData(X, y),))
        ratios.append((joint.w - truth) ** 2 / np.diag(joint.prior))
    assert 0.5 < np.mean(ratios) < 1.6


def products_of(noise, n=20_000, epsilon=2.0, seed=0):
    """Counts of products where the coefficients are right, so that residuals are the noise."""
    X, y, truth = regression(n)
    y = X @ truth[:-1] + truth[-1] + noise(np.random.default_rng(seed + 1), n)
    counts = Gaussian("counts", 1.0)
    joint = joint_fit(epsilon, 5, counts)
    joint.w = truth
    return Products.counted(joint, counts, PrivateData(X, y))


def test_normal_products_are_light_and_those_of_heavy_noise_are_not():
    light, heavy = products_of(lambda rng, n: rng.normal(size=n)), products_of(lambda rng, n: rng.standard_t(2, n))
    assert light.are_light and not heavy.are_light
    assert light.median == pytest.approx(1.0, rel=0.25)  # in units of normal products


def test_more_budget_widens_the_bound_for_heavy_products_only():
    """Without counts the bound grows with the budget, so that noise stays as large as it was."""
    light, heavy = products_of(lambda rng, n: rng.normal(size=n)), products_of(lambda rng, n: rng.standard_t(2, n))
    narrow = light.bound(0.001, 6, 16.0, varying=False, even=True)
    assert narrow < 6 < heavy.bound(0.001, 6, 16.0, varying=False, even=True) <= 16
    assert narrow < light.bound(0.001, 6, 16.0, varying=False, even=False)  # a direction of few rows may be cut off
    assert heavy.bound(0.001, 6, 8.0, varying=False, even=True) <= 8 < heavy.bound(0.001, 6, 8.0, varying=True, even=True) <= 16


def test_counts_that_are_mostly_noise_are_not_released():
    assert products_of(lambda rng, n: rng.normal(size=n), n=200, epsilon=0.5) is None


def test_products_that_are_zero_have_a_least_size():
    assert products_of(lambda rng, n: np.zeros(n)).median == 0.1


def test_what_steps_leave_is_known_without_error_in_the_matrix():
    start, gains = np.array([1.0, 4.0]), [np.array([0.5, 0.25])] * 2
    exact = Curvature.of(np.ones(2), np.eye(2), np.zeros((2, 2)))
    left, hidden = exact.left(start, 1.0, gains, [0.0, 0.0])
    np.testing.assert_allclose(np.diag(left), start * (1 - gains[0]) ** 4, rtol=0.5)  # 96 draws
    np.testing.assert_allclose(hidden, 0, atol=1e-12)


def test_an_uncertain_matrix_leaves_more_and_gradients_do_not_show_it():
    start, gains = np.ones(8), [np.full(8, 0.5)] * 20
    exact, vague = (
        Curvature.of(np.ones(8), np.eye(8), np.full((8, 8), noise)).left(start, 1.0, gains, [0.0] * 20) for noise in (0.0, 0.25)
    )
    assert np.trace(exact[0]) < 1e-9
    assert np.trace(vague[0]) > 0.05
    assert np.trace(vague[1]) > 0.5 * np.trace(vague[0])


def test_the_error_of_slow_directions_is_as_large_as_said():
    """Matrices and errors of the start as their laws say, in another way: by a solved recursion of single rows."""
    p, noise, rng = 10, 0.2, np.random.default_rng(1)
    gains = [np.full(p, 0.3)] * 15
    said = np.trace(Curvature.of(np.ones(p), np.eye(p), np.full((p, p), noise)).left(np.ones(p), 1.0, gains, [0.0] * 15)[0])
    found = []
    for _ in range(200):
        drawn = rng.normal(size=(p, p)) * noise
        values, vectors = np.linalg.eigh(np.eye(p) + (drawn + drawn.T) / np.sqrt(2))
        shrunk = vectors @ np.diag((1 - 0.3 * np.maximum(values, 0)) ** 15) @ vectors.T
        found.append(np.sum((shrunk @ rng.normal(size=p)) ** 2))
    assert said == pytest.approx(np.mean(found), rel=0.4)


def test_moments_that_are_noise_become_those_of_columns_without_correlation():
    rng = np.random.default_rng(2)
    p, noise = 30, 0.5
    drawn = rng.normal(size=(p, p)) * noise / np.sqrt(2)
    found, left = shrunken_moments(np.eye(p) + drawn + drawn.T, noise)
    assert np.abs(found - np.diag(np.diag(found))).max() < 0.5 and left[0, 1] == 0.5 * noise
    assert np.linalg.eigvalsh(found)[0] > 0
    correlated = np.full((p, p), 0.9) + 0.1 * np.eye(p)
    kept, error = shrunken_moments(correlated + 0.02 * (drawn + drawn.T), 0.02 * noise)
    np.testing.assert_allclose(kept, correlated, atol=0.1)
    assert error[0, 1] == pytest.approx(0.02 * noise, rel=0.01)


def test_a_clear_correlation_among_columns_without_one_is_kept():
    rng = np.random.default_rng(4)
    p, noise = 25, 0.1
    drawn = rng.normal(size=(p, p)) * noise / np.sqrt(2)
    truth = np.eye(p)
    truth[0, 1] = truth[1, 0] = 0.6
    found, left = shrunken_moments(truth + drawn + drawn.T, noise)
    assert found[0, 1] == pytest.approx(0.6, abs=0.3) and left[0, 1] == noise
    assert np.abs(found[2:, 2:] - np.diag(np.diag(found[2:, 2:]))).max() < 0.1


def test_a_closer_look_shows_a_column_that_is_nearly_a_copy():
    """The first release hides how two columns differ; a second one, of that direction alone, shows it."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5_000, 8))
    X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=5_000)
    moments, closer = Gaussian("moments", 0.2), Gaussian("closer", 0.8)
    joint = joint_fit(1.0, 8, moments, closer)
    data = PrivateData(X, X[:, 0] + rng.normal(size=5_000))
    joint.round((moments,), data, first=True)
    assert joint.faint.sum() == 1
    before = joint.shape[joint.faint]
    joint.look_closer(closer, data)
    seen = np.mean((np.column_stack([X, np.ones(5_000)]) @ joint.shape.T) ** 2, axis=0)
    assert np.linalg.norm(before) < np.linalg.norm(joint.shape, axis=1).max()
    assert np.all((seen > 0.2) & (seen < 5))


def test_without_faint_directions_the_closer_look_is_waived():
    X, y, _ = regression()
    moments, closer = Gaussian("moments", 0.5), Gaussian("closer", 0.5)
    joint = joint_fit(20.0, 5, moments, closer)
    joint.round((moments,), PrivateData(X, y), first=True)
    shape = joint.shape.copy()
    assert not joint.faint.any()
    joint.look_closer(closer, PrivateData(X, y))
    np.testing.assert_array_equal(joint.shape, shape)


@pytest.mark.parametrize(("n", "d", "epsilon"), [(900, 12, 2.0), (2_000, 3, 8.0)], ids=["few rows", "more rows"])
def test_hostile_rows_never_exceed_a_declared_sensitivity(n, d, epsilon):
    assert not has_many_columns(n, d, epsilon, 1e-5)
    X, y, _ = regression(n, d)
    X[:, 1] = X[:, 0]  # a copy leads to the closer looks

    def fit(X, y):
        return DPLinearRegression(epsilon=epsilon, delta=1e-5, random_state=4).fit(X, y)

    assert audit.fuzz(fit, (X, y), trials=6, seed=5) <= 1
