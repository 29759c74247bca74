"""``fattail count``, ``mean``, ``total`` and ``difference``: answers about a column, in all or in each group."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

import fattail
from fattail.cli import outputs
from fattail.cli.answers import Answer, missing_note, with_form_of_numbers
from fattail.cli.paying import Payment
from fattail.cli.requests import check_different, estimator_of
from fattail.cli.rows import Reading
from fattail.cli.shared import (
    Account,
    Anyway,
    AsJson,
    By,
    CardFile,
    Confidence,
    Delimiter,
    Delta,
    Epsilon,
    Groups,
    LedgerFile,
    Memory,
    MethodName,
    MissingOrDrop,
    Person,
    QuotedNewlines,
    Relation,
    Seed,
    Table,
    UsageError,
    Weight,
    account_of,
    split,
)
from fattail.results.card import Card
from fattail.results.release import Release
from fattail.rows.records import NUMBERS
from fattail.statistics.question import MISSING

Column = Annotated[str, typer.Option("--column", "--columns", "-c", help="The column.")]


class StatisticFit:
    """A statistic in the form of an estimator, for `Payment`."""

    def __init__(self, function: Any, data: Path, **options: Any) -> None:
        self._function, self._data, self._options = function, data, options
        self.release: Release | None = None

    def set_params(self, **options: Any) -> StatisticFit:
        self._options |= options
        return self

    def fit(self) -> StatisticFit:
        try:
            self.release = self._function(str(self._data), **self._options)
        except ValueError as error:
            error.args = (_as_options(str(error)),)
            raise
        return self


def count(
    file: Table,
    by: By = None,
    groups: Groups = None,
    person: Person = None,
    weight: Weight = "persons",
    relation: Relation = "replace-one",
    missing: MissingOrDrop = "error",
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    confidence: Confidence = 0.95,
    ledger: LedgerFile = None,
    account: Account = None,
    seed: Seed = None,
    card: CardFile = None,
    delimiter: Delimiter = None,
    quoted_newlines: QuotedNewlines = False,
    anyway: Anyway = False,
    json: AsJson = False,
) -> None:
    """Private number of rows (of persons), in all or in each group."""
    about = _about(
        groups,
        seed,
        by=by,
        person=person,
        weight=weight,
        relation=relation,
        missing=missing,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        delimiter=delimiter,
        quoted_newlines=quoted_newlines,
    )
    _ask(fattail.count, file, about, ledger, account, card, anyway, json)


def mean(
    file: Table,
    columns: Annotated[str, typer.Option("--columns", "--column", "-c", help="Comma-separated columns; one column with --by.")],
    by: By = None,
    groups: Groups = None,
    person: Person = None,
    weight: Weight = "persons",
    relation: Relation = "replace-one",
    missing: MissingOrDrop = "error",
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    confidence: Confidence = 0.95,
    method: MethodName = "auto",
    ledger: LedgerFile = None,
    account: Account = None,
    seed: Seed = None,
    card: CardFile = None,
    delimiter: Delimiter = None,
    quoted_newlines: QuotedNewlines = False,
    memory: Memory = None,
    anyway: Anyway = False,
    json: AsJson = False,
) -> None:
    """Private means of some columns, or of one column in each group, with intervals. No bounds needed."""
    names = split(columns)
    if not names:
        raise UsageError("--columns needs at least one column")
    about = _about(
        groups,
        seed,
        by=by,
        person=person,
        weight=weight,
        relation=relation,
        missing=missing,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        delimiter=delimiter,
        quoted_newlines=quoted_newlines,
    )
    if by is not None or person is not None or relation != "replace-one" or missing == "drop":
        if len(names) > 1:
            raise UsageError("--by, --person, --relation add-remove and --missing drop are for one column at a time")
        if method != "auto":
            raise UsageError("--method: a mean by groups or persons has the default method only")
        _ask(fattail.mean, file, about | {"column": names[0]}, ledger, account, card, anyway, json)
        return
    answer = _answer(file, card, ledger, json)
    options = {"epsilon": epsilon, "delta": delta, "method": method, "random_state": seed}
    estimator = estimator_of("DPMean", (), **options).set_params(confidence=confidence)
    payment = Payment(account_of(ledger, account), anyway)
    with payment.open():
        rows = Reading(file, missing, delimiter, quoted_newlines, json).dense(names)
        warned = with_form_of_numbers(payment.fit(estimator, *rows.arguments(estimator, memory), quiet=json), missing)
    answer.give(
        estimator,
        payment,
        warned,
        names=names,
        title=f"Private means of {file.name}",
        facts={"rows": rows.n},
        notes=[*warned, missing_note(missing)],
    )


def total(
    file: Table,
    column: Column,
    by: By = None,
    groups: Groups = None,
    person: Person = None,
    relation: Relation = "replace-one",
    missing: MissingOrDrop = "error",
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    confidence: Confidence = 0.95,
    ledger: LedgerFile = None,
    account: Account = None,
    seed: Seed = None,
    card: CardFile = None,
    delimiter: Delimiter = None,
    quoted_newlines: QuotedNewlines = False,
    anyway: Anyway = False,
    json: AsJson = False,
) -> None:
    """Private total of a column, in all or in each group."""
    about = _about(
        groups,
        seed,
        by=by,
        person=person,
        relation=relation,
        missing=missing,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        delimiter=delimiter,
        quoted_newlines=quoted_newlines,
    )
    _ask(fattail.total, file, about | {"column": column}, ledger, account, card, anyway, json)


def difference(
    file: Table,
    column: Column,
    by: Annotated[str, typer.Option("--by", help="Column of groups.")],
    groups: Annotated[str, typer.Option("--groups", help="The two groups to compare, separated by a comma.")],
    person: Person = None,
    weight: Weight = "persons",
    relation: Relation = "replace-one",
    missing: MissingOrDrop = "error",
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    confidence: Confidence = 0.95,
    ledger: LedgerFile = None,
    account: Account = None,
    seed: Seed = None,
    card: CardFile = None,
    delimiter: Delimiter = None,
    quoted_newlines: QuotedNewlines = False,
    anyway: Anyway = False,
    json: AsJson = False,
) -> None:
    """Private difference of the means of two groups (the first minus the second), with an interval and a p-value."""
    about = _about(
        groups,
        seed,
        by=by,
        person=person,
        weight=weight,
        relation=relation,
        missing=missing,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        delimiter=delimiter,
        quoted_newlines=quoted_newlines,
    )
    _ask(fattail.difference, file, about | {"column": column}, ledger, account, card, anyway, json)


def _about(groups: str | None, seed: int | None, **options: Any) -> dict[str, Any]:
    """The options of a command as parameters of the functions."""
    if groups is not None and not split(groups):
        raise UsageError("--groups needs at least one group")
    if groups is not None and options["by"] is None:
        raise UsageError("--groups needs --by, the column that holds them")
    if options.get("weight") == "rows" and options["person"] is None:
        raise UsageError("--weight rows needs --person: without it every row counts once anyway")
    if options["missing"] not in MISSING:
        raise UsageError(f"--missing must be one of {', '.join(MISSING)}; got {options['missing']!r}")
    check_different("--groups", split(groups))
    return options | {"groups": None if groups is None else split(groups), "random_state": seed}


def _as_options(text: str) -> str:
    """A message of a Python function, with parameters replaced by options of the command line.

    Examples
    --------
    >>> _as_options("choose missing='drop', or give their names with groups=[...]")
    'choose --missing drop, or give their names with --groups'
    """
    # In a file, a cell is also no number if it is written in another way; dropping all of them would leave nothing.
    text = text.replace(
        "choose missing='drop' to leave such rows out, or",
        f"{NUMBERS}; convert the column; if most of its cells are numbers, choose missing='drop' to leave the other rows out, or",
    )
    text = re.sub(r"\bdelimiter='", "--delimiter '", text)
    text = re.sub(r"\b(missing|weight|relation)='([\w-]+)'", r"--\1 \2", text)
    text = text.replace("delimiter and quoted_newlines are", "--delimiter and --quoted-newlines are")
    return re.sub(r"\bgroups=\[[^\]]*\]", "--groups", text)


def _answer(file: Path, card: Path | None, ledger: Path | None, json: bool) -> Answer:
    """The answer to be printed and written; paths are checked before anything is charged."""
    answer = Answer(json)
    if card is not None:
        outputs.check_suffix("--card", card, (".html", ".json"))
        outputs.check(Card.paths(card), apart_from=(file, ledger))
        answer.write(f"the card {card}", lambda page: page.save(card))
    return answer


def _ask(
    function: Any,
    file: Path,
    about: dict[str, Any],
    ledger: Path | None,
    account: str | None,
    card: Path | None,
    anyway: bool,
    json: bool,
) -> None:
    """One question, one charge, one answer."""
    answer = _answer(file, card, ledger, json)
    payment = Payment(account_of(ledger, account), anyway)
    asked = StatisticFit(function, file, **about)
    with payment.open():
        warned = payment.fit(asked, quiet=json)
    if "column" in about:
        warned = with_form_of_numbers(warned, about["missing"])
    assert asked.release is not None
    what, facts = function.__name__, {k: about[k] for k in ("column", "by", "person") if about.get(k) is not None}
    answer.give(
        asked.release,
        payment,
        warned,
        names=[str(about["column"])] if what in ("mean", "total") and about["by"] is None else None,
        title=f"Private {what} of {file.name}" + ("" if about["by"] is None else f" by {about['by']}"),
        facts=facts,
        notes=[*warned, missing_note(about["missing"])],
    )
