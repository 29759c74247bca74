"""Private numbers of rows or persons, in all or in each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fattail.estimators.documentation import documented
from fattail.privacy import Laplace, PrivacyReport
from fattail.results.release import Release
from fattail.statistics.cap import NO_CAP, release_cap
from fattail.statistics.documentation import QUESTION
from fattail.statistics.intervals import discrete_laplace_reach, named_count_interval
from fattail.statistics.partition import NamesAboveThreshold
from fattail.statistics.plan import RULES
from fattail.statistics.question import Question

CAP_SHARE = 0.04
"""Budget of the numbers of persons by octave of their rows, beside one of 1 for the counts: a sixth of epsilon."""


@documented(**QUESTION)
def count(
    data: Any,
    *,
    by: Any = None,
    groups: Sequence[Any] | None = None,
    person: Any = None,
    weight: str = "persons",
    missing: str = "error",
    relation: str = "replace-one",
    epsilon: float = 1.0,
    delta: float = 1e-6,
    confidence: float = 0.95,
    random_state: int | None = None,
    ledger: Any = None,
    **source: Any,
) -> Release:
    """Private number of rows, or of persons, in all or in each group.

    Parameters
    ----------
    {data}
    {by}
    {groups}
    person : column name or array, optional
        The unit of privacy is a person with any number of rows, not a row. A person counts once: each group gets the share of
        the person's rows that are in it.
    weight : {"persons", "rows"}
        With "rows", rows are counted, up to a cap of rows per person that is found privately. The estimated number of rows beyond
        the cap is added, in proportion.
    missing : {"error", "zero", "drop"}
        A row without a group raises, or is in no group ("zero" and "drop").
    relation : {"replace-one", "add-remove"}
        With "replace-one" the number of units (rows, or persons) is public: ``count(data)`` is exact and costs nothing.
    {budget}
    {source}

    Returns
    -------
    Release

    Notes
    -----
    *Privacy.* (epsilon, delta)-DP for one replaced (added or removed) row or person. A unit's masses add up to one, so all
    counts together move by at most 2 (1) in l1: one release pays for all groups. Proof: ``count.proof.md``. Test:
    ``tests/contracts/test_groups.py``.

    Examples
    --------
    >>> import fattail
    >>> visits = {"ward": ["a"] * 800 + ["b"] * 300 + ["c"] * 3}
    >>> answer = fattail.count(visits, by="ward", epsilon=1.0, random_state=0)
    >>> answer.groups  # three rows are too few to be named
    ('a', 'b')
    """
    asked = Question(
        by=by,
        groups=groups,
        person=person,
        weight=weight,
        missing=missing,
        relation=relation,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        random_state=random_state,
        ledger=ledger,
        source=source,
    )
    units = asked.read(data)
    curator = asked.curator("count")  # also refuses what is no account, where nothing is charged
    if asked.is_public and by is None and not asked.is_capped:  # no cell is read, so none can be missing
        assert units.n is not None
        unit = "row" if person is None else "person"
        label = "count: public under replace-one"
        free = PrivacyReport(0.0, 0.0, 0.0, unit=unit, relation=relation, label=label, person=asked.person_column)
        return Release(units.n, (units.n, units.n), free, confidence=confidence, quantity="count")
    finding = by is not None and groups is None
    names_release = NamesAboveThreshold("groups", failure=delta) if finding else None
    # The counts that name groups are counts of rows. A person in several groups votes for one of them, so persons are counted
    # again.
    counts = Laplace("counts") if not finding or person is not None else None
    cap_release = Laplace("rows per person", CAP_SHARE) if asked.is_capped else None
    curator.plan(*(release for release in (cap_release, names_release, counts) if release is not None))
    cap = NO_CAP
    if cap_release is not None and counts is not None:
        cap = release_cap(curator, cap_release, counts, units, 1 if by is None else len(groups or ()) or RULES.nominal_groups)
        units = units.capped(cap.most)
    names, value, units = asked.name_groups(curator, names_release, units)
    if counts is None:
        assert names_release is not None
        noise = curator.noise(names_release, units.moves)
        threshold = names_release.threshold(curator.rho(names_release), units.moves)
        ends = named_count_interval(value, threshold, noise, confidence)
        value, ends = np.rint(value), np.stack((np.floor(ends[:, 0]), np.ceil(ends[:, 1])), axis=1)
    elif not names:
        curator.waive(counts)
        ends = np.zeros((0, 2))
    else:
        value = curator.release(counts, units.counts(len(names), whole=person is None))
        reach = discrete_laplace_reach(curator.noise(counts, units.moves), confidence) + (person is not None)
        # Rows beyond the cap may all be in this group, or none of them.
        ends = cap.most * np.stack((value - reach, (value + reach) * (1 + cap.lost) / (1 - cap.lost)), axis=1)
        value, ends = np.maximum(cap.most * value / (1 - cap.lost), 0.0), np.maximum(ends, 0.0)
    if by is None:
        return Release(float(value[0]), tuple(ends[0].tolist()), curator.report(), confidence=confidence, quantity="count")
    return Release(value, ends, curator.report(), names, confidence, quantity="count")
