"""Fits on a chosen support: the common part of the sparse ``auto`` methods.

A gradient of a linear model is ``residual * row``. Here it has few columns, in units of their scale. It is clipped as a whole and
released together with the share of rows that were not clipped, which is the curvature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from fattail import _kernels
from fattail._tools.numbers import TINY
from fattail.algorithms.parts.geometry import shrink
from fattail.algorithms.parts.scale import magnitude_quantile
from fattail.algorithms.parts.support_moments import inverse_moments, inverted
from fattail.algorithms.parts.support_plan import SCALE, FitPlan
from fattail.losses import Loss, Squared
from fattail.privacy import Curator, Gaussian, Mechanism, TopK
from fattail.robust import Ball, Clip
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# An octave's upper edge overestimates a quantile by half an octave on average.
HALF_OCTAVE = 2**-0.5
# Gradients are clipped at a low quantile of their length: that reduces the noise by more than it reduces the signal.
QUANTILE = 0.35
# Inverse second moment of a column in its unit if none is released: between that of a bounded and that of a heavy-tailed column.
ROUGHLY = 1.5
# Longest step, in log-odds for labels and in typical residuals for numbers.
FARTHEST = 3.0
# Factor of the squared distance of an earlier estimate from a later one, as its error: both have errors in the same direction.
DOUBT = 4.0


@dataclass(frozen=True)
class FitLimits:
    """Limits within which released numbers are used.

    Unless stated otherwise, set by hand in the first versions; ``benchmarks/sparse.py`` measures what they change.
    """

    smallest: float = 1e-60
    largest: float = 1e60
    """Scales are brought between these, so that fourth powers of them and of their inverses are finite floats."""
    label_share: float = 0.01
    """A released share of labels is taken to lie at least this far from 0 and 1: log-odds within 4.6."""
    row_quantile: float = 0.6
    """Quantile of row norms; longer rows are shortened to it before second moments are computed."""
    unclipped: float = 0.1
    """Lower limit of the share of gradients that are not clipped. It is about ``QUANTILE``; a smaller share than this is
    noise."""
    curvature_weight: float = 0.3
    """Size of the released curvature relative to the clip: at 0.3 the noise of gradients grows by sqrt(1 + 0.3^2 / 4), 1.1 %."""
    least_variance: float = 1e-6
    most_variance: float = 1e6
    """Range of the variance of predictions, in log-odds. Outside of it the coefficients are zero or noise, and the curvature is
    not corrected for them."""
    along: float = 0.1
    """Lower limit of the curvature along the coefficients over that across them; a step is stretched by at most its inverse."""
    information: float = 0.02
    """Lower limit of the mean of p (1 - p), which is 0.25 at most: that of labels of which 2 % are ones."""
    decided: float = 0.1
    """A change of gradients sets the length of the next step if its noise is below this fraction of it."""
    longest: float = 1.5
    """Longest step, in Newton steps. Released gradients are used to shorten steps where columns are correlated; noise in them
    must not make steps much longer."""


LIMITS = FitLimits()


@dataclass
class SupportFit:
    """A linear predictor on some columns, around their center and in units of their scale. All of it is released.

    Sparse rows are taken around 0. Besides the coefficients in use, which are shrunk, there is the ``mean`` of all
    estimates so far, intercept last, and its ``precision``: 0 for a column of which nothing is known.
    """

    loss: Loss
    scale: Floats
    unit: float
    fit_intercept: bool
    support: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    theta: Floats = field(default_factory=lambda: np.zeros(0))
    intercept: float = 0.0
    center: Floats = field(init=False)
    mean: Floats = field(init=False)
    precision: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.center = np.zeros_like(self.scale)
        self.mean = np.zeros(int(self.fit_intercept))
        self.precision = np.zeros((self.mean.size, self.mean.size))

    def learn(self, estimate: Floats, covariance: Floats) -> None:
        """Average a new estimate with those before, by precision.

        Earlier estimates were made farther from the minimizer and with fewer columns. Excess distance between estimates is
        counted as error of the earlier one.
        """
        old = np.zeros_like(self.precision)
        known = np.flatnonzero(np.diag(self.precision) > 0)
        if known.size:
            inner = np.ix_(known, known)
            spread = inverted(self.precision[inner])
            gap = (estimate - self.mean)[known]
            excess = DOUBT * max(0.0, float(gap @ gap) - float(np.trace(covariance[inner] + spread))) / known.size
            old[inner] = inverted(spread + excess * np.eye(known.size))
        new = inverted(covariance)
        self.precision = new + old
        self.mean = inverted(self.precision) @ (new @ estimate + old @ self.mean)

    def columns(self, block: Block) -> Any:
        Z = block.X[:, self.support]
        if sparse.issparse(Z):
            Z.data = Z.data / self.scale[self.support][Z.indices]
            return Z
        return (Z - self.center[self.support]) / self.scale[self.support]

    def along(self, block: Block, theta: Floats) -> Floats:
        """Rows times coefficients of the support. Sparse rows are not cut, which would cost more than the product."""
        if sparse.issparse(block.X):
            return block.dot(self._spread(theta / self.scale[self.support]))
        return _kernels.dot(self.columns(block), theta)

    def predictor(self, block: Block) -> Floats:
        return self.along(block, self.theta) + self.intercept

    def row_norms(self, block: Block) -> Floats:
        """Lengths of rows on the support, intercept included."""
        if not sparse.issparse(block.X):
            return self.norms(self.columns(block))
        total = squared_lengths(block.X, self._spread(self.scale[self.support] ** -2.0))
        return np.sqrt(total + (self.unit**2 if self.fit_intercept else 0.0))

    def _spread(self, values: Floats) -> Floats:
        out = np.zeros(self.scale.size)
        out[self.support] = values
        return out

    def residual(self, block: Block) -> Floats:
        return -self.loss.derivative(self.predictor(block), block.y)

    @property
    def has_tails(self) -> bool:
        """Residuals without a bound are clipped with their rows.

        Bounded ones (labels) are not symmetric, and clipping them would bias the fit: there
        a row is weighted down by what its gradient could be for either label, which does
        not depend on the label and leaves the gradient's zero where it is.
        """
        return math.isinf(self.loss.slope)

    def sizes(self, z: Floats, r: Floats, norms: Floats) -> Floats:
        """What is compared with the clip: the length of a gradient, for the label that makes it longer."""
        return (np.abs(r) if self.has_tails else expit(np.abs(z))) * norms

    def block_sizes(self, block: Block) -> Floats:
        z = self.predictor(block)
        return self.sizes(z, self.loss.derivative(z, block.y), self.row_norms(block))

    def curvature(self, z: Floats, y: Any, r: Floats, norms: Floats, clip: float) -> Floats:
        """Second derivative of the clipped loss, as a share of the largest unclipped one."""
        sizes = self.sizes(z, r, norms)
        kept = (sizes <= clip) if self.has_tails else np.minimum(1.0, clip / np.maximum(sizes, TINY))
        return np.asarray(kept * self.loss.second(z, y) / self.loss.curvature)

    def norms(self, Z: Any) -> Floats:
        squares = Z.multiply(Z).sum(axis=1) if sparse.issparse(Z) else _kernels.row_dots(Z, Z)
        return np.sqrt(np.asarray(squares, dtype=np.float64).ravel() + (self.unit**2 if self.fit_intercept else 0.0))

    def take(self, theta: Floats) -> None:
        """Use these coefficients, the intercept last."""
        k = self.support.size
        self.theta = theta[:k]
        if self.fit_intercept:
            self.intercept = float(theta[k]) * self.unit

    def add(self, columns: Indices) -> None:
        """Add columns to the support, in the order of the table, as CSR products require."""
        grown = np.concatenate([self.support, columns])
        order = np.argsort(grown)
        self.support, self.theta = grown[order], np.concatenate([self.theta, np.zeros(columns.size)])[order]
        order = np.append(order, np.full(int(self.fit_intercept), order.size))
        after = np.full(columns.size, self.mean.size - int(self.fit_intercept))
        self.mean = np.insert(self.mean, after, 0.0)[order]
        self.precision = np.insert(np.insert(self.precision, after, 0.0, axis=0), after, 0.0, axis=1)[np.ix_(order, order)]


@dataclass(frozen=True)
class Point:
    """Where a gradient was released, that gradient over the curvature, and its noise."""

    theta: Floats
    gradient: Floats
    noise: float


def typical(curator: Curator, mechanism: TopK, data: PrivateData, values: Any, q: float) -> float:
    """Private quantile of magnitudes, the middle of its octave, within what later arithmetic can square."""
    middle = HALF_OCTAVE * magnitude_quantile(curator, mechanism, data, values, q)
    return float(np.clip(middle, LIMITS.smallest, LIMITS.largest))


def center_plan(loss: Loss, size: float = SCALE) -> tuple[Mechanism, ...]:
    """Releases that `center` needs; fewer where the response is a label. Each selection of a size gets the share ``size``."""
    if loss.promise.target == "labels":
        return (Gaussian("center of the response", 2 * SCALE),)
    return (TopK("size of the response", 2 * size, count=2), Gaussian("center of the response", 2 * SCALE, count=2))


def squared_lengths(X: Any, weights: Floats) -> Floats:
    """Weighted sum of squares of the entries of each CSR row, in double precision for every storage type."""
    return _kernels.dot((np.square(X.data, dtype=np.float64), X.indices, X.indptr), weights)


def typical_entry(block: Block, scale: Floats) -> Floats:
    """Mean magnitude of each row's non-zero entries, in units of the columns' scale."""
    if sparse.issparse(block.X):
        return np.asarray(_kernels.dot(abs(block.X), 1 / scale) / np.maximum(np.diff(block.X.indptr), 1))
    X = np.abs(block.X)
    return np.asarray(_kernels.dot(X, 1 / scale) / np.maximum(np.count_nonzero(X, axis=1), 1))


def center(curator: Curator, data: PrivateData, loss: Loss, mechanisms: tuple[Any, ...]) -> float:
    """Intercept of the empty model: a clipped mean of the response, re-centered once; or the log-odds."""
    # For a number the residual is its distance, for every loss. For a label the derivative at 0 is one half minus the label.
    distance = loss if loss.promise.target == "labels" else Squared()

    def response(block: Block) -> tuple[Any, None]:
        return -distance.derivative(np.zeros(len(block)), block.y)[:, None], None

    if len(mechanisms) == 1:  # a label minus one half
        mean = Clip(bound=0.5).mean(data, response, width=1)
        share = 0.5 + curator.release(mechanisms[0], mean.to("l2"))[0]
        return float(logit(np.clip(share, LIMITS.label_share, 1 - LIMITS.label_share)))
    size, gaussian = mechanisms
    at = 0.0
    for _ in range(2):
        # Of all quantiles, the median is the one that noise is least likely to miss.
        bound = 6 * typical(curator, size, data, lambda b, at=at: distance.derivative(np.full(len(b), at), b.y), 0.5)
        mean = Clip(center=at, bound=bound).mean(data, response, width=1)
        at = float(curator.release(gaussian, mean.to("l2"))[0])
    return at


def refine(
    curator: Curator, data: PrivateData, fit: SupportFit, plan: FitPlan, *, clip: float = math.inf, most: float = math.inf
) -> Floats:
    """Newton steps from the current fit on its support; the result replaces it. Returns standard errors, the intercept's last.

    Each gradient gives an estimate of the minimizer, ``theta + inverse curvature * gradient``.
    They are averaged with the earlier ones of the fit, so that no release is wasted, and shrunk before the next release. A rough
    plan assumes uncorrelated columns.

    Parameters
    ----------
    curator, data, fit, plan
    clip : float
        Bound on the length of gradients where the plan measures none.
    most : float
        How many coefficients are expected not to be zero, at most.
    """
    k = fit.support.size
    theta = np.append(fit.theta, [fit.intercept / fit.unit] * fit.fit_intercept)
    if plan.radius is None or plan.moments is None:
        moments = ROUGHLY * np.eye(theta.size)
    else:
        radius = typical(curator, plan.radius, data, fit.row_norms, LIMITS.row_quantile) / HALF_OCTAVE
        moments = inverse_moments(curator, plan.moments, data, fit, radius)
    step, last, errors = 1.0, None, np.full(theta.size, math.inf)
    for t, gradient in enumerate(plan.gradients):
        if plan.clip and t < plan.clip.count:
            clip = min(clip, HALF_OCTAVE * typical(curator, plan.clip, data, fit.block_sizes, QUANTILE))
        inverse, informed = (moments, 1.0) if fit.has_tails else _saturated(moments, fit)
        released, noise = clipped_gradient(curator, gradient, data, fit, clip)
        curvature = fit.loss.curvature * float(np.clip(released[-1] + 0.5, LIMITS.unclipped, 1.0))
        scaled = released[:-1] / curvature
        direction = inverse @ scaled
        # Noise, or a wrong curvature, can give a step of any length. None is longer than the largest that residuals justify.
        reach = FARTHEST * (clip / math.sqrt(theta.size) if fit.has_tails else 1.0)
        direction = direction / max(1.0, math.sqrt(float(direction @ np.linalg.solve(moments, direction))) / reach)
        now = Point(theta, scaled, noise / curvature)
        step, last = (_secant(last, now, inverse, step) if last else step), now
        fit.learn(theta + step * direction, (step * now.noise) ** 2 * inverse @ inverse)
        theta, added = fit.mean.copy(), np.diag(inverted(fit.precision))
        sampled = sampling(fit, inverse, clip, curvature, informed) / data.n
        # The columns were chosen for the sampling error of these rows, and not for the noise that was added afterwards.
        selected = float(np.mean((sampled / (added + sampled))[:k]))
        theta[:k] = shrink(theta[:k], np.sqrt(added + sampled)[:k], k * ((data.d / k) ** selected - 1), most)
        # What shrinkage removes counts as an error, like the noise.
        errors = np.sqrt(added + sampled + (theta - fit.mean) ** 2)
        fit.take(theta)
    return errors


def sampling(fit: SupportFit, inverse: Floats, clip: float, curvature: float, informed: float) -> Floats:
    """Sampling variance of each coefficient, times the number of rows."""
    if not fit.has_tails:
        return np.asarray(np.diag(inverse) / informed)
    # A share ``curvature`` of the gradients is not clipped, and of any length below the clip.
    square = (1 - 2 * curvature / 3) * (clip / curvature) ** 2 / len(inverse)
    return np.asarray(square * np.sum(inverse**2, axis=1))


def _saturated(moments: Floats, fit: SupportFit) -> tuple[Floats, float]:
    """Inverse curvature of a loss that saturates, in units of its mean; and that mean without weights.

    Such a loss bends less along the coefficients than across them. By how much is known if
    predictions are about normal: their spread is that of the coefficients under the moments.
    """
    along = np.append(fit.theta, np.zeros(len(moments) - fit.theta.size))
    size = float(np.clip(along @ np.linalg.solve(moments, along), LIMITS.least_variance, LIMITS.most_variance))
    node, weight = np.polynomial.hermite_e.hermegauss(40)
    z = fit.intercept + math.sqrt(size) * node
    bend = weight * expit(-np.abs(z))
    ratio = max(float(bend @ node**2 / bend.sum()), LIMITS.along)
    # Extremely large coefficients come from noise, and say nothing about the curvature.
    stretch = (1 / ratio - 1) / size if LIMITS.least_variance < size < LIMITS.most_variance else 0.0
    inverse = moments + stretch * np.outer(along, along) if stretch else moments
    return inverse, max(float(weight @ (expit(z) * expit(-z)) / weight.sum()), LIMITS.information)


def _secant(last: Point, now: Point, inverse: Floats, step: float) -> float:
    """Step length from two released gradients: shorter where correlated columns make steps overshoot.

    Between two points the gradient changes by curvature times distance. Noise in the first
    gradient also moved the second point; its known contribution is taken out, and the step
    is kept where noise in the second gradient leaves the ratio undecided.
    """
    moved = now.theta - last.theta
    distance = float(moved @ np.linalg.solve(inverse, moved))
    change = float(moved @ (last.gradient - now.gradient))
    change -= step * last.noise**2 * float(np.trace(inverse))
    if not now.noise * float(np.linalg.norm(moved)) < LIMITS.decided * distance:
        return step
    return float(np.clip(distance / max(change, TINY), 1 / 16, LIMITS.longest))


def clipped_gradient(
    curator: Curator,
    mechanism: Gaussian,
    data: PrivateData,
    fit: SupportFit,
    clip: float,
    weight: float = LIMITS.curvature_weight,
    of_lengths: float = math.inf,
) -> tuple[Floats, float]:
    """Released mean of clipped gradients and, as last entry, of the curvature minus one half; noise of the former.

    With a finite ``of_lengths``, rows count in the curvature by their mean square entry over this number, at most one.
    """

    width = fit.support.size + int(fit.fit_intercept) + 1

    def rows(block: Block) -> tuple[Any, None]:
        Z = fit.columns(block)
        z = fit.predictor(block)
        r, norms = -fit.loss.derivative(z, block.y), fit.norms(Z)
        factor = r * np.minimum(1.0, clip / np.maximum(fit.sizes(z, r, norms), TINY))
        curvature = fit.curvature(z, block.y, r, norms, clip)
        if math.isfinite(of_lengths):
            curvature = curvature * np.minimum(norms**2 / ((width - 1) * of_lengths), 1.0)
        extra = [factor * fit.unit] * fit.fit_intercept + [weight * clip * (curvature - 0.5)]
        if sparse.issparse(Z):
            Z.data = np.repeat(factor, np.diff(Z.indptr)) * Z.data
            return sparse.hstack([Z, sparse.csr_matrix(np.stack(extra, axis=1))], format="csr"), None
        return np.column_stack([factor[:, None] * Z, *extra]), None

    mean = Ball(radius=clip * math.sqrt(1 + weight**2 / 4)).mean(data, rows, width=width)
    noise = curator.noise(mechanism, mean.sensitivity)
    *gradient, curvature = curator.release(mechanism, mean)
    return np.array([*gradient, curvature / (weight * clip)]), noise
