"""Least squares on columns that are alike, by many cheap gradient steps whose second half is averaged.

A release of second moments has noise of the order ``k sqrt(k) / n`` for k columns; a gradient, whose rows are bounded as a whole,
has ``k / n``. Columns that somebody scaled are about uncorrelated, so that a step of a fixed length moves towards the minimizer
in every direction. Each step undoes a part of the error of those before it, the noise of earlier ones included, and the average
over the second half of the steps has about the noise of one release with half of the budget (Polyak and Juditsky 1992).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.algorithms.parts.geometry import shrink
from fattail.algorithms.parts.support_fit import LIMITS, SupportFit, clipped_gradient, sampling, typical
from fattail.privacy import Curator, Gaussian, TopK
from fattail.robust import Clip
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SupportDescentDefaults:
    """Constants, chosen on Gaussian columns with t(2.5) noise; ``benchmarks/sparse.py`` has other laws."""

    step: float = 0.4
    """Length of a step, in Newton steps for uncorrelated columns."""
    quantile: float = 0.5
    """Gradients are clipped at this quantile of their lengths, times ``narrow``."""
    narrow: float = 0.5
    largest_square: float = 8.0
    """Limit of the mean square of a row's entries, in units of the typical entry, whose octave was released."""
    certain: float = 3.0
    """Deviations of its noise that the mean square must exceed to be used."""
    largest: float = 2.0
    """A row counts in the curvature by its mean square entry, at most by this number: long rows are clipped."""
    weight: float = 0.6
    """Size of the released curvature relative to the clip; the noise of gradients grows by 4.4 %."""
    early: float = 0.5
    """Share of the steps among all columns that are left out of their average ..."""
    late: float = 0.25
    """... and of the steps that follow on the columns that are left."""
    blur: float = 0.4
    """With a larger blur (``auto/many_columns.py``), the noise of second moments costs more than steps that assume none."""


DEFAULTS = SupportDescentDefaults()


def even_out(curator: Curator, release: Gaussian, data: PrivateData, fit: SupportFit) -> None:
    """Multiply the scale of all columns by the root of the mean square of the rows' entries, so that it becomes one."""
    k, half = fit.support.size, DEFAULTS.largest_square / 2

    def squares(block: Block) -> tuple[Floats, None]:
        Z = fit.columns(block)
        return np.minimum(_kernels.row_dots(Z, Z) / k, 2 * half)[:, None], None

    mean = Clip(center=half, bound=half).mean(data, squares, width=1).to("l2")
    noise = curator.noise(release, mean.sensitivity)
    found = float(curator.release(release, mean)[0])
    if found > DEFAULTS.certain * noise:
        fit.scale = fit.scale * math.sqrt(found)


def averaged_descent(
    curator: Curator,
    data: PrivateData,
    fit: SupportFit,
    gradients: Sequence[Gaussian],
    sizes: Sequence[TopK],
    *,
    clip: float,
    most: float,
    skipped: float,
) -> tuple[Floats, float]:
    """Descend from the current fit on its support. Its average, shrunken, replaces the fit, without the columns that noise could
    explain; what is known of the others is noted there.

    Parameters
    ----------
    curator, data, fit
    gradients : sequence of Gaussian
        Of each step.
    sizes : sequence of TopK
        Selections of the size of a gradient, for the first steps.
    clip : float
        First bound on the length of a gradient.
    most : float
        How many coefficients are expected not to be zero, at most.
    skipped : float
        Share of the steps, the first ones, that are left out of the average.

    Returns
    -------
    errors, clip
        Standard errors of the coefficients that are left, the intercept's last; and the bound of the last gradient.
    """
    k, steps, first = fit.support.size, len(gradients), int(skipped * len(gradients))
    theta = used = np.append(fit.theta, [fit.intercept / fit.unit] * fit.fit_intercept)
    known = bool(fit.precision.any())
    start = running = 1 / float(np.mean(np.diag(fit.precision))) if known else 0.0
    path, noises, curvature, seen = [], [], 1.0, 0
    for t, gradient in enumerate(gradients):
        if t < len(sizes):
            bound = DEFAULTS.narrow * typical(curator, sizes[t], data, fit.block_sizes, DEFAULTS.quantile)
            clip, seen = min(clip, bound), 0
        released, noise = clipped_gradient(curator, gradient, data, fit, clip, DEFAULTS.weight, DEFAULTS.largest)
        share = DEFAULTS.largest * float(np.clip(released[-1] + 0.5, 0.0, 1.0))
        curvature, seen = (seen * curvature + share) / (seen + 1), seen + 1
        scale = fit.loss.curvature * max(curvature, LIMITS.unclipped)
        theta = theta + DEFAULTS.step * (used + released[:-1] / scale - theta)
        noises.append(DEFAULTS.step * noise / scale)
        running = (1 - DEFAULTS.step) ** 2 * running + noises[-1] ** 2
        if t >= first:
            path.append(theta)
        sampled = sampling(fit, np.eye(theta.size), clip, scale, 1.0)[0] / data.n
        used = np.append(shrink(theta[:k], math.sqrt(running + sampled), 0.0, most), theta[k:])
        fit.take(used)
    # A step leaves 1 - step of the noise before it, so this much of each step's is in the average.
    left = (1 - DEFAULTS.step) ** np.arange(steps + 1.0)
    shares = np.array([left[max(0, first - i) : steps - i].sum() for i in range(steps)]) / len(path)
    added = start * float(np.mean(left[first + 1 :])) ** 2 + float(np.sum((shares * noises) ** 2))
    theta, variance = np.mean(path, axis=0), added + sampled
    shrunken = np.append(shrink(theta[:k], math.sqrt(variance), 0.0, most), theta[k:])
    errors = np.sqrt(variance + (shrunken - theta) ** 2)
    kept = shrunken != 0
    kept[int(np.argmax(np.abs(theta[:k])))], kept[k:] = True, True
    fit.support, fit.mean = fit.support[kept[:k]], theta[kept]
    fit.precision = np.eye(fit.mean.size) / variance
    fit.take(shrunken[kept])
    return errors[kept], clip
