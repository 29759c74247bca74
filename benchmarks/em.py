"""Latent-variable models: error of private gradient EM beside the clipped method and EM without noise.

Laws of dpem2020: beta of length one, signal to noise 3, delta = n^-1.1; a tenth of the covariates missing.
`auto` is told nothing, `smoothed` and `clipped` the noise level; `clipped` starts at random as in the paper, with
10 and with 20 steps, and also from the private start that `smoothed` uses. No seed or law here was used to tune.

    python benchmarks/em.py [--quick] [--stage epsilon size large clusters adult]

writes benchmarks/results/em_*.csv and em.md. Adult is read from the folder FATTAIL_DATA, if set.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

import fattail
from fattail.baselines import GradientEM
from result_files import write_csv

RESULTS = Path(__file__).parent / "results"
MODELS = {
    "gaussian_mixture": fattail.DPGaussianMixture,
    "mixture_of_regressions": fattail.DPMixtureOfRegressions,
    "missing_covariates": fattail.DPMissingCovariateRegression,
}
CLIPS = (0.1, 0.5, 1.0, 5.0, 10.0)
NOISE = 1 / 3
SEED = 20_000
SHAPES = [(5_000, 10), (20_000, 10), (10_000, 5), (10_000, 20), (10_000, 40)]
FEW = ("EM", "auto", "auto, general model", "smoothed")


def draw(model: str, n: int, d: int, rng: np.random.Generator):
    beta = rng.standard_normal(d)
    beta /= np.linalg.norm(beta)
    sign, X = rng.choice([-1.0, 1.0], n), rng.standard_normal((n, d))
    if model == "gaussian_mixture":
        return beta, (sign[:, None] * beta + NOISE * X,)
    if model == "mixture_of_regressions":
        return beta, (X, sign * (X @ beta) + NOISE * rng.standard_normal(n))
    y = X @ beta + NOISE * rng.standard_normal(n)
    X[rng.random(X.shape) < 0.1] = np.nan
    return beta, (X, y)


def distance(model: str, coef: np.ndarray, beta: np.ndarray) -> float:
    error = float(np.linalg.norm(coef - beta))
    return error if model == "missing_covariates" else min(error, float(np.linalg.norm(coef + beta)))


def competitors(model: str, epsilon: float, delta: float, seed: int, d: int, noise: float = NOISE, steps=(10, 20)):
    """Name and fit of every method; all draw from the same seed."""
    E = MODELS[model]
    start = np.random.default_rng(seed + 1).standard_normal(d)
    start /= np.linalg.norm(start)
    common = {"epsilon": epsilon, "delta": delta, "random_state": seed}
    yield "EM", GradientEM(model=model, noise_scale=noise, init=start)
    told_nothing = {"symmetric": True} if model == "gaussian_mixture" else {}
    yield "auto", E(**common, **told_nothing)
    if model == "gaussian_mixture":
        yield "auto, general model", E(**common)
    yield "smoothed", E(method="smoothed", noise_scale=noise, **common)
    yield (
        "smoothed, printed",
        E(method="smoothed", noise_scale=noise, init=start, split=True, moment_bound=noise**2, n_iter=10, **common),
    )
    for clip in CLIPS:
        for T in steps:
            yield f"clipped {clip:g}, T={T}", E(method="clipped", noise_scale=noise, init=start, clip=clip, n_iter=T, **common)
        yield f"clipped {clip:g}, private start", E(method="clipped", noise_scale=noise, clip=clip, n_iter=10, **common)


def cell(model: str, n: int, d: int, epsilon: float, trials: int, offset: int = 0, only=None, steps=(10, 20)) -> list[dict]:
    """Final errors and errors by iteration of all methods on the same draws."""
    final, paths = defaultdict(list), defaultdict(list)
    for k in range(trials):
        seed = SEED + offset + k
        beta, data = draw(model, n, d, np.random.default_rng(seed))
        for name, estimator in competitors(model, epsilon, n**-1.1, seed, d, steps=steps):
            if only is None or name in only:
                fitted = estimator.fit(*data)
                final[name].append(distance(model, fitted.coef_, beta))
                if hasattr(fitted, "path_"):
                    paths[name].append([distance(model, b, beta) for b in fitted.path_])
    where = {"model": model, "n": n, "d": d, "epsilon": epsilon, "trials": trials}
    return [
        {
            **where,
            "method": name,
            "error": float(np.mean(errors)),
            "worst": float(np.max(errors)),
            "path": np.mean(paths[name], axis=0).round(5).tolist() if name in paths else [],
        }
        for name, errors in final.items()
    ]


def clusters(trials: int, n: int = 100_000, K: int = 3, d: int = 5) -> list[dict]:
    """Distance of the worst center, for clusters 4 standard deviations apart with unequal weights."""
    rows = []
    for covariance_type in ("spherical", "diag"):
        for k in range(trials):
            rng = np.random.default_rng(SEED + k)
            while True:
                centers = rng.standard_normal((K, d))
                gaps = [np.linalg.norm(centers[a] - centers[b]) for a in range(K) for b in range(a)]
                if max(gaps) < 2.5 * min(gaps):
                    break
            centers *= 4.0 / min(gaps)
            X = centers[rng.choice(K, n, p=rng.dirichlet(np.full(K, 5.0)))] + rng.standard_normal((n, d))
            start = time.perf_counter()
            model = fattail.DPGaussianMixture(n_components=K, covariance_type=covariance_type, epsilon=1.0, random_state=k).fit(X)
            seconds = time.perf_counter() - start
            nearest = [min(np.linalg.norm(c - m) for m in model.means_) for c in centers]
            rows.append({"covariance_type": covariance_type, "run": k, "worst_center": max(nearest), "seconds": seconds})
    return rows


def adult(trials: int) -> list[dict]:
    """Adult as dpem2020 prepares it: as many rows of either income, moved to the midpoint of the two means."""
    folder = os.environ.get("FATTAIL_DATA")
    file = Path(folder or "") / "adult.csv.gz"
    if not folder or not file.exists():
        return []
    with gzip.open(file, "rt") as stream:
        table = list(csv.DictReader(stream))
    # Public units, about a standard deviation; the two zero-inflated columns and the sampling weight say little here.
    units = {"age": 13.0, "education_num": 2.5, "hours_per_week": 12.0}
    X = np.array([[float(row[name]) / unit for name, unit in units.items()] for row in table])
    rich = np.array([row["income"].startswith(">") for row in table])
    rows = []
    for epsilon in (0.2, 0.5, 1.0):
        paths = defaultdict(list)
        for k in range(trials):
            rng = np.random.default_rng(SEED + k)
            half = min(rich.sum(), (~rich).sum())
            parts = [X[rng.permutation(np.flatnonzero(rich == side))[:half]] for side in (True, False)]
            means = [part.mean(axis=0) for part in parts]
            beta = (means[0] - means[1]) / 2
            Y = rng.permutation(np.concatenate(parts) - (means[0] + means[1]) / 2)
            noise = max(np.sqrt(np.linalg.eigvalsh(np.cov(part.T))[-1]) for part in parts)
            for name, estimator in competitors("gaussian_mixture", epsilon, len(Y) ** -1.1, SEED + k, 3, noise):
                if name == "auto":  # told the noise level here, as the others are: it is not the residual variance
                    estimator.set_params(noise_scale=noise)
                if name != "auto, general model":
                    paths[name].append([distance("gaussian_mixture", b, beta) for b in estimator.fit(Y).path_])
        for name, found in paths.items():
            mean = np.mean(found, axis=0)
            rows.append(
                {
                    "epsilon": epsilon,
                    "method": name,
                    "error": mean[-1],
                    "path": mean.round(5).tolist(),
                    "size": np.linalg.norm(beta),
                }
            )
    return rows


def write(name: str, rows: list[dict]) -> None:
    write_csv(RESULTS / f"em_{name}.csv", rows, digits=None)


def read(name: str) -> list[dict]:
    """A stage's results as they were last measured."""
    file = RESULTS / f"em_{name}.csv"
    if not file.exists():
        return []
    with open(file, newline="") as stream:
        return [
            {**row, **{k: float(row[k]) for k in ("error", "worst_center", "size") if k in row}} for row in csv.DictReader(stream)
        ]


def table(rows: list[dict], keys: tuple[str, ...]) -> list[str]:
    """Errors by method; each clipped curve at its best number of steps and start, chosen in hindsight."""
    names = ("EM", "auto", "smoothed", "smoothed, printed", *(f"clipped {c:g}" for c in CLIPS))
    lines = ["| " + " | ".join((*keys, *names)) + " |", "|---" * (len(keys) + len(names)) + "|"]
    for where in dict.fromkeys(tuple(r[k] for k in keys) for r in rows):
        part = {r["method"]: r["error"] for r in rows if tuple(r[k] for k in keys) == where}
        clipped = {name: [e for m, e in part.items() if m.startswith(f"{name}, ")] for name in names if "clipped" in name}
        errors = [min(clipped[name]) if name in clipped else part[name] for name in names]
        lines.append("| " + " | ".join((*map(str, where), *(f"{e:.4f}" for e in errors))) + " |")
    return [*lines, ""]


def summary(by_epsilon: list[dict], by_size: list[dict], large: list[dict], found: list[dict], real: list[dict]) -> str:
    lines = ["# Latent-variable models", "", "Mean distance to beta (length 1, noise 1/3); each `clipped` at its best", ""]
    lines[2] += " number of steps and start, chosen in hindsight. Written by `benchmarks/em.py`."
    lines += ["## By epsilon", "", *table(by_epsilon, ("model", "n", "d", "epsilon"))]
    lines += ["## By dimension and rows, epsilon 1", "", *table(by_size, ("model", "n", "d"))]
    lines += [
        "## Against EM without noise, n = 100,000, d = 10, epsilon 1",
        "",
        "| model | EM | auto | ratio |",
        "|---|---|---|---|",
    ]
    for model in MODELS:
        part = {r["method"]: r["error"] for r in large if r["model"] == model}
        for name in (n for n in part if n.startswith("auto")):
            lines.append(f"| {model} ({name}) | {part['EM']:.5f} | {part[name]:.5f} | {part[name] / part['EM']:.2f} |")
    lines += ["", "## Three clusters, d = 5, n = 100,000, 4 standard deviations apart, epsilon 1", ""]
    for kind in ("spherical", "diag"):
        worst = np.array([r["worst_center"] for r in found if r["covariance_type"] == kind])
        lines.append(
            f"- {kind}: all centers within 0.2 in {sum(worst < 0.2)} of {len(worst)} runs, median {np.median(worst):.3f}"
        )
    if real:
        lines += ["", f"## Adult, two clusters by income, length of beta {real[0]['size']:.3f}", "", *table(real, ("epsilon",))]
    return "\n".join(lines) + "\n"


STAGES = {
    "epsilon": lambda trials: [row for m in MODELS for e in (0.2, 0.5, 1.0) for row in cell(m, 10_000, 10, e, trials)],
    "size": lambda trials: [
        row for m in MODELS for n, d in SHAPES for row in cell(m, n, d, 1.0, max(trials // 2, 2), offset=1000)
    ],
    "large": lambda trials: [
        row for m in MODELS for row in cell(m, 100_000, 10, 1.0, max(trials // 2, 2), offset=2000, only=FEW)
    ],
    "clusters": lambda trials: clusters(2 * trials),
    "adult": lambda trials: adult(max(trials // 2, 2)),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="two trials of everything")
    parser.add_argument("--stage", choices=STAGES, nargs="*", default=list(STAGES))
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for stage in options.stage:
        write(stage, STAGES[stage](2 if options.quick else 10))
    text = summary(*(read(stage) for stage in STAGES))
    (RESULTS / "em.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
