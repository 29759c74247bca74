"""Counts in public cells: right, exact, and moved by one row no further than declared."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fattail.robust.histogram import Histogram
from fattail.rows.data import PrivateData

anything = st.floats(allow_nan=True, allow_infinity=True)


def counts(X: np.ndarray, cells: int, block_bytes: int = 1 << 19) -> np.ndarray:
    bounded = Histogram(cells, X.shape[1]).counts(PrivateData(X, block_bytes=block_bytes), lambda b: b.X)
    return bounded._value * bounded.unit


def test_counts_are_numpys() -> None:
    X = np.random.default_rng(0).uniform(0, 7, (1000, 3))
    expected = [np.bincount(X[:, j].astype(int), minlength=7) for j in range(3)]
    np.testing.assert_array_equal(counts(X, 7), expected)
    np.testing.assert_array_equal(counts(X, 7, block_bytes=100), expected)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(anything, anything), min_size=1, max_size=6), st.tuples(anything, anything), st.data())
def test_one_row_moves_two_cells_of_each_group(
    rows: list[tuple[float, float]], new: tuple[float, float], data: st.DataObject
) -> None:
    X = np.array(rows)
    Y = X.copy()
    Y[data.draw(st.integers(0, len(X) - 1))] = new
    before, after = counts(X, 5), counts(Y, 5)
    assert before.sum() == after.sum() == 2 * len(X)
    assert np.linalg.norm(before - after) <= math.sqrt(2 * 2) + 1e-12
    declared = Histogram(5, 2).counts(PrivateData(X), lambda b: b.X)
    assert declared.sensitivity == math.sqrt(2 * 2)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(anything, anything), min_size=1, max_size=6), st.tuples(anything, anything))
def test_one_row_more_moves_one_cell_of_each_group(rows: list[tuple[float, float]], new: tuple[float, float]) -> None:
    declared = []
    for table in (rows, [*rows, new]):
        data = PrivateData(np.array(table)).counted(5, 1.0, swing=0.5)
        declared.append(Histogram(5, 2).counts(data, lambda b: b.X))
    before, after = (bounded._value * bounded.unit for bounded in declared)
    assert np.linalg.norm(after - before) == math.sqrt(2)
    assert math.isclose(declared[0].sensitivity, math.sqrt(2)) and declared[0].sensitivity == declared[1].sensitivity


def test_a_person_more_moves_no_group_by_more_than_one() -> None:
    rng = np.random.default_rng(0)
    X, who = rng.uniform(0, 5, (60, 2)), np.arange(60) // 6
    for rows in (1, 7, 50):
        more = np.concatenate([X, rng.uniform(0, 5, (rows, 2))]), np.append(who, np.full(rows, 99))
        tables = [PrivateData(Z, person=p).counted(10, 1.0, swing=0.5) for Z, p in ((X, who), more)]
        before, after = (Histogram(5, 2).counts(data, lambda b: b.X) for data in tables)
        moved = (after._value - before._value) * before.unit
        assert np.linalg.norm(moved) <= before.sensitivity + 1e-12 and moved.min() >= 0
