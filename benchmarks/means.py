"""Error of private means of heavy-tailed data.

    python benchmarks/means.py [--trials 200] [--other-trials 200] [--rate-trials 100] [--processes 1]

Writes benchmarks/results/means.csv (one line per law, n, epsilon and method; ratio is to the
best competitor that was tuned with the true mean), means_summary.csv, means_cells.csv (ratio and
interval coverage of method="auto" by cell) and means_rate.csv/.png. The trials column says how often
a method was run.
Real columns are resampled with replacement; their mean is the truth. They are read from the
folder that FATTAIL_DATA names, and left out where it is missing.

Competitors told the truth, each at its best:
  best clip   interval whose ends are quantiles (up to 5 % cut per side) of the law, chosen for
              the smallest RMSE on the very samples that are reported, Laplace noise, whole budget;
  diffprivlib its documented mean (clip, Laplace noise truncated to the bounds) at that interval;
  opendp      OpenDP's own clamped sized mean with Laplace noise at that interval;
  coinpress   Biswas et al. 2020 (two steps of Gaussian noise), its variance bound tuned on the
              true error, its prior interval 100 interquartile ranges around 0 or the median.
Competitors told as little as we are:
  diffprivlib loose  bounds +-1e6 (1 for returns would be luck);
  coinpress loose    prior interval +-1e6, standard deviation 1e3;
  tail counts        a simpler design: one-sided selection of a bound on |x|, then a clipped mean.
Noise is seeded numpy noise of the same law, for speed; opendp samples its own.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np

import pictures
from fattail import DPMean, UtilityWarning
from fattail.algorithms.auto.mean import adaptive_mean
from fattail.algorithms.papers.dpem2020 import local_mean, smoothed_mean
from fattail.algorithms.papers.tao2022 import median_of_means, truncated_mean
from fattail.algorithms.papers.wang2020 import trimmed_mean
from fattail.privacy import Curator, gaussian_multiplier
from fattail.rows.data import PrivateData
from result_files import write_csv

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0)
SIZES = (1_000, 10_000, 100_000)
RESULTS = Path(__file__).parent / "results"
CUTS = np.r_[0, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05]
OURS = {
    "auto": adaptive_mean,
    "truncated": truncated_mean,
    "smoothed": smoothed_mean,
    "median_of_means": median_of_means,
    "trimmed": trimmed_mean,
    "local": local_mean,
}
TOLD_TRUTH = ("best clip", "diffprivlib", "opendp", "coinpress")

Draw = Callable[[np.random.Generator, int], np.ndarray]


def laws() -> Iterator[tuple[str, Draw, float, np.ndarray]]:
    """Name, sampler, true mean, and sorted values whose quantiles are those of the law."""
    rng = np.random.default_rng(99)
    synthetic: dict[str, tuple[Draw, float]] = {
        "student-t(2.1)": (lambda r, n: r.standard_t(2.1, n), 0.0),
        "pareto(1.6)": (lambda r, n: 1 + r.pareto(1.6, n), 1.6 / 0.6),
        "log-normal(1.5)": (lambda r, n: r.lognormal(0, 1.5, n), math.exp(1.5**2 / 2)),
    }
    for name, (draw, mean) in synthetic.items():
        yield name, draw, mean, np.sort(draw(rng, 1_000_000))
    for name, column in _columns().items():
        yield name, lambda r, n, x=column: r.choice(x, n), float(column.mean()), np.sort(column)


def _columns() -> dict[str, np.ndarray]:
    folder = os.environ.get("FATTAIL_DATA")
    if not folder:
        return {}
    import pandas as pd

    read = {
        "danish_fire": ("danish_fire.csv.gz", "Total"),
        "randhie": ("randhie.csv.gz", "meddol"),
        "fremtpl2": ("fremtpl2.csv.gz", "ClaimTotal"),
        "sp500_returns": ("sp500_returns.csv.gz", "SP500"),
    }
    columns = {k: pd.read_csv(Path(folder) / f, usecols=[c])[c].to_numpy(float) for k, (f, c) in read.items()}
    columns["fremtpl2, all policies"] = columns["fremtpl2"]  # 96 % zeros
    columns["fremtpl2"] = columns["fremtpl2"][columns["fremtpl2"] > 0]
    return columns


def clipped_means(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Means of the sorted x clipped to each interval."""
    sums = np.r_[0, np.cumsum(x)]
    a, b = np.searchsorted(x, low), np.searchsorted(x, high, side="right")
    b = np.maximum(a, b)
    return (low * a + sums[b] - sums[a] + high * (len(x) - b)) / len(x)


def diffprivlib_mean(rng: np.random.Generator, clipped: float, n: int, low: float, high: float, epsilon: float) -> float:
    """Laplace noise, redrawn until the answer lies within the bounds."""
    while not low <= (answer := clipped + rng.laplace(0, (high - low) / (n * epsilon))) <= high:
        pass
    return answer


def opendp_mean(n: int, low: float, high: float, epsilon: float) -> Callable[[np.ndarray], float]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(bounds=(low, high), nan=False), size=n), dp.symmetric_distance()
    mean = dp.t.make_mean(*space)
    scale = dp.binary_search(lambda s: (mean >> dp.m.then_laplace(s)).check(2, epsilon), bounds=(1e-12, 1e12))
    return mean >> dp.m.then_laplace(scale)


def coinpress(rng: np.random.Generator, x: np.ndarray, center: float, radius: float, sigma: float, epsilon: float) -> float:
    """Two steps: shrink the interval to what noise and tails allow, then a final mean in it."""
    n = len(x)
    mu = 1 / gaussian_multiplier(epsilon, DELTA)
    for part in (0.25, 0.75):
        tail = sigma * math.sqrt(2 * math.log(n / 0.01))
        low, high = center - radius - tail, center + radius + tail
        noise = (high - low) / (n * mu * math.sqrt(part))
        center = float(clipped_means(x, np.array([low]), np.array([high]))[0]) + rng.normal(0, noise)
        radius = math.sqrt(noise**2 + sigma**2 / n) * math.sqrt(2 * math.log(2 / 0.01))
    return center


def tail_counts(rng: np.random.Generator, x: np.ndarray, epsilon: float) -> float:
    """A bound on |x| by one Gumbel draw on tail counts (15 % of the budget), then a Gaussian clipped mean."""
    n = len(x)
    rho = 0.5 / gaussian_multiplier(epsilon, DELTA) ** 2
    grid = 2.0 ** (np.arange(-60, 121) / 2)
    beyond = n - np.searchsorted(np.sort(np.abs(x)), grid, side="right")
    b, z = 1 / math.sqrt(8 * 0.15 * rho), 1 / math.sqrt(2 * 0.85 * rho)
    bound = grid[np.argmax(-np.maximum(beyond - 2 * z, 0) / b - 3 * np.log(grid) + rng.gumbel(size=len(grid)))]
    return float(clipped_means(x, np.array([-bound]), np.array([bound]))[0]) + rng.normal(0, 2 * bound * z / n)


def cell(
    draw: Draw, truth: float, law: np.ndarray, n: int, trials: int, other_trials: int, seed: int
) -> Iterator[dict[str, object]]:
    """All methods on the same samples; yields one record per epsilon and method."""
    low, high = (g.ravel() for g in np.meshgrid(np.quantile(law, CUTS), np.quantile(law, 1 - CUTS)))
    quartiles = np.quantile(law, [0.25, 0.5, 0.75])
    spread = max(quartiles[2] - quartiles[0], np.std(law[: int(0.99 * len(law))]) / 3, 1e-9)
    sigmas = spread * 2.0 ** np.arange(-1, 7)
    rng = np.random.default_rng([seed, n])
    samples = [draw(rng, n) for _ in range(trials)]
    ordered = [np.sort(x) for x in samples]
    clips = np.array([clipped_means(x, low, high) for x in ordered])
    for epsilon in EPSILONS:
        error = ((clips - truth) ** 2).mean(0) + 2 * ((high - low) / (n * epsilon)) ** 2
        best = int(np.argmin(error))
        bottom, top = float(low[best]), float(high[best])
        run = opendp_mean(n, bottom, top, epsilon)
        answers: dict[str, list[float]] = {
            "best clip": [c + rng.laplace(0, (top - bottom) / (n * epsilon)) for c in clips[:, best]],
            "diffprivlib": [diffprivlib_mean(rng, c, n, bottom, top, epsilon) for c in clips[:, best]],
            "opendp": [run(np.clip(x, bottom, top)) for x in samples],
            "diffprivlib loose": [float(clipped_means(x, *np.array([[-1e6], [1e6]]))[0]) for x in ordered],
            "coinpress loose": [coinpress(rng, x, 0.0, 1e6, 1e3, epsilon) for x in ordered],
            "tail counts": [tail_counts(rng, x, epsilon) for x in ordered],
        }
        answers["diffprivlib loose"] = [diffprivlib_mean(rng, c, n, -1e6, 1e6, epsilon) for c in answers["diffprivlib loose"]]
        tuned = [[coinpress(rng, x, quartiles[1], 100 * spread, s, epsilon) for x in ordered] for s in sigmas]
        answers["coinpress"] = min(tuned, key=lambda a: float(np.mean((np.array(a) - truth) ** 2)))
        covered = {}
        for method, algorithm in OURS.items():
            count = trials if method == "auto" else min(trials, other_trials)
            if not count:
                continue
            fits = [
                algorithm(Curator(epsilon, DELTA, random_state=1000 * seed + t), PrivateData(x[:, None]))
                for t, x in enumerate(samples[:count])
            ]
            answers[method] = [float(f.value[0]) for f in fits]
            intervals = np.array([f.interval(0.95)[0] for f in fits])
            inside = (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])
            covered[method] = np.nan if np.isnan(intervals).any() else float(inside.mean())
        rmse = {m: float(np.sqrt(np.mean((np.array(a) - truth) ** 2))) for m, a in answers.items()}
        reference = min(rmse[m] for m in TOLD_TRUTH)
        for method, a in answers.items():
            yield {
                "n": n,
                "epsilon": epsilon,
                "method": method,
                "told": "truth" if method in TOLD_TRUTH else "nothing",
                "rmse": rmse[method],
                "bias": float(np.mean(a) - truth),
                "ratio": rmse[method] / reference,
                "coverage": covered.get(method, np.nan),
                "trials": len(a),
            }


def summarize(records: list[dict[str, object]], path: Path) -> None:
    """Geometric mean and worst ratio of every method, and how many cells it wins among those told nothing."""
    cells = sorted({(r["law"], r["n"], r["epsilon"]) for r in records}, key=str)
    table = {(r["law"], r["n"], r["epsilon"], r["method"]): r for r in records}
    names = list(dict.fromkeys(str(r["method"]) for r in records))
    blind = [m for m in names if m not in TOLD_TRUTH]
    winner = [min(blind, key=lambda m: float(table[(*c, m)]["ratio"])) for c in cells]
    lines = []
    for scope, wanted in (("all", cells), ("without all policies", [c for c in cells if "all policies" not in str(c[0])])):
        for m in names if wanted else ():
            ratios = np.array([float(table[(*c, m)]["ratio"]) for c in wanted])
            worst = wanted[int(np.argmax(ratios))]
            lines.append(
                {
                    "cells": scope,
                    "method": m,
                    "geometric mean ratio": f"{math.exp(np.log(ratios).mean()):.3f}",
                    "worst ratio": f"{ratios.max():.2f}",
                    "worst cell": f"{worst[0]} n={worst[1]} epsilon={worst[2]}",
                    "coverage": f"{np.nanmean([float(table[(*c, m)]['coverage']) for c in wanted] or [np.nan]):.3f}"
                    if m in OURS and not all(np.isnan(float(table[(*c, m)]["coverage"])) for c in wanted)
                    else "",
                    "best of those told nothing": sum(w == m and c in wanted for w, c in zip(winner, cells, strict=True)),
                }
            )
    write(path, lines)
    by_cell: list[dict[str, object]] = []
    for law, n in dict.fromkeys((r["law"], r["n"]) for r in records):
        row: dict[str, object] = {"law": law, "n": n}
        for field, form in (("ratio", ".2f"), ("coverage", ".0%")):
            row |= {f"{field}, epsilon {e:g}": format(float(table[law, n, e, "auto"][field]), form) for e in EPSILONS}
        by_cell.append(row)
    write(path.with_name("means_cells.csv"), by_cell)
    for line in lines:
        print(*line.values(), sep="  ")


def write(path: Path, records: list[dict[str, object]]) -> None:
    write_csv(path, records, digits=None)


def rate(trials: int) -> None:
    """Slope of log error against log n for two-sided Pareto laws with barely a (1+v)-th moment, shifted by 1."""
    sizes = np.array([1_000, 4_000, 16_000, 64_000])
    records = []
    for v in (0.2, 0.5, 1.0):
        index = 1 + v + 0.05
        bound = 2 ** (1 + v) * (1 + index / 0.05)  # E|x + 1|^(1+v) at most
        rng = np.random.default_rng(7)
        for method in ("truncated", "auto"):
            errors = []
            for n in sizes:
                a = []
                for t in range(trials):
                    x = 1 + rng.choice([-1.0, 1.0], n) * (1 + rng.pareto(index, n))
                    fit = DPMean(epsilon=1.0, delta=DELTA, method=method, moment=1 + v, moment_bound=bound, random_state=t).fit(
                        x[:, None]
                    )
                    a.append(abs(float(fit.mean_[0]) - 1))
                errors.append(float(np.median(a)))
            slope = float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
            for n, e in zip(sizes, errors, strict=True):
                records.append(
                    {"v": v, "method": method, "n": int(n), "median error": e, "slope": slope, "theorem 1": -v / (1 + v)}
                )
            print(f"v={v} {method}: slope {slope:.3f}, theorem {-v / (1 + v):.3f}", flush=True)
    write(RESULTS / "means_rate.csv", records)
    pictures.means_rate()


def one_law(k: int, options: argparse.Namespace) -> list[dict[str, object]]:
    """All cells of the law with this number; seeds depend on the law and n only."""
    warnings.simplefilter("ignore", UtilityWarning)
    name, draw, truth, law = next(islice(laws(), k, None))
    records: list[dict[str, object]] = []
    for n in options.sizes:
        for record in cell(draw, truth, law, n, options.trials, options.other_trials, 20 + k):
            records.append({"law": name, **record})
            if record["method"] == "auto":
                print(name, n, record["epsilon"], f"auto {record['ratio']:.2f}", flush=True)
    return records


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--other-trials", type=int, default=200, help="for our methods other than auto")
    parser.add_argument("--rate-trials", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--laws", nargs="*")
    parser.add_argument("--processes", type=int, default=1, help="laws at a time; the figures are the same")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    records: list[dict[str, object]] = []
    numbers = [k for k, law in enumerate(laws()) if not options.laws or law[0] in options.laws] if options.sizes else []
    with ProcessPoolExecutor(options.processes) as pool:
        for part in pool.map(one_law, numbers, [options] * len(numbers)):
            records += part
            write(options.results / "means.csv", records)
    if records:
        summarize(records, options.results / "means_summary.csv")
    if options.rate_trials:
        warnings.simplefilter("ignore", UtilityWarning)
        rate(options.rate_trials)


if __name__ == "__main__":
    main()
