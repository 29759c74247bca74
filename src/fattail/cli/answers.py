"""The answer of a command: printed even if its card or files cannot be written."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from fattail._tools.numbers import readable
from fattail.cli.outputs import EXIT_NOT_WRITTEN, try_to_write
from fattail.cli.paying import Payment
from fattail.cli.shared import Screen, emit, note, say
from fattail.privacy import PrivacyReport
from fattail.results.card import Card
from fattail.results.model_files import released
from fattail.results.release import Release
from fattail.rows.records import NUMBERS

# Most lines on a terminal; the JSON has all.
_MOST_LINES = 40

Writer = Callable[[Card], Sequence[Path]]


class Answer:
    """What a command prints and writes.

    Parameters
    ----------
    json : bool
        One JSON object instead of tables and sentences.
    """

    def __init__(self, json: bool) -> None:
        self._json = json
        self._writers: dict[str, Writer] = {}

    def write(self, what: str, writer: Writer) -> None:
        """Add a file to be written with the answer; its path was checked before."""
        self._writers[what] = writer

    def give(self, estimator: Any, payment: Payment, warned: list[str], **about: Any) -> None:
        """Print the answer and write the files; exit with a code of its own if one of them fails."""
        with _signals_delayed():
            self._give(estimator, payment, warned, about)

    def _give(self, estimator: Any, payment: Payment, warned: list[str], about: dict[str, Any]) -> None:
        failures, written = list[str](), list[str]()

        def attempted(what: str, action: Callable[[], Any]) -> Any:
            result, failed = try_to_write(what, action)
            failures.extend([failed] if failed else [])
            return result

        card = attempted("the card", lambda: Card.of(estimator, account=payment.charged, **about))
        heard = self._json or say((card and attempted("the table", lambda: _text(card))) or _numbers_without_card(estimator))
        for what, writer in self._writers.items():
            written += map(str, attempted(what, partial(writer, card)) or ())
        if self._json:
            shown = card and attempted("the card", card.to_dict)
            shown = shown or {"released": _numbers(estimator), "privacy": _report(estimator).to_dict()}
            heard = emit(shown | {"warnings": warned, "written": written, "failed": failures})
        else:
            for text in (*(f"note: {text}" for text in warned), *(f"wrote {path}" for path in written)):
                note(text)
        if failures or not heard:
            for text in (*failures, f"the answer was printed; {payment.statement}"):
                note(f"fattail: {text}")
            raise typer.Exit(EXIT_NOT_WRITTEN)


def with_form_of_numbers(warned: list[str], missing: str) -> list[str]:
    """The warnings of an answer and, where cells may have been passed over, what a number looks like.

    The warnings follow from public numbers and from releases, so whether there are any may be shown.
    """
    if not warned or missing == "error":
        return warned
    become = "count as 0" if missing == "zero" else "their rows do not count"
    return [*warned, f"{NUMBERS}; with --missing {missing} {become}"]


def missing_note(missing: str) -> str:
    """What happened to missing cells, for the end of a card."""
    if missing == "zero":
        return "Cells that were not finite numbers counted as 0."
    if missing == "drop":
        return "Rows with cells that were not finite numbers, or without a group, were left out; how many they are is private."
    return "The file was checked before fitting to hold finite numbers only; that check is not part of the guarantee."


# Signals that stop a program: Ctrl-C, a request to stop, a closed terminal.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def _signals_delayed() -> Iterator[None]:
    """Delay a first signal to stop until the answer is printed; a second one stops at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = list[int]()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def once(number: int, frame: Any) -> None:
        waiting.append(number)
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, once)
    try:
        yield
    finally:
        restore()
        if waiting == [signal.SIGINT]:
            raise KeyboardInterrupt
        if waiting:
            os.kill(os.getpid(), waiting[0])


def _text(page: Card) -> str:
    r = page.report
    intervals = any(x.low is not None for x in page.results)
    tested = any(x.error is not None for x in page.results)
    table = Table("", page.quantity, *(["std. error", "p"] if tested else []), *([page.interval_name] if intervals else []))
    for x in page.results[:_MOST_LINES]:
        tests = ["" if v is None else f"{v:.3g}" for v in (x.error, x.p)] if tested else []
        interval = [f"{readable(x.low)} to {readable(x.high)}"] if x.low is not None and x.high is not None else []
        table.add_row(x.name, readable(x.value), *tests, *interval)
    shown = io.StringIO()
    screen = Screen(file=shown)
    screen.print(table)
    if len(page.results) > _MOST_LINES:
        screen.print(f"and {len(page.results) - _MOST_LINES} more")
    if "p-value" in page.facts:
        screen.print(f"p-value {page.facts['p-value']:.3g}")
    promise = "seeded: NOT private" if r.seeded else f"({r.epsilon:g}, {r.delta:g})-differentially private"
    screen.print(f"{promise}, {r.relation} {r.protected}, {r.numerics} numerics")
    if page.account:
        left, limit = page.account["remaining"], page.account["epsilon"]
        screen.print(f"account '{page.account['name']}': {left:.4g} of epsilon {limit:g} left")
    return shown.getvalue()


def _numbers_without_card(estimator: Any) -> str:
    """The released numbers without a card."""
    return "".join(f"{name} = {value}\n" for name, value in _numbers(estimator).items()) + f"{_report(estimator)}\n"


def _numbers(estimator: Any) -> dict[str, Any]:
    if not isinstance(estimator, Release):
        return released(estimator)
    return {str(name): [value, low, high] for name, value, low, high in estimator.rows()}


def _report(estimator: Any) -> PrivacyReport:
    report: PrivacyReport = estimator.privacy if isinstance(estimator, Release) else estimator.privacy_
    return report
