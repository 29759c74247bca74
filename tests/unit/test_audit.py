"""The audit's own arithmetic: it must neither miss a leak nor invent one."""

import numpy as np
import pytest
from scipy import stats

from fattail import audit
from fattail.audit.replays import releases
from fattail.privacy import Bounded, Curator, Gaussian, events


@pytest.mark.parametrize("constant", [0.0, 1e300, -1e-300])
def test_coordinates_that_never_move_are_no_evidence(constant):
    rng = np.random.default_rng(0)
    ours, theirs = (np.column_stack([rng.normal(size=500), np.full(500, constant)]) for _ in range(2))
    bound = audit.lower_bound(ours, theirs, delta=1e-5)
    assert bound.epsilon == 0 and bound.gaussian_epsilon < 0.5


def test_a_constant_that_tells_is_all_the_evidence():
    rng = np.random.default_rng(0)
    ours, theirs = (np.column_stack([rng.normal(size=500), np.full(500, c)]) for c in (0.0, 1e-90))
    assert audit.lower_bound(ours, theirs, delta=1e-5).epsilon > 3


def test_identical_laws_give_no_bound_and_shifted_ones_do():
    rng = np.random.default_rng(1)
    same = audit.lower_bound(rng.normal(size=2000), rng.normal(size=2000), delta=1e-5)
    assert same.epsilon == 0
    apart = audit.lower_bound(rng.normal(size=2000), 4 + rng.normal(size=2000), delta=1e-5)
    assert apart.epsilon > 2 and apart.gaussian_epsilon > apart.epsilon


def test_a_data_dependent_sequence_of_releases_is_an_error():
    def fit(X):
        first, second = Gaussian("first"), Gaussian("second")
        curator = Curator(1.0, 1e-6, random_state=0)
        curator.plan(first, second)
        for mechanism in (first, second) if X[0] > 0 else (second, first):
            curator.release(mechanism, Bounded([0.0], 1.0))

    with pytest.raises(AssertionError, match="depends on the data"):
        audit.replay(fit, (np.ones(3),), (-np.ones(3),))


def test_a_score_counts_though_its_median_stays():
    rng = np.random.default_rng(2)
    rare, less_rare = (rng.random(3000) < p for p in (0.05, 0.4))
    assert audit.lower_bound(rare, less_rare).epsilon > 1.5
    assert audit.lower_bound(less_rare, rare).epsilon == 0  # larger must mean the neighbor


def test_a_claim_is_refuted_by_more_than_it_allows_and_not_by_all_that_it_allows():
    rng = np.random.default_rng(3)
    claim = [events.GaussianEvent(1.0)]
    noise = rng.normal(size=(2, 1500))
    assert not audit.lower_bound(noise[0], noise[1] + 1, claim=claim).refutes
    assert audit.lower_bound(noise[0], noise[1] + 2, claim=claim).refutes


@pytest.mark.parametrize("alpha", [1e-4, 0.01, 0.3, 0.9])
def test_the_tradeoff_of_a_gaussian_is_known(alpha):
    exact = stats.norm.cdf(stats.norm.isf(alpha) - 1.0)
    assert exact - 2e-3 < audit.tradeoff([events.GaussianEvent(1.0)])(alpha) <= exact + 1e-9


def test_a_release_is_what_was_released_though_the_fit_goes_on_with_it_in_place():
    def fit(X):
        total = Gaussian("total")
        curator = Curator(1.0, 1e-6, random_state=0)
        curator.plan(total)
        value = curator.release(total, Bounded([float(X[0])], 1.0))
        value += 1e6
        return value

    (release,) = releases(fit, (np.zeros(3),), (np.ones(3),))
    assert abs(release.output[0]) < 1e3
