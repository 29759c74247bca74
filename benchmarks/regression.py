"""Private regression and classification of heavy-tailed data.

    python benchmarks/regression.py [--quick] [--keep] [--only linear,logistic,real,summary,rates,coverage,speed]

Synthetic: d = 10, unit coefficients, intercept 1 (-0.3 for labels); log-normal(0, 1) or Student t(3) features;
centered log-normal(1.2) noise, or logistic labels. *parameter* is the relative l2 error of the coefficients,
*excess* the excess risk (squared or logistic loss, intercept included). Real: a quarter of the rows held out;
*risk* is the mean squared error over the response's variance, or the log-loss.

``auto`` is told nothing. Competitors are told what their files say, each at its best over its grid *on the error
that is reported, on the same draws*, and on real data get columns and response standardized without privacy.
``auto`` is fitted with several seeds of the noise per draw: 40 fits a cell at n = 10,000, else at least ten. With
--keep, competitors' rows are those of the files. Writes benchmarks/results/regression*.csv, regression.md and
regression_rates.png; real data are read from the folder that FATTAIL_DATA names.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor, LogisticRegression

import pictures
from competitors import adassp, clipped_descent, diffprivlib_models, tukey_em
from fattail import DPHuberRegressor, DPLinearRegression, DPLogisticRegression, UtilityWarning
from result_files import write_csv

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0)
DRAWS = {10_000: 10, 100_000: 5}
FITS = {10_000: 40, 100_000: 10}  # of auto: ten at n = 10,000 are off by 8 % (one standard error) and more
RESULTS = Path(__file__).parent / "results"
METHODS = ("smoothed", "median_of_means", "trimmed", "sample_aggregate", "clipped")


def competitors(logistic):
    """Name: (grid, fits for all of the grid)."""

    def one_by_one(fit):
        return lambda X, y, e, delta, rng, grid: [fit(X, y, e, delta, rng, told) for told in grid]

    full = partial(clipped_descent.fit_all, logistic=logistic)
    sampled = partial(clipped_descent.fit_all, logistic=logistic, sampled=True)
    found = {
        "clipped GD": (clipped_descent.GRID, full),
        "DP-SGD": (clipped_descent.SAMPLED_GRID, sampled),
        "clipped GD, untuned": ([clipped_descent.UNTUNED], full),
        "DP-SGD, untuned": ([clipped_descent.UNTUNED], sampled),
    }
    if logistic:
        return found | {"diffprivlib": (diffprivlib_models.LOGISTIC_GRID, one_by_one(diffprivlib_models.fit_logistic))}
    return found | {
        "AdaSSP": (adassp.GRID, one_by_one(adassp.fit)),
        "TukeyEM": (tukey_em.GRID, one_by_one(tukey_em.fit)),
        "diffprivlib": (diffprivlib_models.LINEAR_GRID, one_by_one(diffprivlib_models.fit_linear)),
    }


def features(law, n, rng):
    return rng.lognormal(size=(n, 10)) if law == "log-normal" else rng.standard_t(3, size=(n, 10))


def draw(law, logistic, n, seed):
    rng = np.random.default_rng([seed, n])
    w = rng.normal(size=10)
    w /= np.linalg.norm(w)
    X = features(law, n, rng)
    if logistic:
        return X, (rng.random(n) < expit(X @ w - 0.3)).astype(int), w, -0.3
    return X, X @ w + 1.0 + rng.lognormal(0, 1.2, n) - math.exp(0.72), w, 1.0


@lru_cache
def test_rows(law):
    return features(law, 100_000, np.random.default_rng(12345))


def errors(law, logistic, w, b, coef, intercept):
    X = test_rows(law)
    z, truth = np.clip(X @ coef + intercept, -700, 700), X @ w + b
    if logistic:
        excess = np.mean(np.logaddexp(0, z) - expit(truth) * z - np.logaddexp(0, truth) + expit(truth) * truth)
    else:
        excess = np.mean((z - truth) ** 2)
    return {"parameter": np.linalg.norm(coef - w) / np.linalg.norm(w), "excess": max(excess, 1e-12)}


def private(model, X, y, epsilon, seed, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        return model(epsilon=epsilon, delta=DELTA, random_state=seed, **options).fit(X, y)


def solution(model):
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


def geometric(values):
    return float(np.exp(np.mean(np.log(values))))


def best(grid, run, trials, measure):
    """Smallest geometric mean error over a grid, for each measure by itself; ``run`` fits a trial for all of the grid."""
    results = defaultdict(list)
    for trial in trials:
        for told, fitted in zip(grid, run(trial, grid), strict=True):
            for name, value in measure(trial, *fitted).items():
                results[name, told].append(value if np.isfinite(value) else 1e30)
    found = defaultdict(lambda: (math.inf, None))
    for (name, told), values in results.items():
        found[name] = min(found[name], (geometric(values), told), key=lambda pair: pair[0])
    return found


def several(model, trials, epsilon, measure, fits=10):
    """Geometric means over trials and seeds of the noise: ``auto`` has nothing to tune."""
    seeds = range(math.ceil(fits / len(trials)))
    found = defaultdict(list)
    for k, trial in enumerate(trials):
        for seed in seeds:
            fitted = solution(private(model, trial[0], trial[1], epsilon, len(trials) * seed + k))
            for name, value in measure(trial, *fitted).items():
                found[name].append(value)
    return {name: (geometric(values), None) for name, values in found.items()}


def kept(name, rows):
    """``rows`` and those of the file whose methods are not among them."""
    methods = {row[5] for row in rows}
    with (RESULTS / name).open() as file:
        return rows + [row for row in list(csv.reader(file))[1:] if row[5] not in methods]


def synthetic(logistic, quick, keep):
    rows, task = [], "logistic" if logistic else "linear"
    name, rivals = f"regression_{task}.csv", {} if keep else competitors(logistic)
    for n in (10_000,) if quick else (10_000, 100_000):
        for law in ("log-normal", "t(3)"):
            found = one_law(law, logistic, n, 2 if quick else DRAWS[n], rivals)
            for (epsilon, method), errors_found in found.items():
                rows += [(task, law, n, epsilon, e, method, value, told) for e, (value, told) in errors_found.items()]
            print("done", task, law, n, flush=True)
    header = ("task", "law", "n", "epsilon", "error", "method", "value", "told")
    write(name, header, kept(name, rows) if keep else rows)
    return rows


def one_law(law, logistic, n, count, rivals):
    """Errors of all methods, by (epsilon, method)."""
    trials = [(*draw(law, logistic, n, seed), seed) for seed in range(count)]

    def measure(trial, coef, intercept):
        return errors(law, logistic, trial[2], trial[3], coef, intercept)

    def reference(trial, told):
        model = LogisticRegression(C=1e6, max_iter=1000) if logistic else HuberRegressor(max_iter=1000)
        return [solution(model.fit(trial[0], trial[1]))]

    found = {(0, "not private"): best([None], reference, trials, measure)}
    models = {"auto": DPLogisticRegression} if logistic else {"auto": DPLinearRegression, "auto (Huber)": DPHuberRegressor}
    for epsilon in EPSILONS:
        for name, model in models.items():
            found[epsilon, name] = several(model, trials, epsilon, measure, FITS[n])
        for name, (grid, fit) in rivals.items():

            def theirs(trial, grid, fit=fit, epsilon=epsilon):
                return fit(trial[0], trial[1], epsilon, DELTA, np.random.default_rng(trial[4]), grid)

            found[epsilon, name] = best(grid, theirs, trials, measure)
    return found


PENSION = ["age", "inc", "fsize", "educ", "db", "marr", "male", "twoearn", "e401", "pira", "hown"]


def load(name, folder):
    import pandas as pd

    if name == "blogfeedback":
        f = np.load(folder / "blogfeedback.npz")
        X = sparse.csr_matrix((f["data"], f["indices"], f["indptr"]), shape=tuple(f["shape"]))
        return X.toarray().astype(float), f["y"].astype(float)
    t = pd.read_csv(folder / f"{name}.csv.gz")
    if name == "pension401k":
        return t[PENSION].to_numpy(float), t["net_tfa"].to_numpy(float)
    if name == "kc_house":
        return t.drop(columns=["id", "date", "price", "zipcode"]).to_numpy(float), t["price"].to_numpy(float)
    X = t[["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]].copy()
    X["male"], X["married"] = t["sex"] == "Male", t["marital_status"].str.startswith("Married")
    X["white"], X["native"] = t["race"] == "White", t["native_country"] == "United-States"
    return X.to_numpy(float), (t["income"] == ">50K").to_numpy(int)


def real(quick, keep):
    folder = Path(os.environ.get("FATTAIL_DATA", "data"))
    rows = []
    for name in ("pension401k", "kc_house", "adult") + (() if quick else ("blogfeedback",)):
        if not any(folder.glob(f"{name}.*")):
            print(f"{name} not found in {folder}: set FATTAIL_DATA")
            continue
        X, y = load(name, folder)
        logistic = name == "adult"
        found = one_table(X, y, logistic, 1 if quick or X.shape[1] > 100 else 3, {} if keep else competitors(logistic))
        rows += [("real", name, len(y), e, m, method, v, told) for (e, method), f in found.items() for m, (v, told) in f.items()]
        print("done", name, flush=True)
    header = ("task", "data", "n", "epsilon", "error", "method", "value", "told")
    write("regression_real.csv", header, kept("regression_real.csv", rows) if keep else rows)
    return rows


def one_table(X, y, logistic, splits, rivals):
    """Errors on held-out rows of all methods, by (epsilon, method)."""
    trials = []
    for seed in range(splits):
        order, cut = np.random.default_rng(seed).permutation(len(y)), 3 * len(y) // 4
        trials.append((X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]))

    def risk(trial, coef, intercept):
        z = np.clip(trial[2] @ coef + intercept, -1e150, 1e150)
        if not logistic:
            return {"risk": np.mean((trial[3] - z) ** 2) / np.var(trial[3])}
        z = np.clip(z, -700, 700)
        return {"risk": np.mean(np.logaddexp(0, z) - trial[3] * z), "error rate": np.mean((z > 0) != trial[3])}

    def standardized(fit):
        def run(trial, grid):
            mean, deviation = trial[0].mean(axis=0), trial[0].std(axis=0) + 1e-12
            level, size = (0.0, 1.0) if logistic else (trial[1].mean(), trial[1].std())
            fits = fit((trial[0] - mean) / deviation, (trial[1] - level) / size, grid)
            back = [(coef / deviation * size, intercept) for coef, intercept in fits]
            return [(coef, intercept * size + level - coef @ mean) for coef, intercept in back]

        return run

    def reference(X, y, grid):
        return [solution((LogisticRegression(C=1e6, max_iter=1000) if logistic else HuberRegressor(max_iter=300)).fit(X, y))]

    found = {(0, "not private"): best([None], standardized(reference), trials, risk)}
    if not logistic:
        least = standardized(lambda X, y, grid: [(np.linalg.lstsq(X, y, rcond=None)[0], 0.0)])
        found[0, "not private, least squares"] = best([None], least, trials, risk)
    model = DPLogisticRegression if logistic else DPLinearRegression
    for epsilon in EPSILONS:
        found[epsilon, "auto"] = several(model, trials, epsilon, risk)
        for method, (grid, fit) in rivals.items():
            if X.shape[1] > 100:
                if not method.startswith("clipped GD"):  # the others need far more rows than this for so many columns
                    continue
                grid = [told for told in grid if told[2] == 20] or grid
            theirs = standardized(lambda X, y, grid, e=epsilon, fit=fit: fit(X, y, e, DELTA, np.random.default_rng(7), grid))
            found[epsilon, method] = best(grid, theirs, trials, risk)
    return found


def rates(quick, keep):
    """Error of the papers' methods; for a strongly convex loss their theorems say 1 / (n epsilon), up to logarithms."""
    sizes, budgets, rows = (4_000, 16_000, 64_000), (0.5, 1.0, 2.0, 4.0), []
    for method in ("auto", *METHODS):
        for splitting in (False, True) if method not in ("auto", "sample_aggregate") else (False,):
            for n, epsilon in [(n, 1.0) for n in sizes] + [(16_000, e) for e in budgets if e != 1.0]:
                values = []
                for seed in range(1 if quick else 3):
                    X, y, w, b = draw("t(3)", False, n, 100 + seed)
                    model = private(DPLinearRegression, X, y, epsilon, seed, method=method, splitting=splitting)
                    values.append(errors("t(3)", False, w, b, *solution(model))["excess"])
                rows.append((method, "split" if splitting else "all rows", n, epsilon, geometric(values)))
    write("regression_rates.csv", ("method", "rows", "n", "epsilon", "excess"), rows)
    pictures.regression_rates()
    return rows


def coverage(quick, keep):
    """Share of the slopes that the 95 % intervals of ``auto`` cover, on draws that no other part sees."""
    rows = []
    for task, model in (("linear", DPLinearRegression), ("logistic", DPLogisticRegression)):
        for law in ("log-normal", "t(3)"):
            for n, draws in ((1_000, 50), (10_000, 50), (100_000, 10)):
                for epsilon in (0.5, 1.0, 2.0):
                    inside = []
                    for seed in range(2 if quick else draws):
                        X, y, w, _ = draw(law, task == "logistic", n, 500 + seed)
                        low, high = private(model, X, y, epsilon, seed).interval_.T
                        inside.append(np.mean((low <= w) & (w <= high)))
                    spread = np.std(inside) / math.sqrt(len(inside))
                    rows.append((task, law, n, epsilon, len(inside), float(np.mean(inside)), float(spread)))
    write("regression_coverage.csv", ("task", "law", "n", "epsilon", "fits", "slopes covered", "standard error"), rows)


PLAIN = {"DPHuberRegressor": HuberRegressor, "DPLogisticRegression": LogisticRegression, "DPLinearRegression": HuberRegressor}


def speed_data(n, d=50):
    """Student rows, made piece by piece so that nothing else was ever as large."""
    rng = np.random.default_rng(0)
    X, w = np.empty((n, d)), rng.normal(size=d) / 7
    for start in range(0, n, 10_000):
        X[start : start + 10_000] = rng.standard_t(3, size=X[start : start + 10_000].shape)
    return X, X @ w + rng.standard_t(2.5, n), (X @ w + rng.logistic(size=n) > 0).astype(int)


def peak_mb():
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def extra_mb(name, n):
    """Print by how much a fit raises the resident memory of a process that holds the data and the compiled code."""
    X, y, labels = speed_data(n)
    target = labels if "Logistic" in name else y
    model = globals()[name]
    model().fit(X[:30_000], target[:30_000])
    Path("/proc/self/clear_refs").write_text("5")  # forget earlier peaks
    before = peak_mb()
    model().fit(X, target)
    print(peak_mb() - before)


def speed(quick, keep):
    """Fit times in one process, in turn, the private fits with secure noise; ratios are medians over rounds."""
    n, rounds = (100_000, 1) if quick else (1_000_000, 7)
    X, y, labels = speed_data(n)
    times = defaultdict(list)
    models = {
        m.__name__: m for m in (DPHuberRegressor, HuberRegressor, DPLogisticRegression, LogisticRegression, DPLinearRegression)
    }
    for name in PLAIN:
        private(models[name], X[:5000], labels[:5000], 1.0, None)  # compile
    for _ in range(rounds):
        for name, model in models.items():
            time.sleep(0.5)  # the threads of BLAS go on spinning for a while after a fit, at the next one's expense
            wall, cpu = time.perf_counter(), time.process_time()
            model().fit(X, labels if "Logistic" in name else y)
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
            print(name, *times[name][-1], flush=True)
    rows = []
    for name in models:
        plain = PLAIN.get(name)
        extra, ratios = "", ("", "")
        if plain:
            code = f"import regression; regression.extra_mb({name!r}, {n})"
            run = subprocess.run(
                [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
            )
            extra = float(run.stdout.splitlines()[-1])
            ratios = np.median(np.divide(times[name], times[plain.__name__]), axis=0).tolist()
        seconds = np.median(times[name], axis=0).tolist()
        rows.append((name, n, X.shape[1], *seconds, plain.__name__ if plain else "", *ratios, extra))
    header = ("model", "n", "d", "seconds", "cpu_seconds", "compared_with", "ratio", "cpu_ratio", "extra_mb")
    write("regression_speed.csv", header, rows)


def write(name, header, rows):
    write_csv(RESULTS / name, (dict(zip(header, row, strict=True)) for row in rows), digits=5)


def summary(quick=False, keep=False):
    """auto against the best competitor of each cell, from the files; written to regression.md."""
    cells = defaultdict(dict)
    for name in ("regression_linear.csv", "regression_logistic.csv", "regression_real.csv"):
        if (RESULTS / name).exists():
            with (RESULTS / name).open() as file:
                for task, data, n, epsilon, error, method, value, _ in list(csv.reader(file))[1:]:
                    cells[task, data, int(n), float(epsilon), error][method] = float(value)
    lines = ["| task | data | n | epsilon | error | auto | best competitor | ratio | auto / not private |", "|" + "---|" * 9]
    groups = defaultdict(list)
    for (task, data, n, epsilon, error), found in cells.items():
        if "auto" in found:
            rivals = {m: v for m, v in found.items() if not m.startswith(("auto", "not private"))}
            name = min(rivals, key=rivals.get)
            ratio = found["auto"] / rivals[name]
            groups[task, error].append(ratio)
            plain = found["auto"] / cells[task, data, n, 0.0, error]["not private"]
            cell = f"| {task} | {data} | {n} | {epsilon:g} | {error} "
            lines.append(cell + f"| {found['auto']:.4g} | {rivals[name]:.4g} ({name}) | {ratio:.2f} | {plain:.2f} |")
    lines += ["", "Geometric means of the ratio to the best competitor, each competitor tuned on the very error of its cell:", ""]
    lines += [f"- {task}, {error}: {geometric(ratios):.3f} over {len(ratios)} cells" for (task, error), ratios in groups.items()]
    lines += [f"- all: {geometric([r for ratios in groups.values() for r in ratios]):.3f}"]
    (RESULTS / "regression.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines[-len(groups) - 1 :]))


def main():
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UtilityWarning)
    np.seterr(over="ignore", invalid="ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the competitors' rows of the files")
    parser.add_argument("--only", default="linear,logistic,real,summary,rates,coverage,speed")
    options = parser.parse_args()
    parts = {
        "linear": partial(synthetic, False),
        "logistic": partial(synthetic, True),
        "real": real,
        "summary": summary,
        "rates": rates,
        "coverage": coverage,
        "speed": speed,
    }
    for part in options.only.split(","):
        parts[part](options.quick, options.keep)


if __name__ == "__main__":
    main()
