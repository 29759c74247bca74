"""The interface of a source of rows: a public shape, and consecutive rows by position.

`fattail.rows.passes` cuts the chunks into blocks, and `fattail.robust.passes` adds integer vectors over them. The sources
themselves are in `fattail.rows.sources`, `fattail.rows.tables` and `fattail.rows.cluster`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail.rows.classes import Labels
from fattail.rows.digest import CHANGED, Digest
from fattail.rows.door import Refusal, as_form, attempted, number_type, rows_of, schema_of, shown, target_of
from fattail.rows.frames import Columns, is_frame, text_only
from fattail.rows.order import Fold

Chunk = tuple[Any, NDArray[Any] | None]
Sums = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Entries that a CSR row is assumed to store at most, for the size of blocks; the actual number is private.
STORED = 64

# Approximate size of the chunks of a stream, in bytes.
CHUNK_BYTES = 1 << 24


class RowPass(Protocol):
    """A pass over consecutive rows, or over those of them in a fold; see `fattail.robust.passes.Job`."""

    @property
    def fold(self) -> Fold | None: ...

    @property
    def block_rows(self) -> int: ...

    def __call__(
        self, chunks: Iterable[Chunk], start: int, mask: Mask | None = None, threads: int | None = None
    ) -> Sums | None: ...

    def over(self, pieces: Iterator[Any], threads: int | None = None) -> Sums | None: ...


class Source(ABC):
    """A source of rows, read by position in chunks.

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
        """Assumed memory of a row, from the number of columns alone, which is public."""
        return 12 * min(self.d, STORED) + 8 if self.is_sparse else 8 * self.d

    def for_one_fit(self) -> Source:
        """The same rows without stored checksums: a fit must not show whether the rows differ from those of an earlier fit."""
        other = copy.copy(self)
        other.forget()
        return other

    def forget(self) -> None:  # noqa: B027 (most sources remember nothing)
        """Remove stored checksums of the rows."""

    @property
    def has_labels(self) -> bool:
        """Whether the target holds codes of two classes."""
        return self._labels is not None

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
        """Numbers or labels of a chunk as a vector; anything else is missing."""
        return target_of(y, strict=False) if self._labels is None else self._labels.codes(y, strict=False)

    def _check_target(self, kind: Any) -> None:
        """Refuse a target by its type; a list has none."""
        if kind is list:
            return
        if self._labels is not None:
            self._labels.check(kind)
        elif number_type(kind) is None:
            raise Refusal(f"y must hold numbers, got type {shown(kind)}")

    def with_person(self, name: str) -> Source:
        """The same rows, one column of which holds the ids of persons."""
        other = copy.copy(self)
        other.take_person(name)
        return other

    def take_person(self, name: str) -> None:
        kind = type(self).__name__
        raise Refusal(f"person={name!r} names a column, and {kind} data have no named columns: pass an array of ids")

    def ids(self) -> NDArray[Any]:
        """The column of ids."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuse what cannot be read; called once rows and target are known, before anything is charged."""
        if not (hasattr(self, "n") and hasattr(self, "d")):
            raise Refusal(f"{type(self).__name__} must set n and d, its numbers of rows and columns, when it is made")

    def check_cells(self) -> None:
        """Refuse missing cells, by reading all of them."""
        raise NotImplementedError

    def filled(self) -> Source:
        """The same rows with missing cells as 0."""
        raise NotImplementedError

    def empty_block(self) -> Any:
        """A block without rows, for an empty fold."""
        from fattail.rows.passes import Block

        X = sparse.csr_array((0, self.d)) if self.is_sparse else np.empty((0, self.d))
        return Block(X, np.empty(0) if self.has_target else None, 0)

    @abstractmethod
    def sum(self, job: RowPass, start: int, stop: int, mask: Mask | None) -> Sums | None:
        """The sum of ``job`` over rows ``[start, stop)``, None if there are none; ``mask`` covers the same rows."""


class Reader(Source):
    """A source whose rows are read in this process.

    Attributes
    ----------
    repeats : bool
        Whether rows surely come in the same order each time. If not, passes that depend on the order check it.
    is_canonical : bool
        Whether ``_chunks`` gives the canonical form (`fattail.rows.door`). If not, chunks are converted to it.
    """

    repeats: bool = True
    is_canonical: bool = False
    _seen: bytes | None = None

    def forget(self) -> None:
        self._seen = None

    def read(self, start: int, stop: int) -> Iterator[Chunk]:
        """Rows ``[start, stop)`` in order, in chunks of any size.

        The X of a chunk is an array, CSR or ``Columns``, in canonical form; y is a float64 vector.
        """
        at = start
        for X, y in attempted("reading the rows", self._chunks(start, stop)):
            if not self.is_canonical:
                X, y = self._converted(X, y)
            size = int(X.shape[0])
            if y is not None and len(y) != size:
                raise Refusal(f"a chunk has {size} rows in X and {len(y)} in y")
            yield X, y if self._y is None else self._y[at : at + size]
            at += size
        if at != stop:
            raise Refusal(f"the source gave {at - start} rows where {stop - start} were announced")

    def _converted(self, X: Any, y: Any) -> Chunk:
        """The canonical form of a chunk. After the charge no cell is refused, so cells that are not numbers are missing."""
        rows = as_form(rows_of(X, strict=False), self.is_sparse)
        if rows.shape[1] != self.d:
            raise Refusal(f"a chunk has {rows.shape[1]} columns where {self.d} were announced")
        return rows, None if y is None else self._target_of(y)

    def read_alike(self) -> Iterator[Chunk]:
        """All rows, for a pass that selects some by position; raises at its end if they differ from the first such pass."""
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

    def check_cells(self) -> None:
        from fattail.rows.missing import check_cells

        for X, y in self.read(0, self.n):
            check_cells(X, y)

    def sum(self, job: RowPass, start: int, stop: int, mask: Mask | None) -> Sums | None:
        return job(self.read(start, stop) if job.fold is None else self.read_alike(), start, mask)


class Arrays(Reader):
    """Rows in memory, or in a memory map."""

    is_canonical = True

    def __init__(self, X: Any) -> None:
        self._X = rows_of(X)
        self.n, self.d = (int(k) for k in self._X.shape)
        self.is_sparse = bool(sparse.issparse(self._X))
        if is_frame(X):
            self.columns = text_only(schema_of(X).kinds)

    def holding(self, X: Any, y: NDArray[Any] | None) -> Arrays:
        """Other rows and targets of the same columns."""
        other = copy.copy(self)
        other.hold(X, y)
        return other

    def hold(self, X: Any, y: NDArray[Any] | None) -> None:
        self._X, self._y, self.n = X, y, int(X.shape[0])

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        yield (self._X if stop - start == self.n else self._X[start:stop]), None


def sum_of_parts(parts: Iterable[Sums | None]) -> Sums | None:
    """Sum of the parts that are not None; None if all are."""
    result: Sums | None = None
    for part in parts:
        if result is None:
            result = None if part is None else part.copy()
        elif part is not None:
            result += part
    return result


def in_memory(source: Source) -> Chunk:
    """All rows of a source in one array, dense or CSR."""
    assert isinstance(source, Reader)
    empty_block = source.empty_block()  # for a table without rows
    chunks = list(source.read_alike()) or [(empty_block.X, empty_block.y)]
    rows = [X.dense() if isinstance(X, Columns) else X for X, _ in chunks]
    targets = [y for _, y in chunks if y is not None]
    whole = rows[0] if len(rows) == 1 else sparse.vstack(rows, "csr") if source.is_sparse else np.concatenate(rows)
    return whole, np.concatenate(targets) if targets else None


def window(chunks: Iterable[Chunk], at: int, start: int, stop: int) -> Iterator[Chunk]:
    """Those rows of ``chunks``, the first of which is row ``at``, that lie in ``[start, stop)``."""
    for X, y in chunks:
        size = int(X.shape[0])
        a, b = max(start - at, 0), min(stop - at, size)
        if a < b:
            yield (X, y) if b - a == size else (X[a:b], None if y is None else y[a:b])
        at += size
        if at >= stop:
            return
