"""The number of rows (of persons) as the first release, where it is private."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fattail.privacy.accounts import Claim
from fattail.privacy.advance import Advance
from fattail.privacy.bounded import Bounded
from fattail.privacy.charges import Subject
from fattail.privacy.curator import Curator
from fattail.privacy.mechanisms import Laplace
from fattail.rows.data import PrivateData


@dataclass(frozen=True)
class CountShares:
    """How a fit whose number of rows is private divides its budget."""

    count: float = 0.06
    """Share of epsilon that the number of rows gets (``benchmarks/tuning/counts.py``: 1.2 times the error at n epsilon of 1,000
    with a third of it, no less with half as much again). The error of a mean from this release is its relative error times the
    distance of the mean from its center."""


SHARES = CountShares()
# What is left of epsilon after the count, so that the sum of both is not above it, whatever rounds.
_ROUNDED_DOWN = 1 - 2.0**-40
# The count has a seed of its own, so that its noise differs from that of later releases.
_OTHER_SEED = 1 << 40


def count_claims(epsilon: float, delta: float, *, pure: bool) -> tuple[tuple[Claim, bool], tuple[Claim, bool]]:
    """Claims for `pay`: of the number of rows, and of the plan after it."""
    count = SHARES.count * epsilon
    return ((count, 0.0), True), (((epsilon - count) * _ROUNDED_DOWN, 0.0 if pure else delta), pure)


def counted(
    data: PrivateData,
    advances: tuple[Advance, Advance],
    *,
    claim: Claim,
    swing: float,
    random_state: int | None,
    label: str,
    subject: Subject,
) -> tuple[PrivateData, Curator]:
    """The data with a released number of rows, and the curator of everything after.

    Parameters
    ----------
    data : PrivateData
    advances : pair of Advance
        Paid for the claims of `count_claims`.
    claim : (epsilon, delta)
        Of both together.
    swing : float
        Sensitivity of a bounded sum over that under replacement.
    random_state, label, subject
        As for a curator.

    Notes
    -----
    *Privacy.* Adding, removing or replacing one row (person) changes the number by at most one: Laplace noise
    for ``SHARES.count`` of epsilon. The plan after it satisfies the rest of epsilon and all of delta, whatever number was
    released. By basic composition both together satisfy the claim. Proof: ``counting.proof.md``.
    """
    before, left = advances
    first = Curator(
        *before.claim,
        random_state=None if random_state is None else int(random_state) + _OTHER_SEED,
        label=f"{label}: number of {subject.unit}s",
        subject=subject,
        advance=before,
    )
    release = Laplace(f"number of {subject.unit}s")
    first.plan(release)
    told = first.release(release, Bounded(np.array([data._number()]), 1.0, "l1"))
    n, noise = max(round(float(told[0])), 1), np.sqrt(2.0) * first.noise(release)
    after = Curator(*left.claim, random_state=random_state, label=label, subject=subject, prior=first, claim=claim, advance=left)
    return data.counted(n, float(noise), swing=swing), after
