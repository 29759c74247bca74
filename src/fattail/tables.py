"""Columns of numbers, whichever library holds them.

pandas, polars and pyarrow are never imported here: an object that came from one of them says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def library(X: Any) -> str:
    """The package that an object's type comes from."""
    return type(X).__module__.partition(".")[0].replace("dask_expr", "dask")


def kind_of(X: Any) -> str:
    return type(X).__name__


def is_frame(X: Any) -> bool:
    """Whether X is a table in memory with named columns."""
    return kind_of(X) in ("DataFrame", "Table", "RecordBatch") and library(X) in ("pandas", "polars", "pyarrow")


@dataclass(frozen=True)
class Schema:
    """Names and types of the columns of a table, known before any row is read."""

    kinds: dict[str, np.dtype[Any] | None]
    """The number type of each column, None if it does not hold numbers."""
    shown: dict[str, str]

    def check(self, columns: Sequence[str] | None = None) -> np.dtype[Any]:
        """The float type that holds these columns (all by default); refuse what is not a number."""
        columns = list(self.kinds) if columns is None else columns
        missing = [c for c in columns if c not in self.kinds]
        if missing:
            raise ValueError(f"there are no columns {missing}; there are {list(self.kinds)}")
        words = {c: self.shown[c] for c in columns if self.kinds[c] is None}
        if words:
            raise ValueError(
                f"only numbers can be read, and these columns are something else: {words}; choose others, or encode them"
            )
        single = all(self.kinds[c] in (np.float16, np.float32) for c in columns)
        return np.dtype(np.float32 if single else np.float64)


def text_only(names: Iterable[Any]) -> tuple[str, ...] | None:
    """The names, if all of them are text: scikit-learn's rule for feature names."""
    names = tuple(names)
    return names if all(isinstance(name, str) for name in names) else None


def schema_of(table: Any) -> Schema:
    """Columns of a pandas or polars frame, a Dask frame, or of anything with an Arrow schema."""
    if library(table) == "polars":
        types = dict(table.collect_schema())
        number = {name: t.is_numeric() or t.to_python() is bool for name, t in types.items()}
        single = {name: str(t) in ("Float32", "Float16") for name, t in types.items()}
    elif library(table) == "pyarrow":
        import pyarrow.types as pt

        types = {field.name: field.type for field in table.schema}
        number = {name: pt.is_floating(t) or pt.is_integer(t) or pt.is_boolean(t) for name, t in types.items()}
        single = {name: pt.is_float32(t) or pt.is_float16(t) for name, t in types.items()}
    else:
        types = dict(table.dtypes)
        number = {name: t.kind in "fiub" for name, t in types.items()}
        single = {name: t.kind == "f" and t.itemsize <= 4 for name, t in types.items()}
    kinds = {name: np.dtype(np.float32 if single[name] else np.float64) if ok else None for name, ok in number.items()}
    return Schema(kinds, {name: str(t) for name, t in types.items()})


def column(table: Any, name: str) -> NDArray[Any]:
    """One column as numbers; a null becomes NaN."""
    values = table[name]
    if library(table) == "pandas":
        plain = isinstance(values.dtype, np.dtype)
        return np.asarray(values.to_numpy() if plain else values.to_numpy(dtype=np.float64, na_value=np.nan))
    if library(table) == "polars":
        return np.asarray((values if values.dtype.to_python() in (int, float) else values.cast(float)).to_numpy())
    return np.asarray((values.cast("uint8") if str(values.type) == "bool" else values).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """Columns of equal length, rows of which can be taken."""

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

    def __getitem__(self, rows: slice) -> Columns:
        return Columns([values[rows] for values in self.arrays], self.dtype)


def columns_of(table: Any, names: Sequence[str], dtype: np.dtype[Any]) -> Columns:
    if not names:
        raise ValueError("there are no columns left to read")
    return Columns([column(table, name) for name in names], dtype)


def take_target(frame: Any, name: str) -> tuple[Any, NDArray[Any]]:
    """A frame without one of its columns, and that column."""
    schema_of(frame).check((name,))
    rest = frame.drop(columns=name) if library(frame) == "pandas" else frame.drop([name])
    return rest, column(frame, name)


def as_rows(X: Any) -> Any:
    """An object with a shape whose slices by rows are arrays or CSR."""
    if is_frame(X):
        schema = schema_of(X)
        return columns_of(X, list(schema.kinds), schema.check())
    rows = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    if len(rows.shape) != 2 or rows.dtype.kind not in "fiub":
        raise ValueError(f"rows must be a 2-dimensional array of numbers, got shape {rows.shape} and type {rows.dtype}")
    return rows
