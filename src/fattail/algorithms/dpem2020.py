"""Wang, Ding, Hu, Xie and Xu (2020): the smoothed mean with a better scale, and its local version."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._registry import registered
from fattail.algorithms.adaptive import Estimate, Noise, Pilot, additive, noise_std, per_column
from fattail.base import is_auto
from fattail.data import PrivateData
from fattail.privacy import Curator, Fold, Gaussian, Laplace
from fattail.robust import Smooth, catoni
from fattail.scale import local_octaves

Floats = NDArray[np.float64]

BETA = math.sqrt(math.log(20.0))
"""Precision of the multiplicative noise that smooths the influence function: sqrt(ln(1/zeta)) at zeta = 5 %."""


@registered(
    "smoothed",
    estimators=("DPMean",),
    paper="dpem2020",
    algorithm="Theorem 2 (wang2020 eq. 12)",
    changed="stable evaluation clamped to its exact supremum (the printed closed form leaves its bound in floating "
    "point), exact sensitivity and calibration, scale that balances bias and actual noise",
    test="tests/estimators/test_means.py::test_fuzz[smoothed]",
)
def smoothed_mean(curator: Curator, data: PrivateData, moment_bound: Any = "auto") -> Estimate:
    """Noisy mean of ``s g(x / s)`` with the Catoni-Giulini map g.

    Parameters
    ----------
    curator : Curator
    data : PrivateData
    moment_bound : float, array of shape (d,) or "auto"
        Second moment at most; "auto" replaces this assumption by a private pilot.
    """
    n, d, sup = data.n, data.d, catoni.sup(BETA)
    if is_auto(moment_bound):
        pilot = Pilot.plan(n, d, curator.epsilon, curator.delta)
        curator.plan(*pilot.mechanisms)
        release: Noise = pilot.release
        center, scale, ends = pilot.run(curator, data, symmetric=True)
        s = scale * np.array([e.above for e in ends]) / sup
        spread = scale * np.sqrt([e.bias**2 + e.bias_variance + e.sampling_variance for e in ends])
    else:
        release = additive("mean", d, curator.epsilon, curator.delta)
        curator.plan(release)
        center, tau = np.zeros(d), np.broadcast_to(np.asarray(moment_bound, dtype=np.float64), (d,))
        s = balanced_scale(tau, n, noise_std(curator, release, per_column(release, d)))
        spread = np.sqrt(tau / n + (tau / (2 * s) * (1 + 1 / BETA)) ** 2)
    value = curator.release(release, Smooth(center=center, scale=s, beta=BETA).mean(data).to(release.norm))
    noise = 2 * s * sup * noise_std(curator, release, per_column(release, d)) / n
    return Estimate(value, noise, spread, isinstance(release, Laplace))


def balanced_scale(second_moment: Floats, n: float, noise: float) -> Floats:
    """Scale at which the bias ``tau (1 + 1/beta) / (2 s)`` equals the noise ``2 s M noise / n``."""
    result: Floats = np.sqrt(second_moment * (1 + 1 / BETA) * n / (4 * catoni.sup(BETA) * noise))
    return result


@registered(
    "local",
    estimators=("DPMean",),
    paper="dpem2020",
    algorithm="Theorem 3",
    changed="exact range of the smoothed map and exact calibration; without a moment bound, a fifth of the rows tell "
    "their noisy order of magnitude and the others are asked for their value",
    claim="(epsilon, delta)-DP for each row by itself (local model)",
    test="tests/estimators/test_means.py::test_fuzz[local]",
)
def local_mean(curator: Curator, data: PrivateData, moment_bound: Any = "auto") -> Estimate:
    """Mean of rows each of which was smoothed and perturbed by itself.

    Notes
    -----
    *Privacy.* The matrix of all smoothed rows changes in one row when that row is replaced, so
    noise for the range of one row on every entry protects each row on its own; rows of the two
    rounds are disjoint.
    """
    n, d, sup = data.n, data.d, catoni.sup(BETA)
    rounds = 2 if is_auto(moment_bound) else 1
    if n < 5 * (rounds - 1):
        raise ValueError(f"n_samples={n} is too few to ask a fifth of the rows for the scale: 5 would do")
    kind = additive("rows", d, curator.epsilon, curator.delta)
    release: Noise = (Laplace if isinstance(kind, Laplace) else Gaussian)("rows", count=rounds, folds=rounds > 1)
    curator.plan(release)
    noise = noise_std(curator, release, per_column(release, d))
    fold = None
    if is_auto(moment_bound):
        asked = min(max(n // 5, 1), 4000)
        fold = Fold(1, 2, asked, n)
        magnitude, share, error = local_octaves(curator, release, data, Fold(0, 2, 0, asked))
        s = np.array([_scale_of(magnitude, p, error, 2 * sup * noise / math.sqrt(len(fold))) for p in share])
        spread = None
    else:
        tau = np.broadcast_to(np.asarray(moment_bound, dtype=np.float64), (d,))
        s = balanced_scale(tau, math.sqrt(n), noise)
        spread = np.sqrt(tau / n + (tau / (2 * s) * (1 + 1 / BETA)) ** 2)
    rows = curator.release(release, Smooth(scale=s, beta=BETA).rows(data, release.norm, fold))
    return Estimate(rows.mean(axis=0), 2 * s * sup * noise / math.sqrt(len(rows)), spread)


def _scale_of(magnitude: Floats, share: Floats, error: float, noise: float) -> float:
    """Scale with the smallest sum of squared bias and noise, given noisy shares of rows per octave."""
    believed = np.where(share > 4.5 * error, share, 0.0)
    bias = np.maximum(magnitude - magnitude[:, None], 0.0) @ believed
    return float(magnitude[np.argmin(bias**2 + (noise * magnitude) ** 2)])
