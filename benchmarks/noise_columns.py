"""Sparse regression on real tables with 500 columns of noise added, against the dense fit without them.

    python benchmarks/noise_columns.py [--seeds 5] [--epsilons 1,2] [--only name,name] [--write]

Tables and splits are those of ``real_tables.py``. Half of the added columns are standard normal; the others are columns of
the table in an order of rows of their own, so that their units, centers and tails are those of real columns. The place of
every column is random. ``dense`` is ``DPLinearRegression`` on the table alone, ``sparse`` is ``DPSparseRegressor`` on all
columns; both are told nothing. R2 is taken on held-out rows.
Writes benchmarks/results/noise_columns.csv and noise_columns.md. Data are read from the folder that FATTAIL_DATA names.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from fattail import DPLinearRegression, DPSparseRegressor, UtilityWarning
from real_tables import DELTA, RESULTS, TABLES, score, split
from result_files import write_csv

ADDED = 500
LEFT_OUT = ("blogfeedback",)  # 276 columns of its own: the dense fit is another benchmark's question
HEADER = ("table", "tuned", "n", "d", "epsilon", "seeds", "least squares", "dense", "sparse", "sparse worst", "found", "seconds")


def widened(X, seed):
    """The table's columns among 500 others, and their places."""
    n, d = X.shape
    rng = np.random.default_rng([seed, ADDED])  # the same places and copies for every number of rows
    copied, order = rng.integers(d, size=ADDED - ADDED // 2), rng.permutation(d + ADDED)
    normal = rng.normal(size=(n, ADDED // 2))
    shuffled = np.column_stack([rng.permutation(X[:, j]) for j in copied])
    return np.column_stack([X, normal, shuffled])[:, order], np.argsort(order)[:d]


def r2(model, X, y):
    return float(1 - np.mean((y - model.predict(X)) ** 2) / np.var(y))


def run(table, epsilon, seeds):
    found, seconds = {"least squares": [], "dense": [], "sparse": [], "found": []}, 0.0
    n = d = 0
    for seed in range(seeds):
        X, y, X_test, y_test = split(table, seed)
        n, d = X.shape
        center, deviation = X.mean(axis=0), np.maximum(X.std(axis=0), 1e-12)
        w = np.linalg.lstsq(np.column_stack([(X - center) / deviation, np.ones(n)]), y, rcond=1e-10)[0]
        found["least squares"].append(score((X_test - center) / deviation, y_test, w[:-1], w[-1]))
        dense = DPLinearRegression(epsilon=epsilon, delta=DELTA, random_state=seed).fit(X, y)
        found["dense"].append(r2(dense, X_test, y_test))
        wide, places = widened(X, seed)
        start = time.process_time()
        sparse = DPSparseRegressor(epsilon=epsilon, delta=DELTA, random_state=seed).fit(wide, y)
        seconds += time.process_time() - start
        found["sparse"].append(r2(sparse, widened(X_test, seed)[0], y_test))
        found["found"].append(np.isin(sparse.support_, places).mean() if sparse.support_.size else 0.0)
    median = {key: float(np.median(values)) for key, values in found.items()}
    return {
        "table": table, "tuned": TABLES[table][3], "n": n, "d": d, "epsilon": epsilon, "seeds": seeds, **median,
        "sparse worst": min(found["sparse"]), "seconds": seconds / seeds,
    }  # fmt: skip


def summary(rows):
    """The table, and how many cells meet the aim: within .05 of the dense fit."""
    lines = ["| table | n, d | epsilon | least squares | dense | sparse: median, worst | share of support in the table |"]
    lines.append("|---" * 7 + "|")
    lines += [
        f"| {r['table']}{' (tuned)' if r['tuned'] else ''} | {r['n']:,}, {r['d']} | {r['epsilon']:g} | {r['least squares']:.3f} "
        f"| {r['dense']:.3f} | {r['sparse']:.3f}, {r['sparse worst']:.3f} | {r['found']:.2f} |"
        for r in rows
    ]
    lines.append("")
    for epsilon in sorted({r["epsilon"] for r in rows}):
        cells = [r for r in rows if r["epsilon"] == epsilon]
        loss = np.array([r["dense"] - r["sparse"] for r in cells])
        lines.append(
            f"- epsilon {epsilon:g}: median loss {np.median(loss):.3f}; within .05 of the dense fit in {np.sum(loss <= 0.05)} of "
            f"{len(cells)} tables"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", default="2")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UtilityWarning)
    rows = []
    for table in options.only.split(",") if options.only else [t for t in TABLES if t not in LEFT_OUT]:
        for epsilon in map(float, options.epsilons.split(",")):
            rows.append(run(table, epsilon, options.seeds))
            print(summary(rows[-1:]).splitlines()[2], f"{rows[-1]['seconds']:.2f} s", flush=True)
    print(summary(rows))
    if options.write:
        write_csv(RESULTS / "noise_columns.csv", rows)
        (RESULTS / "noise_columns.md").write_text(summary(rows))


if __name__ == "__main__":
    main()
