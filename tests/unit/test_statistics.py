"""Count, mean, total and difference: what they estimate, how well, and in which forms they take and give it."""

import gzip

import numpy as np
import pandas as pd
import pytest

import fattail
from fattail.columns import ColumnDescription, CountNoise
from fattail.columns.closer import _Side
from fattail.rows.door import Refusal
from fattail.statistics.cap import _unseen_rows
from fattail.statistics.intervals import discrete_laplace_reach, fieller, named_count_interval, two_laplace_quantile

N = 6000
RNG = np.random.default_rng(3)
CLAIMS = pd.DataFrame({"cost": RNG.lognormal(4, 1, N), "region": RNG.choice(["a", "b", "c"], N), "patient": np.arange(N) // 2})
CLAIMS.loc[CLAIMS.region == "b", "cost"] *= 2
GAPS = CLAIMS.assign(cost=CLAIMS.cost.where(np.arange(N) % 5 > 0))
BY = {"by": "region", "groups": ["a", "b", "c"], "random_state": 0}
TRUE = CLAIMS.groupby("region").cost


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_answers_are_near_and_intervals_hold_them(relation):
    for function, truth in ((fattail.mean, TRUE.mean()), (fattail.total, TRUE.sum()), (fattail.count, TRUE.size())):
        named = [] if function is fattail.count else ["cost"]
        answer = function(CLAIMS, *named, **BY, relation=relation, confidence=0.999)
        np.testing.assert_allclose(answer.value, truth, rtol=0.15)
        assert ((answer.interval[:, 0] <= truth) & (truth <= answer.interval[:, 1])).all()
        whole = function(CLAIMS, *named, relation=relation, random_state=0)
        assert abs(whole.value / (truth.mean() if function is fattail.mean else truth.sum()) - 1) < 0.15
        assert whole.interval[0] <= whole.value <= whole.interval[1]


def test_groups_are_found_in_the_order_of_their_names_and_rare_ones_are_not_named():
    rare = pd.concat([CLAIMS, CLAIMS.head(3).assign(region="rare")])
    for function in (fattail.count, lambda *a, **k: fattail.mean(a[0], "cost", **k)):
        answer = function(rare, by="region", random_state=0)
        assert answer.groups == ("a", "b", "c") and len(answer.value) == len(answer.interval) == 3
    nothing = fattail.mean(CLAIMS, "cost", by="patient", random_state=0)
    assert nothing.groups == () and nothing.to_frame().empty and nothing.interval.shape == (0, 2)


def test_rows_of_other_groups_fall_into_none():
    kept = fattail.count(CLAIMS, by="region", groups=["b", "nowhere"], random_state=0)
    assert abs(kept.value[0] - TRUE.size()["b"]) < 40 and abs(kept.value[1]) < 40
    assert kept.interval[1, 0] == 0


def test_a_group_without_rows_gets_an_infinite_interval():
    answer = fattail.mean(CLAIMS, "cost", by="region", groups=["a", "nowhere"], epsilon=4.0, random_state=1)
    assert np.isfinite(answer.interval[0]).all() and np.isinf(answer.interval[1]).all()
    assert np.isfinite(answer.value).all()


def test_a_public_number_of_units_is_exact_and_free():
    with fattail.Budget(epsilon=1e-6) as budget:
        rows, persons = fattail.count(CLAIMS), fattail.count(CLAIMS, person="patient")
    assert (rows.value, persons.value, budget.spent) == (N, N // 2, 0.0)
    assert rows.interval == (N, N) and rows.privacy.epsilon == 0 and persons.privacy.unit == "person"


def test_missing_has_one_meaning_in_every_form(tmp_path):
    pa = pytest.importorskip("pyarrow")
    GAPS.to_csv(tmp_path / "t.csv", index=False)
    with gzip.open(tmp_path / "t.csv.gz", "wb") as stream:
        stream.write((tmp_path / "t.csv").read_bytes())
    GAPS.to_parquet(tmp_path / "t.parquet")
    forms = [
        GAPS,
        GAPS.to_dict("list"),
        pa.Table.from_pandas(GAPS),
        tmp_path / "t.csv",
        str(tmp_path / "t.csv.gz"),
        tmp_path / "t.parquet",
    ]
    observed, filled = GAPS.cost.mean(), GAPS.cost.fillna(0).mean()
    for options in ({}, BY, {"person": "patient"}):
        for missing, truth in (("drop", observed), ("zero", filled)):
            answers = [fattail.mean(form, "cost", **({"random_state": 0} | options), missing=missing) for form in forms]
            values = np.array([np.ravel(answer.value) for answer in answers])
            np.testing.assert_array_equal(values, values[:1].repeat(len(forms), 0))
            assert abs(values.mean() / truth - 1) < 0.2
    for form in forms:
        with pytest.raises((Refusal, ValueError), match="NaN"):
            fattail.mean(form, "cost", random_state=0)
        with pytest.raises(Refusal, match="missing='drop'"):
            fattail.mean(form, "cost", **BY)
    with pytest.raises(Refusal, match="no group"):
        fattail.count({"region": ["a", None]}, by="region", groups=["a"])


def test_persons_count_once_and_totals_are_of_all_rows():
    rng = np.random.default_rng(0)
    rows = np.where(np.arange(1000) % 10 == 0, 50, 1)
    patient = np.repeat(np.arange(1000), rows)
    cost = np.repeat(np.where(rows == 50, 100.0, 10.0), rows) + rng.normal(0, 1, rows.sum())
    table = {"cost": cost, "patient": patient, "region": np.where(patient % 2, "a", "b")}
    averages = np.bincount(patient, weights=cost) / rows
    whole = fattail.mean(table, "cost", person="patient", random_state=0, epsilon=5.0)
    assert abs(whole.value - averages.mean()) < 5 < abs(whole.value - cost.mean())
    total = fattail.total(table, "cost", person="patient", random_state=0, epsilon=5.0)
    assert abs(total.value / cost.sum() - 1) < 0.3
    groups = {"by": "region", "groups": ["a", "b"], "person": "patient", "random_state": 0, "epsilon": 5.0}
    by_region = fattail.mean(table, "cost", **groups)
    np.testing.assert_allclose(by_region.value, [averages[1::2].mean(), averages[::2].mean()], atol=6)
    counts = fattail.count(table, **groups)
    np.testing.assert_allclose(counts.value, 500, atol=10)


def test_where_every_row_counts_persons_weigh_as_many_as_they_have():
    rng = np.random.default_rng(0)
    rows = np.where(np.arange(3000) % 4 == 0, 16, 1)
    patient = np.repeat(np.arange(3000), rows)
    cost = np.repeat(np.where(rows == 16, 100.0, 10.0), rows) + rng.normal(0, 5, rows.sum())
    table = {"cost": cost, "patient": patient, "region": np.where(patient % 2, "a", "b")}
    groups = {"person": "patient", "weight": "rows", "random_state": 0}
    for relation in ("replace-one", "add-remove"):
        whole = fattail.mean(table, "cost", **groups, relation=relation)
        assert abs(whole.value - cost.mean()) < 6 and whole.interval[0] < cost.mean() < whole.interval[1]
        counts = fattail.count(table, by="region", groups=["a", "b"], **groups, relation=relation)
        truth = [(table["region"] == name).sum() for name in "ab"]
        np.testing.assert_allclose(counts.value, truth, rtol=0.2)
        assert (counts.interval[:, 0] <= truth).all() and (truth <= counts.interval[:, 1]).all()
    with pytest.raises(ValueError, match="weight"):
        fattail.mean(table, "cost", weight="both")


def test_a_person_in_several_groups_is_split_over_them():
    table = {"patient": np.repeat(np.arange(2000), 4), "region": np.tile(["a", "a", "a", "b"], 2000)}
    for groups in (["a", "b"], None):
        counts = fattail.count(table, by="region", groups=groups, person="patient", random_state=0)
        np.testing.assert_allclose(counts.value, [1500, 500], atol=60)


def test_difference_of_two_groups():
    answer = fattail.difference(CLAIMS, "cost", by="region", groups=["b", "a"], epsilon=4.0, random_state=0)
    gap = TRUE.mean()["b"] - TRUE.mean()["a"]
    assert answer.interval[0] < gap < answer.interval[1] and answer.p_value < 0.01
    other = fattail.difference(CLAIMS, "cost", by="region", groups=["a", "c"], random_state=0)
    assert other.interval[0] < 0 < other.interval[1] and other.p_value > 0.05
    # The interval whose confidence is one minus the p-value ends at zero.
    again = fattail.difference(CLAIMS, "cost", by="region", groups=["a", "c"], random_state=0, confidence=1 - other.p_value)
    assert min(np.abs(again.interval)) < 1e-6 * np.ptp(again.interval)
    with pytest.raises(ValueError, match="two groups"):
        fattail.difference(CLAIMS, "cost", by="region", groups=["a", "b", "c"])


def test_an_array_alone_and_arrays_for_columns():
    x, g = CLAIMS.cost.to_numpy(), CLAIMS.region.to_numpy()
    assert fattail.mean(x, random_state=0).value == fattail.mean(CLAIMS, "cost", random_state=0).value
    by_arrays = fattail.mean(x, by=g, groups=["a", "b", "c"], random_state=0)
    np.testing.assert_array_equal(by_arrays.value, fattail.mean(CLAIMS, "cost", **BY).value)
    both = fattail.mean(CLAIMS.assign(twice=2 * CLAIMS.cost), ["cost", "twice"], random_state=0)
    assert both.value.shape == (2,)
    for wrong in ({}, {"column": ["cost", "patient"], "person": "patient"}):
        with pytest.raises(ValueError, match="column"):
            fattail.mean({"cost": x, "patient": x}, **wrong)
    with pytest.raises(ValueError, match="method"):
        fattail.mean(CLAIMS, "cost", **BY, method="trimmed")


def test_a_release_can_be_read_and_framed():
    answer = fattail.mean(CLAIMS, "cost", **BY)
    frame = answer.to_frame()
    assert list(frame.columns) == ["group", "value", "low", "high"] and list(frame.group) == ["a", "b", "c"]
    for text in (repr(answer), answer._repr_html_()):
        assert "not private" in text and f"{answer.value[1]:.6g}" in text
    hostile = fattail.count({"g": ["<i>\x1b[2J"] * 500}, by="g", random_state=0)
    assert "<i>" not in hostile._repr_html_() and "\x1b" not in repr(hostile)
    assert float(fattail.mean(CLAIMS.cost, random_state=0)) > 0


@pytest.mark.parametrize(
    "options",
    [
        {"missing": "forget"},
        {"relation": "sideways"},
        {"confidence": 1.0},
        {"epsilon": 0},
        {"groups": ["a"]},
        {"random_state": -1},
    ],
)
def test_what_means_nothing_is_refused_before_data_are_touched(options):
    with pytest.raises(ValueError):
        fattail.total(object(), "cost", **options)


def test_columns_of_any_size_are_answered():
    rng = np.random.default_rng(0)
    g = rng.integers(0, 3, 2000)
    columns = [np.zeros(2000), rng.choice([1e308, -1e308, 0.0], 2000), np.full(2000, 5e-324), rng.lognormal(0, 30, 2000)]
    for x in columns:
        for options in ({"by": g, "groups": [0, 1, 2]}, {"person": g + 3 * np.arange(2000)}, {"relation": "add-remove"}):
            for seed in range(3):
                for function in (fattail.mean, fattail.total):
                    answer = function(x, **options, epsilon=8.0, random_state=seed)
                    low, high = np.reshape(answer.interval, (-1, 2)).T
                    assert np.isfinite(answer.value).all() and (low <= high).all()


def test_too_few_rows_are_told_from_public_numbers():
    with pytest.warns(fattail.UtilityWarning, match="few at epsilon"):
        fattail.mean({"x": np.arange(100.0), "g": ["a"] * 100}, "x", by="g", groups=list("abcd"), random_state=0)


def test_quantiles_against_simulation():
    rng = np.random.default_rng(0)
    two = rng.laplace(size=(2, 200_000)).sum(0) / 2
    for confidence in (0.5, 0.95, 0.999):
        assert abs(np.mean(np.abs(two) <= two_laplace_quantile(confidence)) - confidence) < 4e-3
        for scale in (0.3, 2.0, 30.0):
            reach, ratio = discrete_laplace_reach(scale, confidence), np.exp(-1 / scale)
            beyond = [2 * ratio ** (k + 1) / (1 + ratio) for k in (reach, reach - 1)]
            assert beyond[0] <= (1 - confidence) * (1 + 1e-9) and (reach == 0 or beyond[1] > 1 - confidence)


def test_fieller_covers_the_ratio_of_a_noisy_sum_and_a_noisy_size():
    rng = np.random.default_rng(0)
    for size, ratio in ((60, 0.0), (60, -0.9), (400, 0.5), (15, 0.3)):
        t = rng.choice([-1.0, 1.0], (4000, size), p=[(1 - ratio) / 2, (1 + ratio) / 2])
        noise = rng.laplace(0, 2.0, (4000, 3)) * np.sqrt(0.5)
        total = t.sum(1) + noise[:, 0] - noise[:, 2]
        count = size + noise.sum(1)
        spread = np.sqrt(2.0) * 2.0 * np.sqrt(0.5)
        variance = np.full(4000, size * (1 - ratio**2))
        low, high = fieller(total, count, variance, np.sqrt(2) * spread, np.sqrt(3) * spread, 1.96, two_laplace_quantile(0.95))
        assert 0.93 < np.mean((low <= ratio) & (ratio <= high)) < 0.99


def test_counts_that_are_known_only_because_they_are_large_are_not_overrated():
    rng = np.random.default_rng(0)
    threshold, scale = 30.0, 2.0
    for truth in (1, 20, 28, 30, 34, 60):
        noisy = truth + rng.laplace(0, scale, 4_000_000)
        noisy = noisy[noisy > threshold][:20_000]
        if len(noisy) < 500:
            noisy = threshold + rng.exponential(scale, 20_000)  # the law of what is beyond, for a count below
        low, high = named_count_interval(noisy, threshold, scale, 0.95).T
        assert np.mean((low <= truth) & (truth <= high)) > 0.94


def test_rows_beyond_the_cap_are_not_invented():
    """Persons with two to seven rows each: octaves beyond do not show, and hold no rows to speak of."""
    rows = np.random.default_rng(5).poisson(3, 2000) + 1
    persons = np.repeat(np.arange(2000), rows)
    for seed in range(5):
        answer = fattail.count({"person": persons}, person="person", weight="rows", random_state=seed)
        assert abs(answer.value / rows.sum() - 1) < 0.5
        assert answer.interval[0] <= rows.sum() <= answer.interval[1] < 2 * rows.sum()


def test_unseen_rows_go_on_as_a_power_law_or_fall():
    many = np.full(34, 1e9)
    falling = np.array([400.0, 200, 100, *np.zeros(31)])
    assert _unseen_rows(falling, many) == pytest.approx(100 * sum(0.5**k for k in range(1, 7)))
    rising = np.array([100.0, 400, 800, *np.zeros(31)])  # ratios 4, 2, then 1, 1/2 and so on
    assert _unseen_rows(rising, many) == pytest.approx(800 * (1 + sum(0.5**k for k in range(1, 6))))
    assert _unseen_rows(falling, np.zeros(34)) == 0


@pytest.mark.parametrize("function", [fattail.mean, fattail.total, fattail.difference, fattail.count])
def test_options_without_a_meaning_are_refused(function):
    named = [] if function is fattail.count else ["cost"]
    by = {"by": None} if function is fattail.difference else {}
    with pytest.raises(ValueError, match="by=, the column"):
        function(CLAIMS, *named, groups=["a", "b"], **by)
    with pytest.raises(TypeError, match="no option 'grups'"):
        function(CLAIMS, *named, by="region", grups=["a", "b"], **({"groups": ["a", "b"]} if by else {}))
    if function is fattail.total:
        with pytest.raises(TypeError, match="no option 'weight'"):
            function(CLAIMS, "cost", weight="rows")
    else:
        with pytest.raises(ValueError, match="for person="):
            function(CLAIMS, *named, by="region", groups=["a", "b"], weight="rows")


def test_a_mean_refuses_what_it_would_ignore():
    with pytest.raises(ValueError, match="for person="):
        fattail.mean(CLAIMS, "cost", weight="rows")
    with pytest.raises(TypeError, match="no option 'grups'"):
        fattail.mean(CLAIMS, "cost", grups=["a"])
    with pytest.raises(ValueError, match=r"shape \(n,\), got shape \(6000, 2\)"):
        fattail.mean(np.ones((N, 2)), by=CLAIMS.region, groups=["a"])
    with pytest.raises(Refusal, match="column 'region'"):
        fattail.mean(CLAIMS, "region")
    with pytest.raises(Refusal, match="column 'cost' holds NaN"):
        fattail.mean(GAPS, "cost", **BY)
    blocks = fattail.mean(CLAIMS.cost, method="median_of_means", groups=41, random_state=0)
    assert blocks.value > 0


@pytest.mark.parametrize("form", [pd.Series, np.asarray, list, lambda d: d.astype("datetime64[ns]").to_numpy()])
def test_groups_of_dates_are_named_as_people_write_them(form):
    dates = pd.Series(pd.to_datetime(["2026-01-02 00:00", "2026-01-02 00:00", "2026-01-02 00:00", "2026-01-01 08:30"] * 250))
    table = {"day": form(dates)}
    assert fattail.count(table, by="day", random_state=0).groups == ("2026-01-01 08:30:00", "2026-01-02")
    day = pd.Timestamp("2026-01-02")
    for name in ("2026-01-02", day, day.date(), np.datetime64("2026-01-02")):
        answer = fattail.count(table, by="day", groups=[name], random_state=0)
        assert answer.groups == ("2026-01-02",) and abs(answer.value[0] - 750) < 20


def test_groups_that_are_true_and_false_are_named_so():
    answer = fattail.count({"sick": np.arange(1000) % 3 == 0}, by="sick", random_state=0)
    assert [str(name) for name in answer.groups] == ["False", "True"]


def test_a_free_count_refuses_what_is_no_account():
    with pytest.raises(ValueError, match="ledger must be an account"):
        fattail.count(np.ones((50, 1)), ledger=5)


def test_a_count_lies_in_its_interval_and_without_groups_costs_nothing():
    for seed in range(20):
        none = fattail.count(CLAIMS, by="region", groups=["nowhere"], random_state=seed)
        assert none.interval[0, 0] <= none.value[0] <= none.interval[0, 1]
    free = fattail.count(GAPS, missing="drop")
    assert free.value == N and free.privacy.epsilon == 0


def test_columns_by_name_are_told_apart():
    answer = fattail.mean(CLAIMS, ["cost", "patient"], random_state=0)
    assert answer.groups == ("cost", "patient") and "patient" in repr(answer)


def test_an_infinite_difference_says_so():
    with pytest.warns(fattail.UtilityWarning, match="too few units to tell, or none: 'nowhere'; their intervals are infinite"):
        answer = fattail.difference(CLAIMS, "cost", by="region", groups=["a", "nowhere"], random_state=0)
    assert np.isinf(answer.interval).any()


def test_a_tail_that_may_have_no_mean_is_named_as_the_reason():
    table = {"x": np.random.default_rng(0).pareto(0.7, N), "g": np.arange(N) % 2}
    with pytest.warns(fattail.UtilityWarning, match="infinite above: there the column's tail may have no mean"):
        answer = fattail.mean(table, "x", by="g", groups=[0, 1], random_state=0)
    assert np.isposinf(answer.interval[:, 1]).all()


@pytest.mark.parametrize(
    ("law", "options"), [("ages", {"by": np.arange(6_000) % 2, "groups": [0, 1]}), ("yes/no", {"missing": "drop"})]
)
def test_no_interval_is_far_wider_than_usual(law, options):
    """A large number by noise in an octave far away may hold no rows: it is counted again before it widens an interval."""
    widths = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.integers(18, 95, 6_000) if law == "ages" else rng.random(6_000) < 0.3
        answer = fattail.mean(x.astype(float), random_state=seed, **options)
        widths.append(np.diff(answer.interval).max())
    assert np.quantile(widths, 0.95) < 2 * np.median(widths)


def test_a_rare_code_is_covered():
    """Few rows far away are not taken for noise: in 3 % of the rows, 999 means that nothing is known."""
    covered = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, g = np.where(rng.random(6_000) < 0.03, 999.0, rng.integers(18, 95, 6_000)), np.arange(6_000) % 2
        low, high = fattail.mean(x, by=g, groups=[0, 1], random_state=seed).interval.T
        truth = np.bincount(g, x) / np.bincount(g)
        covered.append((low <= truth) & (truth <= high))
    assert np.mean(covered) > 0.9


CODES = np.repeat(np.arange(10), 3_000)
HARD_ENDS = {
    "yes/no": (lambda rng, n: (rng.random(n) < 0.4).astype(float), 0.0, 1.0),
    "label": (lambda rng, n: rng.choice([1.0, 2.0], n), 1.0, 2.0),
    "years": (lambda rng, n: rng.integers(2012, 2017, n).astype(float), 2012.0, 2016.0),
    "code": (lambda rng, n: np.where(rng.random(n) < 0.05, -9.0, rng.normal(30, 3, n)), -9.0, 40.0),
}


@pytest.mark.parametrize("law", HARD_ENDS)
def test_columns_with_a_hard_end_have_no_more_noise_than_if_it_were_told(law):
    draw, low, high = HARD_ENDS[law]
    errors = []
    for seed in range(30):
        x = draw(np.random.default_rng(seed), len(CODES))
        answer = fattail.mean(x, by=CODES, groups=list(range(10)), random_state=seed)
        errors.append((answer.value - np.bincount(CODES, x) / 3_000) ** 2)
    # A noisy sum around the middle and a noisy count, half of epsilon each.
    told = np.sqrt(2) * 2 / 0.5 * np.hypot((high - low) / 2, x.mean() - (high + low) / 2) / 3_000
    # With thirty seeds the ratio has a standard error of 6 %; ends that are twice too far out have 1.3 to 1.9.
    assert np.sqrt(np.mean(errors)) < 1.15 * told


def test_ends_move_in_to_the_last_value_and_not_where_rows_are():
    counts = np.zeros((2, 257))
    counts[0, 128] = 4_000.0  # all between 1 and 2 above the center
    column = ColumnDescription(10_000.0, 0.0, 0.0, 6_000.0, counts, CountNoise(20.0, laplace=True))
    at_once, spread = np.zeros(65), np.zeros(65)
    at_once[32 + 8] = 4_000.0
    spread[32:64] = 4_000 / 32
    for cells, nothing_beyond in ((at_once, 1.3), (spread, 1.99)):
        side = _Side.of(column, 0, 2.0, 2.0, cells, CountNoise(50.0, laplace=True))
        assert side.excess[side.at >= nothing_beyond].max() < 1e-4
        assert side.excess[side.at <= nothing_beyond - 0.05].min() > 1e-4
        distance = (np.arange(64) + 0.5) / 32
        nearest = side.at[0]
        assert side.excess[0] == pytest.approx(0.4 * (cells[:64] @ (distance - nearest)) / 4_000, rel=0.02)


@pytest.mark.parametrize("n", [1, 20])
def test_too_few_units_are_said_before_the_charge_and_answered_honestly(n):
    x, g = np.full(n, 3.0), np.arange(n) % 2
    with fattail.Budget(epsilon=1.0, delta=1e-6) as budget, pytest.warns(fattail.UtilityWarning, match="too small to find"):
        answer = fattail.mean(x, by=g, groups=[0, 1], random_state=0)
    assert budget.spent > 0 and np.isinf(answer.interval).all() and np.isfinite(answer.value).all()


def test_a_column_that_shows_one_value_has_that_mean():
    with pytest.warns(fattail.UtilityWarning, match="infinite"):
        answer = fattail.mean(np.full(4000, 7.0), by=np.arange(4000) % 2, groups=[0, 1], random_state=0)
    assert answer.value.tolist() == [7.0, 7.0]


UNITS = [{}, {"person": "patient"}, {"relation": "add-remove"}, {"person": "patient", "relation": "add-remove"}]


@pytest.mark.parametrize("function", [fattail.count, fattail.mean, fattail.total, fattail.difference])
@pytest.mark.parametrize("first", UNITS)
def test_an_account_adds_up_charges_of_one_unit_and_relation_only(function, first, tmp_path):
    named = [] if function is fattail.count else ["cost"]
    about = {"by": "region", "groups": ["a", "b"], "random_state": 0}
    account = fattail.Ledger(tmp_path / "ledger.db").open("claims", epsilon=10.0, delta=1e-5)
    answer = function(CLAIMS, *named, **about, **first, ledger=account)
    unit, relation = "person" if "person" in first else "row", first.get("relation", "replace-one")
    subject = account.history[0].subject
    assert (answer.privacy.unit, answer.privacy.relation) == (subject.unit, subject.relation) == (unit, relation)
    for other in UNITS:
        if other != first:
            with pytest.raises(ValueError, match="account of its own"):
                fattail.mean(CLAIMS, "cost", **about, **other, ledger=account)
            with fattail.Budget(epsilon=10.0, delta=1e-5), pytest.raises(ValueError, match="account of its own"):
                fattail.mean(CLAIMS, "cost", **about, **first)
                fattail.mean(CLAIMS, "cost", **about, **other)
    assert len(account.history) == 1


def test_groups_that_lie_apart_are_not_pulled_together():
    g, missed = np.repeat([0, 1], [4_000, 8_000]), 0
    for law in ("normal", "laplace", "logistic"):
        for seed in range(3):
            x = getattr(np.random.default_rng(seed), law)(98.6, 0.7, 12_000) + 0.46 * (g == 0)
            answer = fattail.difference(x, by=g, groups=[0, 1], random_state=seed)
            assert abs(answer.value - (x[g == 0].mean() - x[g == 1].mean())) < 0.04
            missed += not answer.interval[0] < 0.46 < answer.interval[1]
    assert missed <= 1  # of nine 95 % intervals


def test_a_number_and_its_text_are_one_group():
    with pytest.raises(ValueError, match="such as 1 and '1', are the same group"):
        fattail.count(CLAIMS, by="region", groups=[1, "1"])


def test_two_ways_to_store_an_accent_are_one_group():
    labels = np.array(["caf\u00e9"] * 300 + ["cafe\u0301"] * 200, dtype=object)
    for groups in (["caf\u00e9"], ["cafe\u0301"]):
        assert abs(fattail.count({"place": labels}, by="place", groups=groups, random_state=0).value[0] - 500) < 30
    assert len(fattail.count({"place": labels}, by="place", random_state=0).groups) == 1
    with pytest.raises(ValueError, match="different"):
        fattail.count({"place": labels}, by="place", groups=["caf\u00e9", "cafe\u0301"])


def test_an_infinite_group_is_no_error():
    assert fattail.count({"k": np.arange(50)}, by="k", groups=[float("inf"), 1], random_state=0).value.shape == (2,)


@pytest.mark.parametrize(
    "options", [{"by": "arm", "groups": ["a", "b"]}, {"relation": "add-remove"}], ids=["groups", "private n"]
)
def test_a_small_spread_far_from_zero_is_found(options):
    rng = np.random.default_rng(0)
    table = {"at": 1234567890.0 + rng.normal(0, 5, 4000), "arm": rng.choice(["a", "b"], 4000)}
    answer = fattail.mean(table, "at", random_state=0, **options)
    assert np.all(np.abs(answer.value - 1234567890.0) < 2) and np.all(np.isfinite(answer.interval))
    assert np.all(np.diff(np.atleast_2d(answer.interval), axis=1) < 10)
