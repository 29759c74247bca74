"""Least squares by many small steps, each as long as its noise deserves.

A row's part of a gradient is ``u r``, in units u of the joint moments. Only the length of that product is bounded: a long row
counts in full where its residual is small, and a large residual where its row is short. So the bound is much smaller than the
product of a bound on rows and one on residuals, and many gradients with little noise can be released instead of a few.

- *Steps.* A gradient observes the distance to the solution with a known noise. Each direction moves by the posterior mean, so
  the first steps are long, later ones average, and directions in which noise dominates hardly move.
- *Bound.* It is a multiple of the median length of the products. Each release also holds the share of rows beyond the present
  estimate of that median, at the cost of a few percent of noise (Andrew, Thakkar, McMahan and Ramaswamy 2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import TINY
from fattail.algorithms.parts.joint_moments import JointFit
from fattail.privacy import Gaussian
from fattail.robust import Ball
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

NORMAL_MEDIAN = 0.6745
"""Median size of a standard normal variable."""


@dataclass(frozen=True)
class DescentDefaults:
    """Constants, chosen by hand on the tables that ``benchmarks/real_tables.py`` marks as tuned."""

    steps: int = 20
    noise: float = 14.0
    """The bound is so many times smaller than that at which the noise of all steps together would move predictions by a residual:
    it is ``n / (noise * multiplier * p)``, in medians of the products ..."""
    bounds: tuple[float, float] = (0.8, 16.0)
    """... within this range."""
    longest: float = 0.5
    """Longest step, in units of the distance that a gradient shows."""
    indicator: float = 0.5
    """Weight of a row in the share of long products, over the bound of its gradient."""
    first: float = 0.8
    """First estimate of the median product, over that of normal rows and residuals."""
    least_unit: float = 0.02
    """Lower limit of the size of residuals, in units of the response."""


DEFAULTS = DescentDefaults()


def planned(share: float) -> Gaussian:
    """The release that is split into steps."""
    return Gaussian("descent", share, parts=DEFAULTS.steps)


def descend(joint: JointFit, release: Gaussian, samples: Sequence[PrivateData]) -> None:
    """Move the fit by the parts of a planned release. Its prior is then the error that steps and their noise have left.

    Parameters
    ----------
    joint : JointFit
        Fitted by a round of joint moments.
    release : Gaussian
        As `planned`.
    samples : sequence of PrivateData
        Rows of the steps, fewer in the first of them: later steps undo most of their error. The last ones are all rows.

    Notes
    -----
    *Privacy.* Every part is one mean of rows in a ball: a clipped gradient and an indicator. Proof: ``descent.proof.md``.
    """
    curator, p, n = joint.curator, joint.p, samples[-1].n
    multiple = float(np.clip(n / (DEFAULTS.noise * curator.noise(release) * p), *DEFAULTS.bounds))
    kept = math.erf(
        multiple * NORMAL_MEDIAN / math.sqrt(2)
    )  # curvature of the loss: the share of normal residuals within the bound
    typical = NORMAL_MEDIAN * math.sqrt(p)
    back = np.linalg.inv(joint.shape)
    # What the columns may still explain is what the residuals hold.
    start = np.sum((back.T @ joint.prior) * back.T, axis=1) + joint.unit**2 / p
    left, noise = np.ones(p), np.zeros(p)  # of the error of the start, and variance of what noise has added
    shown = expected = 0.0
    gains: list[Floats] = []
    noises: list[float] = []
    w, median = joint.w, DEFAULTS.first * typical * joint.unit
    parts = [curator.split(release, f"gradient {t + 1}", 1.0 / DEFAULTS.steps) for t in range(DEFAULTS.steps - 1)]
    for t, part in enumerate((*parts, release)):
        data = samples[t * len(samples) // DEFAULTS.steps]
        bound = multiple * median
        mark = DEFAULTS.indicator * bound
        radius = math.hypot(bound, mark / 2)
        found = curator.release(part, Ball(radius=radius).mean(data, _rows(joint, w, bound, median, mark), width=p + 1))
        gradient, variance = found[:-1], curator.noise(part, 2 * radius / data.n) ** 2
        variance += joint.unit**2 * (1 / data.n - 1 / n)  # fewer rows
        known = left**2 * start + noise
        gain = np.minimum(DEFAULTS.longest, kept * known / (kept**2 * known + variance))
        shown += (float(np.mean(gradient**2)) - variance) / kept**2 - float(np.mean(noise))
        expected += float(np.mean(left**2 * start))
        w = w + joint.shape.T @ (gain * gradient)
        left, noise = (1 - kept * gain) * left, (1 - kept * gain) ** 2 * noise + gain**2 * variance
        gains.append(gain)
        noises.append(math.sqrt(variance))
        median *= math.exp(float(np.clip(found[-1] / mark, -0.5, 0.5)))
    # Gradients that are longer than expected show that the start was worse than its prior.
    start = start * max(1.0, shown / max(expected, TINY))
    unit = float(np.clip(median / typical, DEFAULTS.least_unit, max(joint.unit, 1.0)))
    joint.bound = multiple * median / unit
    joint.continue_from(w, *joint.curvature.left(start, kept, gains, noises), unit)


def _rows(joint: JointFit, w: Floats, bound: float, median: float, mark: float) -> Callable[[Block], tuple[Any, None]]:
    """A row's gradient, shortened to the bound, and half of the mark, positive beyond the median."""
    problem, full = joint.problem, joint.expanded(w)

    def rows(block: Block) -> tuple[Any, None]:
        u, _, length = problem.frame.shaped(block)
        r = problem.response(block) - problem.frame.predict(block, full)
        product = np.abs(r) * length
        slope = r * np.minimum(1.0, bound / np.maximum(product, TINY))
        return np.column_stack([u * slope[:, None], np.where(product > median, mark / 2, -mark / 2)]), None

    return rows
