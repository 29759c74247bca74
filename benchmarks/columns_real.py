"""Means of real columns: every numeric column of every table, at full size and at random thousands of its rows.

    FATTAIL_DATA=... python benchmarks/columns_real.py [--trials 5] [--epsilon 1] [--limit 60]

Tables are the CSV files of the folder that FATTAIL_DATA names, and the arrays of its ``uci_tables.npz`` and
``blogfeedback.npz``; of a table with more than ``limit`` numeric columns, ``limit`` evenly spaced ones. Rows without a value are
left out. Written to benchmarks/results/columns_real.csv, one line for each column and size, over ``trials`` fits:

  coverage         how often the 95 % interval holds the mean of all rows of the column;
  sample coverage  the same for the mean of the rows that were drawn (at full size they are the same);
  ratio            root mean squared error against the mean of all rows, over that of a clip whose ends are the best pair of
                   quantiles of the column (at most 5 % cut on either side), Laplace noise, the whole budget;
  radius ratio     the same error over that of the best clip around the median with one radius, a quantile of the distances: with
                   two free ends, one is always found whose bias cancels that of the other one on these very rows;
  range ratio      the same error over the noise alone of a clip that was told the least and the largest value;
  total ratio      at full size the ratio with the sampling error of the column in both errors: that of the mean of the law, as
                   in benchmarks/columns.py;
  width            median width over 2 x 1.96 times the error of that clip, and at full size of the sampling error too, since
                   an interval holds the mean of a law as well;
  open, none, far  as in benchmarks/columns.py.

``--picture FILE`` draws ratio against coverage and width, one dot for each column.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from columns import CUTS, RESULTS, clipped_means, fit, write

SUBSAMPLE = 1_000


def tables(folder: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Numeric columns of every table."""
    for file in sorted(folder.glob("*.csv.gz")):
        yield file.name.split(".")[0], pd.read_csv(file, low_memory=False).select_dtypes("number")
    arrays = np.load(folder / "uci_tables.npz")
    for name in sorted(key[:-2] for key in arrays.files if key.endswith("_X")):
        yield name, pd.DataFrame(np.column_stack((arrays[f"{name}_X"], arrays[f"{name}_y"])).astype(float))
    blog = np.load(folder / "blogfeedback.npz")
    rows = sparse.csr_matrix(
        (blog["data"].astype(float), blog["indices"].astype(int), blog["indptr"]), shape=tuple(blog["shape"])
    )
    yield "blogfeedback", pd.DataFrame(np.column_stack((rows.toarray(), blog["y"])))


def told(samples: list[np.ndarray], truth: float, low: np.ndarray, high: np.ndarray, epsilon: float) -> float:
    """Error of the best of some pairs of ends on sorted samples, with Laplace noise for the whole budget."""
    clips = np.array([clipped_means(s, low, high) for s in samples])
    squares = ((clips - truth) ** 2).mean(axis=0) + 2 * ((high - low) / (len(samples[0]) * epsilon)) ** 2
    return float(np.sqrt(squares.min()))


def record(table: str, column: str, x: np.ndarray, size: int, epsilon: float, trials: int) -> dict[str, Any]:
    """Fits of one column at one size."""
    rng = np.random.default_rng([sum(f"{table} {column}".encode()), size])
    samples = [x if size == len(x) else rng.choice(x, size, replace=False) for _ in range(trials)]
    truth, own = x.mean(), np.array([s.mean() for s in samples])
    low, high = (g.ravel() for g in np.meshgrid(np.quantile(x, CUTS), np.quantile(x, 1 - CUTS)))
    # The reference needs more samples than the fits, or its best pair would be best by luck.
    many = [x] if size == len(x) else [rng.choice(x, size, replace=False) for _ in range(60)]
    many = [np.sort(s) for s in many]
    reference = told(many, truth, low, high, epsilon)
    radius = np.quantile(np.abs(x - np.median(x)), 1 - CUTS)
    around = told(many, truth, np.median(x) - radius, np.median(x) + radius, epsilon)
    sampling = x.std() / np.sqrt(size) if size == len(x) else 0.0
    need = float(np.hypot(reference, sampling))
    value, bottom, top = np.array([fit(s, epsilon, seed) for seed, s in enumerate(samples)]).T
    error, half = np.abs(value - truth), np.maximum(top - value, value - bottom)
    slack = 1e-12 * abs(truth)
    off = float(np.sqrt(np.mean(error**2)))
    over = {
        "ratio": (off, reference),
        "radius ratio": (off, around),
        "range ratio": (off, math.sqrt(2) * np.ptp(x) / (size * epsilon)),
        "total ratio": (float(np.hypot(off, sampling)), need),
    }
    return {
        "table": table,
        "column": column,
        "n": size,
        "coverage": float(np.mean((bottom - slack <= truth) & (truth <= top + slack))),
        "sample coverage": float(np.mean((bottom - slack <= own) & (own <= top + slack))),
        **{name: ours / theirs if theirs > 0 else np.nan for name, (ours, theirs) in over.items()},
        "width": float(np.median(top - bottom) / (2 * 1.96 * need)) if need > 0 else np.nan,
        "open": float(np.mean(np.isinf(half))),
        "none": float(np.mean(np.isinf(bottom) & np.isinf(top))),
        "far": int(np.sum(error > 10 * np.maximum(half, slack))),
    }


def summary(records: list[dict[str, Any]], trials: int) -> list[str]:
    """By size: coverage, error, width."""
    lines = []
    for name, full in (("full size", True), (f"{SUBSAMPLE} rows", False)):
        part = [r for r in records if (r["n"] != SUBSAMPLE) == full]
        answers = [r for r in part if r["none"] < 0.5]
        ratios = np.array([max(r["ratio"], 1e-3) for r in answers if np.isfinite(r["ratio"])])
        law, rows = (np.array([r[key] for r in answers]) for key in ("coverage", "sample coverage"))
        others = ", ".join(
            f"{key} {np.exp(np.nanmean(np.log([max(r[key], 1e-3) for r in answers]))):.3f}"
            for key in ("radius ratio", "range ratio", "total ratio")
        )
        lines.append(
            f"{name}: {len(part)} columns, {len(answers)} answered; coverage {law.mean():.3f} (rows {rows.mean():.3f}), "
            f"below .8 in {np.sum(law < 0.8)}; error over the reference {np.exp(np.log(ratios).mean()):.3f} in geometric mean, "
            f"{np.median(ratios):.3f} in the median, above 1.5 in {np.sum(ratios > 1.5)}, at most {ratios.max():.3g}; {others}; "
            f"median width {np.nanmedian([r['width'] for r in answers]):.2f}; "
            f"far {sum(r['far'] for r in part)} of {trials * len(part)} fits"
        )
    return lines


def draw(records: list[dict[str, Any]], picture: Path) -> None:
    """One dot for each column: error and width, in units of the reference, by size."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True, layout="constrained")
    for axis, (name, full) in zip(axes, (("full size", True), (f"{SUBSAMPLE} rows", False)), strict=True):
        part = [r for r in records if (r["n"] != SUBSAMPLE) == full and np.isfinite(r["ratio"]) and np.isfinite(r["width"])]
        dots = axis.scatter(
            [max(r["width"], 0.1) for r in part],
            [max(r["ratio"], 0.05) for r in part],
            c=[r["coverage"] for r in part],
            s=12,
            vmin=0,
            vmax=1,
            cmap="viridis",
        )
        axis.set(xscale="log", yscale="log", title=name, xlabel="width of the interval over the need")
        axis.axhline(1.5, color="gray", lw=0.5)
    axes[0].set_ylabel("error over that of a tuned clip")
    figure.colorbar(dots, label="coverage")
    figure.savefig(picture, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--picture", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=RESULTS / "columns_real.csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    records: list[dict[str, Any]] = []
    for table, frame in tables(Path(os.environ["FATTAIL_DATA"])):
        chosen = np.unique(np.linspace(0, frame.shape[1] - 1, min(options.limit, frame.shape[1])).astype(int))
        for k in chosen:
            x = frame.iloc[:, k].dropna().to_numpy(float)
            sizes = sorted({len(x), min(SUBSAMPLE, len(x))})
            records += [record(table, str(frame.columns[k]), x, size, options.epsilon, options.trials) for size in sizes]
        write(records, options.out)
        print(table, frame.shape, flush=True)
    print(*summary(records, options.trials), sep="\n")
    if options.picture:
        draw(records, options.picture)


if __name__ == "__main__":
    main()
