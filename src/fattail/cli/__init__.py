"""``fattail`` on the command line: private answers about a file, without Python.

Exit codes: 0 done, 1 an audit or self-test failed (or a bug), 2 the request or the file is
not usable, 3 the budget does not allow it, 4 the answer was printed but a file could not be
written, 130 stopped by the user. Messages are one line and never hold a value of a
row; set ``FATTAIL_DEBUG=1`` for tracebacks.
"""

from __future__ import annotations

import io
import os
import sqlite3
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import fattail
from fattail._tools.escape import for_terminal
from fattail.cli import estimate, inspect, ledger, statistics
from fattail.cli.paying import StoppedError
from fattail.cli.shared import say
from fattail.privacy import BudgetExceededError, PrivacyError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Differentially private statistics and learning for heavy-tailed data: no bounds needed.",
)
app.add_typer(ledger.app, name="ledger")
for _command in (
    statistics.count,
    statistics.mean,
    statistics.total,
    statistics.difference,
    estimate.fit,
    estimate.predict,
    inspect.methods,
    inspect.audit,
    inspect.doctor,
):
    app.command()(_command)


def _print_version(asked: bool) -> None:
    if asked:
        say(f"fattail {fattail.__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None: ...


STOPPED = 130

# typer carries its own copy of click in some versions and uses the package in others.
_CommandError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names must be printable on terminals that print only ASCII
            stream.reconfigure(errors="backslashreplace")
    try:
        code: int = app(args=arguments, prog_name="fattail", standalone_mode=False) or 0
        return _fail("stopped", code) if code == STOPPED else code
    except _CommandError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return 2
        return _fail(error.format_message(), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("stopped", STOPPED)
    except StoppedError as error:
        return _fail(str(error), STOPPED)
    except BudgetExceededError as error:
        return _fail(str(error), 3, error)
    except sqlite3.OperationalError as error:  # a full disk or a lock; SQLite's message quotes no rows
        return _fail(f"the ledger cannot be used now: {error}", 2, error)
    except Exception as error:  # no traceback, which may quote a row
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    """Report an error that no command expects: our own messages as they are, others by their type."""
    if os.environ.get("FATTAIL_DEBUG"):
        traceback.print_exc()
    if str(error) == "embedded null byte":  # raised by the operating system for a path, in some versions of click
        return _fail("no path can hold a NUL character", 2, error)
    if isinstance(error, ValueError | PrivacyError | NotImplementedError) and _raised_here(error):
        return _fail(str(error), 2, error)
    return _fail(f"unexpected {type(error).__name__}; FATTAIL_DEBUG=1 shows where (and may show values)", 1, error)


def _raised_here(error: BaseException) -> bool:
    """Whether an error was raised by this library or by scikit-learn's validation, whose messages quote no cells."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = frame.tb_frame.f_globals.get("__name__", "") if frame is not None else ""
    return module.split(".")[0] in ("fattail", "sklearn")


def _fail(message: str, code: int, error: BaseException | None = None) -> int:
    """One line on standard error, with what was charged if the error says so (see `fattail.cli.paying`)."""
    line = for_terminal(" ".join("; ".join([message, *getattr(error, "__notes__", ())]).split()))
    try:
        sys.stderr.write(f"fattail: {line}\n")
        sys.stderr.flush()
    except (OSError, AttributeError, ValueError):  # standard error is closed; the exit code remains
        return code
    return code
