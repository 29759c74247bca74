"""Public post-processing: nothing here sees data, only releases and public numbers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def project_ball(w: ArrayLike, radius: float) -> Floats:
    """Nearest point of the l2 ball around 0.

    Examples
    --------
    >>> project_ball([3.0, 4.0], 1.0)
    array([0.6, 0.8])
    """
    w = np.asarray(w, dtype=np.float64)
    norm = float(np.linalg.norm(w))
    return w if norm <= radius else w * (radius / norm)


def raise_eigenvalues(matrix: Floats, least: float) -> Floats:
    """A symmetric matrix with its eigenvalues raised to at least this.

    Examples
    --------
    >>> raise_eigenvalues(np.diag([2.0, -1.0]), 0.5)
    array([[2. , 0. ],
           [0. , 0.5]])
    """
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)


def project_l1_ball(w: ArrayLike, radius: float) -> Floats:
    """Nearest point of the l1 ball around 0, by sorting (Duchi et al. 2008).

    Examples
    --------
    >>> project_l1_ball([2.0, -1.0], 1.0)
    array([ 1., -0.])
    """
    w = np.asarray(w, dtype=np.float64)
    magnitude = np.abs(w)
    if magnitude.sum() <= radius:
        return w
    descending = np.sort(magnitude)[::-1]
    excess = (np.cumsum(descending) - radius) / np.arange(1, w.size + 1)
    cut = excess[np.flatnonzero(descending > excess)[-1]]
    return np.asarray(np.sign(w) * np.maximum(magnitude - cut, 0.0))


def hard_threshold(w: ArrayLike, s: int) -> Floats:
    """Keep the ``s`` entries of largest magnitude (ties to the lower index), zero the rest.

    Examples
    --------
    >>> hard_threshold([0.1, -3.0, 2.0], 2)
    array([ 0., -3.,  2.])
    """
    w = np.asarray(w, dtype=np.float64)
    out = np.zeros_like(w)
    keep = top_indices(w, s)
    out[keep] = w[keep]
    return out


def top_indices(w: ArrayLike, s: int) -> NDArray[np.intp]:
    """Indices of the ``s`` largest magnitudes, in increasing order."""
    return np.sort(np.argsort(-np.abs(np.asarray(w)), kind="stable")[:s])


def cross_polytope_vertex(index: int, d: int, radius: float) -> Floats:
    """Vertex ``index`` of the l1 ball: ``+radius e_j`` for ``j = index < d``, ``-radius e_j`` for ``j = index - d``.

    Examples
    --------
    >>> cross_polytope_vertex(4, 3, 2.0)
    array([ 0., -2.,  0.])
    """
    vertex = np.zeros(d)
    vertex[index % d] = radius if index < d else -radius
    return vertex


SHARES = np.array([0.001, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 1.0])
"""Grid of shares of nonzero coefficients for the maximum likelihood, dense at both ends."""
LEAST_INCLUSION = 0.2
"""Probability of not being zero below which a coefficient is dropped; set by hand in the first version."""


def shrink(estimate: ArrayLike, noise: ArrayLike, others: float = 0.0, most: float = math.inf) -> Floats:
    """Empirical-Bayes shrinkage of noisy coefficients, many of which may be zero.

    A coefficient is zero with some probability, else normal; both the probability and the spread are estimated from the
    coefficients by maximum likelihood. The result is the posterior mean, and exactly 0 where zero is far more likely. So the
    error stays near that of the zero vector when all is noise. The largest of many coefficients are partly large by chance, so
    the number of candidates matters.

    Parameters
    ----------
    estimate : array of shape (k,)
    noise : float or array of shape (k,)
        Known standard deviation of the noise in each estimate.
    others : float
        Number of coefficients that were considered and left out because they looked smaller.
    most : float
        How many of all are expected not to be zero, at most.

    Examples
    --------
    >>> shrink([5.0, 0.3, -0.2, -4.0, 0.1], 0.5).round(2)
    array([ 4.92,  0.  , -0.  , -3.94,  0.  ])
    """
    b = np.asarray(estimate, dtype=np.float64)
    variance = np.broadcast_to(np.asarray(noise, dtype=np.float64) ** 2, b.shape)
    if b.size == 0:
        return b
    total = b.size + others
    share = np.minimum(SHARES * b.size, most)[:, None, None] / total
    spread = (variance.mean() * 2.0 ** np.arange(26))[:, None]
    with np.errstate(divide="ignore"):
        null = np.log(1 - share) + _log_normal(b, variance)
        alternative = np.log(share) + _log_normal(b, variance + spread)
        left_out = others * np.log(1 - share[..., 0]) if others else 0.0
    both = np.logaddexp(null, alternative)
    i, j = np.unravel_index(int(np.argmax(both.sum(axis=-1) + left_out)), both.shape[:2])
    inclusion = np.exp(alternative[i, j] - both[i, j])
    return np.where(inclusion >= LEAST_INCLUSION, inclusion * b * spread[j] / (spread[j] + variance), 0.0 * b)


def _log_normal(x: Floats, variance: Floats) -> Floats:
    return np.asarray(-0.5 * (x * x / variance + np.log(variance)))
