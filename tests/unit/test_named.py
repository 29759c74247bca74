"""Named columns of any table, and labels of any type as codes."""

import gzip

import numpy as np
import pandas as pd
import pytest

from fattail.rows.door import Refusal
from fattail.rows.named import NamedColumns
from fattail.statistics.labels import check_groups, declared_codes, occurring_codes

COST = [1.5, 2.0, float("nan"), 4.0]
REGION = ["a", "b", None, "a"]
YEAR = [2020, 2021, 2020, 2**60 + 1]


def forms(tmp_path):
    frame = pd.DataFrame({"cost": COST, "region": REGION, "year": np.array(YEAR)})
    yield "mapping", {"cost": COST, "region": REGION, "year": YEAR}
    yield "pandas", frame
    yield "category", frame.astype({"region": "category"})
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    yield "polars", pl.DataFrame({"cost": COST, "region": REGION, "year": YEAR})
    yield "lazy", pl.DataFrame({"cost": COST, "region": REGION, "year": YEAR}).lazy()
    table = pa.table({"cost": COST, "region": REGION, "year": YEAR})
    yield "arrow", table
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "t.parquet")
    yield "parquet", tmp_path / "t.parquet"
    text = f"cost,region,year\n1.5,a,2020\n2,b,2021\n,,2020\n4,a,{YEAR[-1]}\n"
    (tmp_path / "t.csv").write_text(text)
    yield "csv", str(tmp_path / "t.csv")
    with gzip.open(tmp_path / "t.tsv.gz", "wt") as stream:
        stream.write(text.replace(",", "\t"))
    yield "tsv", tmp_path / "t.tsv.gz"
    dask = pytest.importorskip("dask.dataframe")
    yield "dask", dask.from_pandas(frame, npartitions=2)


def test_every_table_gives_the_same_columns(tmp_path):
    for name, data in forms(tmp_path):
        table = NamedColumns(data, ["cost"], ["region", "year"])
        assert table.n == 4, name
        np.testing.assert_array_equal(table.numbers("cost"), COST, err_msg=name)
        assert declared_codes(table.labels("region"), ["b", "a"]).tolist() == [1, 0, -1, 1], name
        # Whole numbers of 64 bits are told apart where floats would not be.
        years = declared_codes(table.labels("year"), [2020, 2**60, 2**60 + 1])
        assert years.tolist() == [0, -1, 0, 2], name
        codes, names = occurring_codes(table.labels("region"))
        assert (codes.tolist(), names) == ([0, 1, -1, 0], ["a", "b"]), name


def test_messages_name_columns_and_quote_no_cell(tmp_path):
    (tmp_path / "t.csv").write_text("cost,region\nHIV,secret\n")
    for data in ({"cost": ["HIV"], "region": ["secret"]}, tmp_path / "t.csv"):
        with pytest.raises(Refusal, match="no columns") as error:
            NamedColumns(data, ["price"])
        assert "HIV" not in str(error.value) and "secret" not in str(error.value)
    with pytest.raises(Refusal, match="equal length"):
        NamedColumns({"cost": [1.0, 2.0], "region": ["a"]}, ["cost"], ["region"]).labels("region")
    assert np.isnan(NamedColumns(tmp_path / "t.csv", ["cost"]).numbers("cost")).all()


def test_labels_of_numbers_and_text_meet():
    assert declared_codes(np.array([1.0, 2.5, 3.0]), ["1", "2.5"]).tolist() == [0, 1, -1]
    assert declared_codes(np.array(["1", "1.0", "x"], dtype=object), [1]).tolist() == [0, 0, -1]
    assert declared_codes(np.array([True, False]), [False, True]).tolist() == [1, 0]
    assert declared_codes(np.array([[1], "a"], dtype=object), ["a"]).tolist() == [-1, 0]
    assert occurring_codes(np.array([2.0, np.nan, 0.5]))[1] == [0.5, 2]


@pytest.mark.parametrize("groups", [[], "abc", ["a", "a"], [None], [float("nan")], [1, 1.0]])
def test_groups_that_mean_nothing_are_refused(groups):
    with pytest.raises(ValueError, match=r"group"):
        check_groups(groups)
