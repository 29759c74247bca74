import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

from fattail.privacy import Budget, BudgetExceededError, Ledger, epsilon_of, gaussian_multiplier
from fattail.privacy import events as ev


def test_charges_compose_tightly_and_stop_at_the_limit(tmp_path):
    account = Ledger(tmp_path / "budget.db").open("claims", epsilon=1.0, delta=1e-6)
    step = ev.Gaussian(gaussian_multiplier(1.0, 1e-6, 25))
    for _ in range(25):
        account.charge([step], "one of 25")
    assert 0.99 < account.spent <= 1.0
    with pytest.raises(BudgetExceededError, match=r"is left.*nothing was released"):
        account.charge([step])
    assert len(account.history) == 25 and account.history[0].events == (step,)
    assert 25 * epsilon_of([step], 1e-6) > 2  # adding epsilons would have stopped much earlier


def test_reopening_finds_what_was_spent(tmp_path):
    path = tmp_path / "budget.db"
    Ledger(path).open("a", epsilon=1, delta=1e-6).charge([ev.Pure(0.4)])
    again = Ledger(path).open("a", epsilon=1, delta=1e-6)
    assert again.spent == pytest.approx(0.4) and again.remaining == pytest.approx(0.6)
    assert [a.name for a in Ledger(path).accounts()] == ["a"]


def test_other_limits_are_refused_and_nothing_is_written(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open("a", epsilon=1, delta=1e-6)
    with pytest.raises(ValueError, match="already open with epsilon=1"):
        ledger.open("a", epsilon=2, delta=1e-6)
    assert ledger.accounts()[0].epsilon == 1


def test_paths_that_are_no_ledger(tmp_path):
    with pytest.raises(ValueError, match="directory"):
        Ledger(tmp_path)
    with pytest.raises(ValueError, match="no such folder"):
        Ledger(tmp_path / "missing" / "budget.db")
    text = tmp_path / "notes.txt"
    text.write_text("these are not the charges you are looking for " * 100)
    before = text.read_bytes()
    with pytest.raises(ValueError, match="not a fattail ledger"):
        Ledger(text)
    assert text.read_bytes() == before
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE songs (title TEXT)")
    with pytest.raises(ValueError, match="not a fattail ledger"):
        Ledger(other).open("a", epsilon=1)


@pytest.mark.parametrize(("name", "epsilon", "delta"), [("", 1, 0), ("a", 0, 0), ("a", math.nan, 0), ("a", 1, 1), (3, 1, 0)])
def test_meaningless_accounts_are_refused(tmp_path, name, epsilon, delta):
    path = tmp_path / "budget.db"
    with pytest.raises(ValueError):
        Ledger(path).open(name, epsilon=epsilon, delta=delta)
    assert not path.exists()


def test_budget_in_memory():
    budget = Budget(1.0, 1e-6)
    budget.charge([ev.Pure(0.5)], "half")
    with pytest.raises(BudgetExceededError, match=r"0\.5 of 1"):
        budget.charge([ev.Pure(0.6)])
    assert budget.remaining == pytest.approx(0.5) and "spent=0.5" in repr(budget)


WORKER = textwrap.dedent("""
    import sys
    from fattail.privacy import BudgetExceededError, Ledger
    from fattail.privacy import events as ev
    account = Ledger(sys.argv[1]).open("shared", epsilon=5.0)
    print("ready", flush=True)
    for _ in range(200):
        try:
            account.charge([ev.Pure(0.01)], "one of many")
        except BudgetExceededError:
            break
""")


def test_killed_processes_never_overspend(tmp_path):
    """Eight processes, up to 200 charges each against room for 500, half of them killed."""
    path = tmp_path / "budget.db"
    Ledger(path).open("shared", epsilon=5.0)
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(8)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    chance = random.Random(1)
    for worker in workers[::2]:
        time.sleep(chance.uniform(0.0, 0.3))
        os.kill(worker.pid, signal.SIGKILL)
    for worker in workers:
        worker.stdout.close()
        worker.wait(timeout=300)
    account = Ledger(path).open("shared", epsilon=5.0)
    charges = account.history
    assert account.spent <= 5.0 + 1e-9
    # The balance is exactly what the stored events say, and the survivors used up the rest.
    assert account.spent == pytest.approx(0.01 * len(charges))
    assert len(charges) in (499, 500)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_ledger_that_cannot_be_written_says_so(tmp_path):
    """SQLite takes a file whose header asks for a later version for one that may only be read."""
    path = tmp_path / "budget.db"
    Ledger(path).open("a", epsilon=1.0)
    content = bytearray(path.read_bytes())
    content[18] = 9
    path.write_bytes(content)
    with pytest.raises(ValueError, match="cannot be written"):
        Ledger(path).open("b", epsilon=1.0)
