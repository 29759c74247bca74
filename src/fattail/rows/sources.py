"""Where rows come from: arrays, frames, files, streams, clusters.

A source knows its public shape and can do one thing: hand out consecutive rows, by position,
as chunks ``(X, y)``. `fattail.rows.data` cuts the chunks into blocks and adds integer partial sums
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
outlier, which every bounded term survives. Types and shapes are checked of all of them, before
anything is charged; whatever a source holds goes through `fattail.rows.door`.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail.rows.classes import Labels
from fattail.rows.digest import CHANGED, Digest
from fattail.rows.door import (
    Refusal,
    Schema,
    as_form,
    attempt,
    attempted,
    number_type,
    rows_of,
    schema_of,
    shown,
    take_target,
    target_of,
    type_of,
)
from fattail.rows.frames import Columns, as_array, is_column, is_frame, kind_of, library, text_only
from fattail.rows.order import Fold

Chunk = tuple[Any, NDArray[Any] | None]
Sums = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Rows of a stream are handed out in chunks of about this size.
CHUNK_BYTES = 1 << 24
# How many entries a CSR row is taken to store at most, for the size of blocks: how many it does store is private.
STORED = 64


class Job(Protocol):
    """A pass over consecutive rows, or over those of them in a fold; see `fattail.rows.passes.Job`."""

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
    _labels: Labels | None = None

    @property
    def row_bytes(self) -> int:
        """Memory that a row of a block is taken to need: by the number of columns alone, which is public."""
        return 12 * min(self.d, STORED) + 8 if self.is_sparse else 8 * self.d

    def for_one_fit(self) -> Source:
        """The same rows, with nothing remembered: whether they differ from those of an earlier fit must not be seen."""
        other = copy.copy(self)
        other.forget()
        return other

    def forget(self) -> None:  # noqa: B027 (most sources remember nothing)
        """Forget what the rows were when they were read."""

    def with_target(self, y: Any, labels: Labels | None = None) -> Source:
        """The same rows with a target: an array of n numbers, or of labels, or the name of a column."""
        if y is None and labels is None:
            return self
        other = copy.copy(self)
        other.take_labels(labels)
        if isinstance(y, str):
            other.take_column(y)
        elif y is not None:
            other.take_array(y)
        other.has_target = y is not None or self.has_target
        return other

    def take_labels(self, labels: Labels | None) -> None:
        self._labels = labels
        if labels is not None and self._y is not None:
            self._y = labels.codes(self._y)

    def take_column(self, name: str) -> None:
        raise Refusal(f"y={name!r} names a column, and {type(self).__name__} data have no named columns: pass an array")

    def take_array(self, y: Any) -> None:
        self._y = target_of(y) if self._labels is None else self._labels.checked(y)
        if len(self._y) != self.n:
            raise Refusal(f"X has {self.n} rows and y has {len(self._y)}")

    def _target_of(self, y: Any) -> NDArray[np.float64]:
        """Numbers or labels of a chunk as a vector; what is neither is missing."""
        return target_of(y, strict=False) if self._labels is None else self._labels.codes(y, strict=False)

    def _check_target(self, kind: Any) -> None:
        """Refuse a target by its type."""
        if self._labels is not None:
            self._labels.check(kind)
        elif number_type(kind) is None:
            raise Refusal(f"y must hold numbers, got type {shown(kind)}")

    def check(self) -> None:  # noqa: B027 (arrays are checked when they are made)
        """Refuse types that cannot be read; called once rows and target are known, before anything is charged."""

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

    def forget(self) -> None:
        self._seen = None

    def read(self, start: int, stop: int) -> Iterator[Chunk]:
        """Rows ``[start, stop)`` in order, in chunks of any size.

        The X of a chunk is an array, CSR or ``Columns``, in canonical form; y is a float64 vector.
        """
        at = start
        for X, y in attempted("reading the rows", self._chunks(start, stop)):
            size = int(X.shape[0])
            if y is not None and len(y) != size:
                raise Refusal(f"a chunk has {size} rows in X and {len(y)} in y")
            yield X, y if self._y is None else self._y[at : at + size]
            at += size
        if at != stop:
            raise Refusal(f"the source gave {at - start} rows where {stop - start} were announced")

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
            raise Refusal(CHANGED)

    @abstractmethod
    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]: ...

    def sum(self, job: Job, start: int, stop: int, mask: Mask | None) -> Sums | None:
        return job(self.read(start, stop) if job.fold is None else self.read_alike(), start, mask)


class Arrays(Reader):
    """Rows in memory, or in a memory map."""

    def __init__(self, X: Any) -> None:
        self._X = rows_of(X)
        self.n, self.d = (int(k) for k in self._X.shape)
        self.is_sparse = bool(sparse.issparse(self._X))
        if is_frame(X):
            self.columns = text_only(schema_of(X).kinds)

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        yield (self._X if stop - start == self.n else self._X[start:stop]), None


class Table(Reader):
    """Named columns that are read when needed; subclasses give the rows of some columns.

    ``schemas`` are those of all parts of the table: a part with another type is a matter of the schema.
    """

    def __init__(self, schemas: Sequence[Schema], columns: Sequence[str] | None) -> None:
        self._schemas = schemas
        self._target: str | None = None
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
        # One type for all parts, lest what one of them holds be rounded to another's.
        kinds = [schema.check(self._features) for schema in self._schemas]
        self._dtype = np.result_type(*set(kinds))

    @property
    def _wanted(self) -> list[str]:
        return [*self._features, *([] if self._target is None else [self._target])]

    @property
    def _chunk_rows(self) -> int:
        return max(1, CHUNK_BYTES // self.row_bytes)

    def _chunk(self, table: Any) -> Chunk:
        rows = Columns([as_array(table[name]) for name in self._features], self._dtype)
        return rows, None if self._target is None else self._target_of(table[self._target])


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
        import pyarrow.dataset

        dataset = path if library(path) == "pyarrow" else pyarrow.dataset.dataset(path, format="parquet")
        self._fragments = list(dataset.get_fragments())
        if not self._fragments or not all(kind_of(fragment) == "ParquetFileFragment" for fragment in self._fragments):
            raise Refusal("there are no Parquet files, or others among them")
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
                yield from _window(map(self._chunk, batches), int(edges[groups[0]]), start, stop)
                _check_file(fragment, state)
            at = int(edges[-1])

    def _batches(self, fragment: Any, groups: list[int]) -> Iterator[Any]:
        import pyarrow.parquet

        # A buffered stream: the memory needed does not grow with the size of a row group.
        with pyarrow.parquet.ParquetFile(fragment.open(), pre_buffer=False, buffer_size=1 << 16) as file:
            yield from file.iter_batches(self._chunk_rows, groups, self._wanted)


def _file_state(fragment: Any) -> tuple[int, ...]:
    """What changes when a file is written again or replaced."""
    import pyarrow.fs

    if isinstance(fragment.filesystem, pyarrow.fs.LocalFileSystem):
        now = os.stat(fragment.path)
        return now.st_size, now.st_mtime_ns, now.st_dev, now.st_ino
    info = fragment.filesystem.get_file_info(fragment.path)
    return info.size or 0, info.mtime_ns or 0


def _check_file(fragment: Any, state: tuple[int, ...]) -> None:
    """A fit is of one table: passes over two would count for one."""
    try:
        same = _file_state(fragment) == state
    except OSError:
        same = False
    if not same:
        raise Refusal(f"{fragment.path} has been changed while it was being read")


class _PrivateFolder:
    """A temporary folder for this user only, removed when nobody holds it any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="fattail-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class Lazy(Table):
    """A polars query, run once: its answer is kept in a private temporary file as long as this object lives.

    Run again, a query may give its rows in another order (after a ``group_by`` or a join, for instance), and a
    row that was in one fold would then be in another as well. It is run before anything is charged: text that a scan
    of CSV files meets beyond the rows by which it has guessed types, or a cast that fails, is found then.
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
    >>> from fattail.rows.sources import Chunks
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
        first = next(self._items(), None)
        if first is None:
            raise Refusal("the factory gave no rows")
        self._form = _form_of(*first)
        self.has_target, self.is_sparse = first[1] is not None, bool(sparse.issparse(rows_of(first[0])))
        self.d = self._form.d if d is None else d
        self.columns = None if columns is None else tuple(columns)
        self._types = [self._form.target]
        self.n = self._count() if n is None else n

    def _items(self) -> Iterator[tuple[Any, Any]]:
        for item in attempted("the stream", self._factory()):
            yield item if isinstance(item, tuple) else (item, None)

    def _count(self) -> int:
        """Rows of all chunks, whose types are looked at on the way."""
        count = 0
        for X, y in self._items():
            form, rows = _form_of(X, y), rows_of(X)
            self._check_form(form)
            self._types.append(form.target)
            count += int(rows.shape[0])
        return count

    def _check_form(self, form: _Form) -> None:
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
        return _window(self._all(), 0, start, stop)

    def _all(self) -> Iterator[Chunk]:
        """Canonical chunks; it is too late to refuse cells, so those that are no numbers are missing."""
        for X, y in self._items():
            self._check_form(_form_of(X, y))
            yield as_form(rows_of(X, strict=False), self.is_sparse), None if y is None else self._target_of(y)


@dataclass(frozen=True)
class _Form:
    """What all chunks of a stream must share, and the type of this one's target."""

    d: int
    names: tuple[Any, ...] | None
    target: Any


def _form_of(X: Any, y: Any) -> _Form:
    names = tuple(schema_of(X).kinds) if is_frame(X) else None
    shape = attempt("finding the shape of a chunk", np.shape, X) if names is None else (0, len(names))
    if len(shape) != 2:
        raise Refusal(f"rows must be a 2-dimensional array of numbers, got shape {shape}")
    y = y if y is None or is_column(y) or hasattr(y, "dtype") else attempt("making an array", np.asarray, y)
    return _Form(shape[1], names, None if y is None else type_of(y))


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


def as_source(X: Any, y: Any = None, labels: Labels | None = None) -> Source:
    """The source of what a user may pass as X."""
    if isinstance(y, str) and is_frame(X):
        X, y = take_target(X, y)
    if library(X) == "dask":
        from fattail.rows.cluster import Dask

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
    source = source.with_target(y, labels)
    source.check()
    return source
