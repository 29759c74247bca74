"""What was done to the data, as frozen events, and what each event costs.

An event is recorded with its sensitivity already divided out (noise in units of the
replace-one sensitivity), so its meaning never changes. ``Cost`` is a small vector that
adds up under adaptive composition and takes coordinatewise maxima over disjoint folds;
``accountant`` turns a cost into (epsilon, delta).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy import optimize, special

# Renyi orders at which subsampled releases are tracked (all others are exact for every order).
ORDERS = np.array([*range(2, 17), 18, 20, 23, 26, 30, 35, 40, 48, 56, 64, 80, 96, 128, 192, 256, 512], dtype=float)

# A Gaussian on the integers is within exp(+-this) of a rounded continuous one, per release;
# privacy/noise.py refuses to sample where that fails.
DISCRETE_SLACK = 1e-9

# More repetitions than this are a mistake, and their products would exceed the integers that a file can hold.
MAX_COUNT = 2**63 - 1

# Relative margin for the error of special functions, a few units in the last place; costs are rounded up by it.
_UP = 1 + 1e-12

# Below this range the worst pair is the symmetric one, up to a relative eta^2; see the proof of `accountant`.
# Above the second, probabilities round to 1, and the release is counted as eta-DP.
_SMALL_RANGE, _LARGE_RANGE = 1e-4, 30.0


def add_up(a: float, b: float) -> float:
    """``a + b``, rounded up: a small charge is never lost beside a large one."""
    total = a + b
    if not a or not b:
        return total
    return math.nextafter(total, math.inf) if math.isfinite(total) and math.fsum((a, b, -total)) > 0 else total


def multiply_up(count: int, x: float) -> float:
    """``count * x``, rounded up."""
    if not x:
        return 0.0
    product = count * x
    exact = not math.isfinite(product) or Fraction(x) * count <= Fraction(product)
    return product if exact else math.nextafter(product, math.inf)


@dataclass(frozen=True)
class Cost:
    """Additive privacy cost. Sums are rounded up.

    Attributes
    ----------
    mu2 : Gaussian releases, squared Gaussian-DP parameter.
    pure_mu2, pure_rho, pure_epsilon : pure-DP and bounded-range releases, in three currencies;
        each is a valid bound on its own.
    rho : releases known only through zero-concentrated DP.
    slack : bound on the log ratio between the noise that is sampled and the one that is counted.
    delta : probability that some release behaves worse than its other costs say.
    renyi : Renyi divergences at ``ORDERS`` of subsampled releases.
    """

    mu2: float = 0.0
    pure_mu2: float = 0.0
    pure_rho: float = 0.0
    pure_epsilon: float = 0.0
    rho: float = 0.0
    slack: float = 0.0
    delta: float = 0.0
    renyi: tuple[float, ...] = ()

    def __add__(self, other: Cost) -> Cost:
        return self._combine(other, add_up)

    def maximum(self, other: Cost) -> Cost:
        """Cost of two disjoint folds, of which either may hold the changed row."""
        return self._combine(other, max)

    def scaled(self, count: int) -> Cost:
        """Cost of ``count`` repetitions."""
        if count == 1:
            return self
        numbers = {name: multiply_up(count, getattr(self, name)) for name in _NUMBERS}
        return Cost(**numbers, renyi=tuple(multiply_up(count, r) for r in self.renyi))

    def _combine(self, other: Cost, op: Callable[[float, float], float]) -> Cost:
        numbers = {name: op(getattr(self, name), getattr(other, name)) for name in _NUMBERS}
        a = self.renyi or (0.0,) * len(other.renyi)
        b = other.renyi or (0.0,) * len(self.renyi)
        return Cost(**numbers, renyi=tuple(op(x, y) for x, y in zip(a, b, strict=True)))


_NUMBERS = tuple(f.name for f in fields(Cost) if f.name != "renyi")


@dataclass(frozen=True)
class Event:
    """Base of all events: ``count`` adaptive repetitions of one kind of release."""

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[Event]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Event._kinds.setdefault(cls.kind, cls)

    def cost(self) -> Cost:
        """Cost of all repetitions."""
        return self._one().scaled(getattr(self, "count", 1))

    def _one(self) -> Cost:
        """Cost of one."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Event:
        data = dict(data)
        kind = data.pop("kind", None)
        if kind not in Event._kinds:
            raise ValueError(f"unknown event kind {kind!r}; known: {sorted(Event._kinds)}")
        return Event._kinds[kind](**data)


def _check_number(event: Event, name: str, wanted: str, right: Callable[[float], bool]) -> None:
    """A number of an event as a Python float, the only kind that files hold."""
    given = getattr(event, name)
    number = math.nan
    if isinstance(given, (int, float, np.integer, np.floating)) and not isinstance(given, bool):
        with suppress(OverflowError):  # an integer too large for a float
            number = float(given)
    if not (math.isfinite(number) and right(number)):
        raise ValueError(f"{name} must {wanted}, got {str(given)[:40]!r}")
    object.__setattr__(event, name, number)


def _check_positive(event: Event, name: str) -> None:
    _check_number(event, name, "be a positive finite number", lambda x: x > 0)


def _check_count(event: Event) -> None:
    count = getattr(event, "count", None)
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= MAX_COUNT:
        raise ValueError(f"count must be a positive integer, got {count!r}")
    object.__setattr__(event, "count", int(count))  # a file holds no numpy numbers


@dataclass(frozen=True)
class GaussianEvent(Event):
    """Gaussian noise of ``noise_multiplier`` times the l2 sensitivity."""

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float
    count: int = 1

    def __post_init__(self) -> None:
        _check_count(self)
        _check_positive(self, "noise_multiplier")

    def _one(self) -> Cost:
        mu = 1 / self.noise_multiplier
        return Cost(mu2=mu * mu or math.ulp(0.0), slack=DISCRETE_SLACK)


@dataclass(frozen=True)
class BoundedRange(Event):
    """A selection whose log-likelihood ratio lies in an interval of length ``eta``."""

    kind: ClassVar[str] = "bounded_range"
    eta: float
    count: int = 1

    def __post_init__(self) -> None:
        _check_count(self)
        _check_positive(self, "eta")

    def _one(self) -> Cost:
        mu = mu_of_bounded_range(self.eta)
        return Cost(
            pure_mu2=mu * mu * _UP or math.ulp(0.0), pure_rho=self.eta * self.eta / 8 or math.ulp(0.0), pure_epsilon=self.eta
        )


@dataclass(frozen=True)
class Pure(Event):
    """An ``epsilon``-DP release, such as Laplace noise."""

    kind: ClassVar[str] = "pure"
    epsilon: float
    count: int = 1

    def __post_init__(self) -> None:
        _check_count(self)
        _check_positive(self, "epsilon")

    def _one(self) -> Cost:
        e = self.epsilon
        mu = mu_of_pure(e)
        return Cost(pure_mu2=mu * mu * _UP or math.ulp(0.0), pure_rho=e * e / 2 or math.ulp(0.0), pure_epsilon=e)


@dataclass(frozen=True)
class ZeroConcentrated(Event):
    """A release known to satisfy ``rho``-zCDP."""

    kind: ClassVar[str] = "zcdp"
    rho: float
    count: int = 1

    def __post_init__(self) -> None:
        _check_count(self)
        _check_positive(self, "rho")

    def _one(self) -> Cost:
        return Cost(rho=self.rho)


@dataclass(frozen=True)
class Approximate(Event):
    """An (``epsilon``, ``delta``)-DP release about which nothing else is known.

    It is an ``epsilon``-DP one that fails with probability ``delta`` (Kairouz, Oh and
    Viswanath 2015, Theorem 3.4), and is counted as that.
    """

    kind: ClassVar[str] = "approximate"
    epsilon: float
    delta: float
    count: int = 1

    def __post_init__(self) -> None:
        _check_count(self)
        _check_positive(self, "epsilon")
        _check_number(self, "delta", "lie in [0, 1)", lambda x: 0 <= x < 1)

    def _one(self) -> Cost:
        return dataclasses.replace(Pure(self.epsilon)._one(), delta=self.delta)


@dataclass(frozen=True)
class SubsampledGaussianEvent(Event):
    """Gaussian noise on a Poisson sample of the rows.

    ``noise_multiplier`` is relative to the replace-one sensitivity of the sampled sum, as
    everywhere. A replacement is a removal and an addition: the add-remove Renyi curve of
    the sampled Gaussian (integer orders, binomial sum) goes twice through the weak triangle
    inequality of Renyi divergence.
    """

    kind: ClassVar[str] = "subsampled_gaussian"
    noise_multiplier: float
    rate: float
    count: int = 1

    def __post_init__(self) -> None:
        _check_count(self)
        _check_positive(self, "noise_multiplier")
        _check_number(self, "rate", "lie in (0, 1]", lambda x: 0 < x <= 1)

    def _one(self) -> Cost:
        # One row's removal moves the sum by half of what its replacement does.
        return Cost(slack=DISCRETE_SLACK, renyi=_replace_one_renyi(2 * self.noise_multiplier, self.rate))


@dataclass(frozen=True)
class Parallel(Event):
    """Branches on disjoint folds that the curator draws: one replaced row touches one branch."""

    kind: ClassVar[str] = "parallel"
    branches: tuple[tuple[Event, ...], ...] = field(default=())

    def cost(self) -> Cost:
        worst = Cost()
        for branch in self.branches:
            worst = worst.maximum(total_cost(branch))
        return worst

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "branches": [[e.to_dict() for e in b] for b in self.branches]}

    def __post_init__(self) -> None:
        try:
            branches = tuple(tuple(e if isinstance(e, Event) else Event.from_dict(e) for e in b) for b in self.branches)
        except TypeError:
            raise ValueError("branches are sequences of events") from None
        object.__setattr__(self, "branches", branches)


def total_cost(events: Iterable[Event]) -> Cost:
    """Cost of events composed in sequence, each chosen after seeing the ones before."""
    cost = None
    for event in events:
        cost = _cost(event) if cost is None else cost + _cost(event)
    return cost or Cost()


@lru_cache(maxsize=4096)
def _cost(event: Event) -> Cost:
    return event.cost()  # ledgers ask repeatedly for the events of their history


@lru_cache(maxsize=4096)
def mu_of_pure(epsilon: float) -> float:
    """Smallest mu such that every epsilon-DP release is mu-Gaussian DP, rounded up.

    The trade-off curve of randomized response has one kink, at e^eps / (1 + e^eps), and a
    convex Gaussian curve with the same ends lies below it as soon as it does at the kink.
    """
    # Two forms of one number: the first cancels for small epsilon, the second for large.
    mu = -2 * special.ndtri(special.expit(-epsilon)) if epsilon > 1 else math.sqrt(8) * special.erfinv(math.tanh(epsilon / 2))
    return max(float(mu) * _UP, math.ulp(0.0))


@lru_cache(maxsize=4096)
def mu_of_bounded_range(eta: float) -> float:
    """Smallest mu such that every eta-bounded-range release is mu-Gaussian DP, rounded up.

    The worst pairs are two-point ones whose log ratios are t and t - eta; the argument of
    ``mu_of_pure`` applies to each t, and the largest of the answers counts. Range eta is
    implied by eta / 2-DP, the pair with t = eta / 2, which is the worst of all for small eta.
    """
    if eta < _SMALL_RANGE:
        return mu_of_pure(eta / 2) * (1 + eta * eta)
    if eta > _LARGE_RANGE:
        return mu_of_pure(eta)

    def gap(t: float) -> float:
        p = math.expm1(t - eta) / math.expm1(-eta)
        return float(special.ndtri(p) - special.ndtri(p * math.exp(-t)))

    best = optimize.minimize_scalar(lambda t: -gap(t), bounds=(0.0, eta), method="bounded", options={"xatol": 1e-9 * eta})
    # The maximum is smooth, so an argument error of 1e-9 costs far less than this margin.
    return max(-float(best.fun), gap(eta / 2)) * (1 + 1e-9)


@lru_cache(maxsize=256)
def _replace_one_renyi(sigma: float, rate: float) -> tuple[float, ...]:
    def add_remove(order: float) -> float:
        # The moment is 1 + sum of binomial weights times expm1(k (k - 1) / (2 sigma^2)): no term
        # is negative, so nothing cancels however small the rate and however large the noise.
        a = int(order)
        k = np.arange(2, a + 1)
        with np.errstate(divide="ignore", over="ignore"):
            exponent = k * (k - 1) / (2 * sigma * sigma)
            log_expm1 = np.where(exponent > 1, exponent + np.log1p(-np.exp(-exponent)), np.log(np.expm1(np.minimum(exponent, 1))))
        terms = special.gammaln(a + 1) - special.gammaln(k + 1) - special.gammaln(a - k + 1) + special.xlog1py(a - k, -rate)
        if not np.isfinite(exponent).all():
            return math.inf
        moment = special.logsumexp(terms + k * math.log(rate) + log_expm1)
        return max(float(np.logaddexp(0.0, moment)) * (1 + 1e-9) / (a - 1), math.ulp(0.0))

    return tuple((a - 0.5) / (a - 1) * add_remove(2 * a) + add_remove(2 * a - 1) for a in ORDERS.tolist())
