"""Fitted models as JSON: parameters, released attributes, feature names, report. No pickle.

A file names a public estimator and holds numbers; loading it runs no code from the file.
"""

from __future__ import annotations

import json
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import fattail
from fattail.privacy import PrivacyReport, ReleaseRecord
from fattail.privacy.events import Event

SCHEMA = "fattail-model/1"
ESTIMATORS = (
    "DPMean",
    "DPLinearRegression",
    "DPHuberRegressor",
    "DPLogisticRegression",
    "DPSparseRegressor",
    "DPSparseClassifier",
    "DPGaussianMixture",
    "DPMixtureOfRegressions",
    "DPMissingCovariateRegression",
)


def save_model(estimator: Any, path: Any, *, feature_names: Sequence[str] | None = None, **about: Any) -> Path:
    """Write a fitted estimator.

    Parameters
    ----------
    estimator : fitted estimator of this library
    path : path-like
    feature_names : sequence of str, optional
        Default: the names the estimator saw in ``fit``, if any.
    **about
        Further public facts to keep, such as ``target="cost"``.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from fattail import DPMean
    >>> from fattail.model_io import load_model, save_model
    >>> model = DPMean(random_state=0).fit(np.ones((1000, 1)))
    >>> path = save_model(model, os.path.join(tempfile.mkdtemp(), "mean.json"))
    >>> bool(load_model(path).mean_ == model.mean_)
    True
    """
    name = type(estimator).__name__
    if name not in ESTIMATORS:
        raise ValueError(f"only estimators of this library can be saved ({', '.join(ESTIMATORS)}), got {name}")
    if not isinstance(getattr(estimator, "privacy_", None), PrivacyReport):
        raise ValueError(f"this {name} is not fitted: nothing to save")
    names = getattr(estimator, "feature_names_in_", None) if feature_names is None else feature_names
    # An account is a connection to a ledger and a callback is code; neither belongs to the model.
    parameters = {k: v for k, v in estimator.get_params(deep=False).items() if k != "ledger" and not callable(v)}
    fitted = {k: v for k, v in vars(estimator).items() if k.endswith("_") and not k.startswith("_") and k != "privacy_"}
    content = {
        "schema": SCHEMA,
        "fattail": fattail.__version__,
        "estimator": name,
        "parameters": {k: _encode(k, v) for k, v in parameters.items()},
        "fitted": {k: _encode(k, v) for k, v in fitted.items() if k != "feature_names_in_"},
        "feature_names": None if names is None else [str(n) for n in names],
        "about": about,
        "privacy": estimator.privacy_.to_dict(),
    }
    where = Path(path)
    where.write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
    return where


def load_model(path: Any) -> Any:
    """The estimator as it was after ``fit``, without its ledger.

    Raises
    ------
    ValueError
        If the file is not a model, or of a schema that this version does not know.
    """
    content = read_model(path)
    try:
        return _rebuilt(content)
    except Exception:  # a file can be wrong in any way, and the reason may quote it
        raise ValueError(f"{path} is damaged: it holds no fitted {content['estimator']}") from None


def _rebuilt(content: Mapping[str, Any]) -> Any:
    cls = getattr(fattail, content["estimator"])
    estimator = cls(**{k: _decode(v) for k, v in content["parameters"].items()})
    for name, value in content["fitted"].items():
        if not name.endswith("_") or name.startswith("_"):
            raise ValueError(f"{name!r} is not a fitted attribute")  # above all no method or class
        setattr(estimator, name, _decode(value))
    if content["feature_names"] is not None:
        estimator.feature_names_in_ = np.asarray(content["feature_names"], dtype=object)
    estimator.privacy_ = report_from_dict(content["privacy"])
    return estimator


def read_model(path: Any) -> dict[str, Any]:
    """The checked content of a model file, as plain types."""
    path = Path(path)
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read model {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not a fattail model") from None
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        found = f"schema {schema!r}" if isinstance(schema, str) else "no schema"
        raise ValueError(f"{path} is not a model this version can read: {found}, expected {SCHEMA!r}")
    if content.get("estimator") not in ESTIMATORS:
        raise ValueError(f"{path} names an estimator that does not exist")
    missing = {"parameters", "fitted", "feature_names", "about", "privacy"} - set(content)
    if missing:
        raise ValueError(f"{path} is damaged: no {', '.join(sorted(missing))}")
    return content


def report_from_dict(data: Mapping[str, Any]) -> PrivacyReport:
    """Inverse of ``PrivacyReport.to_dict``."""
    content = dict(data)
    content["releases"] = tuple(ReleaseRecord(**_checked(ReleaseRecord, r)) for r in content["releases"])
    if any((r.sensitivity is None) != (r.noise is None) for r in content["releases"]):
        raise ValueError("a release has both a sensitivity and a noise scale, or neither")
    content["events"] = tuple(map(Event.from_dict, content["events"]))
    return PrivacyReport(**_checked(PrivacyReport, content))


def _checked(cls: Any, content: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record, each of its declared kind."""
    kinds: dict[str, Any] = {"float": numbers.Real, "float | None": numbers.Real | None, "int": int, "str": str, "bool": bool}
    for field in fields(cls):
        kind = kinds.get(str(field.type))
        value = content.get(field.name)
        if kind is not None and field.name in content and not isinstance(value, kind):
            raise ValueError(f"{field.name} cannot be of type {type(value).__name__}")
        if isinstance(value, numbers.Real):
            float(value)  # an integer beyond the floats
    return dict(content)


def _encode(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": _plain(value), "dtype": value.dtype.str}
    if isinstance(value, tuple):
        return {"tuple": [_encode(name, v) for v in value]}
    if isinstance(value, list):
        return [_encode(name, v) for v in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if np.isfinite(number) else {"number": repr(number)}
    raise ValueError(f"cannot write {name!r} of type {type(value).__name__} as JSON")


def _plain(array: Any) -> Any:
    """Nested lists; JSON has no infinity, so those are the strings that ``float`` reads."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return np.where(np.isfinite(array), array.astype(object), array.astype(str)).tolist()
    return array.tolist()


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.asarray(value["array"], dtype=value["dtype"])
    if "tuple" in value:
        return tuple(_decode(v) for v in value["tuple"])
    return float(value["number"])
