"""Means by groups: error against a clip that was told the truth, coverage, spurious groups, time, and add-remove.

    python benchmarks/groups.py [--quick] [--trials 40] [--laws reporting]

Written to benchmarks/results/groups.csv, one line per law and way of grouping:

  ratio     root mean squared error of a group's mean (against that of its rows) over that of the reference, geometric mean
            over the groups; worst is the largest of the groups, same for the whole table's mean in ``add-remove``;
  coverage  how often the 95 % interval of a group holds the mean of the law, and that of the group's rows;
  width     median width over 2 x 1.96 root mean squared errors;
  open      share of intervals that are infinite on some side.

``same``: 20 groups of 500 to 10,000 rows, all of one law. ``scaled``: values of group k times 2^(2k/19 - 1), so that the scales
differ by a factor of 4. ``add-remove``: the mean of 5,000 rows without groups; the reference is that under replace-one.

groups_difference.csv: two groups of one law compared: how often the test at 5 % finds a difference where there is none, and how
often the interval holds one of a fifth of the range between the 5 % and 95 % quantiles.

The reference is what a library does whose user knows the truth: values clipped to the one pair of ends (quantiles of the rows, at
most 5 % cut on either side) that is best for these very groups, around its middle, a noisy sum over a noisy count, half of
epsilon each, Laplace noise. Its error is computed, not drawn. Noise of ours is seeded numpy noise of the same law as the secure
one, except in the timing.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import fattail
from column_laws import REPORTING, TUNING, Law
from result_files import write_csv

RESULTS = Path(__file__).parent / "results"
EPSILON, DELTA, GROUPS = 1.0, 1e-6, 20
SIZES = np.geomspace(500, 10_000, GROUPS).astype(int)
CODES = np.repeat(np.arange(GROUPS), SIZES)
DIFFERENCES = (
    "yes/no .3",
    "zeros 75 %, money",
    "98.6 +- .7",
    "t(4) around -7",
    "log-normal 1.4",
    "Pareto 3.5",
    "Weibull .8",
    "Laplace",
)
"""Laws of which two groups are compared."""
CUTS = np.r_[0, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.02, 0.05]


def told_clip(x: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Expected squared error of each group's mean with the best ends."""
    best = None
    noise = 2 * (np.sqrt(2) * 2 / (EPSILON / 2)) ** 2 / 2
    for low in np.unique(np.quantile(x, CUTS)):
        for high in np.unique(np.quantile(x, 1 - CUTS)):
            half, middle = (high - low) / 2, (high + low) / 2
            if half <= 0:
                continue
            mean = np.bincount(CODES, np.clip(x, low, high)) / SIZES
            error = (mean - truth) ** 2 + noise * (half**2 + (mean - middle) ** 2) / SIZES**2
            if best is None or np.log(error).mean() < np.log(best).mean():
                best = error
    return np.zeros(GROUPS) if best is None else best


def by_groups(law: Law, scales: np.ndarray, trials: int, first: int = 0) -> dict[str, float]:
    """Trials have their own seeds, from ``first`` on, so that laws do not share their luck."""
    errors, told, law_in, rows_in, widths, unbounded = [], [], [], [], [], []
    for trial in range(first, first + trials):
        x = law.draw(np.random.default_rng([trial, 5]), len(CODES)) * scales[CODES]
        truth = np.bincount(CODES, x) / SIZES
        answer = fattail.mean(x, by=CODES, groups=list(range(GROUPS)), epsilon=EPSILON, delta=DELTA, random_state=trial)
        low, high = answer.interval.T
        errors.append((answer.value - truth) ** 2)
        told.append(told_clip(x, truth))
        law_in.append((low <= law.mean * scales) & (law.mean * scales <= high))
        rows_in.append((low <= truth) & (truth <= high))
        widths.append(high - low)
        unbounded.append(np.isinf(high - low))
    rms, reference = np.sqrt(np.mean(errors, 0)), np.sqrt(np.mean(told, 0))
    ratio = np.where(reference > 0, rms / np.maximum(reference, 1e-300), 1.0)
    return {
        "ratio": float(np.exp(np.mean(np.log(np.maximum(ratio, 1e-3))))),
        "worst": float(ratio.max()),
        "law coverage": float(np.mean(law_in)) if np.isfinite(law.mean) else float("nan"),
        "row coverage": float(np.mean(rows_in)),
        "width": float(np.median(np.median(widths, 0) / (2 * 1.96 * np.maximum(rms, 1e-300)))),
        "open": float(np.mean(unbounded)),
    }


def add_remove(law: Law, trials: int, first: int = 0, n: int = 5_000) -> dict[str, float]:
    errors: dict[str, list[float]] = {"replace-one": [], "add-remove": []}
    inside, unbounded = [], []
    for trial in range(first, first + trials):
        x = law.draw(np.random.default_rng([trial, 6]), n)
        for relation, found in errors.items():
            answer = fattail.mean(x, relation=relation, epsilon=EPSILON, delta=DELTA, random_state=trial)
            found.append((answer.value - x.mean()) ** 2)
        inside.append(
            (answer.interval[0] <= law.mean <= answer.interval[1], answer.interval[0] <= x.mean() <= answer.interval[1])
        )
        unbounded.append(np.isinf(answer.interval).any())
    other, ours = (np.sqrt(np.mean(errors[relation])) for relation in errors)
    ratio = float(ours / other) if other > 0 else 1.0
    covers = np.mean(inside, 0)
    return {
        "ratio": ratio,
        "worst": ratio,
        "law coverage": float(covers[0]) if np.isfinite(law.mean) else float("nan"),
        "row coverage": float(covers[1]),
        "width": float("nan"),
        "open": float(np.mean(unbounded)),
    }


def differences(law: Law, n: int, trials: int, first: int = 0) -> dict[str, float]:
    """Two groups of a third and two thirds of n rows: size of the test where the laws are equal, and coverage where not."""
    g = np.repeat([0, 1], [n // 3, n - n // 3])
    shift = 0.2 * float(np.subtract(*np.quantile(law.draw(np.random.default_rng(0), 100_000), [0.95, 0.05])))
    refuted, covered, widths, errors = [], [], [], []
    for trial in range(first, first + trials):
        x = law.draw(np.random.default_rng([trial, 7]), n)
        same = fattail.difference(x, by=g, groups=[0, 1], epsilon=EPSILON, delta=DELTA, random_state=trial)
        refuted.append(same.p_value < 0.05)
        # The mean of the first group is larger by ``shift``, by moving its rows: tails are as they were.
        other = fattail.difference(x + shift * (g == 0), by=g, groups=[0, 1], epsilon=EPSILON, delta=DELTA, random_state=trial)
        low, high = other.interval
        covered.append(low <= shift <= high)
        widths.append(high - low)
        errors.append(other.value - shift)
    rms = float(np.sqrt(np.mean(np.square(errors))))
    return {
        "size of the 5 % test": float(np.mean(refuted)),
        "coverage": float(np.mean(covered)),
        "width over need": float(np.median(widths) / (2 * 1.96 * rms)) if rms else float("nan"),
        "open": float(np.mean(np.isinf(widths))),
    }


def times(rounds: int = 9, n: int = 1_000_000, groups: int = 10_000) -> tuple[float, float]:
    """Seconds of the mean without and with groups, medians, secure noise."""
    rng = np.random.default_rng(0)
    x, g = rng.lognormal(3, 1, n), rng.integers(0, groups, n)
    found: list[tuple[float, float]] = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        fattail.mean(x)
        middle = time.perf_counter()
        fattail.mean(x, by=g, groups=list(range(groups)))
        found.append((middle - start, time.perf_counter() - middle))
    return statistics.median(a for a, _ in found[1:]), statistics.median(b for _, b in found[1:])


def spurious(delta: float, runs: int, singles: int = 1_000) -> float:
    """Share of groups of one row that are named, among ``singles`` of them beside three large groups."""
    g = np.concatenate((np.arange(singles) + 10.0, np.repeat([0.0, 1.0, 2.0], 2_000)))
    named = [fattail.count(g, by=g, epsilon=EPSILON, delta=delta, random_state=run).groups or () for run in range(runs)]
    return sum(len(names) - 3 for names in named) / runs / singles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--quick", action="store_true", help="few laws and trials, nothing is written")
    parser.add_argument("--laws", choices=("reporting", "tuning"), default="reporting")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    laws = dict(list((REPORTING if options.laws == "reporting" else TUNING).items())[:: 6 if options.quick else 1])
    trials = 8 if options.quick else options.trials
    scales = {"same": np.ones(GROUPS), "scaled": 2.0 ** (2 * np.arange(GROUPS) / (GROUPS - 1) - 1)}
    lines: list[dict[str, Any]] = []
    for k, (name, law) in enumerate(laws.items()):
        for way, factor in scales.items():
            lines.append({"law": name, "way": way, **by_groups(law, factor, trials, 10_000 * k)})
        lines.append({"law": name, "way": "add-remove", **add_remove(law, trials, 10_000 * k)})
        print(*(f"{line['way']} {line['ratio']:.2f} {line['law coverage']:.2f}" for line in lines[-3:]), name, flush=True)
    for way in (*scales, "add-remove"):
        some = [line for line in lines if line["way"] == way]
        ratios = [line["ratio"] for line in some]
        print(
            f"{way}: ratio {np.exp(np.mean(np.log(ratios))):.3f} (geometric mean), {np.median(ratios):.3f} (median), "
            f"{sum(r > 1 for r in ratios)} of {len(ratios)} laws above 1; coverage of the law's mean "
            f"{np.nanmean([line['law coverage'] for line in some]):.3f} "
            f"(least {np.nanmin([line['law coverage'] for line in some]):.2f}), "
            f"of the rows' {np.mean([line['row coverage'] for line in some]):.3f} "
            f"(least {min(line['row coverage'] for line in some):.2f})"
        )
    compared = [
        {"law": name, "n": n, "trials": 10 * trials, **differences(law, n, 10 * trials, 10_000 * k)}
        for k, (name, law) in enumerate(laws.items())
        if name in DIFFERENCES
        for n in (3_000, 12_000)
    ]
    print(*compared, sep="\n", flush=True)
    alone, grouped = times()
    print(f"1e6 rows: {alone:.3f} s without groups, {grouped:.3f} s with 10,000 groups: {grouped / alone:.2f} times")
    for delta, runs in ((1e-2, 50), (1e-6, 200)):
        print(f"groups of one row named at delta {delta:g}: {spurious(delta, runs):.2g} of them ({runs} runs of 1,000)")
    if options.quick or options.laws == "tuning":
        return
    for file, found in (("groups.csv", lines), ("groups_difference.csv", compared)):
        write_csv(RESULTS / file, found)


if __name__ == "__main__":
    main()
