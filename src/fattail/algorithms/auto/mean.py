"""The default mean: it assumes nothing, and estimates all that it needs from the same budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fattail._tools.warnings import warn_utility
from fattail.algorithms.parts.estimates import Estimate, Noise, noise_std, per_column, pure_is_better
from fattail.algorithms.registry import registered
from fattail.columns import (
    DENSE_GRID,
    GRID,
    DescriptionPlan,
    Ends,
    clipped_square,
    describe,
    find_locations,
    settle_ends,
)
from fattail.privacy import Curator, Gaussian, Laplace, TopK, gaussian_multiplier
from fattail.robust import Clip
from fattail.robust.base import ONE
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]

_NORMAL = float(ndtri(0.975))  # `less` and `more` are two-sided bounds at 95 %


@dataclass(frozen=True)
class MeanShares:
    """Shares of the budget, functions of what ``n epsilon`` would be for one column with as much noise.

    A selection gets what ``LocationGrid.stage`` says it needs. The shares of the counts were chosen with
    ``benchmarks/tuning/columns.py``.
    """

    stages: tuple[float, ...] = (1000.0, 2500.0)
    """``n epsilon`` from which on there is one more stage on the dense grids."""
    plenty: float = 10_000.0
    """``n epsilon`` from which on stages are cheap, grids are small and there are as many stages as a double has digits for."""
    plenty_stages: int = 5
    lost: float = 3e-7
    """Chance that some stage misses a column that is one spike, from ``n epsilon`` of ``safe`` on (with the public weights at
    most 1e-6 for numbers up to 1e8), ..."""
    safe: float = 2000.0
    lost_few: float = 1e-4
    """... and below."""
    least_location: float = 0.03
    most_location: float = 0.5
    few: float = 500.0
    many: float = 10_000.0
    plentiful: float = 100_000.0
    counts_few: float = 0.40
    counts_many: float = 0.28
    counts_plentiful: float = 0.10
    """Share of the counts up to ``few``, at ``many``, and from ``plentiful`` on: then second looks count what matters."""
    most_counts: float = 0.6
    """Of what the location leaves."""
    barely: float = 200.0
    """``n epsilon`` below which a warning says that the answer will be mostly noise."""
    location_only: float = 100.0
    """``n epsilon`` below which the whole budget goes to the location (an order of magnitude), without an interval."""
    mixed: float = 1.2
    """Number of releases in the comparison of Laplace and Gaussian plans: Gaussian noise composes better."""


SHARES = MeanShares()


def plan_mean(n: int, d: int, epsilon: float, delta: float) -> tuple[DescriptionPlan, Noise] | None:
    """Releases of the default mean, by public arithmetic: with more rows, the share of the description is smaller.

    Pure releases add their epsilons, so shares of epsilon enter squared, and a selection of bounded range is worth four
    times as much; shares of Gaussian plans are of rho. None if the budget suffices only for a location.
    """
    pure = pure_is_better(d, epsilon, delta, parts=SHARES.mixed)
    multiplier = d / epsilon if pure else math.sqrt(d / 2) * gaussian_multiplier(epsilon, delta)
    rows = n / multiplier
    _warn_of_few_rows(n, rows, multiplier)
    if rows < SHARES.location_only:
        return None
    grid = GRID if rows > SHARES.plenty else DENSE_GRID
    stages = SHARES.plenty_stages if grid is GRID else 1 + sum(rows > least for least in SHARES.stages)
    stage = grid.stage((SHARES.lost if rows >= SHARES.safe else SHARES.lost_few) / stages) / rows
    location = min(max(stages * (stage if pure else stage**2 / 2), SHARES.least_location), SHARES.most_location)
    sizes = np.log([SHARES.few, SHARES.many, SHARES.plentiful])
    counts = float(np.interp(math.log(rows), sizes, [SHARES.counts_few, SHARES.counts_many, SHARES.counts_plentiful]))
    counts = min(counts, SHARES.most_counts * (1 - location))
    mean = 1 - location - counts
    looks_again = rows >= SHARES.few  # below, a second look misses more than it finds
    names = [f"location {k + 1}" for k in range(stages)]
    if pure:
        looks = tuple(TopK(name, (location / stages) ** 2 / (8 * d), count=d) for name in names)
        return DescriptionPlan(looks, Laplace("counts", counts**2 / 2), grid, looks_again), Laplace("mean", mean**2 / 2, parts=3)
    looks = tuple(TopK(name, location / stages / 2, count=d) for name in names)
    return DescriptionPlan(looks, Gaussian("counts", counts / 2), grid, looks_again), Gaussian("mean", mean / 2, parts=3)


def _warn_of_few_rows(n: int, rows: float, multiplier: float) -> None:
    """Warn of too few rows, before anything is charged."""
    wanted = f"{math.ceil(SHARES.barely * multiplier)} rows, or a larger epsilon, would do"
    if rows < SHARES.location_only:
        warn_utility(f"{n} rows are too few for an interval at this budget, only for an order of magnitude; about {wanted}")
    elif rows < SHARES.barely:
        warn_utility(f"{n} rows barely show where the data lie at this budget; about {wanted}")


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
    4. Noisy mean of the rows clipped to the interval, minus the bias.

    The interval of the answer holds the mean of the law and the mean of these rows: its spread has the sampling error of the
    clipped rows as well as what the rows beyond the ends may add. It is infinite where nothing but a point mass is seen, since
    rows too rare to be seen may have any size, and on a side whose tail may have no mean.

    *Privacy.* Steps 1, 2 and 4 are one plan; 3 sees releases only. The mean of column j moves by at most the length of its
    interval over n. No assumption on the data.
    """
    planned = plan_mean(data.n, data.d, curator.epsilon, curator.delta)
    if planned is None:
        return _location(curator, data)
    plan, release = planned
    curator.plan(*plan.mechanisms, release)
    columns, counts = describe(curator, plan, data)

    def unit() -> float:  # noise of the mean per length of the interval, with what second looks leave of the budget
        return noise_std(curator, release, per_column(release, data.d) / data.n)

    columns, ends = settle_ends(curator, release, data, columns, counts, unit)
    low, high = np.array([(e.low, e.high) for e in ends]).T
    # The length must be positive, also after rounding, because it scales the noise.
    bound = np.maximum((high - low) / 2, np.maximum(np.maximum(np.abs(low), np.abs(high)) * 2.0**-50, 2.0**-140))
    clipped = Clip(center=low / 2 + high / 2, bound=bound).mean(data, anchor=[c.center for c in columns])
    raw = curator.release(release, clipped.to(release.norm))
    noise = unit() * bound * (clipped.raw_sensitivity / ONE)  # twice the bound, or once under add-remove
    spread = np.array(
        [_spread(e, m - c.center, data.n, u, data.count_noise) for e, m, c, u in zip(ends, raw, columns, noise, strict=True)]
    )
    _warn(spread)
    return Estimate(raw + np.array([e.bias for e in ends]), noise, spread, isinstance(release, Laplace))


def _location(curator: Curator, data: PrivateData) -> Estimate:
    """The locations alone, with infinite intervals."""
    look = TopK("location", 1.0, count=data.d)
    curator.plan(look)
    center, _ = find_locations(curator, (look,), data)
    return Estimate(center, np.zeros(data.d), np.full((data.d, 2), np.inf))


def _spread(ends: Ends, mean: float, n: int, noise: float, count_noise: float) -> tuple[float, float]:
    """Standard deviation of everything but the noise, below and above; ``mean`` is that of the clipped distances.

    Where n is a release, its error moves the distance in proportion.
    """
    if not ends.seen:
        return math.inf, math.inf
    clipped = max(clipped_square(ends, mean, noise) - mean**2, 0.0)
    both = (clipped + ends.realized) / n + ends.bias_variance + (count_noise / n * mean) ** 2
    less, more = (math.sqrt(both + (doubt / _NORMAL) ** 2) for doubt in (ends.doubt_below, ends.doubt_above))
    return math.inf if ends.open_low else less, math.inf if ends.open_high else more


def _warn(spread: Floats) -> None:
    """Warn of infinite intervals, from releases alone."""
    unbounded = np.isinf(spread)
    if unbounded.all(axis=1).any():
        warn_utility(
            f"{int(unbounded.all(axis=1).sum())} of {len(spread)} columns show hardly any row beside one value: "
            "rows too rare to be seen may have any size, so the interval is infinite"
        )
    if (unbounded.any(axis=1) & ~unbounded.all(axis=1)).any():
        warn_utility("too few rows hold the answer: a tail may have no mean, so the interval is infinite on its side")
