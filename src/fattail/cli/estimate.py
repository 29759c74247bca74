"""``fattail mean``, ``fit`` and ``predict``."""

from __future__ import annotations

import csv
import json as _json
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

import fattail
from fattail.card import Card
from fattail.cli import files
from fattail.cli.shared import (
    Account,
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
    Seed,
    UsageError,
    account_of,
    emit,
    fitted,
    note,
    out,
    split,
)
from fattail.model_io import load_model, read_model, save_model

# The words of --model, and whether a target is needed.
MODELS = {
    "linear": "DPLinearRegression",
    "huber": "DPHuberRegressor",
    "logistic": "DPLogisticRegression",
    "sparse": "DPSparseRegressor",
    "sparse-logistic": "DPSparseClassifier",
    "mixture": "DPGaussianMixture",
    "mixture-of-regressions": "DPMixtureOfRegressions",
}
_CLASSIFIERS = ("logistic", "sparse-logistic")


def mean(
    file: File,
    columns: Annotated[str, typer.Option("--columns", "-c", help="Comma-separated columns.")],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    method: MethodName = "auto",
    ledger: LedgerFile = None,
    account: Account = None,
    seed: Seed = None,
    card: Annotated[Path | None, typer.Option("--card", help="Write the privacy card here (HTML, and JSON beside it).")] = None,
    missing: Missing = "error",
    delimiter: Delimiter = None,
    memory: Memory = None,
    json: AsJson = False,
) -> None:
    """Private means of some columns, with intervals. No bounds needed."""
    charged = account_of(ledger, account)
    estimator = fattail.DPMean(epsilon=epsilon, delta=delta, method=method, random_state=seed, ledger=charged)
    names = split(columns)
    if not names:
        raise UsageError("--columns needs at least one column")
    X = files.read(file, names, missing=missing, delimiter=delimiter, memory=_bytes(memory))
    estimator, warned = fitted(estimator, X, quiet=json)
    page = Card.of(
        estimator,
        names=names,
        title=f"Private means of {file.name}",
        facts={"rows": len(X)},
        account=charged,
        notes=[*warned, _missing_note(missing)],
    )
    written = [str(p) for p in page.save(card)] if card else []
    _answer(page, warned, written, json)


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
    option: Annotated[list[str] | None, typer.Option("--set", help="Any parameter of the estimator, e.g. n_iter=50.")] = None,
    ledger: LedgerFile = None,
    account: Account = None,
    seed: Seed = None,
    output: Annotated[Path | None, typer.Option("--out", "-o", help="Write the model here, and its card beside it.")] = None,
    missing: Missing = "error",
    delimiter: Delimiter = None,
    memory: Memory = None,
    json: AsJson = False,
) -> None:
    """A private model of a file, saved as JSON with a privacy card."""
    if model not in MODELS:
        raise UsageError(f"--model must be one of {', '.join(MODELS)}; got {model!r}")
    charged = account_of(ledger, account)
    parameters = {"epsilon": epsilon, "delta": delta, "method": method, "random_state": seed, "ledger": charged}
    parameters |= {"sparsity": sparsity} if sparsity is not None else {}
    parameters |= dict(_parameter(text) for text in option or [])
    try:
        estimator = getattr(fattail, MODELS[model])(**parameters)
    except TypeError as error:
        raise UsageError(f"{MODELS[model]}: {error}".replace("__init__() ", "")) from None
    levels = dict(_levels(text) for text in category or [])
    labels = split(classes)
    if model in _CLASSIFIERS and len(labels) != 2:
        raise UsageError(f"--classes must be two labels, got {classes!r}")
    if files.suffix(file) in files.SPARSE:
        if dimension is None:
            raise UsageError("an svmlight file needs --dimension: the largest column that occurs depends on the rows")
        columns = [str(j + 1) for j in range(dimension)]
        X, y = files.read_sparse(file, dimension, missing=missing)
        names = columns
    else:
        columns, target = _columns(file, features, target, model, delimiter)
        wanted = [*columns, *([target] if target else [])]
        coded = levels | ({target: labels} if model in _CLASSIFIERS and target else {})
        table = files.read(file, wanted, levels=coded, missing=missing, delimiter=delimiter, memory=_bytes(memory))
        X, names = _one_hot(table[:, : len(columns)], columns, levels)
        y = table[:, -1]
    arrays = (X, y) if model != "mixture" else (X,)
    estimator, warned = fitted(estimator, *arrays, quiet=json)
    page = Card.of(
        estimator,
        names=names,
        title=f"Private {model} model of {target or file.name}",
        facts={"rows": X.shape[0], "features": X.shape[1]},
        account=charged,
        notes=[*warned, _missing_note(missing)],
    )
    written = []
    if output:
        about = {"model": model, "target": target, "columns": columns, "levels": levels, "classes": labels, "missing": missing}
        written = [save_model(estimator, output, feature_names=names, **about)]
        written += page.save(output.with_name(f"{output.stem}-card.html"))
    _answer(page, warned, [str(p) for p in written], json)


def predict(
    model: Annotated[Path, typer.Argument(help="A model that `fattail fit` wrote.")],
    file: File,
    output: Annotated[Path | None, typer.Option("--out", "-o", help="Write predictions here; default: standard output.")] = None,
    missing: Missing = "zero",
    delimiter: Delimiter = None,
    memory: Memory = None,
    json: AsJson = False,
) -> None:
    """Predictions for the rows of a file.

    A prediction is a function of its own row: it protects the people the model was fitted
    on, not the people in this file.
    """
    about = read_model(model)["about"]
    estimator = load_model(model)
    if not hasattr(estimator, "predict") or "columns" not in about:
        raise UsageError(f"{model} has nothing to predict")
    if files.suffix(file) in files.SPARSE:
        X, _ = files.read_sparse(file, len(about["columns"]), missing=missing)
    else:
        table = files.read(
            file, about["columns"], levels=about["levels"], missing=missing, delimiter=delimiter, memory=_bytes(memory)
        )
        X, _ = _one_hot(table, about["columns"], about["levels"])
    # The model was fitted on columns in this order; a plain array carries no names to check.
    estimator.__dict__.pop("feature_names_in_", None)
    predictions = estimator.predict(X)
    values: list[Any] = [float(p) for p in predictions]
    if about["model"] in _CLASSIFIERS:
        values = [about["classes"][int(p)] for p in predictions]
    if json:
        emit({"model": str(model), "predictions": values})
        return
    with output.open("w", newline="", encoding="utf-8") if output else _standard_output() as stream:
        writer = csv.writer(stream)
        writer.writerow([about["target"] or "component"])
        writer.writerows([v] for v in values)
    if output:
        note(f"{len(values)} predictions in {output}")


def _answer(page: Card, warned: list[str], written: list[str], json: bool) -> None:
    if json:
        emit(page.to_dict() | {"warnings": warned, "written": written})
        return
    r = page.report
    intervals = any(x.low is not None for x in page.results)
    table = Table("", page.quantity, *([page.interval_name] if intervals else []))
    for x in page.results[:40]:
        table.add_row(x.name, f"{x.value:.6g}", *([f"{x.low:.6g} to {x.high:.6g}"] if x.low is not None else []))
    out.print(table)
    if len(page.results) > 40:
        out.print(f"and {len(page.results) - 40} more")
    promise = "seeded: NOT private" if r.seeded else f"({r.epsilon:g}, {r.delta:g})-differentially private"
    out.print(f"{promise}, {r.relation} {r.unit}, {r.numerics} numerics")
    if page.account:
        out.print(
            f"account '{page.account['name']}': {page.account['remaining']:.4g} of epsilon {page.account['epsilon']:g} left"
        )
    for text in warned:
        note(f"note: {text}")
    for path in written:
        note(f"wrote {path}")


def _columns(
    file: Path, features: str | None, target: str | None, model: str, delimiter: str | None
) -> tuple[list[str], str | None]:
    known = files.header(file, delimiter)
    if model == "mixture":
        target = None
    elif target is None:
        raise UsageError(f"--model {model} needs --target")
    chosen = split(features) or [c for c in known if c != target]
    files.find([*chosen, *([target] if target else [])], known, file)
    if target in chosen:
        raise UsageError(f"{target!r} is both target and feature")
    if not chosen:
        raise UsageError(f"{file} has no column left to use as a feature")
    return chosen, target


def _one_hot(
    table: NDArray[np.float64], columns: list[str], levels: dict[str, list[str]]
) -> tuple[NDArray[np.float64], list[str]]:
    """Declared text columns become one 0/1 column per level but the first."""
    if not levels:
        return table, columns
    parts, names = [], []
    for j, column in enumerate(columns):
        if column not in levels:
            parts.append(table[:, [j]])
            names.append(column)
        else:
            codes = np.arange(1, len(levels[column]))
            parts.append((table[:, [j]] == codes).astype(np.float64))
            names += [f"{column}={levels[column][c]}" for c in codes]
    return np.hstack(parts), names


def _levels(text: str) -> tuple[str, list[str]]:
    name, _, levels = text.partition("=")
    found = [level.strip() for level in levels.split("|") if level.strip()]
    if not name.strip() or len(found) < 2:
        raise UsageError(f"--category must look like 'region=north|south|west', got {text!r}")
    return name.strip(), found


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--set must look like n_iter=50, got {text!r}")
    try:
        return name, _json.loads(value)
    except ValueError:
        return name, value


def _missing_note(missing: str) -> str:
    if missing == "zero":
        return "Cells that were no finite numbers counted as 0."
    return "The file was checked before fitting to hold finite numbers only; that check is not part of the guarantee."


def _bytes(gigabytes: float | None) -> float | None:
    return None if gigabytes is None else gigabytes * 1e9


def _standard_output() -> Any:
    from contextlib import nullcontext

    return nullcontext(sys.stdout)
