"""Tao, Wu, Yu, Xu and Wang (IJCAI 2022): heavy tails with only a (1+v)-th moment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._registry import registered
from fattail.algorithms.adaptive import Estimate, Pilot, additive, noise_std, per_column
from fattail.base import is_auto
from fattail.data import PrivateData
from fattail.privacy import Curator, Laplace
from fattail.robust import Clip, MedianOfMeans, Truncate
from fattail.robust.base import Robustifier

Floats = NDArray[np.float64]


@registered(
    "truncated",
    estimators=("DPMean",),
    paper="tao2022",
    algorithm="Algorithm 1",
    changed="clips instead of zeroing, exact calibration for any epsilon, bound from the actual noise; "
    "NaN-safe; without a moment bound, centre and bound are private estimates",
    test="tests/estimators/test_means.py::test_fuzz[truncated]",
)
def truncated_mean(curator: Curator, data: PrivateData, moment: float = 2.0, moment_bound: Any = "auto") -> Estimate:
    """Noisy mean of the values truncated to ``[-B, B]``.

    Parameters
    ----------
    curator : Curator
    data : PrivateData
    moment : float
        Order ``1 + v`` of the moment that is known to exist.
    moment_bound : float, array of shape (d,) or "auto"
        ``E|x|^(1+v)`` at most; "auto" replaces this assumption by a private pilot.
    """
    return _bounded_mean(curator, data, moment, moment_bound, 1, lambda center, bound: Clip(center=center, bound=bound))


@registered(
    "median_of_means",
    estimators=("DPMean",),
    paper="tao2022",
    algorithm="Algorithm 3",
    changed="groups hold their own rows (line 7 sums all of them); one group by default, since truncation already "
    "concentrates and m groups cost m times the noise; odd groups on request",
    test="tests/estimators/test_means.py::test_fuzz[median_of_means]",
)
def median_of_means(
    curator: Curator, data: PrivateData, groups: int = 1, moment: float = 2.0, moment_bound: Any = "auto"
) -> Estimate:
    """Noisy coordinatewise median of the truncated means of ``groups`` groups of rows."""

    def groupwise(center: Floats, bound: Floats) -> MedianOfMeans:
        return MedianOfMeans(Truncate(center=center, bound=bound), groups)

    return _bounded_mean(curator, data, moment, moment_bound, groups, groupwise)


def _bounded_mean(curator: Curator, data: PrivateData, moment: float, moment_bound: Any, groups: int, robust: Any) -> Estimate:
    n, d = data.n, data.d
    if is_auto(moment_bound):
        pilot = Pilot.plan(n, d, curator.epsilon, curator.delta)
        curator.plan(*pilot.mechanisms)
        release = pilot.release
        center, scale, ends = pilot.run(curator, data, symmetric=True, groups=groups)
        bound = scale * np.array([e.above for e in ends])
        spread = scale * np.sqrt([e.bias**2 + e.bias_variance + e.sampling_variance for e in ends])
    else:
        release = additive("mean", d, curator.epsilon, curator.delta)
        curator.plan(release)
        center, u = np.zeros(d), np.broadcast_to(np.asarray(moment_bound, dtype=np.float64), (d,))
        # Half the bound that balances the guarantees: clipping is milder than its worst case.
        bound = 0.5 * (u * n / (2 * groups * noise_std(curator, release, per_column(release, d)))) ** (1 / moment)
        spread = np.sqrt(u * bound ** (2 - moment) / n + (u * bound ** (1 - moment)) ** 2)
    robustifier: Robustifier = robust(center, bound)
    value = curator.release(release, robustifier.mean(data).to(release.norm))
    noise = 2 * bound * noise_std(curator, release, per_column(release, d)) / (n // groups)
    return Estimate(value, noise, spread, isinstance(release, Laplace))
