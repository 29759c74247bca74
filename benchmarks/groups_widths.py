"""Widths of intervals by groups over many seeds: how often is one absurdly wide?

    python benchmarks/groups_widths.py [--trials 200] [--settings ...] [--quick]

Written to benchmarks/results/groups_widths.csv, one line per column and setting. Each figure is over all trials and groups:

  median, 95 %, 99 %, most   quantiles of the width of the 95 % interval over the classical one, 2 x 1.96 standard errors of the
                             group's mean without privacy; the largest group of a trial counts for the trial;
  open                       share of infinite intervals;
  law, rows                  how often an interval holds the mean of the law, and that of the group's rows;
  error                      root mean squared error of a group's mean over that of a clip that was told the truth, geometric mean
                             over the groups.

Noise is seeded numpy noise of the same law as the secure one.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import fattail
from result_files import write_csv

RESULTS = Path(__file__).parent / "results"
DELTA = 1e-6
CUTS = np.r_[0, 1e-4, 1e-3, 0.01, 0.03]
"""Shares of the rows that the reference may cut off on either side."""

Draw = Callable[[np.random.Generator, int], np.ndarray]


def _with_code(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random(n) < 0.03, 99.0, rng.binomial(10, 0.4, n))


def _rare_code(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random(n) < 0.02, 999.0, rng.integers(18, 95, n))


COLUMNS: dict[str, tuple[Draw, float]] = {
    "ages 18..94": (lambda rng, n: rng.integers(18, 95, n).astype(float), 56.0),
    "yes/no .3": (lambda rng, n: (rng.random(n) < 0.3).astype(float), 0.3),
    "years 1930..2009": (lambda rng, n: rng.integers(1930, 2010, n).astype(float), 1969.5),
    "money, log-normal 1": (lambda rng, n: rng.lognormal(10, 1, n), float(np.exp(10.5))),
    "money, 75 % zeros": (lambda rng, n: np.where(rng.random(n) < 0.75, 0.0, rng.lognormal(6, 1, n)), float(np.exp(6.5) / 4)),
    "0..10 and 3 % 99": (_with_code, 0.97 * 4 + 0.03 * 99),
    "ages and 2 % 999": (_rare_code, 0.98 * 56 + 0.02 * 999),
    "Poisson 3": (lambda rng, n: rng.poisson(3, n).astype(float), 3.0),
    "t(3)": (lambda rng, n: 10 * rng.standard_t(3, n), 0.0),
}


class Setting(NamedTuple):
    """A question: so many groups of equal chances (1: none), units and budget, and what else is asked."""

    name: str
    groups: int
    n: int
    epsilon: float
    options: Mapping[str, Any] = MappingProxyType({})
    persons: int = 0
    """Rows of each person; 0 where rows are the units."""


SETTINGS = (
    Setting("2 groups", 2, 20_000, 1.0),
    Setting("2 groups, few rows", 2, 2_000, 2.0),
    Setting("6 groups", 6, 20_000, 1.0),
    Setting("30 groups", 30, 50_000, 1.0),
    Setting("2 groups, add-remove", 2, 5_000, 1.0, {"relation": "add-remove"}),
    Setting("add-remove", 1, 20_000, 1.0, {"relation": "add-remove"}),
    Setting("missing='drop'", 1, 20_000, 0.5, {"missing": "drop"}),
    Setting("2 groups of persons", 2, 8_000, 1.0, persons=4),
)


def told_error(x: np.ndarray, codes: np.ndarray, groups: int, moves: float, epsilon: float) -> np.ndarray:
    """Expected squared error of each group's mean by a noisy sum over a noisy count, half of epsilon each, with the best ends."""
    sizes = np.bincount(codes, minlength=groups)
    truth = np.bincount(codes, x, groups) / sizes
    noise = 2 * (2 * moves / epsilon) ** 2
    best = None
    for low in np.unique(np.quantile(x, CUTS)):
        for high in np.unique(np.quantile(x, 1 - CUTS)):
            half, middle = (high - low) / 2, (high + low) / 2
            if half <= 0:
                continue
            mean = np.bincount(codes, np.clip(x, low, high), groups) / sizes
            error = (mean - truth) ** 2 + noise * (half**2 + (mean - middle) ** 2) / sizes**2
            if best is None or np.log(error).mean() < np.log(best).mean():
                best = error
    assert best is not None
    return best


def measured(draw: Draw, mean: float, setting: Setting, seeds: range) -> dict[str, float]:
    """All figures of a column in a setting."""
    widths, unbounded, law_in, rows_in, errors, told = [], [], [], [], [], []
    for seed in seeds:
        rng = np.random.default_rng([seed, 8])
        codes = rng.integers(0, setting.groups, setting.n)
        x = draw(rng, setting.n)
        options = {"epsilon": setting.epsilon, "delta": DELTA, "random_state": seed, **setting.options}
        rows, own = x, codes
        if setting.persons:  # rows scatter around a person's value, and are all in the person's group
            own = np.repeat(codes, setting.persons)
            rows = np.repeat(x, setting.persons)
            options["person"] = np.repeat(np.arange(setting.n), setting.persons)
        if setting.groups > 1:
            options |= {"by": own, "groups": list(range(setting.groups))}
        answer = fattail.mean(rows, **options)
        low, high = np.atleast_2d(answer.interval).T
        sizes = np.bincount(codes, minlength=setting.groups)
        truth = np.bincount(codes, x, setting.groups) / sizes
        classical = 2 * 1.96 * np.array([x[codes == k].std() for k in range(setting.groups)]) / np.sqrt(sizes)
        relative = (high - low) / classical
        finite = relative[np.isfinite(relative)]
        widths.append(finite.max() if finite.size else np.nan)
        unbounded.append(np.isinf(relative).mean())
        law_in.append((low <= mean) & (mean <= high))
        rows_in.append((low <= truth) & (truth <= high))
        errors.append((np.atleast_1d(answer.value) - truth) ** 2)
        if len(told) < 40:
            moves = 2.0 if setting.options.get("relation") != "add-remove" else 1.0
            told.append(told_error(x, codes, setting.groups, moves, setting.epsilon))
    rms, reference = np.sqrt(np.mean(errors, 0)), np.sqrt(np.mean(told, 0))
    some = np.array(widths)[np.isfinite(widths)]
    quantiles = np.quantile(some, (0.5, 0.95, 0.99, 1.0)) if some.size else np.full(4, np.nan)
    return {
        **dict(zip(("median", "95 %", "99 %", "most"), map(float, quantiles), strict=True)),
        "open": float(np.mean(unbounded)),
        "law": float(np.mean(law_in)),
        "rows": float(np.mean(rows_in)),
        "error": float(np.exp(np.mean(np.log(rms / reference)))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--settings", nargs="+", default=[setting.name for setting in SETTINGS], help="some only")
    parser.add_argument("--quick", action="store_true", help="few trials, nothing is written")
    parser.add_argument("--out", type=Path, default=RESULTS / "groups_widths.csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    trials = 10 if options.quick else options.trials
    lines: list[dict[str, Any]] = []
    for j, setting in enumerate(SETTINGS):
        if setting.name not in options.settings:
            continue
        for k, (name, (draw, mean)) in enumerate(COLUMNS.items()):
            first = 10_000 * (len(COLUMNS) * j + k)
            figures = measured(draw, mean, setting, range(first, first + trials))
            line = {
                "setting": setting.name,
                "n": setting.n,
                "epsilon": setting.epsilon,
                "trials": trials,
                "column": name,
                **figures,
            }
            lines.append(line)
            print(f"{setting.name:22s} {name:20s}", *(f"{key} {value:.3g}" for key, value in figures.items()), flush=True)
    if not options.quick:
        write_csv(options.out, lines)


if __name__ == "__main__":
    main()
