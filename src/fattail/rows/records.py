r"""Parse lines of text files to numbers, one record at a time.

In this grammar a record affects only itself: not the number of rows, not the cells of other records, not whether reading
succeeds.

- A record is a line, ended by LF (a CR before it is blank space). An empty line is a record
  whose cells are missing.
- Cells are separated by a one-byte delimiter. A cell that starts with ``"`` ends at the next
  ``"`` that stands before a delimiter or the end of the line; inside it the delimiter is text and
  ``""`` is one quote. If there is no such end, quotes mean nothing in the rest of the line.
- A number is what Python's ``float`` reads, or one of the words of `TRUTH`. A cell is missing (NaN) if it is absent, or is not a
  number (not a declared level).
- A line of more than `MOST_LINE` bytes is a record whose cells are all missing.

With quoted newlines, which the holder of the file must promise are balanced, records are those
of Python's ``csv``; a stray quote then takes its neighbors with it.
"""

from __future__ import annotations

import csv
import io
import itertools
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Parse = Callable[[bytes], float]
Floats = NDArray[np.float64]

QUOTE = b'"'
TRUTH = {b"False": 0.0, b"FALSE": 0.0, b"false": 0.0, b"True": 1.0, b"TRUE": 1.0, b"true": 1.0}
"""Words for 0 and 1: those that data frames are written with, and that pandas reads."""
NUMBERS = (
    "a number is written like 1200, -0.5 or 1e3, or is True or False; cells with currency or percent signs, thousands separators "
    "or decimal commas are not numbers"
)
"""What a cell of numbers looks like, for messages: the same sentence for every file."""
MOST_LINE = 1 << 24
_BLOCK_BYTES = 1 << 20
_ROWS = 1 << 12


class UnbalancedQuotesError(ValueError):
    """A quoted cell does not end, although the holder of the file promised balanced quotes."""


def lines(stream: Any) -> Iterator[list[bytes]]:
    """Batches of lines without their LF; an overlong line is cut just beyond the limit."""
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        head, newline, tail = block.rpartition(b"\n")
        if newline:
            yield (rest + head).split(b"\n")
            rest = tail
        elif len(rest) <= MOST_LINE:
            rest += block
    if rest:
        yield [rest]


def cells(line: bytes, delimiter: bytes) -> list[bytes]:
    """The cells of a line."""
    if QUOTE not in line:
        return line.split(delimiter)
    line = line.removesuffix(b"\r")
    found: list[bytes] = []
    at = 0
    while at <= len(line):
        if line.startswith(QUOTE, at):
            end = _closing(line, at + 1, delimiter)
            if end < 0:
                return found + line[at:].split(delimiter)
            found.append(line[at + 1 : end].replace(b'""', QUOTE))
            end += 1
        else:
            end = line.find(delimiter, at)
            end = len(line) if end < 0 else end
            found.append(line[at:end])
        at = end + 1
    return found


def _closing(line: bytes, at: int, delimiter: bytes) -> int:
    """Where the quoted cell that starts at ``at`` is closed, or -1."""
    while (at := line.find(QUOTE, at)) >= 0:
        after = line[at + 1 : at + 2]
        if after in (b"", delimiter):
            return at
        at += 2 if after == QUOTE else 1
    return -1


def records(stream: Any, delimiter: bytes, quoted_newlines: bool) -> Iterator[list[list[bytes]]]:
    """Batches of records, each a list of cells; an overlong line has none."""
    if quoted_newlines:
        yield from _spanning(stream, delimiter)
        return
    for batch in lines(stream):
        for k in range(0, len(batch), _ROWS):
            yield [cells(line, delimiter) if len(line) <= MOST_LINE else [] for line in batch[k : k + _ROWS]]


def _spanning(stream: Any, delimiter: bytes) -> Iterator[list[list[bytes]]]:
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
    before = csv.field_size_limit(MOST_LINE)
    try:
        reader = csv.reader(_bounded(text), delimiter=delimiter.decode())
        while batch := list(itertools.islice(reader, _ROWS)):
            yield [[cell.encode("utf-8", "surrogateescape") for cell in row] for row in batch]
    except csv.Error:
        raise UnbalancedQuotesError from None
    finally:
        csv.field_size_limit(before)
        text.detach()


def _bounded(text: io.TextIOWrapper) -> Iterator[str]:
    """Lines cut just beyond `MOST_LINE` characters, because a line of a small compressed file could fill the memory."""
    while line := text.readline(MOST_LINE):
        if len(line) == MOST_LINE and not line.endswith("\n"):
            raise csv.Error("a line is too long")
        yield line


def number(cell: bytes) -> float:
    """A cell as a number; raises ValueError if it is none.

    Examples
    --------
    >>> number(b" 1e3"), number(b"True")
    (1000.0, 1.0)
    """
    try:
        return float(cell)
    except ValueError:
        if cell.strip() not in TRUTH:
            raise
        return TRUTH[cell.strip()]


def delimiter_of(names: Sequence[str]) -> str | None:
    """The character that seems to separate the cells of a header that was read as one name; None if there is none.

    Examples
    --------
    >>> delimiter_of(["age;cost"]), delimiter_of(["age", "cost"])
    (';', None)
    """
    return next((mark for mark in ";\t|," if len(names) == 1 and mark in names[0]), None)


def level_parser(levels: Sequence[str]) -> Parse:
    """Code of a declared level; "1", "1.0" and " 1 " are the same level, and so is True unless it is declared itself."""
    texts = {str(level).strip().encode(): float(code) for code, level in enumerate(levels)}
    numbers = {float(text): code for text, code in texts.items() if is_number(text)}

    def parse(cell: bytes) -> float:
        code = texts.get(cell.strip())
        return numbers[number(cell)] if code is None else code

    return parse


def parsed(batch: Sequence[Sequence[bytes]], plan: Sequence[tuple[int, Parse]]) -> Floats:
    """The planned cells (position and parser) of some records, NaN where one is missing."""
    places, parsers = [i for i, _ in plan], [parse for _, parse in plan]
    pick = itemgetter(*places) if len(plan) > 1 else lambda row: (row[places[0]],)
    plain = all(parse is number for parse in parsers)
    found = array("d")
    for row in batch:
        try:
            picked = pick(row)
            found.extend(list(map(float, picked) if plain else map(_apply, parsers, picked)))
        except (ValueError, KeyError, IndexError):
            found.extend([parsed_cell(parse, row[i]) if i < len(row) else np.nan for i, parse in plan])
    return np.asarray(found).reshape(-1, len(plan))


def _apply(parse: Parse, cell: bytes) -> float:
    return parse(cell)


def parsed_cell(parse: Parse, cell: bytes) -> float:
    """One cell, NaN if it is missing."""
    try:
        return parse(cell)
    except (ValueError, KeyError):
        return float("nan")


def sparse_rows(batch: Sequence[bytes], dimension: int) -> tuple[Any, Floats, bool]:
    """Lines ``target column:value ...`` as CSR rows and targets, and whether every one of them is whole.

    Columns count from 1. A target or value that is not a finite number becomes 0, a pair without a
    valid column is left out; what follows ``#`` is a remark.
    """
    indptr, indices, values, target, whole = [0], array("q"), array("d"), array("d"), True
    for line in batch:
        words = line.partition(b"#")[0].split() if len(line) <= MOST_LINE else []
        target.append(parsed_cell(float, words[0]) if words else np.nan)
        for word in words[1:]:
            column, _, value = word.partition(b":")
            if column == b"qid":
                continue
            place = _column(column)
            if 1 <= place <= dimension:
                indices.append(place - 1)
                values.append(parsed_cell(float, value))
            else:
                whole = False
        indptr.append(len(indices))
    y, data = np.asarray(target), np.asarray(values)
    finite, kept = np.isfinite(y), np.isfinite(data)
    y, data = np.where(finite, y, 0.0), np.where(kept, data, 0.0)
    X = sparse.csr_matrix((data, np.asarray(indices), np.asarray(indptr)), shape=(len(batch), dimension))
    with np.errstate(over="ignore"):
        X.sum_duplicates()
    X.data[~np.isfinite(X.data)] = 0.0  # two values of one column may add up to infinity
    X.eliminate_zeros()
    return X, y, whole and bool(finite.all() and kept.all())


def _column(text: bytes) -> int:
    return int(text) if text.isdigit() and len(text) < 20 else 0


def is_number(text: bytes | str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
