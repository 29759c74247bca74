"""Means of every kind of column: coverage, error and width, nothing told.

    python benchmarks/columns.py [--quick] [--trials 400] [--laws reporting] [--processes 1]

Each cell is a law, a number of rows n and an epsilon (delta 1e-6), with ``trials`` samples of its own; a fit is the
default mean of one column. Written to benchmarks/results/columns.csv:

  coverage, sample coverage  how often the 95 % interval holds the mean of the law, and that of the rows;
  ratio        root mean squared error against the mean of the law, over that of the reference;
  width        median width of the interval over 2 x 1.96 root mean squared errors of the reference;
  open         share of fits whose interval is infinite on some side ("none": on both);
  far          fits whose error exceeds the larger half of their finite interval more than ten times.

The reference is a clip that was told the truth: ends at quantiles of the law (at most 5 % cut on either side), the pair
with the smallest error on these very samples, Laplace noise, the whole budget.
Noise is seeded numpy noise of the same law as the secure one, for speed.
"""

from __future__ import annotations

import argparse
import math
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from column_laws import LATE, OUTSIDE, REPORTING, TUNING, Law
from fattail.algorithms.auto.mean import adaptive_mean
from fattail.privacy import Curator
from fattail.rows.data import PrivateData
from result_files import write_csv

DELTA = 1e-6
SIZES = (300, 1_000, 3_000, 10_000, 30_000, 100_000)
EPSILONS = (0.2, 0.5, 1.0, 2.0, 4.0)
CUTS = np.r_[0, 1e-5, 3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05]
RESULTS = Path(__file__).parent / "results"


def clipped_means(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Means of the sorted x clipped to each interval."""
    center = x[len(x) // 2]  # differences from it keep their digits
    sums = np.r_[0, np.cumsum(x - center)]
    a, b = np.searchsorted(x, low), np.searchsorted(x, high, side="right")
    b = np.maximum(a, b)
    return center + ((low - center) * a + sums[b] - sums[a] + (high - center) * (len(x) - b)) / len(x)


def law_ends(law: Law) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of ends at quantiles of the law."""
    x = np.sort(law.draw(np.random.default_rng(99), 400_000))
    low, high = (g.ravel() for g in np.meshgrid(np.quantile(x, CUTS), np.quantile(x, 1 - CUTS)))
    return low, high


def fit(x: np.ndarray, epsilon: float, seed: int) -> tuple[float, float, float]:
    """Value and interval of the default mean."""
    estimate = adaptive_mean(Curator(epsilon, DELTA, random_state=seed), PrivateData(x[:, None]))
    low, high = estimate.interval(0.95)[0]
    return float(estimate.value[0]), float(low), float(high)


def cells(
    name: str, laws: dict[str, Law], sizes: tuple[int, ...], epsilons: tuple[float, ...], trials: int, repetition: int = 0
) -> list[dict[str, Any]]:
    """All cells of a law; samples depend on the law, n and the repetition only."""
    warnings.simplefilter("ignore")
    law, records = laws[name], []
    low, high = law_ends(law)
    for n in sizes:
        rng = np.random.default_rng([sum(name.encode()), n] + [repetition] * (repetition > 0))
        samples = [law.draw(rng, n) for _ in range(trials)]
        own = np.array([x.mean() for x in samples])
        truth = law.mean if np.isfinite(law.mean) else own
        clips = np.array([clipped_means(np.sort(x), low, high) for x in samples])
        for epsilon in epsilons:
            squares = ((clips - np.reshape(truth, (-1, 1))) ** 2).mean(0) + 2 * ((high - low) / (n * epsilon)) ** 2
            reference = float(np.sqrt(squares.min()))
            # No two cells share their noise.
            seed = 1_000_003 * sum(name.encode()) + 7_919 * n + int(1e6 * epsilon) + 10_000_000_019 * repetition
            fits = np.array([fit(x, epsilon, seed + t) for t, x in enumerate(samples)])
            value, bottom, top = fits.T
            error = np.abs(value - truth)
            none = np.isinf(bottom) & np.isinf(top)
            half = np.maximum(top - value, value - bottom)
            inside = (bottom <= truth) & (truth <= top)
            slack = 1e-12 * np.abs(own)  # a constant column has no width
            within = (bottom - slack <= own) & (own <= top + slack)
            records.append(
                {
                    "law": name,
                    "n": n,
                    "epsilon": epsilon,
                    "trials": trials,
                    "coverage": float(inside.mean()) if np.isfinite(law.mean) else np.nan,
                    "sample coverage": float(within.mean()),
                    "ratio": float(np.sqrt(np.mean(error**2)) / reference) if reference > 0 else np.nan,
                    "median ratio": float(np.median(error) / reference / 0.6745) if reference > 0 else np.nan,
                    "width": float(np.median(top - bottom) / (2 * 1.96 * reference)) if reference > 0 else np.nan,
                    "open": float((np.isinf(bottom) | np.isinf(top)).mean()),
                    "none": float(none.mean()),
                    "far": int(np.sum(error > 10 * np.maximum(half, slack))),
                    "reference": reference,
                }
            )
    return records


RANGES = ((0.0, 500.0), (500.0, 2_000.0), (2_000.0, math.inf))


def summary(records: list[dict[str, Any]]) -> list[str]:
    """The figures that were asked for."""
    answers = [r for r in records if r["none"] < 0.5]
    lines = []
    for key in ("coverage", "sample coverage"):
        seen = [r for r in answers if np.isfinite(r[key])]
        values = np.array([r[key] for r in seen])
        low = [r for r in seen if r[key] < 0.9]
        lines.append(f"{key}: {values.mean():.3f} on average over {len(seen)} cells that answer; below .90 in {len(low)}")
    for low, high in RANGES:
        part = [r for r in records if low <= r["n"] * r["epsilon"] < high and np.isfinite(r["ratio"])]
        if not part:
            continue
        told = [r for r in part if r["none"] < 0.5]
        worst = max(told, key=lambda r: r["ratio"])
        both = [np.exp(np.mean(np.log([max(r["ratio"], 1e-3) for r in group]))) for group in (part, told)]
        lines.append(
            f"error over the reference, n epsilon from {low:g}: {both[0]:.3f} in geometric mean over {len(part)} cells "
            f"({both[1]:.3f} over {len(told)} that answer, median {np.median([r['ratio'] for r in told]):.3f}); above 1.5 in "
            f"{sum(r['ratio'] > 1.5 for r in told)}, at most {worst['ratio']:.3g} "
            f"({worst['law']}, n={worst['n']}, epsilon={worst['epsilon']}); "
            f"median width {np.median([r['width'] for r in told]):.2f}"
        )
    width = np.median([r["width"] for r in answers if not np.isnan(r["width"])])
    lines.append(f"width over what the reference needs: {width:.2f} in the median of cells that answer")
    lines.append(f"fits: {sum(r['trials'] for r in records)}; further than ten half-widths: {sum(r['far'] for r in records)}")
    lines.append(f"cells without an answer: {len(records) - len(answers)} of {len(records)}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--trials", type=int, default=None)
    parser.add_argument("--laws", choices=("reporting", "tuning", "late", "outside"), default="reporting")
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", type=int, nargs="+", default=None)
    parser.add_argument("--epsilons", type=float, nargs="+", default=None)
    parser.add_argument("--repetition", type=int, default=0, help="another number gives other samples and other noise")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "columns.csv")
    options = parser.parse_args()
    laws = {"reporting": REPORTING, "tuning": TUNING, "late": LATE, "outside": OUTSIDE}[options.laws]
    sizes = tuple(options.sizes or ((300, 3_000, 30_000) if options.quick else SIZES))
    epsilons = tuple(options.epsilons or ((0.2, 1.0, 4.0) if options.quick else EPSILONS))
    trials = options.trials or (40 if options.quick else 400)
    names = [name for name in laws if options.only in name]
    job = partial(cells, laws=laws, sizes=sizes, epsilons=epsilons, trials=trials, repetition=options.repetition)
    records: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.processes) as pool:
        for found in map(job, names) if options.processes == 1 else pool.map(job, names):
            records += found
            for r in found:
                if (
                    r["none"] < 0.5 and (min(r["coverage"], r["sample coverage"]) < 0.88 or r["ratio"] > 1.5 or r["width"] > 3)
                ) or r["far"]:
                    print(*(f"{v:.3g}" if isinstance(v, float) else v for v in r.values()), sep="\t", flush=True)
            write(records, options.out)  # a run that is cut short leaves what it has
    print(*summary(records), sep="\n")


def write(records: list[dict[str, Any]], out: Path) -> None:
    write_csv(out, records, digits=5)


if __name__ == "__main__":
    main()
