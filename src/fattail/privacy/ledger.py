"""Budgets that outlive a process: accounts in one file.

The file holds limits and charges as entries of a chain (`chain`), and no balance: what an account has spent is computed from
them each time (`accounts`). A charge is on disk before noise is drawn. It stays charged if its release never happens.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fattail.privacy.accountant import satisfies
from fattail.privacy.accounts import Balance, Claim, account_name, check_kind, spelling
from fattail.privacy.calibration import check_budget
from fattail.privacy.chain import Body, Chain, Pages, date_of, signature
from fattail.privacy.charges import Charge, Subject, Verification
from fattail.privacy.events import Event, total_cost
from fattail.privacy.migrate import migrate


class BudgetExceededError(RuntimeError):
    """The charge would exceed the budget. Nothing was charged and nothing released."""


@dataclass
class _Account:
    """An account, computed from its entries."""

    opened: Balance
    charges: list[tuple[Charge, Balance]] = field(default_factory=list)

    @property
    def balance(self) -> Balance:
        return self.charges[-1][1] if self.charges else self.opened

    @property
    def subject(self) -> Subject | None:
        """What the account protects, as its first charge says, and the first one that names the column of persons."""
        if not self.charges:
            return None
        names = (charge.subject.person for charge, _ in self.charges if charge.subject.person is not None)
        return dataclasses.replace(self.charges[0][0].subject, person=next(names, None))


class Ledger:
    """Accounts in one file, shared by processes and safe against crashes.

    Parameters
    ----------
    path : path-like
        Created on the first ``open`` if it does not exist. It must be on a local disk: network file systems are refused, and so
        are files with a second name (hard link) and copies that were not adopted.

    Notes
    -----
    *Privacy.* All charges of an account together are (epsilon, delta)-DP for its limits, also if each fit is chosen after seeing
    earlier answers. The unit and the relation are those of the fits, which must agree. Proof: ``accounts.proof.md``.

    Examples
    --------
    >>> import tempfile, os
    >>> from fattail import Ledger
    >>> ledger = Ledger(os.path.join(tempfile.mkdtemp(), "budget.db"))
    >>> account = ledger.open("claims-2026", epsilon=3, delta=1e-5)
    >>> account.remaining
    3.0
    >>> bool(ledger.verify())
    True
    """

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise ValueError(f"ledger path is a directory: {self.path}")
        if not self.path.parent.is_dir():
            raise ValueError(f"no such folder for a ledger: {self.path.parent}")
        if self.path.exists():
            migrate(self.path)
            self._chain.check_format()

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    @property
    def _chain(self) -> Chain:
        return Chain(self.path)

    def open(self, name: str, *, epsilon: float, delta: float = 0.0, kind: str | None = None) -> LedgerAccount:
        """Open an account, or reopen it with the limits it already has.

        Parameters
        ----------
        name : str
            Spellings that look the same are the same.
        epsilon, delta : float
            Limits, which cannot be changed later.
        kind : {"mixed", "gaussian", "concentrated", "sum"}, optional
            How charges are counted, which cannot be changed later. The default is for any mixture. Gaussian releases alone go 3
            % further with "gaussian", selections with "concentrated"; "sum" adds
            up epsilons and deltas. With ``delta=0`` only "sum" exists and only pure charges fit.
        """
        epsilon, delta = check_budget(epsilon, delta)
        name, asked = account_name(name), check_kind(kind, delta)
        with self._chain.writing(create=True) as pages:
            account = accounts_of(pages, self.path).get(name)
            if account is None:
                limits = {"epsilon": epsilon, "delta": delta, "kind": asked}
                pages.append({"type": "opened", "account": name, **limits, **signature()})
            else:
                old = account.opened
                if (old.epsilon, old.delta) != (epsilon, delta) or kind not in (None, old.kind):
                    raise ValueError(
                        f"account {name!r} is already open with epsilon={old.epsilon:g}, delta={old.delta:g}, kind {old.kind!r}; "
                        f"limits cannot change to epsilon={epsilon:g}, delta={delta:g}, kind {asked!r}"
                    )
        return LedgerAccount(self, name)

    def accounts(self) -> tuple[LedgerAccount, ...]:
        """All accounts, by name."""
        if not self.path.exists():
            return ()
        with self._accounts() as accounts:
            return tuple(LedgerAccount(self, name) for name in sorted(accounts))

    def verify(self) -> Verification:
        """Check every seal, every limit and the place of the file.

        The file alone cannot show that somebody computed the whole chain again: compare `entries` and `spent` with your own
        records.
        """
        if not self.path.exists():
            return Verification(self.path, 0, (), (f"there is no ledger at {self.path}",))
        problems = self._chain.problems()
        entries, states, notes = 0, [], list[str]()
        try:
            with self._chain.reading() as pages:
                entries = len(pages.heads)
                for name, account in accounts_of(pages, self.path).items():
                    balance = account.balance
                    states.append((name, balance.epsilon, balance.spent, balance.charges))
                    if balance.charges and not balance.admitted:
                        problems.append(f"account {name!r} holds charges beyond its limit")
                    if not all(account.subject.agrees(charge.subject) for charge, _ in account.charges if account.subject):
                        problems.append(f"account {name!r} holds charges for different units, which do not add up")
                notes += pages.notes()
        except ValueError as error:
            problems += [] if str(error) in problems else [str(error)]
        return Verification(self.path, entries, tuple(states), tuple(problems), tuple(notes))

    def adopt(self) -> None:
        """Allow charges to a file that was copied or restored; a permanent entry records it."""
        with self._chain.writing(adopt=True) as pages:
            pages.append({"type": "adopted", "inode": self._chain.inode, **signature()})

    @contextmanager
    def _accounts(self) -> Iterator[dict[str, _Account]]:
        with self._chain.reading() as pages:
            yield accounts_of(pages, self.path)


@dataclass(frozen=True)
class LedgerAccount:
    """One account of a ledger; pass it to an estimator as ``ledger=``.

    It holds a name and no limits: those are in the file.
    """

    ledger: Ledger
    name: str

    def charge(
        self, events: Iterable[Event], label: str = "", *, claim: Claim | None = None, subject: Subject | None = None
    ) -> None:
        """Add events durably, or raise ``BudgetExceededError`` and add nothing."""
        charge_all([self], events, label, claim=claim, subject=subject)

    @property
    def epsilon(self) -> float:
        """Most epsilon that may be spent."""
        return self._account.balance.epsilon

    @property
    def delta(self) -> float:
        """Most delta of all charges together."""
        return self._account.balance.delta

    @property
    def kind(self) -> str:
        """How charges are counted; an account that its first charge used up counts by "sum"."""
        return self._account.balance.kind

    @property
    def spent(self) -> float:
        """Epsilon of the smallest account that would have admitted the same charges."""
        return self._account.balance.spent

    @property
    def remaining(self) -> float:
        """Epsilon left by plain subtraction; composition usually allows a little more."""
        balance = self._account.balance
        return max(balance.epsilon - balance.spent, 0.0)

    @property
    def history(self) -> tuple[Charge, ...]:
        """All charges, in order."""
        return tuple(dataclasses.replace(charge, epsilon_after=balance.spent) for charge, balance in self._account.charges)

    @property
    def _account(self) -> _Account:
        with self.ledger._accounts() as accounts:
            return _known(accounts, self)

    @contextmanager
    def _charging(self, events: tuple[Event, ...], body: Body, subject: Subject, claim: Claim | None) -> Iterator[None]:
        """A charge that is written when the block ends, unless it raises."""
        with self.ledger._chain.writing() as pages:
            account = _known(accounts_of(pages, self.ledger.path), self)
            kept = account.subject or subject
            if not kept.agrees(subject):
                hint = "" if subject.person != "" or not kept.person else f" (or name the ids: person={kept.person!r})"
                raise ValueError(
                    f"account {self.name!r} protects {kept.protects}; a charge for {subject.protects} needs an account of its "
                    f"own{hint}"
                )
            before, after = account.balance, account.balance.plus(total_cost(events), claim)
            if not after.admitted:
                raise BudgetExceededError(f"{title(self)}: {_too_much(before, after)}; nothing was released")
            pages.append({"type": "charged", "account": self.name, **body})
            yield


def charge_all(
    accounts: Iterable[Any],
    events: Iterable[Event],
    label: str = "",
    *,
    claim: Claim | None = None,
    subject: Subject | None = None,
) -> None:
    """Charge every account, or none.

    Each is a ledger account, a ``Budget``, or anything else with such a method ``charge``.
    The same account under several names is charged once.
    """
    events, subject = tuple(events), subject or Subject()
    if not events or not all(isinstance(e, Event) for e in events):
        raise ValueError("a charge is a sequence of at least one event")
    events = tuple(Event.from_dict(e.to_dict()) for e in events)  # in the form of the file, and checked
    if claim is not None:
        claim = check_budget(*claim)
        if not satisfies(events, *claim):
            raise ValueError(f"the charge is not (epsilon={claim[0]:g}, delta={claim[1]:g})-private as it claims")
    body: Body = {"label": str(label), "events": [e.to_dict() for e in events], "claim": claim, **asdict(subject), **signature()}
    files: dict[tuple[str, str], LedgerAccount] = {}
    others = []
    for account in accounts:
        account = getattr(account, "_account_in_file", account)
        if isinstance(account, LedgerAccount):
            files[str(account.ledger.path.resolve()), account.name] = account
        else:
            others.append(account)
    with ExitStack() as stack:
        for key in sorted(files):  # one order for all processes, so that there is no deadlock
            stack.enter_context(files[key]._charging(events, body, subject, claim))
        for account in others:
            account.charge(events, label, claim=claim, subject=subject)


def accounts_of(pages: Pages, path: Path) -> dict[str, _Account]:
    """Every account, from the entries alone."""
    accounts: dict[str, _Account] = {}
    for number, body in enumerate(pages.bodies):
        # A fault of any kind in the file is an error, and never a smaller amount spent.
        try:
            if body["type"] == "opened":
                limits = check_budget(body["epsilon"], body["delta"])
                name = spelling(body["account"])
                if name in accounts:
                    raise ValueError("opened twice")
                accounts[name] = _Account(Balance(*limits, check_kind(body["kind"], limits[1])))
            elif body["type"] == "charged":
                account, charge = accounts[spelling(body["account"])], _charge(body)
                account.charges.append((charge, account.balance.plus(total_cost(charge.events), charge.claim)))
            elif body["type"] not in ("ledger", "adopted", "migrated"):
                raise ValueError("unknown entry")
            date_of(body)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise ValueError(f"ledger {path} is damaged: entry {number} is invalid") from None
    return accounts


def _known(accounts: dict[str, _Account], account: LedgerAccount) -> _Account:
    name = spelling(account.name)
    if name not in accounts:
        raise ValueError(f"account {account.name!r} does not exist in {account.ledger.path}")
    return accounts[name]


def _too_much(before: Balance, after: Balance) -> str:
    """Why a charge is refused: its epsilon, or its delta, whatever its epsilon is."""
    left = f"epsilon {before.spent:.4g} of {before.epsilon:g} is spent, {max(before.epsilon - before.spent, 0):.4g} is left"
    if math.isinf(after.spent):
        return (
            f"{left}, but the account's delta of {before.delta:g} does not suffice for this answer after the earlier ones; ask "
            "with a smaller delta, or open accounts with a larger one"
        )
    return f"{left}, and this would bring it to {after.spent:.4g} (delta={before.delta:g})"


def title(account: LedgerAccount) -> str:
    return f"account {account.name!r}" if account.ledger._chain.lasting else "budget"


def _charge(body: Body) -> Charge:
    person = body.get("person")  # versions before names were kept have none
    subject = Subject(
        str(body["data"]),
        tuple(map(str, body["columns"])),
        str(body["unit"]),
        str(body["relation"]),
        None if person is None else str(person),
    )
    events = tuple(map(Event.from_dict, body["events"]))
    if not events:
        raise ValueError("a charge without events")
    claim = None if body["claim"] is None else check_budget(*body["claim"])
    # What was spent after each charge is computed when it is asked for.
    return Charge(str(body["label"]), math.nan, float(body["at"]), events, claim, subject, str(body["user"]))
