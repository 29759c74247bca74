"""Least squares by many small steps, each as long as its noise deserves.

A row's part of a gradient is ``u r``, in units u of the joint moments. Only the length of that product is bounded: a long row
counts in full where its residual is small, and a large residual where its row is short. So the bound is much smaller than the
product of a bound on rows and one on residuals, and many gradients with little noise can be released instead of a few.

- *Steps.* A gradient observes the distance to the solution with a known noise. Each direction moves by the posterior mean, so
  the first steps are long, later ones average, and directions in which noise dominates hardly move.
- *Bound.* It is a multiple of the median length of the products, from counts of the lengths: as narrow as their tail allows,
  since with more rows or budget a wider one would be all noise. Each release also holds the share of rows beyond the present
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
from fattail.algorithms.parts.lengths import Lengths, edges
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
    tried: tuple[int, int] = (0, 24)
    """Where products were counted, the bounds that are tried, in quarter octaves of the median ..."""
    widest: tuple[float, float] = (1.0, 2.0)
    """... up to so many times the bound without counts: where the size of residuals does not visibly vary with the rows (returns
    of stocks), and where it does (prices, costs)."""
    aligned: tuple[float, float] = (0.1, 0.5)
    """Part of what a bound cuts off that is taken to point in one direction: where directions are even and products light, and
    otherwise. A direction of few rows is cut off as a whole."""
    tail: float = 6.0
    """Products are light if what they may exceed so many medians by ..."""
    light: float = 0.3
    """... is less than so many medians on average, for the heaviest tail that is likely. It was .03 to .17 for normal rows and
    noise, .03 to .25 for ages and years of education, .44 and more for t(3) and log-normal ones."""
    least_median: float = 0.1
    """Lower limit of the median product, over that of normal rows and residuals: many residuals may be zero."""
    count_noise: float = 0.02
    """Noise of a count, as a share of the rows, up to which counts are used."""
    least_unit: float = 0.02
    """Lower limit of the size of residuals, in units of the response."""


DEFAULTS = DescentDefaults()


@dataclass(frozen=True)
class Products:
    """Released sizes of products of rows and residuals, in units of those of normal rows and residuals of the fit's size."""

    sizes: Lengths
    median: float

    @classmethod
    def counted(cls, joint: JointFit, release: Gaussian, data: PrivateData) -> Products | None:
        """Count them at the present fit, if the noise of a count is small enough."""
        curator = joint.curator
        if curator.noise(release, math.sqrt(2)) > DEFAULTS.count_noise * data.n:
            curator.waive(release)
            return None
        problem, full, unit = joint.problem, joint.full, NORMAL_MEDIAN * math.sqrt(joint.p) * joint.unit

        def values(block: Block) -> Floats:
            residual = problem.response(block) - problem.frame.predict(block, full)
            return np.asarray(np.abs(residual) * problem.frame.shaped(block)[2] / unit)

        sizes = Lengths.counted(curator, release, data, values)
        return cls(sizes, max(float(np.interp(0.5, 1 - sizes.survival, edges())), DEFAULTS.least_median))

    @property
    def are_light(self) -> bool:
        """Whether surely few of them are far beyond their median."""
        return self.sizes.most_excess(DEFAULTS.tail * self.median) < DEFAULTS.light * self.median

    def bound(self, multiplier: float, p: int, usual: float, varying: bool, even: bool) -> float:
        """Bound of least error, in medians: noise of all steps, and a part of what is cut off.

        Parameters
        ----------
        multiplier : float
            Noise of all steps together, for rows bounded by one half.
        p : int
        usual : float
            The bound without counts.
        varying : bool
            Whether the size of residuals visibly varies with the rows.
        even : bool
            Whether no direction is made up of few rows.
        """
        bounds = 2.0 ** (np.arange(*DEFAULTS.tried) / 4)
        bounds = bounds[bounds <= max(DEFAULTS.widest[varying] * usual, bounds[0])]
        noise = 2 * multiplier * math.sqrt(p) * bounds * self.median
        cut = np.array([self.sizes.excess(bound * self.median) for bound in bounds])
        aligned = DEFAULTS.aligned[not (even and self.are_light)]
        return float(bounds[np.argmin(noise**2 + (aligned * cut) ** 2)])


def planned(share: float) -> Gaussian:
    """The release that is split into steps."""
    return Gaussian("descent", share, parts=DEFAULTS.steps)


def descend(
    joint: JointFit,
    release: Gaussian,
    samples: Sequence[PrivateData],
    products: Products | None = None,
    even: bool = False,
) -> None:
    """Move the fit by the parts of a planned release. Its prior is then the error that steps and their noise have left.

    Parameters
    ----------
    joint : JointFit
        Fitted by a round of joint moments.
    release : Gaussian
        As `planned`.
    samples : sequence of PrivateData
        Rows of the steps, fewer in the first of them: later steps undo most of their error. The last ones are all rows.
    products : Products, optional
        Sizes of the products, from which the bound follows. Without them it follows from the number of rows.
    even : bool
        Whether no direction is made up of few rows.

    Notes
    -----
    *Privacy.* Every part is one mean of rows in a ball: a clipped gradient and an indicator. Proof: ``descent.proof.md``.
    """
    curator, p, n = joint.curator, joint.p, samples[-1].n
    multiple = float(np.clip(n / (DEFAULTS.noise * curator.noise(release) * p), *DEFAULTS.bounds))
    typical = NORMAL_MEDIAN * math.sqrt(p)
    first = DEFAULTS.first * typical * joint.unit
    if products is not None:
        first = products.median * typical * joint.unit
        multiple = products.bound(curator.noise(release) / n, p, multiple, bool(np.any(joint.sizes)), even)
    kept = math.erf(
        multiple * NORMAL_MEDIAN / math.sqrt(2)
    )  # curvature of the loss: the share of normal residuals within the bound
    back = np.linalg.inv(joint.shape)
    # What the columns may still explain is what the residuals hold.
    start = np.sum((back.T @ joint.prior) * back.T, axis=1) + joint.unit**2 / p
    left, noise = np.ones(p), np.zeros(p)  # of the error of the start, and variance of what noise has added
    shown = expected = 0.0
    gains: list[Floats] = []
    noises: list[float] = []
    w, median = joint.w, first
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
