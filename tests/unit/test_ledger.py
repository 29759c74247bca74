import dataclasses
import json
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest

from fattail.privacy import Budget, BudgetExceededError, Ledger, chain, epsilon_of, gaussian_multiplier
from fattail.privacy import events as ev


@pytest.mark.parametrize(("kind", "fits"), [("gaussian", 24), (None, 23)])
def test_charges_compose_tightly_and_stop_at_the_limit(tmp_path, kind, fits):
    account = Ledger(tmp_path / "budget.db").open("claims", epsilon=1.0, delta=1e-6, kind=kind)
    step = ev.GaussianEvent(gaussian_multiplier(1.0, 1e-6, 25))
    for _ in range(fits):
        account.charge([step], "one of 25")
    assert 0.97 < account.spent <= 1.0
    with pytest.raises(BudgetExceededError, match=r"is left.*nothing was released"):
        account.charge([step])
    assert len(account.history) == fits and account.history[0].events == (step,)
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
    account = Ledger(sys.argv[1]).open("shared", epsilon=float(sys.argv[3]))
    print("ready", flush=True)
    for _ in range(int(sys.argv[2])):
        try:
            account.charge([ev.Pure(0.01)], "one of many")
        except BudgetExceededError:
            break
        print("charged", flush=True)
""")


@pytest.mark.parametrize(("processes", "each", "room"), [(3, 12, 20), pytest.param(8, 200, 500, marks=pytest.mark.slow)])
def test_killed_processes_never_overspend(tmp_path, processes, each, room):
    """Half of the processes are killed while they charge; the file is moved right after, without its neighbors."""
    path = tmp_path / "budget.db"
    limit = room / 100
    Ledger(path).open("shared", epsilon=limit)
    command = [sys.executable, "-c", WORKER, str(path), str(each), str(limit)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    chance = random.Random(1)
    for worker in workers[::2]:
        time.sleep(chance.uniform(0.0, 0.2))
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    acknowledged = [worker.stdout.read().count("charged") for worker in workers]
    for worker in workers:
        worker.stdout.close()
        worker.wait(timeout=60)
    moved = tmp_path / "elsewhere" / "budget.db"
    moved.parent.mkdir()
    path.rename(moved)
    ledger = Ledger(moved)
    account = ledger.open("shared", epsilon=limit)
    charges = account.history
    assert sum(acknowledged) <= len(charges) <= sum(acknowledged) + processes
    # The balance is exactly what the stored events say, and the survivors used up the rest.
    assert account.spent == pytest.approx(0.01 * len(charges)) and account.spent <= limit * (1 + 1e-9)
    assert len(charges) == min(room, len(charges)) and (
        sum(acknowledged[1::2]) == each * len(workers[1::2]) or len(charges) == room
    )
    assert ledger.verify()
    with sqlite3.connect(moved) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def tampered(path, statement, *values):
    with sqlite3.connect(path) as db:
        db.execute(statement, values)
    db.close()


@pytest.fixture
def charged(tmp_path):
    """A ledger with two charges in one account and one in another."""
    path = tmp_path / "budget.db"
    ledger = Ledger(path)
    account = ledger.open("claims", epsilon=3.0, delta=1e-5)
    account.charge([ev.Pure(0.5)], "first")
    account.charge([ev.GaussianEvent(5.0)], "second")
    ledger.open("other", epsilon=1.0, delta=1e-5).charge([ev.Pure(0.1)], "third")
    assert ledger.verify() and ledger.verify().entries == 6
    return path


def rewritten(path, seq, **changes):
    """One entry edited as somebody would who does not know of the seals."""
    with sqlite3.connect(path) as db:
        body = json.loads(db.execute("SELECT body FROM entry WHERE seq = ?", (seq,)).fetchone()[0])
    db.close()
    tampered(path, "UPDATE entry SET body = ? WHERE seq = ?", json.dumps(body | changes), seq)


EDITS = {
    "a smaller charge": lambda p: rewritten(p, 2, events=[{"kind": "pure", "epsilon": 1e-9, "count": 1}]),
    "a higher limit": lambda p: rewritten(p, 1, epsilon=1e6),
    "another kind": lambda p: rewritten(p, 1, kind="gaussian"),
    "another account": lambda p: rewritten(p, 2, account="other"),
    "a charge deleted": lambda p: tampered(p, "DELETE FROM entry WHERE seq = 2"),
    "charges exchanged": lambda p: tampered(p, "UPDATE entry SET body = (SELECT body FROM entry WHERE seq = 5) WHERE seq = 2"),
    "a label": lambda p: rewritten(p, 3, label="nothing to see"),
    "a seal": lambda p: tampered(p, "UPDATE entry SET hash = 'x' WHERE seq = 4"),
    "no text": lambda p: tampered(p, "UPDATE entry SET body = 7 WHERE seq = 3"),
    "all of it": lambda p: tampered(p, "DELETE FROM entry"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_file_is_shown_and_not_charged(charged, edit):
    ledger = Ledger(charged)
    account = ledger.open("claims", epsilon=3.0, delta=1e-5)
    edit(charged)
    found = ledger.verify()
    assert not found and "damaged" in str(found)
    with pytest.raises(ValueError, match="damaged"):
        _ = account.spent
    with pytest.raises(ValueError, match="damaged"):
        account.charge([ev.Pure(0.01)])
    with pytest.raises(ValueError, match="damaged"):
        ledger.open("third", epsilon=1.0)
    with pytest.raises(ValueError, match="damaged"):
        ledger.accounts()


def as_a_view(path):
    """The table replaced by a view of what it held, so that nothing more gets in."""
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT seq, quote(body), quote(hash) FROM entry").fetchall()
        values = ", ".join(f"({seq}, {body}, {seal})" for seq, body, seal in rows)
        db.execute("DROP TABLE entry")
        db.execute(f"CREATE VIEW entry (seq, body, hash) AS SELECT * FROM (VALUES {values})")
        db.execute("CREATE TRIGGER entry INSTEAD OF INSERT ON entry BEGIN SELECT 1; END")
    db.close()


# Triggers have names of their own in SQLite, so one can be called like the table.
PROGRAMS = {
    "a trigger": lambda p: tampered(
        p, "CREATE TRIGGER entry AFTER INSERT ON entry BEGIN DELETE FROM entry WHERE seq = NEW.seq; END"
    ),
    "a view": as_a_view,
    "an index": lambda p: tampered(p, "CREATE INDEX seals ON entry (hash)"),
    "a rule of the table": lambda p: tampered(p, "ALTER TABLE entry ADD COLUMN more INTEGER DEFAULT 3"),
}


@pytest.mark.parametrize("add", PROGRAMS.values(), ids=PROGRAMS)
def test_a_file_holds_the_table_and_nothing_that_acts_on_it(charged, add):
    account = Ledger(charged).open("claims", epsilon=3.0, delta=1e-5)
    add(charged)
    with pytest.raises(ValueError, match="not a fattail ledger"):
        account.charge([ev.Pure(0.01)])
    with pytest.raises(ValueError, match="not a fattail ledger"):
        Ledger(charged)
    assert not account.ledger.verify()


def sealed_anew(path, **changes):
    """Every charge edited by somebody who computes the seals again."""
    pages = chain.Pages()
    with sqlite3.connect(path) as db:
        for (text,) in db.execute("SELECT body FROM entry ORDER BY seq").fetchall():
            body = json.loads(text)
            pages.seal(json.dumps(body | changes if body["type"] == "charged" else body))
        db.execute("DELETE FROM entry")
        chain.Chain(path).store(db, pages, 0)
    db.close()


@pytest.mark.parametrize("at", [1e300, math.inf, math.nan, "1e400", 10**30, -62135596801, None])
def test_a_time_that_is_no_date_is_damage(charged, at):
    sealed_anew(charged, at=at)
    assert "damaged" in str(Ledger(charged).verify())
    with pytest.raises(ValueError, match="damaged"):
        Ledger(charged).accounts()


def test_what_is_no_fault_and_worth_a_look_is_noted(charged, tmp_path, monkeypatch):
    assert Ledger(charged).verify().notes == ()
    copy = Ledger(shutil.copy(charged, tmp_path / "copy.db"))
    copy.adopt()
    monkeypatch.setattr(chain.time, "time", lambda: 1e9)
    copy.accounts()[0].charge([ev.Pure(0.1)], "in the past")
    found = copy.verify()
    assert found and len(found.notes) == 2
    assert "older state into use" in found.notes[0] and "dated more than an hour before" in found.notes[1]


def test_an_entry_names_the_user_of_the_process_whatever_the_environment_says(charged, monkeypatch):
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "somebody else")
    account = Ledger(charged).accounts()[0]
    account.charge([ev.Pure(0.1)])
    assert account.history[-1].user == account.history[0].user != "somebody else"


def test_limits_come_from_the_file(tmp_path):
    account = Ledger(tmp_path / "budget.db").open("a", epsilon=1.0)
    with pytest.raises(TypeError):
        dataclasses.replace(account, epsilon=1e6)
    with pytest.raises((AttributeError, TypeError)):
        account.epsilon = 1e6
    forged = type(account)(account.ledger, account.name)
    with pytest.raises(BudgetExceededError):
        forged.charge([ev.Pure(2.0)])


def test_no_charge_is_a_refund(tmp_path):
    account = Ledger(tmp_path / "budget.db").open("a", epsilon=1.0, delta=1e-6)
    account.charge([ev.Pure(0.5)])
    refund = ev.GaussianEvent(5.0)
    object.__setattr__(refund, "count", -1)

    class Cheap(ev.GaussianEvent):
        kind = "gaussian"

        def cost(self):
            return ev.Cost()

    for events in ([refund], [], ["gaussian"]):
        with pytest.raises(ValueError):
            account.charge(events)
    with pytest.raises(BudgetExceededError):
        account.charge([Cheap(0.1)])
    with pytest.raises(ValueError, match="claims"):
        account.charge([ev.Pure(0.5)], claim=(0.1, 1e-9))


def test_names_that_look_the_same_are_the_same(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open("caf\u00e9", epsilon=1.0).charge([ev.Pure(0.7)])
    for name in ("cafe\u0301", "caf\u00e9 ", "\u00a0caf\u00e9\n"):
        with pytest.raises(BudgetExceededError):
            ledger.open(name, epsilon=1.0).charge([ev.Pure(0.7)])
    assert [a.name for a in ledger.accounts()] == ["caf\u00e9"]
    ledger.open("claims 2026", epsilon=1.0).charge([ev.Pure(0.7)])
    for name in ("claims\u00a02026", "claims  2026", "claims \u2009 2026"):
        with pytest.raises(BudgetExceededError):
            ledger.open(name, epsilon=1.0).charge([ev.Pure(0.7)])
    for name in ("claims 2026\ufe0f", "claims\u034f 2026", "\u3164claims 2026", "\u2800", "x" * 1000):
        with pytest.raises(ValueError, match="invisible"):
            ledger.open(name, epsilon=1.0)
    assert len(ledger.accounts()) == 2


def test_an_account_that_was_named_by_older_rules_is_found_and_not_opened_again(tmp_path, monkeypatch):
    path = tmp_path / "budget.db"
    with monkeypatch.context() as patch:
        patch.setattr("fattail.privacy.ledger.account_name", str)
        Ledger(path).open("claims\u00a02026", epsilon=1.0).charge([ev.Pure(0.7)])
    for name in ("claims\u00a02026", "claims 2026"):
        with pytest.raises(BudgetExceededError):
            Ledger(path).open(name, epsilon=1.0).charge([ev.Pure(0.7)])
    assert Ledger(path).verify()


def test_a_second_name_is_refused(charged, tmp_path):
    os.link(charged, tmp_path / "link.db")
    for path in (charged, tmp_path / "link.db"):
        with pytest.raises(ValueError, match="hard link"):
            Ledger(path).open("claims", epsilon=3.0, delta=1e-5)


def test_a_move_is_no_copy_and_a_copy_must_be_adopted(charged, tmp_path):
    moved = tmp_path / "moved.db"
    charged.rename(moved)
    Ledger(moved).open("claims", epsilon=3.0, delta=1e-5).charge([ev.Pure(0.1)])
    copy = Ledger(shutil.copy(moved, tmp_path / "copy.db"))
    assert "is a copy" in str(copy.verify()) and not copy.verify()
    account = copy.accounts()[0]
    assert account.spent > 0  # reading is allowed
    with pytest.raises(ValueError, match="fattail ledger adopt"):
        account.charge([ev.Pure(0.1)])
    copy.adopt()
    account.charge([ev.Pure(0.1)])
    assert copy.verify() and Ledger(moved).verify()


def test_an_older_state_is_noticed_on_the_machine_that_charged(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))  # this ledger is to last
    path = tmp_path / "budget.db"
    account = Ledger(path).open("a", epsilon=1.0)
    account.charge([ev.Pure(0.1)])
    before = path.read_bytes()
    account.charge([ev.Pure(0.8)])
    path.write_bytes(before)  # the same file, so the inode does not tell
    assert "rolled back" in str(Ledger(path).verify())
    with pytest.raises(ValueError, match="rolled back"):
        account.charge([ev.Pure(0.8)])
    Ledger(path).adopt()
    account.charge([ev.Pure(0.2)])
    assert Ledger(path).verify()
    path.unlink()
    with pytest.raises(ValueError, match="is gone"):
        Ledger(path).open("a", epsilon=1.0)
    with pytest.raises(ValueError, match="no ledger"):
        account.charge([ev.Pure(0.1)])
    assert not path.exists()


def test_an_emptied_file_is_noticed_on_the_machine_that_charged(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))  # this ledger is to last
    path = tmp_path / "budget.db"
    account = Ledger(path).open("a", epsilon=1.0)
    account.charge([ev.Pure(0.9)])
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="is gone"):
        Ledger(path).open("a", epsilon=1.0)
    with pytest.raises(ValueError, match="no ledger"):
        account.charge([ev.Pure(0.9)])


def test_a_slower_writer_does_not_shorten_what_is_remembered(tmp_path, monkeypatch):
    """Two writers: the second one's note is on disk before the first one writes its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    path = tmp_path / "budget.db"
    account = Ledger(path).open("a", epsilon=1.0)
    record, states = chain.Witness.record, []

    def overtaken(self, *arguments, **options):
        states.append((path.read_bytes(), arguments, options))

    with monkeypatch.context() as patch:
        patch.setattr(chain.Witness, "record", overtaken)
        account.charge([ev.Pure(0.1)])
        account.charge([ev.Pure(0.8)])
    for _, arguments, options in reversed(states):
        record(chain.Witness(path), *arguments, **options)
    path.write_bytes(states[0][0])
    with pytest.raises(ValueError, match="rolled back"):
        account.charge([ev.Pure(0.8)])


def test_many_processes_open_one_new_ledger_at_once(tmp_path):
    """All of them find one account with one budget."""
    path, go = tmp_path / "budget.db", tmp_path / "go"
    code = textwrap.dedent("""
        import os, sys, time
        from fattail.privacy import BudgetExceededError, Ledger
        from fattail.privacy import events as ev
        print("ready", flush=True)
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.001)
        account = Ledger(sys.argv[1]).open("a", epsilon=1.0)
        try:
            account.charge([ev.Pure(0.4)])
            print("charged", flush=True)
        except BudgetExceededError:
            print("refused", flush=True)
    """)
    command = [sys.executable, "-c", code, str(path), str(go)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    go.touch()
    answers = sorted(worker.communicate(timeout=60)[0] for worker in workers)
    assert answers == ["charged\n"] * 2 + ["refused\n"] * 2
    assert Ledger(path).verify() and Ledger(path).accounts()[0].spent == pytest.approx(0.8)


@pytest.mark.parametrize("kind", ["pipe", "device", "circle"])
def test_a_ledger_is_a_file(tmp_path, kind):
    path = {"pipe": tmp_path / "pipe", "device": "/dev/null", "circle": tmp_path / "a"}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    if kind == "circle":
        path.symlink_to(tmp_path / "b")
        (tmp_path / "b").symlink_to(path)
    with pytest.raises((ValueError, sqlite3.OperationalError), match=r"ledger is a file|unable to open"):
        Ledger(path).open("a", epsilon=1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
def test_a_ledger_of_any_name(tmp_path):
    for name in ("\udcff.db", "?mode=memory", "a#b", "a%20b", "file:x"):
        path = tmp_path / name
        Ledger(path).open("a", epsilon=1.0).charge([ev.Pure(0.1)])
        assert path.exists() and Ledger(path).verify() and Ledger(path).accounts()[0].spent == pytest.approx(0.1)


def test_a_full_disk_charges_nothing_and_damages_nothing(charged, monkeypatch):
    """SQLite's own limit on pages stands in for a disk without room."""
    connect = sqlite3.connect

    def full(*args, **kwargs):
        db = connect(*args, **kwargs)
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
        return db

    account = Ledger(charged).open("claims", epsilon=3.0, delta=1e-5)
    spent, size = account.spent, len(account.history)
    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        account.charge([ev.Pure(0.01)], "x" * 20_000)
    monkeypatch.undo()
    assert account.spent == spent and len(account.history) == size and account.ledger.verify()
    account.charge([ev.Pure(0.01)])


def test_a_file_too_large_for_the_process_charges_nothing(charged):
    """The system refuses the write itself."""
    code = textwrap.dedent("""
        import resource, signal, sqlite3, sys
        from fattail.privacy import Ledger
        from fattail.privacy import events as ev
        account = Ledger(sys.argv[1]).accounts()[0]
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            account.charge([ev.Pure(0.01)], "x" * 20_000)
        except sqlite3.OperationalError:
            print("refused")
    """)
    done = subprocess.run([sys.executable, "-c", code, str(charged)], capture_output=True, text=True, check=False)
    assert done.stdout == "refused\n", done.stderr
    ledger = Ledger(charged)
    assert ledger.verify() and len(ledger.accounts()[0].history) == 2


def test_a_network_file_system_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(chain, "file_system", lambda path: "nfs4")
    with pytest.raises(ValueError, match="network file system"):
        Ledger(tmp_path / "budget.db").open("a", epsilon=1.0)
    monkeypatch.undo()
    assert isinstance(chain.file_system(tmp_path), str)


FIRST_VERSION = """
CREATE TABLE account (name TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL, cost TEXT NOT NULL,
                      opened REAL NOT NULL);
CREATE TABLE charge (id INTEGER PRIMARY KEY, account TEXT NOT NULL REFERENCES account(name), label TEXT NOT NULL,
                     events TEXT NOT NULL, epsilon_after REAL NOT NULL, at REAL NOT NULL);
PRAGMA user_version = 1;
INSERT INTO account VALUES ('a', 1.0, 1e-6, '{}', 5.0);
INSERT INTO charge VALUES (1, 'a', 'mean', '[{"kind": "pure", "epsilon": 0.4, "count": 2}]', 0.8, 6.0);
"""


def test_a_file_of_the_first_version_is_replayed_from_its_history(tmp_path):
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(FIRST_VERSION)
    db.close()
    ledger = Ledger(path)
    account = ledger.open("a", epsilon=1.0, delta=1e-6)
    assert account.spent == pytest.approx(0.8)  # although its balance was edited to nothing
    assert account.history[0].label == "mean" and account.history[0].at == 6.0
    with pytest.raises(BudgetExceededError):
        account.charge([ev.Pure(0.4)])
    assert ledger.verify()


def test_a_damaged_file_of_the_first_version_is_left_alone(tmp_path):
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as db:
        db.executescript(FIRST_VERSION.replace('"count": 2', '"count": -2'))
    db.close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match="version 1 and damaged"):
        Ledger(path)
    assert path.read_bytes() == before


def test_what_is_added_to_a_file_of_the_first_version_does_not_outlive_it(tmp_path):
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as db:
        db.executescript(FIRST_VERSION)
        db.execute("CREATE VIEW more AS SELECT 1")
    db.close()
    with pytest.raises(ValueError, match="something added"):
        Ledger(path)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM charge").fetchone() == (1,)
    db.close()


def test_a_ledger_that_cannot_be_written_says_so(tmp_path):
    """SQLite takes a file whose header asks for a later version for one that may only be read."""
    path = tmp_path / "budget.db"
    Ledger(path).open("a", epsilon=1.0)
    content = bytearray(path.read_bytes())
    content[18] = 9
    path.write_bytes(content)
    with pytest.raises(ValueError, match="cannot be written"):
        Ledger(path).open("b", epsilon=1.0)


def test_a_refusal_says_that_delta_is_used_up(tmp_path):
    account = Ledger(tmp_path / "budget.db").open("a", epsilon=5.0, delta=1e-6)
    account.charge([ev.Pure(0.5)])
    with pytest.raises(BudgetExceededError, match="delta of 1e-06 does not suffice"):
        account.charge([ev.Approximate(0.5, 1e-3)])
