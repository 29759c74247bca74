"""Budgets that outlive a fit: one notebook (``Budget``) or one file (``Ledger``).

Both store events and compose them tightly, and both are charged before noise is drawn. A
charge whose release never happened stays charged.
"""

from __future__ import annotations

import contextvars
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from fattail.privacy.accountant import epsilon_of, satisfies
from fattail.privacy.calibration import check_budget
from fattail.privacy.events import Cost, Event, total_cost

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE account (name TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL, cost TEXT NOT NULL,
                      opened REAL NOT NULL);
CREATE TABLE charge (id INTEGER PRIMARY KEY, account TEXT NOT NULL REFERENCES account(name), label TEXT NOT NULL,
                     events TEXT NOT NULL, epsilon_after REAL NOT NULL, at REAL NOT NULL);
"""
_active: contextvars.ContextVar[Budget | None] = contextvars.ContextVar("fattail_budget", default=None)


class BudgetExceededError(RuntimeError):
    """The charge would exceed the budget. Nothing was charged and nothing released."""


@dataclass(frozen=True)
class Charge:
    """One line of an account's history."""

    label: str
    epsilon_after: float
    at: float
    events: tuple[Event, ...]


def _admit(name: str, epsilon: float, delta: float, spent: Cost, events: tuple[Event, ...]) -> Cost:
    after = spent + total_cost(events)
    if not satisfies(after, epsilon, delta):
        used, wanted = epsilon_of(spent, delta), epsilon_of(after, delta)
        raise BudgetExceededError(
            f"{name}: epsilon {used:.4g} of {epsilon:g} is spent, {max(epsilon - used, 0):.4g} is left, "
            f"and this would bring it to "
            f"{wanted:.4g} (delta={delta:g}); nothing was released"
        )
    return after


class Budget:
    """A budget for one notebook or script, kept in memory.

    Every fit inside the ``with`` block that has no ledger of its own is charged to it.

    Parameters
    ----------
    epsilon, delta : float

    Examples
    --------
    >>> from fattail import Budget, mean
    >>> with Budget(epsilon=2, delta=1e-6) as budget:
    ...     release = mean(range(1000), epsilon=1, delta=1e-7, random_state=0)
    >>> budget.spent < 1.01
    True
    """

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        self.epsilon, self.delta = check_budget(epsilon, delta)
        self._cost = Cost()
        self._history: list[Charge] = []
        self._lock = threading.Lock()
        self._tokens: list[contextvars.Token[Budget | None]] = []

    def charge(self, events: Iterable[Event], label: str = "") -> None:
        """Add events, or raise ``BudgetExceededError`` and add nothing."""
        events = tuple(events)
        with self._lock:
            self._cost = _admit("budget", self.epsilon, self.delta, self._cost, events)
            self._history.append(Charge(label, epsilon_of(self._cost, self.delta), time.time(), events))

    @property
    def spent(self) -> float:
        """Epsilon spent so far, at this budget's delta."""
        return epsilon_of(self._cost, self.delta)

    @property
    def remaining(self) -> float:
        """Epsilon left by plain subtraction; composition usually lets a little more through."""
        return max(self.epsilon - self.spent, 0.0)

    @property
    def history(self) -> tuple[Charge, ...]:
        return tuple(self._history)

    def __deepcopy__(self, memo: Any) -> Budget:
        """Itself: a cloned estimator spends the same budget."""
        return self

    def __enter__(self) -> Budget:
        self._tokens.append(_active.set(self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _active.reset(self._tokens.pop())

    def __repr__(self) -> str:
        return f"Budget(epsilon={self.epsilon:g}, delta={self.delta:g}, spent={self.spent:.4g})"


def active_budget() -> Budget | None:
    """The innermost ``with Budget(...)`` block, if any."""
    return _active.get()


class Ledger:
    """Accounts in one SQLite file, shared by processes and safe against crashes.

    Parameters
    ----------
    path : path-like
        Created on the first ``open`` if it does not exist.

    Examples
    --------
    >>> import tempfile, os
    >>> from fattail import Ledger
    >>> ledger = Ledger(os.path.join(tempfile.mkdtemp(), "budget.db"))
    >>> account = ledger.open("claims-2026", epsilon=3, delta=1e-5)
    >>> account.remaining
    3.0
    """

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise ValueError(f"ledger path is a directory: {self.path}")
        if not self.path.parent.is_dir():
            raise ValueError(f"no such folder for a ledger: {self.path.parent}")
        if self.path.exists():
            with self._connect() as db:
                self._check_schema(db)

    def open(self, name: str, *, epsilon: float, delta: float = 0.0) -> LedgerAccount:
        """Open an account, or reopen it with the limits it already has."""
        epsilon, delta = check_budget(epsilon, delta)
        if not (isinstance(name, str) and name):
            raise ValueError(f"an account needs a name, got {name!r}")
        with self._connect() as db, _transaction(db):
            self._check_schema(db, create=True)
            row = db.execute("SELECT epsilon, delta FROM account WHERE name = ?", (name,)).fetchone()
            if row is None:
                db.execute("INSERT INTO account VALUES (?, ?, ?, '{}', ?)", (name, epsilon, delta, time.time()))
            elif tuple(row) != (epsilon, delta):
                raise ValueError(
                    f"account {name!r} is already open with epsilon={row[0]:g}, delta={row[1]:g}; "
                    f"limits cannot change to epsilon={epsilon:g}, delta={delta:g}"
                )
        return LedgerAccount(self, name, epsilon, delta)

    def accounts(self) -> tuple[LedgerAccount, ...]:
        """All accounts, by name."""
        if not self.path.exists():
            return ()
        with self._connect() as db:
            rows = db.execute("SELECT name, epsilon, delta FROM account ORDER BY name").fetchall()
        try:
            return tuple(LedgerAccount(self, str(name), *check_budget(*limits)) for name, *limits in rows)
        except (ValueError, TypeError):
            raise ValueError(f"ledger {self.path} is damaged: an account without limits") from None

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        # One short-lived connection per use: safe across threads and forks.
        db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            # synchronous=FULL: a charge is on disk before its release is sampled.
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            yield db
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            if code & 0xFF == sqlite3.SQLITE_READONLY:
                raise ValueError(f"ledger cannot be written, by its permissions or because it is damaged: {self.path}") from None
            # A lock or a full disk is no fault of the file; a missing column is.
            if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
                raise
            raise ValueError(f"not a fattail ledger: {self.path} ({error})") from None
        finally:
            db.close()

    def _check_schema(self, db: sqlite3.Connection, *, create: bool = False) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if version == _SCHEMA_VERSION and {"account", "charge"} <= tables:
            return
        if version == 0 and not tables:
            if create:
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            return
        raise ValueError(f"not a fattail ledger (or one of another version): {self.path}")


@dataclass(frozen=True)
class LedgerAccount:
    """One account of a ledger; pass it to an estimator as ``ledger=``."""

    ledger: Ledger
    name: str
    epsilon: float
    delta: float

    def charge(self, events: Iterable[Event], label: str = "") -> None:
        """Add events durably, or raise ``BudgetExceededError`` and add nothing."""
        events = tuple(events)
        with self.ledger._connect() as db, _transaction(db):
            after = _admit(f"account {self.name!r}", self.epsilon, self.delta, self._cost(db), events)
            db.execute("UPDATE account SET cost = ? WHERE name = ?", (json.dumps(after.to_dict()), self.name))
            db.execute(
                "INSERT INTO charge (account, label, events, epsilon_after, at) VALUES (?, ?, ?, ?, ?)",
                (self.name, label, json.dumps([e.to_dict() for e in events]), epsilon_of(after, self.delta), time.time()),
            )

    @property
    def spent(self) -> float:
        """Epsilon spent so far, at this account's delta."""
        with self.ledger._connect() as db:
            return epsilon_of(self._cost(db), self.delta)

    @property
    def remaining(self) -> float:
        """Epsilon left by plain subtraction; composition usually lets a little more through."""
        return max(self.epsilon - self.spent, 0.0)

    @property
    def history(self) -> tuple[Charge, ...]:
        with self.ledger._connect() as db:
            rows = db.execute(
                "SELECT label, epsilon_after, at, events FROM charge WHERE account = ? ORDER BY id", (self.name,)
            ).fetchall()
        with self._intact():
            return tuple(
                Charge(str(label), float(after), float(at), tuple(map(Event.from_dict, json.loads(events))))
                for label, after, at, events in rows
            )

    def _cost(self, db: sqlite3.Connection) -> Cost:
        row = db.execute("SELECT cost FROM account WHERE name = ?", (self.name,)).fetchone()
        if row is None:
            raise ValueError(f"account {self.name!r} does not exist in {self.ledger.path}")
        with self._intact():
            return Cost.from_dict(json.loads(row[0]))

    @contextmanager
    def _intact(self) -> Iterator[None]:
        """Whatever is wrong with what a file holds is one error, and never a smaller balance."""
        try:
            yield
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise ValueError(f"account {self.name!r} in {self.ledger.path} is damaged") from None


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    # IMMEDIATE takes the write lock before the balance is read, so no two charges see the same one.
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
