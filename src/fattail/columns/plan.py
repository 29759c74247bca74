"""The budget of a mean: how much is spent on the description of the columns. Public arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fattail._tools.warnings import warn_utility
from fattail.columns.location import DENSE_GRID, GRID, Noise
from fattail.columns.looks import DescriptionPlan
from fattail.privacy import Gaussian, Laplace, TopK, gaussian_multiplier


@dataclass(frozen=True)
class MeanShares:
    """Shares of the budget, functions of what ``n epsilon`` would be for one column with as much noise.

    A selection gets what ``LocationGrid.stage`` says it needs. The shares of the counts were chosen with
    ``benchmarks/tuning/columns.py``.
    """

    n_eps_stages: tuple[float, ...] = (1000.0, 2500.0)
    """``n epsilon`` from which on there is one more stage on the dense grids."""
    n_eps_plenty: float = 10_000.0
    """``n epsilon`` from which on there are more stages, with the smaller grids of ``GRID``."""
    plenty_stages: int = 5
    """Number of stages from ``n_eps_plenty`` on: enough for all digits of a double."""
    missed: float = 3e-7
    """Probability that some stage misses a column of one value, from ``n_eps_safe`` on (with the public weights at most 1e-6
    for numbers up to 1e8)."""
    n_eps_safe: float = 2000.0
    missed_few: float = 1e-4
    """The same probability below ``n_eps_safe``."""
    least_location: float = 0.03
    """Smallest share of all stages of the location together."""
    most_location: float = 0.5
    """Largest share of all stages together."""
    n_eps_checked: float = 30_000.0
    """``n epsilon`` from which on one release checks which columns need more than two stages."""
    check: float = 0.01
    """Share of this check."""
    n_eps_few: float = 500.0
    n_eps_many: float = 10_000.0
    n_eps_plentiful: float = 100_000.0
    counts_few: float = 0.40
    """Share of the counts up to ``n_eps_few``. Between the three sizes the share is interpolated."""
    counts_many: float = 0.28
    """Share of the counts at ``n_eps_many``."""
    counts_plentiful: float = 0.10
    """Share of the counts from ``n_eps_plentiful`` on, where second looks count what matters."""
    most_counts: float = 0.6
    """Largest share of the counts, as a fraction of what the location leaves."""
    n_eps_barely: float = 200.0
    """``n epsilon`` below which a warning says that the answer will be mostly noise."""
    n_eps_location_only: float = 100.0
    """``n epsilon`` below which the whole budget goes to the location (an order of magnitude), without an interval."""
    mixed: float = 1.2
    """Laplace and Gaussian plans are compared as if there were so many releases, because Gaussian noise composes better."""


SHARES = MeanShares()


def plan_mean(n: int, d: int, epsilon: float, delta: float) -> tuple[DescriptionPlan, Noise] | None:
    """The releases that describe the columns, and the release of their means; None if the budget suffices only for a location.

    The more rows there are, the smaller is the share of the description. Shares of a Laplace plan are of epsilon, those of a
    Gaussian plan of rho. Mechanisms expect shares of rho. Epsilons of a Laplace plan add up, so that a share s of epsilon is
    ``s**2 / 2``, and ``s**2 / (8 d)`` for d selections, whose scores have a bounded range.
    """
    pure = pure_is_better(d, epsilon, delta, parts=SHARES.mixed)
    multiplier = d / epsilon if pure else math.sqrt(d / 2) * gaussian_multiplier(epsilon, delta)
    rows = n / multiplier
    _warn_of_few_rows(n, rows, multiplier)
    if rows < SHARES.n_eps_location_only:
        return None
    grid = GRID if rows > SHARES.n_eps_plenty else DENSE_GRID
    stages = SHARES.plenty_stages if grid is GRID else 1 + sum(rows > least for least in SHARES.n_eps_stages)
    stage = grid.stage((SHARES.missed if rows >= SHARES.n_eps_safe else SHARES.missed_few) / stages) / rows
    location = min(max(stages * (stage if pure else stage**2 / 2), SHARES.least_location), SHARES.most_location)
    sizes = np.log([SHARES.n_eps_few, SHARES.n_eps_many, SHARES.n_eps_plentiful])
    counts = float(np.interp(math.log(rows), sizes, [SHARES.counts_few, SHARES.counts_many, SHARES.counts_plentiful]))
    counts = min(counts, SHARES.most_counts * (1 - location))
    check = SHARES.check if rows > SHARES.n_eps_checked else 0.0
    mean = 1 - location - counts - check
    looks_again = rows >= SHARES.n_eps_few  # below, a second look misses more than it finds
    names = [f"location {k + 1}" for k in range(stages)]
    power, noise = (2, Laplace) if pure else (1, Gaussian)
    looks = tuple(TopK(name, (location / stages) ** power / (8 * d if pure else 2), count=d) for name in names)
    checked = noise("rows in cells", check**power / 2) if check else None
    description = DescriptionPlan(looks, noise("counts", counts**power / 2), grid, looks_again, checked)
    return description, noise("mean", mean**power / 2, parts=4)


def _warn_of_few_rows(n: int, rows: float, multiplier: float) -> None:
    """Warn of too few rows, before anything is charged."""
    wanted = f"{math.ceil(SHARES.n_eps_barely * multiplier)} rows, or a larger epsilon, would do"
    if rows < SHARES.n_eps_location_only:
        warn_utility(f"{n} rows are too few for an interval at this budget, only for an order of magnitude; about {wanted}")
    elif rows < SHARES.n_eps_barely:
        warn_utility(f"{n} rows barely show where the data lie at this budget; about {wanted}")


def pure_is_better(d: int, epsilon: float, delta: float, parts: float = 1.0) -> bool:
    """Whether d columns in l1 get less noise than in l2; a plan in ``parts`` favors l2."""
    return delta == 0 or math.sqrt(2 * d) * parts < epsilon * gaussian_multiplier(epsilon, delta)
