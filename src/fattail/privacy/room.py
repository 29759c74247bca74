"""A check, before the first charge, that the accounts have room for all charges of a fit that is charged in steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fattail.privacy.accounts import Balance, Claim
from fattail.privacy.budget import open_budgets
from fattail.privacy.calibration import gaussian_multiplier
from fattail.privacy.events import Event, Gaussian, Pure, total_cost
from fattail.privacy.ledger import BudgetExceededError, LedgerAccount, title

_PURE_RELEASES = 3
"""Number of releases that share the epsilon of a pure plan: the default mean has two large ones, and more releases compose at a
lower cost."""


def check_room(ledger: Any, claims: Sequence[Claim], *, gaussian: bool = True) -> None:
    """Refuse a fit whose later charges would be refused, before anything is charged.

    A fit whose number of rows is private learns its plan from a first release, so its charges are known by their claims only.
    It is refused if even cheap plans of these claims, all Gaussian or all pure, have no room. This spends and releases nothing.
    It is not a guarantee: each charge is checked again when it is made.

    Parameters
    ----------
    ledger : account or None
        The fit's own account; open budgets are checked as well.
    claims : sequence of (epsilon, delta)
        Of the charges to come.
    gaussian : bool
        Whether the plans may be Gaussian.

    Examples
    --------
    >>> from fattail import Budget
    >>> with Budget(epsilon=1, delta=1e-6):
    ...     check_room(None, [(0.5, 1e-7), (0.5, 1e-7)])
    >>> with Budget(epsilon=1, delta=1e-6):
    ...     check_room(None, [(0.9, 1e-7), (0.9, 1e-7)])
    Traceback (most recent call last):
        ...
    fattail.privacy.ledger.BudgetExceededError: budget: epsilon 0 of 1 is spent, 1 is left, and this fit needs about 1.8; ...
    """
    for account in (*open_budgets(), *([] if ledger is None else [ledger])):
        account = getattr(account, "_account_in_file", account)
        if not isinstance(account, LedgerAccount):
            continue
        balance = account._account.balance
        if not any(_after(balance, claims, pure).admitted for pure in ((False, True) if gaussian else (True,))):
            raise BudgetExceededError(
                f"{title(account)}: epsilon {balance.spent:.4g} of {balance.epsilon:g} is spent, "
                f"{max(balance.epsilon - balance.spent, 0):.4g} is left, and this fit needs about "
                f"{sum(epsilon for epsilon, _ in claims):.4g}; nothing was released"
            )


def _after(balance: Balance, claims: Sequence[Claim], pure: bool) -> Balance:
    for epsilon, delta in claims:
        event: Event = Gaussian(gaussian_multiplier(epsilon, delta)) if delta and not pure else _pure(epsilon)
        balance = balance.plus(total_cost([event]), (epsilon, delta))
    return balance


def _pure(epsilon: float) -> Event:
    return Pure(epsilon / _PURE_RELEASES, _PURE_RELEASES)
