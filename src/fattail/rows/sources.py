"""Sources of rows: arrays, frames, files, streams, clusters.

A source has a public shape and returns consecutive rows, by position, as chunks ``(X, y)``. `fattail.rows.passes` cuts the
chunks into blocks, and `fattail.robust.passes` adds integer vectors over them. So the same fit gives the same integers from
every source. On a Dask cluster the workers add, and only the sums are sent.

=========================== =====================================
X                           y
=========================== =====================================
array, memmap, CSR          array
pandas, polars, pyarrow     array or column name
path, ``Parquet``           array or column name
polars ``LazyFrame``        array or column name
callable, ``Chunks``        array, or in the chunks: ``(X, y)``
Dask array                  array or Dask array
Dask data frame             array, Dask series or column name
=========================== =====================================

Missing cells mean the same in all of them (`fattail.rows.missing`). Without ``missing=`` they are kept: in a sum, a NaN or a null
counts as zero, and an infinity as an outlier, which is bounded like any other. Types and shapes of all sources are checked
before anything is charged (`fattail.rows.door`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import sparse

from fattail.rows.beside import side_by_side, take_target
from fattail.rows.classes import Labels
from fattail.rows.door import (
    Refusal,
    attempt,
    attempted,
    nested_array,
    rows_of,
    schema_of,
    type_of,
    typed,
)
from fattail.rows.frames import is_column, is_frame, kind_of, library
from fattail.rows.source import Arrays, Chunk, Reader, Source, window
from fattail.rows.tables import Lazy, Parquet

# Sums of integers below 7 * 2**30, one for each row, stay within 64 bits.
MOST_ROWS = 1 << 30


class Chunks(Reader):
    """Any stream of rows that can be started again.

    Parameters
    ----------
    factory : callable
        Each call returns an iterator over the same rows in the same order, as arrays, CSR
        matrices or frames X, or as pairs ``(X, y)``. The sizes of chunks do not matter. Where the order of rows matters, as for
        folds, it is checked, and a changed order raises before anything is released.
    n, d : int, optional
        Public shape. Counted in one pass if not given.
    columns : list of str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.rows.sources import Chunks
    >>> source = Chunks(lambda: (np.full((100, 2), k) for k in range(5)))
    >>> source.n, source.d
    (500, 2)
    """

    is_canonical = True

    def __init__(
        self,
        factory: Callable[[], Iterable[Any]],
        *,
        n: int | None = None,
        d: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._factory = factory
        self.repeats = False
        first = next(self._items(), None)
        if first is None:
            raise Refusal("the factory gave no rows")
        self._form = _chunk_schema(*first)
        self.has_target, self.is_sparse = first[1] is not None, bool(sparse.issparse(rows_of(first[0])))
        self.d = self._form.d if d is None else d
        self.columns = None if columns is None else tuple(columns)
        self._types = [self._form.target]
        self.n = self._count() if n is None else n

    def _items(self) -> Iterator[tuple[Any, Any]]:
        for item in attempted("the stream", self._factory()):
            X, y = item if isinstance(item, tuple) else (item, None)
            yield typed(X), y

    def _count(self) -> int:
        """The number of rows of all chunks, whose types are checked on the way."""
        count = 0
        for X, y in self._items():
            form, rows = _chunk_schema(X, y), rows_of(X)
            self._check_form(form)
            self._types.append(form.target)
            count += int(rows.shape[0])
        return count

    def _check_form(self, form: _ChunkSchema) -> None:
        if (form.d, form.names) != (self.d, self._form.names) or (form.target is None) != (self._form.target is None):
            raise Refusal("all chunks must have the same columns")

    def check(self) -> None:
        if self._form.d != self.d:
            raise Refusal(f"d={self.d} was declared, and the first chunk has {self._form.d} columns")
        if self._y is None:
            for kind in self._types:
                if kind is not None:
                    self._check_target(kind)

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        return window(self._all(), 0, start, stop)

    def _all(self) -> Iterator[Chunk]:
        """Canonical chunks. After the charge no cell is refused, so cells that are not numbers are missing."""
        for X, y in self._items():
            self._check_form(_chunk_schema(X, y))
            yield self._converted(X, y)


@dataclass(frozen=True)
class _ChunkSchema:
    """What all chunks of a stream must share, and the type of this one's target."""

    d: int
    names: tuple[Any, ...] | None
    target: Any


def _chunk_schema(X: Any, y: Any) -> _ChunkSchema:
    names = tuple(schema_of(X).kinds) if is_frame(X) else None
    shape = (X if hasattr(X, "shape") else nested_array(X)).shape if names is None else (0, len(names))
    if len(shape) != 2:
        raise Refusal(f"rows must be a 2-dimensional array of numbers, got shape {shape}")
    # A list has no type but that of its cells, which are read one by one.
    return _ChunkSchema(shape[1], names, None if y is None else type_of(y) if is_column(y) or hasattr(y, "dtype") else list)


def gathered(X: Any) -> Any:
    """A Dask collection in memory; anything else is returned unchanged."""
    return attempt("computing", X.compute) if library(X) == "dask" else X


def is_stream(X: Any) -> bool:
    """Whether X is read in passes, and not validated in memory."""
    known = isinstance(X, (Source, str, os.PathLike)) or callable(X)
    return known or library(X) == "dask" or kind_of(X) in ("LazyFrame", "FileSystemDataset", "UnionDataset")


def as_source(X: Any, y: Any = None, labels: Labels | None = None, person: Any = None, missing: str | None = None) -> Source:
    """The source for what a user may pass as X; with ``person``, its positions are persons.

    Without ``missing`` cells are kept: in sums a NaN counts as zero and an infinity as an outlier.
    """
    # Rows of a person may be in several partitions, and the numbers of complete rows of partitions must stay private.
    if (person is not None or missing == "drop") and library(X) == "dask":
        X, y, person = map(gathered, (X, y, person))
    if isinstance(person, str) and is_frame(X):
        X, person = take_target(X, person)
    if isinstance(y, str) and is_frame(X):
        X, y = take_target(X, y)
    X, y = side_by_side(X, y, person, missing, coded=labels is not None)
    source = _source_of(X)
    if isinstance(person, str):
        source = source.with_person(person)
    source = source.with_target(y, labels)
    source.check()
    if source.n > MOST_ROWS:
        raise Refusal(f"sums are exact for at most {MOST_ROWS:,} rows, got {source.n:,}")
    if person is not None:
        from fattail.rows.persons import Persons

        return Persons(source, source.ids() if isinstance(person, str) else person, missing)
    if missing is None:
        return source
    from fattail.rows.missing import treated

    return treated(source, missing)


def _source_of(X: Any) -> Source:
    """The reader of the rows, by the type of X."""
    if library(X) == "dask":
        from fattail.rows.cluster import Dask

        return Dask(X)
    if isinstance(X, Source):
        return X
    if not is_stream(X):
        return Arrays(X)
    if kind_of(X) == "LazyFrame":
        return Lazy(X)
    return Chunks(X) if callable(X) else Parquet(X)
