"""Finished cells, one row each, in one SQLite file: what is there need not be computed again.

A cell is a method on a data set (see `reproduction.spec.cell`); panels that ask for the
same cell share it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

# Files of this package that decide how results are shown, not what they are.
_PRESENTATION = {"__init__", "engine", "store", "results", "claims", "verdict", "draw", "report", "page"}


class Outcome(NamedTuple):
    """Result of one method on one data set.

    One error, or one per iteration, or one after each of ``steps``; and the selected names.
    """

    errors: list[float]
    selected: list[str]
    seconds: float
    steps: list[int]


class Store:
    """Outcomes by cell and trial, for one state of the code."""

    def __init__(self, path: Path, code: str | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS outcomes (code TEXT, cell TEXT, trial INTEGER, outcome TEXT, "
            "PRIMARY KEY (code, cell, trial))"
        )
        self._code = fingerprint() if code is None else code

    def get(self, cell: str, trial: int) -> Outcome | None:
        row = self._db.execute(
            "SELECT outcome FROM outcomes WHERE code=? AND cell=? AND trial=?", (self._code, cell, trial)
        ).fetchone()
        return None if row is None else Outcome(*json.loads(row[0]))

    def put(self, trial: int, outcomes: Sequence[tuple[str, Outcome]]) -> None:
        """Keep the outcomes of one trial, each with its cell."""
        rows = [(self._code, cell, trial, json.dumps(outcome)) for cell, outcome in outcomes]
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO outcomes VALUES (?,?,?,?)", rows)

    def close(self) -> None:
        self._db.close()


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Digest of the library's source: numbers of another version are not mixed in."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        shown = path.parent.name == "experiments" and path.stem in _PRESENTATION
        if not shown and path.parent.name != "cli":
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
