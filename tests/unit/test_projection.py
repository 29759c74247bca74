"""Counts of lengths with their tails, and what a gradient says about the distance to least squares."""

from types import SimpleNamespace

import numpy as np
import pytest

from fattail.algorithms.parts.lengths import Lengths, edges, likely_tail, middles, tails
from fattail.algorithms.parts.projection import _ProjectionSteps, averaged, best_bound
from fattail.algorithms.parts.response_ends import ResponseEnds
from fattail.privacy import Curator, Gaussian
from fattail.rows.data import PrivateData


def counted(values, epsilon=4.0, seed=0):
    curator, release = Curator(epsilon, 1e-6, random_state=seed), Gaussian("lengths")
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
    light, heavy = (Lengths(s, 8.0, s) for s in (np.minimum(edges() ** -index / 10, 1.0) for index in (6.0, 2.0)))
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


LAWS = {
    "normal": lambda rng, n: np.abs(rng.normal(size=n)) * np.linalg.norm(rng.normal(size=(n, 6)), axis=1) / 6**0.5,
    "t": lambda rng, n: np.abs(rng.standard_t(3, n)) / 2,
    "cube": lambda rng, n: np.abs(rng.gamma(2.0, size=n) - 2) ** 3 / 11 + np.abs(rng.normal(size=n)) * 0.3,
}


@pytest.mark.parametrize("law", LAWS)
def test_counts_below_their_noise_tell_light_tails_from_heavy_ones(law):
    rng = np.random.default_rng(0)
    truth = np.mean(np.maximum(LAWS[law](rng, 1_000_000) - 4, 0.0))
    found = [counted(LAWS[law](rng, 20_000), 0.5, seed) for seed in range(20)]
    assert 0.25 * truth < np.median([f.excess(4.0) for f in found]) < 2 * truth + 0.003
    assert np.mean([f.most_excess(4.0) > truth for f in found]) >= 0.9
    assert all(f.most_excess(4.0) > f.excess(4.0) for f in found)


FAR_LAWS = {
    "exposure": lambda rng, n: rng.lognormal(0, 3, n) / 10,
    "land": lambda rng, n: np.abs(rng.normal(size=n)) * np.where(rng.random(n) < 0.1, 1000.0 ** rng.random(n), 1.0),
}


@pytest.mark.parametrize("law", [*LAWS, *FAR_LAWS])
def test_two_counts_tell_whether_rows_too_few_to_count_hold_most_of_the_length(law):
    rng, far = np.random.default_rng(0), []
    for seed in range(10):
        values, curator = (LAWS | FAR_LAWS)[law](rng, 20_000), Curator(0.5, 1e-6, random_state=seed)
        curator.plan(release := Gaussian("lengths", 0.03, count=2))
        found = Lengths.counted(curator, release, PrivateData(values[:, None]), lambda block: np.asarray(block.X)[:, 0])
        found = Lengths.counted(
            curator, release, PrivateData(values[:, None]), lambda block: np.asarray(block.X)[:, 0], found.far
        )
        far.append(found.far > 0)
        if found.far > 0:
            assert found.most_excess(32.0) > 0.75 * np.mean(np.maximum(values - 32.0, 0.0))
    assert np.mean(far) >= 0.9 if law in FAR_LAWS else np.mean(far) <= 0.1


def towards(damping, sizes=(0.0, 0.0, 0.0), span=np.inf, unseen=1.0):
    joint = SimpleNamespace(shape=np.eye(3), prior=1e-4 * np.eye(3), unit=1.0, w=np.zeros(3))
    joint.sizes, joint.ends, joint.unseen = np.array(sizes), ResponseEnds(span=span), unseen
    return _ProjectionSteps(joint, damping)


@pytest.mark.parametrize("damping", [0.0, 1.0])
def test_what_rows_inside_the_bound_add_to_a_direction_goes_on_beyond_it(damping):
    fit = towards(damping)
    fit.extrapolate(np.array([0.2, 0.005, 0.3]), 1e-4 * np.eye(3), 0.5, 0.4, 1.0)
    left = np.sqrt(np.diag(fit.variance))
    assert fit.joint.w[0] == pytest.approx(0.15 * damping, abs=0.02) and abs(fit.joint.w[1]) == 0
    assert left[0] > 0.2 and left[1] < 0.04  # the third direction is the constant's
    assert abs(fit.joint.w[2]) == 0 and left[2] < 0.04


def test_nothing_is_hidden_where_no_tail_is_likely():
    fit = towards(1.0)
    fit.extrapolate(np.array([0.2, 0.0, 0.0]), 1e-4 * np.eye(3), 0.5, 1e-4, 1e-3)
    assert np.diag(fit.variance)[0] < 1.1e-4


@pytest.mark.parametrize(("skew", "least", "most"), [(0.3, 0.3, 2.0), (0.0, 0.0, 0.05)])
def test_skewed_residuals_that_vary_with_a_column_may_hide_its_slope(skew, least, most):
    """Net assets by income: clipped residuals are balanced, and all of the bias lies beyond the bound."""
    fit = towards(0.0, sizes=(0.3, 0.0, 0.0))
    fit.extrapolate(np.array([0.01, 0.0, skew]), 1e-4 * np.eye(3), 0.5, 0.2, 0.7)
    left = np.sqrt(np.diag(fit.variance))
    assert least <= left[0] <= most and left[1] < 0.05


def test_a_response_of_two_values_hides_no_more_than_counts_expect():
    fit, free = towards(0.0, span=2.0), towards(0.0)
    for each in (fit, free):
        each.extrapolate(np.array([0.2, 0.1, 0.0]), 1e-4 * np.eye(3), 0.5, 0.02, 0.4)
    assert np.sqrt(np.diag(fit.variance))[0] < 0.03 < 0.3 < np.sqrt(np.diag(free.variance))[0]


def test_rows_that_no_count_shows_may_hold_most_of_the_response():
    near, far = towards(0.0), towards(0.0, unseen=4.0)
    for each in (near, far):
        each.extrapolate(np.array([0.2, 0.0, 0.0]), 1e-4 * np.eye(3), 0.5, 0.1, 0.3)
    assert np.diag(far.variance)[0] > 9 * np.diag(near.variance)[0]


@pytest.mark.filterwarnings("error")
def test_a_gradient_far_beyond_what_is_expected_is_followed():
    """All weights were zero, and coefficients of one in a hundred fits of hostile columns at a large epsilon were not numbers."""
    known, noise = np.diag([1e-4, 1e-4]), 1e-6 * np.eye(2)
    mean, variance = averaged(known, np.array([1e4, 0.01]), noise, np.zeros(2))
    assert mean[0] == pytest.approx(1e4, rel=1e-2) and np.isfinite(variance).all()
    assert mean[1] == pytest.approx(averaged(known[1:, 1:], np.array([0.01]), noise[1:, 1:], np.zeros(1))[0][0], rel=0.05)


def test_tails_are_finite_where_one_kind_is_impossible():
    """All chances of the other kind once underflowed, and standard errors were not numbers after the charge."""
    width = tails(10)[1].shape[1]
    for counts in (np.full(width, 1e5), 1e6 * np.eye(width)[-1], np.zeros(width)):
        expected, most, near, odds = likely_tail(counts, 5.0, 10)
        assert np.isfinite(odds) and all(np.isfinite(rows).all() for rows in (expected, most, near))
