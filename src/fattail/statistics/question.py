"""The common parameters of a statistic: persons, groups, missing cells, and the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.warnings import warn_leak
from fattail.privacy import Curator, Subject, check_budget
from fattail.privacy.noise import noise_source
from fattail.rows.door import Refusal
from fattail.rows.named import NamedColumns
from fattail.rows.persons import column_of, person_codes
from fattail.statistics.labels import Name, check_groups, declared_codes, occurring_codes, refuse_missing
from fattail.statistics.partition import NamesAboveThreshold
from fattail.statistics.units import Contributions, units_of_persons, units_of_rows

Floats = NDArray[np.float64]

RELATIONS = ("replace-one", "add-remove")
MISSING = ("error", "zero", "drop")
WEIGHTS = ("persons", "rows")
SOURCE_OPTIONS = ("delimiter", "quoted_newlines")
NEEDS_BY = "groups need by=, the column that holds them"


def check_weight(weight: str, person: Any) -> None:
    """Refuse a weight that is unknown or has no meaning without persons."""
    if weight not in WEIGHTS:
        raise ValueError(f"weight must be one of {', '.join(WEIGHTS)}; got {weight!r}")
    if weight == "rows" and person is None:
        raise ValueError("weight='rows' is for person=: without it every row counts once anyway")


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """The parameters that all functions share, checked before any data are read.

    Parameters
    ----------
    by, person : column name, array or None
    groups : sequence of names, or None to find them
    weight, missing, relation : str
    epsilon, delta, confidence, random_state, ledger
        As for every estimator.
    """

    by: Any = None
    groups: Sequence[Any] | None = None
    person: Any = None
    weight: str = "persons"
    missing: str = "error"
    relation: str = "replace-one"
    epsilon: float = 1.0
    delta: float = 1e-6
    confidence: float = 0.95
    random_state: int | None = None
    ledger: Any = None
    source: Any = None
    """How a text file is read: delimiter and quoted newlines."""

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        noise_source(self.random_state)
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must lie in (0, 1), got {self.confidence!r}")
        if self.missing not in MISSING:
            raise ValueError(f"missing must be one of {', '.join(MISSING)}; got {self.missing!r}")
        check_weight(self.weight, self.person)
        if self.relation not in RELATIONS:
            raise ValueError(f"relation must be one of {', '.join(RELATIONS)}; got {self.relation!r}")
        unknown = sorted(set(self.source or ()) - set(SOURCE_OPTIONS))
        if unknown:
            raise TypeError(f"there is no option {', '.join(map(repr, unknown))}")
        if self.groups is not None:
            if self.by is None:
                raise ValueError(NEEDS_BY)
            object.__setattr__(self, "groups", check_groups(self.groups))
        elif self.by is not None and not self.delta > 0:
            raise ValueError("finding groups privately needs delta > 0; give their names with groups=[...] instead")

    @property
    def person_column(self) -> str | None:
        """The column that identifies persons; empty for an array of ids, None if rows are protected."""
        return None if self.person is None else column_of(self.person)

    @property
    def is_public(self) -> bool:
        """Whether the number of units is public."""
        return self.relation == "replace-one"

    @property
    def is_capped(self) -> bool:
        """Whether every row of a person counts, so that a cap is needed."""
        return self.person is not None and self.weight == "rows"

    @property
    def size_is_public(self) -> bool:
        """Whether the number of units is public."""
        return self.is_public and self.by is None and self.missing != "drop" and not self.is_capped

    def read(self, data: Any, column: Any = None, *, sums: bool = False) -> Contributions:
        """Read the columns in canonical form and combine rows to units; ``sums`` as in `units_of_persons`."""
        names = NamedColumns(
            data,
            [] if column is None else [column],
            [name for name in (self.by, self.person) if name is not None],
            missing=self.missing,
            **(self.source or {}),
        )
        n = names.n
        if not n and self.is_public:
            raise Refusal("the table has no rows")
        values, counts = np.zeros(n), np.ones(n, dtype=bool)
        if column is not None:
            values = names.numbers(column)
            finite = np.isfinite(values)
            if self.missing == "error" and not finite.all():
                raise Refusal(
                    f"{f'column {column!r}' if isinstance(column, str) else 'the column'} holds NaN, infinity or cells that are "
                    "no numbers; choose missing='drop' to leave such rows out, or missing='zero' to count them as 0"
                )
            values = np.where(finite, values, 0.0)
            counts = finite if self.missing == "drop" else counts
        codes, found = np.zeros(n, dtype=np.int64), None
        if self.by is not None:
            labels = names.labels(self.by)
            if self.missing == "error":
                refuse_missing(labels)
            if self.groups is None:
                codes, found = occurring_codes(labels)
            else:
                codes = declared_codes(labels, self.groups)
        codes = codes if counts.all() else np.where(counts, codes, -1)
        persons = None if self.person is None else person_codes(names.ids(self.person))
        if self.is_public and self.delta * (n if persons is None else persons[1]) > 1:
            warn_leak(
                f"delta={self.delta:g} is more than one over the number of units: to publish a unit at random would meet such a "
                "claim; choose it far below"
            )
        if persons is None:
            return units_of_rows(codes, values, public=self.is_public, names=found)
        return units_of_persons(codes, values, persons, public=self.is_public, names=found, sums=sums, seed=self.random_state)

    def curator(self, label: str, column: Any = None) -> Curator:
        """A curator for this budget, ledger and unit."""
        names = [str(name) if isinstance(name, str) else "array" for name in (column, self.by) if name is not None]
        return Curator(
            self.epsilon,
            self.delta,
            random_state=self.random_state,
            ledger=self.ledger,
            label=label if self.by is None else f"{label} by groups",
            subject=Subject.of(names, relation=self.relation, person=self.person_column),
        )

    def name_groups(
        self, curator: Curator, release: NamesAboveThreshold | None, units: Contributions
    ) -> tuple[tuple[Name, ...], Floats, Contributions]:
        """Names of the groups, their noisy counts if they had to be found, and the units in them.

        *Privacy.* Each unit votes for one of its groups. Proof: ``partition.proof.md``.
        """
        if release is None:
            return (("all",) if self.groups is None else tuple(self.groups)), np.zeros(0), units
        released = curator.release(release, units.votes())
        names = tuple(released[:, 0].tolist())
        return names, released[:, 1].astype(np.float64), units.within(names)
