"""Files to arrays, without a message that holds a value.

Of a file, only the header, the number of rows and the schema are taken as public. A column's
type is declared or "number", never guessed from cells; a cell that is not a finite number is
*missing*, and what happens then is the caller's choice. No error names a cell.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import itertools
import os
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

SPARSE = (".svm", ".svmlight", ".libsvm")
MISSING = ("error", "zero")

Parse = Callable[[str], float]
_ROWS_BETWEEN_CHECKS = 1 << 14


class FileError(ValueError):
    """A file that cannot be used as asked; the message is one line and holds no cell."""


def suffix(path: Path) -> str:
    """Format of a file by its name: ".csv", ".parquet", ...; compression is looked through."""
    endings = [s.lower() for s in path.suffixes]
    if endings and endings[-1] == ".gz":
        endings.pop()
    return endings[-1] if endings else ""


def header(path: Path, delimiter: str | None = None) -> tuple[str, ...]:
    """Column names of a CSV or Parquet file.

    A first line with a number in it is a row, not a header, and is refused unread.
    """
    if suffix(path) == ".parquet":
        return tuple(_parquet(path).schema_arrow.names)
    with _reading(path) as stream:
        return _header(path, _reader(path, stream, delimiter))


def read(
    path: Path,
    columns: Sequence[str],
    *,
    levels: Mapping[str, Sequence[str]] | None = None,
    missing: str = "error",
    delimiter: str | None = None,
    memory: float | None = None,
) -> NDArray[np.float64]:
    """Cells of some columns as an array of shape (n, number of columns).

    Parameters
    ----------
    path : Path
        CSV (``.csv``, ``.tsv``, ``.txt``, each also ``.gz``) or Parquet.
    columns : sequence of str
    levels : mapping, optional
        Declared values of text columns; their cells become 0, 1, ... in this order.
    missing : {"error", "zero"}
        What a cell that is no finite number (or no declared level) does: stops the reading,
        or counts as 0.
    delimiter : str, optional
        Default: tab for ``.tsv``, comma otherwise.
    memory : float, optional
        Most bytes to use; default half of the machine's.
    """
    if missing not in MISSING:
        raise FileError(f"missing must be one of {', '.join(MISSING)}; got {missing!r}")
    limit = memory if memory is not None else _machine_memory() / 2
    parsers = [_parser(levels[c]) if levels and c in levels else float for c in columns]
    if suffix(path) == ".parquet":
        table = _read_parquet(path, columns, parsers, limit)
    else:
        table = _read_csv(path, columns, parsers, delimiter, limit)
    if not len(table):
        raise FileError(f"{path} has a header and no rows")
    finite = np.isfinite(table)
    if missing == "zero":
        table[~finite] = 0.0
    elif not finite.all():
        names = ", ".join(repr(c) for c, ok in zip(columns, finite.T, strict=True) if not ok.all())
        raise FileError(
            f"{path}: not every cell of {names} is a finite number (or a declared level); "
            f"leave the column out, declare it with --category, or count such cells as 0 with --missing zero"
        )
    return table


def read_sparse(path: Path, dimension: int, *, missing: str = "error") -> tuple[Any, NDArray[np.float64]]:
    """Features (CSR) and target of an svmlight file with 1-based columns.

    ``dimension`` must be given: the largest column that occurs depends on the rows.
    """
    from sklearn.datasets import load_svmlight_file

    with _reading(path, binary=True) as stream:
        try:
            X, y = load_svmlight_file(stream, n_features=dimension, zero_based=False)
        except (ValueError, UnicodeDecodeError, IndexError, OverflowError):
            raise FileError(f"{path} is not an svmlight file with columns 1 to {dimension}") from None
    if not X.shape[0]:
        raise FileError(f"{path} has no rows")
    for values in (X.data, y):
        finite = np.isfinite(values)
        if missing == "error" and not finite.all():
            raise FileError(f"{path}: not every value is a finite number; count those as 0 with --missing zero")
        values[~finite] = 0.0
    return X, y


def find(columns: Sequence[str], known: Sequence[str], path: Path) -> None:
    """Refuse columns that are not in the header, or are there twice. Names no other column but a near miss."""
    for name in columns:
        if list(known).count(name) > 1:
            raise FileError(f"{path} has more than one column named {name!r}")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise FileError(f"{path} has no column {name!r}{hint}")


def _read_csv(
    path: Path, columns: Sequence[str], parsers: Sequence[Parse], delimiter: str | None, limit: float
) -> NDArray[np.float64]:
    cells = array("d")
    with _reading(path) as stream:
        reader = _reader(path, stream, delimiter)
        known = _header(path, reader)
        find(columns, known, path)
        plan = [(known.index(c), parse) for c, parse in zip(columns, parsers, strict=True)]
        while batch := list(itertools.islice(reader, _ROWS_BETWEEN_CHECKS)):
            for row in filter(None, batch):
                try:
                    cells.extend([parse(row[i]) for i, parse in plan])
                except (ValueError, KeyError, IndexError):
                    cells.extend([_cell(parse, row, i) for i, parse in plan])
            _check_memory(path, 8.0 * len(cells), limit)
    return np.asarray(cells).reshape(-1, len(columns))


def _cell(parse: Parse, row: Sequence[str], i: int) -> float:
    try:
        return parse(row[i])
    except (ValueError, KeyError, IndexError):
        return float("nan")


def _parser(levels: Sequence[str]) -> Parse:
    """Code of a declared level; "1", "1.0" and " 1 " are the same level."""
    texts = {str(level).strip(): float(code) for code, level in enumerate(levels)}
    numbers = {float(text): code for text, code in texts.items() if _is_number(text)}

    def parse(cell: str) -> float:
        code = texts.get(cell.strip())
        return numbers[float(cell)] if code is None else code

    return parse


def _read_parquet(path: Path, columns: Sequence[str], parsers: Sequence[Parse], limit: float) -> NDArray[np.float64]:
    import pyarrow as pa

    file = _parquet(path)
    find(columns, tuple(file.schema_arrow.names), path)
    _check_memory(path, 8.0 * file.metadata.num_rows * len(columns), limit)
    try:
        return _parquet_columns(path, file, columns, parsers)
    except (pa.ArrowException, OSError, OverflowError, UnicodeDecodeError):
        raise FileError(f"cannot read {path}: damaged or not what its name says") from None


def _parquet_columns(path: Path, file: Any, columns: Sequence[str], parsers: Sequence[Parse]) -> NDArray[np.float64]:
    import pyarrow as pa

    rows = max(int(file.metadata.num_rows), 0)
    table = np.empty((rows, len(columns)))
    for k, (name, parse) in enumerate(zip(columns, parsers, strict=True)):
        kind = file.schema_arrow.field(name).type
        column = file.read(columns=[name]).column(0)
        if len(column) != rows:
            raise FileError(f"cannot read {path}: it has not the rows that it announces")
        if parse is float and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            table[:, k] = column.cast(pa.float64(), safe=False).to_numpy()
        elif parse is not float or pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_decimal(kind):
            table[:, k] = [_cell(parse, [str(value)], 0) for value in column.to_pylist()]
        else:
            raise FileError(f"{path}: column {name!r} is of type {kind}, which is not a number")
    return table


def _parquet(path: Path) -> Any:
    _check_exists(path)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise FileError("Parquet files need pyarrow: pip install 'fattail[frames]'") from None
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise FileError(f"{path} is not a Parquet file") from None


def _reader(path: Path, stream: Any, delimiter: str | None) -> Any:
    return csv.reader(stream, delimiter=delimiter or ("\t" if suffix(path) == ".tsv" else ","))


def _header(path: Path, reader: Iterator[list[str]]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in next(reader, []))
    if not any(names):
        raise FileError(f"{path} is empty")
    if any(_is_number(name) for name in names):
        raise FileError(f"the first line of {path} must hold column names, and one of them is a number")
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@contextmanager
def _reading(path: Path, *, binary: bool = False) -> Iterator[Any]:
    """An open, decompressed file; whatever goes wrong in it becomes one line."""
    _check_exists(path)
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as raw:
            # Undecodable bytes become cells that are no numbers, not exceptions that quote them.
            yield raw if binary else io.TextIOWrapper(cast(IO[bytes], raw), encoding="utf-8-sig", errors="replace", newline="")
    except csv.Error:
        raise FileError(f"{path} is not a CSV file") from None
    except (EOFError, OSError, zlib.error) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "damaged or not what its name says"
        raise FileError(f"cannot read {path}: {reason}") from None


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise FileError(f"no such file: {path}")
    if path.is_dir():
        raise FileError(f"{path} is a folder, not a file")


def _check_memory(path: Path, needed: float, limit: float) -> None:
    if needed > limit:
        raise FileError(
            f"{path} needs more than the {limit / 1e9:.3g} GB allowed (--memory); choose fewer columns, "
            f"or use fattail from Python with a Dask array"
        )


def _machine_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not a POSIX machine
        return 8e9
