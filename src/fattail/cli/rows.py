"""The rows of a file for a command: in memory if they are few, in pieces if they are many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail.cli import files
from fattail.cli.paying import reading_bar
from fattail.rows.named import NamedColumns, ending_of
from fattail.rows.persons import Ids
from fattail.rows.sources import Chunks

# Tables up to this size are held in memory.
IN_MEMORY = 1 << 26

Levels = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Reading:
    """How a file is read: the common options of all commands."""

    path: Path
    missing: str = "error"
    delimiter: str | None = None
    quoted_newlines: bool = False
    quiet: bool = False
    may_be_empty: bool = False
    """Whether the number of rows is private: then a file without rows is read like any other."""

    def __post_init__(self) -> None:
        if (self.delimiter is not None or self.quoted_newlines) and ending_of(self.path) in (".parquet", *files.SPARSE):
            raise files.FileError(f"{self.path}: --delimiter and --quoted-newlines are for CSV files")

    @property
    def is_sparse(self) -> bool:
        return ending_of(self.path) in files.SPARSE

    @property
    def header(self) -> tuple[str, ...]:
        return files.header(self.path, self.delimiter, quoted_newlines=self.quoted_newlines)

    def dense(self, columns: Sequence[str], target: str | None = None, levels: Levels | None = None) -> Rows:
        """Columns of a CSV or Parquet file; declared text among the features becomes 0/1 columns."""
        if self.is_sparse:
            raise files.FileError(f"{self.path}: an svmlight file has no named columns; this command reads CSV, TSV and Parquet")
        coded = {c: levels[c] for c in columns if levels and c in levels}
        wanted = [*columns, *([] if target is None else [target])]
        with reading_bar(self.path.name, self.quiet) as tick:
            table = files.open_table(
                self.path,
                wanted,
                levels=levels,
                missing=self.missing,
                delimiter=self.delimiter,
                quoted_newlines=self.quoted_newlines,
                tick=tick,
            )
        if not self.may_be_empty:
            files.check_rows(self.path, table.n)

        def pieces() -> Iterator[tuple[Any, Any]]:
            for rows in table.chunks() if table.n else [np.empty((0, len(wanted)))]:
                yield one_hot(rows[:, : len(columns)], columns, coded), None if target is None else rows[:, -1]

        return Rows(self.path, table.n, one_hot_names(columns, coded), table.size, pieces)

    def ids(self, person: str) -> Any:
        """The ids of persons; they are text in a text file."""
        columns = NamedColumns(self.path, labels=[person], delimiter=self.delimiter, quoted_newlines=self.quoted_newlines)
        return Ids(columns.ids(person), person)

    def sparse(self, dimension: int) -> Rows:
        """An svmlight file."""
        with reading_bar(self.path.name, self.quiet) as tick:
            table = files.open_sparse(self.path, dimension, missing=self.missing, tick=tick)
        if not self.may_be_empty:
            files.check_rows(self.path, table.n)

        def pieces() -> Iterator[tuple[Any, Any]]:
            return table.chunks() if table.n else iter([(sparse.csr_matrix((0, dimension)), np.empty(0))])

        return Rows(self.path, table.n, [str(j + 1) for j in range(dimension)], table.size, pieces)


@dataclass(frozen=True, eq=False)
class Rows:
    """A file that has been read and checked.

    Attributes
    ----------
    path : Path
    n : int
    names : list of str
        Features, in order.
    size : int
        Bytes of all of it in memory.
    pieces : callable
        Starts an iterator over ``(X, y)``, where y is None without a target.
    """

    path: Path
    n: int
    names: list[str]
    size: float
    pieces: Callable[[], Iterator[tuple[Any, Any]]]

    def arguments(self, estimator: Any, gigabytes: float | None = None) -> tuple[Any, ...]:
        """What to pass to ``fit``: arrays where they are small or all rows are needed at once, otherwise a stream."""
        at_once = estimator.method in type(estimator)._at_once  # noqa: SLF001  # public knowledge, but of the library alone
        allowed = None if gigabytes is None else gigabytes * 1e9
        if at_once:
            files.check_memory(self.path, self.size, allowed)
        elif self.size > min(IN_MEMORY, IN_MEMORY if allowed is None else allowed):
            return (Chunks(self._stream, n=self.n, d=len(self.names)),)
        features, target = zip(*self.pieces(), strict=True)
        X = files.stacked(features)
        return (X,) if target[0] is None else (X, np.concatenate(target))

    def _stream(self) -> Iterator[Any]:
        return ((X if y is None else (X, y)) for X, y in self.pieces())


def one_hot_names(columns: Sequence[str], levels: Levels) -> list[str]:
    """Names of the columns that `one_hot` makes."""
    return [name for c in columns for name in ([f"{c}={level}" for level in levels[c][1:]] if c in levels else [c])]


def one_hot(table: NDArray[np.float64], columns: Sequence[str], levels: Levels) -> NDArray[np.float64]:
    """Declared text columns become one 0/1 column per level but the first; NaN stays NaN."""
    if not levels:
        return table
    parts = [
        np.where(np.isnan(table[:, [j]]), np.nan, table[:, [j]] == np.arange(1, len(levels[c]))) if c in levels else table[:, [j]]
        for j, c in enumerate(columns)
    ]
    return np.hstack(parts)
