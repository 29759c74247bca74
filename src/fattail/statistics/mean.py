"""Means, totals and differences of means, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.warnings import warn_utility
from fattail.algorithms.auto.mean import adaptive_mean
from fattail.estimators.documentation import documented
from fattail.estimators.means import DPMean
from fattail.privacy import Curator
from fattail.results.release import Release
from fattail.rows.door import array_of, target_of, typed
from fattail.rows.frames import is_column
from fattail.rows.named import NamedColumns, check_text_options
from fattail.statistics.cap import NO_CAP, release_cap
from fattail.statistics.cells import release_cells
from fattail.statistics.documentation import QUESTION
from fattail.statistics.estimate import GroupEstimate
from fattail.statistics.intervals import p_value
from fattail.statistics.labels import Name
from fattail.statistics.plan import RULES, plan_groups
from fattail.statistics.question import NEEDS_BY, SOURCE_OPTIONS, Question, check_weight
from fattail.statistics.shape import release_shape

Floats = NDArray[np.float64]


@documented(**QUESTION)
def mean(
    data: Any,
    column: Any = None,
    *,
    by: Any = None,
    groups: Any = None,
    person: Any = None,
    weight: str = "persons",
    missing: str = "error",
    relation: str = "replace-one",
    epsilon: float = 1.0,
    delta: float = 1e-6,
    confidence: float = 0.95,
    random_state: int | None = None,
    ledger: Any = None,
    **options: Any,
) -> Release:
    """Private mean of a column, in all or in each group. No bounds are needed.

    Parameters
    ----------
    {data}
        An array of shape (n,), or (n, d) for a mean of each column, needs no ``column``.
    column : str, or list of str for a mean of each
    {by}
    {groups}
    {person}
    {weight}
    {rest}
    **options
        As for ``DPMean``, for a mean over all rows; ``delimiter`` and ``quoted_newlines`` of a text file.

    Returns
    -------
    Release
        ``value``, ``interval`` and ``privacy``; with ``by=``, one value and one interval for each of ``groups``. An interval
        holds the mean of the group's law and of its units. A group too small to answer gets the mean of all groups and an
        infinite interval.

    Notes
    -----
    *Privacy.* (epsilon, delta)-DP for one replaced (added or removed) row or person, for any values. A unit's masses in all
    groups add up to one, so one release pays for all of them. Assumptions (tails that a bank of shapes describes, groups
    whose tails are alike up to scale) concern accuracy only. Proof: ``mean.proof.md``. Test: ``tests/contracts/test_groups.py``.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> rng = np.random.default_rng(1)
    >>> incomes = rng.lognormal(10, 1, 5000)
    >>> answer = fattail.mean(incomes, epsilon=1.0, random_state=0)
    >>> bool(30_000 < answer.value < 40_000)
    True
    >>> table = {"income": incomes, "region": rng.choice(["north", "south"], 5000)}
    >>> by_region = fattail.mean(table, "income", by="region", groups=["north", "south"], random_state=0)
    >>> by_region.groups, by_region.value.shape, by_region.interval.shape
    (('north', 'south'), (2,), (2, 2))
    """
    check_weight(weight, person)
    unknown = sorted(set(options) - set(DPMean().get_params()) - set(SOURCE_OPTIONS))
    if unknown:
        raise TypeError(f"there is no option {', '.join(map(repr, unknown))}")
    plain = by is None and person is None and relation == "replace-one" and missing in ("error", "zero")
    source: dict[str, Any] = {k: options.pop(k) for k in SOURCE_OPTIONS if k in options}
    if plain:
        if isinstance(groups, (str, Sequence, np.ndarray)):
            raise ValueError(NEEDS_BY)
        if groups is not None:
            options["groups"] = groups  # the blocks of a median of means
        options |= {"confidence": confidence, "random_state": random_state, "ledger": ledger}
        names = tuple(column) if isinstance(column, (list, tuple)) else None
        return _plain_mean(_array(data, column, source, missing), names, epsilon, delta, options)
    _refuse(options)
    asked = Question(
        by=by,
        groups=groups,
        person=person,
        weight=weight,
        missing=missing,
        relation=relation,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        random_state=random_state,
        ledger=ledger,
        source=source,
    )
    return _grouped(asked, data, _column(data, column), "mean")


@documented(**QUESTION)
def total(
    data: Any,
    column: Any = None,
    *,
    by: Any = None,
    groups: Any = None,
    person: Any = None,
    missing: str = "error",
    relation: str = "replace-one",
    epsilon: float = 1.0,
    delta: float = 1e-6,
    confidence: float = 0.95,
    random_state: int | None = None,
    ledger: Any = None,
    **source: Any,
) -> Release:
    """Private total of a column, in all or in each group.

    Parameters
    ----------
    {data}
        An array of shape (n,) needs no ``column``.
    column : str, optional
    {by}
    {groups}
    person : column name or array, optional
        The unit of privacy is a person with any number of rows, not a row. The total is still that of all rows; what a person
        adds to all groups together is bounded.
    {rest}
    {source}

    Returns
    -------
    Release
        The interval is for the total of the table itself, without sampling error. The exception is a total over all rows with
        a public number of rows, which is the mean times that number.

    Notes
    -----
    *Privacy.* As for `mean`.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> costs = np.random.default_rng(0).lognormal(5, 1, 4000)
    >>> answer = fattail.total({"cost": costs}, "cost", random_state=0)
    >>> bool(abs(answer.value / costs.sum() - 1) < 0.1)
    True
    """
    asked = Question(
        by=by,
        groups=groups,
        person=person,
        missing=missing,
        relation=relation,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        random_state=random_state,
        ledger=ledger,
        source=source,
    )
    return _grouped(asked, data, _column(data, column), "total")


@documented(**QUESTION)
def difference(
    data: Any,
    column: Any = None,
    *,
    by: Any,
    groups: Sequence[Any],
    person: Any = None,
    weight: str = "persons",
    missing: str = "error",
    relation: str = "replace-one",
    epsilon: float = 1.0,
    delta: float = 1e-6,
    confidence: float = 0.95,
    random_state: int | None = None,
    ledger: Any = None,
    **source: Any,
) -> Release:
    """Private difference of the means of two groups, with an interval and a p-value.

    Parameters
    ----------
    {data}
    column : str, optional
        The column whose means are compared; not needed for an array of shape (n,).
    by : column name or array
        The groups. Rows whose group is neither of the two do not count.
    groups : sequence of two names
    {person}
    {weight}
    {rest}
    {source}

    Returns
    -------
    Release
        The mean of the first group minus that of the second; ``p_value`` is one minus the confidence of the widest interval
        that excludes zero.

    Notes
    -----
    *Privacy.* As for `mean`: the difference is computed from one release of both groups. The interval assumes that the sampling
    errors of the two groups are independent, also where persons are in both.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> rng = np.random.default_rng(0)
    >>> trial = {"arm": rng.choice(["drug", "placebo"], 6000), "pressure": rng.normal(120, 10, 6000)}
    >>> trial["pressure"] -= 3 * (trial["arm"] == "drug")
    >>> answer = fattail.difference(trial, "pressure", by="arm", groups=["drug", "placebo"], random_state=0)
    >>> bool(answer.interval[0] < -3 < answer.interval[1]), bool(answer.p_value < 0.01)
    (True, True)
    """
    asked = Question(
        by=by,
        groups=groups,
        person=person,
        weight=weight,
        missing=missing,
        relation=relation,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        random_state=random_state,
        ledger=ledger,
        source=source,
    )
    if asked.groups is None or len(asked.groups) != 2:
        raise ValueError(f"a difference needs two groups, groups=[first, second]; got {groups!r}")
    curator, (first, second), estimate = _estimate(asked, data, _column(data, column), "difference")
    assert estimate is not None
    values = estimate.means()
    low, high = estimate.difference_interval(confidence)
    _warn(estimate, (first, second), np.array([[low, high]]), confidence)
    return Release(
        float(values[0] - values[1]),
        (float(low), float(high)),
        curator.report(),
        confidence=confidence,
        p_value=p_value(estimate.difference_interval),
        quantity=f"{first} minus {second}",
    )


def _array(data: Any, column: Any, source: dict[str, Any], missing: str) -> Any:
    """One or several columns of numbers as an array."""
    check_text_options(data, **source)
    if hasattr(data, "tocsr"):
        return data
    array = _numbers(data, column, source, missing)
    return np.where(np.isfinite(array), array, 0.0) if missing == "zero" else array


def _numbers(data: Any, column: Any, source: dict[str, Any], missing: str) -> Any:
    if column is None:
        return _only_column(data, "mean(data, 'cost')")
    names = [column] if isinstance(column, str) or not isinstance(column, (list, tuple)) else list(column)
    table = NamedColumns(data, names, missing=missing, **source)
    columns = [table.numbers(name) for name in names]
    return columns[0] if isinstance(column, str) else np.stack(columns, axis=1)


def _only_column(data: Any, example: str) -> Any:
    """The numbers of data that are an array, and no table with columns to choose from."""
    if is_column(data):
        return target_of(data)
    if isinstance(data, (str, Path)) or hasattr(data, "keys"):
        raise ValueError(f"which column? {example}")
    return array_of(typed(data))


def _column(data: Any, column: Any) -> Any:
    """The column of numbers: a name, or the data themselves if they are an array."""
    if isinstance(column, (list, tuple)):
        raise ValueError("by groups, persons or add-remove, and with missing='drop', a question is about one column")
    if column is None:
        values = _only_column(data, "mean(data, 'cost', by='region')")
        if values.ndim != 1:
            raise ValueError(
                "by groups, persons or add-remove, and with missing='drop', a question is about one column: pass an array of "
                f"shape (n,), got shape {values.shape}"
            )
        return values
    return column


def _refuse(options: dict[str, Any]) -> None:
    if options:
        raise ValueError(
            f"{', '.join(sorted(options))}: a mean by groups or persons, with missing='drop' or under add-remove is the default "
            "method's; use DPMean for others"
        )


def _plain_mean(array: Any, names: tuple[Any, ...] | None, epsilon: float, delta: float, options: dict[str, Any]) -> Release:
    if array.ndim not in (1, 2):
        raise ValueError(f"mean needs an array of shape (n,) or (n, d), got {array.ndim} dimensions")
    fitted = DPMean(epsilon=epsilon, delta=delta, **options).fit(array.reshape(-1, 1) if array.ndim == 1 else array)
    confidence = options["confidence"]
    if array.ndim == 1:
        low, high = fitted.interval_[0]
        ends = (float(low), float(high))
        return Release(float(fitted.mean_[0]), ends, fitted.privacy_, confidence=confidence, quantity="mean")
    return Release(fitted.mean_, fitted.interval_, fitted.privacy_, names, confidence, quantity="mean")


def _grouped(asked: Question, data: Any, column: Any, quantity: str) -> Release:
    if asked.size_is_public:
        return _of_units(asked, data, column, quantity)
    curator, names, estimate = _estimate(asked, data, column, quantity)
    if estimate is None:
        return Release(np.zeros(0), np.zeros((0, 2)), curator.report(), (), asked.confidence, quantity=quantity)
    value, interval = (
        (estimate.means(), estimate.mean_intervals(asked.confidence))
        if quantity == "mean"
        else (estimate.totals(), estimate.total_intervals(asked.confidence))
    )
    _warn(estimate, names, interval, asked.confidence)
    if asked.by is None:
        ends = (float(interval[0, 0]), float(interval[0, 1]))
        return Release(float(value[0]), ends, curator.report(), confidence=asked.confidence, quantity=quantity)
    return Release(value, interval, curator.report(), names, asked.confidence, quantity=quantity)


def _of_units(asked: Question, data: Any, column: Any, quantity: str) -> Release:
    """The default mean of one value per unit, where every unit counts and their number is public."""
    units = asked.read(data, column, sums=quantity == "total")
    curator = asked.curator(quantity, column)
    answer = adaptive_mean(curator, units.everyone())
    assert units.n is not None
    times = units.n if quantity == "total" else 1
    low, high = times * answer.interval(asked.confidence)[0]
    value = float(times * answer.value[0])
    return Release(value, (float(low), float(high)), curator.report(), confidence=asked.confidence, quantity=quantity)


def _estimate(asked: Question, data: Any, column: Any, quantity: str) -> tuple[Curator, tuple[Name, ...], GroupEstimate | None]:
    """Sums over all groups by one plan: names, number of units, shape of the column, cells.

    *Privacy.* Every step is one release of the plan or public arithmetic.
    """
    units = asked.read(data, column, sums=quantity == "total")
    curator = asked.curator(quantity, column)
    known = 1 if asked.by is None else None if asked.groups is None else len(asked.groups)
    plan = plan_groups(units.n, known, asked.epsilon, asked.delta, capped=asked.is_capped)
    curator.plan(*plan.mechanisms)
    cap = NO_CAP
    if plan.cap is not None:
        cap = release_cap(curator, plan.cap, plan.cells, units, known or RULES.nominal_groups)
        units = units.capped(cap.most)
    names, _, units = asked.name_groups(curator, plan.names, units)
    if not names:
        warn_utility("no group is large enough to be named at this budget")
        for release in (plan.size, *plan.description.mechanisms, plan.closer, plan.cells):
            curator.waive(release)
        return curator, (), None
    shape = release_shape(curator, plan, units, len(names))
    cells = release_cells(curator, plan.cells, units, len(names), shape)
    return curator, names, GroupEstimate(cells, shape, cap)


def _warn(estimate: GroupEstimate, names: tuple[Name, ...], intervals: Floats, confidence: float) -> None:
    for doubt in estimate.doubts(names, intervals, confidence):
        warn_utility(doubt)
