"""What a ledger keeps and reports: the data of a charge, a charge, the result of a check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from fattail.privacy.accounts import Claim, spelling
from fattail.privacy.events import Event


@dataclass(frozen=True)
class Subject:
    """The data that a charge is about. Everything in it is public.

    Attributes
    ----------
    data : str
        Fingerprint of schema and source, not of rows.
    columns : tuple of str
    unit, relation : str
        What is protected ("row" or "person") and which datasets are neighbors. An account keeps to one of each.
    person : str or None
        The column that identifies persons, and empty for ids without a name. An account keeps to one. None for rows, and for
        charges that older versions wrote.
    """

    data: str = ""
    columns: tuple[str, ...] = ()
    unit: str = "row"
    relation: str = "replace-one"
    person: str | None = None

    @classmethod
    def of(
        cls, columns: Sequence[object], source: str = "", *, relation: str = "replace-one", person: str | None = None
    ) -> Subject:
        """The subject of a table with these columns; ``person`` as in the class, None if rows are protected.

        Examples
        --------
        >>> Subject.of(["age", "cost"]).columns
        ('age', 'cost')
        """
        names = tuple(str(c) for c in columns)
        data = sha256(json.dumps([source, names]).encode()).hexdigest()[:16]
        return cls(data, names, "row" if person is None else "person", relation, person)

    @property
    def protects(self) -> str:
        """Unit and relation in words.

        Examples
        --------
        >>> Subject.of(["cost"], person="patient").protects
        "each person of column 'patient' (replace-one)"
        """
        who = "" if self.person is None else f" of column {self.person!r}" if self.person else " of ids without a column name"
        return f"each {self.unit}{who} ({self.relation})"

    def agrees(self, other: Subject) -> bool:
        """Whether charges for both protect the same: losses of different units must not be added up."""
        if (self.unit, self.relation) != (other.unit, other.relation):
            return False
        return None in (self.person, other.person) or spelling(str(self.person)) == spelling(str(other.person))


@dataclass(frozen=True)
class Charge:
    """One line of an account's history."""

    label: str
    epsilon_after: float
    at: float
    events: tuple[Event, ...]
    claim: Claim | None = None
    subject: Subject = field(default_factory=Subject)
    user: str = ""


@dataclass(frozen=True)
class Verification:
    """The result of a check of a ledger.

    Attributes
    ----------
    path : Path
    entries : int
        Entries that were read; 0 if the file could not be.
    accounts : tuple of (name, epsilon, spent, charges)
    problems : tuple of str
        Empty if no fault was found, as far as one file can show.
    notes : tuple of str
        Facts that are not faults but worth knowing: an adopted copy or older state, a clock that went back.
    """

    path: Path
    entries: int
    accounts: tuple[tuple[str, float, float, int], ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return "\n".join(self.problems)
        return f"{self.path}: {self.entries} entries, each as it was written"
