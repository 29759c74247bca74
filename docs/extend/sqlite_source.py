"""A custom source: the rows of a query to an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fattail.rows.sources import Reader


class SQLite(Reader):
    """Columns of a table in an SQLite file; the last of them is the target if ``target`` is true.

    A database promises no order without ORDER BY, so ``repeats`` is False: passes that pick rows by their place
    check that the rows come as they came before.
    """

    repeats = False

    def __init__(
        self, path: str | Path, table: str, columns: tuple[str, ...], *, target: bool = False, batch: int = 4096
    ) -> None:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        self._table = '"' + table.replace('"', '""') + '"'
        self._path, self._query, self._batch = path, f"SELECT {quoted} FROM {self._table}", batch
        self.columns = columns[: len(columns) - target]
        self.has_target = target
        self.d = len(self.columns)
        with sqlite3.connect(path) as connection:
            (self.n,) = connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()

    def _chunks(self, start: int, stop: int) -> Iterator[tuple[Any, Any]]:
        with sqlite3.connect(self._path) as connection:
            cursor = connection.execute(f"{self._query} LIMIT {stop - start} OFFSET {start}")
            while rows := cursor.fetchmany(self._batch):
                # NULL becomes NaN, a missing cell; text would raise, whatever the rows hold otherwise.
                cells = np.array(rows, dtype=np.float64)
                yield np.ascontiguousarray(cells[:, : self.d]), cells[:, self.d].copy() if self.has_target else None
