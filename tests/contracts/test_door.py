"""One door: the physical form of rows changes nothing, and what cannot be read is refused before the charge, unquoted."""

import datetime
import decimal
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import fattail
import forms
from fattail import _kernels
from fattail.robust import Clip, Gram, Smooth
from fattail.robust.passes import sum_over_blocks
from fattail.rows.classes import Labels
from fattail.rows.data import PrivateData
from fattail.rows.door import Refusal, rows_of, target_of, type_of, typed
from fattail.rows.frames import library
from fattail.rows.named import NamedColumns
from fattail.rows.passes import cut
from fattail.rows.persons import person_codes
from fattail.rows.sources import Chunks, Parquet

pytestmark = [
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
    pytest.mark.filterwarnings("ignore::fattail.UtilityWarning"),
]
SECRET = "HIV-positive"
N, D = 300, 4
X, Y = forms.table(N, D)


def refused_before_the_charge(fit, match):
    """The fit raises a sentence that quotes no cell, has no other error attached, and nothing was charged."""
    with fattail.Budget(epsilon=99.0, delta=1e-2) as budget:
        with pytest.raises(ValueError, match=match) as caught:
            fit()
        assert not budget.history
    assert SECRET not in str(caught.value) and "123456" not in str(caught.value)
    return caught.value


def linear(X, y=None, **options):
    return fattail.DPLinearRegression(random_state=0, **options).fit(X, y)


# --- the representation contract ----------------------------------------------------------------


def passes(data):
    """Integers of a few passes, one of which multiplies each row with a vector."""
    w = np.linspace(-1.3, 0.7, data.d) / 3
    rules = [
        Clip(bound=20.0).mean(data),
        Smooth(scale=7.3, beta=2.3).mean(data, lambda b: (b.X, b.dot(w) - b.y)),
        Gram(radius=9.0, scale=1.7).mean(data, lambda b: (b.X.toarray() if sparse.issparse(b.X) else b.X, None)),
    ]
    return [rule._value for rule in rules]


@pytest.mark.parametrize("binary", [False, True])
def test_every_form_of_a_table_gives_the_same_integers(binary, tmp_path):
    X, y = forms.table(N, D, binary=binary)
    expected = passes(PrivateData(X, y))
    count = 0
    for name, rows, target in forms.forms(X, y, tmp_path):
        for found, sums in zip(passes(PrivateData(rows, target)), expected, strict=True):
            np.testing.assert_array_equal(found, sums, err_msg=name)
        count += 1
    assert count >= 45


def test_every_form_of_a_table_gives_the_same_fit(tmp_path):
    """CSR rows are fitted like dense ones, but by the sparse default method, which does not center them."""
    models = {
        "linear": lambda X, y: linear(X, y, epsilon=50.0, method="smoothed", n_iter=2).coef_,
        "sparse": lambda X, y: fattail.DPSparseRegressor(sparsity=2, epsilon=50.0, random_state=0).fit(X, y).coef_,
    }
    expected = {}
    for name, rows, target in forms.forms(X, Y, tmp_path):
        for method, fit in models.items():
            key = (method, name in forms.SPARSE and method == "sparse")
            coef = fit(rows, target)
            np.testing.assert_array_equal(coef, expected.setdefault(key, coef), err_msg=f"{name}, {method}")
    assert all(np.any(coef) for coef in expected.values()) and len(expected) == 3


def test_blocks_are_cut_by_public_numbers():
    few, many = (PrivateData(form(X)) for form in (sparse.csr_matrix, forms.stored_zeros))
    twice = PrivateData(forms.duplicates(np.ones_like(X), times=51))
    assert few._block_rows == many._block_rows == twice._block_rows
    assert PrivateData(X)._block_rows == PrivateData(X.astype(np.float32))._block_rows == PrivateData(lambda: [X])._block_rows


def test_canonical_form_is_made_on_a_copy():
    for form in (forms.duplicates, forms.unsorted, forms.stored_zeros):
        given = form(X)
        parts = given.data.copy(), given.indices.copy(), given.indptr.copy()
        rows = rows_of(given)
        assert rows.has_canonical_format and np.count_nonzero(rows.data) == rows.nnz
        np.testing.assert_array_equal(rows.toarray(), X)
        for before, after in zip(parts, (given.data, given.indices, given.indptr), strict=True):
            np.testing.assert_array_equal(before, after)


def test_what_an_object_says_of_itself_is_not_believed():
    rows = forms.duplicates(X)
    rows.has_sorted_indices = rows.has_canonical_format = True
    np.testing.assert_array_equal(rows_of(rows).indices, sparse.csr_array(X).indices)
    small = sparse.csr_matrix((np.array([100, 100], dtype=np.int8), [0, 0], [0, 2]), shape=(1, 1))
    assert rows_of(small).toarray() == 200, "duplicates of small integers must not overflow"


def test_products_have_the_same_bits_wherever_a_row_is():
    rng = np.random.default_rng(0)
    for d in (3, 8, 50, 1100, 2049, 5003):
        V, w = rng.standard_t(2, (700, d)).astype(np.float32), rng.normal(size=d)
        V[rng.random(V.shape) < 0.5] = 0
        whole = _kernels.dot(V.astype(float), w)
        for part in (slice(0, 700), slice(1, 700), slice(17, 20), slice(333, 699)):
            np.testing.assert_array_equal(_kernels.dot(V[part], w), whole[part])
            np.testing.assert_array_equal(_kernels.dot(sparse.csr_array(V[part]), w), whole[part])


@pytest.mark.parametrize("p", [3, 20, 101])
def test_products_in_single_precision_have_the_same_bits_wherever_a_row_is(p):
    rng = np.random.default_rng(0)
    V, c, s, shape = rng.standard_t(2, (700, p)), rng.normal(size=p), rng.uniform(1, 2, p), rng.normal(size=(p + 1, p + 1))
    whole = _kernels.shaped_rows(V, c, s, 1.0, shape)
    for part in (slice(1, 700), slice(17, 20), slice(333, 699), slice(5, 6)):
        for found, expected in zip(_kernels.shaped_rows(V[part], c, s, 1.0, shape), whole, strict=True):
            np.testing.assert_array_equal(found, expected[part])


# --- targets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(N, 2), (N, 1, 1), (1, N)])
def test_a_target_of_another_shape_is_refused(shape):
    y = np.zeros(shape)
    refused_before_the_charge(lambda: linear(forms.in_chunks(X, None, 90), y), "y")
    refused_before_the_charge(lambda: linear(X, y), "y")
    for source in (Chunks(lambda: [(X, y)], n=N), lambda: [(X, y)]):
        with pytest.raises(ValueError, match=r"one entry per row|rows in X"):
            linear(source)


def test_a_column_for_a_target_does_not_multiply_rows():
    """In a stream, y of shape (n, 1) made every row meet every response."""
    stream = forms.in_chunks(X, Y[:, None], 90)
    for found, expected in zip(passes(PrivateData(stream)), passes(PrivateData(X, Y)), strict=True):
        np.testing.assert_array_equal(found, expected)


# --- cells and types ----------------------------------------------------------------------------


def test_a_masked_cell_is_a_missing_cell():
    mask = np.zeros(X.shape, dtype=bool)
    mask[3, 1] = True
    masked, missing = np.ma.masked_array(X + 0.5, mask), np.where(mask, np.nan, X + 0.5)
    refused_before_the_charge(lambda: linear(masked, Y), "NaN")
    refused_before_the_charge(lambda: linear(X, np.ma.masked_array(Y, mask[:, 1])), "NaN")
    fits = [fattail.DPMean(random_state=0, missing="zero").fit(rows).mean_ for rows in (masked, missing)]
    np.testing.assert_array_equal(*fits)
    one = [fattail.mean(rows[:, 1], random_state=0, missing="zero").value for rows in (masked, missing)]
    assert one[0] == one[1] != fattail.mean(masked.data[:, 1], random_state=0, missing="zero").value
    whole = np.ma.masked_array((X + 0.5).astype(int), mask)
    np.testing.assert_array_equal(rows_of(whole), np.where(mask, np.nan, (X + 0.5).astype(int)))


COLUMNS = {
    "complex": np.full(N, 123456j),
    "longdouble": np.full(N, 123456, dtype=np.longdouble),
    "datetime": pd.date_range("2026-01-01", periods=N).to_numpy(),
    "timedelta": np.full(N, 123456, dtype="m8[s]"),
    "object": np.array([1.0] * (N - 1) + [SECRET], dtype=object),
    "numbers in objects": np.array([123456.0] * N, dtype=object),
    "text": np.array([SECRET] * N),
    "bytes": np.array([SECRET.encode()] * N),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_types_that_are_not_numbers_are_refused_by_name(name):
    bad = COLUMNS[name]
    table = np.column_stack([bad, bad])
    message = "numbers"
    refused_before_the_charge(lambda: linear(table, Y), message)
    refused_before_the_charge(lambda: linear(lambda: [(table, Y)]), message)
    refused_before_the_charge(lambda: linear(X, bad), message)
    refused_before_the_charge(lambda: linear(forms.in_chunks(X, bad, 90)), message)
    refused_before_the_charge(lambda: linear(forms.in_chunks(X, None, 90), bad), message)
    refused_before_the_charge(lambda: fattail.mean(bad), message)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(bad=bad, y=Y)
    refused_before_the_charge(lambda: linear(frame, "y"), "'bad'")
    refused_before_the_charge(lambda: linear(frame.drop(columns="bad"), bad), message)
    refused_before_the_charge(lambda: linear(frame.drop(columns="y"), "bad"), message)


ARROW = {
    "decimal": pa.array([decimal.Decimal("123456.1")] * N),
    "text": pa.array([SECRET] * N),
    "category": pa.array([SECRET] * N).dictionary_encode(),
    "nested": pa.array([[123456.0]] * N),
    "struct": pa.array([{"a": 123456.0}] * N),
    "date": pa.array([datetime.date(2026, 1, 1)] * N),
    "nothing": pa.nulls(N),
}


@pytest.mark.parametrize("name", ARROW)
def test_types_of_files_and_frames_are_refused_by_name(name, tmp_path):
    table = forms.arrow(X, Y)[0].append_column("bad", ARROW[name])
    pq.write_table(table, tmp_path / "rows.parquet")
    frames = [table, tmp_path, pl.from_arrow(table), pl.from_arrow(table).lazy()]
    frames += [table.to_pandas(types_mapper=pd.ArrowDtype)] if name != "nothing" else []
    for frame in frames:
        refused_before_the_charge(lambda frame=frame: linear(frame, "y"), "'bad'")
        features = frame if frame is tmp_path else frame.drop(columns="y") if hasattr(frame, "iloc") else frame.drop(["y"])
        refused_before_the_charge(lambda X=features: linear(X, "bad"), "numbers")


def test_shapes_of_rows_are_refused_unquoted():
    for rows in (np.full(N, 123456.0), np.full((2, 2, 2), 123456.0), np.full((N, 2), 123456j)):
        refused_before_the_charge(lambda rows=rows: linear(rows, Y), "numbers")
        refused_before_the_charge(lambda rows=rows: linear(lambda: [(rows, Y)]), "numbers")
    refused_before_the_charge(lambda: linear([[123456.0, 1.0], [1.0]], [0.0, 1.0]), "withheld|numbers")


def test_columns_must_have_different_names(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "a", "c"])
    table = pa.Table.from_arrays([pa.array(Y)] * 3, names=["a", "y", "a"])
    pq.write_table(table, tmp_path / "rows.parquet")
    refused_before_the_charge(lambda: linear(frame, Y), r"more than once: \['a'\]")
    refused_before_the_charge(lambda: linear(table, "y"), r"more than once: \['a'\]")
    refused_before_the_charge(lambda: linear(tmp_path, "y"), "duplicate field names")  # says Arrow, of the schema
    refused_before_the_charge(lambda: linear(lambda: [(frame, Y)]), r"more than once: \['a'\]")


# --- later parts of a source --------------------------------------------------------------------


def test_text_in_a_later_file_is_a_matter_of_the_schema(tmp_path):
    table, _ = forms.arrow(X, Y)
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.set_column(1, "x1", pa.array([SECRET] * N)), tmp_path / "b.parquet")
    refused_before_the_charge(lambda: linear(tmp_path, "y"), r"b\.parquet.*'x1'")
    pq.write_table(table.set_column(4, "y", pa.array([SECRET] * N)), tmp_path / "b.parquet")
    refused_before_the_charge(lambda: linear(tmp_path, "y"), "numbers")
    pq.write_table(table.drop(["x1"]), tmp_path / "b.parquet")
    refused_before_the_charge(lambda: linear(tmp_path, "y"), r"no columns \['x1'\] of b\.parquet")


def test_files_of_different_precision_are_not_rounded(tmp_path):
    """One type holds all files: the second's numbers do not fit the first's."""
    single = pa.table({"x": pa.array(np.ones(N, dtype=np.float32)), "y": Y})
    double = pa.table({"x": np.full(N, 1 + 2.0**-40), "y": Y})
    pq.write_table(single, tmp_path / "a.parquet")
    pq.write_table(double, tmp_path / "b.parquet")
    seen = []
    sum_over_blocks(PrivateData(Parquet(tmp_path), "y"), lambda b: seen.append(b.X) or np.zeros(1, dtype=np.int64))
    np.testing.assert_array_equal(np.concatenate(seen)[:, 0], [1.0] * N + [1 + 2.0**-40] * N)


def test_text_beyond_the_rows_that_a_scan_has_seen_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,y\n" + "1.5,2,3\n" * 500 + f"1.5,{SECRET},3\n" + f"1.5,2,{SECRET}\n")
    for target in ("y", "b"):
        lazy = pl.scan_csv(path, infer_schema_length=10)
        error = refused_before_the_charge(lambda lazy=lazy, y=target: linear(lazy, y), "withheld")
        assert error.__context__ is None and error.__cause__ is None


def test_a_cell_of_a_stream_that_is_no_number_is_a_missing_one():
    """Where n is declared nothing is read before the charge: then no cell may stop the fit, and no other row may change."""
    bad = X.astype(object)
    bad[200, 1], bad[201, 2] = SECRET, None
    y = Y.astype(object)
    y[210] = SECRET
    missing, missing_y = X.copy(), Y.copy()
    missing[200, 1] = missing[201, 2] = missing_y[210] = np.nan
    expected = passes(PrivateData(Chunks(lambda: [(missing, missing_y)], n=N)))

    def frame(rows):
        return pd.DataFrame(rows, columns=forms.names(X)).infer_objects()

    for make in (np.asarray, frame, lambda rows: rows.astype(str), lambda rows: pa.Table.from_pandas(frame(rows).astype(str))):
        first = X[:100] if isinstance(make(bad), np.ndarray) else frame(X[:100])
        later = make(bad[100:])
        source = Chunks(lambda first=first, later=later: [(first, Y[:100]), (later, y[100:])], n=N)
        for found, sums in zip(passes(PrivateData(source)), expected, strict=True):
            np.testing.assert_array_equal(found, sums)
        counted = [(first, Y[:100]), (later, Y[100:])]
        refused_before_the_charge(lambda chunks=counted: linear(lambda: chunks), "numbers")


def kind(column):
    return f"{library(column)}-{type_of(column)}"


ODD = [
    pl.Series([{"a": 1.0}] * (N - 100)),
    pl.Series([[1.0, 2.0]] * (N - 100)),
    pl.Series([None] * (N - 100)),
    pa.array([None] * (N - 100)),
    pa.array([{"a": 1}] * (N - 100)),
    pa.array([SECRET] * (N - 100)).dictionary_encode(),
]


@pytest.mark.parametrize("column", ODD, ids=kind)
def test_no_type_of_a_later_chunk_stops_a_fit(column):
    """A chunk may be a single row, and its library takes the type from that row's cell."""
    make = pl.DataFrame if isinstance(column, pl.Series) else pa.table
    first, later = ({f"x{j}": part[:, j] for j in range(3)} for part in (X[:100], X[100:]))
    later["x1"] = column
    missing = X[:, :3].copy()
    missing[100:, 1] = np.nan
    for y, last in ((Y, Y[100:]), (np.append(Y[:100], np.full(N - 100, np.nan)), column)):
        source = Chunks(lambda last=last: [(make(first), Y[:100]), (make(later), last)], n=N)
        expected = passes(PrivateData(Chunks(lambda y=y: [(missing, y)], n=N)))
        for found, sums in zip(passes(PrivateData(source)), expected, strict=True):
            np.testing.assert_array_equal(found, sums)


@pytest.mark.parametrize(
    "column", [*ODD, pa.array(Y[100:]), pl.Series(Y[100:]), Y[100:]], ids=lambda c: f"{library(c)}-{type_of(c)}"
)
def test_no_type_of_a_later_label_stops_a_fit(column):
    seen = []
    first = np.where(CLASSES[:100], "yes", "no")
    data = PrivateData(Chunks(lambda: [(X[:100], first), (X[100:], column)], n=N), labels=Labels(("no", "yes")))
    sum_over_blocks(data, lambda b: seen.append(b.y) or np.zeros(1, dtype=np.int64))
    np.testing.assert_array_equal(np.concatenate(seen), [*CLASSES[:100], *[np.nan] * (N - 100)])


def test_a_row_on_its_own_device_passes_the_same_door():
    client = fattail.LocalRandomizer(epsilon=1.0, delta=1e-6, scale=10.0, random_state=0)
    known = client.randomize([5.0, 0.0])
    masked = np.ma.masked_array([5.0, 1e9], mask=[False, True])
    for row in (masked, [[5.0, 0.0]], pd.Series([5.0, 0.0]), pd.DataFrame([[5.0, 0.0]], columns=["a", "b"]), (5, 0)):
        np.testing.assert_array_equal(client.randomize(row), known)
    assert client.randomize(5.0).shape == (1,)
    for row in ([SECRET], np.array(["2020-01-01"], "M8[s]"), [1 + 2j], [5.0, None]):
        refused_before_the_charge(lambda row=row: client.randomize(row), "numbers")


def test_a_cell_of_text_does_not_round_the_others():
    """A list of numbers and of one word becomes an array of words: a number in single precision must not be read off it."""
    rows = [[np.float32(0.1), 1.0], [np.float32(0.2), 2.0], [np.float32(0.3), 3.0]]
    bad = [*rows[:2], [SECRET, 3.0]]
    np.testing.assert_array_equal(rows_of(rows)[:2], rows_of(bad, strict=False)[:2])
    np.testing.assert_array_equal(target_of([r[0] for r in rows])[:2], target_of([r[0] for r in bad], strict=False)[:2])


@pytest.mark.parametrize("odd", [SECRET, np.timedelta64(1, "s"), np.datetime64("2020"), None, 1j, b"x", [1, 1], (1, 2), {}])
@pytest.mark.parametrize("labels", [[True, False, True], [1, 0, 1], [1.0, 0.0, 1.0], [np.True_, np.False_, 1]])
def test_an_odd_label_of_a_list_does_not_change_the_others(labels, odd):
    """Numpy makes text, or time spans, of a whole list for the sake of one cell."""
    np.testing.assert_array_equal(Labels((0, 1)).codes([*labels, odd], strict=False), [1, 0, 1, np.nan])
    np.testing.assert_array_equal(target_of([*labels, odd], strict=False)[:3], [1, 0, 1])
    np.testing.assert_array_equal(rows_of([[label] for label in (*labels, odd)], strict=False)[:3, 0], [1, 0, 1])


@pytest.mark.parametrize("odd", [1.0, None, SECRET, [], [1.0, 2.0], (3.0,), 1 + 2j, {}, [[1.0]], [SECRET], np.longdouble(1)])
@pytest.mark.parametrize("first", [[0.0], (0.0,), 0.0, 0j, np.complex64(0), np.longdouble(0), np.array([0.0])])
def test_no_cell_of_a_list_decides_how_others_are_read(first, odd):
    """All cells of a list of lists were missing for the sake of one that was none, and a complex number for that of a word."""
    for at, column in ((0, [first, odd]), (2, [first, odd, first]), (1, [odd, first])):
        assert target_of(column, strict=False)[at] == 0
        assert NamedColumns({"x": column}, ["x"]).numbers("x")[at] == 0
        assert Labels((0, 1)).codes(column, strict=False)[at] == 0


@pytest.mark.parametrize("missing", ["zero", "drop"])
@pytest.mark.parametrize("odd", [3.0, None, SECRET, [1.0, 2.0], []])
def test_a_target_of_one_item_lists_is_read_cell_by_cell(odd, missing):
    """One cell that was no list made all others missing; in a stream it had the fit refused."""
    flat, nested = Y.tolist(), [[v] for v in Y.tolist()]
    flat[5] = odd if isinstance(odd, float) else None
    nested[5] = odd

    def fit(*data):
        return fattail.DPLinearRegression(epsilon=9.0, random_state=0, missing=missing).fit(*data).coef_

    known = fit(X, flat)
    np.testing.assert_array_equal(fit(X, nested), known)
    np.testing.assert_array_equal(fit(Chunks(lambda: iter([(X[:50], nested[:50]), (X[50:], nested[50:])]))), known)


def test_rows_of_different_lengths_are_refused():
    """A list with cells and lists was a column, and one with lists alone a table: one row decided on the shape of the answer."""
    for data in ([[1.0], [2.0], 3.0], [[1.0, 2.0], [3.0]], [[1.0], None], [1.0, (2.0,)], [range(2), 1.0]):
        refused_before_the_charge(lambda data=data: fattail.mean(100 * data, missing="zero"), "same number of cells")


class Unreadable:
    """A cell that numpy takes for an array, and fails to read."""

    def __array__(self, *_, **__):
        raise RuntimeError(SECRET)


ARRAYS = [np.zeros((2, 3)), np.zeros((2, 4)), np.array(["a", "b"]), [[1.0], [2.0]], np.ma.masked_array([1.0, 2.0], [True, False])]


@pytest.mark.parametrize("odd", [*ARRAYS, np.ma.masked, np.ma.masked_array([1.0], [True]), Unreadable(), []])
@pytest.mark.parametrize("first", [1.0, "1", [1.0], np.zeros((2, 3))])
@pytest.mark.filterwarnings("error")
def test_a_cell_that_is_an_array_is_missing(first, odd):
    """Others were refused for it if they were arrays of another shape, a row of them was a table, and a mask warned."""
    known = target_of([first], strict=False)[0]
    np.testing.assert_array_equal(target_of([first, odd], strict=False), [known, np.nan])
    assert np.isnan(Labels((0, 1)).codes([first, odd], strict=False)[1])
    np.testing.assert_array_equal(typed([[odd, odd]]), [[np.nan, np.nan]])
    np.testing.assert_array_equal(typed([[2.0, 2.0], [odd, odd]]), [[2.0, 2.0], [np.nan, np.nan]])


def test_an_odd_label_of_a_list_is_a_missing_one():
    labels = [bool(v > 0) for v in Y]

    def fit(y):
        return fattail.DPLogisticRegression(epsilon=9.0, random_state=0, missing="drop").fit(X, y).coef_

    odd, missing = list(labels), np.array(labels, dtype=float)
    odd[3], missing[3] = SECRET, np.nan
    np.testing.assert_array_equal(fit(odd), fit(missing))
    # A label that ends in a null character is not declared, whether or not another one is missing.
    np.testing.assert_array_equal(Labels(("no", "yes")).codes(["no\0", "yes"], strict=False), [np.nan, 1])


@pytest.mark.parametrize(
    "second",
    [
        lambda: (X[:, :2], Y),
        lambda: (X, Y[:-1]),
        lambda: X,
        lambda: (np.full(N, 123456.0), Y),
        lambda: ([[123456.0, 1.0], [1.0]], Y[:2]),
        lambda: (pd.DataFrame(X), Y),
    ],
)
def test_chunks_of_another_form_are_refused_unquoted(second):
    source = Chunks(lambda: iter([(X, Y), second()]), n=2 * N)
    with pytest.raises(ValueError, match=r"same columns|rows in X|2-dimensional|same number of cells") as caught:
        sum_over_blocks(PrivateData(source), lambda b: np.zeros(1, dtype=np.int64))
    assert "123456" not in str(caught.value)


def test_frames_of_a_stream_must_agree_on_their_columns():
    frame = pd.DataFrame(X, columns=list("abcd"))
    refused_before_the_charge(lambda: linear(lambda: [(frame, Y), (frame[list("dcba")], Y)]), "same columns")


def test_what_a_stream_says_when_it_breaks_is_withheld():
    def broken():
        yield X, Y
        float(SECRET)

    refused_before_the_charge(lambda: linear(broken), r"the stream failed \(ValueError\)")
    with pytest.raises(Refusal, match="withheld") as caught:
        sum_over_blocks(PrivateData(Chunks(broken, n=2 * N)), lambda b: np.zeros(1, dtype=np.int64))
    assert SECRET not in str(caught.value) and caught.value.__context__ is None


def test_what_a_cluster_says_when_it_breaks_is_withheld():
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")

    def broken():
        float(SECRET)

    rows = array.from_delayed(dask.delayed(broken)(), (N, D), float)
    with pytest.raises(Refusal, match="withheld") as caught:
        sum_over_blocks(PrivateData(rows), lambda b: np.zeros(1, dtype=np.int64))
    assert SECRET not in str(caught.value) and caught.value.__context__ is None
    words = array.from_array(np.array([SECRET] * N), 100)
    refused_before_the_charge(lambda: linear(array.from_array(X, (100, D)), words), "numbers")


@pytest.mark.parametrize("how", ["written again", "replaced", "gone"])
def test_a_file_that_changes_during_a_fit_is_noticed(how, tmp_path):
    path = tmp_path / "rows.parquet"
    table, _ = forms.arrow(X, Y)
    pq.write_table(table, path)
    data = PrivateData(path, "y")
    sum_over_blocks(data, lambda b: np.zeros(1, dtype=np.int64))
    if how == "replaced":
        pq.write_table(table.set_column(0, "x0", table["x1"]), tmp_path / "other")
        (tmp_path / "other").rename(path)
    elif how == "gone":
        path.unlink()
    else:
        pq.write_table(table.slice(0, N).set_column(0, "x0", table["x1"]), path)
    with pytest.raises(Refusal, match="changed while it was being read"):
        sum_over_blocks(data, lambda b: np.zeros(1, dtype=np.int64))


# --- labels -------------------------------------------------------------------------------------

CLASSES = forms.labels(Y)
NAMED = np.array(["no", "yes"])[CLASSES]
CLASSIFIERS = [
    lambda **options: fattail.DPLogisticRegression(random_state=0, **options),
    lambda **options: fattail.DPSparseClassifier(sparsity=2, random_state=0, **options),
]
each_classifier = pytest.mark.parametrize("make", CLASSIFIERS)


@each_classifier
def test_undeclared_labels_are_refused_before_the_charge(make):
    named, third = NAMED.copy(), CLASSES.copy()
    named[7], third[7] = SECRET, 123456
    declare = r'classes=\("no", "yes"\)'
    refused_before_the_charge(lambda: make().fit(X, NAMED), declare)
    refused_before_the_charge(lambda: make().fit(X, NAMED.astype(object)), declare)
    refused_before_the_charge(lambda: make().fit(X, CLASSES.astype(str)), declare)
    refused_before_the_charge(lambda: make().fit(X, third), declare)
    refused_before_the_charge(lambda: make(classes=("no", "yes")).fit(X, named), declare)
    refused_before_the_charge(lambda: make(classes=("no", "yes")).fit(X, CLASSES), declare)
    refused_before_the_charge(lambda: make().fit(forms.in_chunks(X, None, 90), third), declare)
    refused_before_the_charge(lambda: make().fit(forms.in_chunks(X, NAMED, 90)), declare)
    refused_before_the_charge(lambda: make().fit(pd.DataFrame(X).assign(y=NAMED).rename(columns=str), "y"), declare)
    refused_before_the_charge(lambda: make().fit(X, np.where(CLASSES == 1, np.nan, 0.0)), "NaN")


@each_classifier
def test_declared_labels_may_be_held_in_any_way(make, tmp_path):
    expected = make().fit(X, CLASSES)
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = frame.assign(y=NAMED)
    table = pa.Table.from_pandas(named)
    pq.write_table(table, tmp_path / "rows.parquet")
    text = [(X, NAMED), (X, NAMED.astype(object)), (X, NAMED.tolist()), (X, pd.Series(NAMED)), (X, pl.Series(NAMED))]
    text += [(named, "y"), (pl.from_pandas(named), "y"), (pl.from_pandas(named).lazy(), "y"), (table, "y"), (tmp_path, "y")]
    text += [(table.set_column(4, "y", table["y"].dictionary_encode()), "y"), (forms.in_chunks(X, NAMED, 90), None)]
    for rows, y in text:
        model = make(classes=("no", "yes")).fit(rows, y)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert list(model.classes_) == ["no", "yes"]
    kind = pd.CategoricalDtype(["no", "yes"])
    categories = [(X, pd.Series(NAMED).astype(kind)), (X, pd.Categorical(NAMED, dtype=kind)), (named.astype({"y": kind}), "y")]
    enum = pl.from_pandas(named).with_columns(pl.col("y").cast(pl.Enum(["no", "yes"])))
    categories += [(enum, "y"), (enum.lazy(), "y"), (enum.select(list("abcd")), enum["y"])]
    for rows, y in categories:
        model = make().fit(rows, y)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert list(model.classes_) == ["no", "yes"]
    refused_before_the_charge(lambda: make().fit(X, pd.Categorical(NAMED, categories=["no", "yes", "maybe"])), "3 categories")
    backwards = make().fit(X, pd.Categorical(NAMED, categories=["yes", "no"]))
    assert list(backwards.classes_) == ["yes", "no"]


def test_an_undeclared_label_of_a_stream_is_a_bad_row():
    y = CLASSES.astype(float)
    y[5] = 7.0
    seen = []
    data = PrivateData(Chunks(lambda: [(X, y)], n=N), labels=Labels((0, 1)))
    sum_over_blocks(data, lambda b: seen.append(b.y) or np.zeros(1, dtype=np.int64))
    np.testing.assert_array_equal(seen[0], np.where(np.arange(N) == 5, np.nan, CLASSES))
    stream = fattail.DPLogisticRegression(random_state=0, missing="zero").fit(Chunks(lambda: [(X, y)], n=N))
    assert np.all(np.isfinite(stream.coef_))
    relabeled = PrivateData(X, y).with_labels(Labels((0, 1)))
    np.testing.assert_array_equal(passes(relabeled)[1], passes(data)[1])


def test_undecodable_text_is_only_another_label(tmp_path):
    """Arrow does not check its text; reading such a label must not stop a fit."""
    words = pa.array([b"yes", b"\xff\xfe", b"no"] * (N // 3)).view(pa.string())
    pq.write_table(pa.table({"x": X[:, 0], "y": words}), tmp_path / "rows.parquet")
    seen = []
    data = PrivateData(tmp_path, "y", labels=Labels(("no", "yes")))
    sum_over_blocks(data, lambda b: seen.append(b.y) or np.zeros(1, dtype=np.int64))
    np.testing.assert_array_equal(np.concatenate(seen), [1.0, np.nan, 0.0] * (N // 3))


@pytest.mark.parametrize("odd", [b"\xff", None, b"maybe"])
def test_bytes_that_are_not_text_do_not_change_other_labels(odd):
    """Polars casts a column as a whole: one cell that is not text made all labels missing."""
    labels = pl.Series([b"no", b"yes", odd], dtype=pl.Binary)
    np.testing.assert_array_equal(Labels(("no", "yes")).codes(labels, strict=False), [0, 1, np.nan])


def test_a_list_in_a_cell_of_a_stream_is_a_missing_cell():
    rows, labels = [[float(v), 1.0] for v in Y[:60]], [int(v > 0) for v in Y[:60]]
    bad_rows, bad_labels = [list(row) for row in rows], list(labels)
    bad_rows[3][1], bad_labels[4] = [2.0, 3.0], [1, 2]

    def read(chunks):
        seen, data = [], PrivateData(Chunks(chunks, n=120, d=2), labels=Labels((0, 1)))
        sum_over_blocks(data, lambda b: seen.append(np.column_stack([b.X, b.y])) or np.zeros(1, dtype=np.int64))
        return np.concatenate(seen)

    other = read(lambda: [(rows, labels), (bad_rows, bad_labels)])
    known = read(lambda: [(rows, labels), (rows, labels)])
    assert np.argwhere(np.isnan(other)).tolist() == [[63, 1], [64, 2]]
    np.testing.assert_array_equal(np.delete(other, [63, 64], axis=0), np.delete(known, [63, 64], axis=0))


@pytest.mark.parametrize("encoded", [False, True])
def test_undecodable_groups_and_ids_are_only_others(encoded):
    """An error of Arrow quotes the cell that it cannot decode."""
    text = [b"a", SECRET.encode() + b"\xff", None, b"b"]
    offsets = np.cumsum([0, *(len(cell or b"") for cell in text)]).astype(np.int32)
    buffers = [pa.py_buffer(b"\x0b"), pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(cell or b"" for cell in text))]
    words = pa.Array.from_buffers(pa.string(), 4, buffers)
    names = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), words) if encoded else words
    table = pa.table({"name": names, "x": [1.0, 2.0, 3.0, 4.0]})
    assert NamedColumns(table, labels=["name"]).labels("name").tolist() == ["a", SECRET + "\ufffd", None, "b"]
    fattail.count(table, by="name", groups=["a", "b"], missing="drop", random_state=0)
    codes, count = person_codes(table["name"].slice(0, 2))
    assert codes.tolist() == [0, 1] or codes.tolist() == [1, 0]
    assert count == 2
    fattail.mean(table.slice(0, 2), "x", person="name", random_state=0)


# --- memory -------------------------------------------------------------------------------------


def test_rows_that_wait_for_others_do_not_keep_their_chunk():
    """Of thinned rows a block may come from many chunks: none of those may stay in memory for a few rows of it."""
    alive = []

    def chunks():
        for _ in range(40):
            rows = np.zeros((1000, 2))
            alive.append(weakref.ref(rows))
            yield rows[:10], np.zeros(10)

    most = 0

    def watched():
        nonlocal most
        for pair in chunks():
            most = max(most, sum(rows() is not None for rows in alive))
            yield pair

    (piece,) = cut(watched(), 0, 400)
    assert len(piece.block()) == 400 and most <= 3
