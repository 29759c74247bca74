"""Counts of lengths with their tails, and what a gradient says about the distance to least squares."""

import numpy as np
import pytest

from fattail.algorithms.parts.lengths import Lengths, edges, middles
from fattail.algorithms.parts.projection import averaged, best_bound
from fattail.privacy import Curator, Gaussian
from fattail.rows.data import PrivateData


def counted(values, epsilon=4.0):
    curator, release = Curator(epsilon, 1e-6, random_state=0), Gaussian("lengths")
    curator.plan(release)
    return Lengths.counted(curator, release, PrivateData(values[:, None]), lambda block: np.asarray(block.X)[:, 0])


@pytest.mark.parametrize("law", ["normal", "pareto"])
def test_a_counted_distribution_has_the_moments_of_the_rows_beyond_what_shows_too(law):
    rng = np.random.default_rng(0)
    values = np.abs(rng.normal(size=50_000)) if law == "normal" else rng.pareto(3.0, 50_000)
    found = counted(values)
    assert found.square(4.0) == pytest.approx(np.mean(np.minimum(values, 4.0) ** 2), rel=0.1)
    assert found.excess(2.0) == pytest.approx(np.mean(np.maximum(values - 2.0, 0.0)), rel=0.3, abs=0.01)
    assert np.all(np.diff(found.survival) <= 0) and found.survival[0] <= 1


@pytest.mark.parametrize("values", [np.zeros(500), np.full(500, np.inf), np.full(500, 1e-300), np.full(500, 1e300)])
def test_any_rows_give_a_distribution(values):
    found = counted(values, 0.1)
    assert np.all(np.isfinite(found.survival)) and np.isfinite(best_bound(found, 0.1, 3))


def test_heavier_tails_and_less_noise_widen_the_bound():
    light, heavy = (Lengths(np.minimum(edges() ** -index / 10, 1.0), 8.0) for index in (6.0, 2.0))
    assert best_bound(heavy, 0.01, 4) > best_bound(light, 0.01, 4) > best_bound(light, 0.1, 4)
    assert middles().size == edges().size - 1


def test_what_a_gradient_hides_enters_the_variance_and_what_it_shows_the_mean():
    noise, known = 0.01 * np.eye(4), 0.0001 * np.eye(4)
    mean, variance = averaged(known, np.array([0.05, -0.05, 0.02, 3.0]), noise, np.zeros(4))
    assert abs(mean[0]) < 0.04 and mean[3] == pytest.approx(3.0, rel=0.02)
    assert np.all(np.diag(variance)[:3] > 0.0005) and np.diag(variance)[3] == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize("gradient", [0.0, 0.1, 0.5])
def test_two_looks_at_the_same_rows_do_not_reduce_the_error_of_sampling(gradient):
    sampling = np.full(3, 0.01)
    known = noise = 0.0101 * np.eye(3)
    _, variance = averaged(known, np.full(3, gradient), noise, sampling)
    assert np.all(np.diag(variance) > 0.95 * sampling)
