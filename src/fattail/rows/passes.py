"""Blocks: the rows of a source, cut into parts of a fixed number of rows whatever the size of its chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail import _kernels
from fattail.rows.frames import FLOATS, Columns
from fattail.rows.order import Fold
from fattail.rows.source import Chunk


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Some consecutive rows, ``y`` if there is one, and where they start.

    ``rows`` keep the memory layout of the source: an array by rows or by columns, separate columns, or CSR.
    ``weight`` is None, or a 0/1 vector that says which persons are in a Poisson sample.
    ``starts`` is None where a row is a person; otherwise person k has the rows ``[starts[k], starts[k + 1])``.
    """

    rows: Any
    y: NDArray[Any] | None
    start: int
    weight: NDArray[np.float64] | None = None
    starts: NDArray[np.int64] | None = None

    @cached_property
    def X(self) -> Any:
        """The rows as a C-ordered array or CSR: products with it have the same bits from every source."""
        return self.rows if sparse.issparse(self.rows) else np.ascontiguousarray(self.rows)

    @property
    def dense(self) -> NDArray[Any]:
        """The rows as a C-ordered array, also if they are stored as CSR."""
        return np.ascontiguousarray(self.X.toarray() if sparse.issparse(self.X) else self.X)

    def table(self, with_y: bool) -> NDArray[Any]:
        """The dense rows, with ``y`` as a last column if asked."""
        return np.column_stack([self.dense, np.asarray(self.y)]) if with_y else self.dense

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def stop(self) -> int:
        return self.start + len(self)

    def dot(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """``X @ w`` in float64; a row's product does not depend on the other rows or on its position."""
        return _kernels.dot(self.X, w)

    def narrowed(self, columns: NDArray[np.intp]) -> Block:
        """The same rows with only these columns, in this order."""
        rows = self.X[:, columns]
        if sparse.issparse(rows):
            rows.sort_indices()
        return replace(self, rows=rows)


@dataclass(frozen=True, eq=False)
class Piece:
    """The parts of chunks from which a block is assembled, on the thread that needs it."""

    parts: list[tuple[Any, Any, int, int]]
    start: int
    mask: NDArray[np.bool_] | None

    def block(self, scratch: dict[Any, NDArray[Any]] | None = None) -> Block:
        """Assemble the rows; blocks that are not kept share the memory in ``scratch``."""
        weight = None if self.mask is None else self.mask.astype(np.float64)
        y = [y[a:b] for _, y, a, b in self.parts if y is not None]
        target = None if not y else y[0] if len(y) == 1 else np.concatenate(y)
        return Block(self._rows({} if scratch is None else scratch), target, self.start, weight)

    def _rows(self, scratch: dict[Any, NDArray[Any]]) -> Any:
        X, _, a, b = self.parts[0]
        if sparse.issparse(X):
            return X[a:b] if len(self.parts) == 1 else sparse.vstack([X[a:b] for X, _, a, b in self.parts], "csr")
        if len(self.parts) == 1 and isinstance(X, np.ndarray) and X.flags.c_contiguous and X.dtype in FLOATS:
            return X[a:b]
        if len(self.parts) == 1 and isinstance(X, Columns) and X.places is not None:
            place, shape = X.places + a * X.dtype.itemsize, (b - a, X.shape[1])
            return _kernels.Apart(place, shape, X.dtype, lambda: self._copied(scratch))
        return self._copied(scratch)

    def _copied(self, scratch: dict[Any, NDArray[Any]]) -> NDArray[Any]:
        """A copy of the rows, in memory that the next piece will use again."""
        X = self.parts[0][0]
        size = sum(b - a for _, _, a, b in self.parts)
        dtype = np.result_type(np.float32, *(X.dtype for X, *_ in self.parts))
        if dtype not in scratch or scratch[dtype].size < size * X.shape[1]:
            scratch[dtype] = np.empty(size * X.shape[1], dtype=dtype)
        out = scratch[dtype][: size * X.shape[1]].reshape((size, X.shape[1]), order="F" if is_column_major(X) else "C")
        at = 0
        for X, _, a, b in self.parts:
            if isinstance(X, Columns):
                X.copy_rows(a, b, out[at : at + b - a])
            else:
                out[at : at + b - a] = X[a:b]
            at += b - a
        return out


def is_column_major(X: Any) -> bool:
    """Whether it is cheaper to copy columns than rows."""
    return isinstance(X, Columns) or (isinstance(X, np.ndarray) and X.strides[0] < X.strides[1])


def picked(chunks: Iterable[Chunk], start: int, fold: Fold, rows: int) -> Iterator[Chunk]:
    """Those rows of ``chunks`` that are in a fold, copied, at most ``rows`` at a time; the first chunk starts at ``start``."""
    at = start
    for X, y in chunks:
        size = int(X.shape[0])
        inside = fold.within(at, at + size)
        for a in range(0, len(inside), rows):
            some = inside[a : a + rows]
            yield X[some], None if y is None else y[some]
        at += size


def cut(chunks: Iterable[Chunk], start: int, rows: int, mask: NDArray[np.bool_] | None = None) -> Iterator[Piece]:
    """Pieces of exactly ``rows`` rows (the last may have fewer), whatever the size of the chunks.

    Rows that wait for the next chunk are copied, so that they do not keep their whole chunk in memory: a piece of a small fold
    may come from a hundred chunks.
    """
    parts: list[tuple[Any, Any, int, int]] = []
    have = 0
    for X, y in chunks:
        if parts:
            parts[-1] = _copy_of_part(*parts[-1])
        a, length = 0, int(X.shape[0])
        while a < length:
            b = min(a + rows - have, length)
            parts.append((X, y, a, b))
            have += b - a
            a = b
            if have == rows:
                yield Piece(parts, start, None if mask is None else mask[:rows])
                parts, have, start = [], 0, start + rows
                mask = None if mask is None else mask[rows:]
    if parts:
        yield Piece(parts, start, mask)


def _copy_of_part(X: Any, y: Any, a: int, b: int) -> tuple[Any, Any, int, int]:
    """A copy of a part of a chunk."""
    return X[a:b].copy(), None if y is None else y[a:b].copy(), 0, b - a
