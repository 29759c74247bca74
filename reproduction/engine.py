"""Runs panels: cells are computed once, kept as they finish, and shared by two processes.

A task is one data set (panel, grid point, trial); all methods of the panel run on it, so they
are compared on the same rows and the rows are made once.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reproduction.spec import Method, Panel, Steps, TrialData, apply, cell, name_of, seed_of, text, used
from reproduction.store import Outcome, Store

Task = tuple[Panel, dict[str, Any], int, tuple[Method, ...]]
Results = list[tuple[str, Outcome]]

_SINGLE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "FATTAIL_NUM_THREADS"), "1")


def missing(panels: Sequence[Panel], store: Store) -> Iterator[Task]:
    """Tasks that have cells without a result; all points of a trial together, since they may share its rows."""
    planned: set[tuple[str, int]] = set()
    for panel in panels:
        for trial in range(panel.trials):
            for setting in panel.points():
                todo = []
                for method in panel.methods:
                    key = (cell(panel, method, setting), trial)
                    if key not in planned and store.get(*key) is None:
                        planned.add(key)
                        todo.append(method)
                if todo:
                    yield panel, setting, trial, tuple(todo)


def run(panels: Sequence[Panel], store: Store, *, workers: int = 2, show: bool = True) -> list[str]:
    """Compute what is missing; give the failures, one line each (they are tried again next time)."""
    tasks = list(missing(panels, store))
    failures: list[str] = []

    def keep(task: Task, done: Results, failed: list[str]) -> None:
        store.put(task[2], done)
        failures.extend(failed)

    with _progress(len(tasks), show) as advance:
        if workers == 0:
            for task in tasks:
                advance(task[0].key, 0)
                keep(task, *solve(task))
                advance(task[0].key, 1)
            return failures
        with _environment(), ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            queue = iter(tasks)
            running: dict[Future[tuple[Results, list[str]]], Task] = {}
            try:
                while True:
                    for task in queue:  # a short queue, so that an interrupt loses little
                        running[pool.submit(solve, task)] = task
                        if len(running) >= 2 * workers:
                            break
                    if not running:
                        return failures
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        task = running.pop(future)
                        keep(task, *future.result())
                        advance(task[0].key, 1)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def solve(task: Task) -> tuple[Results, list[str]]:
    """Run the methods of one task; a method that raises has no result, and says why."""
    panel, setting, trial, methods = task
    done: Results = []
    failed: list[str] = []
    problem = _problem(panel.problem, text(used(panel.problem, setting)), trial)
    for method in methods:
        start = time.process_time()  # of this process: other work on the machine does not count
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # seeded noise is what an experiment wants, and is said on the page
                answer = apply(method.run, setting, problem, seed_of(cell(panel, method, setting), trial))
        except Exception as error:
            failed.append(f"{panel.key}, {method.label}: {type(error).__name__}: {error}")
            continue
        done.append((cell(panel, method, setting), judge(problem, answer, time.process_time() - start)))
    return done, failed


def judge(problem: TrialData, answer: Any, seconds: float) -> Outcome:
    """Errors of an answer, one per iteration where it has several."""
    after, rows = answer if isinstance(answer, Steps) else ((), answer)
    rows = np.atleast_2d(np.asarray(rows, dtype=float))
    errors = [problem.error(row) for row in rows]
    selected = [problem.names[j] for j in np.flatnonzero(rows[-1][: len(problem.names)])]
    return Outcome([e if math.isfinite(e) else 1e12 for e in errors], selected, seconds, list(after))


@lru_cache(maxsize=1)
def _problem(make: Callable[..., TrialData], setting: str, trial: int) -> TrialData:
    """The data depend on their own settings and the trial only: every epsilon sees the same rows."""
    rng = np.random.default_rng(seed_of(name_of(make), setting, trial))
    problem: TrialData = make(rng, **json.loads(setting))
    return problem


@contextmanager
def _environment() -> Iterator[None]:
    """One thread in each worker; the processes are the parallelism."""
    before = {k: os.environ.get(k) for k in _SINGLE_THREAD}
    os.environ.update(_SINGLE_THREAD)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


@contextmanager
def _progress(total: int, show: bool) -> Iterator[Callable[[str, int], None]]:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        disable=not show,
    )
    with bar:
        job = bar.add_task("starting", total=total)
        yield lambda key, step: bar.update(job, advance=step, description=f"{key:20s}")
