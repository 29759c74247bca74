"""Ids of persons: any type, any order, and no message that quotes one."""

import datetime
import itertools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fattail.rows.data import PrivateData
from fattail.rows.door import Refusal
from fattail.rows.persons import person_codes

TEXT = ["b", "a", "b", "c"]
FORMS = {
    "list": TEXT,
    "text": np.array(TEXT),
    "objects": np.array(TEXT, dtype=object),
    "numbers": np.array([5, 1, 5, 9]),
    "floats": np.array([5.0, 1.0, 5.0, 9.0]),
    "dates": np.array(["2020-02-01", "2020-01-01", "2020-02-01", "2021-01-01"], dtype="datetime64[D]"),
    "pandas": pd.Series(TEXT),
    "categories": pd.Series(TEXT, dtype="category"),
    "polars": pl.Series(TEXT),
    "arrow": pa.array(TEXT),
    "frame": pd.DataFrame({"id": TEXT}),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_persons_in_every_form(form):
    codes, count = person_codes(FORMS[form])
    assert count == 3
    assert codes.dtype == np.int64 and codes[0] == codes[2]
    assert sorted(set(codes.tolist())) == [0, 1, 2]


@pytest.mark.parametrize(
    "ids",
    [
        np.array([1.0, np.nan]),
        ["ann-secret", None],
        np.ma.array([1, 2], mask=[False, True]),
        pd.Series(["ann-secret", None]),
        pd.Series(["ann-secret", pd.NA], dtype=object),
        np.array(["NaT", "2020-01-01"], dtype="datetime64[D]"),
    ],
    ids=["nan", "none", "masked", "pandas", "pandas NA", "nat"],
)
def test_a_missing_id_is_refused_without_quoting_one(ids):
    with pytest.raises(Refusal) as caught:
        person_codes(ids)
    assert "no person" in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize("form", [list, lambda ids: np.array(ids, dtype=object), lambda ids: pd.Series(ids, dtype=object)])
def test_one_id_is_one_person_however_it_is_stored(form):
    """A column that is read in pieces may hold an id as a number here and as text there."""
    codes, count = person_codes(form([1, 1.0, "1", np.int64(1), 2**60, 2**60 + 1, "01", "cafe\u0301", "caf\u00e9", 2**1100]))
    assert count == 6 and len(set(codes[:4])) == 1 and codes[7] == codes[8]
    assert person_codes(form([2**60, 2**60 + 1, 0.5]))[1] == 3
    assert person_codes(np.array(["cafe\u0301", "caf\u00e9"]))[1] == 1


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series([5, 1, 5]),
        pd.Series([5, 1, 5], dtype="Int64"),
        pl.Series([5, 1, 5]),
        pa.array([5, 1, 5]),
        pa.chunked_array([[5], [1, 5]]),
    ],
)
def test_whole_numbers_of_every_library_are_compared_as_such(ids):
    assert person_codes(ids)[0].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "ids",
    [pd.Series([1, None], dtype="Int64"), pl.Series([1, None]), pa.array([1, None]), pd.Series(["a", None], dtype="category")],
)
def test_missing_whole_numbers_and_categories_are_refused(ids):
    with pytest.raises(Refusal, match="no person"):
        person_codes(ids)


def test_what_is_no_id_is_refused_in_plain_words():
    for form in (list, lambda ids: pd.Series(ids, dtype=object)):
        with pytest.raises(Refusal, match="must be text, a number, a date or a category"):
            person_codes(form([{"secret": 1}, {"secret": 2}]))
    with pytest.raises(Refusal, match="person must be one column, got 2"):
        person_codes(pd.DataFrame({"a": [1], "b": [2]}))


def test_codes_do_not_depend_on_the_order_of_rows():
    ids = np.array(["b", "a", "c", "b"], dtype=object)
    for form in (ids, ids.astype(str)):
        codes, _ = person_codes(form)
        assert codes.tolist() == [1, 0, 2, 1]
        assert person_codes(form[::-1])[0].tolist() == [1, 2, 0, 1]


def test_one_id_per_row():
    with pytest.raises(Refusal, match="one id per row"):
        person_codes(np.zeros((3, 2)))


def test_ids_of_other_types_in_another_file_are_refused(tmp_path):
    """The schema of a folder is that of its files, which must agree."""
    ids = {"a": pa.array([5, 6]), "b": pa.array(["5", "7"])}
    for name, column in ids.items():
        pq.write_table(pa.table({"x": [1.0, 2.0], "who": column}), tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match="text in one file and whole numbers in another"):
        PrivateData(tmp_path, person="who")
    pq.write_table(pa.table({"x": [1.0, 2.0], "who": pa.array([5, 7], pa.uint8())}), tmp_path / "b.parquet")
    assert PrivateData(tmp_path, person="who").n == 3


def test_whose_row_it_is_does_not_depend_on_other_rows():
    day = datetime.datetime(2020, 1, 1)
    ids = [
        np.datetime64("2020-01-01"),
        day,
        pd.Timestamp(day),
        np.timedelta64(1, "D"),
        datetime.timedelta(1),
        pd.Timedelta(1, "D"),
    ]
    for first in ids:
        for a, b in itertools.combinations(ids, 2):
            (alone, other), _ = person_codes([a, b])
            codes, _ = person_codes([first, a, b])
            assert (codes[1] == codes[2]) == (alone == other), (first, a, b)


def test_equal_numbers_are_one_person_whatever_other_rows_hold():
    """Decimal(5) equals 5, which is spelled like "5": the three are one person with and without the one in the middle."""
    for ids in ([Decimal(5), "5"], [5, Decimal(5), "5"], [Fraction(5), "5", 5.0], [True, "1"]):
        for form in (list, lambda cells: pd.Series(cells, dtype=object)):
            assert person_codes(form(ids))[1] == 1, ids
