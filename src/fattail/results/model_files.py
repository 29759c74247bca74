"""Fitted models as JSON: parameters, released attributes, feature names, report. No pickle.

A file names a public estimator and holds numbers; loading it runs no code from the file. The file is untrusted, so sizes are
checked before memory is allocated: of the text (`MOST_BYTES`), of the Python objects (`MOST_ITEMS`), and of every array, which
may not be larger than the list of its numbers in the file.
"""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import fattail
from fattail import catalog
from fattail.privacy import PrivacyReport, ReleaseRecord
from fattail.privacy.events import Event

SCHEMA = "fattail-model/2"
# Version 1 wrote arrays as nested lists with numpy's names of types.
READABLE = ("fattail-model/1", SCHEMA)
# A million coefficients take 20 MB. An item of JSON takes up to about 100 bytes in Python.
MOST_BYTES = 1 << 26
MOST_ITEMS = 1 << 22
_MOST_DIMENSIONS = 4
_MOST_LABELS = 1000
# Kinds of numpy types: floats, integers and booleans of at most 8 bytes, and text.
_NUMBERS = {np.dtype(kind).name for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")}


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
    >>> from fattail.results.model_files import load_model, save_model
    >>> model = DPMean(random_state=0).fit(np.ones((1000, 1)))
    >>> path = save_model(model, os.path.join(tempfile.mkdtemp(), "mean.json"))
    >>> bool(load_model(path).mean_ == model.mean_)
    True
    """
    name = type(estimator).__name__
    if name not in catalog.names():
        raise ValueError(
            f"only estimators of the catalog can be saved ({', '.join(catalog.names())}), got {name}; "
            "docs/extend/estimator.md says how to add one"
        )
    if not isinstance(getattr(estimator, "privacy_", None), PrivacyReport):
        raise ValueError(f"this {name} is not fitted: nothing to save")
    names = getattr(estimator, "feature_names_in_", None) if feature_names is None else feature_names
    # An account is a connection to a ledger, and a callback is code; neither is part of the model.
    parameters = {k: v for k, v in estimator.get_params(deep=False).items() if k != "ledger" and not callable(v)}
    content = {
        "schema": SCHEMA,
        "fattail": fattail.__version__,
        "estimator": name,
        "parameters": {k: _encode(k, v) for k, v in parameters.items()},
        "fitted": released(estimator),
        "feature_names": None if names is None else [str(n) for n in names],
        "about": about,
        "privacy": estimator.privacy_.to_dict(),
    }
    where = Path(path)
    # One entry per line, so that a person can read the file.
    entries = ",\n".join(f'"{key}": {json.dumps(value, allow_nan=False)}' for key, value in content.items())
    where.write_text(f"{{{entries}}}\n", encoding="ascii")
    return where


def released(estimator: Any) -> dict[str, Any]:
    """Fitted attributes as plain types, without the names of features and the report."""
    left_out = ("privacy_", "feature_names_in_")
    fitted = {k: v for k, v in vars(estimator).items() if k.endswith("_") and not k.startswith("_") and k not in left_out}
    return {k: _encode(k, v) for k, v in fitted.items()}


def load_model(path: Any) -> Any:
    """The estimator as it was after ``fit``, without its ledger.

    Raises
    ------
    ValueError
        If the file is not a model, is damaged, or of a schema that this version does not know.
    """
    content = read_model(path)
    try:
        return _rebuilt(content)
    except Exception:  # a file can be wrong in any way, and the original message may quote it
        raise ValueError(f"{path} is damaged: it holds no fitted {content['estimator']}") from None


def read_model(path: Any) -> dict[str, Any]:
    """The content of a model file as plain types, with sizes and top-level structure checked."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(min(os.fstat(file.fileno()).st_size, MOST_BYTES) + 1)
    except OSError as error:
        raise ValueError(f"cannot read model {path}: {error.strerror}") from None
    if len(data) > MOST_BYTES or sum(map(data.count, (b",", b"[", b"{"))) > MOST_ITEMS:
        raise ValueError(f"{path} is larger than a fattail model can be")
    try:
        content: dict[str, Any] = json.loads(data.decode("ascii"), parse_constant=_refuse, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not a fattail model") from None
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema not in READABLE:
        found = f"schema {schema[:40]!r}" if isinstance(schema, str) else "no schema"
        raise ValueError(f"{path} is not a model this version can read: {found}, expected one of {', '.join(READABLE)}")
    if content.get("estimator") not in catalog.names():
        raise ValueError(f"{path} names an estimator that does not exist")
    kinds = {"parameters": dict, "fitted": dict, "feature_names": list | None, "about": dict, "privacy": dict}
    wrong = sorted(name for name, kind in kinds.items() if name not in content or not isinstance(content[name], kind))
    if wrong:
        raise ValueError(f"{path} is damaged: no {', '.join(wrong)}")
    return content


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without duplicate names: programs would read the last one, and people the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _rebuilt(content: Mapping[str, Any]) -> Any:
    estimator = catalog.load(content["estimator"])()
    known = set(estimator.get_params()) - {"ledger"}
    for name, value in content["parameters"].items():
        if name not in known:
            raise ValueError(f"{name!r} is not a parameter")
        setattr(estimator, name, _decode(value))
    lengths = set()
    for name, value in content["fitted"].items():
        if not (name.isidentifier() and name.endswith("_")) or name.startswith("_") or callable(getattr(estimator, name, None)):
            raise ValueError(f"{name!r} is not a fitted attribute")  # in particular no method or class
        found = _decode(value)
        if name != "classes_" and isinstance(found, np.ndarray) and found.dtype.kind == "U":
            raise ValueError("only classes have names")
        lengths |= set(np.shape(found))
        setattr(estimator, name, found)
    columns = estimator.n_features_in_
    if type(columns) is not int or columns not in lengths:
        raise ValueError("the number of columns matches none of the arrays")
    if content["feature_names"] is not None:
        names = content["feature_names"]
        if len(names) != columns or not all(isinstance(n, str) for n in names):
            raise ValueError("the names are not those of the columns")
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    estimator.privacy_ = report_from_dict(content["privacy"])
    _try_out(estimator, columns)
    return estimator


def _try_out(estimator: Any, columns: int) -> None:
    """Predict one row of zeros, so that inconsistent parts are detected here."""
    if isinstance(estimator, fattail.DPMean) and (np.shape(estimator.mean_), np.shape(estimator.interval_)) != (
        (columns,),
        (columns, 2),
    ):
        raise ValueError("the means are not those of the columns")
    if hasattr(estimator, "summary"):
        with np.errstate(all="ignore"):
            str(estimator.summary())
    if hasattr(estimator, "predict"):
        names = estimator.__dict__.pop("feature_names_in_", None)
        with np.errstate(all="ignore"):
            estimator.predict(np.zeros((1, columns)))
        if names is not None:
            estimator.feature_names_in_ = names


def report_from_dict(data: Mapping[str, Any]) -> PrivacyReport:
    """Inverse of ``PrivacyReport.to_dict``."""
    content = dict(data)
    content["releases"] = tuple(ReleaseRecord(**_checked(ReleaseRecord, r)) for r in content["releases"])
    if any((r.sensitivity is None) != (r.noise is None) for r in content["releases"]):
        raise ValueError("a release has both a sensitivity and a noise scale, or neither")
    content["events"] = tuple(map(Event.from_dict, content["events"]))
    return PrivacyReport(**_checked(PrivacyReport, content))


def _checked(cls: Any, content: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record, each of its declared type."""
    kinds: dict[str, Any] = {"float": numbers.Real, "float | None": numbers.Real | None, "int": int, "bool": bool}
    kinds |= {"str": str, "str | None": str | None}
    for field in fields(cls):
        kind = kinds.get(str(field.type))
        value = content.get(field.name)
        if kind is not None and field.name in content and not isinstance(value, kind):
            raise ValueError(f"{field.name} cannot be of type {type(value).__name__}")
        if isinstance(value, numbers.Real):
            float(value)  # an integer too large for a float
    return dict(content)


def _encode(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        kind = "text" if value.dtype.kind == "U" else value.dtype.name
        if kind != "text" and kind not in _NUMBERS:
            raise ValueError(f"cannot write {name!r} of type {value.dtype} as JSON")
        return {"array": _plain(value.ravel()), "dtype": kind, "shape": list(value.shape)}
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
    """A flat list; JSON has no infinity, so infinities are strings that ``float`` parses."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return np.where(np.isfinite(array), array.astype(object), array.astype(str)).tolist()
    return array.tolist()


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return _array(value)
    if "tuple" in value:
        return tuple(_decode(v) for v in value["tuple"])
    return float(value["number"])


def _array(value: Mapping[str, Any]) -> Any:
    """An array of a known type, no larger than its list in the file."""
    cells = value["array"]
    if "shape" in value:
        shape, kind = value["shape"], value["dtype"]
    else:  # version 1
        cells, shape = _flat(cells)
        given = np.dtype(value["dtype"]) if len(value["dtype"]) < 12 else None
        kind = None if given is None else "text" if given.kind == "U" else given.name
    right = isinstance(cells, list) and isinstance(shape, list) and len(shape) <= _MOST_DIMENSIONS
    if not right or any(type(size) is not int or size < 0 for size in shape) or math.prod(shape) != len(cells):
        raise ValueError("an array is not of its shape")
    if kind == "text":
        # Labels of classes. numpy allocates the length of the longest for every cell.
        if len(cells) > _MOST_LABELS or not all(isinstance(cell, str) and len(cell) <= _MOST_LABELS for cell in cells):
            raise ValueError("an array of text is too large, or holds something else")
        return np.asarray(cells, dtype=np.str_).reshape(shape)
    if kind not in _NUMBERS or not all(type(cell) in (bool, int, float, str) for cell in cells):
        raise ValueError("an array can hold numbers or text")
    return np.asarray([float(cell) if isinstance(cell, str) else cell for cell in cells], dtype=kind).reshape(shape)


def _flat(cells: Any) -> tuple[list[Any], list[int]]:
    """Nested lists as one list, and their shape."""
    if not isinstance(cells, list):
        return [cells], []
    shape = [len(cells)]
    while cells and isinstance(cells[0], list):
        if len(shape) == _MOST_DIMENSIONS or not all(isinstance(row, list) and len(row) == len(cells[0]) for row in cells):
            raise ValueError("an array is ragged")
        shape.append(len(cells[0]))
        cells = [cell for row in cells for cell in row]
    return cells, shape
