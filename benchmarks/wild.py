"""How often a fit of the default linear regression is wild, over tables with odd columns.

    python benchmarks/wild.py [--fits 20000] [--write]

Tables have point masses, dates, identifiers, dummies from 50 % to 0.01 %, copies of columns, constants, rare far values and
columns in large and small units, at random; the response has light or heavy tails. A fit is *wild* if its predictions on the rows
spread more than ten times as far as the response: the ninetieth percentile of the distance to the response's median. *far* is
the same for the largest distance, which a single row decides. Writes benchmarks/results/wild.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

from fattail import DPLinearRegression, UtilityWarning

RESULTS = Path(__file__).parent / "results" / "wild.csv"
SIZES, EPSILONS = (500, 1_500, 5_000), (0.2, 0.5, 1.0, 4.0)


def column(rng, n, others):
    """One odd column."""
    kind = rng.integers(12)
    if kind == 0:
        return rng.random(n) < rng.choice([0.5, 0.1, 0.02, 0.005, 0.001, 0.0001])
    if kind == 1:
        return np.where(rng.random(n) < rng.choice([0.6, 0.9, 0.99]), 0.0, rng.lognormal(6, 1.5, n))
    if kind == 2:
        return 20_200_000 + 10_000 * rng.integers(5, size=n) + rng.integers(101, 1231, n)
    if kind == 3:
        return rng.permutation(n) + 10.0 ** rng.integers(3, 12)
    if kind == 4 and others:
        return others[rng.integers(len(others))] * rng.choice([1.0, -1.0, 1000.0])
    if kind == 5:
        return np.full(n, rng.choice([0.0, 7.0, 1e9]))
    if kind == 6:
        return np.where(rng.random(n) < 2 / n, 1e4 * rng.choice([1.0, -1.0]), rng.normal(size=n))
    if kind == 7:
        return rng.integers(1900, 2025, n)
    if kind == 8:
        return 47.5 + 0.1 * rng.normal(size=n)
    if kind == 9:
        return rng.lognormal(rng.uniform(-8, 12), rng.uniform(0.3, 2.0), n)
    if kind == 10 and others:
        return others[rng.integers(len(others))] + 1e-3 * rng.normal(size=n)
    return rng.normal(size=n)


def table(seed, n):
    rng = np.random.default_rng([seed, n])
    columns = []
    for _ in range(rng.integers(3, 13)):
        columns.append(np.asarray(column(rng, n, columns), dtype=float))
    X = np.column_stack(columns)
    spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    signal = (X - X.mean(axis=0)) / spread @ rng.normal(size=X.shape[1])
    noise = rng.normal(size=n) if rng.random() < 0.5 else rng.standard_t(2.5, n)
    return X, 10.0 ** rng.integers(-2, 6) * (rng.uniform(0, 1) * signal + noise)


def spreads(seed, n, epsilon):
    """Spread of predictions over that of the response: ninetieth percentile and largest."""
    X, y = table(seed, n)
    predicted = DPLinearRegression(epsilon=epsilon, delta=1e-5, random_state=seed).fit(X, y).predict(X)
    middle = np.median(y)
    far, own = np.abs(predicted - middle), np.abs(y - middle)
    return float(np.quantile(far, 0.9) / np.quantile(own, 0.9)), float(far.max() / own.max())


def main():
    warnings.simplefilter("ignore", UtilityWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so much CPU time")
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args()
    cells = [(n, epsilon) for n in SIZES for epsilon in EPSILONS]
    found = defaultdict(list)
    for k in range(options.fits):
        if time.process_time() > options.seconds:
            break
        n, epsilon = cells[k % len(cells)]
        usual, largest = spreads(k, n, epsilon)
        found[n, epsilon].append((usual, largest))
        if usual > 10:
            print("wild:", k, n, epsilon, f"{usual:.3g}", flush=True)
    rows = []
    for (n, epsilon), values in found.items():
        usual, largest = np.array(values).T
        rows.append((n, epsilon, len(values), int(np.sum(usual > 10)), f"{usual.max():.3g}", int(np.sum(largest > 10))))
        print(*rows[-1], sep="  ")
    print("fits", sum(row[2] for row in rows), "wild", sum(row[3] for row in rows), "far", sum(row[5] for row in rows))
    if options.write:
        with RESULTS.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("n", "epsilon", "fits", "wild", "largest ratio", "far"))
            writer.writerows(rows)


if __name__ == "__main__":
    main()
