"""The only holder of raw rows.

Everything an estimator learns goes through ``PrivateData._reduce``: a function sees one
cache-sized block of rows at a time and returns integer partial sums, which are added. The
sums are exact, so blocks, threads and workers cannot change a result. Where the rows come
from is the business of `fattail.sources`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.passes import Block, Job, Partial, cut, kept_at, kept_before, thinned
from fattail.privacy.bounded import Fold, Sample
from fattail.rows.labels import Labels
from fattail.sources import Arrays, Reader, as_source

__all__ = ["BLOCK_BYTES", "Block", "PrivateData", "block_rows"]

# Measured: smaller blocks pay for the interpreter (half as fast at 256 kB), larger ones leave the cache.
BLOCK_BYTES = 1 << 22
# Wide rows leave it anyway, and blocks of few of them pay for vectors of sums that are as wide.
WIDE_ROWS, WIDE_BYTES = 128, 1 << 25
# Thinned rows up to this size are worth their memory, since a stream must be read to its end to find them.
KEEP_BYTES = 1 << 26
# Rows of a block are a multiple of this: BLAS multiplies rows in such groups, and a row's
# product with a vector should not depend on where the blocks were cut.
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
    X : array of shape (n, d), CSR matrix, data frame, or any source that `fattail.sources` knows
        float32 or float64 in any memory layout; other numbers are converted block by block.
    y : array of shape (n,) or column name, optional
    labels : Labels, optional
        The two classes that y holds; behind the door they are 0 and 1.
    block_bytes : int, optional
        Size of the blocks handed to partial sums. Changes speed, never a result.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.data import PrivateData
    >>> PrivateData(np.zeros((10, 3)))
    PrivateData(n=10, d=3, sparse=False)
    """

    def __init__(self, X: Any, y: Any = None, *, labels: Labels | None = None, block_bytes: int | None = None) -> None:
        self._source = as_source(X, y, labels)
        self.n, self.d = self._source.n, self._source.d
        self._stride = 1
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
        other = PrivateData(self._source, labels=labels)
        other._block_rows, other._stride, other.n = self._block_rows, self._stride, self.n
        return other

    def folds(self, count: int) -> tuple[Fold, ...]:
        """``count`` disjoint blocks of consecutive rows, sizes equal to within one row."""
        if not 1 <= count <= self.n:
            raise ValueError(f"cannot split {self.n} rows into {count} folds")
        edges = [k * self.n // count for k in range(count + 1)]
        return tuple(Fold(k, count, edges[k], edges[k + 1]) for k in range(count))

    def every(self, stride: int) -> PrivateData:
        """Every ``stride``-th group of a few hundred rows, as data of their own; nothing is copied.

        Which rows these are depends on their positions alone, so replacing a row of all the data
        replaces at most one of them.
        """
        other = PrivateData(self._source)
        other._block_rows, other._stride, other.n = self._block_rows, self._stride * stride, kept_before(self.n, stride)
        return other

    def kept(self) -> PrivateData:
        """The same rows, for a method that passes over them often: copied once, if they are few among many of a stream."""
        source = self._source
        if not isinstance(source, Reader) or isinstance(source, Arrays):
            return self
        if self._stride == 1 or self.n * source.row_bytes > KEEP_BYTES:
            return self
        (piece,) = cut(*thinned(source.read(0, source.n), 0, self._stride), self.n)
        block = piece.block()
        other = PrivateData(block.rows, block.y)
        other._block_rows = self._block_rows
        return other

    def size(self, rows: Fold | Sample | None = None) -> float:
        """Rows in a fold; expected rows of a Poisson sample (the actual number is secret)."""
        if isinstance(rows, Sample):
            return self.n * rows.rate
        return self.n if rows is None else len(rows)

    def _reduce(self, partial: Partial, rows: Fold | Sample | None = None) -> NDArray[np.int64]:
        """Sum of ``partial(block)`` over all blocks, exactly."""
        mask = rows._mask if isinstance(rows, Sample) else None
        if mask is not None and self._stride > 1:
            raise ValueError("a Poisson sample is drawn from all rows")
        start, stop = self._positions(rows if isinstance(rows, Fold) else None)
        result = self._source.sum(Job(partial, self._block_rows, self._stride), start, stop, mask)
        if result is None:
            raise ValueError("there are no rows to add up")
        return result

    def _positions(self, rows: Fold | None) -> tuple[int, int]:
        """Where the source's rows for a fold start and stop."""
        start, stop = (0, self.n) if rows is None else (rows.start, rows.stop)
        return kept_at(start, self._stride), min(kept_at(stop, self._stride), self._source.n)

    def check_in_memory(self, who: str) -> None:
        """Refuse a stream to a method that needs more than sums over rows."""
        if not isinstance(self._source, Arrays):
            kind = type(self._source).__name__
            raise ValueError(
                f"{who} needs all rows at once, as order statistics do, not sums over blocks: "
                f"it takes arrays in memory, not {kind} data"
            )

    def _gather(self, compute: Callable[[Block], NDArray[Any]], rows: Fold | None = None) -> NDArray[Any]:
        """Row-wise values, concatenated; for order statistics, which are not sums."""
        self.check_in_memory("this method")
        assert isinstance(self._source, Arrays)
        start, stop = self._positions(rows)
        pieces = cut(*thinned(self._source.read(start, stop), start, self._stride), self._block_rows)
        return np.concatenate([compute(piece.block()) for piece in pieces])

    def __repr__(self) -> str:
        return f"PrivateData(n={self.n}, d={self.d}, sparse={self.is_sparse})"

    def __reduce__(self) -> Any:
        raise TypeError("raw rows are not pickled")
