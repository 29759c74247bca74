"""``fattail ledger``: budgets in a file."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fattail.cli.shared import Account, AsJson, UsageError, emit, existing_ledger, out, usable
from fattail.privacy import Ledger, LedgerAccount
from fattail.privacy.accounts import spelling

app = typer.Typer(no_args_is_help=True, help="Open, show, list and verify privacy budgets.")

# Columns that the table of charges needs; a narrower terminal gets two lines of text per charge.
WIDE = 120

LedgerPath = Annotated[Path, typer.Argument(help="The ledger file.", callback=usable)]


@app.command("open")
def open_account(
    path: LedgerPath,
    account: Annotated[str, typer.Argument(help="Name of the account: one per protected dataset.")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Most that may ever be spent.")],
    delta: Annotated[float, typer.Option("--delta", help="Most delta of all answers together; one answer takes 1e-6.")] = 1e-5,
    kind: Annotated[
        str | None, typer.Option("--kind", help="How charges are counted: mixed (default), gaussian, concentrated or sum.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Open an account; its limits are set once and cannot change."""
    opened = Ledger(path).open(account, epsilon=epsilon, delta=delta, kind=kind)
    if json:
        emit(_state(opened))
    else:
        out.print(f"account '{opened.name}' in {path}: epsilon {epsilon:g}, delta {delta:g}, {opened.remaining:.4g} left")


@app.command()
def show(path: LedgerPath, json: AsJson = False) -> None:
    """What every account has spent and has left."""
    states = [_state(a) for a in existing_ledger(path).accounts()]
    if json:
        emit({"ledger": str(path), "accounts": states})
        return
    table = Table("account", "epsilon", "delta", "spent", "left", "charges")
    for s in states:
        numbers = (f"{s['epsilon']:g}", f"{s['delta']:g}", f"{s['spent']:.4g}", f"{s['remaining']:.4g}", str(s["charges"]))
        table.add_row(s["name"], *numbers)
    out.print(table)


@app.command()
def history(path: LedgerPath, account: Account = None, json: AsJson = False) -> None:
    """Every charge, in order."""
    name = None if account is None else spelling(account)
    accounts = [a for a in existing_ledger(path).accounts() if name in (None, a.name)]
    if account is not None and not accounts:
        raise UsageError(f"{path} has no account {account!r}")
    lines = [
        {"account": a.name, "at": datetime.fromtimestamp(c.at, UTC).isoformat(timespec="seconds"), "label": c.label}
        | {"epsilon_after": c.epsilon_after, "events": [e.to_dict() for e in c.events]}
        | {"claim": c.claim, "user": c.user, **asdict(c.subject)}
        for a in accounts
        for c in a.history
    ]
    if json:
        emit({"ledger": str(path), "charges": lines})
        return
    if out.width < WIDE:
        for line in lines:
            out.print(f"{str(line['at'])[:19]} UTC  {line['account']}  epsilon after: {line['epsilon_after']:.4g}", markup=False)
            out.print(f"    {line['label']}; by {line['user']}; data {line['data']}; {_protected(line)}", markup=False)
        return
    table = Table("account", "at (UTC)", "user", "what", "data", "protects", "epsilon after")
    for line in lines:
        texts = (*(str(line[k]) for k in ("user", "label", "data")), _protected(line))
        table.add_row(str(line["account"]), str(line["at"])[:19], *texts, f"{line['epsilon_after']:.4g}")
    out.print(table)


def _protected(line: dict[str, Any]) -> str:
    """Unit and relation of a charge."""
    unit = f"{line['unit']} ({line['person']})" if line["person"] else line["unit"]
    return f"{unit}, {line['relation']}"


@app.command()
def verify(path: LedgerPath, json: AsJson = False) -> None:
    """Check that every entry is as it was written; the exit code is 1 if not.

    A file cannot show that its whole history was replaced, or that it is an older state from another machine: compare the
    number of entries and what is spent with your own records.
    """
    found = existing_ledger(path).verify()
    if json:
        accounts = [dict(zip(("name", "epsilon", "spent", "charges"), account, strict=True)) for account in found.accounts]
        shown = {"ledger": str(path), "ok": bool(found), "entries": found.entries, "accounts": accounts}
        emit(shown | {"problems": found.problems, "notes": found.notes})
    else:
        out.print(str(found), markup=False)
        for text in found.notes:
            out.print(f"note: {text}", markup=False)
        for name, epsilon, spent, charges in found.accounts:
            times = f"{charges} charge{'s' if charges != 1 else ''}"
            out.print(f"  {name}: {spent:.4g} of {epsilon:g} spent in {times}", markup=False)
    if not found:
        raise typer.Exit(1)


@app.command()
def adopt(path: LedgerPath) -> None:
    """Allow charges to a copied or restored ledger; the file records it."""
    existing_ledger(path).adopt()
    out.print(f"{path} is in use here from now on", markup=False)


def _state(account: LedgerAccount) -> dict[str, Any]:
    names = ("name", "epsilon", "delta", "kind", "spent", "remaining")
    return {k: getattr(account, k) for k in names} | {"charges": len(account.history)}
