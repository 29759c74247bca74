"""What two inputs of the same noise spend, whatever was declared."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from fattail.audit.sinh_normal import SinhNormal, epsilon_at, mu_of, normal_epsilon, rho_of
from fattail.privacy import events


@dataclass(frozen=True)
class Noise:
    """The parameters of an OpenDP measurement."""

    metric: str
    measure: str
    unit: float

    def __init__(self, measurement: Any) -> None:
        metric = str(measurement.input_metric)
        unit = float(measurement.map(1 if "i64" in metric else 1.0))
        for name, value in (("metric", metric), ("measure", str(measurement.output_measure)), ("unit", unit)):
            object.__setattr__(self, name, value)

    @property
    def kind(self) -> str:
        return f"{self.metric} to {self.measure}"

    def cost(self, ours: Any, theirs: Any, output: Any) -> tuple[events.Event, ...]:
        """What two inputs spend, from the loss ``unit`` at distance 1."""
        change = np.ravel(ours).astype(object) - np.ravel(theirs).astype(object)
        width = float(max(change) - min(change))
        kind = (self.metric[: self.metric.index("Distance")], self.measure)
        if kind == ("LInf", "ZeroConcentratedDivergence"):
            # The log odds of a pick move by the range of the changes: 1 or, two-sided, 2 at the map's distance of 1.
            picks, range_at_1 = len(output), 1.0 if "monotonic" in self.metric else 2.0
            eta = math.sqrt(8 * self.unit / picks) * width / range_at_1
            return (events.BoundedRange(eta, picks),) if width else ()
        raise NotImplementedError(f"what {self.kind} spends")


@dataclass(frozen=True)
class GaussianCost:
    """What two inputs of Gaussian noise spend, from the scale that the sampler is given."""

    scale: float

    def __call__(self, ours: Any, theirs: Any, output: Any) -> tuple[events.Event, ...]:
        change = np.ravel(ours).astype(object) - np.ravel(theirs).astype(object)
        moved = math.sqrt(float(np.sum(change.astype(np.float64) ** 2)))
        return (events.GaussianEvent(self.scale / moved),) if moved else ()


@dataclass(frozen=True)
class LaplaceCost:
    """What two inputs of Laplace noise spend, from the scale that the sampler is given."""

    scale: float
    picking: bool
    """Only the index of the largest entry is seen, so a common shift of all entries is not."""

    def __call__(self, ours: Any, theirs: Any, output: Any) -> tuple[events.Event, ...]:
        change = np.ravel(ours).astype(object) - np.ravel(theirs).astype(object)
        moved = [max(change) - min(change)] if self.picking else np.abs(change)
        return tuple(events.Pure(float(m) / self.scale) for m in moved if m)


@dataclass(frozen=True)
class NamesCost:
    """What two tables of named counts spend, from the scale of their noise and the threshold that names pass."""

    scale: float
    threshold: float

    @classmethod
    def of(cls, sample: Callable[[Any, Any], Any], bounded: Any) -> NamesCost:
        """Scale and threshold as a sampler uses them, found by asking what it names at a given noisy count."""
        one = type(bounded)(["a name"], np.ones(1, dtype=np.int64), bounded.sensitivity)
        scales: list[float] = []

        def is_named(count: float) -> bool:
            def laplace(value: Any, scale: float) -> Any:
                scales.append(scale)
                return np.full(1, math.floor(count), dtype=np.int64)

            return len(sample(SimpleNamespace(laplace=laplace), one)) > 0

        low, high = 0.0, 2.0**62
        while math.floor(high) - math.floor(low) > 1:
            middle = math.floor((low + high) / 2)
            low, high = (low, middle) if is_named(middle) else (middle, high)
        return cls(scales[0], high)

    def __call__(self, ours: dict[Any, int], theirs: dict[Any, int], output: Any) -> tuple[events.Event, ...]:
        changes = [abs(ours[name] - theirs[name]) for name in ours.keys() & theirs.keys()]
        # A name that one of the tables lacks tells them apart if it is named: at or above the threshold.
        alone = [(ours | theirs)[name] for name in ours.keys() ^ theirs.keys()]
        failure = sum(min(1.0, math.exp(min((count - self.threshold) / self.scale, 0.0)) / 2) for count in alone)
        if not any(changes) and not alone:
            return ()
        return (events.Approximate(max(sum(changes) / self.scale, 1e-12), min(failure, math.nextafter(1.0, 0.0))),)


@dataclass(frozen=True)
class SmoothCost:
    charged: events.Event

    def __call__(self, ours: SinhNormal, theirs: SinhNormal, output: Any) -> tuple[events.Event, ...]:
        if np.array_equal(ours.center, theirs.center) and np.array_equal(ours.scale, theirs.scale):
            return ()
        coordinates = range(len(ours.center))
        if isinstance(self.charged, events.GaussianEvent):
            return tuple(events.GaussianEvent(1 / mu) for mu in (mu_of(ours, theirs, j) for j in coordinates) if mu > 1e-8)
        if isinstance(self.charged, events.ZeroConcentrated):
            return tuple(events.ZeroConcentrated(rho) for rho in (rho_of(ours, theirs, j) for j in coordinates) if rho > 0)
        assert isinstance(self.charged, events.Approximate)
        delta = self.charged.delta
        if ours.width:
            epsilon = sum(epsilon_at(ours, theirs, j, delta) for j in coordinates)
        else:
            epsilon = normal_epsilon(ours, theirs, delta)
        return (events.Approximate(epsilon, delta * self.charged.count),) if epsilon > 0 else ()


def rho_in(event: events.Event) -> float:
    """The squared cost, proportional to a squared sensitivity; it is rho of zero-concentrated DP where that is defined."""
    if isinstance(event, events.Approximate):
        return (event.count * event.epsilon) ** 2 / 2
    if isinstance(event, events.SubsampledGaussianEvent):  # at one rate
        return event.count / (2 * event.noise_multiplier**2)
    cost = event.cost()
    return cost.mu2 / 2 + cost.pure_rho + cost.rho
