"""The default mean: it assumes nothing, and estimates all that it needs from the same budget."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fattail._tools.warnings import warn_utility
from fattail.algorithms.parts.estimates import NORMAL, Estimate, noise_std, per_column, positive_bound
from fattail.algorithms.parts.pilot import locations_alone
from fattail.algorithms.registry import registered
from fattail.columns import ColumnDescription, Ends, clipped_variance, describe, plan_mean, settle_ends
from fattail.privacy import Curator, Laplace
from fattail.robust import Clip
from fattail.robust.base import ONE
from fattail.robust.clip_moments import clipped_moments
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]


@registered(
    "auto",
    estimators=("DPMean",),
    paper="fattail",
    algorithm="adaptive clipped mean",
    changed="nothing to declare: location, scale and both clipping ends are private estimates from the same budget, "
    "and the clipping bias predicted from the released tail counts is taken out",
    test="tests/estimators/test_means.py::test_fuzz[auto]",
)
def adaptive_mean(curator: Curator, data: PrivateData) -> Estimate:
    """Clipped mean whose ends are chosen from a private description of the column, minus its predicted bias.

    Notes
    -----
    1. Private center c_j of every column, on successively finer public grids.
    2. Noisy counts of its rows at, above and below c_j by octave of the distance.
    3. Public: the ends of the interval with the smallest expected error, and the bias that clipping to it causes
       (``fattail.columns``).
    4. Noisy mean of the rows clipped to the interval, minus the bias. With few columns and a public n, a second moment of the
       clipped rows is released with it, without more noise (``clipped_moments``). It is for the interval only.

    The interval of the answer holds the mean of the law and the mean of these rows: its spread has the sampling error of the
    clipped rows as well as what the rows beyond the ends may add. It is infinite where nothing but a point mass is visible, since
    rows too rare to be visible may have any size, and on a side whose tail may have no mean.

    *Privacy.* Steps 1, 2 and 4 are one plan; 3 sees releases only. The mean of column j, with its second moment, moves by at most
    the length of its interval over n. No assumption on the data.
    """
    planned = plan_mean(data.n, data.d, curator.epsilon, curator.delta)
    if planned is None:
        return locations_alone(curator, data)
    plan, release = planned
    curator.plan(*plan.mechanisms, release)
    columns, counts = describe(curator, plan, data)

    def unit() -> float:  # noise of the mean per unit of the interval's length, for the budget that second looks leave
        return noise_std(curator, release, per_column(release, data.d) / data.n)

    columns, ends = settle_ends(curator, release, data, columns, counts, unit)
    low, high = np.array([(e.low, e.high) for e in ends]).T
    bound = positive_bound((high - low) / 2, np.maximum(np.abs(low), np.abs(high)))
    middle = low / 2 + high / 2
    squares: Floats | list[None] = [None] * data.d
    if release.norm == "l1" and data.swing == 1 and not data.count_noise:
        raw, squares = np.split(curator.release(release, clipped_moments(data, middle, bound)), 2)
        noise = unit() * bound * 2
    else:
        clipped = Clip(center=middle, bound=bound).mean(data, anchor=[c.center for c in columns])
        raw = curator.release(release, clipped.to(release.norm))
        noise = unit() * bound * (clipped.raw_sensitivity / ONE)  # twice the bound, or once under add-remove
    spread = np.array([_spread(*column, data) for column in zip(ends, raw, squares, columns, noise, strict=True)])
    _warn(spread)
    return Estimate(raw + np.array([e.bias for e in ends]), noise, spread, isinstance(release, Laplace))


def _spread(
    ends: Ends, raw: float, half_square: float | None, column: ColumnDescription, noise: float, data: PrivateData
) -> tuple[float, float]:
    """Standard deviation of all errors but the noise, below and above.

    ``raw`` is the released mean of the clipped rows, ``half_square`` what was released with it. If the number of rows is a
    release, its relative error is also that of the distance between mean and center.
    """
    if not ends.seen:
        return math.inf, math.inf
    clipped = clipped_variance(ends, column.center, raw, half_square, noise, column.is_smooth)
    counted = data.count_noise / data.n * (raw - column.center)
    both = (clipped + ends.realized) / data.n + ends.bias_variance + counted**2
    # The bounds of the bias are two-sided, at 95 %.
    below, above = (math.sqrt(both + (bound / NORMAL) ** 2) for bound in (ends.doubt_below, ends.doubt_above))
    return math.inf if ends.open_low else below, math.inf if ends.open_high else above


def _warn(spread: Floats) -> None:
    """Warn of infinite intervals, from releases alone."""
    unbounded = np.isinf(spread)
    if unbounded.all(axis=1).any():
        warn_utility(
            f"{int(unbounded.all(axis=1).sum())} of {len(spread)} columns show hardly any row that differs from one value: "
            "rows too rare to be visible may have any size, so the interval is infinite"
        )
    if (unbounded.any(axis=1) & ~unbounded.all(axis=1)).any():
        warn_utility(
            "the answer may rest on very few rows: a tail of the column may have no mean, "
            "so the interval is infinite on that side"
        )
