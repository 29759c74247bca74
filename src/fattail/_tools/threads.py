"""A pool of threads, for work that releases the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ContextDecorator
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")

# More than any machine has: a typo must not start a million threads.
_MOST_THREADS = 4096


def thread_count() -> int:
    """The number of threads: ``FATTAIL_NUM_THREADS``, or the number of cores."""
    given = os.environ.get("FATTAIL_NUM_THREADS", "") or str(os.cpu_count() or 1)
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:9]) <= _MOST_THREADS):
        raise ValueError(f"FATTAIL_NUM_THREADS must be a number from 1 to {_MOST_THREADS}, got {given[:20]!r}")
    return int(given)


def start(tasks: Sequence[Callable[[], T]]) -> list[Future[T]]:
    """Hand tasks to the pool of this process."""
    return [_pool(thread_count(), os.getpid()).submit(task) for task in tasks]


def run_parallel(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Results of all tasks. This thread runs the first task, and then those that no other thread has started."""
    others = start(tasks[1:])
    first = tasks[0]()
    return [first, *(task() if other.cancel() else other.result() for task, other in zip(tasks[1:], others, strict=True))]


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """The pool of a process; a forked process gets its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="fattail")


class _OneBlasThread(ContextDecorator):
    """Limit BLAS to one thread while a fit or a pass runs.

    After a product on several threads, BLAS threads keep spinning for a while and slow down a pass that follows. The limit
    applies to the whole process, so nested and parallel uses are counted.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = blas().limit(limits=1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


one_blas_thread = _OneBlasThread()


@lru_cache(maxsize=1)
def blas() -> ThreadpoolController:
    return ThreadpoolController()
