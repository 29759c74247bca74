"""The likelihood ratio of the releases of a fit between its data and a neighbor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fattail.audit.replays import Dataset, ReplayedRelease, observed_ratio, releases
from fattail.privacy import Bounded, Gaussian, Laplace, SmoothBounded, SmoothNoise, TopK


def privacy_loss(fit: Callable[..., Any], data: Dataset, neighbor: Dataset) -> float:
    """Log likelihood ratio of the releases of one fit of ``data``, between ``data`` and ``neighbor``.

    It covers all releases, which an attacker who knows both datasets can see (`fattail.results.progress.watch`). By the lemma
    of Neyman and Pearson it is the strongest attack on this pair.
    """
    return float(sum(_log_odds(r) for r in releases(fit, data, neighbor)))


def _log_odds(r: ReplayedRelease) -> float:
    if not math.isfinite(observed_ratio(r.ours, r.theirs)):
        return math.inf  # something that must be public differs
    if type(r.mechanism) not in (Gaussian, Laplace, TopK) and not isinstance(r.mechanism, SmoothNoise):
        raise NotImplementedError(f"likelihood of {r.mechanism.kind} releases")
    if isinstance(r.mechanism, TopK):
        return _log_picks(r, r.ours) - _log_picks(r, r.theirs)
    if isinstance(r.mechanism, SmoothNoise):
        return _log_smooth(r, r.ours) - _log_smooth(r, r.theirs)
    noisy = (r.output - r.ours.offset) / r.ours.unit
    ours, theirs = (noisy - b._value for b in (r.ours, r.theirs))
    scale = r.mechanism.noise(r.rho, r.ours.raw_sensitivity)
    assert scale is not None
    if r.mechanism.norm == "l2":
        return float(np.sum((theirs - ours) * (theirs + ours))) / (2 * scale**2)
    return float(np.sum(np.abs(theirs) - np.abs(ours))) / scale


def _log_picks(r: ReplayedRelease, bounded: Bounded) -> float:
    """Log-probability of a selection in its order."""
    real = bounded.evaluated()
    scale = r.mechanism.noise(r.rho, real.raw_sensitivity)
    assert scale is not None
    weight = real._value.ravel() / (scale * (0.5 if bounded.monotone else 1.0))
    total = 0.0
    for pick in r.output.astype(np.intp):
        total += float(weight[pick] - special.logsumexp(weight))
        weight[pick] = -math.inf
    return total


def normal_draws(r: ReplayedRelease, bounded: Bounded) -> tuple[NDArray[Any], NDArray[Any]]:
    """The normal draws that would have led from this value to what a smooth release gave, and their scales."""
    assert isinstance(bounded, SmoothBounded) and isinstance(r.mechanism, SmoothNoise)
    scale, width = r.mechanism.multiplier(r.rho) * bounded._smooth.ravel(), r.mechanism.width
    z = ((r.output - bounded.offset) / bounded.unit - bounded._value).ravel() / scale
    return (np.arcsinh(width * z) / width if width else z), scale


def _log_smooth(r: ReplayedRelease, bounded: Bounded) -> float:
    """Log-density of noise in proportion to a smooth sensitivity."""
    assert isinstance(r.mechanism, SmoothNoise)
    y, scale = normal_draws(r, bounded)
    return float(np.sum(-(y**2) / 2 - np.log(np.cosh(r.mechanism.width * y)) - np.log(scale)))
