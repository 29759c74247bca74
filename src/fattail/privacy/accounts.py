"""When an account is used up: a privacy filter for analysts who choose their questions adaptively.

A fit fixes its plan before it reads data, so the best of several bounds may be taken for it
(`accountant`). An account cannot do that: its charges depend on earlier answers, and choosing the bound after an answer would
spend more than is counted. An account therefore fixes its routes, and the share of delta of each, when it is opened. A charge
is admitted if one route has room for it and for all charges before it. The shares add up to delta, so the choice between routes
is covered. Proof: ``accounts.proof.md``.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from fattail.privacy.accountant import epsilon_of, gaussian_delta, satisfies
from fattail.privacy.events import ORDERS, Cost, add_up

Claim = tuple[float, float]

# Invisible characters that Unicode classes as marks, letters or symbols: joiners, fillers, variation selectors.
_FILLERS = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
_SELECTORS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_BLANK = frozenset(map(chr, (*_FILLERS, *_SELECTORS)))
_LONGEST_NAME = 200


@dataclass(frozen=True)
class DeltaShares:
    """How an account divides its delta among its routes.

    Attributes
    ----------
    gaussian : route of Gaussian DP; everything counts by the smallest Gaussian that dominates it.
    concentrated : route of Renyi DP at one order.
    addition : route of added epsilons and deltas. Pure releases need none of it.
    failure : approximate releases on the first two routes.
    """

    gaussian: float = 0.0
    concentrated: float = 0.0
    addition: float = 0.0
    failure: float = 0.0


# With "mixed", Gaussian releases must be 4 % smaller and pure ones 5 % at (1, 1e-6), compared with an account for one kind; one
# fit at a tenth of the account's delta still fits on the route of addition. The shares are part of the format of ledgers.
KINDS: Mapping[str, DeltaShares] = MappingProxyType(
    {
        "mixed": DeltaShares(gaussian=0.48, concentrated=0.40, addition=0.10, failure=0.02),
        "gaussian": DeltaShares(gaussian=0.9, failure=0.1),
        "concentrated": DeltaShares(concentrated=0.9, failure=0.1),
        "sum": DeltaShares(addition=1.0),
    }
)

# Share of epsilon kept for the slack of discrete noise: a million releases at epsilon 1.
_SLACK = 1e-3

# Computed limits are lowered by this relative margin for floating-point error. Numbers that users write (ten times 0.1 in an
# account of 1) are compared with this tolerance.
_MARGIN, _TOLERANCE = 1e-9, 1e-12


def check_kind(kind: str | None, delta: float) -> str:
    """The kind of an account; None means the one for any mixture of charges.

    Examples
    --------
    >>> check_kind(None, 1e-6), check_kind(None, 0.0)
    ('mixed', 'sum')
    """
    if kind is None:
        return "mixed" if delta > 0 else "sum"
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    if delta == 0 and kind != "sum":
        raise ValueError(f"an account of kind {kind!r} needs delta > 0; with delta=0 epsilons are added up (kind 'sum')")
    return kind


def account_name(name: str) -> str:
    """One spelling for names that look the same; invisible characters are refused.

    Examples
    --------
    >>> account_name(" cafe\\u0301 ") == account_name("caf\\u00e9")
    True
    """
    if not isinstance(name, str):
        raise ValueError(f"an account needs a name, got {name!r}")
    name = name.strip()
    hidden = any(c in _BLANK or unicodedata.category(c) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp") for c in name)
    if not name or hidden or len(name) > _LONGEST_NAME:
        raise ValueError(
            f"an account needs a name of at most {_LONGEST_NAME} characters without invisible ones, got {name[:_LONGEST_NAME]!r}"
        )
    return spelling(name)


def spelling(name: str) -> str:
    """The form in which names are compared: composed characters, single plain spaces.

    Examples
    --------
    >>> spelling("claims\\u00a0 2026 ")
    'claims 2026'
    """
    return " ".join(unicodedata.normalize("NFC", name).split())


@dataclass(frozen=True)
class Balance:
    """The limits of an account, and what it has spent.

    Parameters
    ----------
    epsilon, delta : float
        Limits of the account.
    kind : str
        One of ``KINDS``.

    Examples
    --------
    >>> from fattail.privacy.events import Pure
    >>> balance = Balance(1.0, 1e-6, "mixed").plus(Pure(0.25).cost())
    >>> balance.admitted, balance.spent
    (True, 0.25)
    >>> balance.plus(Pure(1.0).cost()).admitted
    False
    """

    epsilon: float
    delta: float
    kind: str
    cost: Cost = field(default_factory=Cost)
    added: Claim = (0.0, 0.0)
    charges: int = 0

    def plus(self, cost: Cost, claim: Claim | None = None) -> Balance:
        """The balance after one more charge; `admitted` says whether it may be made.

        ``claim`` is an (epsilon, delta) that the charge is proved to satisfy as a whole.
        """
        price = self._price(cost, claim)
        added = (add_up(self.added[0], price[0]), add_up(self.added[1], price[1]))
        after = replace(self, cost=self.cost + cost, added=added, charges=self.charges + 1)
        if self.charges or after.admitted:
            return after
        # The first charge does not depend on any answer, so it may still choose the kind: with plain addition its own proof may
        # use up the account.
        by_sum = replace(after, kind="sum")
        if not by_sum.admitted and satisfies(cost, self.epsilon, self.delta):
            by_sum = replace(by_sum, added=(self.epsilon, self.delta))
        return by_sum if by_sum.admitted else after

    @property
    def admitted(self) -> bool:
        """Whether some route has room for all charges."""
        return any(self._routes_with_room(self.epsilon))

    @property
    def spent(self) -> float:
        """Epsilon of the smallest account of this kind and delta that would admit the same charges."""
        if not self.charges:
            return 0.0
        # Start with the sum of epsilons; the first charge may also use up an account by its own proof.
        high = self.added[0] if self.added[1] <= self._addition_delta else math.inf
        if self.charges == 1:
            high = min(high, epsilon_of(self.cost, self.delta))
        if high == math.inf:
            high = max(self.epsilon, 1.0)
            while not any(self._routes_with_room(high)):
                high *= 2
                if high > 1e6:
                    return math.inf
        low = 0.0
        while high - low > 1e-9 * high:
            mid = (low + high) / 2
            if not low < mid < high:  # adjacent floats
                break
            low, high = (low, mid) if any(self._routes_with_room(mid)) else (mid, high)
        return high

    def _price(self, cost: Cost, claim: Claim | None) -> Claim:
        """The epsilon of a charge on the route of addition."""
        pure = not (cost.mu2 or cost.rho or cost.renyi)
        if pure and (claim is None or cost.pure_epsilon + cost.slack <= claim[0]):
            return add_up(cost.pure_epsilon, cost.slack), cost.delta
        return claim if claim is not None else (math.inf, 0.0)

    @property
    def _addition_delta(self) -> float:
        return KINDS[self.kind].addition * self.delta * (1 + _TOLERANCE)

    def _routes_with_room(self, epsilon: float) -> tuple[bool, ...]:
        """For each route, whether an account with this epsilon would hold all charges."""
        shares, cost = KINDS[self.kind], self.cost
        addition = self.added[0] <= epsilon * (1 + _TOLERANCE) and self.added[1] <= self._addition_delta
        if cost.slack > _SLACK * epsilon or cost.delta > shares.failure * self.delta:
            return (addition,)
        gaussian = (
            shares.gaussian > 0
            and not (cost.rho or cost.renyi)
            and add_up(cost.mu2, cost.pure_mu2) <= gaussian_limit(epsilon, shares.gaussian * self.delta)
        )
        concentrated = False
        if shares.concentrated > 0 and not gaussian:
            order, limit = concentrated_limit(epsilon, shares.concentrated * self.delta)
            concentrated = _divergence(cost, order) <= limit
        return addition, gaussian, concentrated


def covers(charged: Cost, spent: Cost) -> bool:
    """Whether a charge is at least what was spent, by every route of an account.

    Parameters
    ----------
    charged : Cost
        Pure, or Gaussian with a claim that what was spent satisfies as well.
    spent : Cost

    Examples
    --------
    >>> from fattail.privacy.events import GaussianEvent, Pure
    >>> covers(Pure(1.0).cost(), Pure(0.5, 2).cost()), covers(Pure(1.0).cost(), GaussianEvent(9.0).cost())
    (True, False)
    """
    if spent.rho or spent.renyi or spent.delta or spent.slack > charged.slack:
        return False
    pure = not charged.mu2
    return (
        (not pure or (not spent.mu2 and spent.pure_epsilon <= charged.pure_epsilon))
        and add_up(spent.mu2, spent.pure_mu2) <= charged.mu2 + charged.pure_mu2
        and add_up(spent.mu2 / 2, spent.pure_rho) <= charged.mu2 / 2 + charged.pure_rho
    )


def _counted(epsilon: float, delta: float) -> Claim:
    """What is left of (epsilon, delta) after the difference between the sampled noise and the noise in the proof is
    subtracted."""
    slack = _SLACK * epsilon
    return epsilon - slack, delta * math.exp(-slack / 2) * (1 - _MARGIN)


@lru_cache(maxsize=4096)
def gaussian_limit(epsilon: float, delta: float) -> float:
    """Largest sum of squared Gaussian-DP parameters that is (epsilon, delta)-DP, on the safe side."""
    epsilon, delta = _counted(epsilon, delta)
    low, high = -60.0, 8.0
    if gaussian_delta(epsilon, math.exp(low)) > delta:
        return 0.0
    while high - low > 1e-10:
        mid = (low + high) / 2
        low, high = (mid, high) if gaussian_delta(epsilon, math.exp(mid)) <= delta else (low, mid)
    return math.exp(2 * low)


@lru_cache(maxsize=4096)
def concentrated_limit(epsilon: float, delta: float) -> Claim:
    """A Renyi order, and the largest divergence of that order that is (epsilon, delta)-DP.

    The order is the best one for zero-concentrated DP, for which one order does as well as all.
    """
    epsilon, delta = _counted(epsilon, delta)
    if not 0 < delta < 1:
        return 2.0, -math.inf

    def excess(order: float) -> float:
        # Canonne, Kamath and Steinke (2020): divergence R of this order gives epsilon = R + excess.
        return (-math.log(delta) - math.log(order - 1) + order * math.log1p(-1 / order)) / (order - 1)

    def slope(order: float) -> float:
        return (math.log1p(-1 / order) - excess(order)) / (order - 1)

    # rho = -slope(order) makes this order the minimizer of order * rho + excess(order), with value epsilon.
    low, high = math.log(1e-6), math.log(1e12)
    while high - low > 1e-9:
        mid = (low + high) / 2
        order = 1 + math.exp(mid)
        low, high = (mid, high) if excess(order) - order * slope(order) > epsilon else (low, mid)
    order = 1 + math.exp(high)
    return order, (epsilon - excess(order)) * (1 - _MARGIN)


def _divergence(cost: Cost, order: float) -> float:
    """Renyi divergence of a cost at an order."""
    divergence = order * (cost.mu2 / 2 + cost.pure_rho + cost.rho) * (1 + _TOLERANCE)
    if not cost.renyi:
        return divergence
    if order > ORDERS[-1]:
        return math.inf
    # (order - 1) R is convex in the order and R does not fall, so a chord lies above it.
    moments = (ORDERS - 1) * np.array(cost.renyi)
    sampled = float(np.interp(order, ORDERS, moments)) / (order - 1) if order > ORDERS[0] else cost.renyi[0]
    return divergence + sampled * (1 + _TOLERANCE)
