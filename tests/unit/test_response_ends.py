"""Ends of predictions from counts of the response."""

import math

import numpy as np
import pytest

from fattail import DPLinearRegression
from fattail.algorithms.parts.linear_rows import Frame, Problem, Target
from fattail.algorithms.parts.response_ends import response_ends
from fattail.losses import Squared
from fattail.privacy import Curator, Gaussian
from fattail.rows.data import PrivateData


def found(y, level=0.0, size=1.0, unit=1.0, share=0.1):
    curator, release = Curator(1.0, 1e-6, random_state=0), Gaussian("counts", share)
    curator.plan(release, Gaussian("rest", 1 - share))
    problem = Problem(Target(Squared()), Frame(np.zeros(1), np.ones(1), 1.0, np.eye(2)), level, size)
    return response_ends(curator, release, PrivateData(np.zeros((y.size, 1)), y), problem, unit)


def ends(*args, **kwargs):
    both = found(*args, **kwargs)
    return both.low, both.high


def test_ends_of_bounded_responses_are_near_and_those_of_tails_far():
    rng = np.random.default_rng(0)
    low, high = ends(50 + 10 * rng.uniform(-1, 1, 20_000), 50.0, 6.0)
    assert 38 <= low <= 46 and 54 <= high <= 62
    low, high = ends(rng.pareto(1.5, 20_000), 1.0)
    assert low <= 0.5 and high > 50


def test_ends_are_wider_for_a_precise_fit():
    y = np.random.default_rng(0).normal(size=50_000)
    rough, precise = ends(y), ends(y, unit=0.05)
    assert precise[0] < rough[0] < -1 and 1 < rough[1] < precise[1]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e300, 0.0])
def test_any_rows_give_two_ends_around_the_level(value):
    low, high = ends(np.full(2000, value))
    assert low <= 0 <= high and not math.isnan(low + high)


def test_few_rows_have_no_ends():
    assert ends(np.random.default_rng(0).normal(size=50)) == (-math.inf, math.inf)


@pytest.mark.parametrize(("level", "size"), [(0.0, 1.0), (0.2, 0.4), (1.0, 0.44), (0.5, 0.5)])
def test_a_response_of_two_values_has_no_tail(level, size):
    both = found((np.arange(5000) % 5 == 0).astype(float), level, size)
    assert both.is_binary and 1 / size <= both.span <= 2.5 / size


LAWS = {
    "normal": lambda rng: rng.normal(size=5000),
    "counts": lambda rng: rng.poisson(0.5, 5000).astype(float),
    "mostly zeros": lambda rng: np.where(rng.random(5000) < 0.8, 0.0, rng.lognormal(0, 1, 5000)),
    "one value": lambda rng: np.full(5000, 0.7),
    "no end": lambda rng: np.where(rng.random(5000) < 0.8, 0.0, 1e300),
    "three values": lambda rng: rng.choice([0.0, 1.0, 100.0], 5000),
}


@pytest.mark.parametrize("law", LAWS)
def test_other_responses_may_have_one(law):
    assert not found(LAWS[law](np.random.default_rng(0))).is_binary


def far_columns(n, rng):
    """A bounded response, and a column with few far rows in which it stays the same."""
    x = rng.pareto(1.2, n)
    near = rng.normal(size=(n, 3))
    return np.column_stack([x, near]), 47.5 + 0.1 * np.tanh(np.minimum(x, 2) + near.sum(axis=1) + rng.normal(size=n))


def test_predictions_of_far_rows_stay_where_responses_are():
    X, y = far_columns(20_000, np.random.default_rng(1))
    for seed in range(3):
        low, high = DPLinearRegression(epsilon=1.0, delta=1e-5, random_state=seed).fit(X, y).response_range_
        assert 45 < low < 47.5 < high < 50  # and not hundreds of deviations away
