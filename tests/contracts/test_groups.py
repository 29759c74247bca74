"""Counts, means and totals by groups against hostile neighbors: what a unit may move, and what may depend on it."""

import math
from dataclasses import replace

import numpy as np
import pytest

import fattail
from fattail import audit
from fattail.audit.replays import observed_ratio, releases
from fattail.columns.description import CELLS
from fattail.privacy import Curator
from fattail.privacy.noise import SeededNoise
from fattail.robust.base import ONE
from fattail.statistics import question, units
from fattail.statistics.partition import NamedCounts, NamesAboveThreshold

GROUPS = ["a", "b", "c"]
N = 1200


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return rng.lognormal(3, 1, n), rng.choice([*GROUPS, "elsewhere"], n).astype(object), np.arange(n) // 3


def moved(ours, theirs):
    """Change over declared sensitivity; names are compared by name, since which of them occur is private."""
    if not isinstance(ours, NamedCounts):
        return observed_ratio(ours, theirs)
    assert (ours.raw_sensitivity, ours.norm) == (theirs.raw_sensitivity, theirs.norm)
    a, b = (dict(zip(x._names, x._value.tolist(), strict=True)) for x in (ours, theirs))
    return sum(abs(a.get(name, 0) - b.get(name, 0)) for name in {*a, *b}) / ours.raw_sensitivity


def worst(fit, data, neighbor):
    return max(moved(r.ours, r.theirs) for r in releases(fit, data, neighbor))


def asking(function, relation="replace-one", groups=GROUPS, persons=False, **options):
    """A fit of (values, groups, persons)."""

    def fit(x, g, p):
        columns = {"x": x, "g": g, "p": p}
        by = {"by": "g", "groups": groups} if groups != "none" else {}
        named = [] if function is fattail.count else ["x"]
        options_ = {"relation": relation, "random_state": 0, "delta": 1e-6, "epsilon": 4.0} | options
        return function(columns, *named, **by, **({"person": "p"} if persons else {}), **options_)

    return fit


def changed_row(data, i, x=None, g=None):
    copy = [column.copy() for column in data]
    if x is not None:
        copy[0][i] = x
    if g is not None:
        copy[1][i] = g
    return tuple(copy)


def with_person(data, rows, values, replace=True):
    """Person 0 gives way to one with other rows, or stays and another one comes."""
    kept = data[2] != 0 if replace else np.ones(len(data[0]), dtype=bool)
    groups = np.array([*GROUPS, "elsewhere"], dtype=object)[np.arange(rows) % 4]
    name = 0 if replace else N
    return (
        np.concatenate((data[0][kept], np.resize(values, rows))),
        np.concatenate((data[1][kept], groups)),
        np.concatenate((data[2][kept], np.full(rows, name))),
    )


FUNCTIONS = [fattail.count, fattail.mean, fattail.total]
HOSTILE = [0.0, 1e308, -1e308, 5e-324, np.nan, np.inf]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("groups", [GROUPS, None])
def test_a_replaced_row_moves_no_release_beyond_its_sensitivity(function, groups):
    data = table()
    fit = asking(function, groups=groups, missing="drop")
    places = ("a", "c", "elsewhere", "never seen", None)
    found = [worst(fit, data, changed_row(data, 7, value, group)) for value in HOSTILE for group in places]
    assert max(found) <= 1
    if function is not fattail.mean:
        assert max(found) > 0.4  # the attack reaches what is declared


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("groups", [GROUPS, None, "none"])
def test_a_person_with_ten_thousand_rows_in_all_groups_moves_no_more_than_one_with_one_row(function, relation, groups):
    if relation == "replace-one" and groups == "none" and function is fattail.count:
        return  # public
    data = table()
    fit = asking(function, relation, groups, persons=True)
    for rows in (1, 4, 10_000):
        for values in ([1e308], [-1e300, 1e300], [0.0]):
            neighbor = with_person(data, rows, values, replace=relation == "replace-one")
            assert worst(fit, data, neighbor) <= 1


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("groups", [GROUPS, None, "none"])
def test_an_added_row_moves_half_as_much(function, groups):
    data = table()
    fit = asking(function, "add-remove", groups)
    for value in (0.0, 1e308, -1e308):
        for group in ("a", "elsewhere", "never seen"):
            added = (np.append(data[0], value), np.append(data[1], group), np.append(data[2], N))
            assert worst(fit, data, added) <= 1
            assert worst(fit, added, data) <= 1
    rates = {r: [s.sensitivity for s in asking(function, r, GROUPS)(*data).privacy.releases][-1] for r in question.RELATIONS}
    assert rates["replace-one"] == 2 * rates["add-remove"]


@pytest.mark.parametrize("function", [fattail.count, fattail.mean])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("groups", [GROUPS, None, "none"])
def test_where_every_row_counts_a_person_is_still_bounded(function, relation, groups):
    data = table()
    fit = asking(function, relation, groups, persons=True, weight="rows")
    for rows in (1, 10_000):
        neighbor = with_person(data, rows, [1e308], replace=relation == "replace-one")
        assert worst(fit, data, neighbor) <= 1


def test_every_voice_is_counted_in_one_cell_of_the_closer_look():
    values = np.array([*HOSTILE, -5e-324, 1.0, 2.0, 3.0, -4.0, 1e300])
    n = len(values)
    made = units.Contributions(n, 2, np.zeros(n, dtype=np.int64), values, np.full(n, ONE, dtype=np.int64), np.arange(n))
    for center in (0.0, 1.0, -1e300, 5e-324):
        for above, below in ((0.0, 0.0), (4.0, 0.0), (2.0, 8.0), (5e-324, 2.0**140)):
            table = made.side_counts(center, above, below, 16)
            assert table.shape == (2, 17) and table._value.sum() == n * ONE and table._value.min() >= 0
            for i in range(n):
                other = replace(made, _values=np.where(np.arange(n) == i, 2.5, values)).side_counts(center, above, below, 16)
                assert np.abs(table._value - other._value).sum() <= table.raw_sensitivity


@pytest.mark.parametrize("moves", [1, 2])
def test_a_replaced_voice_moves_second_counts_of_octaves_by_what_is_declared(moves):
    values = np.array([*HOSTILE, -5e-324, 1.0, 2.0, 3.0, -4.0, 1e300])
    n, rng = len(values), np.random.default_rng(0)
    made = units.Contributions(n, moves, np.zeros(n, dtype=np.int64), values, np.full(n, ONE, dtype=np.int64), np.arange(n))
    everything = np.ones((2, CELLS), dtype=bool)
    one = np.zeros_like(everything)
    one[0, CELLS // 2] = True  # distances from 1 to 2 above the center
    for octaves in (one, everything, rng.random((2, CELLS)) < 0.5):
        for center in (0.0, 1.0, -1e300):
            table = made.octave_counts(center, octaves)
            assert table.shape == (octaves.sum(),)
            assert table.raw_sensitivity == ONE * min(moves, int(octaves.sum()))
            for i in range(n):
                if moves == 2:
                    other = replace(made, _values=np.where(np.arange(n) == i, 2.5, values))
                else:
                    other = replace(made, _chosen=np.delete(made._chosen, i))
                assert np.abs(table._value - other.octave_counts(center, octaves)._value).sum() <= table.raw_sensitivity


def test_a_second_look_is_taken_from_the_budget_of_the_cells(monkeypatch):
    """Some runs look twice and some do not; the charge is the same."""
    looks, split = [], Curator.split
    monkeypatch.setattr(Curator, "split", lambda self, *args: looks.append(args[1]) or split(self, *args))
    x, g = np.random.default_rng(0).integers(18, 95, 6_000).astype(float), np.arange(6_000) % 2
    charges = {fattail.mean(x, by=g, groups=[0, 1], random_state=seed).privacy.epsilon for seed in range(20)}
    assert len(charges) == 1 and 0 < looks.count("look 2") < 20


def test_cells_of_one_contribution_are_not_negative_and_add_up_to_its_mass():
    near = [2.0**-k for k in (20, 30, 49, 50, 51, 52, 53)]
    values = np.array([*HOSTILE, 0.0, 0.5, 1.0, *near, *(1 - v for v in near), *np.random.default_rng(0).random(2000)])
    for mass in (ONE, ONE - 1, 12345, 1, 0):
        n = len(values)
        # Every contribution is in a group of its own.
        made = units.Contributions(n, 2, np.arange(n), values, np.full(n, mass, dtype=np.int64), np.arange(n))
        for each in (2, 3):
            table = made.cells(n, 0.0, 1.0, each)._value
            assert table.min() >= 0 and (table.sum(axis=1) == mass).all()


def test_a_person_who_is_not_bounded_over_groups_is_caught(monkeypatch):
    original = units.units_of_persons

    def unbounded(*arguments, **options):
        made = original(*arguments, **options)
        return replace(made, _masses=np.full_like(made._masses, ONE))

    monkeypatch.setattr(question, "units_of_persons", unbounded)
    data = table()
    for function in FUNCTIONS:
        fit = asking(function, "add-remove", persons=True)
        assert worst(fit, data, with_person(data, 10_000, [1e308], replace=False)) > 1


def test_very_many_small_groups_get_two_cells_each():
    data = table()
    many = [*GROUPS, *(f"other {k}" for k in range(2000))]
    for relation in question.RELATIONS:
        fit = asking(fattail.mean, relation, many, epsilon=1.0)
        added = (np.append(data[0], 1e308), np.append(data[1], "other 7"), np.append(data[2], N))
        neighbor = changed_row(data, 7, -1e308, "other 7") if relation == "replace-one" else added
        found = releases(fit, data, neighbor)
        assert found[-1].ours.shape == (2003, 2) and max(moved(r.ours, r.theirs) for r in found) <= 1


def test_empty_tables_and_empty_groups_are_like_any_other():
    """Under add-remove nothing may fail because there are no rows."""
    empty = (np.zeros(0), np.zeros(0, dtype=object), np.zeros(0, dtype=np.int64))
    one = (np.array([1e9]), np.array(["a"], dtype=object), np.zeros(1, dtype=np.int64))
    for function in FUNCTIONS:
        for persons in (False, True):
            for groups in (GROUPS, None, "none"):
                assert worst(asking(function, "add-remove", groups, persons), empty, one) <= 1
    data = table()
    dropped = (np.full(N, np.nan), *data[1:])
    assert np.isinf(asking(fattail.mean, missing="drop")(*dropped).interval).all()


def test_a_group_of_one_unit_is_named_at_most_as_often_as_delta_says(monkeypatch):
    failure, many = 0.02, 20_000
    counts = NamedCounts([f"g{k}" for k in range(many)], np.ones(many, dtype=np.int64), 2.0)

    def named(mechanism):
        return len(mechanism.sample(SeededNoise(0), counts, 0.5)) / many

    release = NamesAboveThreshold("groups", failure=failure)
    margin = 4 * math.sqrt(failure / many)
    assert named(release) <= failure + margin
    assert named(release) > failure / 2 - margin  # and the threshold is not twice too high
    monkeypatch.setattr(NamesAboveThreshold, "threshold", lambda self, rho, sensitivity: 1.0)  # planted: no threshold
    assert named(release) > failure + margin


def test_delta_of_the_names_is_booked():
    answer = asking(fattail.mean, groups=None, delta=1e-5)(*table())
    booked = [e.delta for e in answer.privacy.events if e.kind == "approximate"]
    assert booked == [1e-5]
    with pytest.raises(ValueError, match="delta > 0"):
        asking(fattail.count, groups=None, delta=0.0)(*table())


def test_nothing_that_can_be_seen_depends_on_a_row():
    """The second attack: below the library, with everything that a caller sees."""
    data = table()

    def fit(x, g):
        return fattail.mean({"x": x, "g": g}, "x", by="g", groups=GROUPS, missing="drop")

    for value, group in ((1e308, "b"), (np.nan, "a"), (3.0, "elsewhere")):
        finding = audit.record_and_replay(fit, data[:2], changed_row(data, 3, value, group)[:2])
        assert not finding.violations


def test_rows_in_any_order_and_form_give_the_same_integers():
    data = table()
    order = np.random.default_rng(1).permutation(N)
    for persons in (False, True):
        for relation in question.RELATIONS:
            fit = asking(fattail.mean, relation, persons=persons)
            steps = releases(fit, data, tuple(column[order] for column in data))
            assert max(moved(s.ours, s.theirs) for s in steps) == 0


def test_persons_with_one_row_each_give_the_integers_of_rows():
    x, g, _ = table()
    for function in FUNCTIONS:
        answers = [asking(function, persons=persons)(x, g, np.arange(N)[::-1]) for persons in (False, True)]
        np.testing.assert_allclose(answers[0].value, answers[1].value, atol=1.01 if function is fattail.count else 0)


def test_everything_is_charged_once_before_it_is_sampled(monkeypatch):
    data = table()
    with fattail.Budget(epsilon=1.0, delta=1e-6) as budget:
        asking(fattail.mean, groups=["a", "b"], epsilon=1.0)(*data)
        assert 0.9 < budget.spent <= 1.0 + 1e-9
        monkeypatch.setattr(Curator, "release", lambda *_: pytest.fail("sampled without budget"))
        with pytest.raises(fattail.BudgetExceededError):
            asking(fattail.count, groups=["a"], epsilon=0.5)(*data)


def test_reports_name_unit_and_relation():
    data = table()
    report = asking(fattail.total, "add-remove", persons=True)(*data).privacy
    assert (report.unit, report.relation) == ("person", "add-remove")
    assert asking(fattail.count)(*data).privacy.unit == "row"
