"""The result of recording a fit and replaying it: what a pair of neighbors spends, and what differs between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fattail.audit.spendings import rho_in
from fattail.privacy import events
from fattail.privacy.accountant import epsilon_of

# Margin for privacy maps, which are rounded up, and for numerical integrals.
_ROUNDING = 1 + 1e-6


@dataclass(frozen=True)
class Spending:
    """What a pair of datasets spends in one release.

    Attributes
    ----------
    release : str
        Its name in the plan; empty for noise outside of any release.
    spent : tuple of events
        One for each use of noise whose inputs differ.
    charged : event or None
        What the plan charges for one such release.
    """

    release: str
    spent: tuple[events.Event, ...]
    charged: events.Event | None

    @property
    def ratio(self) -> float:
        """Spent over charged, as a ratio of sensitivities; above 1 refutes the claim."""
        if not self.spent or self.charged is None:
            return math.inf if self.spent else 0.0
        if isinstance(self.charged, events.Pure):
            # Pure releases are compared one by one, or by their sums if there are more than were charged.
            sizes = [e.epsilon for e in self.spent if isinstance(e, events.Pure)]
            few = len(sizes) <= self.charged.count
            return (max(sizes) if few else sum(sizes) / self.charged.count) / self.charged.epsilon / _ROUNDING
        ratio = math.sqrt(sum(map(rho_in, self.spent)) / rho_in(self.charged)) / _ROUNDING
        if isinstance(self.charged, events.Approximate):
            failures = sum(e.count * e.delta for e in self.spent if isinstance(e, events.Approximate))
            ratio = max(ratio, failures / (self.charged.count * self.charged.delta) / _ROUNDING)
        return ratio


@dataclass(frozen=True)
class Finding:
    """The result of one pair of neighbors.

    Attributes
    ----------
    releases : tuple of Spending
    escapes : tuple of str
        What differs although all noisy answers were the same.
    diverged : str
        Where the replay left the recorded sequence of steps; empty if it did not.
    early : tuple of str
        Releases that were sampled before the account was charged.
    coarse : tuple of str
        Releases whose noise lies on a grid with a private step: their last bits depend on the data.
    claim : tuple of (epsilon, delta), or None
        Of the fit's report; None if the fit raised.
    asked : tuple of events
        What the releases would spend if each moved by all of its sensitivity.
    charged : tuple of events
        What the account was charged; empty without one.
    wasted : str
        The error of a fit that raised after the charge: a release left out, say.
    """

    releases: tuple[Spending, ...]
    escapes: tuple[str, ...]
    diverged: str
    early: tuple[str, ...]
    coarse: tuple[str, ...]
    claim: tuple[float, float] | None
    asked: tuple[events.Event, ...] = ()
    charged: tuple[events.Event, ...] = ()
    wasted: str = ""

    @property
    def ratio(self) -> float:
        """Largest of the releases' ratios; 0 if the inputs of all noise were the same integers."""
        return max((one.ratio for one in self.releases), default=0.0)

    @property
    def spent(self) -> tuple[events.Event, ...]:
        """All that this pair spends."""
        return tuple(event for one in self.releases for event in one.spent)

    @property
    def epsilon(self) -> float:
        """The same as an epsilon, at the claim's delta."""
        return epsilon_of(self.spent, self.claim[1]) if self.claim and self.spent else 0.0

    @property
    def most_epsilon(self) -> float:
        """The epsilon of all that the releases may spend, at the claim's delta."""
        return epsilon_of(self.asked, self.claim[1]) if self.claim and self.asked else 0.0

    @property
    def violations(self) -> tuple[str, ...]:
        """Everything that refutes the claim, in words; empty if nothing does."""
        found = [
            f"{r.release or 'outside of any release'}: moves {r.ratio:.4g} of its charge" for r in self.releases if r.ratio > 1
        ]
        found += [f"differs between neighbors: {name}" for name in self.escapes]
        found += [f"sampled before the charge: {name}" for name in self.early]
        found += [f"the last bits reveal a private scale: {name}" for name in self.coarse]
        if self.wasted:
            found.append(f"raises after the charge: {self.wasted}")
        if self.diverged:
            found.append(f"the sequence of steps depends on a row: {self.diverged}")
        if self.claim is not None and self.epsilon > self.claim[0] * _ROUNDING:
            found.append(f"epsilon {self.epsilon:.4g} spent where {self.claim[0]:g} is claimed")
        if self.claim is not None and self.most_epsilon > self.claim[0] * _ROUNDING:
            found.append(f"releases of epsilon {self.most_epsilon:.4g} where {self.claim[0]:g} is claimed")
        if self.charged and (over := overdrawn(events.total_cost(self.asked), events.total_cost(self.charged))) > 1:
            found.append(f"releases of {over:.4g} times the charge")
        return tuple(found)


def overdrawn(asked: events.Cost, charged: events.Cost) -> float:
    """What is asked for over what was charged, in the currency in which this is most; up to rounding, above 1 it is too much.

    Examples
    --------
    >>> overdrawn(events.Pure(0.5, 3).cost(), events.Pure(1.0).cost()) > 1.4
    True
    """
    pairs = [
        (asked.mu2 + asked.pure_mu2, charged.mu2 + charged.pure_mu2),
        (asked.mu2 / 2 + asked.pure_rho + asked.rho, charged.mu2 / 2 + charged.pure_rho + charged.rho),
        (asked.delta, charged.delta),
        *zip(asked.renyi, charged.renyi, strict=False),
    ]
    if not (charged.mu2 or charged.rho):
        pairs.append((asked.pure_epsilon, charged.pure_epsilon))
    return max((spent / most if most else math.inf for spent, most in pairs if spent), default=0.0) / _ROUNDING
