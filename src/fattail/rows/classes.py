"""Two declared classes as numbers: 0 for the first, 1 for the second, NaN for anything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.rows.door import (
    Refusal,
    array_of,
    attempt,
    number_type,
    schema_of,
    shown,
    single_column,
    target_of,
    type_of,
    vector_of,
)
from fattail.rows.frames import is_column, is_frame, kind_of, library

Floats = NDArray[np.float64]
DEFAULT = (0, 1)


@dataclass(frozen=True)
class Labels:
    """The two declared classes, negative first; converts labels to 0 and 1.

    Examples
    --------
    >>> Labels(("no", "yes")).codes(np.array(["yes", "no", "maybe"]))
    array([ 1.,  0., nan])
    """

    classes: tuple[Any, Any]

    def check(self, kind: Any) -> None:
        """Refuse a type that cannot hold the declared classes."""
        if categories(kind) is not None or (isinstance(kind, np.dtype) and kind.kind == "O"):
            return
        if (number_type(kind) is not None) == isinstance(self.classes[1], str) or not _holds_labels(kind):
            raise Refusal(
                f"y has type {shown(kind)}, and classes={self.classes!r} are declared: declare the two labels, negative "
                'first, as in classes=("no", "yes")'
            )

    def checked(self, y: Any) -> Floats:
        """Codes of labels in memory. An undeclared label raises: a check for the holder of the data, like that for NaN."""
        y = single_column(y)
        values = y if is_column(y) else array_of(y)
        self.check(type_of(values))
        if number_type(type_of(values)) is not None:
            from sklearn.utils import assert_all_finite  # brings pandas with it

            assert_all_finite(target_of(values), input_name="y")
        codes = self.codes(values)
        if np.isnan(codes).any():
            raise Refusal(
                f"Unknown label type: y holds labels other than the two declared, classes={self.classes!r}. "
                "Only binary classification is supported. Declare the two labels, negative first, as in "
                'classes=("no", "yes")'
            )
        return codes

    def codes(self, y: Any, *, strict: bool = True) -> Floats:
        """1 where the label is the second class, 0 where it is the first, NaN elsewhere.

        With ``strict=False`` (after the charge, when nothing may be refused), text that spells a declared number counts as that
        number.
        """
        y = single_column(y)
        values = y if is_column(y) else vector_of(y, strict=strict)
        if not isinstance(self.classes[1], str) and (not strict or number_type(type_of(values)) is not None):
            values = target_of(values, strict=False)
        first, second = (self._at(values, label, strict) for label in self.classes)
        return np.where(second, 1.0, np.where(first, 0.0, np.nan))

    def _at(self, values: Any, label: Any, strict: bool) -> NDArray[np.bool_]:
        """Where a label is. After the charge, a type that cannot be compared with it has it nowhere."""
        try:
            return attempt("comparing labels", _equal, values, label)
        except Refusal:
            if strict:
                raise
            return np.zeros(len(values), dtype=bool)


def _holds_labels(kind: Any) -> bool:
    """Whether a type is one of numbers or of text."""
    text = str(kind) in ("String", "Categorical", "string", "large_string", "string_view", "str") or "string" in str(kind)
    return number_type(kind) is not None or text or getattr(kind, "kind", "") in "US"


def categories(kind: Any) -> list[Any] | None:
    """The classes that a categorical type declares; None for other types.

    A polars ``Categorical`` may hold any text, so it declares no classes. An ``Enum`` does.
    """
    if kind_of(kind) in ("CategoricalDtype", "Enum") and library(kind) in ("pandas", "polars"):
        return list(kind.categories)
    return None


def declared(classes: Any, X: Any, y: Any) -> Labels:
    """The labels of ``y``: what its categorical type declares, unless the user declares ``classes``."""
    named = tuple(np.asarray(classes).tolist())
    if isinstance(y, str):
        known = is_frame(X) or kind_of(X) == "LazyFrame" or (library(X) == "dask" and hasattr(X, "dtypes"))
        found = categories(schema_of(X).types.get(y)) if known else None
    else:
        found = categories(type_of(y)) if is_column(y) or hasattr(y, "dtype") else None
    if found is None or named != DEFAULT or set(found) == set(named):
        return Labels(named)
    if len(found) != 2:
        raise Refusal(f"Only binary classification is supported. The type of y declares {len(found)} categories, not two")
    return Labels((found[0], found[1]))


def _equal(values: Any, label: Any) -> NDArray[np.bool_]:
    """Where a column has a label, compared by the column's own library. Arrow's text is not decoded, so undecodable text cannot
    fail."""
    if library(values) == "pyarrow":
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        same = pc.fill_null(pc.equal(values, pa.scalar(label).cast(values.type)), False)
        return np.asarray(same.cast("uint8").to_numpy(zero_copy_only=False), dtype=bool)
    if library(values) == "polars":
        if str(values.dtype) == "Binary":  # to decode bytes fails for the whole column if one cell is not text
            return np.array([cell == label.encode() for cell in values.to_list()], dtype=bool)
        return np.asarray((values.cast(str) == label).fill_null(False).to_numpy(), dtype=bool)
    cells = np.asarray(values, dtype=object) if library(values) == "pandas" else values
    if cells.dtype != object:
        return np.asarray(cells == label)
    return np.array([_same(cell, label) for cell in cells.tolist()], dtype=bool)


def _same(cell: Any, label: Any) -> bool:
    try:
        return bool(cell == label)
    except Exception:  # comparing some kinds of missing values raises
        return False
