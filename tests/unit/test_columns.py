"""The private description of a column: equivariance, point masses, evidence with its stated rate, hostile rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from fattail import UtilityWarning, _kernels
from fattail.algorithms.auto.mean import adaptive_mean
from fattail.columns import CountNoise, OctaveCounts, choose_ends, choose_radius, describe, plan_mean
from fattail.columns.alike import probability_alike
from fattail.columns.description import CELLS, ColumnDescription
from fattail.columns.evidence import RATES
from fattail.columns.location import DENSE_GRID, GRID, OCTAVES, LocationGrid, find_locations, roundest, signed_counts
from fattail.columns.looks import merged_octaves
from fattail.columns.tail_shapes import ENDS, bank
from fattail.columns.tails import Posterior
from fattail.privacy import Bounded, Curator, TopK
from fattail.rows.data import PrivateData


def description(x: np.ndarray, epsilon: float = 1.0, seed: int = 0) -> ColumnDescription:
    data = PrivateData(x[:, None])
    planned = plan_mean(data.n, 1, epsilon, 1e-6)
    assert planned is not None
    plan, release = planned
    curator = Curator(epsilon, 1e-6, random_state=seed)
    curator.plan(*plan.mechanisms, release)
    return describe(curator, plan, data)[0][0]


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


@pytest.mark.parametrize("center", [0.0, 3.3, -2016.0, 1e9])
def test_locations_of_columns_with_gaps_and_of_the_response(center: float) -> None:
    """Missing cells are left out: they do not pull the middle to zero, nor down, even if most are missing."""
    rng = np.random.default_rng(5)
    X, y = center + rng.standard_normal((8000, 2)), center - 7.0 + rng.standard_normal(8000)
    X[rng.random(8000) < 0.7, 1] = np.nan
    stages = tuple(TopK(f"location {k}", 1.0, count=3) for k in range(5))
    curator = Curator(1.0, 1e-6, random_state=1)
    curator.plan(*stages)
    found, _ = find_locations(curator, stages, PrivateData(X, y), with_y=True, gaps=True)
    assert np.abs(found - [center, center, center - 7]).max() < 0.25 + 1e-7 * abs(center)


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
        column = ColumnDescription(1000, 0.0, 0.0, 1000.0, rng.laplace(0, 7.0, (2, CELLS)), noise)
        seen += any(column.reach(sides) is not None for sides in ((0,), (1,), (0, 1)))
    assert seen / 600 < 3 * RATES.significant * RATES.no_bulk_factor + 0.02  # three ways to look


def test_rare_answers_of_yes_need_less_evidence_if_the_count_of_the_center_leaves_room_for_them() -> None:
    def zeros_and(ones: float, at_center: float, n_is_known: bool = True) -> ColumnDescription:
        counts = np.zeros((2, CELLS))
        counts[0, OCTAVES] = ones
        noise = CountNoise(28.0, True)
        return ColumnDescription(10_000, 0.0, 0.0, at_center, counts, noise, others=noise if n_is_known else None)

    assert zeros_and(150.0, 9850.0).reach((0,)) == OCTAVES
    assert zeros_and(150.0, 10_000.0).reach((0,)) is None
    assert zeros_and(150.0, 9850.0, n_is_known=False).reach((0,)) is None
    # Too few for an interval, enough for an estimate.
    assert zeros_and(95.0, 9905.0).reach((0,)) is None
    assert zeros_and(95.0, 9905.0).guessed_starts() == [OCTAVES, None]
    assert zeros_and(95.0, 10_000.0).guessed_starts() == [None, None]


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
    column = ColumnDescription(3000, 1e9, 1e4, 0.0, counts, CountNoise(25.0, True))
    assert column.reach((0,)) is None
    assert column.reach((1,)) in (OCTAVES + 10, OCTAVES + 11)


def bell(rows: float, shift: float = 0.0) -> np.ndarray:
    """Counts by octave of a normal law whose median lies ``shift`` above the center."""
    edges = np.append(2.0 ** (np.arange(CELLS) - OCTAVES), np.inf)
    return rows * np.array([np.diff(ndtr(edges - shift)), np.diff(ndtr(edges + shift))])


def test_beyond_the_bulk_noise_is_seen_as_rarely_as_stated() -> None:
    rng = np.random.default_rng(20)
    clear, seen, far = bell(5000.0), 0, 0
    last = OCTAVES + 2  # the normal law ends there
    for _ in range(400):
        column = ColumnDescription(5000, 0.0, 0.0, 0.0, clear + rng.laplace(0, 20.0, (2, CELLS)), CountNoise(20.0, True))
        assert column.bulk is not None
        reaches = [column.reach((side,)) or 0 for side in (0, 1)]
        seen += sum(cell > last for cell in reaches)
        far += sum(cell > last + 5 for cell in reaches)
    assert seen / 800 < RATES.significant
    assert far / 800 < 0.01


def test_a_center_beside_the_median_moves_to_it() -> None:
    rng = np.random.default_rng(21)
    column = ColumnDescription(1e5, 10.0, 0.0, 0.0, bell(1e5, 0.2) + rng.laplace(0, 20.0, (2, CELLS)), CountNoise(20.0, True))
    moved = column.recentered()
    assert abs(moved.center - 10.2) < 0.05
    difference = np.abs(moved.counts[0] - moved.counts[1])[OCTAVES : OCTAVES + 2]
    before = np.abs(column.counts[0] - column.counts[1])[OCTAVES : OCTAVES + 2]
    assert np.all(difference < before / 2)


def test_between_two_values_no_center_moves() -> None:
    counts = np.zeros((2, CELLS))
    counts[0, OCTAVES - 1], counts[1, OCTAVES - 1] = 450.0, 550.0  # half a unit above and below
    column = ColumnDescription(1000, 1.5, 0.0, 0.0, counts, CountNoise(2.0, True))
    assert column.recentered().center == 1.5


def test_a_wild_center_is_called_lost_and_a_good_one_is_not() -> None:
    counts = np.zeros((2, CELLS))
    counts[1, OCTAVES + 66] = 1000.0
    assert ColumnDescription(1000, 1.2 * 2.0**66, 1.0, 0.0, counts, CountNoise(5.0, True)).center_is_noise
    assert not ColumnDescription(1000, 10.0, 0.0, 0.0, bell(1000.0), CountNoise(5.0, True)).center_is_noise


def test_a_count_that_may_be_rows_widens_the_interval_on_its_side() -> None:
    plain = bell(3000.0)
    odd = plain.copy()
    odd[0, OCTAVES + 6] = 45.0  # 7.5 scales: too few to be sure of, too many for noise
    noise = CountNoise(6.0, True)
    ends, wide = (choose_ends(ColumnDescription(3000, 50.0, 0.0, 0.0, c, noise), 1e-3) for c in (plain, odd))
    assert wide.high < 50 + 64
    assert wide.doubt_above > 0.5 * 45 * 64 / 3000
    assert ends.doubt_above < 0.1 * wide.doubt_above
    assert wide.doubt_below < 0.1 * wide.doubt_above


def test_a_skewed_column_is_not_taken_for_symmetric_because_its_middle_is() -> None:
    """Around its median, any column has as many rows above as below: that says nothing about its tails."""
    outer = {"even": ((370.0, 210.0, 12.0),) * 2, "skewed": ((400.0, 170.0, 4.0), (340.0, 250.0, 20.0))}
    alike = {}
    for name, sides in outer.items():
        counts = np.zeros((2, CELLS))
        for side, last in enumerate(sides):
            counts[side, OCTAVES - 5 : OCTAVES + 2] = (60.0, 120.0, 240.0, 480.0, *last)
        alike[name] = probability_alike(ColumnDescription(2984, 10.0, 0.0, 0.0, counts, CountNoise(6.0, True)), OCTAVES)
    assert alike["even"] > 0.95
    assert alike["skewed"] < 0.6


def test_few_rows_buy_a_location_only_and_say_so() -> None:
    with pytest.warns(UtilityWarning, match="too few for an interval"):
        assert plan_mean(50, 1, 1.0, 1e-6) is None
    assert plan_mean(5000, 1, 1.0, 1e-6) is not None


def test_a_point_mass_at_an_odd_number_is_not_taken_for_a_narrow_column() -> None:
    """Its center is a rounder number nearby, so all rows lie at a tiny distance from there."""
    x = np.full(20_000, -0.01431124786543217)
    x[:3] = 69.9
    ends = choose_ends(description(x), 1e-4)
    assert ends.open_low
    assert ends.open_high


class Odds:
    """Selects the best candidate and adds up the chances of all others that are ``hopeless``."""

    def __init__(self, curator: Curator, hopeless: float) -> None:
        self.curator, self.hopeless, self.lost = curator, hopeless, 0.0

    def noise(self, stage: TopK) -> float:
        return self.curator.noise(stage)

    def select(self, stage: TopK, scores: Bounded) -> np.ndarray:
        real = np.asarray(scores.offset + scores.unit * scores._value)
        chance = np.exp((real - real.max()) / self.noise(stage))
        best = int(np.argmax(scores._value))
        self.lost += float(chance[scores._value < -self.hopeless].sum() / chance.sum())
        return np.array([best])

    def waive(self, stage: TopK) -> None:
        """Columns that need no further stage."""


@pytest.mark.parametrize(
    ("n", "d", "epsilon"), [(10_000, 1, 0.2), (2500, 1, 1.0), (3000, 1, 1.0), (12_000, 1, 1.0), (20_000, 30, 1.0)]
)
@pytest.mark.parametrize("value", [0.0, 1.0, -12.5, 5.0123456e7])
def test_a_spike_is_lost_as_rarely_as_stated(n: int, d: int, epsilon: float, value: float) -> None:
    plan, release = plan_mean(n, d, epsilon, 1e-6)
    curator = Curator(epsilon, 1e-6, random_state=0)
    curator.plan(*plan.mechanisms, release)
    odds = Odds(curator, hopeless=n / 4)
    center, resolution = find_locations(odds, plan.stages, PrivateData(np.full((n, d), value)), plan.grid)
    assert np.all(np.abs(center - value) <= resolution)
    assert odds.lost / d <= 1e-6


@pytest.mark.parametrize("grid", [GRID, DENSE_GRID])
def test_every_number_is_in_the_cell_of_its_magnitude(grid: LocationGrid) -> None:
    edges = _kernels.magnitude_edges(*grid.magnitudes)
    x = np.concatenate((edges, np.nextafter(edges, 0), -edges, [0.0, np.nan, np.inf, -np.inf, 5e-324, 1e308]))
    cells = np.where(np.isnan(x), 0, np.searchsorted(edges, np.abs(x), side="right")) + np.where(x < 0, len(edges) + 1, 0)
    assert np.array_equal(_kernels.magnitude_cells(x[:, None], *grid.magnitudes)[:, 0], cells)
    if not grid.digits:
        counts = signed_counts(PrivateData(x[:, None]), np.zeros(1)).ravel()
        assert np.array_equal(counts, np.bincount(cells, minlength=2 * (len(edges) + 1)))


def test_few_values_within_the_resolution_are_no_point_mass() -> None:
    """Rows at several distances are seen, so the interval need not allow for rows that nobody can see."""
    years = np.random.default_rng(3).integers(1990, 2006, 1000).astype(float)
    assert not any(description(years, 0.9, seed).is_unresolved for seed in range(5))


@pytest.mark.parametrize(("center", "resolution"), [(0.0, 0.0), (0.0, 2.0**-9), (1e9, 1e5), (-3e-7, 1e-9), (2.0**120, 2.0**112)])
def test_every_octave_is_counted_once_and_those_that_matter_alone(center: float, resolution: float) -> None:
    outer = merged_octaves(center, resolution)
    assert np.all(outer >= np.arange(CELLS))
    assert np.all(outer[outer] == outer)  # a group is counted under one of its own octaves
    assert np.all(np.diff(outer) >= 0)
    usual = OCTAVES + (math.frexp(center)[1] - 1 if center else GRID.everyday)
    around = np.arange(usual - 8, min(usual + 24, CELLS))
    assert np.array_equal(outer[around], around)
    assert (outer == np.arange(CELLS)).sum() < 0.8 * CELLS


def test_a_center_near_zero_does_not_blur_everyday_distances() -> None:
    """The median of a symmetric column around zero is selected at any magnitude below its density's resolution."""
    outer = merged_octaves(2.0**-100, 2.0**-102)
    everyday = np.arange(OCTAVES - 20, OCTAVES + 40)
    assert np.array_equal(outer[everyday], everyday)


def test_merged_octaves_lose_no_row() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate((rng.normal(5, 1, 300), np.exp2(rng.uniform(-120, 120, 300)), [5.0] * 7))[:, None]
    table = OctaveCounts(PrivateData(x), np.array([5.0]), np.array([2.0**-7]))._table
    assert table.sum() == len(x)
    assert table[0, 0] == 7


def test_only_narrow_columns_are_refined_further() -> None:
    rng = np.random.default_rng(1)
    n = 200_000
    X = np.column_stack([rng.normal(100, 30, n), rng.normal(1e9, 3, n), np.full(n, 0.3712), np.zeros(n)])
    plan, release = plan_mean(n, 4, 1.0, 1e-6) or pytest.fail("a plan is expected")
    assert plan.check is not None
    curator = Curator(1.0, 1e-6, random_state=0)
    curator.plan(*plan.mechanisms, release)
    center, resolution = find_locations(curator, plan.stages, PrivateData(X), plan.grid, plan.check)
    assert 0.1 < resolution[0] < 1.0
    assert abs(center[0] - 100) < 2
    assert resolution[1] < 1 and abs(center[1] - 1e9) < 1
    assert center[2] == 0.3712
    assert center[3] == 0.0


def test_a_rare_yes_is_found_with_few_rows_and_a_constant_is_answered_exactly() -> None:
    answers = []
    for seed in range(30):
        x = np.zeros(10_000)
        x[:150] = 1.0
        answers.append(adaptive_mean(Curator(0.5, 1e-6, random_state=seed), PrivateData(x[:, None])).value[0])
    assert np.sqrt(np.mean((np.array(answers) - 0.015) ** 2)) < 0.003
    fits = [adaptive_mean(Curator(1.0, 1e-6, random_state=s), PrivateData(np.full((3000, 1), 4.0))).value[0] for s in range(20)]
    assert np.sum(np.abs(np.array(fits) - 4.0) > 1e-12) <= 1


def test_a_symmetric_radius_reaches_the_rows_and_says_what_it_does_not_know() -> None:
    x = np.random.default_rng(2).exponential(1.0, 20_000)
    radius, spread = choose_radius(description(x), 1e-4)
    assert 3 < radius < 30
    assert 0.005 < spread < 0.1
    assert choose_radius(description(np.full(5000, 7.0)), 1e-4) == (0.0, math.inf)


def test_narrow_ends_do_not_follow_the_center_of_a_normal_column() -> None:
    # The center is as uncertain as a median. Clipped at 1.4 standard deviations, the mean would have half of this error.
    x = np.random.default_rng(7).normal(98.6, 0.7, 30_000)
    for seed in range(4):
        ends = choose_ends(description(x, 4.0, seed=seed), 1e-5)
        assert ((x < ends.low) | (x > ends.high)).mean() < 0.02


def test_the_variance_of_a_few_far_apart_values_is_measured() -> None:
    # All values lie at the outer edges of their octaves of distance from 500, which counts by octave do not show.
    x = np.random.default_rng(0).choice([0.0, 250.0, 500.0, 1000.0], 30_000, p=[0.12, 0.28, 0.5, 0.1])
    estimate = adaptive_mean(Curator(4.0, 1e-6, random_state=0), PrivateData(x[:, None]))
    low, high = estimate.interval(0.95)[0]
    assert 0.95 < (high - low) / (2 * 1.96 * x.std() / math.sqrt(x.size)) < 1.15
