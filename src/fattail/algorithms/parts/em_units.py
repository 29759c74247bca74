"""Private units of EM: centers, scales and correlations of the columns.

All of them are released; each is a selection on a public grid or a mean of rows in a ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail._tools.numbers import TINY
from fattail.algorithms.parts.scale import magnitude_quantile
from fattail.privacy import Curator, Gaussian, Mechanism, TopK
from fattail.robust import Ball, Gram, symmetric
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


def project_rows(V: Floats, radius: float) -> Floats:
    """Rows projected to the ball of ``radius``, for accuracy; the privacy bound is the robustifier after it."""
    length = lengths(V)
    return np.asarray(V * np.minimum(1.0, radius / np.fmax(length, TINY))[:, None])


def lengths(V: Floats) -> Floats:
    """Length of each row."""
    result: Floats = np.sqrt(_kernels.row_dots(V, V))
    return result


def bounded_size(size: float) -> float:
    """A size clipped to a range in which its powers do not overflow: noise can select an absurd size for a column of zeros or
    few rows."""
    return float(min(max(size, 2.0**-100), 2.0**100))


def response(block: Block) -> Floats:
    """The block's response, in double precision."""
    assert block.y is not None
    return np.asarray(block.y, dtype=np.float64)


def stacked(block: Block, columns: int) -> Floats:
    """Covariates, and the response as last column if there is one more."""
    return np.column_stack([block.X, response(block)]) if columns > block.X.shape[1] else np.asarray(block.X, dtype=np.float64)


@dataclass(frozen=True)
class LatentUnitConstants:
    """Numbers of the units, set by hand in the first version; ``benchmarks/tuning/vary.py units`` varies them."""

    sizes_share: float = 0.35
    centers_share: float = 0.3
    spreads_share: float = 0.35
    """Division of the budget of units if columns are centered: sizes, centers, sizes around the centers."""
    center_radius: float = 2.0
    """Radius of the ball of the centers' mean, in sizes times the root of the number of columns."""
    center_clip: float = 3.0
    """Value, in sizes, at which a cell is clipped before."""
    gram_radius: float = 1.2
    """Radius of second moments, in sizes times the root of the number of columns."""
    least_variance: float = 0.05
    """Least variance, in squared sizes, of a column or an eigenvector: noise can make a released one negative."""
    first_radius: float = 1.5
    second_radius: float = 3.0
    """Radii of the first and second moments of standardized rows, over the root of the number of columns."""
    cell_clip: float = 6.0
    """Standardized value at which a cell is clipped in moments."""
    second_weight: float = 0.7
    seen_weight: float = 0.1
    first_weight: float = 0.2
    """Parts of a row's squared length for second moments, the observed share and first moments; they add up to one."""
    least_seen: float = 0.1
    """Least observed share of a covariate."""
    most_variance: float = 20.0
    """Largest variance in squared sizes."""


CONSTANTS = LatentUnitConstants()


@dataclass(frozen=True)
class LatentUnits:
    """Private center and octave of the size of each column (the response is the last one).

    With a center: the size of ``|x|``, a mean clipped at twice that, then the size of
    ``|x - center|``. Without: the first alone.
    """

    columns: int
    share: float
    centered: bool
    quantile: float = 0.5

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        if not self.centered:
            return (TopK("column sizes", self.share, count=self.columns),)
        return (
            TopK("column sizes", CONSTANTS.sizes_share * self.share, count=self.columns),
            Gaussian("column centers", CONSTANTS.centers_share * self.share),
            TopK("column spreads", CONSTANTS.spreads_share * self.share, count=self.columns),
        )

    def release(self, curator: Curator, data: PrivateData) -> tuple[Floats, Floats]:
        center = np.zeros(self.columns)
        sizes, *rest = self.mechanisms
        scale = self._octaves(curator, sizes, data, center)
        if rest:
            centers, spreads = rest
            assert isinstance(centers, Gaussian)
            clip, edge = (
                Ball(radius=CONSTANTS.center_radius * math.sqrt(self.columns), scale=scale),
                CONSTANTS.center_clip * scale,
            )
            center = curator.release(
                centers,
                clip.mean(data, lambda b: (np.clip(stacked(b, self.columns), -edge, edge), None), width=self.columns),
            )
            scale = self._octaves(curator, spreads, data, center)
        return center, scale

    def _octaves(self, curator: Curator, selection: Mechanism, data: PrivateData, center: Floats) -> Floats:
        assert isinstance(selection, TopK)
        d = data.d

        def size(j: int) -> float:
            def values(block: Block) -> Floats:
                column = block.X[:, j] if j < d else response(block)
                return np.asarray(np.abs(column - center[j]))

            return magnitude_quantile(curator, selection, data, values, self.quantile)

        return np.array([bounded_size(size(j)) for j in range(self.columns)])


def whitener(curator: Curator, release: Gaussian, data: PrivateData, center: Floats, scale: Floats) -> Floats:
    """Matrix W such that ``(x - center) @ W`` has about unit, uncorrelated coordinates."""
    c, d = CONSTANTS, data.d
    gram = Gram(radius=c.gram_radius * math.sqrt(d), scale=scale, center=center)
    bounded = gram.mean(data)
    noise = curator.noise(release, bounded.sensitivity)
    G = symmetric(curator.release(release, bounded))
    diagonal = np.diag(np.maximum(np.diag(G), c.least_variance))
    off = G - np.diag(np.diag(G))
    energy = float(np.sum(off**2))
    kept = max(energy - d * (d - 1) * noise**2 / 2.0, 0.0) / max(energy, TINY)
    root = 1.0 / np.sqrt(np.diag(diagonal))
    values, vectors = np.linalg.eigh(np.eye(d) + kept * root[:, None] * off * root)
    W: Floats = (root / scale)[:, None] * ((vectors / np.sqrt(np.maximum(values, c.least_variance))) @ vectors.T)
    return W


def column_moments(
    curator: Curator, release: Gaussian, data: PrivateData, center: Floats, scale: Floats, centered: bool
) -> tuple[Floats, Floats, float]:
    """Mean and spread of each covariate where it is observed, and the variance of the response."""
    c, d, columns = CONSTANTS, data.d, len(center)
    first, second = c.first_radius * math.sqrt(columns), c.second_radius * math.sqrt(columns)
    squares, observed, means = (math.sqrt(weight) for weight in (c.second_weight, c.seen_weight, c.first_weight))

    def rows(block: Block) -> tuple[Floats, None]:
        Z = (stacked(block, columns) - center) / scale
        seen = ~np.isnan(Z)
        Z = np.where(seen, np.clip(Z, -c.cell_clip, c.cell_clip), 0.0)
        square = project_rows(np.where(seen, Z * Z - 1.0, 0.0), second) / second
        parts = [square * squares, observed * seen.mean(axis=1)]
        if centered:
            parts.append(project_rows(Z, first) * (means / first))
        return np.column_stack(parts), None

    width = columns + 1 + columns * centered
    released = curator.release(release, Ball(radius=1.0).mean(data, rows, width=width))
    # The observed share of a covariate, from the one of all columns: the response is always there.
    share = np.full(columns, np.clip((released[columns] / observed * columns - 1.0) / d, c.least_seen, 1.0))
    share[d] = 1.0
    mean = released[columns + 1 :] / (means / first) / share if centered else np.zeros(columns)
    variance = np.clip(1.0 + released[:columns] * (second / squares) / share - mean**2, c.least_variance, c.most_variance)
    return center + scale * mean, (scale * np.sqrt(variance))[:d], float(scale[d] ** 2 * variance[d])
