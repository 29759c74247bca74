"""Common parts of the methods for linear models: private units for rows, and their inverse.

A method works on rows u of about unit variance in every direction and on responses of about
unit size; ``prepare`` finds such units privately, and ``Problem`` converts back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail._tools.numbers import TINY
from fattail._tools.warnings import warn_utility
from fattail.catalog import Offered
from fattail.columns.units import find_units, planned_counts
from fattail.losses import Huber, Logistic, Loss, Needs
from fattail.privacy import Curator, Gaussian, Mechanism
from fattail.robust import Gram, symmetric
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
LINEAR = Offered("linear")
TEST = "tests/contracts/test_methods.py"
DESCENT_NEEDS = Needs(targets=("real", "nonnegative", "labels"))  # a step is one over the curvature
REACH = 4.0  # largest predictions, in private units

WIDEST = 500  # largest number of columns (with the constant) for which second moments are released; with more they would be noise

# A penalty, per column of unit scale, for which coefficients are practically zero. With a much larger one the equations of a
# step are singular in floating point, and a charged fit would fail.
_STRONGEST = 1e12
# Least eigenvalue of released second moments, in private units (an ordinary direction has about 1), where the noise sets no
# higher one: inverse roots stay below a thousand. Set by hand in the first version; it acts only where there is hardly any noise.
_LEAST_EIGENVALUE = 1e-6


@dataclass(frozen=True)
class LinearFit:
    """A linear model in the user's units, and the covariance of its error."""

    coef: Floats
    intercept: float
    n_iter: int
    covariance: Floats | None = None
    """Of (coef, intercept): sampling and privacy noise together."""
    response_range: tuple[float, float] = (-math.inf, math.inf)
    """Range to which predictions are clipped."""
    decided_by_few: Sequence[int] | NDArray[np.intp] = ()
    """Columns whose coefficients may be decided by rows too few to show."""


@dataclass(frozen=True)
class Target:
    """The objective: loss, ridge penalty ``alpha / 2 |coef|^2``, ball of coefficients, intercept or not.

    For a logistic loss the response is 0, 1, or NaN where the label is neither of the two declared.
    """

    loss: Loss
    alpha: float = 0.0
    radius: float = math.inf
    intercept: bool = True

    @property
    def logistic(self) -> bool:
        return isinstance(self.loss, Logistic)

    @property
    def is_plain(self) -> bool:
        """Whether there is an intercept and neither a penalty nor a ball."""
        return self.intercept and self.alpha == 0 and math.isinf(self.radius)

    @property
    def labels(self) -> bool:
        return self.loss.promise.target == "labels"

    @property
    def has_unit(self) -> bool:
        """Whether responses are numbers with an arbitrary unit and center."""
        return self.loss.promise.target == "real"


@dataclass(frozen=True)
class Frame:
    """The public map from rows to u: ``shape @ ((x - center) / scale, constant)``, and the weight of a row.

    Rows longer than ``radius`` are weighted down so that their second moments are those of rows projected to the ball of
    ``radius``.
    """

    center: Floats
    scale: Floats
    radius: float
    shape: Floats
    constant: float = 1.0

    def standard(self, block: Block) -> Singles:
        """Rows z in single precision."""
        return _kernels.standard_rows(block.dense, self.center, 1.0 / self.scale, self.constant)

    def weights(self, squares: Floats) -> Floats:
        """Weights of rows z by their squared lengths."""
        return np.asarray(np.minimum(1.0, self.radius**2 / squares))

    def predict(self, block: Block, w: Floats) -> Floats:
        """``standard(block) @ w``, in one pass over the rows as they are."""
        slope = w[:-1] / self.scale
        return np.asarray(block.dot(slope) + (self.constant * w[-1] - self.center @ slope))

    def rows(self, block: Block) -> tuple[Singles, Floats, Floats]:
        """Rows u in single precision, their weights, and the lengths of the weighted rows.

        Single precision is far more accurate than the noise, and the product takes half the time.
        """
        u, squares, length = self.shaped(block)
        weight = self.weights(squares)
        return u, weight, weight * length

    def shaped(self, block: Block) -> tuple[Singles, Floats, Floats]:
        """Rows u in single precision, the squared lengths of z, and the lengths of u."""
        return _kernels.shaped_rows(block.dense, self.center, 1.0 / self.scale, self.constant, self.shape)


@dataclass(frozen=True)
class Problem:
    """A target in the units of a frame. Parameters w act on z; steps are taken in u."""

    target: Target
    frame: Frame
    level: float = 0.0
    size: float = 1.0
    reach: tuple[float, float] = (-math.inf, math.inf)
    """Visible range of the response."""
    size_is_guess: bool = False
    """Whether ``prepare`` saw no spread of the response, so that ``size`` is 1 in the user's unit, whatever that is."""
    ridge: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        alpha, scale = self.target.alpha, self.frame.scale
        object.__setattr__(self, "ridge", np.append(np.minimum(alpha / scale**2, _STRONGEST), 0.0))

    @property
    def p(self) -> int:
        """Directions of u."""
        return len(self.frame.shape)

    @property
    def unit_is_guess(self) -> bool:
        """Whether the spread of the response is not visible, so that its unit is set to one."""
        return math.isinf(self.reach[0])

    @property
    def start(self) -> Floats:
        return np.zeros(self.frame.shape.shape[1])

    @property
    def loss(self) -> Loss:
        """The loss in units of ``size``."""
        return self.target.loss.scaled(self.size, self.level) if self.target.has_unit else self.target.loss

    def response(self, block: Block) -> Any:
        assert block.y is not None
        if self.target.labels:
            return block.y
        return (block.y - self.level) / self.size

    @property
    def fixed_loss(self) -> Loss:
        """The loss, with a threshold of one unit of the response where the user gave none."""
        loss = self.loss
        return Huber(1.0) if isinstance(loss, Huber) and math.isinf(loss.threshold) else loss

    def gradient_rows(self, w: Floats) -> Callable[[Block], tuple[Singles, Floats]]:
        """Gradients of the rows in u, as (rows, factors)."""
        loss = self.fixed_loss

        def rows(block: Block) -> tuple[Singles, Floats]:
            u, weight, _ = self.frame.rows(block)
            return u, weight * loss.derivative(self.frame.predict(block, w), self.response(block))

        return rows

    def in_u(self, w: Floats) -> Floats:
        """``w`` in the units of steps."""
        if self.p > WIDEST:  # no moments were released, and u is z
            return w
        return np.asarray(np.linalg.lstsq(self.frame.shape.T, w, rcond=None)[0])

    def spread(self, variance: Floats) -> Floats:
        """Covariance of w where the directions of u have these variances."""
        shape = self.frame.shape
        return np.asarray((shape.T * variance) if self.p > WIDEST else (shape.T * variance) @ shape)

    def move(self, w: Floats, gradient: Floats, step: float, reach: float = math.inf) -> Floats:
        """``w`` minus a step along ``gradient`` (in u) and the penalty, into the balls.

        One ball is the user's; ``reach`` bounds the size of predictions, in private units.
        """
        shape = self.frame.shape
        slope = gradient + shape @ (self.ridge * w)
        if np.any(self.ridge):
            # Implicit in the penalty, so that the step is stable for any penalty.
            slope = np.asarray(np.linalg.solve(np.eye(self.p) + step * (shape * self.ridge) @ shape.T, slope), dtype=np.float64)
        moved = w - step * shape.T @ slope
        if math.isfinite(reach):
            size = float(np.linalg.norm(self.in_u(moved)))
            moved = moved * min(1.0, reach / max(size, TINY))
        norm = float(np.linalg.norm(moved[:-1] / self.frame.scale)) * self.size
        if norm > self.target.radius:
            moved[:-1] *= self.target.radius / norm
        return np.asarray(moved)

    def solution(self, w: Floats, n_iter: int, covariance: Floats | None = None) -> LinearFit:
        """The fit in the user's units; ``covariance`` is that of w."""
        frame = self.frame
        unit, shift = np.append(self.size / frame.scale, self.size * frame.constant), -self.size * frame.center / frame.scale

        def back(v: Floats) -> Floats:  # a diagonal map except for its last row; a full matrix would cost as much as a fit
            out = np.asarray((unit * v.T).T)
            out[-1] += shift @ v[:-1]
            return out

        theta = back(w)
        error = None if covariance is None else back(back(covariance).T).T
        if error is not None:
            hidden = np.flatnonzero(np.isinf(frame.scale))
            error[hidden, hidden] = math.inf  # a column that was left out: its coefficient is unknown
            if self.size_is_guess:  # no residual is known, and the level may be wrong by any amount
                np.fill_diagonal(error, math.inf)
                warn_utility(
                    "no spread of the response is visible above the noise, so its unit is unknown: coefficients and intercept "
                    "may be wrong by any amount, and all intervals are infinite"
                )
        return LinearFit(theta[:-1], float(theta[-1] + self.level), n_iter, error)

    def with_shape(self, shape: Floats) -> Problem:
        return replace(self, frame=replace(self.frame, shape=shape))


@dataclass(frozen=True)
class Units:
    """Releases that make rows comparable: centers and scales, then second moments."""

    columns: tuple[Gaussian, ...]
    moments: Gaussian
    radius: float

    @classmethod
    def planned(cls, p: int, columns: float = 0.06, moments: float = 0.1, radius: float = 1.5, shapes: int = 1) -> Units:
        """Releases for rows of ``p`` numbers.

        The defaults are for the papers' descents. They were set by hand in the first version; ``benchmarks/regression.py``
        measures what they change.

        Parameters
        ----------
        p : int
        columns, moments : float
            Shares of the budget for the counts of columns, and for each matrix of second moments.
            ``defaults.DESCENT_SHARE`` is what they leave.
        radius : float
            Length to which longer rows are projected, in units of ``sqrt(p)``, the root mean square length of rows whose
            columns have unit variance.
        shapes : int
            Matrices of second moments.
        """
        return cls(
            planned_counts(columns),
            Gaussian("second moments", moments * shapes, count=shapes),
            radius * math.sqrt(p),
        )

    def mechanisms(self, p: int) -> tuple[Mechanism, ...]:
        return (*self.columns, self.moments) if p <= WIDEST else self.columns


def prepare(
    curator: Curator,
    units: Units,
    data: PrivateData,
    target: Target,
    count_rows: PrivateData | None = None,
    visible: bool = False,
) -> Problem:
    """Find units privately: after it, every direction of u has about unit variance, and so has the response.

    Columns are counted over ``count_rows``, where given. ``visible`` leaves out directions whose variance does not
    exceed the noise of its release.
    """
    p = data.d + 1
    center, scale, *_ = find_units(curator, units.columns, count_rows or data, target.has_unit, tails=False)
    level, size = (float(center[-1]), float(scale[-1])) if target.has_unit else (0.0, 1.0)
    is_guess, size = not math.isfinite(size), size if math.isfinite(size) else 1.0
    center, scale = center[: p - 1], scale[: p - 1]
    if not target.intercept:
        # Without an intercept, coefficients multiply distances from zero.
        level, scale = 0.0, np.hypot(scale, center)
        center = np.zeros(p - 1)
    frame = Frame(center, scale, units.radius, np.eye(p), float(target.intercept))
    problem = Problem(target, frame, level, size, size_is_guess=is_guess)
    return problem if p > WIDEST else reshape(curator, units.moments, data, problem, None, visible)


def reshape(
    curator: Curator,
    release: Gaussian,
    data: PrivateData,
    problem: Problem,
    w: Floats | None = None,
    visible: bool = False,
) -> Problem:
    """Release second moments, weighted with the loss's curvature at ``w`` if given, and take their inverse root."""
    frame, loss = problem.frame, problem.loss

    def rows(block: Block) -> tuple[Singles, Floats | None]:
        if w is None:
            return frame.standard(block), None
        # In units of the first matrix, so that the noise hides no direction.
        u, weight, _ = frame.rows(block)
        bend = loss.second(frame.predict(block, w), problem.response(block)) / loss.curvature
        return u, np.sqrt(weight * bend)

    moments = symmetric(curator.release(release, Gram(radius=frame.radius).mean(data, rows, width=problem.p)))
    noise = curator.noise(release, math.sqrt(2) * frame.radius**2 / data.n)
    values, vectors = np.linalg.eigh(moments)
    # Eigenvalues below the noise are not meaningful.
    floor = max(noise * math.sqrt(2 * problem.p), _LEAST_EIGENVALUE)
    root = (vectors / np.sqrt(np.maximum(values, floor))).T
    if visible:
        root = root[(values > floor) | (values == values[-1])]
    return problem.with_shape(root if w is None else root @ frame.shape / math.sqrt(loss.curvature))


@dataclass(frozen=True)
class Descent:
    """Public numbers of a gradient method; rows and responses are in units of about 1.

    Attributes
    ----------
    n_iter : int
    step : float
        In units of one over the curvature of the loss.
    moment_bound : float, optional
        Bound on the second (or ``moment``-th) moment of a coordinate of a gradient.
    splitting : bool
        Each step on its own rows.
    """

    n_iter: int = 12
    step: float = 0.5
    moment_bound: float | None = None
    splitting: bool = False

    def move(self, problem: Problem, w: Floats, gradient: Floats) -> Floats:
        """A gradient step, projected on the ball of parameters whose predictions have size ``REACH``."""
        return problem.move(w, gradient, self.step / problem.loss.curvature, REACH)

    def warn_if_short(self, problem: Problem) -> None:
        """Warn that the steps cannot reach the size of the response, because the loss is curved only within a far smaller range.

        In private units the response has size one, and no step is longer than the slope over the curvature. The units were
        released, so this is arithmetic on releases.
        """
        loss = problem.fixed_loss
        reach = self.n_iter * self.step * loss.slope / loss.curvature
        if reach < 1:
            warn_utility(
                f"{self.n_iter} steps of {self.step:g} move predictions by {reach:.2g} of the size of the response at most, so "
                f"coefficients will be close to zero: rescale {type(problem.target.loss).__name__} to the units of the response, "
                "or take more or longer steps (n_iter, step)"
            )

    def bound(self, problem: Problem) -> float:
        """The moment bound; by default that of responses of unit size. Labels have a variance of at most a quarter."""
        if self.moment_bound is not None:
            return self.moment_bound
        return 0.25 if problem.target.labels else 2.0

    def folds(self, curator: Curator, n: int) -> tuple[Any, ...]:
        """The rows of each step; None for all of them."""
        return curator.folds(n, self.n_iter) if self.splitting else (None,) * self.n_iter
