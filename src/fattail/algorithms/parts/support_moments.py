"""Private second moments of chosen columns: a matrix if the budget allows it, otherwise a diagonal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail._tools.numbers import TINY
from fattail.privacy import Curator, Gaussian
from fattail.robust import Ball, Gram, symmetric
from fattail.rows.data import Block, PrivateData

if TYPE_CHECKING:
    from fattail.algorithms.parts.support_fit import SupportFit

Floats = NDArray[np.float64]

# The largest eigenvalue of the noise is about 2 sqrt(width) times the noise of an entry (Wigner 1955). The mean eigenvalue of the
# matrix is its trace over the width. The ratio of the two grows with this power of the width.
_NOISE_POWER = 1.5
# Set by hand in the first version; benchmarks/sparse.py measures what they change. The least mean square of a column, as a share
# of what it has where rows of the length ``radius`` spread evenly over the columns; and the least eigenvalue, as a share of the
# mean square: smaller ones would come from noise or from nearly collinear columns.
_LEAST_SQUARE, _LEAST_EIGENVALUE = 0.1, 0.2
# Eigenvalues below this count as zero; the inverse and its products stay finite.
_FLOOR = 1e-250
# Least ratio of the smallest eigenvalue to the largest that is accurate in double precision, with a margin for a few hundred
# columns.
_ROUNDING = 1e-12


def inverse_moments(curator: Curator, second: Gaussian, data: PrivateData, fit: SupportFit, radius: float) -> Floats:
    """Inverse of the second moments of the chosen columns, rows projected to the ball of ``radius``, from a release that fits
    the budget.

    The whole matrix if its noise is small relative to its trace (public arithmetic), otherwise its diagonal. Off-diagonal terms
    and differences between columns are shrunk to 0 by the share of them that noise explains (James and Stein 1961).
    """
    k, width = fit.support.size, fit.support.size + int(fit.fit_intercept)
    off, kept = np.zeros((width, width)), 0.0
    if width <= 64 and 2 * math.sqrt(2) * width**_NOISE_POWER * curator.noise(second) < data.n:

        def rows(block: Block) -> tuple[Any, None]:
            Z = fit.columns(block)
            Z = Z.toarray() if sparse.issparse(Z) else Z
            return np.column_stack([Z, np.full(len(block), fit.unit)]) if fit.fit_intercept else Z, None

        mean = Gram(radius=radius).mean(data, rows, width=width)
        noise = curator.noise(second, mean.sensitivity)
        matrix = symmetric(curator.release(second, mean))
        diagonal, off = np.diag(matrix)[:k], matrix - np.diag(np.diag(matrix))
        kept = _signal_share(off, width * (width - 1) * noise**2 / 2)
    else:
        diagonal, noise = squares(curator, second, data, fit, radius)
    middle = max(float(diagonal.mean()), _LEAST_SQUARE * radius**2 / width)
    diagonal = middle + _signal_share(diagonal - middle, k * noise**2) * (diagonal - middle)
    matrix = np.diag(np.append(np.maximum(diagonal, 0.25 * middle), [fit.unit**2] * fit.fit_intercept)) + kept * off
    return inverted(matrix, max(_LEAST_EIGENVALUE * min(middle, fit.unit**2), kept * noise * math.sqrt(width)))


def squares(curator: Curator, mechanism: Gaussian, data: PrivateData, fit: SupportFit, radius: float) -> tuple[Floats, float]:
    """Released mean square of each chosen column, with rows projected to the ball of ``radius``; and its noise."""

    def rows(block: Block) -> tuple[Any, None]:
        Z = fit.columns(block)
        factor = np.minimum(1.0, radius / np.maximum(fit.norms(Z), TINY))
        if sparse.issparse(Z):
            Z.data = (np.repeat(factor, np.diff(Z.indptr)) * Z.data) ** 2
            return Z, None
        return (factor[:, None] * Z) ** 2, None

    mean = Ball(radius=radius**2).mean(data, rows, width=fit.support.size)
    return curator.release(mechanism, mean), curator.noise(mechanism, mean.sensitivity)


def _signal_share(deviation: Floats, noise: float) -> float:
    """Share of a sum of squares that noise does not explain."""
    total = float(np.sum(deviation**2))
    return max(0.0, 1 - noise / total) if total > 0 else 0.0


def inverted(matrix: Floats, floor: float = _FLOOR) -> Floats:
    """Inverse of a symmetric matrix with its eigenvalues raised to a floor, and to what rounding leaves of the largest."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / np.maximum(values, max(floor, _ROUNDING * float(values[-1])))) @ vectors.T)
