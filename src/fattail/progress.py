"""Watching a fit at work: callbacks that see released values only, and a progress bar built on them.

Nothing is computed for a watcher. The curator tells it what it has just let out, which is
public by then, so watching costs no budget and works for every estimator.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.results.escape import for_terminal


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
    >>> from fattail.progress import watch
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


@contextmanager
def progress_bar(title: str = "fitting", console: Any = None) -> Iterator[None]:
    """A bar in the terminal or notebook that names each release.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> from fattail.progress import progress_bar
    >>> with progress_bar("mean"):
    ...     model = fattail.DPMean().fit(np.ones((2000, 1)))  # doctest: +ELLIPSIS
    mean ...
    """
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("releases; {task.fields[name]}", markup=False),
        TimeElapsedColumn(),  # a pass over a long file takes a while, and something should move meanwhile
    )
    with Bar(*columns, console=console, transient=console is not None) as bar:
        task = bar.add_task(for_terminal(title), total=None, name="")
        with watch(lambda p: bar.update(task, completed=p.done, total=p.total, name=for_terminal(p.name))):
            yield
