"""The private description of a column: equivariance, point masses, evidence with its stated rate, hostile rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fattail.algorithms.auto.mean import plan_mean
from fattail.columns import CountNoise, choose_ends, describe, evidence
from fattail.columns.description import CELLS, ColumnDescription
from fattail.columns.location import OCTAVES, roundest
from fattail.columns.tails import ENDS, Posterior, bank
from fattail.privacy import Curator
from fattail.rows.data import PrivateData


def description(x: np.ndarray, epsilon: float = 1.0, seed: int = 0) -> ColumnDescription:
    data = PrivateData(x[:, None])
    plan, release = plan_mean(data.n, 1, epsilon, 1e-6)
    curator = Curator(epsilon, 1e-6, random_state=seed)
    curator.plan(*plan.mechanisms, release)
    return describe(curator, plan, data)[0]


@settings(max_examples=300, deadline=None)
@given(st.floats(-1e300, 1e300), st.floats(1e-12, 0.5))
def test_the_roundest_number_lies_in_its_cell(low: float, width: float) -> None:
    high = low + abs(low) * width
    assert low <= roundest(low, high) <= high


@pytest.mark.parametrize("value", [0.0, 1.0, 99.0, 0.37, -12.5, 1e9, 2016.0])
def test_a_point_mass_is_found_where_it_is(value: float) -> None:
    rng = np.random.default_rng(1)
    x = np.where(rng.random(8000) < 0.7, value, value + rng.normal(0, 3, 8000))
    column = description(x)
    assert column.center == value
    assert column.has_point_mass
    assert abs(column.at_center - 5600) < 400


@pytest.mark.parametrize(("center", "scale"), [(0.0, 1.0), (50.76, 0.3), (2016.3, 3.0), (1.023456789e9, 3.0), (1.6e9, 1e7)])
def test_location_costs_the_same_wherever_the_column_is(center: float, scale: float) -> None:
    z = np.random.default_rng(2).standard_normal(6000)
    miss = [abs(description(center + scale * z, seed=s).center - center) / scale for s in range(5)]
    assert np.median(miss) < (0.15 if center < 1e9 or scale > 100 else 1.5)
    assert max(miss) < 4


def test_descriptions_are_those_of_the_shifted_and_scaled_column() -> None:
    """Seen from the center, a column in other units has the same octaves, but for the noise's own draw."""
    x = np.random.default_rng(3).lognormal(0, 1, 5000)
    starts = []
    for unit in (2.0**-30, 1.0, 2.0**30):
        column = description(unit * x, seed=4)
        start = column.tail_start((0,))
        assert start is not None
        starts.append(start - OCTAVES - math.log2(unit))
    assert max(starts) - min(starts) <= 1


def test_noise_alone_is_seen_as_rarely_as_stated() -> None:
    rng = np.random.default_rng(0)
    noise = CountNoise(7.0, True)
    seen = 0
    for _ in range(600):
        column = ColumnDescription(1000, 0.0, 0.0, 1000.0, rng.laplace(0, 7.0, (2, CELLS)), noise, 1.0)
        seen += any(column.reach(sides) is not None for sides in ((0,), (1,), (0, 1)))
    assert seen / 600 < 3 * evidence.ERROR_RATE + 0.02  # three ways to look


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("cells", [1, 2, 8])
def test_a_threshold_is_exceeded_no_more_often_than_it_says(laplace: bool, cells: int) -> None:
    rng = np.random.default_rng(cells)
    draw = rng.laplace if laplace else rng.normal
    sums = draw(0, 1, (200_000, cells)).sum(axis=1)
    share = float(np.mean(sums > CountNoise(1.0, laplace).threshold(math.log(200.0), cells)))
    assert share < 0.0055
    assert share > 0.0002  # nor so rarely that nothing is ever seen


def test_nothing_but_a_point_mass_gives_no_ends() -> None:
    ends = choose_ends(description(np.full(5000, 12.5)), 1e-3)
    assert not ends.seen
    assert ends.low == 12.5
    assert ends.open_low
    assert ends.open_high


def test_a_far_point_mass_is_within_the_ends() -> None:
    x = np.where(np.random.default_rng(5).random(20_000) < 0.03, 999.0, 40 + np.random.default_rng(6).normal(0, 5, 20_000))
    ends = choose_ends(description(x), 1e-4)
    assert ends.high >= 999
    assert ends.low > -300


def test_tail_without_a_mean_opens_its_side_only() -> None:
    x = 1 + np.random.default_rng(7).pareto(0.8, 50_000)
    opened = [choose_ends(description(x, seed=s), 1e-5) for s in range(5)]
    assert sum(e.open_high for e in opened) >= 4
    assert not any(e.open_low for e in opened)


def test_every_shape_of_the_bank_is_a_law() -> None:
    shapes = bank()
    np.testing.assert_allclose(shapes.cells[1:].sum(axis=1), 1.0, atol=1e-9)
    assert np.all(np.diff(shapes.excess, axis=1) <= 1e-9)
    exact = [i for i in range(1, len(shapes.cells)) if shapes.has_mean[i]]
    assert np.all(np.isfinite(shapes.excess[exact]))


def test_excess_of_a_clear_pareto_tail_is_predicted() -> None:
    index, rows = 2.5, 100_000.0
    edges = np.append(2.0 ** np.arange(-2, 17), np.inf)
    share = 0.05 * (edges / edges[0]) ** -index
    counts = rows * -np.diff(np.where(np.isinf(edges), 0.0, share))
    posterior = Posterior.of(counts, rows, CountNoise(4.0, True), 1e-5, 1e-9)
    tail = posterior.tail(1e-9)
    truth = 0.05 * (ENDS / edges[0]) ** -index * ENDS / (index - 1)
    np.testing.assert_allclose(tail.excess[4:10], truth[4:10], rtol=0.35)


@pytest.mark.parametrize("row", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324])
def test_hostile_rows_do_no_harm(row: float) -> None:
    x = np.random.default_rng(8).normal(100, 5, 3000)
    x[:3] = row
    column = description(np.where(np.isfinite(x), x, x))
    assert abs(column.center - 100) < 3
    assert np.all(np.isfinite(column.counts))
    assert choose_ends(column, 1e-3).seen


def test_zero_stays_zero_at_every_stage() -> None:
    x = np.random.default_rng(9).poisson(0.3, 30_000).astype(float)
    assert {description(x, epsilon=0.2, seed=s).center for s in range(20)} == {0.0}


def test_a_spike_of_noise_far_beyond_the_rows_is_not_believed() -> None:
    counts = np.zeros((2, CELLS))
    counts[1, OCTAVES + 10], counts[0, OCTAVES + 48] = 3000.0, 240.0  # all rows below the center, noise far above
    column = ColumnDescription(3000, 1e9, 1e4, 0.0, counts, CountNoise(25.0, True), 60.0)
    assert column.reach((0,)) is None
    assert column.reach((1,)) in (OCTAVES + 10, OCTAVES + 11)
