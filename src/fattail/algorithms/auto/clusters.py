"""Private EM for K Gaussian clusters with unknown weights and unknown spherical or diagonal variances.

Beyond dpem2020, whose conclusion names it as open. The hard part is the start:

1. *Directions.* Spherical clusters differ along the top eigenvectors of private second moments. For diagonal ones, eigenvectors
and axes are candidates, and a histogram along each decides.
2. *Map.* One histogram of the rows on a grid over those few directions, with cells about as wide as
   a cluster. It is public, so K clusters can be fitted to it from many starts.
3. *Lift.* One release turns clusters on the map into means and variances of all columns.

Then EM: each step releases, per cluster, the responsibility and the first two moments
of rows around its mean, in units of its spread. Responsibilities add up to one, so a row stays in the
unit ball however many clusters there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail._tools.warnings import warn_utility
from fattail.algorithms.parts.em_units import LatentUnits, project_rows
from fattail.algorithms.registry import registered
from fattail.columns import CountNoise
from fattail.privacy import Curator, Gaussian
from fattail.robust import Ball, Gram, symmetric
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClusterConstants:
    """Numbers of the method; set by hand in the first version, and ``benchmarks/tuning/vary.py clusters`` varies them."""

    units: float = 0.1
    gram: float = 0.08
    lines: float = 0.1
    map: float = 0.08
    lift: float = 0.06
    early: float = 0.2
    late: float = 0.44
    """Shares of the budget: columns' units, second moments, histograms along lines (diagonal clusters only), the map, its lift to
    all columns, early and late EM steps. They are relative: spherical clusters spread the share of the lines over the rest."""
    early_steps: int = 8
    late_steps: int = 4
    spherical: tuple[float, float, float] = (0.1, 0.75, 0.15)
    diagonal: tuple[float, float, float] = (0.1, 0.65, 0.25)
    """Parts of counts, means and variances in a row's squared length; a spherical variance averages over columns."""
    first_radius: float = 1.1
    first_offset: float = 0.3
    """Radius of first moments in standard deviations: the first times the root of d, plus the second."""
    second_radius: float = 2.0
    """Radius of second moments, over the root of 2 d, which is their deviation."""
    evident: float = 5.0
    """Standard deviations of the noise that a cluster's share must exceed; a smaller cluster is kept at this size."""
    least_share: float = 0.005
    """Least share of a cluster whatever the noise."""
    slowest: float = 0.2
    fastest: float = 4.0
    """Least and largest factor by which a step may change a variance."""
    least_variance: float = 1e-4
    most_variance: float = 16.0
    """Range of a cluster's variance in squared units of its column."""
    longest: float = 2.0
    """Most standard deviations by which a step may move a mean."""
    gram_radius: float = 1.2
    """Radius of second moments in units, over the root of d."""
    least_moment: float = 0.05
    """Least variance along a direction, in squared units: noise can make a released one negative."""
    least_eigenvalue: float = 0.02
    """The same for an eigenvalue, over the largest."""
    reach: float = 3.0
    """Half-width of histograms in standard deviations."""
    line_cells: int = 30
    map_cells: int = 4096
    """Cells of a histogram along a line, and most cells of the map."""
    most_directions: int = 4
    """Directions of the map."""
    excess: float = 1.35
    """Ratio of an eigenvalue to the smallest one above which its direction is used."""
    gain: float = 0.05
    """Least gain in log-likelihood per row over one normal for which a direction is used."""
    widest: float = 1.5
    """Largest width of K clusters along a direction, over its spread and times K: with more, all rows would be in one cell."""
    line_evidence: float = 2.0
    map_evidence: float = 4.5
    """Evidence that a count must have to be used, on lines and on the map. Noise alone has it with probability ``exp(-evidence)``
    at most, in each cell. Weak evidence is enough, because a small false count moves no cluster far."""
    one_value: float = 0.9
    """A line with more than this share of the rows in one cell shows no clusters: the column is mostly one value."""
    least_width: float = 0.1
    """Least width of a cluster over the spread, for the size of cells."""
    rows_per_cell: float = 10.0
    """Average count of a cell of the map, in standard deviations of the noise."""
    finest: float = 1.5
    """Most cells per width of a cluster."""
    narrowest: float = 1e-3
    """Least variance of a cluster on the map over that of all points."""


CONSTANTS = ClusterConstants()
# Divisors of public arithmetic on the map that could be zero: the variance of equal points, an empty share.
FLAT, TINY_SHARE = 1e-9, 1e-12
STEPS = CONSTANTS.early_steps + CONSTANTS.late_steps


@dataclass(frozen=True)
class Clusters:
    """Weights (K,), means (K, d) and variances (K, d)."""

    weights: Floats
    means: Floats
    variances: Floats

    def log_joint(self, X: Floats) -> Floats:
        """Log of weight times density, of shape (rows, K)."""
        with np.errstate(over="ignore"):  # the density of a row far away underflows to zero
            squares = [(X - m) ** 2 / v + np.log(2.0 * math.pi * v) for m, v in zip(self.means, self.variances, strict=True)]
            return np.stack([-0.5 * square.sum(axis=1) for square in squares], axis=1) + np.log(self.weights)

    def responsibilities(self, X: Floats) -> Floats:
        joint = self.log_joint(X)
        joint = np.where(np.isnan(joint), -np.inf, joint)
        top = joint.max(axis=1, keepdims=True)
        # A row whose densities all underflow belongs to all clusters equally.
        shares = np.exp(np.where(np.isfinite(top), joint - top, 0.0))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def ordered(self) -> Clusters:
        """Two clusters in the order that makes the largest difference of their means positive."""
        difference = self.means[0] - self.means[1]
        order = slice(None) if difference[np.argmax(np.abs(difference))] >= 0 else slice(None, None, -1)
        return Clusters(self.weights[order], self.means[order], self.variances[order])


@registered(
    "auto",
    estimators=("DPGaussianMixture",),
    paper="fattail",
    algorithm="K clusters",
    changed="not from a paper: private map of the clusters, then EM with bounded moments per cluster",
    test="tests/estimators/test_mixture.py::test_fuzz",
)
def gaussian_clusters(curator: Curator, data: PrivateData, K: int, covariance_type: str) -> Clusters:
    """Fit K clusters as described in the docstring of the module.

    Parameters
    ----------
    curator : Curator
    data : PrivateData
    K : int
    covariance_type : {"spherical", "diag"}
        Spherical clusters are fitted in the columns' common unit, diagonal ones in each column's own unit.
    """
    c, d, spherical = CONSTANTS, data.d, covariance_type == "spherical"
    units = LatentUnits.planned(curator, data.n, d, c.units)
    gram, lines, cells = Gaussian("second moments", c.gram), Gaussian("line histograms", c.lines), Gaussian("map", c.map)
    lift = Gaussian("means on the map", c.lift)
    early = Gaussian("early EM steps", c.early, count=c.early_steps)
    late = Gaussian("late EM steps", c.late, count=c.late_steps)
    curator.plan(*units.mechanisms, gram, *(() if spherical else (lines,)), cells, lift, early, late)

    center, scale = units.release(curator, data)
    if spherical:
        scale = np.full(d, float(np.median(scale)))

    def standard(block: Block) -> Floats:
        return np.asarray((block.X - center) / scale)

    moments = symmetric(curator.release(gram, Gram(radius=c.gram_radius * math.sqrt(d), scale=scale, center=center).mean(data)))
    if spherical:
        axes, widths = _principal_directions(moments, K)
    else:
        sizes = np.sqrt(np.maximum(np.diag(moments), c.least_moment))  # finer than octaves
        scale, moments = scale * sizes, moments / np.outer(sizes, sizes)
        axes, widths = _separating_directions(curator, lines, data, standard, moments, K)
    spread = _spread_along(axes, moments)
    on_map = _map(curator, cells, data, lambda b: _kernels.product(standard(b), axes) / spread, widths, K)

    # Lift: responsibilities on the map, moments around the map's means, in the common unit.
    clusters = Clusters(on_map.weights, (on_map.means * spread) @ axes.T, np.ones((K, d)))
    clusters = _m_step(
        curator, lift, data, clusters, standard, lambda Z: on_map.responsibilities(_kernels.product(Z, axes) / spread), spherical
    )
    path = []
    for t in range(c.early_steps + c.late_steps):
        release = early if t < c.early_steps else late
        clusters = _m_step(curator, release, data, clusters, standard, clusters.responsibilities, spherical)
        path.append(clusters)
    tail = path[-c.late_steps :]
    return Clusters(
        np.mean([c.weights for c in tail], axis=0),
        center + scale * np.mean([c.means for c in tail], axis=0),
        scale**2 * np.mean([c.variances for c in tail], axis=0),
    )


def _m_step(
    curator: Curator,
    release: Gaussian,
    data: PrivateData,
    old: Clusters,
    standard: Callable[[Block], Floats],
    responsibilities: Callable[[Floats], Floats],
    spherical: bool,
) -> Clusters:
    """New weights, means and variances from one release around the old ones."""
    c = CONSTANTS
    (K, d), (a0, a1, a2) = old.means.shape, (math.sqrt(a) for a in (c.spherical if spherical else c.diagonal))
    first, second = c.first_radius * math.sqrt(d) + c.first_offset, c.second_radius * math.sqrt(2.0 * d)
    spread = np.sqrt(old.variances)

    def rows(block: Block) -> tuple[Floats, None]:
        Z = standard(block)
        R = responsibilities(Z)
        parts = [a0 * R]
        for k in range(K):
            U = (Z - old.means[k]) / spread[k]
            parts.append((a1 / first) * R[:, [k]] * project_rows(U, first))
            parts.append((a2 / second) * R[:, [k]] * project_rows(U * U - 1.0, second))
        return np.column_stack(parts), None

    bounded = Ball(radius=1.0).mean(data, rows, width=K * (1 + 2 * d))
    noise = curator.noise(release, bounded.sensitivity)
    released = curator.release(release, bounded)
    # A cluster that may be noise is kept at a size that noise does not reach.
    count = np.maximum(released[:K] / a0, max(c.evident * noise / a0, c.least_share))
    moments = released[K:].reshape(K, 2, d) / count[:, None, None]
    shift = moments[:, 0] * (first / a1)
    # Second moments around the old mean are too large while means move, never too small, and right in the end.
    factor = 1.0 + moments[:, 1] * (second / a2)
    if spherical:
        factor = np.broadcast_to(factor.mean(axis=1, keepdims=True), (K, d))
    variances = np.clip(old.variances * np.clip(factor, c.slowest, c.fastest), c.least_variance, c.most_variance)
    return Clusters(count / count.sum(), old.means + np.clip(shift, -c.longest, c.longest) * spread, variances)


def _principal_directions(moments: Floats, K: int) -> tuple[Floats, Floats]:
    """Directions along which spherical clusters differ (d, m), and the clusters' width there.

    The smallest eigenvalue is the clusters' own variance, what exceeds it is due to their means.
    """
    values, vectors = np.linalg.eigh(moments)
    values = np.maximum(values, CONSTANTS.least_eigenvalue * values[-1])
    most = min(max(K - 1, 1), len(values), CONSTANTS.most_directions)
    chosen = max(int(np.sum(values[-most:] > CONSTANTS.excess * values[0])), 1)
    top = slice(-1, -chosen - 1, -1)
    return vectors[:, top], np.minimum(np.sqrt(values[0] / values[top]), CONSTANTS.widest / K)


def _separating_directions(
    curator: Curator, release: Gaussian, data: PrivateData, standard: Callable[[Block], Floats], moments: Floats, K: int
) -> tuple[Floats, Floats]:
    """Directions along which diagonal clusters differ, and the clusters' width there, for columns of unit variance.

    Eigenvectors are candidates. So are axes, because eigenvectors may miss clusters that differ in one column only. A histogram
    along each candidate says whether K clusters explain it better than one normal.
    """
    c, d = CONSTANTS, data.d
    candidates = np.column_stack([np.linalg.eigh(moments)[1][:, ::-1][:, :K], np.eye(d)])
    size = _spread_along(candidates, moments)

    def codes(block: Block) -> Floats:
        return np.asarray((_kernels.product(standard(block), candidates) / size / c.reach + 1.0) * (c.line_cells / 2.0))

    bounded = Histogram(c.line_cells, candidates.shape[1]).counts(data, codes)
    noise = curator.noise(release, bounded.sensitivity)
    counts = curator.release(release, bounded)
    least = CountNoise(noise, laplace=False).threshold(c.line_evidence)
    gain, width = np.transpose([_line_gain(np.where(line > least, line, 0.0), K) for line in counts])
    chosen: list[Floats] = []
    widths: list[float] = []
    for _ in range(min(max(K - 1, 1), d, c.most_directions)):
        rest = candidates.copy()
        for q in chosen:
            rest -= np.outer(q, q @ rest)
        length = np.linalg.norm(rest, axis=0)
        best = int(np.argmax(gain * length**2))
        if chosen and gain[best] * length[best] ** 2 < c.gain:
            break
        chosen.append(rest[:, best] / length[best])
        widths.append(float(width[best]))
    return np.stack(chosen, axis=1), np.array(widths)


def _spread_along(axes: Floats, moments: Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(np.einsum("ij,ik,kj->j", axes, moments, axes), CONSTANTS.least_moment)))


def _cell_centers(cells: int) -> Floats:
    return np.asarray(((np.arange(cells) + 0.5) / cells * 2.0 - 1.0) * CONSTANTS.reach)


def _line_gain(counts: Floats, K: int) -> tuple[float, float]:
    """Gain in log-likelihood of K clusters over one normal on a line, and their width relative to the spread."""
    points = _cell_centers(CONSTANTS.line_cells)[:, None]
    if np.count_nonzero(counts) <= K or counts.max() > CONSTANTS.one_value * counts.sum():
        return 0.0, 1.0
    share = counts / counts.sum()
    variance = float(share @ (points[:, 0] - share @ points[:, 0]) ** 2)
    fitted, likelihood = weighted_em(points, share, K, restarts=5)
    alone = -0.5 * (math.log(2.0 * math.pi * variance) + 1.0)
    return likelihood - alone, math.sqrt(float(fitted.variances[0, 0]) / variance)


def _map(
    curator: Curator, release: Gaussian, data: PrivateData, place: Callable[[Block], Floats], widths: Floats, K: int
) -> Clusters:
    """Clusters fitted to a private histogram over a few directions, in units of the spread along each."""
    c = CONSTANTS
    wanted = 2.0 * c.reach / np.clip(widths, c.least_width, 1.0)
    budget = min(c.map_cells, data.n / (c.rows_per_cell * curator.noise(release, 1.0)))
    factor = float(budget / np.prod(wanted)) ** (1.0 / len(wanted))
    shape = np.maximum(3, (wanted * min(c.finest, factor)).astype(int))

    def codes(block: Block) -> Floats:
        cell = np.clip(np.floor((place(block) / c.reach + 1.0) * shape / 2.0), 0.0, shape - 1.0)
        code = np.zeros(len(cell))
        for j, k in enumerate(shape):
            code = code * k + cell[:, j]
        return code[:, None]

    bounded = Histogram(int(np.prod(shape))).counts(data, codes)
    noise = curator.noise(release, bounded.sensitivity)
    counts = curator.release(release, bounded)[0]
    points = np.stack(np.meshgrid(*map(_cell_centers, shape), indexing="ij"), axis=-1).reshape(-1, len(shape))
    keep = counts > CountNoise(noise, laplace=False).threshold(c.map_evidence)
    if keep.sum() < 2 * K:
        warn_utility("the noise hides the clusters: more rows, a larger epsilon or fewer components are needed")
        keep = np.argsort(-counts)[: 2 * K]
    return weighted_em(points[keep], np.maximum(counts[keep], 1.0), K, restarts=20)[0]


def weighted_em(points: Floats, weights: Floats, K: int, restarts: int) -> tuple[Clusters, float]:
    """Clusters of common diagonal variance fitted to weighted public points, and their log-likelihood.

    Plain EM from k-means++ seeds, best of several; post-processing, so its randomness is public too.
    """
    rng = np.random.default_rng(0)
    share = weights / weights.sum()
    whole = np.maximum(share @ (points - share @ points) ** 2, FLAT)
    best: tuple[Clusters, float] | None = None
    for _ in range(restarts):
        clusters = Clusters(np.full(K, 1.0 / K), _seeds(points, share, K, whole, rng), np.tile(whole / K**2, (K, 1)))
        for _ in range(40):
            R = clusters.responsibilities(points) * share[:, None]
            size = R.sum(axis=0) + TINY_SHARE
            means = (R.T @ points) / size[:, None]
            within = np.sum([R[:, k] @ (points - means[k]) ** 2 for k in range(K)], axis=0)
            clusters = Clusters(size / size.sum(), means, np.tile(np.maximum(within, CONSTANTS.narrowest * whole), (K, 1)))
        likelihood = float(share @ np.logaddexp.reduce(clusters.log_joint(points), axis=1))
        if best is None or likelihood > best[1]:
            best = clusters, likelihood
    assert best is not None
    return best


def _seeds(points: Floats, share: Floats, K: int, whole: Floats, rng: np.random.Generator) -> Floats:
    chosen = [points[rng.choice(len(points), p=share)]]
    for _ in range(K - 1):
        distance = np.min([np.sum((points - c) ** 2 / whole, axis=1) for c in chosen], axis=0) * share + TINY_SHARE
        chosen.append(points[rng.choice(len(points), p=distance / distance.sum())])
    return np.array(chosen)
