"""The sparse ``auto``: screen columns privately, fit them with full-batch Newton steps, shrink.

Nothing is declared. Screening compares the signs of residuals and features rather than their
sizes: a bounded product loses little signal and its noise does not grow with the tails. It
runs in a few parts with a rough fit in between, because what the first columns explain no
longer hides the others. Every step of a fit is one Gaussian release of the clipped gradient
together with the share of rows that were not clipped, which is the curvature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from fattail._registry import registered
from fattail.data import Block, PrivateData
from fattail.geometry import shrink, top_indices
from fattail.privacy import Curator, Gaussian, Mechanism, TopK
from fattail.privacy.calibration import gaussian_multiplier
from fattail.robust import Ball, Clip, Gram
from fattail.scale import magnitude_quantile

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Shares of the budget. Tuned on Gaussian features with t(2.5) noise, reported on others.
SCREENING, MOMENTS, SCALE = 0.42, 0.04, 0.012
ROUGH_FIT, FINAL_FIT = (0.3, 0.7), (0.2, 0.3, 0.5)
ROUGH_SHARE = 0.1
# What one column may need of the screening budget, and of the budget if nobody gave a sparsity.
CARRY, CARRY_AUTO = 0.3, 0.1
# An octave's upper edge overestimates a quantile by half an octave on average.
HALF_OCTAVE = 2**-0.5


@dataclass(frozen=True)
class Linear:
    """Squared loss; the clipping of gradients makes it a Huber loss."""

    def residual(self, z: Floats, y: Any) -> Floats:
        return np.asarray(y - z, dtype=np.float64)

    def curvature(self, z: Floats) -> Floats:
        return np.ones_like(z)

    top_curvature: float = 1.0


@dataclass(frozen=True)
class Logistic:
    """Logistic loss for labels 0 and 1."""

    def residual(self, z: Floats, y: Any) -> Floats:
        return np.asarray(y - expit(z), dtype=np.float64)

    def curvature(self, z: Floats) -> Floats:
        p = expit(z)
        return np.asarray(4 * p * (1 - p))

    top_curvature: float = 0.25


Model = Linear | Logistic


@dataclass(frozen=True)
class FitPlan:
    """Releases of one fit on a chosen support."""

    gradients: tuple[Gaussian, ...]
    clip: TopK
    radius: TopK
    moments: Gaussian

    @classmethod
    def make(cls, name: str, share: float, steps: tuple[float, ...], rescale: int) -> FitPlan:
        return cls(
            tuple(Gaussian(f"{name}: gradient {t + 1}", share * a) for t, a in enumerate(steps)),
            TopK(f"{name}: clipping scale", rescale * SCALE, count=rescale),
            TopK(f"{name}: row norm", SCALE),
            Gaussian(f"{name}: second moments", MOMENTS if rescale > 1 else MOMENTS / 2),
        )

    def __iter__(self) -> Any:
        return iter((*self.gradients, self.clip, self.radius, self.moments))


@dataclass
class Fit:
    """A linear predictor on some columns, in units of their scale. All of it is released."""

    model: Model
    scale: Floats
    unit: float
    fit_intercept: bool
    support: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    theta: Floats = field(default_factory=lambda: np.zeros(0))
    intercept: float = 0.0

    def columns(self, block: Block) -> Any:
        Z = block.X[:, self.support]
        if sparse.issparse(Z):
            return Z @ sparse.diags(1 / self.scale[self.support])
        return Z / self.scale[self.support]

    def predictor(self, block: Block) -> Floats:
        if not self.support.size:
            return np.full(len(block), self.intercept)
        return np.asarray(self.columns(block) @ self.theta + self.intercept)

    def residual(self, block: Block) -> Floats:
        return self.model.residual(self.predictor(block), block.y)

    def norms(self, Z: Any) -> Floats:
        squares = Z.multiply(Z).sum(axis=1) if sparse.issparse(Z) else np.einsum("ij,ij->i", Z, Z)
        return np.sqrt(np.asarray(squares, dtype=np.float64).ravel() + (self.unit**2 if self.fit_intercept else 0.0))

    def add(self, columns: Indices) -> None:
        """Widen the support; CSR columns must stay in order."""
        grown = np.concatenate([self.support, columns])
        order = np.argsort(grown)
        self.support, self.theta = grown[order], np.concatenate([self.theta, np.zeros(columns.size)])[order]


@dataclass(frozen=True)
class Point:
    """Where a gradient was released, the Newton direction it gave, and its noise before the inverse moments."""

    weight: float
    theta: Floats
    direction: Floats
    noise: float


def row_norm(block: Block, scale: Floats) -> Floats:
    """Length of each row in units of the columns' scale."""
    X = block.X @ sparse.diags(1 / scale) if sparse.issparse(block.X) else block.X / scale
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return np.sqrt(np.asarray(squares, dtype=np.float64).ravel())


def typical_entry(block: Block, scale: Floats) -> Floats:
    """Mean magnitude of each row's non-zero entries, in units of the columns' scale."""
    if sparse.issparse(block.X):
        X = abs(block.X) @ sparse.diags(1 / scale)
        return np.asarray(X.sum(axis=1)).ravel() / np.maximum(np.diff(X.indptr), 1)
    X = np.abs(block.X)
    return np.asarray((X @ (1 / scale)) / np.maximum(np.count_nonzero(X, axis=1), 1))


def carried(n: int, d: int, epsilon: float, delta: float, constant: float) -> int:
    """How many columns the budget can tell from noise: public arithmetic.

    Scores of k equally strong columns are about ``1 / sqrt(k)``, and their Gumbel noise has
    scale ``sqrt(k) / (n sqrt(rho / 2))``; the largest of d such is ``log d`` times that.
    """
    rho = SCREENING / (2 * gaussian_multiplier(epsilon, delta) ** 2)
    return max(1, int(constant * n * math.sqrt(2 * rho) / max(math.log(d), 1.0)))


@registered(
    "auto",
    estimators=("DPSparseRegressor", "DPSparseClassifier"),
    paper="this library",
    algorithm="screen, fit, shrink",
    changed="new: private screening on bounded products, Newton steps on the chosen columns, empirical-Bayes shrinkage",
    test="tests/estimators/test_sparse.py::test_fuzz",
)
def screened_fit(
    curator: Curator,
    data: PrivateData,
    model: Model,
    sparsity: int | None,
    *,
    feature_scale: Floats,
    fit_intercept: bool = True,
) -> tuple[Floats, float]:
    """Sparse coefficients and intercept with nothing declared but, if known, the sparsity.

    Parameters
    ----------
    curator : Curator
    data : PrivateData
    model : Linear or Logistic
    sparsity : int or None
        Largest number of coefficients that are not 0; None to take what the budget carries.
    feature_scale : array of shape (d,)
        Public unit of each column.
    fit_intercept : bool

    Notes
    -----
    *Privacy.* A fixed list of releases, all bounded row by row: tail counts of magnitudes
    (sensitivity 1), products of residual and feature clipped to a public bound, gradients and
    second moments pulled back to a ball. Which columns are fitted, the clipping bounds, the
    steps and the shrinkage are functions of earlier releases. Sparse storage is taken as
    public knowledge that rows have few entries; the releases differ, the guarantee does not.
    """
    n, d = data.n, data.d
    most = carried(n, d, curator.epsilon, curator.delta, CARRY_AUTO if sparsity is None else CARRY)
    k = min(d, most if sparsity is None else min(sparsity, most))
    dense_release = data.is_sparse or 2 * d < k * math.log(max(d, 2))
    everything = sparsity is not None and 2 * k >= d and not data.is_sparse
    parts = 0 if everything else 1 if dense_release else min(3, k)
    if data.is_sparse and sparsity is not None:
        k = min(sparsity, d)
    sizes = [k // parts + (q < k % parts) for q in range(parts)]

    linear = isinstance(model, Linear)
    unit_mechanism = TopK("typical feature", SCALE)
    centre = [TopK("size of the response", 2 * SCALE, count=2), Gaussian("centre of the response", 2 * SCALE, count=2)]
    if not linear:
        centre = [Gaussian("centre of the response", 2 * SCALE)]
    spread = TopK("scale of residuals", parts * SCALE, count=parts) if linear and parts else None
    screens: list[Mechanism] = [TopK(f"columns, part {q + 1}", SCREENING * m / k, k=m) for q, m in enumerate(sizes)]
    width = TopK("row norm", SCALE)
    if dense_release and parts:
        screens = [Gaussian("scores of all columns", SCREENING)]
    rough = [FitPlan.make(f"rough fit {q + 1}", ROUGH_SHARE / (parts - 1), ROUGH_FIT, 1) for q in range(parts - 1)]
    spent = ROUGH_SHARE + (SCREENING if parts else 0.0) + 0.2
    final = FitPlan.make("fit", 1.0 - spent, FINAL_FIT, 2)
    fits = [*rough, final]
    curator.plan(
        unit_mechanism,
        *(centre if fit_intercept else ()),
        *([spread] if spread else ()),
        *([width] if dense_release and parts else ()),
        *screens,
        *(m for plan in fits for m in plan),
    )

    entry = magnitude_quantile(curator, unit_mechanism, data, lambda b: typical_entry(b, feature_scale), 0.5) * HALF_OCTAVE
    fit = Fit(model, feature_scale, entry, fit_intercept)
    if fit_intercept:
        fit.intercept = _centre(curator, data, linear, centre)
    if everything:
        fit.add(np.arange(d))
        _refine(curator, data, fit, final)
    for q in range(parts):
        psi = magnitude_quantile(curator, spread, data, fit.residual, 0.35) * HALF_OCTAVE if spread else 1.0
        if dense_release:
            radius = magnitude_quantile(curator, width, data, lambda b: row_norm(b, feature_scale), 0.75)
            chosen = _screen_by_release(curator, screens[q], data, fit, psi, radius, k)
        else:
            chosen = _screen_by_selection(curator, screens[q], data, fit, psi, 0.4 * entry)
        fit.add(chosen)
        _refine(curator, data, fit, fits[q])
    coef = np.zeros(d)
    coef[fit.support] = fit.theta / feature_scale[fit.support]
    return coef, fit.intercept


def _centre(curator: Curator, data: PrivateData, linear: bool, mechanisms: list[Any]) -> float:
    """Intercept of the empty model: a clipped mean, re-centred once; or the log-odds."""
    if not linear:
        mean = Clip(center=0.5, bound=0.5).mean(data, lambda b: (np.asarray(b.y, dtype=np.float64)[:, None], None), width=1)
        return float(logit(np.clip(curator.release(mechanisms[0], mean.to("l2"))[0], 0.01, 0.99)))
    size, gaussian = mechanisms
    centre = 0.0
    for _ in range(2):
        at = centre
        bound = 2 * magnitude_quantile(curator, size, data, lambda b, at=at: b.y - at, 0.75)
        mean = Clip(center=at, bound=bound).mean(data, lambda b: (np.asarray(b.y, dtype=np.float64)[:, None], None), width=1)
        centre = float(curator.release(gaussian, mean.to("l2"))[0])
    return centre


def _screen_by_selection(
    curator: Curator, mechanism: Mechanism, data: PrivateData, fit: Fit, psi: float, entry: float
) -> Indices:
    """Columns with the largest scores ``mean clip(residual * feature)`` that are not in the support."""

    def rows(block: Block) -> tuple[Any, Floats]:
        return block.X, np.clip(fit.residual(block), -psi, psi)

    scores = Clip(bound=psi * entry * fit.scale).mean(data, rows) / fit.scale
    candidates = np.setdiff1d(np.arange(data.d), fit.support)
    return candidates[curator.select(mechanism, scores[candidates].magnitudes())]


def _screen_by_release(
    curator: Curator, mechanism: Mechanism, data: PrivateData, fit: Fit, psi: float, radius: float, k: int
) -> Indices:
    """At most ``k`` columns whose released score stands out from the noise.

    Rows with few entries are short, and then noise on all columns is smaller than the noise
    of k selections.
    """

    def rows(block: Block) -> tuple[Any, Floats]:
        return block.X, np.clip(fit.residual(block), -psi, psi)

    scores = Ball(radius=psi * radius, scale=fit.scale).mean(data, rows) / fit.scale
    noise = curator.noise(mechanism, scores.sensitivity)
    released = curator.release(mechanism, scores)
    clear = int(np.sum(np.abs(released) > noise * math.sqrt(2 * math.log(max(data.d / k, 2.0)))))
    return top_indices(released, max(1, min(k, clear)))


def _refine(curator: Curator, data: PrivateData, fit: Fit, plan: FitPlan) -> None:
    """Newton steps from the current fit on its support; the result replaces it.

    Each gradient gives an estimate of the minimiser, ``theta + inverse curvature * gradient``.
    They are averaged by budget, so that nothing spent is lost, and shrunk before the next
    gradient is asked for.
    """
    inverse = _inverse_moments(curator, data, fit, plan)
    start = np.append(fit.theta, fit.intercept / fit.unit) if fit.fit_intercept else fit.theta.copy()
    theta, step, clip = start, 1.0, 1.0
    points: list[Point] = []
    rows_noise = np.sqrt(np.sum(inverse**2, axis=1))
    for t, gradient in enumerate(plan.gradients):
        if t < plan.clip.count:
            clip = HALF_OCTAVE * magnitude_quantile(
                curator, plan.clip, data, lambda b: np.abs(fit.residual(b)) * fit.norms(fit.columns(b)), 0.5
            )
        released, noise = _gradient(curator, gradient, data, fit, clip)
        curvature = fit.model.top_curvature * float(np.clip(released[-1] + 0.5, 0.1, 1.0))
        points.append(Point(gradient.share * (0.25 if t == 0 else 1.0), theta, inverse @ released[:-1] / curvature, noise / curvature))
        if t:
            step = _secant(points[-2], points[-1], inverse, step)
        total = sum(p.weight for p in points)
        theta = np.sum([p.weight / total * (p.theta + step * p.direction) for p in points], axis=0)
        spread = step * rows_noise * math.sqrt(sum((p.weight / total * p.noise) ** 2 for p in points))
        k = fit.support.size
        theta[:k] = shrink(theta[:k], spread[:k])
        fit.theta = theta[:k]
        if fit.fit_intercept:
            fit.intercept = float(theta[k]) * fit.unit


def _secant(last: Point, now: Point, inverse: Floats, step: float) -> float:
    """Step length from two released gradients: shorter where correlated columns make steps overshoot.

    Between two points the gradient changes by curvature times distance. Noise in the first
    gradient also moved the second point; its known contribution is taken out, and the step
    is kept where noise in the second gradient leaves the ratio undecided.
    """
    moved = now.theta - last.theta
    distance = float(moved @ np.linalg.solve(inverse, moved))
    change = float(moved @ np.linalg.solve(inverse, last.direction - now.direction)) - step * last.noise**2 * float(np.trace(inverse))
    if not now.noise * float(np.linalg.norm(moved)) < 0.3 * distance:
        return step
    return float(np.clip(distance / max(change, 1e-300), 1 / 16, 1.5))


def _gradient(
    curator: Curator, mechanism: Gaussian, data: PrivateData, fit: Fit, clip: float, weight: float = 0.3
) -> tuple[Floats, float]:
    """Released mean of clipped gradients and, as last entry, of the curvature minus one half; noise of the former."""

    def rows(block: Block) -> tuple[Any, None]:
        Z = fit.columns(block)
        z = np.asarray(Z @ fit.theta + fit.intercept)
        r, norms = fit.model.residual(z, block.y), fit.norms(Z)
        size = np.abs(r) * norms
        factor = r * np.minimum(1.0, clip / np.maximum(size, 1e-300))
        curvature = np.where(size <= clip, fit.model.curvature(z), 0.0) - 0.5
        extra = [factor * fit.unit] * fit.fit_intercept + [weight * clip * curvature]
        if sparse.issparse(Z):
            return sparse.hstack([sparse.diags(factor) @ Z, sparse.csr_matrix(np.stack(extra, axis=1))], format="csr"), None
        return np.column_stack([factor[:, None] * Z, *extra]), None

    width = fit.support.size + int(fit.fit_intercept) + 1
    mean = Ball(radius=clip * math.sqrt(1 + weight**2 / 4)).mean(data, rows, width=width)
    noise = curator.noise(mechanism, mean.sensitivity)
    released = curator.release(mechanism, mean)
    released[-1] /= weight * clip
    return released, noise


def _inverse_moments(curator: Curator, data: PrivateData, fit: Fit, plan: FitPlan) -> Floats:
    """Inverse of the second moments of the chosen columns, from a release that they can afford.

    The whole matrix where its noise is small against its trace (public arithmetic), else its
    diagonal. Off-diagonal terms and differences between columns are shrunk to 0 by the share
    of them that noise explains (James and Stein 1961).
    """
    k = fit.support.size
    radius = magnitude_quantile(curator, plan.radius, data, lambda b: fit.norms(fit.columns(b)), 0.75)
    width = k + int(fit.fit_intercept)
    whole = 2 * math.sqrt(2) * width**1.5 * curator.noise(plan.moments) < data.n

    def rows(block: Block) -> tuple[Any, None]:
        Z = fit.columns(block)
        Z = Z.toarray() if sparse.issparse(Z) and whole else Z
        if not whole:
            norms = fit.norms(Z)
            shrunk = np.minimum(1.0, radius / np.maximum(norms, 1e-300))
            Z = sparse.diags(shrunk) @ Z if sparse.issparse(Z) else shrunk[:, None] * Z
            return (Z.multiply(Z).tocsr() if sparse.issparse(Z) else Z * Z), None
        return np.column_stack([Z, np.full(len(block), fit.unit)]) if fit.fit_intercept else Z, None

    if not whole:
        mean = Ball(radius=radius**2).mean(data, rows, width=k)
        noise = curator.noise(plan.moments, mean.sensitivity)
        diagonal, off = curator.release(plan.moments, mean), np.zeros((width, width))
    else:
        mean = Gram(radius=radius).mean(data, rows, width=width)
        noise = curator.noise(plan.moments, mean.sensitivity)
        matrix = curator.release(plan.moments, mean)
        matrix = (matrix + matrix.T) / 2
        diagonal, off = np.diag(matrix)[:k].copy(), matrix - np.diag(np.diag(matrix))
        off *= _signal_share(off, width * (width - 1) * noise**2 / 2)
    typical = max(float(diagonal.mean()), 0.1 * radius**2 / width)
    diagonal = typical + _signal_share(diagonal - typical, k * noise**2) * (diagonal - typical)
    diagonal = np.maximum(diagonal, 0.25 * typical)
    values, vectors = np.linalg.eigh(np.diag(np.append(diagonal, [fit.unit**2] * fit.fit_intercept)) + off)
    return np.asarray((vectors / np.maximum(values, 0.1 * min(typical, fit.unit**2))) @ vectors.T)


def _signal_share(deviation: Floats, noise: float) -> float:
    """Share of a sum of squares that noise does not explain."""
    total = float(np.sum(deviation**2))
    return max(0.0, 1 - noise / total) if total > 0 else 0.0
