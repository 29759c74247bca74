"""Threads that stay, for work that lets go of the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ContextDecorator
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")

# More than any machine has; a slip of the keyboard must not start a million.
_MOST_THREADS = 4096


def thread_count() -> int:
    """As many as there are cores, unless ``FATTAIL_NUM_THREADS`` says otherwise."""
    given = os.environ.get("FATTAIL_NUM_THREADS", "") or str(os.cpu_count() or 1)
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:9]) <= _MOST_THREADS):
        raise ValueError(f"FATTAIL_NUM_THREADS must be a number from 1 to {_MOST_THREADS}, got {given[:20]!r}")
    return int(given)


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Results of all tasks: the first is done here, and so is what no other thread has begun by then."""
    others = [_pool(thread_count(), os.getpid()).submit(task) for task in tasks[1:]]
    first = tasks[0]()
    return [first, *(task() if other.cancel() else other.result() for task, other in zip(tasks[1:], others, strict=True))]


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """A forked process gets its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="fattail")


class _OneBlasThread(ContextDecorator):
    """BLAS on one thread while a fit or a pass runs: the threads are ours.

    After one product on many threads the others spin for a while, in case there is another, and take the cores
    from a pass that follows. The setting is the process's, so passes on several threads of a worker must count.
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
