"""Record and replay the statistics (count, mean, total, difference) on neighbors made to break them.

    python benchmarks/audit_statistics.py

Each line of ``results/audit_statistics.csv`` is one pair of neighbors, as in ``audit_recorder.py``.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import fattail
from fattail import audit
from fattail.privacy import Budget

RESULTS = Path(__file__).parent / "results" / "audit_statistics.csv"
EPSILON, DELTA = 1.0, 1e-5
GROUPS = ("a", "b")
ROW = 5  # the one that is replaced

Table = dict[str, list[Any]]


@dataclass(frozen=True)
class Question:
    """A statistic with public parameters."""

    statistic: str
    options: dict[str, Any] = field(default_factory=dict)
    heavy: bool = False
    """Whether tails are so heavy that octaves are looked at again."""

    @property
    def name(self) -> str:
        return "-".join([self.statistic, *(f"{k}={v}" for k, v in self.options.items()), *["heavy"] * self.heavy])

    def ask(self, table: Table) -> Any:
        """Ask with secure noise and an account of its own."""
        column = [] if self.statistic == "count" else ["x"]
        account = Budget(self.options.get("epsilon", EPSILON), DELTA)
        options = {"epsilon": EPSILON, "delta": DELTA, **self.options}
        return getattr(fattail, self.statistic)(table, *column, ledger=account, **options)


def questions() -> Iterator[Question]:
    """Every statistic with groups, persons, missing cells and either relation; a free count is no release."""
    groups: tuple[dict[str, Any], ...] = ({}, {"by": "g"}, {"by": "g", "groups": GROUPS})
    persons: tuple[dict[str, Any], ...] = ({}, {"person": "id"}, {"person": "id", "weight": "rows"})
    for statistic, by, person, missing, relation in product(
        ("count", "mean", "total", "difference"), groups, persons, ("zero", "drop"), ("replace-one", "add-remove")
    ):
        if (statistic == "difference" and "groups" not in by) or (statistic == "total" and "weight" in person):
            continue
        if statistic == "count" and not by and relation == "replace-one" and "weight" not in person:
            continue
        yield Question(statistic, {**by, **person, "missing": missing, "relation": relation})
    # Few rows reach every release: with a budget of one no group is named.
    for statistic, person, relation in product(("mean", "total"), persons, ("replace-one", "add-remove")):
        if statistic == "mean" or "weight" not in person:
            yield Question(statistic, {"by": "g", "epsilon": 200.0, **person, "missing": "drop", "relation": relation})
    for person, relation in product(persons, ("replace-one", "add-remove")):
        options = {"by": "g", "groups": GROUPS, "epsilon": 20.0, **person, "missing": "drop", "relation": relation}
        yield Question("mean", options, heavy=True)


def table(n: int = 240, heavy: bool = False) -> Table:
    rng = np.random.default_rng(3)
    ids = np.where(np.arange(n) < 180, np.arange(n) // 3, 1000 + np.arange(n))  # three rows each, or one
    x = rng.standard_t(3, n) ** (9 if heavy else 1)
    return {"x": x.tolist(), "g": rng.choice(["a", "b", "c"], n).tolist(), "id": ids.tolist()}


# One row, or every row of one person, and how many a person has.
CHANGES = {
    "huge": (1e308, "a", 1),
    "opposite of huge": (-1e308, "b", 400),
    "tiny": (5e-324, "a", 2),
    "moderate": (4.0, "c", 30),
    "missing": (math.nan, "a", 3),
    "infinite": (-math.inf, "b", 1),
    "new group": (1.0, "elsewhere", 1),
    "no group": (2.0, None, 2),
    "nothing": (math.nan, None, 2),
}


def pairs(question: Question) -> Iterator[tuple[str, Table, Table]]:
    """Neighbors: a replaced row (all rows of a person), or one row (one person) more."""
    has_persons, adds = "person" in question.options, question.options["relation"] == "add-remove"
    ours = table(heavy=question.heavy)
    for name, (x, g, many) in CHANGES.items():
        count = many if has_persons else 1
        who = 10**6 if adds else ours["id"][ROW]
        rows = list(zip(*ours.values(), strict=True))
        new = [(x if k % 3 == 0 else -x, g if k % 2 == 0 else "a", who) for k in range(count)]
        if adds:
            rows += new
        elif has_persons:  # the person's first row stays where it is
            first = ours["id"].index(who)
            rows = [row if k != first else new[0] for k, row in enumerate(rows) if row[2] != who or k == first] + new[1:]
        else:
            rows[ROW] = new[0]
        yield name, ours, dict(zip(ours, map(list, zip(*rows, strict=True)), strict=True))
    if has_persons:
        spread = [(float(k), f"group {k}", ours["id"][ROW]) for k in range(1, 50)]
        rows = [*zip(*ours.values(), strict=True), *spread]
        if not adds:
            yield "one person in many groups", ours, dict(zip(ours, map(list, zip(*rows, strict=True)), strict=True))


def audited(question: Question, ours: Table, theirs: Table) -> audit.Finding:
    return audit.record_and_replay(question.ask, (ours,), (theirs,))


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    lines, bad = [], 0
    for question in questions():
        attacked = False
        for name, ours, theirs in pairs(question):
            finding = audited(question, ours, theirs)
            outcome = "refused" if finding.claim is None and not finding.violations else "; ".join(finding.violations)
            attacked |= outcome != "refused"
            bad += bool(finding.violations)
            lines.append(
                [question.name, name, len(finding.releases) - 1, f"{finding.ratio:.6f}", f"{finding.epsilon:.4f}", outcome]
            )
            if finding.violations:
                print(question.name, "|", name, "|", outcome[:400], flush=True)
        if not attacked:
            bad += 1
            print(question.name, "| every pair was refused, so nothing was attacked", flush=True)
    print(f"{len(lines)} pairs, {bad} with violations")
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "neighbors", "releases", "ratio", "epsilon", "violations"])
        writer.writerows(lines)
    raise SystemExit(int(bad > 0))


if __name__ == "__main__":
    main()
