"""``fattail ledger``: budgets that outlive a command."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fattail.cli.shared import Account, AsJson, Delta, UsageError, emit, existing_ledger, out, usable
from fattail.privacy import Ledger, LedgerAccount

app = typer.Typer(no_args_is_help=True, help="Open, show and list privacy budgets.")

LedgerPath = Annotated[Path, typer.Argument(help="The ledger file.", callback=usable)]


@app.command("open")
def open_account(
    path: LedgerPath,
    account: Annotated[str, typer.Argument(help="Name of the account: one per protected dataset.")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Most that may ever be spent.")],
    delta: Delta = 1e-6,
    json: AsJson = False,
) -> None:
    """Open an account; its limits are set once and cannot change."""
    opened = Ledger(path).open(account, epsilon=epsilon, delta=delta)
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
    accounts = [a for a in existing_ledger(path).accounts() if account in (None, a.name)]
    if account is not None and not accounts:
        raise UsageError(f"{path} has no account {account!r}")
    lines = [
        {"account": a.name, "at": datetime.fromtimestamp(c.at, UTC).isoformat(timespec="seconds"), "label": c.label}
        | {"epsilon_after": c.epsilon_after, "events": [e.to_dict() for e in c.events]}
        for a in accounts
        for c in a.history
    ]
    if json:
        emit({"ledger": str(path), "charges": lines})
        return
    table = Table("account", "at (UTC)", "what", "epsilon after")
    for line in lines:
        table.add_row(str(line["account"]), str(line["at"])[:19], str(line["label"]), f"{line['epsilon_after']:.4g}")
    out.print(table)


def _state(account: LedgerAccount) -> dict[str, Any]:
    names = ("name", "epsilon", "delta", "spent", "remaining")
    return {k: getattr(account, k) for k in names} | {"charges": len(account.history)}
