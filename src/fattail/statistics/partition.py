"""Private discovery of groups: names whose noisy number of units exceeds a threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import Bounded, Laplace, PrivacyError, events
from fattail.privacy.noise import NoiseSource
from fattail.robust.base import ONE
from fattail.statistics.labels import Name


class NamedCounts(Bounded):
    """The number of units of each group that occurs. Names and counts are private until released."""

    __slots__ = ("_names",)
    _names: tuple[Name, ...]

    def __init__(self, names: Sequence[Name], counts: NDArray[np.int64], sensitivity: float) -> None:
        super().__init__(ONE * counts, ONE * sensitivity, "l1", unit=1.0 / ONE)
        object.__setattr__(self, "_names", tuple(names))

    def __repr__(self) -> str:
        return f"NamedCounts(<hidden>, sensitivity={self.sensitivity:g})"


@dataclass(frozen=True)
class NamesAboveThreshold(Laplace):
    """Names and noisy counts of the groups whose noisy count exceeds ``1 + (sensitivity / epsilon) log(1 / failure)``.

    Only groups that occur get noise. A group that holds one unit exceeds the threshold with probability at most
    ``failure``, and one that holds none is never named. Proof: ``partition.proof.md``.

    Parameters
    ----------
    failure : float
        The part of delta that this release takes.
    """

    failure: float = 1e-6

    def _event(self, rho: float, count: int) -> events.Event:
        return events.Approximate(math.sqrt(2 * rho), self.failure, count)

    def validate(self, rho: float) -> None:
        if not 0 < self.failure < 1:
            raise ValueError("finding groups privately needs delta > 0; give their names with groups=[...] instead")

    def threshold(self, rho: float, sensitivity: float) -> float:
        """The threshold of noisy counts (public)."""
        # A margin for the steps of the noise and the rounding of this number.
        return 1.0 + 2.0 / ONE + (1 + 2.0**-40) * self.noise(rho, sensitivity) * math.log(1 / self.failure)

    def check(self, bounded: Bounded, rho: float) -> None:
        super().check(bounded, rho)
        if not isinstance(bounded, NamedCounts):
            raise PrivacyError(f"{self.name!r} releases names with their counts")

    def sample(self, source: NoiseSource, bounded: Bounded, rho: float) -> NDArray[Any]:
        assert isinstance(bounded, NamedCounts)
        released: list[tuple[Name, float]] = []
        if bounded.size:
            noisy = source.laplace(bounded._value, self.noise(rho, bounded.raw_sensitivity)) * (1.0 / ONE)
            least = self.threshold(rho, bounded.sensitivity)
            released = [(name, count) for name, count in zip(bounded._names, noisy.tolist(), strict=True) if count > least]
        output = np.empty((len(released), 2), dtype=object)
        for k, (name, count) in enumerate(released):
            output[k] = name, count
        return output
