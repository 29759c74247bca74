"""Missing cells: which cells count as missing, and how they are handled.

A cell is missing if it is not a finite number: NaN, a null, a masked cell, an infinity. A label is missing if it is not declared.

========== ===============================================================================================
``error``   the table is refused before anything is charged; files and streams are read once more for it
``zero``    a cell counts as the number 0; a row whose label is missing contributes nothing
``drop``    a row counts only if all of its cells are present, and how many do is private
========== ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail.rows.door import Refusal
from fattail.rows.frames import Columns
from fattail.rows.source import Arrays, Chunk, Reader, Source, window

HOW = ("error", "zero", "drop")
MISSING = (
    "Input contains NaN or infinity, or a label that is not declared: fill such cells in, or choose "
    'missing="drop" (rows without them count) or missing="zero"'
)


@contextmanager
def missing_in_words() -> Iterator[None]:
    """Replace the remedies in scikit-learn's message about missing cells by those of this library."""
    try:
        yield
    except ValueError as error:
        found = str(error).partition("\n")[0]
        if "contains NaN" not in found and "contains infinity" not in found:
            raise
        remedy = 'fill such cells in, or choose missing="drop" (rows without them count) or missing="zero" (they count as 0)'
        raise Refusal(f"{found.rstrip('.')}: {remedy}") from None


def treated(source: Source, how: str) -> Source:
    """A source without missing cells; one that is read again is wrapped."""
    if how == "error":
        source.check_cells()
        return source
    if isinstance(source, Arrays):
        ((X, y),) = source.read(0, source.n)
        return source.holding(*without_missing(X, y, how, source.has_labels))
    return Treated(source, how) if isinstance(source, Reader) else source.filled()


class Treated(Reader):
    """The rows of another source, missing cells as 0 or rows with them left out."""

    is_canonical = True

    def __init__(self, source: Reader, how: str) -> None:
        self._source, self._how = source, how
        self.d, self.columns, self.repeats = source.d, source.columns, source.repeats
        self.has_target, self.is_sparse = source.has_target, source.is_sparse
        kept = source.n if how == "zero" else sum(int(X.shape[0]) for X, _ in self._all())
        self.n = kept

    def _all(self) -> Iterator[Chunk]:
        return (without_missing(X, y, self._how, self._source.has_labels) for X, y in self._source.read(0, self._source.n))

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        return window(self._all(), 0, start, stop)


class OneColumn(Reader):
    """One column of another source, without its target."""

    is_canonical = True

    def __init__(self, source: Reader, column: int) -> None:
        self._source, self._column = source, column
        self.n, self.d, self.repeats, self.is_sparse = source.n, 1, source.repeats, source.is_sparse

    def _chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        for X, _ in self._source.read(start, stop):
            rows = Columns([X.arrays[self._column]], X.dtype) if isinstance(X, Columns) else X[:, [self._column]]
            yield rows, None


def without_missing(X: Any, y: NDArray[Any] | None, how: str, has_labels: bool = False) -> Chunk:
    """Rows and target with missing cells as 0, or without the rows that have any; a missing label stays missing, because 0 is a
    label."""
    if how == "zero":
        return _filled(X), y if y is None or has_labels else np.where(np.isfinite(y), y, 0.0)
    present = present_rows(X, y)
    if bool(present.all()):
        return X, y
    kept = np.flatnonzero(present)
    return X[kept], None if y is None else y[kept]


def present_rows(X: Any, y: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Which rows have all their cells."""
    present = np.ones(X.shape[0], dtype=bool) if y is None else np.isfinite(y)
    if isinstance(X, Columns):
        for values in X.arrays:
            present = present & np.isfinite(values)
    elif sparse.issparse(X):
        bad = ~np.isfinite(X.data)
        if bad.any():
            present = present.copy()
            present[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[bad]] = False
    else:
        present = present & np.isfinite(X).all(axis=1)
    return present


def check_cells(X: Any, y: NDArray[Any] | None) -> None:
    """Refuse rows with missing cells, without saying which."""
    if not bool(present_rows(X, y).all()):
        raise Refusal(MISSING)


def _filled(X: Any) -> Any:
    if isinstance(X, Columns):
        return Columns([np.where(np.isfinite(values), values, 0) for values in X.arrays], X.dtype)
    if not sparse.issparse(X):
        return X if np.isfinite(X).all() else np.where(np.isfinite(X), X, X.dtype.type(0))
    if np.isfinite(X.data).all():
        return X
    filled = sparse.csr_array((np.where(np.isfinite(X.data), X.data, 0), X.indices, X.indptr), shape=X.shape)
    filled.eliminate_zeros()
    return filled
