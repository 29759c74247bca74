"""``fattail fit`` and ``predict``.

Every command has the same steps: check what is public, outputs included; read and check the file; one charge; print the answer,
even if cards and files cannot be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from fattail._tools.escape import write_csv
from fattail.cli import outputs
from fattail.cli.answers import Answer, missing_note, with_form_of_numbers
from fattail.cli.paying import Payment
from fattail.cli.requests import (
    CLASSIFIERS,
    MODELS,
    WITHOUT_TARGET,
    check_different,
    columns_of,
    estimator_of,
    facts_of_model,
    levels_of,
)
from fattail.cli.rows import Reading, Rows
from fattail.cli.shared import (
    Account,
    Anyway,
    AsJson,
    Category,
    Delimiter,
    Delta,
    Epsilon,
    File,
    LedgerFile,
    Memory,
    MethodName,
    Missing,
    MissingOrDrop,
    Person,
    QuotedNewlines,
    Relation,
    Seed,
    StandardOutput,
    UsageError,
    account_of,
    emit,
    note,
    split,
    usable,
)
from fattail.estimators.base import RELATIONS
from fattail.results.card import Card
from fattail.results.model_files import load_model, save_model


def fit(
    file: File,
    model: Annotated[str, typer.Option("--model", "-m", help=f"One of: {', '.join(MODELS)}.")],
    target: Annotated[str | None, typer.Option("--target", "-t", help="Column to predict.")] = None,
    features: Annotated[str | None, typer.Option("--features", help="Comma-separated columns. Default: all others.")] = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    method: MethodName = "auto",
    sparsity: Annotated[int | None, typer.Option("--sparsity", help="Non-zero coefficients, for the sparse models.")] = None,
    classes: Annotated[str, typer.Option("--classes", help="The two labels, for the classifiers.")] = "0,1",
    category: Category = None,
    dimension: Annotated[int | None, typer.Option("--dimension", help="Number of columns of an svmlight file.")] = None,
    confidence: Annotated[
        float | None, typer.Option("--confidence", help="Level of the intervals, for models that have them. Default: 0.95.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option("--set", help="A tunable parameter, e.g. n_iter=50.")] = None,
    ledger: LedgerFile = None,
    account: Account = None,
    seed: Seed = None,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the model here, and its card beside it.", callback=usable)
    ] = None,
    person: Person = None,
    relation: Relation = "replace-one",
    missing: MissingOrDrop = "error",
    delimiter: Delimiter = None,
    quoted_newlines: QuotedNewlines = False,
    memory: Memory = None,
    anyway: Anyway = False,
    json: AsJson = False,
) -> None:
    """A private model of a file, saved as JSON with a privacy card."""
    if model not in MODELS:
        raise UsageError(f"--model must be one of {', '.join(MODELS)}; got {model!r}")
    labels, levels = split(classes), levels_of(category or [])
    if model in CLASSIFIERS and len(labels) != 2:
        raise UsageError(f"--classes must be two labels, got {classes!r}")
    check_different("--classes", labels)
    given = {"sparsity": sparsity, "confidence": confidence}
    chosen = [*(option or []), *(f"{name}={value}" for name, value in given.items() if value is not None)]
    if relation not in RELATIONS:
        raise UsageError(f"--relation must be one of {', '.join(RELATIONS)}; got {relation!r}")
    estimator = estimator_of(
        MODELS[model],
        chosen,
        epsilon=epsilon,
        delta=delta,
        method=method,
        random_state=seed,
        relation=relation,
        # Other missing cells are gone once the file is read.
        missing="drop" if missing == "drop" else "error",
    )
    reading = Reading(file, missing, delimiter, quoted_newlines, json, may_be_empty=relation == "add-remove" or missing == "drop")
    if not reading.is_sparse:
        columns, target = columns_of(file, reading.header, features, target, model, person)
    elif person is not None:
        raise UsageError("an svmlight file has no column of ids: --person is for CSV and Parquet files")
    elif dimension is None:
        raise UsageError("an svmlight file needs --dimension: the largest column that occurs depends on the rows")
    else:
        columns = [str(j + 1) for j in range(dimension)]
    answer = Answer(json)
    if output is not None:
        outputs.check_suffix("--out", output, (".json", ".model"))
        beside = output.with_name(f"{output.stem}-card.html")
        outputs.check((output, *Card.paths(beside)), apart_from=(file, ledger))
        about = {"model": model, "target": target, "columns": columns, "levels": levels, "classes": labels, "missing": missing}
        answer.write(f"the model {output}", lambda page: [save_model(estimator, output, feature_names=rows.names, **about)])
        answer.write(f"the card {beside}", lambda page: page.save(beside))
    payment = Payment(account_of(ledger, account), anyway)
    with payment.open():
        coded = levels | ({target: labels} if model in CLASSIFIERS and target else {})
        rows = reading.sparse(len(columns)) if reading.is_sparse else reading.dense(columns, target, coded)
        arguments = rows.arguments(estimator, memory)
        who = {} if person is None else {"person": reading.ids(person)}
        warned = payment.fit(estimator, *(arguments[:1] if model in WITHOUT_TARGET else arguments), quiet=json, **who)
    answer.give(
        estimator,
        payment,
        with_form_of_numbers(warned, missing),
        names=rows.names,
        title=f"Private {model} model of {target or file.name}",
        facts=_public_facts(estimator, rows, person),
        notes=[*warned, missing_note(missing)],
    )


def _public_facts(estimator: Any, rows: Rows, person: str | None) -> dict[str, Any]:
    """Public facts; the number of rows is private under add-remove, and where persons are protected."""
    facts: dict[str, Any] = {"features": len(rows.names)}
    if person is not None:
        return facts | {"person": person}
    return facts if estimator.relation == "add-remove" else {"rows": rows.n} | facts


def predict(
    model: Annotated[Path, typer.Argument(help="A model that `fattail fit` wrote.", callback=usable)],
    file: File,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write predictions here; default: standard output.", callback=usable)
    ] = None,
    missing: Missing = "zero",
    delimiter: Delimiter = None,
    quoted_newlines: QuotedNewlines = False,
    json: AsJson = False,
) -> None:
    """Predictions for the rows of a file.

    A prediction is a function of its own row: it protects the people the model was fitted
    on, not the people in this file.
    """
    if output is not None:
        outputs.check_suffix("--out", output, (".csv", ".txt"))
        outputs.check((output,), apart_from=(file, model))
    estimator, about = load_model(model), facts_of_model(model)
    reading = Reading(file, missing, delimiter, quoted_newlines, json or output is None)
    columns = about["columns"]
    rows = reading.sparse(len(columns)) if reading.is_sparse else reading.dense(columns, levels=about["levels"])
    if len(rows.names) != estimator.n_features_in_:
        raise UsageError(f"{model} is damaged: its columns are not those of its coefficients")
    # The model was fitted on columns in this order; a plain array carries no names to check.
    estimator.__dict__.pop("feature_names_in_", None)
    labels = about["classes"] if about["model"] in CLASSIFIERS else None

    def predictions() -> Iterator[Any]:
        for X, _ in rows.pieces():
            for value in estimator.predict(X):
                yield float(value) if labels is None else labels[int(value)]

    if json:
        emit({"model": str(model), "predictions": list(predictions())})
        return
    table = ([cell] for cell in chain([about["target"] or "component"], predictions()))
    if output is None:
        write_csv(StandardOutput(), table)
        return
    with output.open("w", newline="", encoding="utf-8") as stream:
        write_csv(stream, table)
    note(f"{rows.n} predictions in {output}")
