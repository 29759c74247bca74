"""Attack every method of the registry through its public estimator.

    python benchmarks/audit.py [--quick] [--runs N]

For each method and each nominal epsilon: a dataset and a neighbour that differ in one
canary row built to move that method most, many fits on each, and a lower bound on epsilon
with 95 % confidence (Clopper-Pearson, and the bound valid for Gaussian DP). The same attack
is run on a mutant with half the noise. Writes benchmarks/results/audit.csv and docs/audit.png.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import fattail
from fattail import audit

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "audit.csv"
DELTA = 1e-5
EPSILONS = (0.5, 1.0, 4.0)


def one_column(rng):
    """A mean: ordinary rows, one at either end of whatever is allowed."""
    X = rng.normal(size=(200, 1))
    return [(np.vstack([[[canary]], X[1:]]),) for canary in (1e12, -1e12)]


def regression(rng):
    """The canary has leverage and an absurd response, up or down."""
    X = rng.normal(size=(200, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=200)
    X[0] = 2.0
    return [(X, np.concatenate([[canary], y[1:]])) for canary in (1e9, -1e9)]


def labels(rng):
    """The canary sits far out and changes its label."""
    X = rng.normal(size=(200, 2))
    y = (X @ [1.0, -1.0] + rng.logistic(size=200) > 0).astype(int)
    X[0] = 50.0
    return [(X, np.concatenate([[canary], y[1:]])) for canary in (0, 1)]


def support_tie(rng):
    """Two groups of columns tie for the support; the canary decides between them."""
    X = rng.uniform(-1, 1, size=(200, 10))
    y = X[:, 0] + X[:, 5] + 0.1 * rng.standard_t(2, 200)
    rows = []
    for side in (0, 1):
        X_, y_ = X.copy(), y.copy()
        X_[0] = 0.0
        X_[0, 5 * side : 5 * side + 5] = 1.0
        y_[0] = 1e9
        rows.append((X_, y_))
    return rows


def support_tie_labels(rng):
    return [(X, (y > 0).astype(int)) for X, y in support_tie(rng)]


def clusters(rng):
    z = rng.choice([-1, 1], 200)
    X = z[:, None] * [2.0, 1.0] + rng.normal(size=(200, 2))
    return [(np.vstack([[canary], X[1:]]),) for canary in ([1e9, 1e9], [-1e9, 1e9])]


CASES = {
    "DPMean": (one_column, {}),
    "DPLinearRegression": (regression, {}),
    "DPHuberRegressor": (regression, {}),
    "DPLogisticRegression": (labels, {}),
    "DPSparseRegressor": (support_tie, {"sparsity": 2}),
    "DPSparseClassifier": (support_tie_labels, {"sparsity": 2}),
    "DPGaussianMixture": (clusters, {}),
    "DPMixtureOfRegressions": (regression, {}),
    "DPMissingCovariateRegression": (regression, {}),
}
PUBLIC = ("mean_", "coef_", "intercept_", "means_", "weights_", "variances_", "covariances_")


def outputs(estimator) -> np.ndarray:
    parts = [np.ravel(getattr(estimator, name)) for name in PUBLIC if getattr(estimator, name, None) is not None]
    return np.concatenate(parts).astype(float)


def attack(job: tuple[str, str, float, int, float]) -> dict:
    name, method, epsilon, runs, factor = job
    build, options = CASES[name]
    data, neighbour = build(np.random.default_rng(7))

    def run(dataset, seed):
        estimator = getattr(fattail, name)(epsilon=epsilon, delta=DELTA, method=method, random_state=seed, **options)
        return outputs(estimator.fit(*dataset))

    start = time.perf_counter()
    with warnings.catch_warnings(), audit.weakened(factor):
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        bound = audit.attack(run, data, neighbour, runs=runs, delta=DELTA)
    return {
        "estimator": name,
        "method": method,
        "epsilon": epsilon,
        "delta": DELTA,
        "noise_factor": factor,
        "runs": runs,
        "lower_bound": round(bound.epsilon, 4),
        "lower_bound_gaussian": round(bound.gaussian_epsilon, 4),
        "within_claim": bound.epsilon <= epsilon,
        "seconds": round(time.perf_counter() - start, 1),
    }


def plot(rows: list[dict]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 5))
    for marker, factor, label in (("o", 1.0, "as shipped"), ("x", 0.5, "mutants with half the noise")):
        chosen = [r for r in rows if r["noise_factor"] == factor]
        jitter = np.random.default_rng(0).uniform(0.93, 1.07, len(chosen))
        axis.scatter(
            [r["epsilon"] * j for r, j in zip(chosen, jitter, strict=True)],
            [r["lower_bound"] for r in chosen],
            marker=marker,
            label=label,
            alpha=0.7,
        )
    line = np.geomspace(0.3, 6.0)
    axis.plot(line, line, "k--", label="claim")
    axis.set(
        xscale="log",
        xlabel="nominal epsilon",
        ylabel="lower bound (95 %)",
        title="Attacks on every method: the best bound found against the claim",
    )
    axis.legend()
    figure.savefig(HERE.parent / "docs" / "audit.png", dpi=150, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="epsilon = 1 only, few runs")
    parser.add_argument("--runs", type=int, help="fits per dataset; 1000 by default, 200 with --quick")
    options = parser.parse_args()
    quick = options.quick
    runs = options.runs or (200 if quick else 1000)
    methods = sorted({(e, m.name) for m in fattail.registry() for e in m.estimators if e in CASES})
    jobs = [(e, m, eps, runs, 1.0) for e, m in methods for eps in ((1.0,) if quick else EPSILONS)]
    jobs += [] if quick else [(e, m, 4.0, runs, 0.5) for e, m in methods]
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for k, row in enumerate(pool.map(attack, jobs)):
            rows.append(row)
            print(f"{k + 1}/{len(jobs)}", *row.values(), flush=True)
    if not quick:
        with RESULTS.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        plot(rows)
    broken = [r for r in rows if r["noise_factor"] == 1.0 and not r["within_claim"]]
    raise SystemExit(f"claims refuted: {broken}" if broken else 0)


if __name__ == "__main__":
    main()
