"""Read files as rows of numbers, without messages that quote a value.

Of a file, only the header, the number of rows and the schema are taken as public. A column's
type is declared or "number", never guessed from cells; a cell that is not a finite number is
*missing*, and what happens then is the caller's choice. No error names a cell. With
``missing="zero"`` no cell decides whether reading succeeds, nor how many rows there are; the
grammar of text files is in `fattail.rows.records`.

Everything is read once, to the end, before the charge, so that damage is found then.
"""

from __future__ import annotations

import difflib
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail.cli.parquet import DamagedError, ParquetRows, TypeRefusedError
from fattail.cli.spool import DenseRows, SparseRows
from fattail.rows.named import TEXT_FILES, ending_of, separator
from fattail.rows.records import (
    NUMBERS,
    Parse,
    UnbalancedQuotesError,
    delimiter_of,
    is_number,
    level_parser,
    lines,
    number,
    parsed,
    records,
    sparse_rows,
)

SPARSE = (".svm", ".svmlight", ".libsvm")
MISSING = ("error", "zero", "drop")
MOST_COLUMNS = 2**31 - 1

Floats = NDArray[np.float64]
# Called with the share of a file that has been read.
Tick = Callable[[float], None]


class FileError(ValueError):
    """A file that cannot be used as asked; the message is one line and holds no cell."""


def header(path: Path, delimiter: str | None = None, *, quoted_newlines: bool = False) -> tuple[str, ...]:
    """Column names of a CSV or Parquet file.

    A first line with a number in it is not a header, and is refused.
    """
    _check_ending(path)
    with _reading(path) as (stream, _):
        if ending_of(path) == ".parquet":
            return ParquetRows(path, (), ()).names
        return _header(path, records(stream, separator(path, delimiter), quoted_newlines))[0]


def open_table(
    path: Path,
    columns: Sequence[str],
    *,
    levels: Mapping[str, Sequence[str]] | None = None,
    missing: str = "error",
    delimiter: str | None = None,
    quoted_newlines: bool = False,
    tick: Tick | None = None,
) -> DenseRows | ParquetRows:
    """Read a file to its end, check it, and return its rows for any number of passes.

    Parameters
    ----------
    path : Path
        CSV (``.csv``, ``.tsv``, ``.txt``, each also ``.gz``) or Parquet.
    columns : sequence of str
    levels : mapping, optional
        Declared values of text columns; their cells become 0, 1, ... in this order.
    missing : {"error", "zero", "drop"}
        How a cell that is not a finite number (or not a declared level) is handled: the file is refused, the cell counts as
        0, or it is NaN, so that the caller can leave its row out.
    delimiter : str, optional
        Default: tab for ``.tsv``, comma otherwise.
    quoted_newlines : bool
        Quoted cells may hold line breaks: a promise of the file's holder that all quotes are
        balanced, because a stray one then swallows other people's rows.
    tick : callable, optional
        Told the share of the file that has been read.

    Returns
    -------
    DenseRows or ParquetRows
        ``n``, and ``chunks()`` of shape (rows, number of columns).
    """
    _check_missing(missing)
    _check_ending(path)
    parsers = [level_parser(levels[c]) if levels and c in levels else number for c in columns]
    finite, fill = np.ones(len(columns), dtype=bool), np.nan if missing == "drop" else 0.0
    with _reading(path) as (stream, share):
        if ending_of(path) == ".parquet":
            file = ParquetRows(path, columns, parsers, fill)
            find(columns, file.names, path)
            for ok, done in file.checked():
                finite &= ok
                _tell(tick, done)
            table: DenseRows | ParquetRows = file
        else:
            table = spooled = DenseRows(len(columns))
            for chunk in _csv_chunks(path, stream, columns, parsers, separator(path, delimiter), quoted_newlines):
                ok = np.isfinite(chunk)
                finite &= ok.all(axis=0)
                spooled.append(np.where(ok, chunk, fill))
                _tell(tick, share())
    if missing == "error" and not finite.all():
        names = ", ".join(repr(c) for c, ok in zip(columns, finite, strict=True) if not ok)
        # Only models take text; other commands have no such options.
        declare = "" if levels is None else "declare text with --category and the labels of a target with --classes, "
        raise FileError(
            f"{path}: not every cell of {names} is a finite number (or a declared level), and every line counts, an empty one "
            f"too; {NUMBERS}; convert the column, {declare}or leave it out; if most of its cells are numbers, count the others "
            "as 0 with --missing zero, or leave their rows out with --missing drop"
        )
    return table


def open_sparse(path: Path, dimension: int, *, missing: str = "error", tick: Tick | None = None) -> SparseRows:
    """Rows and target of an svmlight file with 1-based columns; every line is a row.

    ``dimension`` must be given: the largest column that occurs depends on the rows.
    """
    _check_missing(missing)
    if missing == "drop":
        raise FileError("--missing drop is for CSV and Parquet files: in an svmlight file a column that is not there is 0")
    if not 1 <= dimension <= MOST_COLUMNS:
        raise FileError(f"the number of columns must lie between 1 and {MOST_COLUMNS}, got {dimension}")
    table, whole = SparseRows(dimension), True
    with _reading(path) as (stream, share):
        for batch in lines(stream):
            X, y, ok = sparse_rows(batch, dimension)
            table.append(X, y)
            whole &= ok
            _tell(tick, share())
    if missing == "error" and not whole:
        raise FileError(
            f"{path}: not every line is a finite target and pairs of a column and a finite number, "
            f"with columns 1 to {dimension}; count what is not as 0 with --missing zero"
        )
    return table


def read(path: Path, columns: Sequence[str], *, memory: float | None = None, **options: Any) -> Floats:
    """Cells of some columns as an array of shape (n, number of columns); options as for `open_table`."""
    table = open_table(path, columns, **options)
    check_rows(path, table.n)
    check_memory(path, table.size, memory)
    return cast(Floats, stacked(list(table.chunks())))


def read_sparse(path: Path, dimension: int, *, memory: float | None = None, **options: Any) -> tuple[Any, Floats]:
    """Features (CSR) and target of an svmlight file; options as for `open_sparse`."""
    table = open_sparse(path, dimension, **options)
    check_rows(path, table.n)
    check_memory(path, table.size, memory)
    X, y = zip(*table.chunks(), strict=True)
    return stacked(X), np.concatenate(y)


def stacked(parts: Sequence[Any]) -> Any:
    """Rows of several chunks as one array or CSR matrix."""
    return sparse.vstack(parts, "csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def check_rows(path: Path, n: int) -> None:
    """Refuse a file without rows, where their number is public."""
    if not n:
        raise FileError(f"{path} has no rows")


def check_memory(path: Path, needed: float, limit: float | None = None) -> None:
    """Refuse a table that is larger than allowed, by default than half of the machine's memory."""
    limit = _machine_memory() / 2 if limit is None else limit
    if needed > limit:
        raise FileError(
            f"{path} needs more than the {limit / 1e9:.3g} GB allowed (--memory) for a method that looks at all rows at once; "
            f"choose fewer columns or another method"
        )


def find(columns: Sequence[str], known: Sequence[str], path: Path) -> None:
    """Refuse columns that are not in the header, or are there twice. The message names no other column except a similar one."""
    asked, there = Counter(columns), Counter(known)  # a header can be long
    for name in columns:
        if asked[name] > 1:
            raise FileError(f"column {name!r} is asked for more than once")
        if there[name] > 1:
            raise FileError(f"{path} has more than one column named {name!r}")
        if name not in there:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            if mark := delimiter_of(known):
                hint = f"; its header is one name with {mark!r} in it: if that is the delimiter, say --delimiter {mark!r}"
            raise FileError(f"{path} has no column {name!r}{hint}")


def _csv_chunks(
    path: Path, stream: Any, columns: Sequence[str], parsers: Sequence[Parse], delimiter: bytes, quoted_newlines: bool
) -> Iterator[Floats]:
    batches = records(stream, delimiter, quoted_newlines)
    known, first = _header(path, batches)
    find(columns, known, path)
    plan = [(known.index(c), parse) for c, parse in zip(columns, parsers, strict=True)]
    yield parsed(first, plan)
    for batch in batches:
        yield parsed(batch, plan)


def _header(path: Path, batches: Iterator[list[list[bytes]]]) -> tuple[tuple[str, ...], list[list[bytes]]]:
    """Names in the first record, and the records that were read with it."""
    batch: list[list[bytes]] = next(batches, [[]])
    names = tuple(cell.decode("utf-8-sig" if k == 0 else "utf-8", "replace").strip() for k, cell in enumerate(batch[0]))
    if not any(names):
        raise FileError(f"{path} is empty")
    if any(is_number(name) for name in names):
        raise FileError(f"the first line of {path} must hold column names, and one of them is a number")
    return names, batch[1:]


@contextmanager
def _reading(path: Path) -> Iterator[tuple[Any, Callable[[], float]]]:
    """An open, decompressed file and the share of it that has been read; any failure becomes a one-line error."""
    if not path.exists():
        raise FileError(f"no such file: {path}")
    if path.is_dir():
        raise FileError(f"{path} is a folder, not a file")
    try:
        with path.open("rb") as raw:
            size = max(os.fstat(raw.fileno()).st_size, 1)
            stream = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" and ending_of(path) != ".parquet" else raw
            yield stream, lambda: raw.tell() / size
    except UnbalancedQuotesError:
        raise FileError(f"{path}: a quoted cell never ends; --quoted-newlines is for files whose quotes are balanced") from None
    except TypeRefusedError as error:
        raise FileError(f"{path}: {error}") from None
    except (DamagedError, EOFError, OSError, zlib.error) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "damaged or not what its name says"
        raise FileError(f"cannot read {path}: {reason}") from None


def _tell(tick: Tick | None, share: float) -> None:
    if tick is not None:
        tick(min(share, 1.0))


def _check_ending(path: Path) -> None:
    """Refuse a table in another format, which would be read as text; a name without an ending is text."""
    ending = ending_of(path)
    if ending not in ("", ".parquet", *TEXT_FILES):
        raise FileError(f"{path}: {ending} files are not read; tables are CSV ({', '.join(TEXT_FILES)}, also .gz) or Parquet")


def _check_missing(missing: str) -> None:
    if missing not in MISSING:
        raise FileError(f"missing must be one of {', '.join(MISSING)}; got {missing!r}")


def _machine_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not a POSIX machine
        return 8e9
