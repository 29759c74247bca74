"""A file of entries, each of which holds a hash of all entries before it (its seal).

SQLite serializes writers and survives crashes. The chain of hashes makes a change of an old entry visible, and the whole chain
is checked whenever the file is read. A single file cannot show that somebody computed the whole chain again, nor that it is an
older state of itself; `witness` helps with the second.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import math
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fattail.privacy.witness import Witness

VERSION = 2
_SCHEMA = "CREATE TABLE entry (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)"

# Locks on these file systems are not reliable: two machines could spend the same budget.
_NETWORK = ("nfs", "cifs", "smb", "afs", "fuse.sshfs", "davfs")

# Entries are dated before their writer waits for the lock, which takes minutes at most, and clocks are corrected by seconds.
_CLOCK_STEP = 3600.0

Body = dict[str, Any]


def date_of(body: Body) -> str:
    """When an entry was written, by the clock of its machine; raises if it is not a date."""
    return datetime.fromtimestamp(float(body["at"]), UTC).isoformat(" ", "seconds")[:19]


def signature() -> Body:
    """Who writes an entry, and when."""
    return {"user": _user(), "at": time.time()}


def _user() -> str:
    """The owner of this process. Variables such as LOGNAME, which anybody can set, are used only where the system has no
    users."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user without a name, as in some containers
        return str(os.getuid())
    except ImportError:
        return getpass.getuser()


class Pages:
    """The entries of a chain and their seals."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []
        self.heads: list[str] = []
        self.texts: list[str] = []

    def append(self, body: Body) -> None:
        """Add an entry and seal it."""
        self.seal(json.dumps(body, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":")))

    def seal(self, text: str) -> str:
        before = self.heads[-1] if self.heads else ""
        self.heads.append(hashlib.sha256(f"{before}\n{len(self.heads)}\n{text}".encode()).hexdigest())
        self.texts.append(text)
        self.bodies.append(json.loads(text))
        return self.heads[-1]

    def notes(self) -> list[str]:
        """Notes for a reader of the file that are not errors."""
        found, last = list[str](), -math.inf
        for number, body in enumerate(self.bodies):
            if body["type"] == "adopted":
                found.append(
                    f"entry {number}: {body.get('user')} took a copy or an older state into use ({date_of(body)} UTC); charges "
                    "made elsewhere are not in this file"
                )
            if float(body["at"]) < last - _CLOCK_STEP:
                found.append(f"entry {number} is dated more than an hour before one that it follows ({date_of(body)} UTC)")
            last = max(last, float(body["at"]))
        return found


class Chain:
    """The file.

    Parameters
    ----------
    path : Path
    lasting : bool
        Whether entries must survive a power failure, and whether a copy must be noticed.
        A temporary file needs neither.
    """

    def __init__(self, path: Path, *, lasting: bool = True) -> None:
        self.path, self.lasting = path, lasting

    @contextmanager
    def reading(self) -> Iterator[Pages]:
        """All entries, checked."""
        with self._connect() as db:
            yield self._pages(db)

    @contextmanager
    def writing(self, *, create: bool = False, adopt: bool = False) -> Iterator[Pages]:
        """All entries, checked, under the write lock; those that the block appends are written unless it raises."""
        if create and not self.path.exists():
            self._check_new_place()
        with self._connect(create=create) as db:
            # IMMEDIATE takes the lock before the entries are read, so no two charges see the same state.
            db.execute("BEGIN IMMEDIATE")
            try:
                pages = self._pages(db)
                written = len(pages.heads)
                if not written and not create:
                    raise ValueError(f"there is no ledger at {self.path}")
                if not written:
                    self._check_new_place()  # an empty file counts as new
                    pages = self.begin(db)
                elif not adopt:
                    self._check_place(pages)
                    self._check_witness(pages)
                yield pages
                self.store(db, pages, written)
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
        if self.lasting:
            Witness(self.path).record(pages.bodies[0]["id"], pages.heads, adopted=adopt)

    def problems(self) -> list[str]:
        """Everything that is wrong with the file, in sentences."""
        found = []
        try:
            with self.reading() as pages:
                for check in (self._check_place, self._check_witness):
                    try:
                        check(pages)
                    except ValueError as error:
                        found.append(str(error))
        except (ValueError, sqlite3.Error) as error:
            found.append(str(error))
        return found

    @property
    def inode(self) -> int | None:
        """The inode, which distinguishes a file from its copies; moving it within a file system keeps it."""
        return self.path.stat().st_ino if self.lasting else None

    def check_format(self) -> None:
        """Refuse a file that is something else."""
        with self._connect() as db:
            self._check_format(db)

    @contextmanager
    def _connect(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        if self.path.exists():
            about = self.path.stat()
            if not stat.S_ISREG(about.st_mode):
                raise ValueError(f"a ledger is a file, and {self.path} is a device, a pipe or a folder")
            if about.st_nlink > 1:
                raise ValueError(
                    f"ledger {self.path} has a second name (a hard link), and charges under one may be lost to the other"
                )
        elif not self.lasting and not create:
            raise ValueError("this budget is gone: the process that opened it has ended, or runs elsewhere (there, use a Ledger)")
        elif not create:
            raise ValueError(f"there is no ledger at {self.path}")
        # A new connection for each use: safe across threads and forks.
        where = f"file:{quote(os.fsencode(self.path.absolute()))}?mode={'rwc' if create else 'rw'}"
        db = sqlite3.connect(where, uri=True, timeout=60, isolation_level=None)
        try:
            # No write-ahead log: charges are in the file itself, even if it is moved without its journal after a crash. EXTRA:
            # they are on disk before anything is released.
            db.execute("PRAGMA journal_mode = DELETE")
            db.execute(f"PRAGMA synchronous = {'EXTRA' if self.lasting else 'OFF'}")
            yield db
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            if code & 0xFF == sqlite3.SQLITE_READONLY:
                raise ValueError(f"ledger cannot be written, by its permissions or because it is damaged: {self.path}") from None
            # A lock or a full disk is not a fault of the file; a missing column is.
            if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
                raise
            raise ValueError(f"not a fattail ledger: {self.path} ({error})") from None
        finally:
            db.close()

    def _check_format(self, db: sqlite3.Connection) -> bool:
        """Whether the file holds entries."""
        version = db.execute("PRAGMA user_version").fetchone()[0]
        # Compare the schema exactly: a trigger, or a view with the table's name, could lose what is written.
        found = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        if (version, found) not in ((0, []), (VERSION, [("table", "entry", "entry", _SCHEMA)])):
            raise ValueError(f"not a fattail ledger (or one of another version, or one with something added): {self.path}")
        return bool(found)

    def _pages(self, db: sqlite3.Connection) -> Pages:
        pages = Pages()
        if not self._check_format(db):
            return pages
        for number, (seq, text, head) in enumerate(db.execute("SELECT seq, body, hash FROM entry ORDER BY seq").fetchall()):
            try:
                sound = seq == number and pages.seal(text) == head and isinstance(pages.bodies[-1], dict)
            except (ValueError, TypeError, RecursionError):
                sound = False
            if not sound:
                raise ValueError(f"ledger {self.path} is damaged: entry {number} is not what was written")
        if not pages.bodies or pages.bodies[0].get("type") != "ledger":
            raise ValueError(f"ledger {self.path} is damaged: its first entry is gone")
        return pages

    def begin(self, db: sqlite3.Connection) -> Pages:
        """The first entry of a new file."""
        db.execute(_SCHEMA)
        db.execute(f"PRAGMA user_version = {VERSION}")
        pages = Pages()
        pages.append({"type": "ledger", "version": VERSION, "id": secrets.token_hex(16), "inode": self.inode, **signature()})
        return pages

    def store(self, db: sqlite3.Connection, pages: Pages, written: int) -> None:
        """Write the entries from number ``written`` on."""
        entries = zip(range(len(pages.heads)), pages.texts, pages.heads, strict=True)
        db.executemany("INSERT INTO entry VALUES (?, ?, ?)", list(entries)[written:])

    def _check_new_place(self) -> None:
        kind = file_system(self.path)
        if kind.startswith(_NETWORK):
            raise ValueError(f"no ledger on a network file system ({kind}), where locks are not reliable: {self.path}")
        if self.lasting:
            Witness(self.path).check_new()

    def _check_place(self, pages: Pages) -> None:
        places = [body.get("inode") for body in pages.bodies if body.get("type") in ("ledger", "adopted")]
        if self.lasting and places and places[-1] != self.inode:
            raise ValueError(
                f"ledger {self.path} is a copy: it was copied, restored or moved to another disk after its last entry, and two "
                f"copies would spend the budget twice. To use this copy, record that: fattail ledger adopt {self.path}"
            )

    def _check_witness(self, pages: Pages) -> None:
        if self.lasting and pages.heads:
            Witness(self.path).check(str(pages.bodies[0].get("id")), pages.heads)


def file_system(path: Path) -> str:
    """Type of the file system of a path (Linux only)."""
    best, kind = "", ""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    folder = os.path.dirname(os.path.realpath(path))
    for line in mounts.splitlines():
        _, where, name, *_ = [*line.split(" "), "", "", ""]
        where = where.replace("\\040", " ")
        if len(where) >= len(best) and (folder + "/").startswith(where.rstrip("/") + "/"):
            best, kind = where, name
    return kind
