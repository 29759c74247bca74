"""A progress bar for fits, which listens to the curator's releases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fattail._tools.escape import for_terminal
from fattail._tools.extras import extra
from fattail.privacy.listeners import Progress, watch

__all__ = ["Progress", "progress_bar", "watch"]


@contextmanager
def progress_bar(title: str = "fitting", console: Any = None) -> Iterator[None]:
    """A bar in the terminal or notebook that names each release.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> from fattail.results.progress import progress_bar
    >>> with progress_bar("mean"):
    ...     model = fattail.DPMean().fit(np.ones((2000, 1)))  # doctest: +ELLIPSIS
    mean ...
    """
    rich = extra("rich.progress", "cli")
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("releases; {task.fields[name]}", markup=False),
        rich.TimeElapsedColumn(),  # a pass over a long file takes a while, so the bar also moves between releases
    )
    with rich.Progress(*columns, console=console, transient=console is not None) as bar:
        task = bar.add_task(for_terminal(title), total=None, name="")
        with watch(lambda p: bar.update(task, completed=p.done, total=p.total, name=for_terminal(p.name))):
            yield
