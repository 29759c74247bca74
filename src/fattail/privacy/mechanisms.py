"""Mechanisms: the ways in which a private value may be released.

A mechanism is planned with a ``share`` of the budget, spread over ``count`` releases. The
curator turns shares into ``rho`` (zero-concentrated DP, per release). Each class states next
to its sampler which event a release with this ``rho`` is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import events
from fattail.privacy.bounded import Bounded, Norm, PrivacyError
from fattail.privacy.noise import NoiseSource
from fattail.rows.order import Sample

# Floats are put on a grid of 2^-28 noise scales and saturate at 2^50 steps, so that the
# rounding of a few floating-point operations stays below one step.
_GRID_BITS = 28
_LIMIT = 2.0**50


@dataclass(frozen=True)
class Mechanism:
    """A planned release.

    Parameters
    ----------
    name : str
        What is released, in the words of the report.
    share : float
        Weight in the budget of all ``count`` releases together, relative to the other
        mechanisms of the plan.
    count : int
        How often it will be released.
    folds : bool
        The releases are on disjoint folds, so each may spend the whole share.
    parts : int
        Into how many releases ``Curator.split`` may divide it, by amounts that depend on earlier releases.
    """

    name: str
    share: float = 1.0
    count: int = 1
    folds: bool = False
    parts: int = 1
    norm: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.share) and self.share > 0):
            raise ValueError(f"share of {self.name!r} must be positive and finite, got {self.share!r}")
        if self.count != int(self.count) or self.count < 1:
            raise ValueError(f"count of {self.name!r} must be a positive integer, got {self.count!r}")
        # What can be divided is proved class by class, so a subclass says so itself.
        divisible = "part" in vars(type(self)) and self.count == 1 and not self.folds
        if self.parts != 1 and not (divisible and self.parts == int(self.parts) and self.parts > 1):
            raise ValueError(f"{self.name!r} cannot be divided into {self.parts!r} parts")

    @property
    def kind(self) -> str:
        return type(self).__name__

    def rho(self, unit: float) -> float:
        """Budget of one release when the whole plan's shares are multiplied by ``unit``."""
        return self.share * unit / (1 if self.folds else self.count)

    def validate(self, rho: float) -> None:
        """Refuse a budget for which nothing is proved, before it is charged."""

    def part(self, rho: float, fraction: float) -> float:
        """Budget of a release that spends this fraction of one with budget ``rho``."""
        raise PrivacyError(f"{self.kind} {self.name!r} cannot be divided")

    def event(self, unit: float) -> events.Event:
        one = self._event(self.rho(unit), 1 if self.folds else self.count)
        return events.Parallel(tuple((one,) for _ in range(self.count))) if self.folds else one

    def _event(self, rho: float, count: int) -> events.Event:
        raise NotImplementedError

    def noise(self, rho: float, sensitivity: float) -> float | None:
        """Scale of the noise in units of the released quantity; None where it is private."""
        raise NotImplementedError

    def sample(self, source: NoiseSource, bounded: Bounded, rho: float) -> NDArray[np.float64]:
        raise NotImplementedError

    def check(self, bounded: Bounded, rho: float) -> None:
        if not bounded.raw_sensitivity > 0:
            raise PrivacyError(f"{self.name!r} has no sensitivity to calibrate noise for")
        if bounded.norm != self.norm:
            raise PrivacyError(
                f"{self.kind} is calibrated for {self.norm} sensitivity but {self.name!r} has {bounded.norm}; "
                f"convert it with .to({self.norm!r})"
            )


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Gaussian noise, ``1 / sqrt(2 rho)`` times the l2 sensitivity: exactly Gaussian DP."""

    def _event(self, rho: float, count: int) -> events.Event:
        # Parts add up to rho, however it is divided. Equal ones are recorded, so that the slack of each is counted.
        return events.GaussianEvent(math.sqrt(self.parts) / math.sqrt(2 * rho), count * self.parts)

    def part(self, rho: float, fraction: float) -> float:
        return fraction * rho

    def noise(self, rho: float, sensitivity: float) -> float:
        return sensitivity / math.sqrt(2 * rho)

    def sample(self, source: NoiseSource, bounded: Bounded, rho: float) -> NDArray[np.float64]:
        steps, sensitivity, grid = on_grid(bounded, self.noise(rho, bounded.raw_sensitivity))
        noisy = source.gaussian(steps, self.noise(rho, sensitivity))
        return np.asarray(bounded.offset + bounded.unit * (noisy * grid), dtype=np.float64)


@dataclass(frozen=True)
class SubsampledGaussian(Gaussian):
    """Gaussian noise on a secret Poisson sample of the rows, ``rate`` of them on average."""

    rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folds:
            raise ValueError(f"{self.name!r}: Poisson samples overlap, so they do not compose in parallel")

    def _event(self, rho: float, count: int) -> events.Event:
        return events.SubsampledGaussianEvent(1 / math.sqrt(2 * rho), self.rate, count)

    def check(self, bounded: Bounded, rho: float) -> None:
        super().check(bounded, rho)
        if not (isinstance(bounded.fold, Sample) and bounded.fold.rate == self.rate):
            raise PrivacyError(f"{self.name!r} must be computed on a sample drawn by the curator at rate {self.rate:g}")


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Laplace noise: pure DP with ``epsilon = sqrt(2 rho)`` for each release."""

    norm: ClassVar[Norm] = "l1"

    def _event(self, rho: float, count: int) -> events.Event:
        return events.Pure(math.sqrt(2 * rho), count)

    def part(self, rho: float, fraction: float) -> float:
        return fraction**2 * rho  # a fraction of epsilon

    def noise(self, rho: float, sensitivity: float) -> float:
        return sensitivity / math.sqrt(2 * rho)

    def sample(self, source: NoiseSource, bounded: Bounded, rho: float) -> NDArray[np.float64]:
        steps, sensitivity, grid = on_grid(bounded, self.noise(rho, bounded.raw_sensitivity))
        noisy = source.laplace(steps, self.noise(rho, sensitivity))
        return np.asarray(bounded.offset + bounded.unit * (noisy * grid), dtype=np.float64)


@dataclass(frozen=True)
class TopK(Mechanism):
    """Indices of the ``k`` largest scores, largest first, by one-shot Gumbel noise.

    Equals ``k`` rounds of the exponential mechanism without replacement. Scores
    that all move in one direction (``monotone``) need half the noise.
    """

    k: int = 1
    norm: ClassVar[Norm] = "linf"

    def _event(self, rho: float, count: int) -> events.Event:
        return events.BoundedRange(math.sqrt(8 * rho / self.k), count * self.k)

    def noise(self, rho: float, sensitivity: float) -> float:
        """Gumbel scale for two-sided scores."""
        return sensitivity * math.sqrt(self.k / (2 * rho))

    def sample(self, source: NoiseSource, bounded: Bounded, rho: float) -> NDArray[np.float64]:
        if not 1 <= self.k <= bounded.size:
            raise ValueError(f"cannot select {self.k} of {bounded.size}")
        sides = 0.5 if bounded.monotone else 1.0
        real = bounded.evaluated()
        steps, sensitivity, _ = on_grid(real, sides * self.noise(rho, real.raw_sensitivity))
        return source.top_k(steps, self.k, sides * self.noise(rho, sensitivity), bounded.monotone).astype(np.float64)


@dataclass(frozen=True)
class SmoothNoise(Mechanism):
    """Noise scaled to a smooth sensitivity: ``value + (S / s) sinh(width Z) / width``.

    ``S`` depends on the data and is never reported. Each of ``coordinates`` values gets its own share
    of the release. With ``one_shot`` the privacy loss of a coordinate is at most its epsilon, except with
    probability 1e-40; otherwise it is dominated by a Gaussian release. Both are proved for every
    epsilon at once, from two inequalities in one variable (``scripts/prove_smooth_noise.py``).
    """

    one_shot: bool = False
    coordinates: int = 1
    # Range of the epsilon of a coordinate: below it, the rounding of S would matter; above it, a single release uses no more.
    min_epsilon: ClassVar[float] = 1e-6
    max_epsilon: ClassVar[float] = 4.0
    # Of a single release: twice the normal tail beyond the reach that the script certifies.
    tail: ClassVar[float] = 1e-40

    @property
    def constants(self) -> tuple[float, float, float]:
        """Width of the noise, and smoothness and scale per unit of epsilon."""
        return (0.75, 0.05, 0.75) if self.one_shot else (0.375, 0.10, 0.96)

    def _epsilon(self, rho: float) -> float:
        epsilon = math.sqrt(2 * rho / self.coordinates)
        return min(epsilon, self.max_epsilon) if self.one_shot else epsilon

    def smoothness(self, rho: float) -> float:
        """The ``t`` for which the smooth sensitivity must be computed."""
        # A margin for the rounding of the product of S and a public number.
        return self.constants[1] * self._epsilon(rho) - 2.0**-45

    def validate(self, rho: float) -> None:
        if not self._epsilon(rho) >= self.min_epsilon:
            raise ValueError(
                f"{self.name!r} would get epsilon {self._epsilon(rho):.2g} for each of its values; "
                f"its noise is proved from {self.min_epsilon:g} on"
            )

    def _event(self, rho: float, count: int) -> events.Event:
        if self.one_shot:
            return events.Approximate(math.sqrt(2 * rho / self.coordinates), self.tail, count * self.coordinates)
        return events.GaussianEvent(1 / math.sqrt(2 * rho), count)

    def noise(self, rho: float, sensitivity: float) -> None:
        return None

    def check(self, bounded: Bounded, rho: float) -> None:
        if not isinstance(bounded, SmoothBounded):
            raise PrivacyError(f"{self.name!r} needs a value with a smooth sensitivity")
        if bounded.size != self.coordinates:
            raise PrivacyError(f"{self.name!r} was planned for {self.coordinates} coordinates, got {bounded.size}")
        if bounded.smoothness > self.smoothness(rho):
            raise PrivacyError(
                f"{self.name!r} was computed for smoothness {bounded.smoothness:g}, its noise allows {self.smoothness(rho):g}"
            )

    @property
    def width(self) -> float:
        """0 for noise that is normal."""
        return self.constants[0]

    def multiplier(self, rho: float) -> float:
        """Scale of the noise in units of the smooth sensitivity (public)."""
        # The factor covers rounding: of this number, and of its product with S.
        return (1 + 2.0**-40) / (self.constants[2] * self._epsilon(rho))

    def sample(self, source: NoiseSource, bounded: Bounded, rho: float) -> NDArray[np.float64]:
        assert isinstance(bounded, SmoothBounded)
        noisy = source.smooth(bounded._value, self.multiplier(rho) * bounded._smooth, self.width)
        return np.asarray(bounded.offset + bounded.unit * noisy, dtype=np.float64)


class SmoothBounded(Bounded):
    """Coordinates, each with its own ``smoothness``-smooth sensitivity, all private.

    Both hold for the floats themselves: one row moves a value by no more than its ``smooth`` in either
    dataset, and that by no more than a factor ``exp(smoothness)``, all rounding included.
    """

    __slots__ = ("_smooth", "smoothness")
    _smooth: NDArray[np.float64]
    smoothness: float

    def __init__(self, value: NDArray[np.float64], smooth: NDArray[np.float64], smoothness: float, **kwargs: object) -> None:
        super().__init__(value, 0.0, "linf", **kwargs)  # type: ignore[arg-type]
        object.__setattr__(self, "_smooth", np.broadcast_to(np.asarray(smooth, dtype=np.float64), self._value.shape))
        object.__setattr__(self, "smoothness", smoothness)

    @property
    def sensitivity(self) -> float:
        return math.nan

    def __repr__(self) -> str:
        return f"SmoothBounded(<hidden>, smoothness={self.smoothness:g}, shape={self.shape})"


def on_grid(bounded: Bounded, scale: float) -> tuple[NDArray[np.int64], float, float]:
    """Value in integer steps, its sensitivity in steps, and the step.

    Exact sums are already integers. Floats are rounded to a power of two far below the
    noise ``scale``; the returned sensitivity includes that rounding and the one of the
    arithmetic before it, a step each per coordinate. Saturation moves nothing apart.
    """
    value, sensitivity = bounded._value, bounded.raw_sensitivity
    if value.dtype == np.int64:
        return value, sensitivity, 1.0
    grid = 2.0 ** max(math.floor(math.log2(scale)) - _GRID_BITS, -1000)
    with np.errstate(over="ignore"):
        steps = np.rint(np.clip(value / grid, -_LIMIT, _LIMIT)).astype(np.int64)
    coordinates = {"l1": float(value.size), "l2": math.sqrt(value.size), "linf": 1.0}[bounded.norm]
    return steps, sensitivity / grid + 2 * coordinates, grid
