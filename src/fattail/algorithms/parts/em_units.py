"""Private units of EM: centers, scales and correlations of the columns.

All of them are released; each is a selection on a public grid (``columns/location.py``, ``parts/scale.py``) or a mean of rows in
a ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fattail import _kernels
from fattail._tools.numbers import TINY
from fattail.algorithms.parts.scale import column_units
from fattail.columns import find_locations
from fattail.columns.location import LocationGrid
from fattail.privacy import Curator, Gaussian, TopK, gaussian_multiplier
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


@dataclass(frozen=True)
class LatentUnitConstants:
    """Numbers of the units, set by hand in the first version; ``benchmarks/tuning/vary.py units`` varies them."""

    location: float = 0.5
    """Part of the budget of units that the location takes if columns are centered; their sizes get the rest."""
    digits: int = 3
    """Of the first grid of the location: with few rows there is one stage, and finer or coarser grids are worse then."""
    missed: float = 1e-4
    """Probability at most that a stage of the location misses a column of one value, if there are several stages."""
    most_stages: int = 5
    """Of the location: enough for all digits of a double."""
    center_radius: float = 2.0
    """Radius of the ball of the centers' mean, in sizes times the root of the number of columns."""
    center_clip: float = 3.0
    """Distance from the location, in sizes, at which a cell is clipped before."""
    quantiles: tuple[float, float] = (0.5, 0.85)
    """Range of the quantile of distances from the location that gives the size. A high one allows for clusters far from a larger
    one. ..."""
    clear: float = 15.0
    """... So many times the noise of the selection must lie beyond it."""
    usual_width: float = 8.0
    """Octaves around everyday numbers within which sizes usually are."""
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

    @property
    def grid(self) -> LocationGrid:
        return LocationGrid(digits=self.digits)


CONSTANTS = LatentUnitConstants()


@dataclass(frozen=True)
class LatentUnits:
    """Private center and scale of each column; the response, if there is one, is the last column.

    The center is the location of the column (``fattail.columns``), which costs the same for 1e9 +- 3 as for 0 +- 1. The scale is
    that of the rows away from it, so a column that is mostly one number has the scale of its other numbers.
    """

    columns: int
    stages: tuple[TopK, ...]
    """Of the location; none if columns are not centered."""
    sizes: TopK

    @classmethod
    def planned(cls, curator: Curator, n: int, columns: int, share: float, centered: bool = True) -> LatentUnits:
        """Public arithmetic: as many stages of the location as the rows allow."""
        c = CONSTANTS
        location = c.location * share if centered else 0.0
        # n epsilon of a single stage; of several ones, this over the root of their number.
        rows = 2 * n / gaussian_multiplier(curator.epsilon, curator.delta) * math.sqrt(location / columns)
        count = min(max(int((rows / c.grid.stage(c.missed)) ** 2), 1), c.most_stages) if centered else 0
        stages = tuple(TopK(f"location {k + 1}", location / count, count=columns) for k in range(count))
        return cls(columns, stages, TopK("column sizes", share - location, count=columns))

    @property
    def mechanisms(self) -> tuple[TopK, ...]:
        return (*self.stages, self.sizes)

    def release(self, curator: Curator, data: PrivateData, gaps: bool = False) -> tuple[Floats, Floats]:
        """Centers and scales; ``gaps`` says that cells may be missing."""
        c, center = CONSTANTS, np.zeros(self.columns)
        if self.stages:
            center = find_locations(curator, self.stages, data, c.grid, with_y=self.columns > data.d, gaps=gaps)[0]
        q = float(np.clip(1 - c.clear * curator.noise(self.sizes) / data.n, *c.quantiles))
        usual = np.full(self.columns, 2.0**c.grid.everyday)
        units = column_units(curator, self.sizes, data, center, usual, c.usual_width, q) / ndtri((1 + q) / 2)
        return center, np.array([bounded_size(size) for size in units])


def clipped_means(curator: Curator, release: Gaussian, data: PrivateData, center: Floats, scale: Floats) -> Floats:
    """Mean of each column, the response included, clipped around its center."""
    edge = CONSTANTS.center_clip * scale

    def rows(block: Block) -> tuple[Floats, None]:
        return np.clip(block.table(with_y=True) - center, -edge, edge), None

    ball = Ball(radius=CONSTANTS.center_radius * math.sqrt(center.size), scale=scale)
    return np.asarray(center + curator.release(release, ball.mean(data, rows, width=center.size)))


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
        Z = (block.table(with_y=True) - center) / scale
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
