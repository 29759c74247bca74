"""All that is visible of a fitted estimator, in plain types that can be compared."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fattail import catalog
from fattail.privacy import PrivacyReport
from fattail.results.card import Card
from fattail.results.model_files import save_model


def causes(error: BaseException | None) -> list[str]:
    """Messages of an error and of its causes, which a traceback shows."""
    chain = []
    while error is not None:
        chain.append(repr(error))
        error = error.__cause__ or error.__context__
    return chain


def artifacts(estimator: Any) -> dict[str, Any]:
    """Every attribute and every public form of a fitted estimator, or of a `Release`, in plain types that can be compared."""
    stored = {k: v for k, v in vars(estimator).items() if k != "ledger"}
    seen: dict[str, Any] = {f"attribute {name}": plain_types(value) for name, value in stored.items()}
    seen["repr"] = repr(estimator)
    report = getattr(estimator, "privacy_", getattr(estimator, "privacy", None))
    if isinstance(report, PrivacyReport):
        seen["claim"] = (report.epsilon, report.delta)
        seen["report"] = (repr(report.to_dict()), str(report), report._repr_html_())
    if hasattr(estimator, "privacy_"):
        seen["card"] = Card.of(estimator).to_html()
        if type(estimator).__name__ in catalog.names():  # others cannot be saved
            with tempfile.TemporaryDirectory() as folder:
                seen["model file"] = save_model(estimator, Path(folder) / "model.json").read_bytes()
    seen["pickle"] = pickle.dumps(stored)
    return seen


def plain_types(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.tobytes()
    return repr(value)
