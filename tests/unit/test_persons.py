"""Ids of persons: any type, any order, and no message that quotes one."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

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
        np.array(["NaT", "2020-01-01"], dtype="datetime64[D]"),
    ],
    ids=["nan", "none", "masked", "pandas", "nat"],
)
def test_a_missing_id_is_refused_without_quoting_one(ids):
    with pytest.raises(Refusal) as caught:
        person_codes(ids)
    assert "no person" in str(caught.value) and "secret" not in str(caught.value)


def test_one_id_per_row():
    with pytest.raises(Refusal, match="one id per row"):
        person_codes(np.zeros((3, 2)))
