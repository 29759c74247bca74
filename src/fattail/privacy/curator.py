"""The curator: the only way in which a value is released."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fattail.privacy.accountant import epsilon_of
from fattail.privacy.accounts import covers
from fattail.privacy.advance import Advance
from fattail.privacy.bounded import Bounded, PrivacyError
from fattail.privacy.budget import open_budgets
from fattail.privacy.calibration import check_budget, largest_rho
from fattail.privacy.charges import Subject
from fattail.privacy.events import Event, total_cost
from fattail.privacy.ledger import charge_all
from fattail.privacy.listeners import announce
from fattail.privacy.mechanisms import Mechanism, SmoothNoise, SubsampledGaussian
from fattail.privacy.noise import NoiseSource, noise_source
from fattail.privacy.report import PrivacyReport, ReleaseRecord
from fattail.rows.order import Fold, Sample, SecretOrder

AnyMechanism = TypeVar("AnyMechanism", bound=Mechanism)

# Factor of every part of a divided release, so that all parts together are no more than the whole whatever rounds.
_ROUNDED_DOWN = 1 - 2.0**-40


class Account(Protocol):
    """The common interface of ledger accounts and budgets."""

    def charge(
        self,
        events: tuple[Event, ...],
        label: str = "",
        *,
        claim: tuple[float, float] | None = None,
        subject: Subject | None = None,
    ) -> None: ...


class Curator:
    """Holds the budget of one fit and makes its planned releases, all charged beforehand.

    Parameters
    ----------
    epsilon, delta : float
        Claim for everything released through this curator.
    random_state : int or None
        None for secure noise; an int for reproducible noise, which is not private.
    ledger : account, optional
        Charged with the whole plan before any data are read, together with every enclosing
        ``with Budget(...)`` block: all of them or none.
    label : str
        Name of the caller, for the ledger and the report.
    subject : Subject, optional
        What the data are, for the ledger and the report.
    prior : Curator, optional
        The curator that released the number of rows (of persons) before: n is then that release, folds are cut by labels
        instead of ranks, and the report covers both.
    claim : tuple of float, optional
        The claim for both together; only with ``prior``.
    advance : Advance, optional
        A charge that was made before. The plan stays within it, and nothing is charged again.

    Examples
    --------
    >>> from fattail.privacy import Bounded, Curator, Gaussian
    >>> curator = Curator(1.0, 1e-6, random_state=0, label="example")
    >>> total = Gaussian("total")
    >>> curator.plan(total)
    >>> curator.release(total, Bounded([10.0], 0.001)).round(1)
    array([10.])

    Notes
    -----
    *Privacy.* Any interaction is (epsilon, delta)-DP under replacement of one row, provided
    that each ``Bounded`` states a true sensitivity given everything released before. The
    plan is fixed before the data are read, so its composition is ordinary adaptive
    composition. Proof: ``curator.proof.md``.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        random_state: int | None = None,
        ledger: Account | None = None,
        label: str = "",
        subject: Subject | None = None,
        prior: Curator | None = None,
        claim: tuple[float, float] | None = None,
        advance: Advance | None = None,
    ) -> None:
        self.epsilon, self.delta = check_budget(epsilon, delta)
        if advance is not None and advance.claim != (self.epsilon, self.delta):
            raise PrivacyError(f"the advance is for {advance.claim}, not for {(self.epsilon, self.delta)}")
        self._advance = advance
        self._prior, self._claim = prior, claim or (self.epsilon, self.delta)
        if ledger is not None and not hasattr(ledger, "charge"):
            raise ValueError(f"ledger must be an account (Ledger(path).open(...)) or a Budget, got {type(ledger).__name__}")
        self._source: NoiseSource = noise_source(random_state)
        # The key of the secret order of rows; with a seed it is not secret.
        self._key = os.urandom(32) if random_state is None else hashlib.sha3_256(b"%d" % random_state).digest()
        self._process = os.getpid()
        self._lock = threading.RLock()  # between a check of what is planned and used, and the note of its use
        self._order: SecretOrder | None = None
        self._ledger = ledger
        self._label = label
        self._subject = subject or Subject()
        self._plan: tuple[Mechanism, ...] = ()
        self._unit = 0.0
        self._done: Counter[str] = Counter()
        self._used: dict[str, list[Fold]] = {}
        self._fresh: list[Sample] = []  # samples that were not used in a release yet
        self._sensitivity: dict[str, float | None] = {}
        self._parts: dict[Mechanism, tuple[Mechanism, float]] = {}  # the mechanism that each is a part of, and which fraction
        self._taken: defaultdict[str, float] = defaultdict(float)  # fraction of each that was split off

    def plan(self, *mechanisms: Mechanism) -> None:
        """Fix all releases of this fit, calibrate their noise, and charge the account."""
        with self._lock:
            self._fix(mechanisms)

    def _fix(self, mechanisms: tuple[Mechanism, ...]) -> None:
        if self._plan:
            raise PrivacyError("the plan of a curator is fixed once")
        names = [m.name for m in mechanisms]
        if not mechanisms or len(set(names)) < len(names):
            raise ValueError(f"a plan needs at least one mechanism and distinct names, got {names}")
        charged = None if self._advance is None else self._advance.use()
        self._unit = _calibrated(mechanisms, self.epsilon, self.delta, charged)
        for m in mechanisms:
            m.validate(m.rho(self._unit))
        accounts = (*open_budgets(), *([] if self._ledger is None else [self._ledger]))
        if accounts and charged is None:
            events = tuple(m.event(self._unit) for m in mechanisms)
            charge_all(accounts, events, self._label, claim=(self.epsilon, self.delta), subject=self._subject)
        self._plan = mechanisms

    @property
    def events(self) -> tuple[Event, ...]:
        """The charged events."""
        return tuple(m.event(self._unit) for m in self._plan)

    def rho(self, mechanism: Mechanism) -> float:
        """Concentrated-DP budget of one release of a planned mechanism, or of what is left of it (public)."""
        self._check_planned(mechanism)
        if mechanism in self._parts:
            whole, fraction = self._parts[mechanism]
            return whole.part(whole.rho(self._unit), fraction * _ROUNDED_DOWN)
        rho, taken = mechanism.rho(self._unit), self._taken[mechanism.name]
        return mechanism.part(rho, (1.0 - taken) * _ROUNDED_DOWN) if taken else rho

    def split(self, mechanism: AnyMechanism, name: str, fraction: float) -> AnyMechanism:
        """Split a release off a planned one, after earlier answers: it gets a fraction of the budget, the planned one the rest.

        Parameters
        ----------
        mechanism : Mechanism
            Planned with ``parts``, not yet released.
        name : str
            What the part releases.
        fraction : float
            Of the epsilon of a Laplace release, of the rho of a Gaussian one. May depend on releases, never on rows.

        Examples
        --------
        >>> from fattail.privacy import Curator, Laplace
        >>> curator = Curator(1.0, 0.0, random_state=0)
        >>> mean = Laplace("mean", parts=2)
        >>> curator.plan(mean)
        >>> look = curator.split(mean, "look", 0.2)
        >>> round(curator.noise(look), 3), round(curator.noise(mean), 3)
        (5.0, 1.25)
        """
        with self._lock:
            self._check_planned(mechanism)
            others = sum(whole == mechanism for whole, _ in self._parts.values())
            if mechanism in self._parts or others + 1 >= mechanism.parts or self._done[mechanism.name]:
                raise PrivacyError(f"{mechanism.name!r} was planned for {mechanism.parts} parts and cannot be divided further")
            if not (0 < fraction < 1 - self._taken[mechanism.name]):
                raise ValueError(f"a part of {mechanism.name!r} must leave something, got {fraction!r}")
            if name in {m.name for m in (*self._plan, *self._parts)}:
                raise ValueError(f"a part needs a name of its own, got {name!r}")
            part = replace(mechanism, name=name, share=mechanism.part(mechanism.share, fraction), parts=1)
            self._taken[mechanism.name] += fraction  # first: an interrupt may waste a part, and never add one
            self._parts[part] = (mechanism, fraction)
            return part

    def noise(self, mechanism: Mechanism, sensitivity: float = 1.0) -> float:
        """Noise scale that a release with this sensitivity would get (public)."""
        scale = mechanism.noise(self.rho(mechanism), sensitivity)
        if scale is None:
            raise PrivacyError(f"the noise scale of {mechanism.name!r} depends on the data")
        return scale

    def smoothness(self, mechanism: SmoothNoise) -> float:
        """Smoothness ``t`` that a value released by this mechanism must have been computed for."""
        return mechanism.smoothness(self.rho(mechanism))

    def sample_rows(self, mechanism: SubsampledGaussian, n: int) -> Sample:
        """Draw the secret Poisson sample for one release of a subsampled mechanism."""
        self._check_planned(mechanism)
        sample = Sample(mechanism.rate, self._source.bernoulli(mechanism.rate, n))
        self._fresh.append(sample)
        return sample

    def folds(self, n: int, count: int) -> tuple[Fold, ...]:
        """``count`` disjoint folds of n rows, drawn in secret, sizes equal to within one row."""
        return self._secret_order(n).folds(count)

    def subset(self, n: int, size: int) -> Fold:
        """``size`` of n rows, drawn in secret; a larger subset contains a smaller one."""
        return self.cut(n, size)[0]

    def cut(self, n: int, *sizes: int) -> tuple[Fold, ...]:
        """Disjoint folds of n rows, drawn in secret, of these sizes."""
        return self._secret_order(n).cut(list(accumulate(sizes, initial=0)))

    def _secret_order(self, n: int) -> SecretOrder:
        if self._order is None or self._order.n != n:
            self._order = SecretOrder(self._key, n, by_label=self._prior is not None)
        return self._order

    def release(self, mechanism: Mechanism, bounded: Bounded) -> NDArray[Any]:
        """Add the planned noise and return the released value.

        Raises
        ------
        PrivacyError
            If the mechanism was not planned, was used up, is calibrated for another norm,
            or asks for parallel composition on rows that are not disjoint.
        """
        if self._process != os.getpid():
            raise PrivacyError("a curator serves the process that made it: a fork would release twice what was charged once")
        if not isinstance(bounded, Bounded):
            raise PrivacyError(f"only a Bounded value can be released, got {type(bounded).__name__}")
        with self._lock:
            self._check_planned(mechanism)
            if self._done[mechanism.name] >= mechanism.count:
                raise PrivacyError(f"{mechanism.name!r} was planned for {mechanism.count} releases and all are used")
            rho = self.rho(mechanism)
            mechanism.check(bounded, rho)
            self._check_rows(mechanism, bounded)
            self._done[mechanism.name] += 1
            self._sensitivity[mechanism.name] = None if isinstance(mechanism, SmoothNoise) else bounded.sensitivity
            done, total = self._done.total(), sum(m.count for m in (*self._plan, *self._parts))
        output = mechanism.sample(self._source, bounded, rho)
        announce(mechanism.name, done, total, output)
        return output

    def waive(self, mechanism: Mechanism) -> None:
        """Skip a planned release that earlier releases have made unnecessary; its budget stays spent."""
        with self._lock:
            self._check_planned(mechanism)
            if self._done[mechanism.name] >= mechanism.count:
                raise PrivacyError(f"{mechanism.name!r} has no release left to leave out")
            self._done[mechanism.name] += 1
            self._sensitivity.setdefault(mechanism.name, None)

    def select(self, mechanism: Mechanism, bounded: Bounded) -> NDArray[np.intp]:
        """Release of a selection, as integer indices."""
        return self.release(mechanism, bounded).astype(np.intp)

    def report(self) -> PrivacyReport:
        """The report, once every planned release has been made or waived."""
        all_releases = (*self._plan, *self._parts)
        missing = [m.name for m in all_releases if self._done[m.name] < m.count]
        if missing:
            raise PrivacyError(f"planned and charged but not released: {missing}")
        total = sum(m.share for m in self._plan)
        records = tuple(self._record(m, total) for m in all_releases)
        exact = all(r.numerics == "exact" for r in records)
        report = PrivacyReport(
            self.epsilon,
            self.delta,
            min(_spent(self.events, self.delta), self.epsilon),
            unit=self._subject.unit,
            person=self._subject.person,
            relation=self._subject.relation,
            releases=records,
            numerics="exact" if exact else "idealized",
            seeded=self._source.seeded,
            events=self.events,
            label=self._label,
        )
        return report if self._prior is None else self._prior.report().then(report, self._claim)

    def _record(self, mechanism: Mechanism, total: float) -> ReleaseRecord:
        sensitivity = self._sensitivity[mechanism.name]
        noise = None if sensitivity is None else self.noise(mechanism, sensitivity)
        # A part has a fraction of the share of the whole, so that the shares of a report add up to one.
        whole, fraction = self._parts.get(mechanism, (mechanism, 1.0 - self._taken[mechanism.name]))
        share = fraction * whole.share / total
        return ReleaseRecord(mechanism.name, mechanism.kind, mechanism.count, sensitivity, noise, share, self._source.numerics)

    def __reduce__(self) -> Any:
        raise PrivacyError("a curator cannot be copied or pickled: a copy would release again what was charged once")

    def _check_planned(self, mechanism: Mechanism) -> None:
        if mechanism not in self._plan and mechanism not in self._parts:
            raise PrivacyError(f"{mechanism.name!r} is not in the plan")

    def _check_rows(self, mechanism: Mechanism, bounded: Bounded) -> None:
        rows = bounded.fold
        if isinstance(rows, Sample):
            if not isinstance(mechanism, SubsampledGaussian) or rows not in self._fresh:
                raise PrivacyError(f"{mechanism.name!r}: a Poisson sample serves one subsampled release of its curator")
            self._fresh.remove(rows)
        elif mechanism.folds:
            used = self._used.setdefault(mechanism.name, [])
            if rows is None:
                raise PrivacyError(f"{mechanism.name!r} composes in parallel but was computed on all rows")
            if any(rows.overlaps(other) for other in used):
                raise PrivacyError(f"{mechanism.name!r} composes in parallel but its folds overlap")
            used.append(rows)


@lru_cache(maxsize=256)
def _calibrated(mechanisms: tuple[Mechanism, ...], epsilon: float, delta: float, charged: Event | None) -> float:
    def allowed(events: Sequence[Event]) -> bool:
        return charged is None or covers(charged.cost(), total_cost(events))

    return largest_rho(lambda unit: [m.event(unit) for m in mechanisms], epsilon, delta, allowed)


@lru_cache(maxsize=256)
def _spent(events: tuple[Event, ...], delta: float) -> float:
    return epsilon_of(events, delta)
