"""One budget for threads, processes, tasks and copies."""

import asyncio
import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import fattail
from fattail.privacy import Budget, BudgetExceededError, Curator, Ledger
from fattail.privacy import Gaussian as GaussianRelease
from fattail.privacy import budget as module
from fattail.privacy import events as ev

EPSILON, DELTA = 1.2, 1e-7  # room for one fit at epsilon 1 and the same delta


def fit(_=None):
    """Plan a release at epsilon 1: 1 if it was admitted, 0 if the budget refused."""
    try:
        Curator(1.0, DELTA, random_state=0, label="fit").plan(GaussianRelease("total"))
    except BudgetExceededError:
        return 0
    return 1


def put(queue, action=fit):
    queue.put(action())


def by_threads():
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(fit, range(5)))


def by_bare_threads():
    done = []
    threads = [threading.Thread(target=lambda: done.append(fit())) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def by_joblib(backend):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(fit)(i) for i in range(5))


def by_processes(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn about forks with threads
        workers = [context.Process(target=put, args=(queue,)) for _ in range(3)]
        for worker in workers:
            worker.start()
    done = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    return done


def by_tasks():
    async def one():
        return fit()

    async def all_of_them():
        tasks = [one() for _ in range(3)] + [asyncio.to_thread(fit) for _ in range(2)]
        return await asyncio.gather(*tasks)

    return asyncio.run(all_of_them())


def by_a_program():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_budget; print(test_budget.fit())"
    command = [sys.executable, "-c", code, __file__.rpartition("/")[0]]
    return [int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(2)]


WAYS = {
    "thread pool": by_threads,
    "threads": by_bare_threads,
    "joblib threads": lambda: by_joblib("threading"),
    "fork": lambda: by_processes("fork"),
    "spawn": lambda: by_processes("spawn"),
    "tasks": by_tasks,
    "program": by_a_program,
}
SLOW = {"spawn", "program"}  # new interpreters


@pytest.mark.parametrize(
    "way", [pytest.param(way, id=name, marks=[pytest.mark.slow] if name in SLOW else []) for name, way in WAYS.items()]
)
def test_all_charge_one_budget(way):
    with Budget(EPSILON, DELTA) as budget:
        assert sum(way()) == 1
    assert len(budget.history) == 1 and 0.9 < budget.spent <= EPSILON
    assert fit() == 1  # outside, nobody counts
    assert len(budget.history) == 1


@pytest.mark.slow
def test_workers_that_were_there_before_charge_too():
    """Loky keeps its workers between calls: they do not start inside the block."""
    assert sum(by_joblib("loky")) == 5
    with Budget(EPSILON, DELTA) as budget:
        assert sum(by_joblib("loky")) == 1
    assert len(budget.history) == 1
    assert sum(by_joblib("loky")) == 5


def test_a_grid_search_in_processes_spends_the_budget():
    X = np.random.default_rng(0).normal(size=(300, 2))
    search = GridSearchCV(
        fattail.DPMean(method="truncated", epsilon=1.0, delta=1e-7),
        {"moment_bound": [1.0, 2.0, 4.0]},
        scoring=lambda model, X, y=None: 0.0,
        cv=2,
        n_jobs=2,
        error_score="raise",
    )
    with Budget(EPSILON, DELTA) as budget, pytest.raises(BudgetExceededError):
        search.fit(X)
    assert len(budget.history) == 1


def test_a_dask_cluster_charges_the_budget():
    distributed = pytest.importorskip("distributed")
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")
        with Budget(EPSILON, DELTA) as budget:
            assert sum(client.gather(client.map(fit, range(4), pure=False))) == 1
    assert len(budget.history) == 1


def test_without_markers_child_processes_would_escape(monkeypatch):
    """The planted fault: a budget that only its own thread knows is lost to everybody else."""
    monkeypatch.setattr(module, "open_budgets", lambda: module._inside.get())
    monkeypatch.setattr("fattail.privacy.curator.open_budgets", lambda: module._inside.get())
    with Budget(EPSILON, DELTA) as budget:
        assert sum(by_threads()) == 5
    assert not budget.history


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda b: pickle.loads(pickle.dumps(b))}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_is_the_same_budget(copied):
    budget = Budget(1.0)
    other = copied(budget)
    other.charge([ev.Pure(0.7)])
    assert budget.spent == other.spent == pytest.approx(0.7)
    with pytest.raises(BudgetExceededError):
        budget.charge([ev.Pure(0.7)])
    del budget
    assert other.remaining == pytest.approx(0.3)  # the file lives as long as somebody needs it
    with other:
        Curator(0.2, 0.0, random_state=0).plan(fattail.privacy.Laplace("a"))
    assert len(other.history) == 2


def test_nested_budgets_charge_every_level_also_from_threads():
    with Budget(9.0, 1e-5) as outer, Budget(EPSILON, DELTA) as inner:
        assert sum(by_threads()) == 1
        done = []

        def nested():
            with Budget(9.0, 1e-5) as third:
                done.append(fit())
                assert not third.history  # refused by a budget around it, so charged nowhere

        thread = threading.Thread(target=nested)
        thread.start()
        thread.join()
        assert done == [0]
    assert len(outer.history) == len(inner.history) == 1


def test_a_thread_inside_its_own_block_keeps_to_what_is_around_it():
    budgets, ready = [], threading.Barrier(2)

    def work():
        with Budget(EPSILON, DELTA) as budget:
            budgets.append(budget)
            ready.wait(60)
            budget.charge([ev.Pure(0.1)])  # charged by name: only this one
            ready.wait(60)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(b.history) for b in budgets] == [1, 1]


def test_a_forked_child_does_not_close_the_block_of_its_parent():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    def child():
        budget.__exit__(None, None, None)
        queue.put(fit())

    with Budget(EPSILON, DELTA) as budget:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            worker = context.Process(target=child)
            worker.start()
        assert queue.get(timeout=60) == 1
        worker.join()
        assert fit() == 0
    assert len(budget.history) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_whose_parent_has_ended_charges_the_block_of_its_ancestor():
    """The way to the process with the block was cut, and nothing was charged. The block ends where it was opened, also for it."""
    charged, closed, again, ready = os.pipe(), os.pipe(), os.pipe(), os.pipe()
    with warnings.catch_warnings(), Budget(EPSILON, DELTA) as budget:
        warnings.simplefilter("ignore")  # newer Pythons warn about forks with threads
        if os.fork() == 0:
            if os.fork() == 0:
                try:
                    os.read(ready[0], 1)  # until the parent has ended
                    fit()
                    os.write(charged[1], b"1")
                    os.read(closed[0], 1)
                    os.write(again[1], b"%d" % len(module.open_budgets()))
                finally:
                    os._exit(0)
            os._exit(0)
        os.wait()
        os.write(ready[1], b"1")
        assert os.read(charged[0], 1) == b"1"
    os.write(closed[1], b"1")
    assert os.read(again[0], 1) == b"0"
    assert len(budget.history) == 1


def test_a_budget_that_is_gone_refuses():
    """As for a worker on another machine, or one that outlives the program."""
    budget = Budget(1.0, 1e-6)
    stored = pickle.dumps(budget)
    del budget
    lost = pickle.loads(stored)
    with pytest.raises(ValueError, match="gone"):
        fattail.DPMean(method="truncated", moment_bound=1.0, ledger=lost).fit(np.ones((50, 1)))
    with pytest.raises(ValueError, match="gone"):
        _ = lost.spent


def test_a_ledger_and_a_budget_are_both_charged_or_neither(tmp_path):
    account = Ledger(tmp_path / "budget.db").open("a", epsilon=5.0, delta=1e-5)
    model = fattail.DPMean(epsilon=1.0, delta=1e-7, method="truncated", moment_bound=1.0, ledger=account, random_state=0)
    with Budget(EPSILON, DELTA) as budget:
        model.fit(np.ones((50, 1)))
        with pytest.raises(BudgetExceededError, match="budget"):
            model.fit(np.ones((50, 1)))
    assert len(account.history) == len(budget.history) == 1
    assert account.history[0].subject.columns == ("0",) and account.history[0].claim == (1.0, 1e-7)


def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = module._folder(create=True)
    folder.chmod(0o777)
    with pytest.raises(ValueError, match="TMPDIR"):
        Budget(1.0)
