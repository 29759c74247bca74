"""Columns of a Parquet file as rows of numbers, read batch by batch in every pass.

A column's type alone decides whether it can be read. Text is read as bytes, so that decoding cannot fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.extras import MissingExtraError, extra
from fattail.cli.spool import CHUNK_BYTES
from fattail.rows.records import Parse, number, parsed_cell

Floats = NDArray[np.float64]


class DamagedError(Exception):
    """The content of the file does not match its metadata."""


class TypeRefusedError(Exception):
    """Columns of this type are not read; the message names column and type."""


class ParquetRows:
    """The wanted columns of a file, missing cells as ``fill``.

    Attributes
    ----------
    names : tuple of str
        All columns of the file.
    n, width : int
        Rows, and wanted columns.
    size : int
        Bytes of all rows in memory.
    """

    def __init__(self, path: Path, columns: Sequence[str], parsers: Sequence[Parse], fill: float = 0.0) -> None:
        self._path, self._columns, self._parsers, self._fill = path, tuple(columns), tuple(parsers), fill
        self._identity = _identity(path)
        with self._open() as file:
            self._schema = file.schema_arrow
            self.n = int(file.metadata.num_rows)
        self.names: tuple[str, ...] = tuple(self._schema.names)
        self.width = len(columns)

    @property
    def size(self) -> int:
        return 8 * self.n * self.width

    def checked(self) -> Iterator[tuple[NDArray[np.bool_], float]]:
        """The first pass: for every batch, which columns are all finite, and the share of rows that has been read."""
        done = 0
        for table in self._batches():
            done += len(table)
            yield np.asarray(np.isfinite(table).all(axis=0)), done / max(self.n, 1)
        if done != self.n:
            raise DamagedError

    def chunks(self) -> Iterator[Floats]:
        for table in self._batches():
            yield np.where(np.isfinite(table), table, self._fill)

    def _batches(self) -> Iterator[Floats]:
        if _identity(self._path) != self._identity:
            raise DamagedError("the file was changed while it was being read")
        kinds = [self._kind(name, parse) for name, parse in zip(self._columns, self._parsers, strict=True)]
        rows = max(1, min(CHUNK_BYTES // (8 * max(self.width, 1)), 1 << 16))
        with self._open() as file:
            for batch in file.iter_batches(rows, columns=list(dict.fromkeys(self._columns))):
                table = np.empty((batch.num_rows, self.width))
                for k, (name, kind, parse) in enumerate(zip(self._columns, kinds, self._parsers, strict=True)):
                    table[:, k] = _numbers(batch.column(batch.schema.get_field_index(name)), kind, parse)
                yield table

    def _kind(self, name: str, parse: Parse) -> str:
        """How a column is read: as numbers, text or decimals. Text is read only if its levels are declared."""
        import pyarrow.types as types

        kind = self._schema.field(name).type
        if types.is_dictionary(kind):
            kind = kind.value_type
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            return "number"
        if types.is_null(kind) or (parse is not number and (types.is_string(kind) or types.is_large_string(kind))):
            return "text"
        if types.is_decimal(kind):
            return "decimal"
        text = "; `fattail fit` takes text with --category, and labels with --classes" if "string" in str(kind) else ""
        raise TypeRefusedError(f"column {name!r} is of type {kind}, which is not a number{text}")

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            pa, pq = extra("pyarrow", "frames"), extra("pyarrow.parquet", "frames")
        except MissingExtraError as error:
            raise TypeRefusedError(str(error)) from None
        try:
            # A buffered stream: the memory needed does not grow with the size of a row group.
            with pq.ParquetFile(self._path, pre_buffer=False, buffer_size=1 << 16) as file:
                yield file
        except (pa.ArrowException, OSError, OverflowError, UnicodeDecodeError, KeyError, IndexError):
            raise DamagedError from None


def _numbers(column: Any, kind: str, parse: Parse) -> Any:
    import pyarrow as pa

    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    if kind == "number" and parse is number:
        return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if kind == "text" and not pa.types.is_null(column.type):
        column = column.cast(pa.large_binary())
    cells = (value if isinstance(value, bytes) else str(value).encode() for value in column.to_pylist())
    return [parsed_cell(parse, cell) for cell in cells]


def _identity(path: Path) -> tuple[int, ...]:
    about = os.stat(path)
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
