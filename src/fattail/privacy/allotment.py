"""A curator for a part of a plan: one planned Gaussian release, divided among the releases of another algorithm."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from numpy.typing import NDArray

from fattail.privacy.accountant import epsilon_of
from fattail.privacy.bounded import Bounded, PrivacyError
from fattail.privacy.curator import AnyMechanism, Curator
from fattail.privacy.events import GaussianEvent
from fattail.privacy.mechanisms import Gaussian, Mechanism
from fattail.rows.order import SecretOrder

# Of the budget, what stays with the divided release, which is waived.
_REST = 2.0**-20
# Least epsilon of a part over that of the whole. It only enters public arithmetic, such as how many releases are worthwhile.
_LEAST = 2.0**-10


class Allotment(Curator):
    """Lets an algorithm that plans for a budget of its own run within the plan of another, on Gaussian releases.

    Parameters
    ----------
    whole : Curator
        Holds the budget and makes all releases.
    mechanism : Gaussian
        Planned by ``whole``, with more parts than the algorithm makes releases; not released yet.

    Examples
    --------
    >>> from fattail.privacy import Bounded, Curator, Gaussian
    >>> curator = Curator(1.0, 1e-6, random_state=0)
    >>> first, rest = Gaussian("first"), Gaussian("rest", parts=3)
    >>> curator.plan(first, rest)
    >>> inner = Allotment(curator, rest)
    >>> a, b = Gaussian("a", 0.2), Gaussian("b", 0.6)
    >>> inner.plan(a, b)
    >>> round(inner.noise(a) / inner.noise(b), 3)
    1.732

    Notes
    -----
    *Privacy.* It holds no budget and no noise. Proof: ``allotment.proof.md``.
    """

    def __init__(self, whole: Curator, mechanism: Gaussian) -> None:
        self._whole, self._mechanism = whole, mechanism
        self.delta = whole.delta
        self.epsilon = max(epsilon_of((GaussianEvent(whole.noise(mechanism), 1),), self.delta), _LEAST * whole.epsilon)
        """The claim of this part alone, for public arithmetic."""
        self._releases: dict[Mechanism, list[Mechanism]] = {}
        self._made: Counter[Mechanism] = Counter()
        self._rho = whole.rho(mechanism)
        self._divided: dict[Mechanism, tuple[float, float]] = {}
        """Mechanisms that are divided after earlier answers: their fraction of the part, and what is left of it."""

    def plan(self, *mechanisms: Mechanism) -> None:
        """Divide the budget of the part; fixed once, as for every curator."""
        if self._releases or self._divided:
            raise PrivacyError("the plan of a curator is fixed once")
        if not all(type(m) is Gaussian and not m.folds and m.count * m.parts in (m.count, m.parts) for m in mechanisms):
            raise PrivacyError("only a plan of Gaussian releases of all rows fits into another plan")
        total = sum(m.share for m in mechanisms) / (1 - _REST)
        for m in mechanisms:
            if m.parts > 1:
                self._divided[m] = m.share / total, 1.0
                continue
            names = [f"{self._mechanism.name}: {m.name}" + f", {i + 1}" * (m.count > 1) for i in range(m.count)]
            self._releases[m] = [self._whole.split(self._mechanism, name, m.share / total / m.count) for name in names]
        self._close()

    def split(self, mechanism: AnyMechanism, name: str, fraction: float) -> AnyMechanism:
        """Split a release off one that was planned with ``parts``, as for every curator."""
        share, left = self._divided[mechanism]
        if not 0 < fraction < left:
            raise ValueError(f"a part of {mechanism.name!r} must leave something, got {fraction!r}")
        part = self._whole.split(self._mechanism, f"{self._mechanism.name}: {name}", share * fraction)
        self._divided[mechanism] = share, left - fraction
        return cast(AnyMechanism, part)

    def _close(self) -> None:
        """Give up what was not divided, once nothing more can be."""
        if not self._divided:
            self._whole.waive(self._mechanism)

    def noise(self, mechanism: Mechanism, sensitivity: float = 1.0) -> float:
        """Noise scale of each release of a mechanism of this plan or of the whole (public)."""
        if mechanism in self._divided:
            return mechanism.noise(self.rho(mechanism), sensitivity) or 0.0
        return self._whole.noise(self._releases.get(mechanism, [mechanism])[0], sensitivity)

    def rho(self, mechanism: Mechanism) -> float:
        """Budget of the next release of a mechanism of this plan or of the whole (public)."""
        if mechanism in self._divided:
            share, left = self._divided[mechanism]
            return share * left * self._rho
        return self._whole.rho(self._releases.get(mechanism, [mechanism])[0])

    def release(self, mechanism: Mechanism, bounded: Bounded) -> NDArray[Any]:
        """Make the next release of a mechanism of this plan, or one of the whole."""
        return self._whole.release(self._next(mechanism), bounded)

    def waive(self, mechanism: Mechanism) -> None:
        self._whole.waive(self._next(mechanism))

    def _next(self, mechanism: Mechanism) -> Mechanism:
        if mechanism in self._divided:  # what is left of it
            share, rest = self._divided.pop(mechanism)
            name = f"{self._mechanism.name}: {mechanism.name}"
            self._releases[mechanism] = [self._whole.split(self._mechanism, name, share * rest)]
            self._close()
        if mechanism not in self._releases:  # one of the whole, or none
            return mechanism
        left = self._releases[mechanism]
        if self._made[mechanism] == len(left):
            raise PrivacyError(f"{mechanism.name!r} was planned for {mechanism.count} releases and all are used")
        self._made[mechanism] += 1
        return left[self._made[mechanism] - 1]

    def _secret_order(self, n: int) -> SecretOrder:
        return self._whole._secret_order(n)
