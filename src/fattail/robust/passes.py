"""One pass over the rows: blocks in, exact integer sums out, on several threads.

``sum_over_blocks`` is how every bounded sum reads the rows. `fattail.rows` cuts them into blocks, a function computes an integer
vector for each block, and the vectors are added. The sums are exact, so blocks, threads and workers cannot change a result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.threads import one_blas_thread, start, thread_count
from fattail.rows.data import PrivateData
from fattail.rows.order import Fold, Sample
from fattail.rows.passes import Block, cut, picked
from fattail.rows.source import Chunk, Mask, Sums, sum_of_parts

# Least number of blocks for which several threads are used.
MIN_THREADED = 4

Partial = Callable[[Block], NDArray[np.int64]]


def sum_over_blocks(data: PrivateData, partial: Partial, rows: Fold | Sample | None = None) -> Sums:
    """Sum of ``partial(block)`` over all blocks, exactly.

    Parameters
    ----------
    data : PrivateData
    partial : callable
        An integer vector of a block. Apart from the block it may depend on public values only.
    rows : Fold or Sample, optional
        All rows by default.
    """
    fold, mask = data._selected(rows)
    job = Job(partial, data._block_rows, fold, data._chosen)
    chunks = data._chunks(fold)
    # Where the rows are not in this process (or belong to persons) the source runs the job.
    result = data._source.sum(job, 0, data._source.n, mask) if chunks is None else job(chunks, 0, mask)
    return partial(data._empty_block()) if result is None else result


@dataclass(frozen=True, eq=False)
class Job:
    """The sum of ``partial`` over blocks of consecutive rows, or of those of them that are in a fold.

    It holds public parameters and the fold's secret key, but no rows, so it can be sent to a worker that holds rows.
    """

    partial: Partial
    block_rows: int
    fold: Fold | None = None
    columns: NDArray[np.intp] | None = None

    def __call__(self, chunks: Iterable[Chunk], start: int, mask: Mask | None = None, threads: int | None = None) -> Sums | None:
        """Sum over ``chunks``, whose first row has position ``start``; None if they are empty. ``mask`` covers the same rows."""
        if self.fold is not None:
            chunks = picked(chunks, start, self.fold, self.block_rows)
        return self.over(cut(chunks, start, self.block_rows, mask), threads)

    def over(self, pieces: Iterator[Any], threads: int | None = None) -> Sums | None:
        """Sum over pieces, each of which assembles its block; None if there are none.

        Threads take the next piece from one iterator.
        """
        with one_blas_thread:
            head = list(islice(pieces, MIN_THREADED))
            threads = (threads or thread_count()) if len(head) == MIN_THREADED else 1
            shared = _Shared(chain(head, pieces))
            others = start([lambda: self._drain(shared)] * (threads - 1))
            own = self._drain(shared)
            # No pieces are left, so a thread that has not started has nothing to do.
            return sum_of_parts([own, *(other.result() for other in others if not other.cancel())])

    def _drain(self, pieces: _Shared) -> Sums | None:
        """The sum over the pieces that this thread takes; None if it takes none."""
        sums: Sums | None = None
        scratch: dict[Any, NDArray[Any]] = {}
        try:
            for piece in pieces:
                block = piece.block(scratch)
                part = self.partial(block if self.columns is None else block.narrowed(self.columns))
                if sums is None:
                    sums = part.copy()
                else:
                    sums += part
            return sums
        except BaseException:
            pieces.stop()
            raise


class _Shared:
    """Pieces that several threads take one by one."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces, self._lock = pieces, threading.Lock()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._lock:
            return next(self._pieces)

    def stop(self) -> None:
        """Leave nothing for the other threads."""
        self._pieces = iter(())
