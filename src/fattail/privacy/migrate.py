"""Ledgers of version 1 stored a balance beside the history; the history is kept."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from fattail.privacy.accounts import account_name, check_kind
from fattail.privacy.calibration import check_budget
from fattail.privacy.chain import Chain
from fattail.privacy.events import Event


def migrate(path: Path) -> None:
    """Rewrite a ledger of version 1 as a chain, in one transaction; leave every other file alone."""
    chain = Chain(path)
    with chain._connect() as db:
        if not _is_first_version(db):
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            if _is_first_version(db):  # no other process has migrated it meanwhile
                _rewrite(db, chain)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise


def _is_first_version(db: sqlite3.Connection) -> bool:
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return bool(db.execute("PRAGMA user_version").fetchone()[0] == 1 and {"account", "charge"} <= tables)


def _rewrite(db: sqlite3.Connection, chain: Chain) -> None:
    accounts = db.execute("SELECT name, epsilon, delta, opened FROM account ORDER BY opened, name").fetchall()
    charges = db.execute("SELECT account, label, events, at FROM charge ORDER BY id").fetchall()
    try:
        names = {name: account_name(name) for name, *_ in accounts}
        limits = {name: check_budget(epsilon, delta) for name, epsilon, delta, _ in accounts}
        if len(set(names.values())) < len(names):
            raise ValueError("two accounts whose names look the same")
        opened: list[dict[str, Any]] = [
            {"type": "opened", "account": names[name], "epsilon": limits[name][0], "delta": limits[name][1]}
            | {"kind": check_kind(None, limits[name][1]), "user": "", "at": float(at)}
            for name, _, _, at in accounts
        ]
        charged: list[dict[str, Any]] = [
            {"type": "charged", "account": names[name], "label": str(label), "claim": None, "user": "", "at": float(at)}
            | {"events": [Event.from_dict(e).to_dict() for e in json.loads(events)]}
            | {"data": "", "columns": [], "unit": "row", "relation": "replace-one"}
            for name, label, events, at in charges
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"ledger {chain.path} is of version 1 and damaged; it cannot be brought up to date ({error})") from None
    db.execute("DROP TABLE charge")
    db.execute("DROP TABLE account")
    pages = chain.begin(db)
    for body in (*opened, *charged):
        pages.append(body)
    chain.store(db, pages, 0)
    chain._check_format(db)  # views and triggers of the old file would outlive its tables
