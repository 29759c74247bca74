"""The only holder of raw rows.

Everything an estimator learns goes through ``PrivateData._reduce``: a function sees one
cache-sized block of rows at a time and returns integer partial sums, which are added. The
sums are exact, so blocks, threads and workers cannot change a result. Where the rows come
from is the business of `fattail.rows.sources`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.rows.classes import Labels
from fattail.rows.door import Refusal
from fattail.rows.order import Fold, Sample
from fattail.rows.passes import Block, Job, Partial, cut, picked
from fattail.rows.sources import Arrays, Reader, as_source

__all__ = ["BLOCK_BYTES", "Block", "PrivateData", "block_rows"]

# Measured: smaller blocks pay for the interpreter (half as fast at 256 kB), larger ones leave the cache.
BLOCK_BYTES = 1 << 22
# Wide rows leave it anyway, and blocks of few of them pay for vectors of sums that are as wide.
WIDE_ROWS, WIDE_BYTES = 128, 1 << 25
# A subset of the rows up to this size is worth its memory: it is found by reading all of them.
KEEP_BYTES = 1 << 27
# Sums of integers below 7 * 2**30, one for each row, stay within 64 bits.
MOST_ROWS = 1 << 30
# Rows of a block are a multiple of this: kernels take rows in small groups, and leftovers cost more.
ROW_GROUP = 16


def block_rows(row_bytes: int, block_bytes: int | None = None) -> int:
    """Rows of a block of about ``block_bytes``, by default what is fast."""
    row_bytes = max(1, row_bytes)
    rows = (block_bytes or max(BLOCK_BYTES, min(WIDE_ROWS * row_bytes, WIDE_BYTES))) // row_bytes
    return int(np.clip(rows - rows % ROW_GROUP, ROW_GROUP, 1 << 20))


class PrivateData:
    """Rows of people, readable only through bounded sums.

    Parameters
    ----------
    X : array of shape (n, d), CSR matrix, data frame, or any source that `fattail.rows.sources` knows
        float32 or float64 in any memory layout; other numbers are converted block by block.
    y : array of shape (n,) or column name, optional
    labels : Labels, optional
        The two classes that y holds; behind the door they are 0 and 1.
    block_bytes : int, optional
        Size of the blocks handed to partial sums. Changes speed, never a result.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.rows.data import PrivateData
    >>> PrivateData(np.zeros((10, 3)))
    PrivateData(n=10, d=3, sparse=False)
    """

    def __init__(self, X: Any, y: Any = None, *, labels: Labels | None = None, block_bytes: int | None = None) -> None:
        self._source = as_source(X, y, labels)
        self.n, self.d = self._source.n, self._source.d
        if self.n > MOST_ROWS:
            raise Refusal(f"sums are exact for at most {MOST_ROWS:,} rows, got {self.n:,}")
        self._fold: Fold | None = None  # the rows that count, if not all of the source's
        self._copied: Fold | None = None  # the rows that the source holds, in their secret order
        self._block_rows = block_rows(self._source.row_bytes, block_bytes)

    @property
    def is_sparse(self) -> bool:
        return self._source.is_sparse

    @property
    def has_target(self) -> bool:
        return self._source.has_target

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, where the source has them."""
        return self._source.columns

    def with_labels(self, labels: Labels) -> PrivateData:
        """The same rows, their target read as labels."""
        return self._like(PrivateData(self._source, labels=labels))

    def for_one_fit(self) -> PrivateData:
        """The same rows, without what a source remembers of earlier fits."""
        return self._like(PrivateData(self._source.for_one_fit()))

    def _like(self, other: PrivateData) -> PrivateData:
        other.n, other._block_rows, other._fold, other._copied = self.n, self._block_rows, self._fold, self._copied
        return other

    def part(self, fold: Fold) -> PrivateData:
        """The rows of a fold as data of their own: copied in their secret order, unless that takes much memory."""
        if len(fold) == self.n:
            return self
        held = self._fold or self._copied
        if held is not None and not held.contains(fold):
            raise ValueError("these are not all of the fold's rows")
        if self._copied is not None:
            return self._sliced(fold)
        other = PrivateData(self._source)
        other.n, other._block_rows, other._fold = len(fold), self._block_rows, fold
        if isinstance(self._source, Reader) and len(fold) * self._source.row_bytes <= KEEP_BYTES:
            return other._gathered()
        return other

    def _sliced(self, fold: Fold) -> PrivateData:
        """Rows in the order of their ranks: those of a fold inside theirs follow one another."""
        assert self._copied is not None and isinstance(self._source, Arrays)
        first = fold.start - self._copied.start
        ((X, y),) = self._source.read(first, first + len(fold))
        return self._holding(X, y, fold)

    def _gathered(self) -> PrivateData:
        """A copy of the rows that count."""
        assert self._fold is not None and isinstance(self._source, Reader)
        positions = self._fold.positions()
        if isinstance(self._source, Arrays):
            ((X, y),) = self._source.read(0, self._source.n)
            chunks = iter([(X[positions], None if y is None else y[positions])])
            order: Any = slice(None)
        else:
            chunks = picked(self._source.read_alike(), 0, self._fold, self._source.n)
            order = np.searchsorted(np.sort(positions), positions)
        (piece,) = cut(chunks, 0, self.n)
        block = piece.block()
        return self._holding(block.X[order], None if block.y is None else block.y[order], self._fold)

    def _holding(self, X: Any, y: Any, fold: Fold) -> PrivateData:
        other = PrivateData(X, y)
        other._block_rows, other._copied = self._block_rows, fold
        return other

    def size(self, rows: Fold | Sample | None = None) -> float:
        """Rows in a fold; expected rows of a Poisson sample (the actual number is secret)."""
        if isinstance(rows, Sample):
            return self.n * rows.rate
        return self.n if rows is None else len(rows)

    def _reduce(self, partial: Partial, rows: Fold | Sample | None = None) -> NDArray[np.int64]:
        """Sum of ``partial(block)`` over all blocks, exactly."""
        mask = rows._mask if isinstance(rows, Sample) else None
        fold = self._counting(rows if isinstance(rows, Fold) else None)
        if mask is not None and (fold is not None or len(mask) != self._source.n):
            raise ValueError("a Poisson sample is drawn from all rows")
        result = self._source.sum(Job(partial, self._block_rows, fold), 0, self._source.n, mask)
        if result is None:
            raise ValueError("there are no rows to add up")
        return result

    def _counting(self, fold: Fold | None) -> Fold | None:
        """Which of the source's rows to look at; all if None."""
        if fold is not None and (self._fold or self._copied):
            raise ValueError("folds are drawn from all rows")
        return self._fold if fold is None else fold

    def check_in_memory(self, who: str) -> None:
        """Refuse a stream to a method that needs more than sums over rows."""
        if not isinstance(self._source, Arrays):
            kind = type(self._source).__name__
            raise ValueError(
                f"{who} needs all rows at once, as order statistics do, not sums over blocks: "
                f"it takes arrays in memory, not {kind} data"
            )

    def _gather(self, compute: Callable[[Block], NDArray[Any]], rows: Fold | None = None) -> NDArray[Any]:
        """Row-wise values, concatenated; for order statistics, which are not sums.

        Those of a fold are in their secret order, so that what is done with them in turn does not depend on the table's.
        """
        self.check_in_memory("this method")
        assert isinstance(self._source, Arrays)
        fold = self._counting(rows)
        chunks = self._source.read(0, self._source.n)
        if fold is not None:
            ((X, y),) = chunks
            order = fold.positions()
            parts = (order[a : a + self._block_rows] for a in range(0, len(order), self._block_rows))
            chunks = ((X[part], None if y is None else y[part]) for part in parts)
        return np.concatenate([compute(piece.block()) for piece in cut(chunks, 0, self._block_rows)])

    def __repr__(self) -> str:
        return f"PrivateData(n={self.n}, d={self.d}, sparse={self.is_sparse})"

    def __reduce__(self) -> Any:
        raise TypeError("raw rows are not pickled")
