"""Named columns of any table, and labels of any type as codes."""

import collections
import datetime
import decimal
import fractions
import gzip
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fattail
from fattail.rows.door import Refusal, typed
from fattail.rows.named import NamedColumns
from fattail.rows.persons import person_codes
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


BIG = [2**60, 2**60 + 1]


def label_forms(cells):
    """A column of whole numbers, of which some are missing, in every form that can hold it."""
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    yield "list", list(cells)
    yield "objects", np.array([*cells, None], dtype=object)[:-1]
    yield "masked", np.ma.MaskedArray([0 if c is None else c for c in cells], [c is None for c in cells])
    yield "nullable", pd.Series(cells, dtype="Int64")
    yield "polars", pl.Series(cells, dtype=pl.Int64)
    yield "arrow", pa.array(cells, pa.int64())
    yield "chunks", pa.chunked_array([pa.array(cells[:1], pa.int64()), pa.array(cells[1:], pa.int64())])


@pytest.mark.parametrize("last", [5, None])
def test_a_missing_label_does_not_change_how_others_are_read(last):
    """A null made whole numbers floats: 2**60 and 2**60 + 1 were one group, and names of lists became text."""
    for name, column in label_forms([*BIG, last]):
        labels = NamedColumns({"g": column}, [], ["g"]).labels("g")
        assert declared_codes(labels, BIG)[:2].tolist() == [0, 1], name
        codes, names = occurring_codes(labels)
        assert [names[k] for k in codes[:2]] == BIG, name
        assert codes[2] == (-1 if last is None else names.index(5)), name


@pytest.mark.parametrize("other", [True, 1, 1.0, "x", "1", None, 2.5, np.int64(1), b"1", 10**400])
@pytest.mark.parametrize("first", [True, 1, 1.0, "1", "True", 2.5, np.float32(1)])
def test_the_code_of_a_label_depends_on_its_own_cell_alone(first, other):
    """True and 1 are equal, and a text among numbers made all of them text: both changed the groups of other rows."""
    alone, both = ([first], [other, first])
    for groups in (["1"], [1], ["True"], [True], [2.5], ["x", "1"]):
        (code,) = declared_codes(NamedColumns({"g": alone}, [], ["g"]).labels("g"), groups)
        assert declared_codes(NamedColumns({"g": both}, [], ["g"]).labels("g"), groups)[1] == code, groups
    (code,), names = occurring_codes(NamedColumns({"g": alone}, [], ["g"]).labels("g"))
    codes, more = occurring_codes(NamedColumns({"g": both}, [], ["g"]).labels("g"))
    assert more[codes[1]] == names[code] and type(more[codes[1]]) is type(names[code])


UTC, EAST = (datetime.timezone(datetime.timedelta(hours=h)) for h in (0, 1))
ALIKE = [
    (datetime.datetime(2026, 1, 1, tzinfo=UTC), datetime.datetime(2026, 1, 1, 1, tzinfo=EAST)),
    (decimal.Decimal("1.0"), decimal.Decimal("1")),
    (0.0, -0.0),
]


@pytest.mark.parametrize(("first", "other"), [*ALIKE, *(pair[::-1] for pair in ALIKE)])
def test_cells_that_are_equal_and_spelled_differently_do_not_share_a_code(first, other):
    """A code was kept by value: the row that came first decided the group of all rows with an equal cell."""
    assert first == other and str(first) != str(other)
    for groups in ([str(first)], [str(other)], [str(first), str(other)], [str(other), "0"]):
        alone, both = (
            declared_codes(NamedColumns({"g": cells}, [], ["g"]).labels("g"), groups) for cells in ([first], [other, first])
        )
        assert both[1] == alone[0], groups


FAR = 2**45  # seconds


@pytest.mark.parametrize(
    "column",
    [
        lambda last: pa.array([0, 86400, last], pa.timestamp("s")),
        lambda last: pa.array([0, 86400, last], pa.timestamp("s", tz="UTC")),
        lambda last: pa.array([0, 1, 10**8 if last == FAR else 5], pa.int32()).cast(pa.date32()),
        lambda last: pa.array([0, 1, last * 1000], pa.duration("s")),
        lambda last: pl.Series([0, 1, last * 1000]).cast(pl.Datetime("ms")),
        lambda last: pl.Series([0, 1, last * 1000]).cast(pl.Datetime("ms", "Europe/Berlin")),
        lambda last: pl.Series([0, 1, 10**8 if last == FAR else 5], dtype=pl.Int32).cast(pl.Date),
        lambda last: pl.Series([0, 1, last * 10**5]).cast(pl.Duration("ms")),
        lambda last: pd.Series(pa.array([0, 1, last], pa.timestamp("s")), dtype=pd.ArrowDtype(pa.timestamp("s"))),
    ],
)
def test_a_date_beyond_those_of_python_does_not_stop_a_question(column, capfd):
    """Arrow raised and polars panicked for the whole column."""
    read = [NamedColumns({"g": column(last)}, [], ["g"]).labels("g") for last in (5, FAR)]
    assert [str(cell) for cell in read[0][:2]] == [str(cell) for cell in read[1][:2]]
    assert read[0][2] is not None and not capfd.readouterr().err


def test_narrow_integers_do_not_wrap_around():
    for kind in (np.int8, np.int16, np.int64):
        assert declared_codes(np.array([-8, 46, 100, -100], dtype=kind), [-100, 46, 100]).tolist() == [-1, 1, 2, 0]


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@pytest.mark.parametrize("apart", [1, 3])
def test_large_numbers_are_in_the_groups_that_they_name(kind, apart):
    """The distance of two groups was that of their floats, so rows of no group were in the last one, or the question failed."""
    first = 2**62
    labels = np.array([first, first + apart, first - 1, first + apart + 1, 5], dtype=kind)
    assert declared_codes(labels, [first, first + apart]).tolist() == [0, 1, -1, -1, -1]


def test_yes_and_no_can_be_named_as_they_are_written():
    for labels in (np.array([True, False]), np.array([True, False], dtype=object)):
        for groups in ([False, True], ["False", "True"], [0, 1]):
            assert declared_codes(labels, groups).tolist() == [1, 0]


@pytest.mark.parametrize("groups", [[], "abc", ["a", "a"], [None], [float("nan")], [1, 1.0]])
def test_groups_that_mean_nothing_are_refused(groups):
    with pytest.raises(ValueError, match=r"group"):
        check_groups(groups)


@pytest.mark.parametrize("groups", [["True", "False"], [True, False], [1, 0]])
def test_a_masked_label_does_not_turn_truth_values_into_numbers(groups):
    """One masked row made floats of all rows: no row was in group "True" any more, and found groups were 1 and 0."""
    read = [
        NamedColumns({"g": np.ma.MaskedArray([True, False, True], mask)}, [], ["g"]).labels("g")
        for mask in ([False, False, False], [False, False, True])
    ]
    whole, masked = (declared_codes(labels, groups).tolist() for labels in read)
    assert masked == [*whole[:2], -1] and whole[:2] == [0, 1]
    (codes, names), (others, more) = map(occurring_codes, read)
    assert [names[k] for k in codes[:2]] == [more[k] for k in others[:2]] == [True, False]
    assert type(more[others[0]]) is bool and others[2] == -1


@pytest.mark.parametrize("dtype", ["U5", object, "M8[D]"])
def test_a_masked_label_of_any_type_is_missing(dtype):
    """What is behind a mask was read as a label."""
    cells = np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]") if dtype == "M8[D]" else np.array(["a", "b"], dtype=dtype)
    labels = NamedColumns({"g": np.ma.MaskedArray(cells, [False, True])}, [], ["g"]).labels("g")
    assert occurring_codes(labels)[0].tolist() == [0, -1]


@pytest.mark.parametrize("sequence", [list, tuple, collections.deque, collections.UserList])
@pytest.mark.parametrize("odd", ["x", None, 2.5, 1 + 2j, b"x", np.timedelta64(1, "s"), [1, 2], (1, 2)])
@pytest.mark.parametrize("first", [1, 2.0, True, "a", 2**60 + 1, ("a",), ["a"]])
def test_no_cell_of_a_sequence_decides_how_others_are_read(first, odd, sequence):
    """numpy made text, floats or lists of all cells of a sequence that is no list, and of lists of lists, for the sake of one."""
    found = []
    for last in (first, odd):
        codes, names = occurring_codes(NamedColumns({"g": sequence([first, last])}, [], ["g"]).labels("g"))
        found.append(names[codes[0]])
    assert found[0] == found[1] and type(found[0]) is type(found[1])


def test_no_id_of_a_sequence_decides_how_others_are_compared():
    """One float among the ids of a deque made floats of all, and two persons one."""
    ids = collections.deque([2**60, 2**60 + 1, 0.5])
    assert person_codes(ids)[1] == person_codes(list(ids))[1] == 3
    # A list of pairs was an array of two dimensions, and refused, unless one id was none.
    assert person_codes([("a", 1), ("b", 1)])[1] == person_codes([("a", 1), "b"])[1] == 2


class Hostile:
    """A cell whose every method raises."""

    def __str__(self):
        raise RuntimeError("a secret")

    __hash__ = __float__ = __eq__ = __str__


STRANGE = [10**5000, fractions.Fraction(10**5000, 3), np.timedelta64(3), Hostile(), decimal.Decimal("sNaN"), {}, np.ma.masked]


@pytest.mark.parametrize("odd", STRANGE, ids=lambda cell: type(cell).__name__)
def test_a_label_that_cannot_be_spelled_is_no_name(odd):
    """An integer of 5,000 digits, a time span without a unit, or a cell that raises stopped the question; some were quoted."""
    labels = NamedColumns({"g": ["a", odd, "b", 1]}, [], ["g"]).labels("g")
    assert declared_codes(labels, ["a", "b", 1])[[0, 2, 3]].tolist() == [0, 1, 2]
    codes, names = occurring_codes(labels)
    assert [names[k] for k in codes[[0, 2, 3]]] == ["a", "b", 1]


@pytest.mark.parametrize("odd", [*STRANGE, None, "x", b"x", [1.0], [1, 2], 1j, 10**400], ids=lambda cell: type(cell).__name__)
@pytest.mark.parametrize("missing", ["zero", "drop"])
def test_no_cell_of_a_list_is_refused_where_cells_may_be_missing(odd, missing):
    """A null or a text decided the type of the whole list, and a list of texts is refused."""
    X, y = [[1.0, 2.0], [3.0, odd], [4.0, 5.0]] * 9, [1.0, odd, 0.5] * 9
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert fattail.mean({"y": y}, "y", missing=missing, random_state=0) is not None
        fattail.DPMean(missing=missing, random_state=0).fit(X)
        fattail.DPMean(missing=missing, random_state=0).fit(lambda: iter([X, X]))
        fattail.DPLinearRegression(missing=missing, random_state=0).fit(X, y)
    assert not [w for w in caught if "masked" in str(w.message)]


def test_a_number_in_a_list_is_read_by_itself():
    """As numbers of 64 bits, whatever else the list holds."""
    for odd in (*STRANGE, None, "x", 1j, 2**63, -1, 0.5, np.float16(1), np.longdouble(1)):
        assert typed([2**60 + 1, odd, 0.1])[[0, 2]].tolist() == [2.0**60, 0.1]


NO_NUMBERS = [np.array(["1"] * 50), np.array(["1"] * 50, dtype=object), np.array([decimal.Decimal(1)] * 50)]
NO_COLUMNS = [1.0, 3, np.float64(2), np.array(1.0), np.ones((50, 2))]


@pytest.mark.parametrize("cells", NO_NUMBERS)
def test_a_wrong_type_is_not_called_a_wrong_shape(cells):
    for ask in (fattail.mean, lambda x: fattail.DPMean().fit(np.reshape(np.asarray(x), (-1, 1)))):
        with pytest.raises(Refusal, match=r"only numbers can be read, got an array of type (object|text); convert") as error:
            ask(cells)
        assert "dimension" not in str(error.value) and "shape" not in str(error.value)


def test_a_list_is_read_cell_by_cell():
    assert fattail.mean([decimal.Decimal("1.5")] * 5000, random_state=0).value == pytest.approx(1.5, abs=0.01)
    with pytest.raises(Refusal, match="NaN"):
        fattail.mean(["$1.00"] * 50)


@pytest.mark.parametrize("option", ["column", "by", "person"])
@pytest.mark.parametrize("value", NO_COLUMNS, ids=lambda v: f"{type(v).__name__}{np.shape(v)}")
def test_what_is_no_column_is_not_called_y(option, value):
    table = {"x": np.ones(50)}
    asked = {"column": value} if option == "column" else {"column": "x", option: value}
    with pytest.raises(Refusal, match=r"column|one id per row") as error:
        fattail.mean(table if option != "column" else np.ones(50), **asked)
    assert not str(error.value).startswith("y ")
