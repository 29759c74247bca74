"""Where rows come from: arrays, frames, files, streams, clusters.

A source knows its public shape and can do one thing: hand out consecutive rows, by position,
as chunks ``(X, y)``. `fattail.data` cuts the chunks into blocks and adds integer partial sums
over them, so the same fit gives the same integers from every source. A Dask cluster does that
adding where its rows are, and only the sums travel.

=========================== =====================================  ==================
X                           y                                      NaN, infinity
=========================== =====================================  ==================
array, memmap, CSR          array                                  refused
pandas, polars, pyarrow     array or column name                   refused
path, ``Parquet``           array or column name                   count as bad rows
polars ``LazyFrame``        array or column name                   count as bad rows
callable, ``Chunks``        array, or in the chunks: ``(X, y)``    count as bad rows
Dask array                  array or Dask array                    count as bad rows
Dask data frame             array, Dask series or column name      count as bad rows
=========================== =====================================  ==================

What is in memory is checked as scikit-learn does. A check of the rest would cost a pass over
the data, so there is none: in the sums a NaN or a null counts as zero and an infinity as an
outlier, which every bounded term survives.
"""

from __future__ import annotations

import copy
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail._digest import CHANGED, Digest
from fattail.privacy.labels import Fold
from fattail.tables import Schema, as_rows, column, columns_of, is_frame, kind_of, library, schema_of, take_target, text_only

Chunk = tuple[Any, NDArray[Any] | None]
Sums = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Rows of a stream are handed out in chunks of about this size.
CHUNK_BYTES = 1 << 24


class Job(Protocol):
    """A pass over consecutive rows, or over those of them in a fold; see `fattail.passes.Job`."""

    @property
    def fold(self) -> Fold | None: ...

    def __call__(
        self, chunks: Iterable[Chunk], start: int, mask: Mask | None = None, threads: int | None = None
    ) -> Sums | None: ...


class Source(ABC):
    """Rows by position in, chunks out.

    Attributes
    ----------
    n, d : int
        Public shape, without the target.
    columns : tuple of str or None
        Names of the d columns.
    has_target : bool
    is_sparse : bool
        Chunks are CSR.
    """

    n: int
    d: int
    columns: tuple[str, ...] | None = None
    has_target: bool = False
    is_sparse: bool = False
    _y: NDArray[Any] | None = None

    @property
    def row_bytes(self) -> int:
        """Memory of one row in a block."""
        return 8 * self.d

    def with_target(self, y: Any) -> Source:
        """The same rows with a target: an array of n numbers, or the name of a column."""
        if y is None:
            return self
        other = copy.copy(self)
        if isinstance(y, str):
            other.take_column(y)
        else:
            other.take_array(y)
        other.has_target = True
        return other

    def take_column(self, name: str) -> None:
        raise ValueError(f"y={name!r} names a column, and {type(self).__name__} data have no named columns: pass an array")

    def take_array(self, y: Any) -> None:
        self._y = np.asarray(y)
        if len(self._y) != self.n:
            raise ValueError(f"X has {self.n} rows and y has {len(self._y)}")

    @abstractmethod
    def sum(self, job: Job, start: int, stop: int, mask: Mask | None) -> Sums | None:
        """What ``job`` adds up over rows ``[start, stop)``, None if there are none; ``mask`` covers the same rows."""


class Reader(Source):
    """A source whose rows come to this process.

    Attributes
    ----------
    repeats : bool
        Rows are in the same order each time they are read, for sure. Otherwise passes for which the order counts check it.
    """

    repeats: bool = True
    _seen: bytes | None = None

    def read(self, start: int, stop: int) -> Iterator[Chunk]:
        """Rows ``[start, stop)`` in order, in chunks of any size.

        The X of a chunk is an array, a CSR matrix or ``Columns``.
        """
        at = start
        for X, y in self._chunks(start, stop):
            size = int(X.shape[0])
            yield X, y if self._y is None else self._y[at : at + size]
            at += size
        if at != stop:
            raise ValueError(f"the source gave {at - start} rows where {stop - start} were announced")

    def read_alike(self) -> Iterator[Chunk]:
        """All rows, for a pass that picks some by position; refused at its end if they did not come as the first time."""
        digest = Digest()
        for X, y in self.read(0, self.n):
            if not self.repeats:
                digest.add(X, y)
            yield X, y
        if self._seen is None:
            self._seen = digest.value()
        elif self._seen != digest.value():
            raise ValueError(CHANGED)

    @abstractmethod
    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]: ...

    def sum(self, job: Job, start: int, stop: int, mask: Mask | None) -> Sums | None:
        return job(self.read(start, stop) if job.fold is None else self.read_alike(), start, mask)


class Arrays(Reader):
    """Rows in memory, or in a memory map."""

    def __init__(self, X: Any) -> None:
        self._X = as_rows(X)
        self.n, self.d = (int(k) for k in self._X.shape)
        self.is_sparse = bool(sparse.issparse(self._X))
        if is_frame(X):
            self.columns = text_only(schema_of(X).kinds)

    @property
    def row_bytes(self) -> int:
        if self.is_sparse:
            return 12 * int(self._X.nnz) // max(self.n, 1) + 8
        return self.d * int(self._X.dtype.itemsize)

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        yield (self._X if stop - start == self.n else self._X[start:stop]), None


class Table(Reader):
    """Named columns that are read when needed; subclasses give the rows of some columns."""

    def __init__(self, schema: Schema, n: int, columns: Sequence[str] | None) -> None:
        self._schema, self.n = schema, n
        self._target: str | None = None
        self._choose(tuple(schema.kinds) if columns is None else tuple(columns))

    def _choose(self, columns: tuple[str, ...]) -> None:
        self._dtype = self._schema.check(columns)
        self._features, self.columns, self.d = columns, columns, len(columns)

    def take_column(self, name: str) -> None:
        self._schema.check((name,))
        self._target = name
        self._choose(tuple(c for c in self._features if c != name))

    @property
    def _wanted(self) -> list[str]:
        return [*self._features, *([] if self._target is None else [self._target])]

    @property
    def _chunk_rows(self) -> int:
        return max(1, CHUNK_BYTES // self.row_bytes)

    def _chunk(self, table: Any) -> Chunk:
        rows = columns_of(table, self._features, self._dtype)
        return rows, None if self._target is None else np.asarray(column(table, self._target), dtype=np.float64)


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
    >>> from fattail.sources import Parquet
    >>> source = Parquet("trips/", columns=["distance", "fare"])  # doctest: +SKIP
    >>> DPLinearRegression(epsilon=1.0).fit(source, y="fare")  # doctest: +SKIP
    """

    def __init__(self, path: Any, columns: Sequence[str] | None = None) -> None:
        import pyarrow.dataset

        dataset = path if library(path) == "pyarrow" else pyarrow.dataset.dataset(path, format="parquet")
        self._fragments = list(dataset.get_fragments())
        self._sizes = [[group.num_rows for group in fragment.row_groups] for fragment in self._fragments]
        super().__init__(schema_of(dataset), sum(map(sum, self._sizes)), columns)

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        at = 0
        for fragment, sizes in zip(self._fragments, self._sizes, strict=True):
            edges = at + np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
            groups = [k for k in range(len(sizes)) if start < edges[k + 1] and edges[k] < stop]
            if groups:
                batches = self._batches(fragment, groups)
                yield from _window(map(self._chunk, batches), int(edges[groups[0]]), start, stop)
            at = int(edges[-1])

    def _batches(self, fragment: Any, groups: list[int]) -> Iterator[Any]:
        import pyarrow.parquet

        # A buffered stream: the memory needed does not grow with the size of a row group.
        with pyarrow.parquet.ParquetFile(fragment.open(), pre_buffer=False, buffer_size=1 << 16) as file:
            yield from file.iter_batches(self._chunk_rows, groups, self._wanted)


class Lazy(Table):
    """A polars query, run once: its answer is kept in a private temporary file as long as this object lives.

    Run again, a query may give its rows in another order (after a ``group_by`` or a join, for instance), and a
    row that was in one fold would then be in another as well.
    """

    def __init__(self, frame: Any, columns: Sequence[str] | None = None) -> None:
        import polars

        schema = schema_of(frame)
        schema.check(columns)
        self._folder = tempfile.TemporaryDirectory(prefix="fattail-")  # for this user only, and removed with the object
        path = Path(self._folder.name) / "rows.parquet"
        path.touch(mode=0o600)
        try:
            frame.select([name for name, kind in schema.kinds.items() if kind is not None]).sink_parquet(path)
        except Exception as error:
            # Its message may quote a value.
            raise ValueError(f"the query failed ({type(error).__name__}): run it by itself to see why") from None
        self._frame = polars.scan_parquet(path)
        super().__init__(schema, int(self._frame.select(polars.len()).collect().item()), columns)

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        query = self._frame.select(self._wanted).slice(start, stop - start)
        return map(self._chunk, query.collect_batches(chunk_size=self._chunk_rows, maintain_order=True))


class Chunks(Reader):
    """Any stream of rows that can be started again.

    Parameters
    ----------
    factory : callable
        Each call returns an iterator over the same rows in the same order, as arrays, CSR
        matrices or frames X, or as pairs ``(X, y)``. Where chunks end does not matter. Where the order of
        rows counts, as for folds, it is checked, and other rows are refused before anything is released.
    n, d : int, optional
        Public shape. Counted in one pass if not given.
    columns : list of str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.sources import Chunks
    >>> source = Chunks(lambda: (np.full((100, 2), k) for k in range(5)))
    >>> source.n, source.d
    (500, 2)
    """

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
        first, y = next(self._all(), (None, None))
        if first is None:
            raise ValueError("the factory gave no rows")
        self.has_target, self.is_sparse = y is not None, bool(sparse.issparse(first))
        self.d = int(first.shape[1]) if d is None else d
        self.columns = None if columns is None else tuple(columns)
        self.n = sum(int(X.shape[0]) for X, _ in self._all()) if n is None else n

    def _all(self) -> Iterator[Chunk]:
        for item in self._factory():
            X, y = item if isinstance(item, tuple) else (item, None)
            yield as_rows(X), None if y is None else np.asarray(y)

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        for X, y in _window(self._all(), 0, start, stop):
            if X.shape[1] != self.d or (y is None and self.has_target and self._y is None):
                raise ValueError("all chunks must have the same columns")
            yield X, y


def total(parts: Iterable[Sums | None]) -> Sums | None:
    """Sum of the parts that are there; None if none is."""
    result: Sums | None = None
    for part in parts:
        if result is None:
            result = None if part is None else part.copy()
        elif part is not None:
            result += part
    return result


def _window(chunks: Iterable[Chunk], at: int, start: int, stop: int) -> Iterator[Chunk]:
    """Those rows of ``chunks``, the first of which is row ``at``, that lie in ``[start, stop)``."""
    for X, y in chunks:
        size = int(X.shape[0])
        a, b = max(start - at, 0), min(stop - at, size)
        if a < b:
            yield (X, y) if b - a == size else (X[a:b], None if y is None else y[a:b])
        at += size
        if at >= stop:
            return


def is_stream(X: Any) -> bool:
    """Whether rows are read when needed, unseen by validation."""
    known = isinstance(X, (Source, str, os.PathLike)) or callable(X)
    return known or library(X) == "dask" or kind_of(X) in ("LazyFrame", "FileSystemDataset", "UnionDataset")


def as_source(X: Any, y: Any = None) -> Source:
    """The source of what a user may pass as X."""
    if isinstance(y, str) and is_frame(X):
        X, y = take_target(X, y)
    if library(X) == "dask":
        from fattail._dask import Dask

        source: Source = Dask(X)
    elif isinstance(X, Source):
        source = X
    elif not is_stream(X):
        source = Arrays(X)
    elif kind_of(X) == "LazyFrame":
        source = Lazy(X)
    elif callable(X):
        source = Chunks(X)
    else:
        source = Parquet(X)
    return source.with_target(y)
