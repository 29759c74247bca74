"""Common parts of the commands: options, output streams, and accounts."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from fattail._tools.escape import for_terminal
from fattail.privacy import Ledger, LedgerAccount
from fattail.privacy.accounts import spelling


class Screen(Console):
    """A console that shows untrusted text literally: no markup, no emoji, no control characters.

    One ``print`` is one line; cells of tables may have several.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, soft_wrap=True, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(Text(for_terminal(o)) if isinstance(o, str) else o for o in objects), **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(for_terminal(text, lines=True), **(options | {"markup": False, "emoji": False}))


out = Screen()
err = Screen(stderr=True)


class UsageError(ValueError):
    """An invalid request; the message is for the user and holds no private value."""


def usable(path: Path | None) -> Path | None:
    """A path that may or may not exist; refuse an invalid one, such as a name that is too long."""
    try:
        if path is not None:
            os.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return path
    except (OSError, ValueError):
        raise UsageError(f"not a path: {str(path)[:60]!r}") from None
    return path


def positive(number: float | None) -> float | None:
    """A positive number; anything else is refused."""
    if number is not None and not 0 < number < math.inf:
        raise UsageError(f"--memory must be a positive number of GB, got {number!r}")
    return number


File = Annotated[
    Path, typer.Argument(help="CSV, TSV, Parquet or svmlight file; text files may be gzipped (.gz).", callback=usable)
]
Table = Annotated[Path, typer.Argument(help="CSV, TSV or Parquet file; text files may be gzipped (.gz).", callback=usable)]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="Privacy loss allowed for this answer.")]
Delta = Annotated[float, typer.Option("--delta", help="Probability outside the claim.")]
MethodName = Annotated[str, typer.Option("--method", help="See `fattail methods`.")]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="Ledger to charge (see `fattail ledger open`).", callback=usable)
]
Account = Annotated[str | None, typer.Option("--account", help="Account of the ledger; may be left out if it has only one.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Reproducible noise, for experiments: NOT private.")]
Missing = Annotated[str, typer.Option("--missing", help="A cell that is not a finite number: 'error' or 'zero'.")]
MissingOrDrop = Annotated[
    str, typer.Option("--missing", help="A cell that is not a finite number: 'error', 'zero', or 'drop' to leave its row out.")
]
By = Annotated[str | None, typer.Option("--by", help="Column of groups: one answer for each, and one charge for all.")]
Groups = Annotated[str | None, typer.Option("--groups", help="Comma-separated groups. Default: found privately.")]
Person = Annotated[
    str | None, typer.Option("--person", help="Column of ids: a person with any number of rows is protected, not a row.")
]
Weight = Annotated[
    str, typer.Option("--weight", help="With --person: 'persons' count once, or 'rows' do, up to a private cap per person.")
]
Relation = Annotated[
    str, typer.Option("--relation", help="'replace-one', or 'add-remove' if the number of rows (persons) is private too.")
]
Confidence = Annotated[float, typer.Option("--confidence", help="Level of the intervals, each by itself.")]
CardFile = Annotated[
    Path | None, typer.Option("--card", help="Write the privacy card here (HTML, and JSON beside it).", callback=usable)
]
Category = Annotated[
    list[str] | None, typer.Option("--category", help="Text column and its levels, e.g. 'region=north|south|west'.")
]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="Default: comma; tab for .tsv.")]
QuotedNewlines = Annotated[
    bool, typer.Option("--quoted-newlines", help="Quoted cells hold line breaks; you promise that every quote is closed.")
]
Memory = Annotated[
    float | None,
    typer.Option(
        "--memory", help="Most GB for methods that need all rows at once. Default: half the machine's.", callback=positive
    ),
]
Anyway = Annotated[bool, typer.Option("--anyway", help="Spend the budget although the answer will be mostly noise.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


def say(text: str) -> bool:
    """Write to standard output or, if that is closed or full, to standard error; whether the first worked."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
        return True
    except (OSError, AttributeError, ValueError):  # a closed pipe, a full disk, no stream at all
        _silence(sys.stdout)
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, AttributeError, ValueError):
        _silence(sys.stderr)
    return False


class StandardOutput:
    """Standard output as a stream to write to; see `say`."""

    def write(self, text: str) -> None:
        if not say(text):
            raise UsageError("standard output is closed or full")


def _silence(stream: Any) -> None:
    """Redirect a broken stream to the null device, so that the interpreter's last flush does not fail."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, AttributeError, ValueError):
        return


def emit(payload: dict[str, Any]) -> bool:
    """One JSON object on standard output, in ASCII; see `say`."""
    return say(json.dumps(payload, indent=1, default=float) + "\n")


def note(text: str) -> None:
    """A line for the user on standard error."""
    try:
        err.print(text, style="dim")
    except OSError:
        _silence(sys.stderr)


def split(text: str | None) -> list[str]:
    """Comma-separated names."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def account_of(path: Path | None, name: str | None) -> LedgerAccount | None:
    """The account to charge; it must exist, because its limits are set when it is opened."""
    if path is None:
        if name is not None:
            raise UsageError("--account needs --ledger")
        return None
    accounts = existing_ledger(path).accounts()
    if name is None and len(accounts) == 1:
        return accounts[0]
    for account in accounts:
        if name is not None and account.name == spelling(name):
            return account
    known = ", ".join(repr(a.name) for a in accounts) or "none"
    if name is not None:
        raise UsageError(f"{path} has no account {name!r} (it has: {known})")
    raise UsageError(f"choose an account of {path} with --account (it has: {known})")


def existing_ledger(path: Path) -> Ledger:
    if not path.exists():
        raise UsageError(f"no ledger at {path}; create it with `fattail ledger open`")
    return Ledger(path)
