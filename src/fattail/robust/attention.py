"""The center of attention of a cloud of points (wang2020 Algorithm 1, corrected)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import TINY
from fattail.privacy.mechanisms import SmoothBounded
from fattail.robust.base import check_scale
from fattail.rows.data import PrivateData


@dataclass(frozen=True)
class Attention:
    """The point whose ball around half of all points is smallest, with a smooth sensitivity in l2.

    Parameters
    ----------
    radius : float
        Points are first projected to the ball of this radius around the origin.
    smoothness : float
        From the curator.

    Notes
    -----
    *Privacy.* With ``r_i(t)`` the distance of point i to its t-th neighbor and ``rho(t)`` the mean of the
    ``q = ceil(2 / smoothness)`` smallest, ``S = 2 max_k rho(t0 + k + 1) exp(-smoothness k / 2)`` bounds the
    local sensitivity and is smooth; beyond the last point rho is the diameter, and so is S throughout where
    q exceeds half of the points. The paper's mean of the *largest* radii is not smooth. Proof: ``attention.proof.md``.
    """

    radius: float
    smoothness: float

    def __post_init__(self) -> None:
        check_scale("radius", self.radius)
        check_scale("smoothness", self.smoothness)

    def mean(self, points: PrivateData) -> SmoothBounded:
        Z = points._gather(lambda block: np.asarray(block.X, dtype=np.float64))
        norms = np.sqrt(np.einsum("ij,ij->i", Z, Z))
        Z = Z * np.minimum(1.0, self.radius / np.maximum(norms, TINY))[:, None]
        diameter = 2 * self.radius * (1 + 2.0**-40)  # points are projected up to rounding
        value, size = attention(Z, diameter, self.smoothness * (1 - 2.0**-8))
        # Rounded radii may select a point that is worse by this much; the constant covers radii whose squares underflow.
        return SmoothBounded(value, np.full(len(value), size * (1 + 2.0**-20) + 2.0**-51 * diameter), self.smoothness)


def attention(Z: NDArray[np.float64], diameter: float, smoothness: float) -> tuple[NDArray[np.float64], float]:
    """The center and the smooth sensitivity, for points of a set of this diameter."""
    m = len(Z)
    half = (m + 1) // 2 + 1
    smallest_count = math.ceil(2 / smoothness)
    radii = np.sort([np.sqrt(np.sum((Z - z) ** 2, axis=1)) for z in Z], axis=1)  # radii[i, t - 1] is r_i(t)
    center = Z[int(np.argmin(radii[:, min(half, m) - 1]))]
    if smallest_count > m / 2 or smoothness > 1:
        return center, 2 * diameter
    smallest = np.sort(radii[:, half:], axis=0)[:smallest_count].mean(axis=0)  # rho(half + 1), ..., rho(m)
    rho = np.append(smallest, diameter)
    return center, 2 * float(np.max(rho * np.exp(-smoothness / 2 * np.arange(len(rho)))))
