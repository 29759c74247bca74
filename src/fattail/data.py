"""The only holder of raw rows.

Everything an estimator learns goes through ``PrivateData._reduce``: a function sees one
cache-sized block of rows at a time and returns integer partial sums, which are added. The
sums are exact, so blocks, threads and workers cannot change a result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

from fattail.privacy.bounded import Fold, Sample

# A block and what is computed from it should stay in a core's own cache.
BLOCK_BYTES = 1 << 19

Partial = Callable[["Block"], NDArray[np.int64]]


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Some consecutive rows: ``X`` (C-ordered array or CSR), ``y`` if there is one, and where they start.

    ``weight`` is None, or a 0/1 vector that says which rows are in a Poisson sample.
    """

    X: Any
    y: NDArray[Any] | None
    start: int
    weight: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def stop(self) -> int:
        return self.start + len(self)


class PrivateData:
    """Rows of people, readable only through bounded sums.

    Parameters
    ----------
    X : array of shape (n, d), dense or CSR
        float32 or float64; any memory layout.
    y : array of shape (n,), optional
    block_bytes : int
        Size of the blocks handed to partial sums. Changes speed, never a result.
    """

    def __init__(self, X: Any, y: NDArray[Any] | None = None, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._X: Any = X.tocsr() if sparse.issparse(X) else np.asarray(X)
        self._y = None if y is None else np.asarray(y)
        self.n, self.d = (int(k) for k in self._X.shape)
        if self._y is not None and len(self._y) != self.n:
            raise ValueError(f"X has {self.n} rows and y has {len(self._y)}")
        self._block_rows = max(1, block_bytes // max(1, self._row_bytes()))

    @property
    def is_sparse(self) -> bool:
        return bool(sparse.issparse(self._X))

    def folds(self, count: int) -> tuple[Fold, ...]:
        """``count`` disjoint blocks of consecutive rows, sizes equal to within one row."""
        if not 1 <= count <= self.n:
            raise ValueError(f"cannot split {self.n} rows into {count} folds")
        edges = [k * self.n // count for k in range(count + 1)]
        return tuple(Fold(k, count, edges[k], edges[k + 1]) for k in range(count))

    def size(self, rows: Fold | Sample | None = None) -> float:
        """Rows in a fold; expected rows of a Poisson sample (the actual number is secret)."""
        if isinstance(rows, Sample):
            return self.n * rows.rate
        return self.n if rows is None else len(rows)

    def _reduce(self, partial: Partial, rows: Fold | Sample | None = None) -> NDArray[np.int64]:
        """Sum of ``partial(block)`` over all blocks, exactly."""
        spans = self._spans(rows)
        threads = min(_threads(), len(spans))
        with _blas().limit(limits=1):  # the threads are ours; BLAS must not add its own
            if threads == 1:
                return _add(partial(self._block(span, rows)) for span in spans)
            with ThreadPoolExecutor(threads) as pool:
                return _add(pool.map(lambda span: partial(self._block(span, rows)), spans))

    def _gather(self, compute: Callable[[Block], NDArray[Any]], rows: Fold | None = None) -> NDArray[Any]:
        """Row-wise values, concatenated; for order statistics, which are not sums."""
        return np.concatenate([compute(self._block(span, rows)) for span in self._spans(rows)])

    def _spans(self, rows: Fold | Sample | None) -> list[tuple[int, int]]:
        start, stop = (rows.start, rows.stop) if isinstance(rows, Fold) else (0, self.n)
        return [(a, min(a + self._block_rows, stop)) for a in range(start, stop, self._block_rows)]

    def _block(self, span: tuple[int, int], rows: Fold | Sample | None) -> Block:
        a, b = span
        X = self._X[a:b] if self.is_sparse else np.ascontiguousarray(self._X[a:b])
        weight = rows._mask[a:b].astype(np.float64) if isinstance(rows, Sample) else None
        return Block(X, None if self._y is None else self._y[a:b], a, weight)

    def _row_bytes(self) -> int:
        if self.is_sparse:
            return 12 * int(self._X.nnz) // max(self.n, 1) + 8
        return self.d * int(self._X.dtype.itemsize)

    def __repr__(self) -> str:
        return f"PrivateData(n={self.n}, d={self.d}, sparse={self.is_sparse})"

    def __reduce__(self) -> Any:
        raise TypeError("raw rows are not pickled")


def _add(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    return reduce(np.add, parts)


def _threads() -> int:
    return int(os.environ.get("FATTAIL_NUM_THREADS", os.cpu_count() or 1))


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()
