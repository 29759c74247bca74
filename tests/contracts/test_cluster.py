"""A cluster changes neither an answer nor what was paid for it, whatever happens to its workers."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import fattail
from fattail.privacy import Curator, Gaussian, Ledger
from fattail.robust import Smooth
from fattail.rows.cluster import FAN_IN
from fattail.rows.data import PrivateData

distributed = pytest.importorskip("distributed")
dask_array = pytest.importorskip("dask.array")

PARTS, ROWS, STEPS = 12, 50, 3


def part_of(k):
    rng = np.random.default_rng(k)
    return rng.standard_t(2.5, (ROWS, 4))


def slow_part(k, log):
    """One partition, which says on which process it was made."""
    time.sleep(0.05)
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\n")
    return part_of(k)


def fit(data, account):
    """Three steps of a smoothed descent on a least-squares fit of the last column."""
    curator = Curator(1.0, 1e-6, random_state=0, ledger=account, label="cluster")
    step = Gaussian("gradient", count=STEPS)
    curator.plan(step)
    w = np.zeros(4)
    for _ in range(STEPS):
        gradient = Smooth(scale=3.0, beta=2.0).mean(data, lambda b, w=w: (b.X, b.X[:, 3] - (b.X * w).sum(axis=1)))
        w = w + 0.5 * curator.release(step, gradient.to("l2"))
    return w


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=":0") as workers:
        yield workers


@pytest.mark.slow
def test_a_worker_killed_in_mid_fit_changes_nothing(cluster, tmp_path):
    import dask

    ledger = Ledger(tmp_path / "budget.db")
    alone, account = ledger.open("alone", epsilon=1.0, delta=1e-6), ledger.open("cluster", epsilon=1.0, delta=1e-6)
    expected = fit(PrivateData(np.concatenate([part_of(k) for k in range(PARTS)])), alone)

    log = tmp_path / "log"
    log.touch()
    made = [dask_array.from_delayed(dask.delayed(slow_part)(k, str(log)), (ROWS, 4), float) for k in range(PARTS)]
    killed = []

    def kill_one():
        while len(log.read_text().split()) < PARTS + PARTS // 2:  # in the middle of the second pass
            time.sleep(0.01)
        killed.append(int(log.read_text().split()[-1]))
        os.kill(killed[0], signal.SIGKILL)

    with distributed.Client(cluster):
        killer = threading.Thread(target=kill_one)
        killer.start()
        answer = fit(PrivateData(dask_array.concatenate(made)), account)
        killer.join()

    processes = log.read_text().split()
    assert len(processes) > PARTS * STEPS or len(set(processes)) > 2, "the lost worker's part was not made again"
    np.testing.assert_array_equal(answer, expected)
    assert len(account.history) == 1 and account.spent == alone.spent


@pytest.mark.slow
@pytest.mark.parametrize("parts", [10, 100])
def test_only_sums_reach_the_curator(cluster, parts):
    """What a client gathers in a pass is a few small arrays, however many rows and partitions there are."""
    rows = dask_array.random.default_rng(0).normal(size=(200_000, 4), chunks=(200_000 // parts, 4))
    with distributed.Client(cluster) as client:
        gathered = []
        gather = client.gather
        client.gather = lambda *args, **kwargs: gathered.append(gather(*args, **kwargs)) or gathered[-1]
        Smooth(scale=1.0, beta=2.0).mean(PrivateData(rows))
        client.gather = gather
    assert len(gathered) == 1 and np.size(gathered) % 4 == 0 and np.size(gathered) <= 4 * FAN_IN


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize("name", ["DPMean", "DPLinearRegression", "DPSparseRegressor", "DPGaussianMixture"])
def test_fits_are_the_same_on_a_cluster(cluster, name):
    X = np.concatenate([part_of(k) for k in range(PARTS)])
    y = X[:, 3] + X[:, 0]

    def fitted(X, y):
        model = getattr(fattail, name)(epsilon=4.0, random_state=0)
        model.fit(X) if name in ("DPMean", "DPGaussianMixture") else model.fit(X, y)
        return model.coef_ if hasattr(model, "coef_") else model.mean_ if name == "DPMean" else model.means_

    expected = fitted(X, y)
    with distributed.Client(cluster):
        found = fitted(dask_array.from_array(X, (ROWS, 4)), dask_array.from_array(y, ROWS))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_persisted_rows_stay_while_they_are_needed(cluster):
    rows = dask_array.random.default_rng(0).normal(size=(2000, 4), chunks=(200, 4))
    with distributed.Client(cluster):
        data = PrivateData(rows.persist())  # nobody else holds the persisted array
        first, second = (Smooth(scale=1.0, beta=2.0).mean(data)._value for _ in range(2))
    np.testing.assert_array_equal(first, second)
