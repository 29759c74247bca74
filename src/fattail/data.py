"""The only holder of raw rows.

Everything an estimator learns goes through ``PrivateData._reduce``: a function sees one
cache-sized block of rows at a time and returns integer partial sums, which are added. The
sums are exact, so blocks, threads and workers cannot change a result. Where the rows come
from is the business of `fattail.sources`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from functools import partial as bind
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

from fattail.privacy.bounded import Fold, Sample
from fattail.sources import Arrays, Chunk, as_source, total
from fattail.tables import FLOATS

# A block and what is computed from it should stay in a core's own cache.
BLOCK_BYTES = 1 << 19
# Rows of a block are a multiple of this: BLAS multiplies rows in such groups, and a row's
# product with a vector should not depend on where the blocks were cut.
ROW_GROUP = 16
# Fewer blocks than this are not worth waking another thread.
MIN_THREADED = 8

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
    X : array of shape (n, d), CSR matrix, data frame, or any source that `fattail.sources` knows
        float32 or float64 in any memory layout; other numbers are converted block by block.
    y : array of shape (n,) or column name, optional
    block_bytes : int
        Size of the blocks handed to partial sums. Changes speed, never a result.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.data import PrivateData
    >>> PrivateData(np.zeros((10, 3)))
    PrivateData(n=10, d=3, sparse=False)
    """

    def __init__(self, X: Any, y: Any = None, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._source = as_source(X, y)
        self.n, self.d = self._source.n, self._source.d
        rows = block_bytes // max(1, self._source.row_bytes)
        self._block_rows = int(np.clip(rows - rows % ROW_GROUP, ROW_GROUP, 1 << 20))

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
        start, stop = (rows.start, rows.stop) if isinstance(rows, Fold) else (0, self.n)
        mask = rows._mask if isinstance(rows, Sample) else None
        return self._source.sum(Job(partial, self._block_rows), start, stop, mask)

    def _gather(self, compute: Callable[[Block], NDArray[Any]], rows: Fold | None = None) -> NDArray[Any]:
        """Row-wise values, concatenated; for order statistics, which are not sums."""
        if not isinstance(self._source, Arrays):
            raise ValueError(
                "this method needs order statistics of all rows, which are not sums over blocks: "
                f"it takes arrays in memory, not {type(self._source).__name__} data"
            )
        start, stop = (0, self.n) if rows is None else (rows.start, rows.stop)
        blocks = cut(self._source.read(start, stop), start, self._block_rows)
        return np.concatenate([compute(block()) for block in blocks])

    def __repr__(self) -> str:
        return f"PrivateData(n={self.n}, d={self.d}, sparse={self.is_sparse})"

    def __reduce__(self) -> Any:
        raise TypeError("raw rows are not pickled")


@dataclass(frozen=True, eq=False)
class Job:
    """One pass: add ``partial`` over the blocks of some consecutive rows.

    It holds public parameters only, so it may travel to where the rows are.
    """

    partial: Partial
    block_rows: int

    def __call__(
        self, chunks: Iterable[Chunk], start: int, mask: NDArray[np.bool_] | None = None, threads: int | None = None
    ) -> NDArray[np.int64] | None:
        """Sum over ``chunks``, whose first row has position ``start``; None if they are empty.

        ``mask`` covers the same rows. Threads take the next block from one iterator: the
        sum is one of integers, so who adds what does not matter.
        """
        blocks = cut(chunks, start, self.block_rows, mask)
        with _blas_limit:
            head = list(islice(blocks, MIN_THREADED))
            threads = (threads or _threads()) if len(head) == MIN_THREADED else 1
            shared = _Shared(chain(head, blocks))
            others = [_pool(threads, os.getpid()).submit(shared.drain, self.partial) for _ in range(threads - 1)]
            mine = shared.drain(self.partial)
            return total([mine, *(other.result() for other in others if not other.cancel())])


def cut(chunks: Iterable[Chunk], start: int, rows: int, mask: NDArray[np.bool_] | None = None) -> Iterator[Callable[[], Block]]:
    """Blocks of exactly ``rows`` rows (but for the last), wherever the chunks end.

    A block is copied out of its chunks when it is called, on the thread that needs it.
    """
    parts: list[tuple[Any, Any, int, int]] = []
    have = 0
    for X, y in chunks:
        a, length = 0, int(X.shape[0])
        while a < length:
            b = min(a + rows - have, length)
            parts.append((X, y, a, b))
            have += b - a
            a = b
            if have == rows:
                yield bind(_block, parts, start, None if mask is None else mask[:rows])
                parts, have, start = [], 0, start + rows
                mask = None if mask is None else mask[rows:]
    if parts:
        yield bind(_block, parts, start, mask)


def _block(parts: list[tuple[Any, Any, int, int]], start: int, mask: NDArray[np.bool_] | None) -> Block:
    X = [_rows(X, a, b) for X, _, a, b in parts]
    y = [y[a:b] for _, y, a, b in parts if y is not None]
    weight = None if mask is None else mask.astype(np.float64)
    if len(X) == 1:
        return Block(X[0], y[0] if y else None, start, weight)
    stack = sparse.vstack(X, "csr") if sparse.issparse(X[0]) else np.concatenate(X)
    return Block(stack, np.concatenate(y) if y else None, start, weight)


def _rows(X: Any, a: int, b: int) -> Any:
    part = X[a:b]
    if sparse.issparse(part):
        return part
    return np.ascontiguousarray(part, dtype=part.dtype if part.dtype in FLOATS else np.float64)


class _Shared:
    """An iterator of blocks that several threads drain."""

    def __init__(self, blocks: Iterator[Callable[[], Block]]) -> None:
        self._blocks, self._lock = blocks, threading.Lock()

    def __iter__(self) -> Iterator[Callable[[], Block]]:
        return self

    def __next__(self) -> Callable[[], Block]:
        with self._lock:
            return next(self._blocks)

    def drain(self, partial: Partial) -> NDArray[np.int64] | None:
        try:
            return total(partial(block()) for block in self)
        except BaseException:
            self._blocks = iter(())  # the other threads need not go on
            raise


class _BlasLimit:
    """BLAS on one thread while any pass runs: the threads are ours.

    The setting is the process's, so passes on several threads of a worker must count.
    """

    def __init__(self) -> None:
        self._lock, self._passes = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._passes == 0:
                self._limit = _blas().limit(limits=1)
            self._passes += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._passes -= 1
            if self._passes == 0:
                self._limit.restore_original_limits()


_blas_limit = _BlasLimit()


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that stay; a forked process gets its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="fattail")


def _threads() -> int:
    return int(os.environ.get("FATTAIL_NUM_THREADS", os.cpu_count() or 1))
