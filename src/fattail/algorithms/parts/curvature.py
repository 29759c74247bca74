"""How well released second moments are known, and what steps in their units may leave.

In units u of a released matrix, second moments of rows are about the identity, up to noise whose law is known. Along a direction
that noise made look longer than it is, the curvature is less than one and steps move too little. Such a direction need not be
one of those of u, so no number for each of them tells what is left. Here matrices are drawn that the releases allow, and the
steps are repeated under each of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.geometry import raise_eigenvalues

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

DRAWS, STARTS = 24, 4
"""Matrices that are drawn, and errors of the start for each: variances are then known to 15 percent."""
SEED = 20  # the draws are public arithmetic: the same for every fit


@dataclass(frozen=True)
class ReleasedMatrix:
    """One released matrix: the directions of u that it describes, the map from its coordinates to them, and the standard errors
    of its entries."""

    directions: Indices
    root: Floats
    noise: Floats

    def error(self, rng: np.random.Generator) -> Floats:
        """A draw of its error in the units u."""
        drawn = rng.normal(size=(self.root.shape[1],) * 2)
        return np.asarray(self.root @ ((drawn + drawn.T) * self.noise / math.sqrt(2)) @ self.root.T)


@dataclass(frozen=True)
class Curvature:
    """Second moments of rows in units u: estimates along the directions, and the releases behind them, the last one first."""

    level: Floats
    releases: tuple[ReleasedMatrix, ...]

    @classmethod
    def of(cls, level: Floats, root: Floats, noise: Floats) -> Curvature:
        return cls(level, (ReleasedMatrix(np.arange(level.size), root, noise),))

    def renewed(self, directions: Indices, level: Floats, root: Floats, noise: Floats) -> Curvature:
        """After some directions were turned and scaled by ``root``, in units of a release of their own."""
        levels = self.level.copy()
        levels[directions] = level
        return Curvature(
            levels, (*(_turned(r, directions, root) for r in self.releases), ReleasedMatrix(directions, root, noise))
        )

    def draw(self, rng: np.random.Generator) -> Floats:
        """A matrix that the releases allow: none has a negative eigenvalue."""
        matrix = np.diag(self.level)
        for release in self.releases:
            block = np.ix_(release.directions, release.directions)
            matrix[block] = np.diag(self.level[release.directions]) - release.error(rng)
        return raise_eigenvalues(matrix, 0.0)

    def left(self, start: Floats, kept: float, gains: list[Floats], noises: list[float]) -> tuple[Floats, Floats]:
        """Covariance of the error after steps, and of its part that a gradient does not show.

        Parameters
        ----------
        start : array of shape (p,)
            Variance of the error before the first step.
        kept : float
            Curvature of the loss.
        gains : list of arrays of shape (p,)
            Of each step: what it makes of a gradient.
        noises : list of float
            Standard deviation of the noise of each gradient.
        """
        rng, p = np.random.default_rng(SEED), start.size
        total, hidden = np.zeros((p, p)), np.zeros((p, p))
        for _ in range(DRAWS):
            matrix, error = self.draw(rng), np.sqrt(start)[:, None] * rng.normal(size=(p, STARTS))
            for gain, noise in zip(gains, noises, strict=True):
                error = error - gain[:, None] * (kept * matrix @ error + noise * rng.normal(size=error.shape))
            unseen = error - matrix @ error
            total, hidden = total + error @ error.T, hidden + unseen @ unseen.T
        return total / (DRAWS * STARTS), hidden / (DRAWS * STARTS)


def _turned(release: ReleasedMatrix, directions: Indices, root: Floats) -> ReleasedMatrix:
    rows = np.searchsorted(release.directions, directions)
    turned = release.root.copy()
    turned[rows] = root @ release.root[rows]
    return replace(release, root=turned)
