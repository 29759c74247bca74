"""The options of a request: models, their tunable parameters, columns and levels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fattail
from fattail import catalog
from fattail.cli import files
from fattail.cli.shared import UsageError, split
from fattail.privacy import check_budget
from fattail.results.model_files import read_model
from fattail.rows.records import is_number

# The words of --model, and those of them whose targets are labels or that have none.
MODELS = {e.word: e.name for e in catalog.entries() if e.word}
CLASSIFIERS = tuple(e.word for e in catalog.entries() if e.word and e.target == "labels")
WITHOUT_TARGET = tuple(e.word for e in catalog.entries() if e.word and e.target == "none")

# Parameters that --set may change: those of the computation. The unit, the budget, the ledger and the seed have options of
# their own, or none. A new parameter cannot be set until it is listed here.
TUNABLE = frozenset({
    "aggregation", "alpha", "batch_size", "blocks", "clip", "confidence", "covariance_type", "failure_probability",
    "feature_clip", "feature_scale", "fit_intercept", "groups", "init", "moment", "moment_bound", "n_components",
    "n_iter", "noise_scale", "peeling", "public_features", "radius", "response_clip", "sparsity", "split",
    "splitting", "step", "symmetric", "threshold", "trim",
})  # fmt: skip


def estimator_of(name: str, option: Sequence[str], **parameters: Any) -> Any:
    """An estimator with its options; refuses options that public numbers show to be impossible."""
    cls = catalog.load(name)
    known = set(cls().get_params())
    for text in option:
        key, value = _parameter(text)
        if key not in known & TUNABLE:
            free = ", ".join(sorted(known & TUNABLE))
            raise UsageError(f"--set {key}: {name} has no such tunable parameter; it has {free}")
        parameters[key] = value
    check_budget(parameters["epsilon"], parameters["delta"])
    methods = {m.name for m in fattail.registry() if name in m.estimators} | {"auto"}
    if parameters["method"] not in methods:
        raise UsageError(f"method must be one of {', '.join(sorted(methods))}; got {parameters['method']!r}")
    return cls(**parameters)


def columns_of(
    file: Path, known: Sequence[str], features: str | None, target: str | None, model: str, person: str | None = None
) -> tuple[list[str], Any]:
    """Features and target: columns of the header, different from each other and from the ids of persons."""
    if model in WITHOUT_TARGET:
        target = None
    elif target is None:
        raise UsageError(f"--model {model} needs --target")
    chosen = split(features) or [c for c in known if c not in (target, person)]
    if target in chosen:
        raise UsageError(f"{target!r} is both target and feature")
    if person is not None and person in (*chosen, target):
        raise UsageError(f"{person!r} says whose row it is: it cannot be target or feature")
    files.find([*chosen, *(name for name in (target, person) if name)], known, file)
    if not chosen:
        raise UsageError(f"{file} has no column left to use as a feature")
    return chosen, target


def levels_of(category: Sequence[str]) -> dict[str, list[str]]:
    """Declared levels of text columns."""
    found = {}
    for text in category:
        name, _, rest = text.partition("=")
        levels = [level.strip() for level in rest.split("|") if level.strip()]
        if not name.strip() or len(levels) < 2:
            raise UsageError(f"--category must look like 'region=north|south|west', got {text!r}")
        check_different("--category", levels)
        found[name.strip()] = levels
    return found


def check_different(option: str, levels: Sequence[str]) -> None:
    """Refuse a level that is declared twice; "1" and "1.0" are one."""
    spelled = [float(level) if is_number(level) else level for level in levels]
    if len(set(spelled)) < len(spelled):
        raise UsageError(f"{option} declares the same level twice: {', '.join(map(repr, levels))}")


def facts_of_model(model: Path) -> dict[str, Any]:
    """The entries of a model file that ``fit`` wrote for ``predict``, with their types checked."""
    about: dict[str, Any] = read_model(model)["about"]
    columns, classes, levels = (about.get(key) for key in ("columns", "classes", "levels"))
    if not (
        about.get("model") in MODELS
        and (about.get("target") is None or isinstance(about["target"], str))
        and _texts(columns, 1)
        and _texts(classes, 2 if about["model"] in CLASSIFIERS else 0)
        and isinstance(levels, dict)
        and all(_texts(found, 2) for found in levels.values())
    ):
        raise UsageError(f"{model} has nothing to predict")
    return about


def _texts(value: Any, least: int) -> bool:
    return isinstance(value, list) and len(value) >= least and all(isinstance(text, str) for text in value)


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--set must look like n_iter=50, got {text!r}")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, float(value) if is_number(value) else value
