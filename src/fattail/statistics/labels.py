"""The group of each row: labels of any type as codes, for given groups and for those that occur."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.rows.door import Refusal

Codes = NDArray[np.int64]
Name = str | float | int | bool

# Longest lookup table over all integers between the smallest and the largest group.
_TABLE = 1 << 22


def check_groups(groups: Sequence[Any]) -> tuple[Name, ...]:
    """Declared groups: at least one, all different, each text or a number."""
    names = tuple(_spelled(name.item() if isinstance(name, np.generic) else name) for name in groups)
    if isinstance(groups, (str, bytes)) or not names:
        raise ValueError(f"groups must be a list of names, got {groups!r}")
    wrong = [name for name in names if not isinstance(name, (str, int, float)) or name != name]
    if wrong:
        raise ValueError(f"a group is text, a number or a date, got {wrong[:3]}")
    if len(set(names)) < len(names) or len(set(map(str, names))) < len(names):
        raise ValueError("groups must be different from each other; a number and its text, such as 1 and '1', are the same group")
    return names


def _spelled(label: Any) -> Any:
    """A date as ISO text, with the time of day unless that is midnight; text with composed accents; anything else unchanged.

    Examples
    --------
    >>> _spelled(datetime(2026, 1, 31)), _spelled(datetime(2026, 1, 31, 8, 30)), _spelled(2.5)
    ('2026-01-31', '2026-01-31 08:30:00', 2.5)
    """
    if isinstance(label, datetime):
        return label.isoformat(sep=" ").removesuffix(" 00:00:00")
    if isinstance(label, str):
        return unicodedata.normalize("NFC", label)
    return label.isoformat() if isinstance(label, date) else label


def declared_codes(labels: NDArray[Any], groups: Sequence[Name]) -> Codes:
    """Code of each row's group among those given; -1 where it is none of them or missing.

    Examples
    --------
    >>> declared_codes(np.array(["b", "a", None, "x"], dtype=object), ["a", "b"])
    array([ 1,  0, -1, -1])
    >>> declared_codes(np.array([2.0, 1.0, np.nan]), ["1", 2])
    array([ 1,  0, -1])
    """
    numbers: dict[Any, int] = {number: k for k, number in enumerate(map(_number, groups)) if number is not None}
    if labels.dtype.kind in "bO":
        texts = {str(name): k for k, name in enumerate(groups)}
        if labels.dtype == object:
            return _cell_codes(labels.tolist(), numbers, texts)
        numbers |= {int(value): texts[str(value)] for value in (False, True) if str(value) in texts}
    codes = _number_codes(np.ma.getdata(labels), numbers)
    return np.where(np.ma.getmaskarray(labels), -1, codes) if np.ma.isMaskedArray(labels) else codes


def _cell_codes(cells: list[Any], numbers: dict[Any, int], texts: dict[str, int]) -> Codes:
    """Codes of cells of any type. That of a cell depends on the cell alone, not on what other rows hold."""
    known: dict[Any, int] = {None: -1}
    codes = np.empty(len(cells), dtype=np.int64)
    for i, cell in enumerate(cells):
        key = cell if type(cell) is str else _spelling(cell)
        try:
            codes[i] = known[key]
        except KeyError:
            text = str(_spelled(cell))
            code = texts.get(text, texts.get(str(cell)))
            number = cell if isinstance(cell, (bool, int, float, np.number, np.bool_)) else _number(text)
            known[key] = codes[i] = numbers.get(number, -1) if code is None else code
    return codes


def _spelling(cell: Any) -> tuple[type, str] | None:
    """A key that two cells share only if they are of one type and spelled alike; None for what is not a name.

    Equal cells may be spelled differently: True and 1, 1.0 and 1.00 as decimals, 0.0 and -0.0, one moment in two time zones.
    """
    try:
        hash(cell)
        return None if cell is None else (type(cell), str(cell))
    except Exception:  # a list cannot be hashed, an integer of 5,000 digits cannot be spelled; other types may do anything
        return None


def _number(name: Any) -> int | float | None:
    """The number that a name spells, integers exactly."""
    if type(name) is int:
        return name
    for kind in (int, float):
        try:
            number = kind(name)
        except (TypeError, ValueError, OverflowError):
            continue
        if kind is float:
            return number if number == number else None
        if number == name or isinstance(name, str):
            return number
    return None


def _number_codes(labels: NDArray[Any], numbers: dict[Any, int]) -> Codes:
    """Codes of numbers; whole ones of 64 bits are compared as such, not as floats."""
    # Differences of narrow integers would wrap around.
    kind: np.dtype[Any] = np.dtype({"i": np.int64, "u": np.uint64}.get(labels.dtype.kind, np.float64))
    labels = labels.astype(kind, copy=False)
    if kind.kind in "iu":
        least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
        numbers = {int(key): k for key, k in numbers.items() if least <= key <= most and key == int(key)}
    if not numbers:
        return np.full(len(labels), -1, dtype=np.int64)
    keys = np.array(list(numbers), dtype=kind)
    order = np.argsort(keys)
    keys, values = keys[order], np.array(list(numbers.values()), dtype=np.int64)[order]
    low = keys[0]
    with np.errstate(all="ignore"):
        # As integers of Python: two groups near 2^62 are as far apart as they are, not as their floats are.
        if kind.kind in "iu" and (span := int(keys[-1]) - int(low)) < _TABLE:
            table = np.full(span + 2, -1, dtype=np.int64)
            table[(keys - low).astype(np.int64)] = values
            inside = (labels >= low) & (labels <= keys[-1])
            return table[np.where(inside, labels - low, len(table) - 1).astype(np.int64)]
        place = np.minimum(np.searchsorted(keys, labels), len(keys) - 1)
        return np.where(keys[place] == labels, values[place], -1)


def occurring_codes(labels: NDArray[Any]) -> tuple[Codes, list[Name]]:
    """Code of each row's label among those that occur, in the order of their names; -1 where it is missing. All private.

    Examples
    --------
    >>> occurring_codes(np.array(["b", "a", None, "b"], dtype=object))
    (array([ 1,  0, -1,  1]), ['a', 'b'])
    """
    if labels.dtype != object:
        missing = np.ma.getmaskarray(labels) if np.ma.isMaskedArray(labels) else np.zeros(len(labels), dtype=bool)
        values = np.ma.getdata(labels)
        kinds, codes = np.unique(values if values.dtype.kind in "iu" else values.astype(np.float64), return_inverse=True)
        codes = codes.astype(np.int64).reshape(-1)
        whole = np.isfinite(kinds)
        place = np.where(whole, np.cumsum(whole) - 1, -1)
        name_of = bool if labels.dtype.kind == "b" else int
        codes = np.where(missing, -1, place[codes])
        return codes, [name_of(k) if k == int(k) else float(k) for k in kinds[whole].tolist()]
    own = [None if label is None else _own_name(label) for label in labels.tolist()]
    names = sorted({name for name in own if name is not None}, key=lambda name: (isinstance(name, str), name))
    place_of = {name: k for k, name in enumerate(names)} | {None: -1}
    return np.array([place_of[name] for name in own], dtype=np.int64), list(names)


def _own_name(cell: Any) -> Name | None:
    """The name of a group, from its own cell alone: a number, or text; None for a cell that cannot be spelled."""
    if isinstance(cell, (float, np.floating)):
        return (int(cell) if cell == int(cell) else float(cell)) if np.isfinite(cell) else None
    try:
        name = str(_spelled(cell))
    except Exception:  # an integer of 5,000 digits; cells of other types may raise anything
        return None
    return int(cell) if isinstance(cell, (int, np.integer)) and not isinstance(cell, (bool, np.timedelta64)) else name


def refuse_missing(labels: NDArray[Any]) -> None:
    """Refuse rows without a group: a check for the holder of the data, outside of the guarantee."""
    if np.ma.isMaskedArray(labels):
        missing = bool(np.ma.getmaskarray(labels).any())
    else:
        missing = np.isnan(labels).any() if labels.dtype.kind == "f" else labels.dtype == object and None in labels.tolist()
    if missing:
        raise Refusal("a row has no group: fill in the column, or choose missing='drop' to leave such rows out")
