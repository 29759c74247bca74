"""Ids of persons: any type, any order, and no message that quotes one."""

import datetime
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fattail
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


def test_numbers_and_text_in_one_list_stay_apart():
    codes, count = person_codes([1, 1.0, "1", 2**60, 2**60 + 1])
    assert count == 4 and codes[0] == codes[1]
    assert person_codes([2**60, 2**60 + 1, 0.5])[1] == 3


def test_codes_do_not_depend_on_the_order_of_rows():
    ids = np.array(["b", "a", "c", "b"], dtype=object)
    for form in (ids, ids.astype(str)):
        codes, _ = person_codes(form)
        assert codes.tolist() == [1, 0, 2, 1]
        assert person_codes(form[::-1])[0].tolist() == [1, 2, 0, 1]


def test_one_id_per_row():
    with pytest.raises(Refusal, match="one id per row"):
        person_codes(np.zeros((3, 2)))


def test_infinite_intervals_over_rows_say_so():
    rng = np.random.default_rng(0)
    person = rng.integers(0, 500, 1500)
    with pytest.warns(fattail.UtilityWarning, match="weight='rows'"):
        model = fattail.DPMean(weight="rows", epsilon=0.5, random_state=0).fit(rng.lognormal(6, 1, (1500, 1)), person=person)
    assert np.isinf(model.interval_).any()


def test_ids_of_other_types_in_another_file_are_refused(tmp_path):
    """5 and "5" are different ids, and a person with both would count twice."""
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
