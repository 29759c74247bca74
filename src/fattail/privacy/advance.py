"""One charge for a fit whose plan depends on an earlier answer.

Where the number of rows (of persons) is private, it is released first, and the plan of all later releases depends on it. The
whole fit is charged before that, by a cost that does not depend on the plan. The plan is then calibrated to stay within this
cost. So a fit is refused before anything is charged, or not at all. Proof: ``advance.proof.md``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fattail.privacy.accounts import Claim
from fattail.privacy.bounded import PrivacyError
from fattail.privacy.budget import open_budgets
from fattail.privacy.calibration import gaussian_multiplier
from fattail.privacy.charges import Subject
from fattail.privacy.events import Event, GaussianEvent, Pure
from fattail.privacy.ledger import charge_all

_RELEASES = 1000
"""Number of releases that a Gaussian plan may have: each has its own slack for discrete noise, 1e-9 of epsilon."""


@dataclass(frozen=True, eq=False)
class Advance:
    """A part of the budget that was charged before its plan is known. It serves one curator, in the process that paid.

    Attributes
    ----------
    claim : tuple of float
        The (epsilon, delta) that the plan has to satisfy.
    event : Event
        The charge, which the plan has to stay within.
    """

    claim: Claim
    event: Event
    _used: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False)

    def use(self) -> Event:
        """The charge, once."""
        # The lock is never released: of several threads one gets it.
        if self._process != os.getpid() or not self._used.acquire(blocking=False):
            raise PrivacyError("an advance serves one plan, in the process that paid for it")
        return self.event

    def __reduce__(self) -> Any:
        raise PrivacyError("an advance cannot be copied or pickled: a copy would pay again with what was charged once")


def pay(
    ledger: Any, claims: Sequence[tuple[Claim, bool]], label: str, *, claim: Claim, subject: Subject | None = None
) -> tuple[Advance, ...]:
    """Charge the account and all open budgets for some plans to come, or raise and charge nothing.

    Parameters
    ----------
    ledger : account or None
    claims : sequence of ((epsilon, delta), pure)
        What each plan will satisfy, and whether all of its releases will be pure. A plan that is not pure consists of Gaussian,
        pure and bounded-range releases.
    label : str
    claim : (epsilon, delta)
        What all plans together satisfy.
    subject : Subject, optional

    Examples
    --------
    >>> from fattail import Budget
    >>> from fattail.privacy import Curator, Laplace
    >>> with Budget(epsilon=1) as budget:
    ...     (paid,) = pay(None, [((0.75, 0.0), True)], "example", claim=(0.75, 0.0))
    ...     curator, total = Curator(0.75, 0.0, advance=paid), Laplace("total")
    ...     curator.plan(total)
    >>> budget.spent
    0.75
    """
    advances = tuple(
        Advance(each, Pure(each[0]) if pure else GaussianEvent(gaussian_multiplier(*each, _RELEASES), _RELEASES))
        for each, pure in claims
    )
    accounts = (*open_budgets(), *([] if ledger is None else [ledger]))
    if accounts:
        charge_all(accounts, [advance.event for advance in advances], label, claim=claim, subject=subject)
    return advances
