"""One release of every mechanism, on values that one row moves as far as it may, for ``audit.py`` and the tests.

Each attack reads one number of one release, with a claim at which half of the noise shows in few
runs: what is calibrated in far tails is attacked at a delta whose tails can be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import fattail
from fattail import audit
from fattail.estimators.means import additive
from fattail.privacy import Bounded, Curator, Gaussian, Laplace, Mechanism, SmoothBounded, SmoothNoise, SubsampledGaussian, TopK
from fattail.privacy.peeling import LaplacePeeling, LaplaceValues
from fattail.privacy.smooth_gaussian import SmoothGaussian

DELTA = 1e-5


@dataclass(frozen=True)
class Attacked:
    """A mechanism, its claim, and what it releases on either of two neighbors (0 and 1)."""

    mechanism: Mechanism
    value: Callable[[Curator, int], Bounded]
    epsilon: float = 4.0
    delta: float = DELTA
    note: str = ""
    runs: int = 1500
    """Enough to catch half of the noise."""

    @property
    def name(self) -> str:
        return f"{self.mechanism.kind}{', ' if self.note else ''}{self.note}"

    def curator(self, seed: int) -> Curator:
        curator = Curator(self.epsilon, self.delta, random_state=seed)
        curator.plan(self.mechanism)
        return curator

    def released(self, side: int, seed: int) -> float:
        curator = self.curator(seed)
        return float(curator.release(self.mechanism, self.value(curator, side))[0])

    def attack(self, runs: int, confidence: float) -> audit.LowerBound:
        def run(rows: tuple[Any, ...], seed: int) -> float:
            return self.released(int(rows[0]), seed)

        claim = self.curator(0).events
        return audit.attack(run, (0,), (1,), runs=runs, delta=self.delta, confidence=confidence, claim=claim)


@dataclass(frozen=True)
class AttackedClient(Attacked):
    """The same release where a person makes it."""

    def released(self, side: int, seed: int) -> float:
        client = fattail.LocalRandomizer(epsilon=self.epsilon, delta=self.delta, scale=1.0, random_state=seed)
        return float(client.randomize([1e9 if side else -1e9])[0])


RECORDED = {"NamesAboveThreshold"}
"""Mechanisms that ``audit_statistics.py`` attacks: only whole questions have names."""


def number(norm: Any) -> Callable[[Curator, int], Bounded]:
    return lambda curator, side: Bounded(np.array([float(side)]), 1.0, norm)


def scores(mechanism: Mechanism, lead: float = 0.0, monotone: bool = False) -> Callable[[Curator, int], Bounded]:
    """Two candidates, of which the row lifts one and lowers the other (or not); the first leads by some noise scales."""

    def value(curator: Curator, side: int) -> Bounded:
        ahead = lead * curator.noise(mechanism) + (0.5 if monotone else 1.0 - side)
        return Bounded(np.array([ahead, float(side)]), 1.0, "linf", monotone=monotone)

    return value


def smooth(mechanism: SmoothNoise) -> Callable[[Curator, int], Bounded]:
    return lambda curator, side: SmoothBounded(np.array([float(side)]), np.ones(1), curator.smoothness(mechanism))


def sampled(mechanism: SubsampledGaussian) -> Callable[[Curator, int], Bounded]:
    def value(curator: Curator, side: int) -> Bounded:
        sample = curator.sample_rows(mechanism, 1)
        return Bounded((side - 0.5) * sample._mask, 1.0, "l2", fold=sample)  # noqa: SLF001

    return value


def mechanisms() -> list[Attacked]:
    """All mechanisms, or an error that names those without an attack."""
    pick, peel, sample = TopK("choice"), LaplacePeeling("choice"), SubsampledGaussian("value", rate=0.7)
    noise, once, far = SmoothNoise("value"), SmoothNoise("value", one_shot=True), SmoothGaussian("value", delta=0.025)
    found = [
        Attacked(Gaussian("value"), number("l2")),
        Attacked(sample, sampled(sample), epsilon=2.0, runs=4000, note="seven rows of ten"),
        Attacked(Laplace("value"), number("l1"), epsilon=1.0),
        AttackedClient(additive("row", 1, 1.0, DELTA), number("l1"), epsilon=1.0, note="in `LocalRandomizer`"),
        Attacked(LaplaceValues("value"), number("linf"), epsilon=1.0),
        Attacked(peel, scores(peel, lead=0.75), epsilon=1.0, runs=4000),
        Attacked(pick, scores(pick), epsilon=1.0),
        Attacked(pick, scores(pick, monotone=True), epsilon=1.0, note="scores that rise together"),
        Attacked(noise, smooth(noise)),
        Attacked(once, smooth(once), epsilon=1.0, note="a single release"),
        Attacked(far, smooth(far), epsilon=1.0, delta=0.05, runs=4000),
    ]
    missing = {m.__name__ for m in kinds(Mechanism)} - {a.mechanism.kind for a in found}
    missing = set(missing) - RECORDED
    if missing:
        raise LookupError(f"no attack on {sorted(missing)}")
    return found


def kinds(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("fattail."):
            yield kind
            yield from kinds(kind)
