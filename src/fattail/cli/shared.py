"""What the commands have in common: options, output, accounts, and a fit with its warnings caught."""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fattail.privacy import Ledger, LedgerAccount
from fattail.progress import progress_bar

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

File = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or svmlight file; .gz is looked through.")]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="Privacy loss allowed for this answer.")]
Delta = Annotated[float, typer.Option("--delta", help="Probability outside the claim.")]
MethodName = Annotated[str, typer.Option("--method", help="See `fattail methods`.")]
LedgerFile = Annotated[Path | None, typer.Option("--ledger", help="Ledger to charge (see `fattail ledger open`).")]
Account = Annotated[str | None, typer.Option("--account", help="Account of the ledger; may be left out if it has only one.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Reproducible noise, for experiments: NOT private.")]
Missing = Annotated[str, typer.Option("--missing", help="A cell that is no finite number: 'error' or 'zero'.")]
Category = Annotated[
    list[str] | None, typer.Option("--category", help="Text column and its levels, e.g. 'region=north|south|west'.")
]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="Default: comma; tab for .tsv.")]
Memory = Annotated[float | None, typer.Option("--memory", help="Most memory for the table, in GB. Default: half the machine's.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


class UsageError(ValueError):
    """A request that cannot be met as given; the message is for the user and holds no private value."""


def emit(payload: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(payload, indent=1, default=float) + "\n")


def note(text: str) -> None:
    """A line for the person, apart from the answer."""
    err.print(f"[dim]{text}[/dim]")


def split(text: str | None) -> list[str]:
    """Comma-separated names."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def account_of(path: Path | None, name: str | None) -> LedgerAccount | None:
    """The account to charge; it must exist, because limits are set once and by somebody."""
    if path is None:
        if name is not None:
            raise UsageError("--account needs --ledger")
        return None
    accounts = existing_ledger(path).accounts()
    if name is None and len(accounts) == 1:
        return accounts[0]
    for account in accounts:
        if account.name == name:
            return account
    known = ", ".join(repr(a.name) for a in accounts) or "none"
    raise UsageError(f"choose an account of {path} with --account (it has: {known})")


def existing_ledger(path: Path) -> Ledger:
    if not path.exists():
        raise UsageError(f"no ledger at {path}; create it with `fattail ledger open`")
    return Ledger(path)


def fitted(estimator: Any, *arrays: Any, quiet: bool = False) -> tuple[Any, list[str]]:
    """Fit under a progress bar of releases; warnings become lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with progress_bar("fitting", err) if not quiet and err.is_terminal else nullcontext():
            estimator.fit(*arrays)
    return estimator, sorted({str(w.message) for w in caught})
