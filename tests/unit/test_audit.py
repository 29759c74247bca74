"""The audit's own arithmetic: it must neither miss a leak nor invent one."""

import numpy as np
import pytest

from fattail import audit


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
    from fattail.privacy import Bounded, Curator, Gaussian

    def fit(X):
        first, second = Gaussian("first"), Gaussian("second")
        curator = Curator(1.0, 1e-6, random_state=0)
        curator.plan(first, second)
        for mechanism in (first, second) if X[0] > 0 else (second, first):
            curator.release(mechanism, Bounded([0.0], 1.0))

    with pytest.raises(AssertionError, match="depends on the data"):
        audit.replay(fit, (np.ones(3),), (-np.ones(3),))
