"""The canonical form of rows and targets, to which every source is converted.

*Rows* are a dense array, ``Columns``, or CSR without duplicates, stored zeros or unsorted indices. Their numbers are
bool, integers, or floats of at most 64 bits; a masked cell is NaN. The *target* is a float64 vector with an entry per row.

Anything else is refused by its type or shape, before anything is charged and without quoting a cell (`Refusal`). After the
charge no cell may stop a fit: if a chunk does not hold what its schema says, a cell that is not a number counts as missing
(``strict=False``).

Formal guarantees: ``door.proof.md``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail.rows.frames import Columns, as_array, is_column, is_frame, kind_of, library

T = TypeVar("T")
Floats = NDArray[np.float64]
Number = np.dtype[Any] | None

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


class Refusal(ValueError):
    """An error about the data: its message names types, columns and shapes, never a value."""


def attempt(what: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a library; if it fails, raise an error without its message, which may quote a cell.

    Examples
    --------
    >>> attempt("reading the age", float, "HIV-positive")
    Traceback (most recent call last):
    fattail.rows.door.Refusal: reading the age failed (ValueError); the message is withheld, as it may quote a row
    """
    try:
        return function(*arguments)
    except (Refusal, MemoryError, StopIteration):
        raise
    except Exception as error:
        kind = type(error).__name__
    # Raised outside of the handler, so that the original error is not attached as context.
    raise Refusal(f"{what} failed ({kind}); the message is withheld, as it may quote a row")


def attempted(what: str, items: Iterable[T]) -> Iterator[T]:
    """Items of a library's iterator, under the same rule as `attempt`."""
    iterator = attempt(what, iter, items)
    while True:
        try:
            item = attempt(what, next, iterator)
        except StopIteration:
            return
        yield item


# --- types --------------------------------------------------------------------------------------


def number_type(kind: Any) -> Number:
    """The float type that holds what a library calls ``kind``; None if that is not a type of numbers.

    Numbers are bool, integers of up to 64 bits and floats of up to 64. A longdouble would be rounded, a decimal or a date needs
    a unit, a category needs a code: the user has to convert them.

    Examples
    --------
    >>> number_type(np.dtype("int8")), number_type(np.dtype("float32")), number_type(np.dtype("datetime64[ns]"))
    (dtype('float64'), dtype('float32'), None)
    """
    if library(kind) == "polars":
        name = str(kind)
        number = (kind.is_integer() and not name.endswith("128")) or kind.is_float() or name == "Boolean"
        return (SINGLE if name in ("Float16", "Float32") else DOUBLE) if number else None
    if library(kind) == "pyarrow":
        import pyarrow.types as pt

        if pt.is_float16(kind) or pt.is_float32(kind):
            return SINGLE
        return DOUBLE if pt.is_float64(kind) or pt.is_integer(kind) or pt.is_boolean(kind) else None
    kind = getattr(kind, "subtype", kind) if kind_of(kind) == "SparseDtype" else kind  # of pandas
    letter, size = getattr(kind, "kind", "O"), getattr(kind, "itemsize", 8)
    if letter in "biu":
        return DOUBLE
    return None if letter != "f" or size > 8 else SINGLE if size <= 4 else DOUBLE


def shown(kind: Any) -> str:
    """A type in words, without the length of the longest text, which is private."""
    letter = getattr(kind, "kind", "") if isinstance(kind, np.dtype) else ""
    return {"U": "text", "S": "bytes", "c": f"{kind}: Complex data not supported"}.get(letter, str(kind))


@dataclass(frozen=True)
class Schema:
    """Names and types of the columns of a table, known before any row is read."""

    kinds: dict[Any, Number]
    """The number type of each column, None if it does not hold numbers."""
    types: dict[Any, Any]
    where: str = ""

    def check(self, columns: Sequence[Any] | None = None) -> np.dtype[Any]:
        """The float type that holds these columns (all by default); refuse what is not a number."""
        columns = list(self.kinds) if columns is None else columns
        self.find(columns)
        words = {c: shown(self.types[c]) for c in columns if self.kinds[c] is None}
        if words:
            raise Refusal(
                f"only numbers can be read, and these columns{self.where} are something else: {words}; "
                "choose others, or encode them"
            )
        return SINGLE if all(self.kinds[c] == SINGLE for c in columns) else DOUBLE

    def find(self, columns: Sequence[Any]) -> None:
        missing = [c for c in columns if c not in self.kinds]
        if missing:
            raise Refusal(f"there are no columns {missing}{self.where}; there are {list(self.kinds)}")


def schema_of(table: Any, where: str = "") -> Schema:
    """Columns of a pandas or polars frame, a Dask frame, or of anything with an Arrow schema."""
    if library(table) == "polars":
        pairs = list(table.collect_schema().items())
    elif library(table) == "pyarrow":
        pairs = [(field.name, field.type) for field in getattr(table, "schema", table)]
    else:
        pairs = list(zip(table.columns, table.dtypes, strict=True))
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise Refusal(f"columns{where} must have different names, and these names occur more than once: {twice}")
    return Schema({name: number_type(t) for name, t in pairs}, dict(pairs), where)


# --- rows ---------------------------------------------------------------------------------------


def array_of(values: Any, *, strict: bool = True) -> NDArray[Any]:
    """Anything array-like as an array; masked cells are missing, so NaN.

    Numpy makes text of all cells of a list if one is text, and time spans of whole numbers if one is a time span. With
    ``strict=False``, where cells are read one by one and none is refused, each cell of such a list keeps its type: one row
    must not decide how others are read.

    Examples
    --------
    >>> array_of(np.ma.masked_array([1, 2, 3], mask=[False, True, False]))
    array([ 1., nan,  3.])
    >>> array_of([True, 0.5, "x"]), array_of([True, 0.5, "x"], strict=False)
    (array(['True', '0.5', 'x'], dtype='<U32'), array([True, 0.5, 'x'], dtype=object))
    """
    if isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind in "biuf" and np.ma.is_masked(values):
            missing, values = np.ma.getmaskarray(values), np.ma.getdata(values)
            return np.where(missing, np.nan, values.astype(np.result_type(values.dtype, np.float32)))
        return np.ma.getdata(values)
    array = attempt("making an array", np.asarray, values) if strict else nested_array(values)
    if strict or number_type(array.dtype) is not None or array.dtype == object or hasattr(values, "dtype"):
        return array
    return attempt("making an array", np.asarray, values, object)


def is_plain(values: Any) -> bool:
    """Whether values are a sequence without a type, such as a list: then each cell has its own."""
    return isinstance(values, Sequence) and not isinstance(values, (str, bytes)) and not hasattr(values, "dtype")


def typed(values: Any) -> Any:
    """A plain sequence of rows, or of cells, as an array of numbers, what is no number as NaN; anything else unchanged.

    For tables in which cells may be missing: one of them must not decide the type of a list, and with it whether it is refused.
    Rows of different lengths are refused.

    Examples
    --------
    >>> typed([1, None, "2.5", "x"])
    array([1. , nan, 2.5, nan])
    """
    if not is_plain(values):
        return values
    array = _numbers_of_sequence(values)
    if array is not None and array.ndim <= 2:
        return array
    rows: list[Any] = attempt("reading rows", list, values)
    lengths = {len(row) if _is_nested(row) else -1 for row in rows}
    if len(lengths) > 1:
        raise Refusal("all rows must have the same number of cells")
    if lengths <= {-1}:
        return _cells(objects(rows))
    cells: list[Any] = attempt("reading rows", lambda: [cell for row in rows for cell in row])
    return _cells(objects(cells)).reshape(len(rows), -1)


def _numbers_of_sequence(values: Any) -> NDArray[Any] | None:
    """A plain sequence as numpy reads it, if it makes numbers of all of it without a complaint."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns of a cell that is masked
        try:
            array = attempt("making an array", np.asarray, values)
        except Refusal:
            return None
    return array if number_type(array.dtype) is not None else None


def cells_of_sequence(values: Any) -> list[Any]:
    """Cells of a plain sequence, one per row; a cell that is a list of one item is that item, as in a table of one column."""
    cells: list[Any] = attempt("reading a column", list, values)
    single = [isinstance(cell, (list, tuple, np.ndarray)) and getattr(cell, "ndim", 1) and len(cell) == 1 for cell in cells]
    return [cell[0] if only else cell for cell, only in zip(cells, single, strict=True)]


def objects(cells: list[Any]) -> NDArray[Any]:
    """Cells as a vector of objects, whatever they are: numpy would look into those that are arrays."""
    vector = np.empty(len(cells), dtype=object)
    for k, cell in enumerate(cells):
        vector[k] = cell
    return vector


def _is_nested(cell: Any) -> bool:
    return is_plain(cell) or is_column(cell) or getattr(cell, "ndim", 0) > 0


def nested_array(values: Any) -> NDArray[Any]:
    """An array of a list in which a cell may be a list itself: then all cells are objects.

    Examples
    --------
    >>> nested_array([1, 0, [1]])
    array([1, 0, list([1])], dtype=object)
    """
    try:
        return attempt("making an array", np.asarray, values)
    except Refusal:
        return attempt("making an array", np.asarray, values, object)


def rows_of(X: Any, *, strict: bool = True) -> Any:
    """The canonical form of rows: an array, ``Columns`` or CSR, whose slices are of the same kind.

    Nothing is copied that is canonical already, and what the user holds is never changed.
    """
    if is_frame(X):
        schema = schema_of(X)
        if strict:
            schema.check()
        if kind_of(X) == "DataFrame" and library(X) == "pandas" and _stored_sparsely(schema):
            return _canonical_csr(X.sparse.to_coo())
        columns = [_numbers(X[name], strict) for name in schema.kinds]
        if not columns:
            raise Refusal("there are no columns left to read")
        return Columns(columns, SINGLE if all(k == SINGLE for k in schema.kinds.values()) else DOUBLE)
    rows = X if sparse.issparse(X) else array_of(X, strict=strict)
    if len(rows.shape) != 2:
        raise Refusal(f"rows must be a 2-dimensional array of numbers, got shape {rows.shape}; one column is X.reshape(-1, 1)")
    if strict and number_type(rows.dtype) is None:
        raise Refusal(f"only numbers can be read, got an array of type {shown(rows.dtype)}; convert it to floats first")
    return _canonical_csr(rows) if sparse.issparse(rows) else rows if number_type(rows.dtype) else _cells(rows)


def _canonical_csr(X: Any) -> sparse.csr_array:
    """CSR with sorted indices, each column at most once in a row, and no stored zeros."""
    if X.dtype not in (SINGLE, DOUBLE):  # before duplicates are added: small integers would overflow
        X = X.tocoo()
        X = sparse.coo_array((X.data.astype(np.float64) if number_type(X.dtype) else _cells(X.data), (X.row, X.col)), X.shape)
    X = X.tocsr()
    # Rebuilt from its arrays, because the flags of the given object may be wrong.
    rows = sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    attempt("reading the indices of sparse rows", rows.check_format, True)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    if np.count_nonzero(rows.data) < rows.nnz:
        rows = rows.copy()
        rows.eliminate_zeros()
    return rows


def _stored_sparsely(schema: Schema) -> bool:
    return bool(schema.types) and all(kind_of(t) == "SparseDtype" and t.fill_value == 0 for t in schema.types.values())


def as_form(rows: Any, is_sparse: bool) -> Any:
    """Canonical rows as CSR or dense: all chunks of a stream have the same form."""
    if sparse.issparse(rows) == is_sparse:
        return rows
    return sparse.csr_array(rows.dense() if isinstance(rows, Columns) else rows) if is_sparse else rows.toarray()


# --- columns and targets ------------------------------------------------------------------------


def type_of(values: Any) -> Any:
    """The type of a column in its own library's words."""
    return values.type if library(values) == "pyarrow" else values.dtype


def _numbers(values: Any, strict: bool) -> NDArray[Any]:
    """A column as an array of numbers; a null is NaN."""
    if number_type(type_of(values)) is not None:
        return attempt("reading a column", as_array, values)
    if strict:
        raise Refusal(f"only numbers can be read, got type {shown(type_of(values))}; convert the column to numbers first")
    cells = attempt("reading a column", as_array, values)
    return _cells(cells) if cells.ndim == 1 else np.full(len(values), np.nan)  # a nested cell is missing


def _cells(values: NDArray[Any]) -> Floats:
    """Cells that are numbers, or text that spells one, as numbers; the others are missing."""
    if values.dtype.kind == "c":
        return np.where(values.imag == 0, values.real, np.nan).astype(np.float64)
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    if values.dtype.kind not in "OUS":
        return np.full(values.shape, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cell may warn when it becomes a number: one that is masked does
        return np.array([_cell(cell) for cell in values.ravel().tolist()], dtype=np.float64).reshape(values.shape)


def _cell(cell: Any) -> float:
    try:
        if isinstance(cell, (complex, np.complexfloating)):  # as in an array of complex numbers
            return float(cell.real) if cell.imag == 0 else np.nan
        return float(cell)
    except Exception:  # whatever the cell is, it is not a number
        return np.nan


def target_of(y: Any, *, strict: bool = True, name: str = "y") -> Floats:
    """A target as a float64 vector; messages call it ``name``.

    Examples
    --------
    >>> target_of([[1], [2]])
    array([1., 2.])
    """
    y = single_column(y, name)
    if is_column(y):
        return np.asarray(_numbers(y, strict), dtype=np.float64)
    values = vector_of(y, strict=strict, name=name)
    if strict and number_type(values.dtype) is None:
        raise Refusal(f"{name} must hold numbers, got type {shown(values.dtype)}; convert it to floats first")
    return np.asarray(values, dtype=np.float64) if number_type(values.dtype) else _cells(values)


def vector_of(values: Any, *, strict: bool = True, name: str = "y") -> NDArray[Any]:
    """An array with one entry per row. With ``strict=False`` each cell of a plain sequence is read by itself: a list among them
    must decide neither how others are read nor whether all of them are refused.

    Examples
    --------
    >>> vector_of([[1], [2], 3], strict=False), vector_of([[1], [2, 3]], strict=False)
    (array([1, 2, 3], dtype=object), array([1, list([2, 3])], dtype=object))
    """
    if strict or not is_plain(values):
        return as_vector(array_of(values, strict=strict), name)
    array = _numbers_of_sequence(values)
    return array if array is not None and array.ndim == 1 else objects(cells_of_sequence(values))


def single_column(y: Any, name: str = "y") -> Any:
    """The only column of a frame with one column; anything else is returned unchanged."""
    if not is_frame(y):
        return y
    names = list(schema_of(y).kinds)
    if len(names) != 1:
        raise Refusal(f"{name} must have one column, got {len(names)}")
    return y[names[0]]


def as_vector(values: NDArray[Any], name: str = "y") -> NDArray[Any]:
    """A vector with one entry per row; shapes other than (n,) and (n, 1) are refused."""
    if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1):
        return values.reshape(-1)
    raise Refusal(f"{name} must have one entry per row, so shape (n,), got shape {values.shape}")
