"""Callbacks that are told of each release as it happens; they see released values only.

Nothing is computed for a listener. The curator passes on what it has just released, which is public, so listening costs no
budget and works for every estimator.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Progress:
    """One release as it happens.

    Attributes
    ----------
    name : str
        What was released, in the words of the report.
    done, total : int
        Releases of this fit so far, and planned.
    value : array
        A copy of the released value.
    """

    name: str
    done: int
    total: int
    value: NDArray[Any]


Watcher = Callable[[Progress], None]
_watchers: contextvars.ContextVar[tuple[Watcher, ...]] = contextvars.ContextVar("fattail_watchers", default=())


@contextmanager
def watch(watcher: Watcher) -> Iterator[None]:
    """Call ``watcher`` after every release inside the ``with`` block.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> from fattail.results.progress import watch
    >>> X = np.random.default_rng(0).standard_t(3, (5000, 2))
    >>> seen = []
    >>> with watch(seen.append):
    ...     model = fattail.DPHuberRegressor(random_state=0).fit(X, X @ [1.0, 2.0])
    >>> seen[-1].done == seen[-1].total == sum(r.count for r in model.privacy_.releases)
    True
    """
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def announce(name: str, done: int, total: int, value: NDArray[Any]) -> None:
    """Tell the watchers of a release; for the curator."""
    for watcher in _watchers.get():
        watcher(Progress(name, done, total, np.array(value)))
