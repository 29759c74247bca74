"""Wang, Xiao, Devadas and Xu (ICML 2020): smoothed and trimmed means, and gradient descent on them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fattail._registry import registered
from fattail.algorithms.adaptive import Estimate
from fattail.base import is_auto
from fattail.data import PrivateData
from fattail.privacy import Curator, SmoothNoise, TopK
from fattail.robust import Trimmed
from fattail.scale import column_medians, column_scales


@registered(
    "trimmed",
    estimators=("DPMean",),
    paper="wang2020",
    algorithm="Algorithm 2",
    changed="noise scaled to the exact smooth sensitivity (the printed scale is not smooth and leaks an outlier), "
    "constants of a single release, trimming count from public numbers",
    test="tests/estimators/test_means.py::test_fuzz[trimmed]",
)
def trimmed_mean(curator: Curator, data: PrivateData, moment: float = 2.0, moment_bound: Any = "auto") -> Estimate:
    """Mean without the m smallest and m largest values of each column, noise by smooth sensitivity.

    Values are first clipped to a huge range, which enters the noise only through a factor
    ``exp(-t m)``; m is the smallest that makes it harmless. The range comes from the moment
    bound, or from a private median and scale.
    """
    n, d = data.n, data.d
    # One column composes by adding epsilons (0.1, 0.1 and 0.8), several by adding rho.
    release = SmoothNoise("mean", 0.8**2 / 2 if d == 1 else 0.8, coordinates=d, one_shot=d == 1)
    if is_auto(moment_bound):
        share = 0.1**2 / 8 if d == 1 else 0.1
        selections = TopK("location", share, count=d), TopK("scale", share, count=d)
        curator.plan(*selections, release)
        center = column_medians(curator, selections[0], data)
        typical = column_scales(curator, selections[1], data, center)
        reach = np.abs(center) + 64 * typical
    else:
        curator.plan(release)
        u = np.broadcast_to(np.asarray(moment_bound, dtype=np.float64), (d,))
        typical, reach = u ** (1 / moment), 10 * (n * u) ** (1 / moment)
    smoothness = curator.smoothness(release)
    bound = float(min(reach.max(), 1e150))
    trim = math.ceil(math.log(2 * bound / float(max(typical.min(), 1e-150))) / smoothness)
    return Estimate(curator.release(release, Trimmed(min(max(trim, 1), n // 4), bound, smoothness).mean(data)))
