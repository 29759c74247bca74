"""Tables with named columns that are read when needed: Parquet files and queries."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.extras import extra
from fattail.rows.beside import plain_ids
from fattail.rows.door import Refusal, Schema, attempt, attempted, schema_of
from fattail.rows.frames import Columns, as_array, kind_of, library
from fattail.rows.source import CHUNK_BYTES, Chunk, Reader, window


class Table(Reader):
    """Named columns that are read when needed; subclasses give the rows of some columns.

    ``schemas`` are those of all parts of the table, so that a part with another type is refused by its schema.
    """

    is_canonical = True

    def __init__(self, schemas: Sequence[Schema], columns: Sequence[str] | None) -> None:
        self._schemas = schemas
        self._target: str | None = None
        self._person: str | None = None
        self._reads_ids = False
        self._choose(tuple(schemas[0].kinds) if columns is None else tuple(columns))

    def _choose(self, columns: tuple[str, ...]) -> None:
        self._features, self.columns, self.d = columns, columns, len(columns)

    def take_column(self, name: str) -> None:
        self._target = name
        self._choose(tuple(c for c in self._features if c != name))

    def check(self) -> None:
        for schema in self._schemas:
            schema.find(self._wanted)
            if self._target is not None:
                self._check_target(schema.types[self._target])
        if not self._features:
            raise Refusal("there are no columns left to read")
        # One type for all parts, so that no part is rounded to the type of another.
        kinds = [schema.check(self._features) for schema in self._schemas]
        self._dtype = np.result_type(*set(kinds))

    @property
    def _wanted(self) -> list[str]:
        if self._reads_ids and self._person is not None:
            return [self._person]
        return [*self._features, *(name for name in (self._target, self._person) if name is not None)]

    def take_person(self, name: str) -> None:
        for schema in self._schemas:
            schema.find((name,))
        kinds = sorted({_kind_of_ids(schema.types[name]) for schema in self._schemas})
        if len(kinds) > 1:
            raise Refusal(f"person={name!r} is {' in one file and '.join(kinds)} in another: a person would have several ids")
        self._person = name
        self._choose(tuple(c for c in self._features if c != name))

    def ids(self) -> NDArray[Any]:
        self._reads_ids = True
        try:
            parts = attempted("reading the ids", self._chunks(0, self.n))
            return np.concatenate([np.empty(0, dtype=object), *(np.asarray(part, dtype=object) for part, _ in parts)])
        finally:
            self._reads_ids = False

    @property
    def _chunk_rows(self) -> int:
        return max(1, CHUNK_BYTES // self.row_bytes)

    def _chunk(self, table: Any) -> Chunk:
        if self._reads_ids:
            return plain_ids(table[self._person]), None
        rows = Columns([as_array(table[name]) for name in self._features], self._dtype)
        return rows, None if self._target is None else self._target_of(table[self._target])


def _kind_of_ids(kind: Any) -> str:
    """A word for the types in which equal ids are equal."""
    kind = str(getattr(kind, "value_type", kind))
    words = {"string": "text", "large_string": "text", "string_view": "text"}
    return words.get(kind, "whole numbers" if kind.startswith(("int", "uint")) else kind)


class Parquet(Table):
    """Parquet files, read row group by row group.

    Parameters
    ----------
    path : str, path, list of them, or pyarrow Dataset
        A file, or a folder whose files are taken in the order of their names. The position
        of a row is its place in that order.
    columns : list of str, optional
        Columns to read; all by default.

    Examples
    --------
    >>> from fattail.rows.sources import Parquet
    >>> source = Parquet("trips/", columns=["distance", "fare"])  # doctest: +SKIP
    >>> DPLinearRegression(epsilon=1.0).fit(source, y="fare")  # doctest: +SKIP
    """

    def __init__(self, path: Any, columns: Sequence[str] | None = None) -> None:
        datasets = extra("pyarrow.dataset", "frames")
        name = os.fspath(path).lower() if isinstance(path, (str, os.PathLike)) else ""
        if name.removesuffix(".gz").endswith((".csv", ".tsv", ".txt")):
            raise Refusal(
                f"estimators read Parquet files, got {os.path.basename(path)}: read it into a data frame first, or use "
                "`fattail fit` on the command line"
            )
        dataset = path if library(path) == "pyarrow" else datasets.dataset(path, format="parquet")
        self._fragments = list(dataset.get_fragments())
        if not self._fragments or not all(kind_of(fragment) == "ParquetFileFragment" for fragment in self._fragments):
            raise Refusal("the folder holds no Parquet files, or other files among them")
        self._states = [_file_state(fragment) for fragment in self._fragments]
        self._sizes = [[group.num_rows for group in fragment.row_groups] for fragment in self._fragments]
        self.n = sum(map(sum, self._sizes))
        schemas = [schema_of(f.physical_schema, f" of {os.path.basename(f.path)}") for f in self._fragments]
        super().__init__(schemas, columns)

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        at = 0
        for fragment, sizes, state in zip(self._fragments, self._sizes, self._states, strict=True):
            edges = at + np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
            groups = [k for k in range(len(sizes)) if start < edges[k + 1] and edges[k] < stop]
            if groups:
                _check_file(fragment, state)
                batches = self._batches(fragment, groups)
                yield from window(map(self._chunk, batches), int(edges[groups[0]]), start, stop)
                _check_file(fragment, state)
            at = int(edges[-1])

    def _batches(self, fragment: Any, groups: list[int]) -> Iterator[Any]:
        import pyarrow.parquet

        # A buffered stream: the memory needed does not grow with the size of a row group.
        with pyarrow.parquet.ParquetFile(fragment.open(), pre_buffer=False, buffer_size=1 << 16) as file:
            yield from file.iter_batches(self._chunk_rows, groups, self._wanted)


def _file_state(fragment: Any) -> tuple[int, ...]:
    """Attributes of a file that change when it is written again or replaced."""
    import pyarrow.fs

    if isinstance(fragment.filesystem, pyarrow.fs.LocalFileSystem):
        now = os.stat(fragment.path)
        return now.st_size, now.st_mtime_ns, now.st_dev, now.st_ino
    info = fragment.filesystem.get_file_info(fragment.path)
    return info.size or 0, info.mtime_ns or 0


def _check_file(fragment: Any, state: tuple[int, ...]) -> None:
    """Refuse a file that changed: all passes of a fit must read the same table."""
    try:
        same = _file_state(fragment) == state
    except OSError:
        same = False
    if not same:
        raise Refusal(f"{fragment.path} has been changed while it was being read")


class _PrivateFolder:
    """A temporary folder for this user only, removed when it is no longer referenced."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="fattail-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class Lazy(Table):
    """A polars query, run once: its result is kept in a private temporary file as long as this object exists.

    A query that is run again may give its rows in another order, for instance after a ``group_by`` or a join. A row could
    then be in two folds. The query is run before anything is charged, so that its own errors (a cast that fails, text in a
    column that a scan of CSV files took for numbers) are found before the charge.
    """

    def __init__(self, frame: Any, columns: Sequence[str] | None = None) -> None:
        self._frame = frame
        super().__init__([attempt("finding the columns of a query", schema_of, frame)], columns)

    def take_array(self, y: Any) -> None:
        self.check()
        super().take_array(y)

    def check(self) -> None:
        super().check()
        if "n" not in self.__dict__:
            import polars

            self._folder = _PrivateFolder()
            path = self._folder.path / "rows.parquet"
            path.touch(mode=0o600)
            attempt("running the query", self._frame.select(self._wanted).sink_parquet, path)
            self._frame = polars.scan_parquet(path)
            self.n = int(self._frame.select(polars.len()).collect().item())

    def _batches(self, query: Any) -> Iterator[Any]:
        return iter(query.collect_batches(chunk_size=self._chunk_rows, maintain_order=True))

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        return map(self._chunk, self._batches(self._frame.select(self._wanted).slice(start, stop - start)))
