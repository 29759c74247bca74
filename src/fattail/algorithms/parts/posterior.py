"""Arithmetic on releases: the posterior of a step, mean squares less their noise, and what a clip may miss."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import TINY

Floats = NDArray[np.float64]


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


def smoothed_squares(found: Floats, noise: float) -> Floats:
    """Released mean squares; what differs among them counts as far as it exceeds the noise."""
    level = max(float(np.mean(found)), noise / math.sqrt(found.size), TINY)
    kept = max(0.0, 1 - noise**2 / max(float(np.var(found)), TINY))
    return np.asarray(np.maximum(level + kept * (found - level), level / 4))


def beyond(size: float, clip: float) -> float:
    """Upper bound of what a clipped mean misses: ``E(r - c)+ <= E r^2 / (4 c)``, for twice the size, which was clipped before."""
    return size**2 / clip
