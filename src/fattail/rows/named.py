"""Named columns of any table: numbers as float64, labels (groups, ids of persons) as plain arrays.

A table is a mapping of columns, a pandas, polars or pyarrow frame, a Dask frame, or the path of a CSV or Parquet file.
An array may be given instead of a column name. A type is taken from the schema, never guessed from
cells; in a text file a column is numbers or labels as the caller says. No message quotes a cell.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.extras import extra
from fattail.rows.beside import check_row_labels
from fattail.rows.door import (
    Refusal,
    array_of,
    as_vector,
    attempt,
    cells_of_sequence,
    is_plain,
    number_type,
    objects,
    schema_of,
    target_of,
    type_of,
)
from fattail.rows.frames import (
    as_array,
    cells_of,
    holds_whole_numbers,
    is_column,
    is_frame,
    is_missing,
    kind_of,
    library,
    whole_numbers,
)
from fattail.rows.records import delimiter_of, number, parsed_cell, records

Floats = NDArray[np.float64]
Labels = NDArray[Any]

TEXT_FILES = (".csv", ".tsv", ".txt")


def ending_of(path: Path) -> str:
    """The ending of a file's name, in lower case; that of compression is skipped."""
    return (Path(path.name[:-3]) if path.name.lower().endswith(".gz") else path).suffix.lower()


def check_text_options(data: Any, delimiter: str | None = None, quoted_newlines: bool = False) -> None:
    """Refuse options of text files for any other table; a parameter that is not used would be a mistake.

    Examples
    --------
    >>> check_text_options("claims.csv", delimiter=";")
    >>> check_text_options({"cost": [1.0]}, delimiter=";")
    Traceback (most recent call last):
    fattail.rows.door.Refusal: delimiter and quoted_newlines are for text files (.csv, .tsv, .txt, also .gz)
    """
    is_text = isinstance(data, (str, Path)) and ending_of(Path(data)) in TEXT_FILES
    if (delimiter is not None or quoted_newlines) and not is_text:
        raise Refusal(f"delimiter and quoted_newlines are for text files ({', '.join(TEXT_FILES)}, also .gz)")


class NamedColumns:
    """The columns of a table that a statistic needs.

    Parameters
    ----------
    data : array, mapping, frame, Dask frame or path
    numbers, labels : sequences
        Names of columns that are read as numbers and as labels. An entry that is not text is the column itself.
    delimiter, quoted_newlines
        Of a text file, as on the command line.
    missing : {"error", "zero", "drop"}, optional
        With "error", a given pandas column whose rows have other labels than the table's is refused; see `check_row_labels`.

    Attributes
    ----------
    n : int
        Rows of the table.

    Examples
    --------
    >>> table = NamedColumns({"cost": [1, 2.5], "region": ["a", None]}, ["cost"], ["region"])
    >>> table.numbers("cost"), table.labels("region"), table.n
    (array([1. , 2.5]), array(['a', None], dtype=object), 2)
    """

    def __init__(
        self,
        data: Any,
        numbers: Sequence[Any] = (),
        labels: Sequence[Any] = (),
        *,
        delimiter: str | None = None,
        quoted_newlines: bool = False,
        missing: str | None = None,
    ) -> None:
        check_text_options(data, delimiter, quoted_newlines)
        names = [name for name in (*numbers, *labels) if isinstance(name, str)]
        for column in (*numbers, *labels):
            if not isinstance(column, str) and (np.isscalar(column) or getattr(column, "ndim", 1) == 0):
                kind = type(column).__name__
                raise Refusal(f"a column is given by its name (text) or as an array with one entry per row, not as {kind}")
            if missing == "error" and not isinstance(column, str):
                check_row_labels(data, **{"the given column": column})
        self._numeric = {name for name in numbers if isinstance(name, str)}
        if isinstance(data, (str, Path)):
            self._columns, self.n = _read(Path(data), names, self._numeric, delimiter, quoted_newlines)
        else:
            self._columns, self.n = _taken(data, names)

    def numbers(self, name: Any) -> Floats:
        """A column of numbers; a missing cell, or a cell of a text file that is not a number, is NaN."""
        column = self._columns[name] if isinstance(name, str) else name
        try:
            numbers = target_of(column, strict=not is_plain(column), name="a column of numbers")
        except Refusal as refusal:
            raise Refusal(f"column {name!r}: {refusal}" if isinstance(name, str) else str(refusal)) from None
        return self._checked(numbers, name)

    def labels(self, name: Any) -> Labels:
        """A column of labels: numbers as they are, anything else as objects; a missing cell is None or NaN."""
        column = self._columns[name] if isinstance(name, str) else name
        return self._checked(as_vector(_plain(column), "a column"), name)

    def ids(self, name: Any) -> Any:
        """A column in its library's type, for `fattail.rows.persons`."""
        column = self._columns[name] if isinstance(name, str) else name
        if _length(column) != self.n:
            self._checked(np.empty(_length(column)), name)
        return column

    def _checked(self, column: NDArray[Any], name: Any) -> NDArray[Any]:
        if len(column) != self.n:
            if isinstance(name, (list, tuple)) and all(isinstance(one, str) for one in name):
                raise Refusal(f"one column is needed, got the names of {len(name)}; combine them into one column first")
            what = repr(name) if isinstance(name, str) else "a given array"
            raise Refusal(f"columns must be of equal length: {what} has another length than the table")
        return column


def _taken(data: Any, names: Sequence[str]) -> tuple[dict[str, Any], int]:
    """The named columns of a table in memory or on a cluster, and its number of rows."""
    if isinstance(data, Mapping):
        _find(names, list(data))
        if not data:
            raise Refusal("the table has no columns")
        return {name: data[name] for name in names}, _length(next(iter(data.values())))
    if kind_of(data) == "LazyFrame" and library(data) == "polars":
        schema_of(data).find(names)
        data = attempt("reading the columns", lambda: (data.select(list(names)) if names else data).collect())
    elif kind_of(data) == "DataFrame" and library(data) == "dask":
        schema_of(data).find(names)
        data = attempt("reading the columns", lambda: (data[list(names)] if names else data).compute())
    if is_frame(data):
        schema_of(data).find(names)
        return {name: data[name] for name in names}, _length(data)
    if names:
        raise Refusal(f"columns {list(names)} need a table: a mapping, a data frame or a file, got {type(data).__name__}")
    return {}, _length(data)


def _length(data: Any) -> int:
    rows = getattr(data, "num_rows", None)
    if rows is not None:
        return int(rows)
    return len(data) if hasattr(data, "__len__") else len(array_of(data))


def _find(names: Sequence[str], known: Sequence[Any], mark: str | None = None) -> None:
    missing = [name for name in names if name not in known]
    if missing:
        hint = f"; the header is one name with {mark!r} in it: if that is the delimiter, say delimiter={mark!r}" if mark else ""
        raise Refusal(f"there are no columns {missing}; there are {list(known)}{hint}")


def _plain(column: Any) -> NDArray[Any]:
    """Labels as an array: whole numbers as such, with a mask for what is missing; other numbers as floats; the rest as objects.

    Which of these it is depends on the column's type alone. A list, or another sequence without a type, has none, so each of its
    cells stays what it is: one cell must not decide how those of other rows are read.
    """
    if not is_column(column):
        if not hasattr(column, "dtype"):
            return _objects(cells_of_sequence(column))
        if isinstance(column, np.ma.MaskedArray):
            return _masked(column)
        values = array_of(column)
        if values.dtype.kind == "M":  # nanoseconds would become plain numbers
            values = values.astype("datetime64[us]").astype(object)
        return values if number_type(values.dtype) is not None else _objects(values.tolist())
    if number_type(type_of(column)) is not None:
        return attempt("reading labels", whole_numbers if holds_whole_numbers(column) else as_array, column)
    return _objects(attempt("reading labels", cells_of, column))


def _masked(column: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """A masked array of whole numbers or truth values as it is, of floats with NaN, of anything else with None."""
    if column.dtype.kind in "biu":
        return column
    return array_of(column) if number_type(column.dtype) is not None else _objects(as_vector(column).tolist())


def _objects(cells: list[Any]) -> NDArray[Any]:
    """Cells of any type, None where one is missing."""
    return objects([None if is_missing(cell) else cell for cell in cells])


# --- files --------------------------------------------------------------------------------------


def _read(
    path: Path, names: Sequence[str], numeric: set[str], delimiter: str | None, quoted_newlines: bool
) -> tuple[dict[str, Any], int]:
    ending, zipped = ending_of(path), path.name.lower().endswith(".gz")
    if path.is_dir():
        raise Refusal(f"{path} is a folder; give one file, or fit an estimator, which reads folders of Parquet files")
    if not path.is_file():
        raise Refusal(f"no such file: {path}")
    if ending == ".parquet":
        return attempt(f"reading {path.name}", _parquet, extra("pyarrow.parquet", "frames"), path, names)
    if ending not in TEXT_FILES:
        raise Refusal(f"{path.name} must be a CSV file ({', '.join(TEXT_FILES)}, also .gz) or a Parquet file")
    cells = separator(path, delimiter)
    with gzip.open(path, "rb") if zipped else path.open("rb") as stream:
        return attempt(f"reading {path.name}", _text, stream, names, numeric, cells, quoted_newlines)


def separator(path: Path, delimiter: str | None) -> bytes:
    """The byte between the cells of a text file: a tab in ``.tsv``, a comma otherwise, unless a delimiter is given."""
    given = ("\t" if ending_of(path) == ".tsv" else ",") if delimiter is None else delimiter
    given = "\t" if given == r"\t" else given
    if len(given) != 1 or not given.isascii() or given in '"\r\n':
        raise Refusal(f"the delimiter must be one ASCII character, neither a quote nor a line break, got {delimiter!r}")
    return given.encode()


def _parquet(library: Any, path: Path, names: Sequence[str]) -> tuple[dict[str, Any], int]:
    with library.ParquetFile(path) as file:
        schema_of(file.schema_arrow).find(names)
        n = int(file.metadata.num_rows)
        table = file.read(columns=list(dict.fromkeys(names)))
    return {name: table[name] for name in names}, n


def _text(
    stream: Any, names: Sequence[str], numeric: set[str], delimiter: bytes, quoted_newlines: bool
) -> tuple[dict[str, Any], int]:
    """Columns of a text file; every line is a row, by the grammar of `fattail.rows.records`."""
    batches = records(stream, delimiter, quoted_newlines)
    first: list[list[bytes]] = next(batches, [[]])
    header = [cell.decode("utf-8-sig" if k == 0 else "utf-8", "replace").strip() for k, cell in enumerate(first[0])]
    _find(names, header, delimiter_of(header))
    twice = [name for name in names if header.count(name) > 1]
    if twice:
        raise Refusal(f"columns must have different names, and these names occur more than once: {twice}")
    places = {name: header.index(name) for name in names}
    found: dict[str, list[Any]] = {name: [] for name in names}
    n = 0
    for rows in chain([first[1:]], batches):
        n += len(rows)
        for name, at in places.items():
            read = _number if name in numeric else _label
            found[name] += [read(row[at]) if at < len(row) else read(b"") for row in rows]
    kinds = {name: np.float64 if name in numeric else object for name in names}
    return {name: np.array([*found[name], None], dtype=kinds[name])[:-1] for name in names}, n


def _number(cell: bytes) -> float:
    return parsed_cell(number, cell)


def _label(cell: bytes) -> str | None:
    return cell.strip().decode("utf-8", "replace") or None
