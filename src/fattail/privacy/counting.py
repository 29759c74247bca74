"""The number of rows (of persons) as the first release, where it is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fattail.privacy.bounded import Bounded
from fattail.privacy.curator import Account, Curator
from fattail.privacy.ledger import Subject
from fattail.privacy.mechanisms import Laplace
from fattail.privacy.room import check_room
from fattail.rows.data import PrivateData


@dataclass(frozen=True)
class CountShares:
    """How a fit whose number of rows is private divides its budget."""

    count: float = 0.06
    """Share of epsilon that the number of rows gets (``benchmarks/tuning/counts.py``: 1.2 times the error at n epsilon of 1,000
    with a third of it, no less with half as much again). The error of a mean from this release is its relative error times the
    distance of the mean from its center."""
    delta: float = 0.45
    """Share of delta that the plan after it gets. An account of the fit's own limits divides its delta among routes
    (`fattail.privacy.accounts.KINDS`), of which 0.48 are for Gaussian releases: so the charge after the count fits into it."""


SHARES = CountShares()
# The count has a seed of its own, so that its noise differs from that of later releases.
_OTHER_SEED = 1 << 40


def count_claims(epsilon: float, delta: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """The part of the budget that the number of rows gets, and the part of everything after."""
    return (SHARES.count * epsilon, 0.0), (epsilon - SHARES.count * epsilon, SHARES.delta * delta)


def counted(
    data: PrivateData,
    epsilon: float,
    delta: float,
    *,
    swing: float,
    random_state: int | None,
    ledger: Account | None,
    label: str,
    subject: Subject,
) -> tuple[PrivateData, Curator]:
    """The data with a released number of rows, and the curator of everything after.

    Notes
    -----
    *Privacy.* Adding, removing or replacing one row (person) changes the number by at most one: Laplace noise
    for ``SHARES.count`` of epsilon. The plan after it satisfies the rest of epsilon and a part of delta, whatever number was
    released. By basic composition both together satisfy the claim. Proof: ``counting.proof.md``.
    """
    before, left = count_claims(epsilon, delta)
    options: dict[str, Any] = {"ledger": ledger, "subject": subject}
    first = Curator(
        *before,
        random_state=None if random_state is None else int(random_state) + _OTHER_SEED,
        label=f"{label}: number of {subject.unit}s",
        **options,
    )
    release = Laplace(f"number of {subject.unit}s")
    check_room(ledger, (before, left))
    first.plan(release)
    told = first.release(release, Bounded(np.array([data._number()]), 1.0, "l1"))
    n, noise = max(round(float(told[0])), 1), np.sqrt(2.0) * first.noise(release)
    after = Curator(*left, random_state=random_state, label=label, prior=first, claim=(epsilon, delta), **options)
    return data.counted(n, float(noise), swing=swing), after
