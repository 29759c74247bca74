"""A reader follows a fit downwards and in few steps."""

import warnings

import pytest

import walk

WALKS = walk.walks()


@pytest.fixture(scope="module")
def seen():
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, fit in WALKS.items():
            fit()
            found[name] = walk.Walk().of(fit)
    return found


def test_a_smoothed_mean_is_at_most_fifteen_calls_deep(seen):
    """From ``fit`` to the innermost kernel."""
    assert 5 < seen['DPMean(method="smoothed").fit'].summary()["longest"] <= 15


def test_a_smoothed_mean_calls_nothing_in_a_layer_above(seen):
    assert seen['DPMean(method="smoothed").fit'].summary()["upwards"] == 0


@pytest.mark.parametrize("name", WALKS)
def test_only_functions_that_were_passed_down_are_called_upwards(seen, name):
    pairs = {(a, b) for _, a, b in seen[name].hops if walk.rank(a[0]) > walk.rank(b[0])}
    # A bounded sum is given the function that computes a row's contribution; it stands inside the function that passed it.
    direct = [(a, b) for a, b in pairs if "<locals>" not in b[1]]
    assert not direct
