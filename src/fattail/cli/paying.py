"""A fit that is charged once, reports its charge, and is refused before the charge if it is hopeless."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from fattail import UtilityWarning
from fattail._tools.escape import for_terminal
from fattail.cli.shared import UsageError, err
from fattail.privacy import BudgetExceededError
from fattail.results.progress import progress_bar


class StoppedError(Exception):
    """The user stopped a command; the message says what it has cost."""


class Payment:
    """The charge of one command: it is passed on to the account, and remembered.

    A fit gives all warnings that follow from public numbers, is charged, and then reads rows. A warning means that the answer
    would be mostly noise. The charge is then refused, and nothing is spent, unless ``anyway`` is set.

    Parameters
    ----------
    account : account or None
        The account to charge; None without a ledger.
    anyway : bool
        Charge a hopeless fit, too.
    """

    def __init__(self, account: Any = None, anyway: bool = False) -> None:
        self._account, self._anyway = account, anyway
        self._before = None if account is None else account.spent
        self._warned: list[warnings.WarningMessage] = []
        self.asked = False

    def charge(self, *arguments: Any, **options: Any) -> None:
        """What a curator calls before it samples."""
        doubts = _sentences(w for w in self._warned if issubclass(w.category, UtilityWarning))
        if doubts and not self._anyway:
            raise UsageError(f"{'; '.join(doubts)}. Nothing was charged; --anyway asks in spite of that")
        self.asked = True
        if self._account is not None:
            try:
                self._account.charge(*arguments, **options)
            except (BudgetExceededError, ValueError):  # too expensive, or for another unit or relation: nothing was written
                self.asked = False
                raise

    def __deepcopy__(self, memo: Any) -> Payment:
        """Itself: a copied estimator spends the same budget."""
        return self

    @property
    def charged(self) -> Any:
        """The account, if it was charged; None if it was not or if there is none."""
        return self._account if self.asked else None

    @property
    def statement(self) -> str:
        """What this command has cost, as the account has it."""
        if not self.asked:
            return "nothing was charged"
        if self._account is None:
            return "no ledger was charged, since none was given; count this answer's epsilon as spent"
        return (
            f"account '{self._account.name}': epsilon {self._account.spent:.4g} of {self._account.epsilon:g} is spent, "
            f"{self._before:.4g} before this command"
        )

    def fit(self, estimator: Any, *arrays: Any, quiet: bool = False, **options: Any) -> list[str]:
        """Fit under a progress bar of releases and return the warnings as sentences; call it inside `open`."""
        with warnings.catch_warnings(record=True) as self._warned:
            warnings.simplefilter("always")
            with progress_bar("fitting", err) if showing(quiet) else nullcontext():
                estimator.set_params(ledger=self).fit(*arrays, **options)
        return _sentences(self._warned)

    @contextmanager
    def open(self) -> Iterator[None]:
        """An exception that leaves the block gets a note of what was charged."""
        try:
            yield
        except KeyboardInterrupt:
            raise StoppedError(f"stopped; {self._statement_if_readable()}") from None
        except Exception as error:
            if self.asked:
                error.add_note(self._statement_if_readable())
            raise

    def _statement_if_readable(self) -> str:
        try:
            return self.statement
        except Exception:  # the ledger itself may have failed
            return "what was charged cannot be read from the ledger"


def _sentences(caught: Any) -> list[str]:
    return sorted({str(w.message) for w in caught})


@contextmanager
def reading_bar(name: str, quiet: bool = False) -> Iterator[Callable[[float], None] | None]:
    """A progress bar for the reading of a file; None without a terminal."""
    if not showing(quiet):
        yield None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(markup=False), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(f"reading {for_terminal(name)}", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def showing(quiet: bool) -> bool:
    return not quiet and err.is_terminal
