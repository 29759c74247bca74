"""Columns of numbers of pandas, polars and pyarrow.

None of these libraries is imported here: an object is recognized by the module of its type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def library(X: Any) -> str:
    """The package that an object's type comes from."""
    return type(X).__module__.partition(".")[0].replace("dask_expr", "dask")


def kind_of(X: Any) -> str:
    return type(X).__name__


def is_frame(X: Any) -> bool:
    """Whether X is a table in memory with named columns."""
    return kind_of(X) in ("DataFrame", "Table", "RecordBatch") and library(X) in ("pandas", "polars", "pyarrow")


def is_column(values: Any) -> bool:
    """Whether an object is a column of one of these libraries."""
    if library(values) == "pyarrow":
        return hasattr(values, "type") and hasattr(values, "to_numpy")
    return library(values) in ("pandas", "polars") and hasattr(values, "dtype") and not is_frame(values)


def text_only(names: Iterable[Any]) -> tuple[str, ...] | None:
    """The names, if all of them are text: scikit-learn's rule for feature names."""
    names = tuple(names)
    return names if all(isinstance(name, str) for name in names) else None


def as_array(values: Any) -> NDArray[Any]:
    """A column as an array; a null is NaN where there are numbers."""
    if library(values) == "pandas":
        if isinstance(values.dtype, np.dtype):
            return np.asarray(values)
        if getattr(values.dtype, "kind", "O") not in "biuf":
            return np.asarray(values, dtype=object)
        missing = {} if kind_of(values.dtype) == "SparseDtype" else {"na_value": np.nan}
        return np.asarray(values.to_numpy(dtype=np.float64, **missing))
    if library(values) == "polars":
        return np.asarray((values.cast(float) if str(values.dtype) == "Boolean" else values).to_numpy())
    # Text stays bytes, because it may not be decodable.
    plain = {"bool": "uint8", "string": "binary", "large_string": "large_binary"}.get(str(values.type))
    return np.asarray((values.cast(plain) if plain else values).to_numpy(zero_copy_only=False))


def holds_whole_numbers(values: Any) -> bool:
    """Whether the type of a column, as one of these libraries holds it, is one of whole numbers."""
    if library(values) == "pandas":
        return getattr(values.dtype, "kind", "O") in "iu" and kind_of(values.dtype) != "SparseDtype"
    kind = values.type if library(values) == "pyarrow" else values.dtype
    return str(kind).lower().startswith(("int", "uint"))


def whole_numbers(values: Any) -> NDArray[Any]:
    """A column of whole numbers as a masked array: exact in all 64 bits, whether or not some cell is missing."""
    if library(values) == "pandas":
        missing = np.asarray(values.isna())
        wide = np.uint64 if values.dtype.kind == "u" else np.int64
        plain = isinstance(values.dtype, np.dtype)
        return np.ma.MaskedArray(np.asarray(values) if plain else values.to_numpy(dtype=wide, na_value=0), missing)
    missing = np.asarray(values.is_null().to_numpy(**({"zero_copy_only": False} if library(values) == "pyarrow" else {})))
    filled = values.fill_null(0)
    return np.ma.MaskedArray(filled.to_numpy(), missing)


# What dates and times of Python hold: the years 1 to 9999, without a day at either end for time zones, and spans.
_DAYS = (-719_162, 2_932_896)
_SECONDS = (-62_135_510_400, 253_402_214_399)
_SPAN = 86_399_999_913_600
_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def cells_of(values: Any) -> list[Any]:
    """Cells of a column of any type as a list, each by itself: none decides whether the others can be read.

    Text of Arrow that cannot be decoded is decoded as far as it can be; a date that Python cannot hold is missing.
    """
    if library(values) == "polars":
        return list(_held_by_python(values).to_list())
    if library(values) == "pandas":
        try:
            return list(values.to_list())
        except OverflowError:  # a date in a column of Arrow
            return cells_of(values.array.__arrow_array__())
    try:
        return list(values.to_pylist())
    except UnicodeDecodeError:  # other cells are the same in both ways
        import pyarrow as pa

        values = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
        return [None if cell is None else cell.decode("utf-8", "replace") for cell in values.cast(pa.large_binary()).to_pylist()]
    except (OverflowError, ValueError):
        return [_held(cell) for cell in values]


def _held(cell: Any) -> Any:
    """A cell of Arrow as an object of Python, None if there is none."""
    try:
        return cell.as_py()
    except (OverflowError, ValueError):
        return None


def _held_by_python(values: Any) -> Any:
    """A column of polars without dates and times that Python cannot hold: polars would panic, and print it."""
    kind, unit = kind_of(values.dtype), getattr(values.dtype, "time_unit", "")
    if kind == "Date":
        low, high = _DAYS
    elif kind == "Datetime":
        low, high = (_SECONDS[0] * _PER_SECOND[unit], (_SECONDS[1] + 1) * _PER_SECOND[unit] - 1)
    elif kind == "Duration":
        low, high = (-_SPAN * _PER_SECOND[unit], _SPAN * _PER_SECOND[unit])
    else:
        return values
    most = 2**63 - 1
    inside = values.to_physical().is_between(max(low, -most), min(high, most))
    return values.zip_with(inside.fill_null(False), values.clear(1))


def is_text(values: Any) -> bool:
    """Whether a column of Arrow holds text, plain or as the values of a dictionary."""
    kind = values.type
    return str(kind.value_type if str(kind).startswith("dictionary") else kind) in ("string", "large_string", "string_view")


def is_missing(value: Any) -> bool:
    """None, NaN, and what pandas and numpy call a missing value; some of these refuse to be compared."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")
        or (isinstance(value, (float, np.floating)) and bool(value != value))
    )


@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """Columns of equal length that can be sliced by rows."""

    arrays: list[NDArray[Any]]
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.arrays[0]), len(self.arrays)

    @cached_property
    def places(self) -> NDArray[np.int64] | None:
        """Addresses of the columns; None unless all are contiguous floats of one type."""
        plain = all(v.dtype == self.dtype and v.strides == (v.itemsize,) and v.flags.aligned for v in self.arrays)
        return np.array([v.__array_interface__["data"][0] for v in self.arrays]) if plain else None

    def copy_rows(self, a: int, b: int, out: NDArray[Any]) -> None:
        """Write rows ``[a, b)`` to ``out``."""
        for j, values in enumerate(self.arrays):
            out[:, j] = values[a:b]

    def dense(self) -> NDArray[Any]:
        """The rows side by side."""
        out = np.empty(self.shape, dtype=self.dtype)
        self.copy_rows(0, len(out), out)
        return out

    def copy(self) -> Columns:
        """A copy of the rows."""
        return Columns([values.copy() for values in self.arrays], self.dtype)

    def __getitem__(self, rows: slice) -> Columns:
        return Columns([values[rows] for values in self.arrays], self.dtype)
