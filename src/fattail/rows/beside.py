"""What is given side by side with the rows, or as columns of them: targets, and ids of persons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.rows.door import Refusal, array_of, attempt, is_plain, objects, schema_of, single_column, target_of, typed
from fattail.rows.frames import cells_of, holds_whole_numbers, is_column, is_text, library, whole_numbers


def check_row_labels(X: Any, **others: Any) -> None:
    """Refuse pandas objects whose rows have other labels than those of X: rows are matched by position, never by label.

    Labels come with the rows, so like the check for missing cells this one is for the holder of the data, before anything is
    charged, with ``missing="error"`` only.
    """
    for name, other in others.items():
        if not (library(X) == library(other) == "pandas" and hasattr(X, "index") and hasattr(other, "index")):
            continue
        if len(X) == len(other) and not attempt("comparing the labels of rows", X.index.equals, other.index):
            raise Refusal(
                f"the rows of {name} have different labels (its pandas index) than those of the table, and rows are matched by "
                "position: use .loc[table.index] to match them by label, or .to_numpy() to keep their order"
            )


def side_by_side(X: Any, y: Any, person: Any, missing: str | None, coded: bool) -> tuple[Any, Any]:
    """Rows and target that were given side by side, as later steps expect them for this meaning of missing cells.

    Where cells must be there, labels of rows must agree; where they may be missing, lists are read cell by cell. ``coded`` means
    that the target is read as labels elsewhere.
    """
    if missing == "error":
        check_row_labels(X, y=y, person=person)
    elif missing in ("zero", "drop"):
        X, y = typed(X), target_of(y, strict=False) if is_plain(y) and not coded else y
    return X, y


def take_target(frame: Any, name: str) -> tuple[Any, Any]:
    """A frame without one of its columns, and that column as its library holds it."""
    schema_of(frame).find((name,))
    rest = frame.drop(columns=name) if library(frame) == "pandas" else frame.drop([name])
    return rest, frame[name]


def plain_ids(ids: Any) -> NDArray[Any]:
    """Ids as an array: text as objects, everything else in its own type."""
    column = single_column(ids)
    if not is_column(column):
        # In a list, or another sequence without a type, every id keeps its own: one text must not make text of others' numbers.
        return array_of(column) if hasattr(column, "dtype") else objects(attempt("reading the ids", list, column))
    if holds_whole_numbers(column):
        return whole_numbers(column)
    return attempt("reading the ids", _objects_of, column)


def _objects_of(column: Any) -> NDArray[Any]:
    if library(column) == "pyarrow" and not is_text(column):
        return np.asarray(column.to_pandas(), dtype=object)
    return np.asarray(column if library(column) == "pandas" else cells_of(column), dtype=object)
