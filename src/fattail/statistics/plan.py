"""The releases of a statistic by groups and their shares of the budget: public arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from fattail._tools.warnings import warn_utility
from fattail.columns import DescriptionPlan
from fattail.columns.location import DENSE_GRID, GRID
from fattail.privacy import Laplace, Mechanism, TopK
from fattail.statistics.partition import NamesAboveThreshold


@dataclass(frozen=True)
class GroupRules:
    """Constants of sums by group. All releases are pure, so shares of epsilon add up to one."""

    names: float = 0.15
    """Share for finding the groups: at epsilon 1 and delta 1e-6 a group is then named from about 185 rows on, and the mean of a
    smaller one is mostly noise."""
    size: float = 0.02
    """Share of the number of units. A per mille is enough for many rows (arXiv 2604.11820); this one is for a thousand."""
    cap: float = 0.1
    """Share of the numbers of persons by octave of their rows, where every row counts. At epsilon 1 an octave is seen from about
    200 persons on."""
    lost: float = 4e-6
    """Probability that some stage of the location misses a column that is one point mass."""
    two_stages: float = 500.0
    three_stages: float = 1500.0
    """``n epsilon`` from which on there are so many stages on dense grids: with three, 1e9 +- 3 is found."""
    plenty: float = 10_000.0
    """``n epsilon`` from which on stages are cheap: grids are small, and there are as many stages as in the default mean."""
    plenty_stages: int = 5
    least_location: float = 0.03
    most_location: float = 0.24
    counts: float = 0.35
    least_counts: float = 0.05
    """Share of the column's description for one group, and for many: with g groups, the noise of a group's mean is g times that
    of the whole column's, so a description of the whole needs to be less exact."""
    add_remove: float = 0.6
    """The same under add-remove, relative to replace-one: counts have half of the noise there."""
    closer: float = 0.04
    """Share of a closer look at the ends; .02 to .07 do as well for 20 groups of 500 to 10,000 rows."""
    weak: float = math.log(10)
    """Added doubt below which possible rows are no evidence: octaves are looked at in a tenth of the runs in which noise would
    show some. With none, means under add-remove had errors larger by a fifth, since every look takes from the cells."""
    sure: float = 2.0
    """A count so many times as large as one that is worth a look is of rows. Without it, bodies that no tail describes are looked
    at in every run, and errors of 20 groups of t(4) rise by a tenth."""
    mistaken: float = 0.05
    """Chance that a second look at an octave shows rows where there are none, and that it misses as many as made it worth a look.
    Set by hand."""
    looks: int = 4
    """Largest number of such looks; hardly ever more than one."""
    most_doubtful: float = 0.2
    """Largest part of the budget of the cells for one of them, so that something is always left."""
    open_tails: float = 0.35
    """Part of that budget for a second look at all octaves, where a tail may have no mean. Set by hand; without it, intervals of
    capital gains by race are infinite in a tenth of the runs instead of none."""
    looks_again: float = 500.0
    """``n epsilon`` from which on there are such looks; below, they miss more than they find (as in the default mean)."""
    inner: int = 16
    """Octaves inside of the bulk that are told apart: rows nearer to the center move a mean by less than 2^-16 of the bulk's
    distance."""
    nominal: float = 2500.0
    """``n epsilon`` that shares are chosen for where the number of units is private."""
    nominal_groups: int = 16
    """Number of groups that shares are chosen for where they are to be found."""
    location_fails: float = 33.0
    """Units times epsilon below which not even the location can be found: intervals will be infinite."""
    noise_dominates: float = 50.0
    """Units per group times epsilon below which noise is about as large as the spread of the column: the noise of a mean is about
    5 half-widths of the clipped range over that number, and heavy tails are clipped at about ten standard deviations."""
    typical_size: float = 500.0
    """The clip is balanced for groups of average size, but at least of this size over epsilon: smaller ones are mostly noise."""
    always_squares: int = 1000
    """Up to this many groups, each gets its own squares; beyond, if their average size is ``typical_size`` over epsilon."""


RULES = GroupRules()


class GroupPlan(NamedTuple):
    """The releases of a mean by groups, in order. Second looks at octaves in doubt are parts of the budget of the cells."""

    cap: Laplace | None
    names: NamesAboveThreshold | None
    size: Laplace
    description: DescriptionPlan
    closer: Laplace
    cells: Laplace

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        first = (release for release in (self.cap, self.names) if release is not None)
        return (*first, self.size, *self.description.mechanisms, self.closer, self.cells)


def plan_groups(n: int | None, groups: int | None, epsilon: float, delta: float, *, capped: bool = False) -> GroupPlan:
    """Releases of a mean by groups.

    Parameters
    ----------
    n : int or None
        Units of the table, None if private.
    groups : int or None
        How many groups are given, None if they are to be found.
    epsilon, delta : float
    capped : bool
        Every row counts, up to a private cap of rows per person.
    """
    r = RULES
    if n is not None:
        _warn(n, groups, epsilon)
    units = r.nominal if n is None else max(n * epsilon, 1.0)
    grid = GRID if units > r.plenty else DENSE_GRID
    stages = r.plenty_stages if units > r.plenty else 1 + (units > r.two_stages) + (units > r.three_stages)
    location = min(max(stages * grid.stage(r.lost / stages) / units, r.least_location), r.most_location)
    counts = max(r.counts / math.sqrt(r.nominal_groups if groups is None else groups), r.least_counts)
    counts *= 1.0 if n is not None else r.add_remove
    names = r.names if groups is None else 0.0
    cap = r.cap if capped else 0.0
    return GroupPlan(
        Laplace("rows per person", _pure(cap)) if capped else None,
        NamesAboveThreshold("groups", _pure(names), failure=delta) if groups is None else None,
        Laplace("number of units", _pure(r.size)),
        DescriptionPlan(
            tuple(TopK(f"location {k + 1}", _pure(location / stages) / 4) for k in range(stages)),
            Laplace("counts", _pure(counts)),
            grid,
        ),
        Laplace("closer counts", _pure(r.closer)),
        Laplace("cells", _pure(1 - cap - names - r.size - location - counts - r.closer), parts=1 + r.looks),
    )


def _pure(share: float) -> float:
    """The budget, in concentrated DP, of a pure release with this share of epsilon; a quarter of it for a bounded range."""
    return share**2 / 2


def _warn(n: int, groups: int | None, epsilon: float) -> None:
    if n * epsilon >= RULES.noise_dominates * (groups or 1):
        return
    wanted = math.ceil(4 * RULES.noise_dominates * (groups or 1) / epsilon)
    if n * epsilon < RULES.location_fails:
        warn_utility(
            f"the number of units, {n}, is too small to find even the location of the data privately at epsilon={epsilon:g}, and "
            f"intervals will be infinite; about {wanted} units are needed"
        )
    else:
        inside, other = (f" in {groups} groups", ", or fewer groups,") if groups != 1 else ("", "")
        inside = inside if groups else ""
        warn_utility(
            f"{n} units{inside} are few at epsilon={epsilon:g}: noise will be about as large as the spread of the column; "
            f"about {wanted} units{other} are needed"
        )
