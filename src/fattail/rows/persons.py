"""Persons: ids of any type as integers, and the rows of each person in one place.

The unit of privacy may be a person with any number of rows. An id is text, a number or a category; it is converted to a code,
and a person's position is that of their first row. Codes stay inside: nothing that is released depends on which code a
person has. The rows of a person lie next to each other, in an order that their values alone decide, so that sums over them do
not depend on the order of the table. Proof: ``persons.proof.md``.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail.rows.beside import plain_ids
from fattail.rows.door import Refusal, attempt, single_column
from fattail.rows.frames import holds_whole_numbers, is_column, is_frame, is_missing, kind_of, library
from fattail.rows.missing import check_cells, present_rows, without_missing
from fattail.rows.order import Fold
from fattail.rows.passes import Block
from fattail.rows.source import Arrays, Mask, RowPass, Source, Sums, in_memory

Codes = NDArray[np.int64]

_UNHASHABLE = "an id of a person must be text, a number, a date or a category"
_MISSING = "a row has no person: fill in the ids, or leave the rows out, before fitting"

# Most rows of one person that are used. More would need larger blocks, and the rounding error of their average could be larger.
MOST_OF_ONE = 1 << 20


@dataclass(frozen=True, eq=False)
class Ids:
    """Ids of persons with the name of their column."""

    values: Any
    name: str


def column_of(ids: Any) -> str:
    """The name of the column that ids come from; empty for an array.

    Examples
    --------
    >>> column_of("patient"), column_of(np.arange(3)), column_of(Ids(np.arange(3), "patient"))
    ('patient', '', 'patient')
    """
    if isinstance(ids, str):
        return ids
    if is_frame(ids):
        return str(next(iter(ids.columns if library(ids) != "pyarrow" else ids.column_names), ""))
    # Arrays of Dask have a name that is no column's.
    name = ids.name if isinstance(ids, Ids) or kind_of(ids) in ("Series", "Index") else None
    return "" if name is None else str(name)


def person_codes(ids: Any) -> tuple[Codes, int]:
    """Code of each row's person, and the number of persons.

    Parameters
    ----------
    ids : array of shape (n,), or a column of a data frame
        Text, numbers, dates or categories. A missing id is refused.

    Examples
    --------
    >>> person_codes(["ann", "bob", "ann"])
    (array([0, 1, 0]), 2)
    """
    ids = ids.values if isinstance(ids, Ids) else ids
    if is_frame(ids) and ids.shape[1] != 1:
        raise Refusal(f"person must be one column, got {ids.shape[1]}")
    column = single_column(ids)
    if library(column) == "pandas" and is_column(column) and _has_one_type(column):
        return attempt("comparing ids of persons", _factorized, column)
    values = plain_ids(column)
    if values.ndim != 1:
        raise Refusal(f"person must hold one id per row, got an array of {values.ndim} dimensions")
    codes, count = attempt("comparing ids of persons", _coded if values.dtype.kind in "OUS" else _sorted, values)
    return codes.astype(np.int64).reshape(-1), count


def by_first_row(codes: Codes) -> tuple[Codes, int]:
    """Codes in the order of the persons' first rows, and their number: with one row each, a person's place is their row's.

    Examples
    --------
    >>> by_first_row(np.array([5, 1, 5, 0]))
    (array([0, 1, 0, 2]), 3)
    """
    kinds, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    place = np.empty(len(kinds), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(kinds))
    return place[codes.reshape(-1)], len(kinds)


def _sorted(values: NDArray[Any]) -> tuple[Codes, int]:
    """Codes of persons in the order of their ids, for numbers, dates and the like."""
    if np.ma.isMaskedArray(values):
        missing = np.ma.getmaskarray(values)
    elif values.dtype.kind in "mM":
        missing = np.isnat(values)
    else:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, dtype=bool)
    if missing.any():
        raise Refusal(_MISSING)
    kinds, codes = np.unique(np.ma.getdata(values), return_inverse=True)
    return codes, len(kinds)


def _coded(values: NDArray[Any]) -> tuple[Codes, int]:
    """The same for ids of any type; ids that cannot be compared with each other keep the order of their first rows."""
    cells = values.tolist()
    keys = list(zip(map(type, cells), cells, strict=True))  # 5 and Decimal(5) are equal, but each is spelled by itself
    try:
        different = dict.fromkeys(keys)
    except TypeError:
        raise Refusal(_UNHASHABLE) from None
    if any(is_missing(cell) for _, cell in different):
        raise Refusal(_MISSING)
    seen: dict[Any, int] = {}
    code_of = {key: seen.setdefault(_spelled(key[1]), len(seen)) for key in different}
    first = {code: cell for (_, cell), code in reversed(code_of.items())}  # of each person, the first spelling
    with contextlib.suppress(TypeError):
        place = np.empty(len(seen), dtype=np.int64)
        place[sorted(first, key=first.__getitem__)] = np.arange(len(seen))
        code_of = {key: int(place[code]) for key, code in code_of.items()}
    return np.fromiter(map(code_of.__getitem__, keys), dtype=np.int64, count=len(cells)), len(seen)


def _has_one_type(column: Any) -> bool:
    """Whether pandas may compare the cells: among objects of several types, who equals whom depends on which come first."""
    from pandas.api.types import infer_dtype

    if column.dtype == object:
        return bool(infer_dtype(column, skipna=False) == "string")
    return not holds_whole_numbers(column)


def _factorized(column: Any) -> tuple[Codes, int]:
    """The same for a column of pandas, which finds equal cells by itself: few cells are left to be compared here."""
    try:
        codes, kinds = column.factorize()
    except TypeError:
        raise Refusal(_UNHASHABLE) from None
    if (codes < 0).any():
        raise Refusal(_MISSING)
    own, count = _coded(np.asarray(kinds, dtype=object))
    return own[codes], count


def _spelled(cell: Any) -> Any:
    """An id in one form of its own: text for 5, 5.0 and "5", and for two ways to store an accent; other types as they are.

    A column that was read in pieces may hold the same id as a number and as text. One person must not become two. Whether two
    ids are the same must not depend on other rows, so forms that are equal to a third are equal to each other: a Timestamp
    equals the datetime64 and the datetime of its moment, which do not equal each other, so numpy's times are set apart.

    Examples
    --------
    >>> _spelled(5.0), _spelled("005"), _spelled("e\u0301") == _spelled("\u00e9")
    ('5', '005', True)
    """
    if isinstance(cell, str):
        return unicodedata.normalize("NFC", cell)
    if isinstance(cell, (np.datetime64, np.timedelta64)):
        return (cell,)
    if isinstance(cell, Number):
        with contextlib.suppress(TypeError, ValueError, ArithmeticError, AttributeError):  # infinite, complex, or too long
            number: Any = cell
            if (whole := int(number.real)) == number:
                return str(whole)
    return cell


class Persons(Source):
    """Rows in memory, those of a person together; its positions are persons.

    Parameters
    ----------
    source : Source
        Its rows are read once and held in memory, at 8 bytes (or less) per cell, because a person's rows may be anywhere. At
        most ``MOST_OF_ONE`` rows of one person are kept.
    ids : array of shape (n,)
        The id of the person each row belongs to.
    missing : {"error", "zero", "drop"}, optional
        How missing cells are handled; a person without any remaining row is left out.

    Notes
    -----
    Persons with one row come first, in the order of their rows; so with one row each this is the source as it was.
    """

    def __init__(self, source: Source, ids: Any, missing: str | None = None) -> None:
        codes, self.n = by_first_row(person_codes(ids)[0])
        if len(codes) != source.n:
            raise Refusal(f"X has {source.n} rows and person has {len(codes)} ids")
        self.d, self.columns = source.d, source.columns
        self.has_target, self.is_sparse = source.has_target, source.is_sparse
        X, y = in_memory(source)
        if missing == "error":
            check_cells(X, y)
        elif missing == "drop":
            codes, self.n = by_first_row(codes[present_rows(X, y)])
        if missing in ("zero", "drop"):
            X, y = without_missing(X, y, missing, source.has_labels)
        counts = np.bincount(codes, minlength=self.n)
        self._singles = int(np.sum(counts == 1))
        # Layout: persons with one row, then the others, each group by code.
        layout = np.argsort(counts > 1, kind="stable")
        self._place = np.empty(self.n, dtype=np.int64)
        self._place[layout] = np.arange(self.n)
        starts = np.concatenate(([0], np.cumsum(counts[layout])))
        order = _canonical(X, y, self._place[codes], self._singles)
        self._starts, kept = _thinned(starts)
        order = order if kept is None else order[kept]
        same = bool(np.array_equal(order, np.arange(len(order))))
        self._X = X if same else X[order]
        self._y = y if same or y is None else y[order]

    def sum(self, job: RowPass, start: int, stop: int, mask: Mask | None) -> Sums | None:
        """Positions are persons; all of them are read, so ``start`` and ``stop`` are 0 and n."""
        who = None if job.fold is None else self._place[job.fold.within(0, self.n)]
        return job.over(self._pieces(who, job.block_rows, mask))

    def _pieces(self, who: Codes | None, rows: int, mask: Mask | None = None) -> Iterator[PersonPiece]:
        """Blocks of whole persons with about so many rows, those with one row each first."""
        who = np.arange(self.n) if who is None else np.sort(who)
        if mask is not None:
            by_place = np.empty(self.n, dtype=bool)
            by_place[self._place] = mask
            mask = by_place
        ends = np.cumsum(self._starts[who + 1] - self._starts[who])
        single = int(np.searchsorted(who, self._singles))
        for low, high in ((0, single), (single, len(who))):
            block = (ends[low:high] - 1) // rows
            edges = low + np.concatenate(([0], np.flatnonzero(np.diff(block)) + 1, [high - low]))
            for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                if a < b:
                    yield PersonPiece(self, who[a:b], None if mask is None else mask[who[a:b]])

    def block(self, who: Codes, mask: Mask | None = None) -> Block:
        """All rows of the persons at these places."""
        first, counts = self._starts[who], np.diff(self._starts)[who]
        consecutive = bool(np.all(np.diff(who) == 1))
        rows: Any = slice(int(first[0]), int(first[-1] + counts[-1])) if consecutive else _ranges(first, counts)
        weight = None if mask is None else mask.astype(np.float64)
        starts = None if counts.max() == 1 else np.concatenate(([0], np.cumsum(counts)))
        return Block(self._X[rows], None if self._y is None else self._y[rows], 0, weight, starts)

    def gather(self, compute: Any, rows: int, fold: Fold | None = None) -> NDArray[Any]:
        """What ``compute`` gives per person, by code, or in the secret order of a fold."""
        who = None if fold is None else fold.positions(self.n)
        places = self._place if who is None else self._place[who]
        parts = [compute(piece.block()) for piece in self._pieces(None if who is None else places, rows)]
        # Pieces come by place.
        return np.concatenate(parts or [compute(self.empty_block())])[np.argsort(np.argsort(places))]

    def rows_in(self, fold: Fold) -> tuple[Block, NDArray[np.float64]]:
        """All rows of a fold's persons, in their secret order, and the share of each row in its person."""
        who = self._place[fold.positions(self.n)]
        counts = np.diff(self._starts)[who]
        return self.block(who) if len(who) else self.empty_block(), np.repeat(1.0 / counts, counts)

    def column(self, j: int) -> Persons:
        """One column; a person's rows without a cell in it are dropped."""
        who = np.repeat(np.arange(self.n), np.diff(self._starts))
        return Persons(Arrays(self._X[:, [j]]), who, "drop")

    def averages(self) -> Any:
        """The mean row of each person by code, CSR or dense."""
        singles = self._X[: self._singles]
        if self._singles == self.n:
            return singles
        rest = self._X[self._singles :]
        starts = self._starts[self._singles :] - self._singles
        with np.errstate(all="ignore"):
            means = averaged(starts, rest)
        whole = sparse.vstack([singles, means], "csr") if self.is_sparse else np.concatenate([singles, means])
        return whole[self._place]

    def __copy__(self) -> Persons:
        other = object.__new__(Persons)
        vars(other).update(vars(self))
        return other

    def __reduce__(self) -> Any:
        raise TypeError("raw rows are not pickled")


@dataclass(frozen=True, eq=False)
class PersonPiece:
    """Some persons of a table, by their places; a block of them copies their rows."""

    persons: Persons
    who: Codes
    mask: Mask | None

    def block(self, scratch: Any = None) -> Block:
        return self.persons.block(self.who, self.mask)


def averaged(starts: Codes, V: Any, r: Any = None, center: Any = 0.0) -> Any:
    """Mean over each person's rows of ``r V``, where a coordinate that is not a number counts as ``center``.

    Sums run in the order of the rows, from dense and from CSR alike.
    """
    counts = np.diff(starts)
    if not sparse.issparse(V):
        W = np.asarray(V, dtype=np.float64) * (1.0 if r is None else r[:, None])
        return np.add.reduceat(np.where(np.isnan(W), center, W), starts[:-1], axis=0) / counts[:, None]
    kind = V.indices.dtype
    data = V.data * (1.0 if r is None else np.repeat(r, np.diff(V.indptr)))
    data = np.where(np.isnan(data), np.broadcast_to(center, V.shape[1])[V.indices], data)
    rows = sparse.csr_array((data, V.indices, V.indptr), shape=V.shape)
    one = sparse.csr_array(
        (np.ones(V.shape[0]), np.arange(V.shape[0], dtype=kind), starts.astype(kind)), shape=(len(counts), V.shape[0])
    )
    total = sparse.csr_array(one @ rows)
    total.sort_indices()
    total.data = total.data / np.repeat(counts, np.diff(total.indptr))
    return total


def _ranges(first: Codes, counts: Codes) -> Codes:
    """``first[k], first[k] + 1, ...``, as many as ``counts[k]``, one list after another."""
    ends = np.cumsum(counts)
    return np.repeat(first - np.concatenate(([0], ends[:-1])), counts) + np.arange(ends[-1])


def _thinned(starts: Codes, most: int = MOST_OF_ONE) -> tuple[Codes, Codes | None]:
    """Where persons start once the rows of each are at most ``most``, and which rows are kept: evenly many, None for all."""
    counts = np.diff(starts)
    if counts.max(initial=0) <= most:
        return starts, None
    sizes = [most if m > most else int(m) for m in counts.tolist()]
    parts = [a + np.arange(k) * int(m) // k for a, k, m in zip(starts[:-1].tolist(), sizes, counts.tolist(), strict=True)]
    return np.concatenate(([0], np.cumsum(sizes))), np.concatenate(parts)


def _canonical(X: Any, y: Any, place: Codes, singles: int) -> Codes:
    """Rows by the place of their person, those of one person by the bits of their cells: y first, then column by column.

    Rows with all bits alike may stay in any order, since they are the same row.
    """
    order = np.argsort(place, kind="stable")
    group = place[order]
    tied = np.arange(len(order)) >= singles
    for cells in _keys(X, y):
        if not np.any(tied):
            break
        at = np.flatnonzero(tied)
        key = cells(order[at])
        by = np.lexsort((key, group[at]))
        order[at], key = order[at][by], key[by]
        # Rows that differ in this key are in their final order.
        new = np.concatenate(([True], (np.diff(group[at]) != 0) | (key[1:] != key[:-1])))
        group[at] = np.cumsum(new) - 1
        tied[at] = ~(new & np.append(new[1:], True))
    return order


def _keys(X: Any, y: Any) -> Iterator[Any]:
    """Functions that give a cell of some rows as integers to sort by; the number of rows that need many of them is small."""
    if y is not None:
        yield lambda rows: _bits(y[rows])
    if sparse.issparse(X):
        yield lambda rows: _row_order(X, rows)
        return
    for j in range(X.shape[1]):
        yield lambda rows, j=j: _bits(X[rows, j])


def _bits(values: NDArray[Any]) -> Codes:
    """Numbers that are equal as bits in double precision are one key, and only those; zero has one sign."""
    return (np.asarray(values, dtype=np.float64) + 0.0).view(np.int64)


def _row_order(X: Any, rows: Codes) -> Codes:
    """Ranks of CSR rows by the columns and bits of what they store; equal rows share one."""
    ends = X.indptr
    keys = [X.indices[ends[i] : ends[i + 1]].tobytes() + _bits(X.data[ends[i] : ends[i + 1]]).tobytes() for i in rows]
    ranks = {key: k for k, key in enumerate(sorted(set(keys)))}
    return np.array([ranks[key] for key in keys], dtype=np.int64)
