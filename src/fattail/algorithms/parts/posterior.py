"""Arithmetic on releases: the posterior of a step, mean squares less their noise, and what a clip may miss."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import TINY

Floats = NDArray[np.float64]

OFF_DIAGONAL = 5 / 7
"""Noise of a released moment off the diagonal, as a multiple of that on it (``robust/gram.py``)."""
LEAST_KEPT = 0.0025
"""Least share of the differences among released moments that is kept."""
LEAST_ERROR = 0.5
"""Least error of a moment that was shrunk, over its noise: a few moments may be larger than most of them."""


def posterior_step(gram: Floats, gradient: Floats, noise: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Posterior mean and covariance of delta ~ N(0, k prior) given gradient = gram delta + noise, k of greatest likelihood."""
    half = np.linalg.inv(np.linalg.cholesky(noise))
    design = half @ gram
    spread = design @ prior @ design.T
    values, vectors = np.linalg.eigh((spread + spread.T) / 2)
    values, seen = np.maximum(values, 0.0), vectors.T @ (half @ gradient)
    scales = 2.0 ** np.arange(-20, 24)  # upwards too: a round may show what the one before it could not
    total = scales[:, None] * values + 1
    k = float(scales[int(np.argmax(-np.sum(seen**2 / total + np.log(total), axis=1)))])
    gain = k * prior @ design.T @ vectors / (k * values + 1)
    return np.asarray(gain @ seen), np.asarray(k * prior - gain @ (vectors.T @ design) @ (k * prior))


def shrunken_moments(gram: Floats, noise: float) -> tuple[Floats, Floats]:
    """Posterior mean of released second moments of standardized columns, and the standard error of each entry (of one on the
    diagonal, times `OFF_DIAGONAL`).

    Entries off the diagonal that no noise explains are kept. The others are normal, and those on the diagonal are normal around
    their mean; the data say how much they vary. What noise explains of their differences is taken away, so that columns without
    visible correlations stay as they are.
    """
    p, diagonal = len(gram), np.diag(gram)
    off = gram - np.diag(diagonal)
    rest = np.abs(off) < math.sqrt(2 * math.log(max(p**2, 2))) * noise
    kept = _kept(float(np.sum(off[rest] ** 2)), float(rest.sum() - p) * noise**2)
    level = max(float(np.mean(diagonal)), TINY)
    apart = diagonal - level
    even = _kept(float(np.sum(apart**2)), p * (noise / OFF_DIAGONAL) ** 2)
    errors = np.where(rest, max(math.sqrt(kept), LEAST_ERROR), 1.0) * noise
    np.fill_diagonal(errors, noise)  # how much a few of them vary is hardly known
    return np.diag(level + even * apart) + np.where(rest, kept, 1.0) * off, errors


def _kept(square: float, explained: float) -> float:
    """Share of a sum of squares that noise does not explain."""
    return max(LEAST_KEPT, 1.0 - explained / max(square, TINY))


def smoothed_squares(found: Floats, noise: float) -> Floats:
    """Released mean squares; what differs among them counts as far as it exceeds the noise."""
    level = max(float(np.mean(found)), noise / math.sqrt(found.size), TINY)
    kept = max(0.0, 1 - noise**2 / max(float(np.var(found)), TINY))
    return np.asarray(np.maximum(level + kept * (found - level), level / 4))


def beyond(size: float, clip: float) -> float:
    """Upper bound of what a clipped mean misses: ``E(r - c)+ <= E r^2 / (4 c)``, for twice the size, which was clipped before."""
    return size**2 / clip
