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


@pytest.mark.parametrize("name", WALKS)
def test_only_functions_that_were_passed_down_are_called_upwards(seen, name):
    pairs = {(a, b) for _, a, b in seen[name].hops if walk.rank(a[0]) > walk.rank(b[0])}
    # Threads and passes are given functions to call; a function within another was handed down by it.
    direct = [(a, b) for a, b in pairs if "<locals>" not in a[1] + b[1] and a[0] not in ("_tools/threads", "rows/passes")]
    assert not direct
