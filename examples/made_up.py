"""Made-up tables that stand in for real files, with their laws and true answers.

They have the size, the columns and about the tails of the real ones, and no row of them. Where the real file is absent, the demo
takes these, and shows the true answers beside the private ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LOSSES = ("Building", "Contents", "Profits")
HOUSEHOLD = ("age", "inc", "fsize", "educ", "marr", "twoearn", "db", "pira", "hown", "e401")
HOUSEHOLD_WORDS = (
    "age", "income", "family size", "years of education", "married", "two earners", "defined-benefit pension",
    "retirement account", "owns a home", "401(k) plan offered",
)  # fmt: skip

TAIL = 1.8  # index of a fire's total loss: it has a mean and no variance
SHARES, CHANCES = np.array([0.7, 0.5, 0.25]), np.array([1.0, 0.75, 0.3])

# Dollars of net assets per unit of a column, for given values of the others.
EFFECTS = np.array([600.0, 0.4, -1500.0, 500.0, 2000.0, -3000.0, -2000.0, 20_000.0, 3000.0, 6000.0])


def fire_losses(rng: np.random.Generator, n: int = 2167) -> Any:
    """Losses of fires in millions, in three columns.

    A fire's total is Pareto with index 1.8 and least value 1. The building takes 70 % of it; contents take 50 % in three fires of
    four, and profits 25 % in three of ten, independently of the total.
    """
    total = 1 + rng.pareto(TAIL, n)
    return total[:, None] * SHARES * (rng.random((n, 3)) < CHANCES)


def true_losses() -> Any:
    """Means of `fire_losses`: the total's mean is 1.8 / 0.8."""
    return TAIL / (TAIL - 1) * SHARES * CHANCES


def households(rng: np.random.Generator, n: int = 9915) -> tuple[Any, Any]:
    """Ten columns of a household and its net assets in dollars.

    Net assets are linear in the columns (`EFFECTS`), plus noise with the tails of t(1.8) whose size grows with income. Given the
    columns the noise is symmetric, so that least squares, Huber and median regression all have these effects.
    """
    marr = rng.random(n) < 0.6
    columns = [
        rng.integers(25, 65, n),
        rng.lognormal(10.4, 0.6, n),
        1 + rng.poisson(1.9, n),
        rng.integers(8, 19, n),
        marr,
        marr & (rng.random(n) < 0.6),
        *(rng.random((4, n)) < np.array([0.27, 0.24, 0.63, 0.37])[:, None]),
    ]
    X = np.column_stack(columns).astype(np.float64)
    noise = 5000 * (0.5 + X[:, 1] / 80_000) * rng.standard_t(1.8, n)
    return X, X @ EFFECTS - 35_000 + noise
