"""Plots of the price of privacy, of convergence, and of a budget.

Each function draws into the given axes (or new ones) and returns them. All that they draw is released or public, except a true
value that the caller passes, as in experiments.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from fattail._tools.escape import for_figure
from fattail._tools.extras import extra

COLORS = ("#0b6e99", "#c1531b", "#4a7c2f", "#7a4fa3", "#8a6d1a", "#5b6775")


def price_of_privacy(
    epsilons: Sequence[float],
    errors: Mapping[str, Any],
    *,
    baseline: float | None = None,
    baseline_label: str = "not private",
    ylabel: str = "error",
    ax: Any = None,
) -> Any:
    """Error against epsilon, both on log scales.

    Parameters
    ----------
    epsilons : sequence of float
    errors : mapping
        Name of a method to errors of shape (epsilons,) or (epsilons, repetitions); of
        repetitions, the median and the middle half are drawn.
    baseline : float, optional
        Error without privacy, as a dashed line.
    baseline_label, ylabel : str
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from fattail.results.plots import price_of_privacy
    >>> ax = price_of_privacy([0.1, 1, 10], {"mean": [[0.5, 0.7], [0.1, 0.2], [0.05, 0.06]]}, baseline=0.04)
    >>> ax.get_xlabel()
    'epsilon'
    """
    ax = _axes(ax)
    for color, (name, values) in zip(itertools.cycle(COLORS), errors.items(), strict=False):
        table = np.asarray(values, dtype=float).reshape(len(epsilons), -1)
        low, middle, high = np.percentile(table, [25, 50, 75], axis=1)
        ax.plot(epsilons, middle, "o-", color=color, label=for_figure(name), markersize=4)
        ax.fill_between(epsilons, low, high, color=color, alpha=0.15, linewidth=0)
    if baseline is not None:
        ax.axhline(baseline, linestyle="--", color=COLORS[5], label=for_figure(baseline_label))
    ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel=for_figure(ylabel))
    ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    ax.legend(frameon=False)
    return ax


def convergence(iterates: Any, *, target: Any = None, label: str | None = None, ax: Any = None) -> Any:
    """Distance of released iterates to ``target``, or to the last of them.

    Parameters
    ----------
    iterates : array of shape (steps, dimension)
        Released points, for example those that a ``callback`` received.
    target : array of shape (dimension,), optional
        The true value, if it is known.
    label : str, optional
    ax : matplotlib axes, optional
    """
    if hasattr(iterates, "get_params"):
        raise ValueError("convergence draws released iterates, such as path_ of a fitted mixture, or what a callback received")
    ax = _axes(ax)
    points = np.asarray(iterates, dtype=float).reshape(len(iterates), -1)
    goal = points[-1] if target is None else np.asarray(target, dtype=float).ravel()
    distance = np.linalg.norm(points - goal, axis=1)
    steps = np.arange(1, len(points) + 1)
    if target is None:  # the last point is at distance 0 from itself
        steps, distance = steps[:-1], distance[:-1]
    ax.plot(steps, distance, "o-", color=COLORS[len(ax.lines) % len(COLORS)], markersize=3, label=label and for_figure(label))
    ax.set(yscale="log", xlabel="step", ylabel="distance to the last step" if target is None else "distance to the truth")
    if label:
        ax.legend(frameon=False)
    return ax


def budget(account: Any, *, ax: Any = None) -> Any:
    """Epsilon spent over time, from the history of a ledger account or a ``Budget``.

    Examples
    --------
    >>> import matplotlib, numpy as np
    >>> matplotlib.use("Agg")
    >>> from fattail import Budget, mean
    >>> from fattail.results.plots import budget
    >>> with Budget(epsilon=2, delta=1e-6) as account:
    ...     release = mean(np.arange(1000.0), epsilon=0.5, delta=1e-7, random_state=0)
    >>> budget(account).get_ylabel()
    'epsilon spent'
    """
    if not hasattr(account, "history"):
        raise ValueError(f"budget draws an account or a Budget, got {type(account).__name__}")
    ax = _axes(ax)
    charges = account.history
    times = [datetime.fromtimestamp(c.at, UTC) for c in charges]
    spent = [c.epsilon_after for c in charges]
    if charges:
        ax.step(times, spent, where="post", color=COLORS[0])
        ax.plot(times, spent, "o", color=COLORS[0], markersize=4)
        ax.tick_params(axis="x", labelrotation=30)
    ax.axhline(account.epsilon, linestyle="--", color=COLORS[1])
    ax.annotate("limit", (0.99, account.epsilon), xycoords=("axes fraction", "data"), ha="right", va="bottom", color=COLORS[1])
    ax.set(ylim=(0, 1.12 * account.epsilon), ylabel="epsilon spent", xlabel="" if charges else "no charge yet")
    return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    pyplot = extra("matplotlib.pyplot", "plots")
    _, ax = pyplot.subplots(figsize=(6, 3.8), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
