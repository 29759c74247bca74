"""Peeling with Laplace noise, as printed (tao2022 Algorithm 4, tian2025 Algorithm 2).

One-shot Gumbel selection with Gaussian release needs two to five times less noise. These are kept to reproduce the papers, with
noise by exact composition instead of the printed constants, which fail for large epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import events
from fattail.privacy.bounded import Bounded, Norm
from fattail.privacy.mechanisms import Mechanism, on_grid
from fattail.privacy.noise import NoiseSource


@dataclass(frozen=True)
class LaplacePeeling(Mechanism):
    """Indices of the ``k`` largest scores, by ``k`` rounds of report-noisy-max with fresh Laplace noise.

    A round with noise of scale b is ``2 sensitivity / b``-DP, and k rounds compose.
    """

    k: int = 1
    norm: ClassVar[Norm] = "linf"

    def _event(self, rho: float, count: int) -> events.Event:
        return events.Pure(math.sqrt(2 * rho / self.k), count * self.k)

    def noise(self, rho: float, sensitivity: float) -> float:
        return 2 * sensitivity * math.sqrt(self.k / (2 * rho))

    def sample(self, source: NoiseSource, bounded: Bounded, rho: float) -> NDArray[np.float64]:
        if not 1 <= self.k <= bounded.size:
            raise ValueError(f"cannot select {self.k} of {bounded.size}")
        real = bounded.evaluated()
        steps, sensitivity, _ = on_grid(real, self.noise(rho, real.raw_sensitivity))
        left = np.arange(bounded.size)
        chosen = []
        for _ in range(self.k):
            best = int(np.argmax(source.laplace(steps[left], self.noise(rho, sensitivity))))
            chosen.append(left[best])
            left = np.delete(left, best)
        return np.array(chosen, dtype=np.float64)


@dataclass(frozen=True)
class LaplaceValues(Mechanism):
    """Laplace noise on each of ``k`` coordinates, which compose as k pure releases."""

    k: int = 1
    norm: ClassVar[Norm] = "linf"

    def _event(self, rho: float, count: int) -> events.Event:
        return events.Pure(math.sqrt(2 * rho / self.k), count * self.k)

    def noise(self, rho: float, sensitivity: float) -> float:
        return sensitivity * math.sqrt(self.k / (2 * rho))

    def sample(self, source: NoiseSource, bounded: Bounded, rho: float) -> NDArray[np.float64]:
        if bounded.size != self.k:
            raise ValueError(f"{self.name!r} was planned for {self.k} coordinates, got {bounded.size}")
        steps, sensitivity, grid = on_grid(bounded, self.noise(rho, bounded.raw_sensitivity))
        noisy = source.laplace(steps, self.noise(rho, sensitivity))
        return np.asarray(bounded.offset + bounded.unit * (noisy * grid), dtype=np.float64)
