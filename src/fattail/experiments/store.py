"""Finished cells, one row each, in one SQLite file: what is there need not be computed again."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fattail.experiments.spec import Method, Panel, text

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
    """Cells by panel, method, setting and trial, for one state of the code."""

    def __init__(self, path: Path, code: str | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS cells (code TEXT, panel TEXT, method TEXT, setting TEXT, trial INTEGER, "
            "outcome TEXT, PRIMARY KEY (code, panel, method, setting, trial))"
        )
        self._code = fingerprint() if code is None else code

    def get(self, panel: Panel, method: Method, setting: dict[str, Any], trial: int) -> Outcome | None:
        row = self._db.execute(
            "SELECT outcome FROM cells WHERE code=? AND panel=? AND method=? AND setting=? AND trial=?",
            (self._code, panel.key, method.label, text(setting), trial),
        ).fetchone()
        return None if row is None else Outcome(*json.loads(row[0]))

    def put(self, panel: Panel, setting: dict[str, Any], trial: int, outcomes: Sequence[tuple[str, Outcome]]) -> None:
        rows = [(self._code, panel.key, label, text(setting), trial, json.dumps(outcome)) for label, outcome in outcomes]
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO cells VALUES (?,?,?,?,?,?)", rows)

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
