"""The length of a logistic fit: two numbers, fitted when the direction is known.

Short steps and shrinkage leave the slopes of rare or noisy labels too small by a common factor. The factor and the constant
are two parameters of a logistic model with one column, the linear predictor, so their noise does not grow with the columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fattail.privacy import Gaussian
from fattail.robust import Ball
from fattail.rows.data import Block

if TYPE_CHECKING:
    from fattail.algorithms.parts.newton import Model

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabelScaleDefaults:
    """Constants, chosen by hand on the laws and tables of ``benchmarks/rare_labels.py``, real ones included."""

    reach: float = 2.0
    """Bound of the predictor, in its standard deviations around the constant."""
    prior: tuple[float, float] = (0.15, 0.35)
    """Standard deviation of the factor around one before the release: if the shape was renewed twice, and if not. Then steps left
    a quarter to a third of the way (ten columns, 1 % ones of 50,000 and 5 % of 10,000)."""
    longest: float = 1.0
    """Largest change of the constant, in log-odds."""
    least_size: float = 1e-6
    """Least standard deviation of the predictor, in log-odds: slopes below are zero."""
    doubt: float = 1.0
    """Noise of the curvature that is added to it, in standard deviations: a step that noise explains is short."""


DEFAULTS = LabelScaleDefaults()


def rescale(model: Model, release: Gaussian) -> None:
    """One Newton step for the common factor of the slopes and the constant; the error of the factor enters the covariance.

    Notes
    -----
    *Privacy.* One release: the mean of a vector of five numbers per row, projected to a ball of public radius. Proof:
    ``label_scale.proof.md``.
    """
    problem, w, (zeros, ones) = model.problem, model.w, model.cases
    size, reach = float(np.linalg.norm(problem.in_u(np.append(w[:-1], 0.0)))), DEFAULTS.reach
    if size < DEFAULTS.least_size:
        model.curator.waive(release)
        return

    def rows(block: Block) -> tuple[Floats, None]:
        z, y = problem.frame.predict(block, w), np.asarray(problem.response(block))
        chance, weight = expit(z), np.where(y > 0, ones, zeros)
        q = np.clip((z - w[-1]) / size, -reach, reach)
        slope, bend = weight * (y - chance), (zeros * (1 - chance) + ones * chance) * chance * (1 - chance)
        return np.column_stack([slope * q, slope, bend * q**2, bend * q, bend]), None

    radius = math.hypot(math.hypot(reach, 1.0), math.sqrt(reach**4 + reach**2 + 1) / 4)
    mean = Ball(radius=radius).mean(model.data, rows, width=5)
    along, constant, square, cross, bend = model.curator.release(release, mean)
    noise = model.curator.noise(release, 2 * radius / model.data.n)
    added = DEFAULTS.doubt * noise
    curvature = np.array([[max(square, 0.0) + added, cross], [cross, max(bend, 0.0) + added]])
    values, vectors = np.linalg.eigh(curvature)
    inverse = (vectors / np.maximum(values, added)) @ vectors.T
    step = inverse @ np.array([along, constant])
    variance = (float((inverse @ inverse)[0, 0]) * noise**2 + float(inverse[0, 0]) / model.data.n) / size**2
    prior = DEFAULTS.prior[1 if model.renewals < 2 else 0]
    known = prior**2 / (prior**2 + variance)
    factor = 1 + known * float(np.clip(step[0] / size, -2 * prior, 2 * prior))
    model.w = np.append(factor * w[:-1], w[-1] + known * float(np.clip(step[1], -DEFAULTS.longest, DEFAULTS.longest)))
    model.noise, model.scale_variance = factor**2 * model.noise, known * variance
