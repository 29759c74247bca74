"""Whose rows are these: ids of any type as whole numbers.

The unit of privacy may be a person with any number of rows. An id is text, a number or a category; behind the door it is a
code from 0 to the number of persons minus one. Codes stay inside: nothing that is released depends on which code a person has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.rows.door import Refusal, array_of, attempt, single_column
from fattail.rows.frames import is_column, library

Codes = NDArray[np.int64]


def person_codes(ids: Any) -> tuple[Codes, int]:
    """Code of each row's person, and the number of persons.

    Parameters
    ----------
    ids : array of shape (n,), or a column of a data frame
        Text, numbers, dates or categories. A missing id is refused: nobody could say whose row it is.

    Examples
    --------
    >>> person_codes(["ann", "bob", "ann"])
    (array([0, 1, 0]), 2)
    """
    values = _plain(ids)
    if values.ndim != 1:
        raise Refusal(f"person must hold one id per row, got an array of {values.ndim} dimensions")
    if _has_missing(values):
        raise Refusal("a row has no person: fill in the ids, or leave the rows out, before fitting")
    kinds, codes = attempt("comparing ids of persons", _unique, values)
    return codes.astype(np.int64).reshape(-1), len(kinds)


def _plain(ids: Any) -> NDArray[Any]:
    """Ids as an array: text as objects, everything else in its own type."""
    column = single_column(ids)
    if not is_column(column):
        return array_of(column) if not isinstance(column, (list, tuple)) else np.asarray(column)
    if library(column) == "pyarrow":
        return np.asarray(column.to_pandas(), dtype=object)
    if library(column) == "polars":
        return np.asarray(column.to_list(), dtype=object)
    return np.asarray(column, dtype=object)


def _unique(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    if values.dtype != object:
        return np.unique(values, return_inverse=True)
    place: dict[Any, int] = {}
    codes = np.array([place.setdefault(value, len(place)) for value in values.tolist()], dtype=np.int64)
    return np.arange(len(place)), codes


def _has_missing(values: NDArray[Any]) -> bool:
    if np.ma.isMaskedArray(values):
        return bool(np.ma.getmaskarray(values).any())
    if values.dtype.kind == "f":
        return bool(np.isnan(values).any())
    if values.dtype.kind in "mM":
        return bool(np.isnat(values).any())
    if values.dtype == object:
        return any(value is None or value != value for value in values.tolist())
    return False
