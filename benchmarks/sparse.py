"""Error of private sparse models.

    python benchmarks/sparse.py [--trials 10] [--only linear,logistic,text,speed] [--methods "auto;oracle"]

Writes benchmarks/results/sparse_{linear,logistic,text,speed}.csv and sparse.md. With --methods only these are
run again, and the others keep the rows that they have: their trials are the first of the same draws.

linear    n = 4000, d in {50, 1000, 5000}, s* in {5, 20, 50}: uniform features, coefficients drawn from
          a standard normal law at random places, Student-t(1.75) noise. Relative l2 error and F1 of
          the support. All methods are told s*; "auto, sparsity unknown" is not. Nothing else is told.
logistic  the same features and coefficients, labels from the logistic law.
text      reuters21578 (`corporate`, ModApte split) and news20 (comp.* against the rest, by date): error on
          the test set. Rows are log counts scaled to unit length, so no row sees another. The files
          are read from the folder that FATTAIL_DATA names, and left out where it is missing.
speed     CSR 20,000 x 47,000 with 0.2 % entries, s = 500, secure noise, against scikit-learn's
          SGDClassifier run to convergence, in one process; and peak memory.
References that are not private: Huber or logistic regression on the true support ("oracle"), IGHT,
adaptive Huber regression. "zero" predicts with no coefficients. delta = 1e-5 throughout.
Constants of "auto" were tuned on Gaussian features with t(2.5) noise and other seeds.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import tracemalloc
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier

from fattail import DPSparseClassifier, DPSparseRegressor, registry
from fattail.baselines import IGHT, AdaHuber
from fattail.privacy.calibration import gaussian_multiplier
from result_files import write_csv

N, DELTA = 4000, 1e-5
EPSILONS = (0.5, 1.0, 2.0, 4.0)
SHAPES = [(d, s) for d in (50, 1000, 5000) for s in (5, 20, 50)]
RESULTS = Path(__file__).parent / "results"
METHODS = {
    cls: tuple(sorted({m.name for m in registry() if cls.__name__ in m.estimators}, key=lambda name: (name != "auto", name)))
    for cls in (DPSparseRegressor, DPSparseClassifier)
}
NOT_PRIVATE = ("oracle", "IGHT", "adaHuber", "zero")
Row = dict[str, Any]


def draw(kind: str, d: int, s: int, trial: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([2024, d, s, trial])
    X = (2 * rng.random((N, d), dtype=np.float32) - 1).astype(np.float32)
    beta = np.zeros(d)
    beta[rng.choice(d, s, replace=False)] = rng.normal(size=s)
    z = X @ beta
    if kind == "linear":
        return X, z + rng.standard_t(1.75, N), beta
    return X, (rng.random(N) < 1 / (1 + np.exp(-z))).astype(float), beta


def reference(name: str, kind: str, X: np.ndarray, y: np.ndarray, beta: np.ndarray) -> np.ndarray:
    s, support, coef = np.count_nonzero(beta), np.flatnonzero(beta), np.zeros_like(beta)
    if name == "oracle" and kind == "linear":
        coef[support] = AdaHuber(sparsity=s, penalty=0.0).fit(X[:, support], y).coef_
    elif name == "oracle":
        coef[support] = LogisticRegression(C=1e6, max_iter=500).fit(X[:, support], y).coef_[0]
    elif name == "adaHuber":
        coef = AdaHuber(sparsity=s, n_iter=60).fit(X, y).coef_
    elif name == "IGHT":
        coef = IGHT(sparsity=s, loss="squared" if kind == "linear" else "logistic", n_iter=30).fit(X, y).coef_
    return coef


def simulate(kind: str, trials: int, methods: tuple[str, ...]) -> list[Row]:
    cls = DPSparseRegressor if kind == "linear" else DPSparseClassifier
    known = (*METHODS[cls], "auto, sparsity unknown", *NOT_PRIVATE)
    chosen = [m for m in known if (m in methods or not methods) and (m != "adaHuber" or kind == "linear")]
    rows = [row for row in read(kind) if row["method"] not in chosen]
    for d, s in SHAPES:
        start = time.time()
        for trial in range(trials):
            X, y, beta = draw(kind, d, s, trial)
            for method in chosen:
                for epsilon in (np.inf,) if method in NOT_PRIVATE else EPSILONS:
                    if method in NOT_PRIVATE:
                        coef = reference(method, kind, X, y, beta)
                    else:
                        told = not method.endswith("unknown")
                        options = {"method": method if told else "auto", "sparsity": s if told else "auto"}
                        coef = np.ravel(cls(epsilon=epsilon, delta=DELTA, random_state=trial, **options).fit(X, y).coef_)
                    hits = np.count_nonzero((coef != 0) & (beta != 0))
                    rows.append(
                        {
                            "d": d,
                            "s": s,
                            "trial": trial,
                            "epsilon": epsilon,
                            "method": method,
                            "error": np.linalg.norm(coef - beta) / np.linalg.norm(beta),
                            "f1": 2 * hits / (np.count_nonzero(coef) + s),
                        }
                    )
        write(kind, rows)  # so that an interrupted run leaves what it has measured
        print(f"{kind} d={d} s={s}: {time.time() - start:.0f} s", flush=True)
    return rows


def texts() -> Iterator[tuple[str, Any, np.ndarray, Any, np.ndarray]]:
    folder = Path(os.environ.get("FATTAIL_DATA", "data"))
    for name in ("reuters21578", "news20"):
        if not (folder / f"{name}.npz").exists():
            print(f"{name}: not found in {folder}, left out")
            continue
        z = np.load(folder / f"{name}.npz")
        X = sparse.csr_matrix((z["data"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        X.data = 1 + np.log(X.data)
        X = sparse.csr_matrix(sparse.diags(1 / np.maximum(sparse.linalg.norm(X, axis=1), 1e-12)) @ X)
        X.sort_indices()
        if name == "news20":
            computers = np.array([str(t).startswith("comp.") for t in z["target_names"]])
            y, split = computers[z["target"]].astype(float), z["split"]
        else:
            y, split = z["corporate"].astype(float), z["modapte"]
        yield name, X[split == 0], y[split == 0], X[split == 1], y[split == 1]


def text_references(name: str, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> list[Row]:
    full = LogisticRegression(C=30, max_iter=1000).fit(X, y)
    ight = IGHT(sparsity=500, loss="logistic").fit(X, y)
    errors = {
        "zero": min(y_test.mean(), 1 - y_test.mean()),
        "all columns, not private": np.mean(full.predict(X_test) != y_test),
        "IGHT": np.mean((ight.predict(X_test) > 0) != y_test),
    }
    return [{"data": name, "trial": 0, "epsilon": np.inf, "method": method, "error": error} for method, error in errors.items()]


def classify(trials: int, methods: tuple[str, ...]) -> list[Row]:
    chosen = [m for m in (*METHODS[DPSparseClassifier], "auto, sparsity unknown") if m in methods or not methods]
    rows = [row for row in read("text") if row["method"] not in chosen and methods]
    for name, X, y, X_test, y_test in texts():
        if not methods:
            rows += text_references(name, X, y, X_test, y_test)
        for epsilon in (*EPSILONS, 8.0):
            for method in chosen:
                known = not method.endswith("unknown")
                for trial in range(trials):
                    options = {"method": method if known else "auto", "sparsity": 500 if known else "auto"}
                    if method == "knowledge_transfer":  # half of the rows are public and without labels, as in the paper
                        options["public_features"] = X[1::2]
                        fitted = X[::2], y[::2]
                    else:
                        fitted = X, y
                    model = DPSparseClassifier(epsilon=epsilon, delta=DELTA, random_state=trial, **options).fit(*fitted)
                    error = np.mean(model.predict(X_test) != y_test)
                    rows.append({"data": name, "trial": trial, "epsilon": epsilon, "method": method, "error": error})
                    if method == "two_stage":
                        break  # dense blocks: minutes
            print(f"{name} epsilon={epsilon:g} done", flush=True)
    return rows


def race() -> list[Row]:
    """Time and peak memory on wide CSR rows."""
    rng = np.random.default_rng(0)
    n, d, per_row = 20_000, 47_000, 94
    popularity = 1 / np.arange(1, d + 1) ** 0.7
    columns = np.concatenate([np.sort(rng.choice(d, per_row, replace=False, p=popularity / popularity.sum())) for _ in range(n)])
    X = sparse.csr_matrix((rng.exponential(size=n * per_row), columns, np.arange(0, n * per_row + 1, per_row)), shape=(n, d))
    X = sparse.csr_matrix(sparse.diags(1 / sparse.linalg.norm(X, axis=1)) @ X)
    beta = np.zeros(d)
    beta[:500] = rng.normal(size=500) * 8
    y = (X @ beta + rng.logistic(size=n) > 0).astype(int)
    data = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    DPSparseClassifier(sparsity=500, random_state=0).fit(X[:200], y[:200])  # compile
    rows: list[Row] = []
    others = {"SGDClassifier": SGDClassifier(loss="log_loss", random_state=0), "auto": DPSparseClassifier(sparsity=500)}
    for name, model in others.items():
        times = []
        for _ in range(3):
            start = time.perf_counter()
            model.fit(X, y)
            times.append(time.perf_counter() - start)
        tracemalloc.start()
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append({"method": name, "seconds": min(times), "peak_over_data": peak / data, "error": 1 - model.score(X, y)})
    return rows


def write(name: str, rows: list[Row]) -> None:
    write_csv(RESULTS / f"sparse_{name}.csv", rows)


def read(name: str) -> list[Row]:
    path = RESULTS / f"sparse_{name}.csv"
    if not path.exists():
        return []
    with path.open() as file:
        return [{k: v if k in ("method", "data") else float(v) for k, v in row.items()} for row in csv.DictReader(file)]


def cells(rows: list[Row], keys: tuple[str, ...], value: str = "error") -> dict[tuple, dict[str, float]]:
    """Mean over trials, by cell and method; references count in every cell."""
    grouped: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        every = sorted({r["epsilon"] for r in rows if np.isfinite(r["epsilon"])})
        for epsilon in every if np.isinf(row["epsilon"]) else (row["epsilon"],):
            grouped[*(row[k] for k in keys), epsilon][row["method"]].append(row[value])
    return {cell: {m: float(np.mean(v)) for m, v in by.items()} for cell, by in sorted(grouped.items())}


def table(rows: list[Row], keys: tuple[str, ...]) -> list[str]:
    by_cell = cells(rows, keys)
    methods = list(dict.fromkeys(r["method"] for r in rows))
    methods.sort(key=lambda m: (not m.startswith("auto"), np.isinf(next(r["epsilon"] for r in rows if r["method"] == m))))
    head = [*keys, "epsilon", *methods]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for cell, by in by_cell.items():
        best = min(
            v for m, v in by.items() if m in methods and not np.isnan(v) and m not in (*NOT_PRIVATE, "all columns, not private")
        )
        marks = [f"**{by[m]:.3f}**" if by.get(m, np.nan) == best else f"{by.get(m, np.nan):.3f}" for m in methods]
        lines.append("| " + " | ".join([str(k) if isinstance(k, str) else f"{k:g}" for k in cell] + marks) + " |")
    return lines


def trials(rows: list[Row]) -> str:
    """How often each was drawn."""
    count = {(r["d"], r["s"], r["method"]): 0 for r in rows}
    for key in {(r["d"], r["s"], r["method"], r["trial"]) for r in rows}:
        count[key[:3]] += 1
    most = max(count.values())
    few = [f"{v:g} at d = {d:g}, s = {s:g}" for (d, s, m), v in sorted(count.items()) if m == "auto" and v < most]
    others = {v for (_, _, m), v in count.items() if m not in ("auto", "auto, sparsity unknown", "oracle", "zero")}
    text = f"Means of {most} trials" + (f" ({'; '.join(few)})" if few else "")
    return text + (
        "." if others == {most} else f"; of the first {min(others)} for methods other than `auto`, the oracle and zero."
    )


def paired(rows: list[Row]) -> dict[tuple, dict[str, tuple[float, float]]]:
    """By cell and method: its mean error and that of auto on the same trials."""
    errors = {
        (r["d"], r["s"], epsilon, r["method"], r["trial"]): r["error"]
        for r in rows
        for epsilon in (EPSILONS if np.isinf(r["epsilon"]) else (r["epsilon"],))
    }
    grouped: dict[tuple, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for (*cell, method, trial), error in errors.items():
        if (*cell, "auto", trial) in errors:
            grouped[tuple(cell)][method].append((error, errors[*cell, "auto", trial]))
    return {cell: {m: tuple(np.mean(v, axis=0)) for m, v in by.items()} for cell, by in sorted(grouped.items())}


def one_shot(kind: str, s: int, epsilon: float) -> float:
    """Noise of one release on the true support with all of the budget, relative to the luck of the rows.

    The start is the truth, the clip the best of many, the curvature known: what is left of a
    method by clipped gradients when all else costs nothing.
    """
    rng = np.random.default_rng([s, 1])
    X = 2 * rng.random((50_000, s)) - 1
    z = X @ rng.normal(size=s)
    length = np.linalg.norm(X, axis=1)
    multiplier, best = gaussian_multiplier(epsilon, DELTA), []
    for quantile in np.linspace(0.02, 0.98, 25):
        if kind == "linear":
            r = rng.standard_t(1.75, len(X))
            clip = np.quantile(np.abs(r) * length, quantile)
            r = r * np.minimum(1, clip / (np.abs(r) * length))
            second = np.abs(r) * length < clip * (1 - 1e-9)
        else:
            p = 1 / (1 + np.exp(-z))
            size = np.maximum(p, 1 - p) * length
            clip = np.quantile(size, quantile)
            weight = np.minimum(1, clip / size)
            r, second = weight * ((rng.random(len(X)) < p) - p), weight * p * (1 - p)
        bend = np.mean(second * length**2) / s
        rows = np.mean(r**2 * length**2) / s / N
        best.append((np.sqrt(rows + (2 * clip * multiplier / N) ** 2) / bend, np.sqrt(rows) / bend))
    return float(min(total for total, _ in best) / min(alone for _, alone in best))


def selection(d: int, s: int, spread: float) -> float:
    """What not knowing the support costs the best estimator there is, as a multiple of knowing it.

    Every coefficient is seen with normal error ``spread``; the posterior mean under the law that
    drew the coefficients minimizes the squared error.
    """
    rng = np.random.default_rng([d, s, 2])
    ratios = []
    for _ in range(400):
        beta = np.zeros(d)
        beta[:s] = rng.normal(size=s)
        seen = beta + spread * rng.normal(size=d)
        odds = np.log(s / d) - np.log1p(-min(s / d, 1 - 1e-12)) - 0.5 * np.log1p(spread**-2)
        odds = odds + seen**2 / (2 * spread**2 * (1 + spread**2))
        mean = seen / (1 + spread**2) / (1 + np.exp(-np.clip(odds, -700, 700)))
        ratios.append((np.linalg.norm(mean - beta), np.linalg.norm((seen - beta)[:s])) / np.linalg.norm(beta))
    return float(np.divide(*np.mean(ratios, axis=0)))


def floors(kind: str, rows: list[Row]) -> list[str]:
    """Near the oracle where there is room: what is measured and what is possible, in multiples of the oracle's error."""
    lines = [
        "Multiples of the oracle's error where n epsilon / (s log d) > 100. *True support*: one release with the whole budget,",
        "ideal clip, known curvature. *No privacy*: the best estimator that does not know the support, told the law of the",
        "coefficients. *Floor*: both at once, without the cost of a private choice of columns. The last three are means over",
        "all draws, which few trials scatter around.",
        "",
        "| d | s | epsilon | auto | true support | no privacy | floor |",
        "|---|---|---|---|---|---|---|",
    ]
    for (d, s, epsilon), by in paired(rows).items():
        if N * epsilon / (s * np.log(d)) > 100:
            d, s = int(d), int(s)
            oracle = {int(r["trial"]): r["error"] for r in rows if (r["d"], r["s"], r["method"]) == (d, s, "oracle")}
            draws = [(draw(kind, d, s, t)[2], t) for t in sorted(oracle)[:5]]
            spread = np.sqrt(np.mean([(oracle[t] * np.linalg.norm(beta)) ** 2 for beta, t in draws]) / s)
            noise = one_shot(kind, s, epsilon)
            row = (by["oracle"][1] / by["oracle"][0], noise, selection(d, s, spread), noise * selection(d, s, noise * spread))
            lines.append(f"| {d} | {s} | {epsilon:g} | " + " | ".join(f"{v:.2f}" for v in row) + " |")
    return lines


def verdict(rows: list[Row]) -> list[str]:
    """The two goals: best private method, and near the oracle where there is room."""
    pairs = paired(rows)
    private = [{m: v for m, v in by.items() if m not in (*NOT_PRIVATE, "auto, sparsity unknown")} for by in pairs.values()]
    counted = [by for by in private if min(v for v, _ in by.values()) < 0.8]
    met = sum(all(auto <= 1.05 * other for other, auto in by.values()) for by in counted)
    wanted = [by["oracle"] for (d, s, e), by in pairs.items() if N * e / (s * np.log(d)) > 100]
    near = sum(auto <= 1.5 * oracle for oracle, auto in wanted)
    return [
        f"`auto` is best or within 5 % of best in {met} of {len(counted)} cells where a private method beats the zero vector by",
        f"20 %, and within 1.5 times the oracle in {near} of {len(wanted)} cells with",
        "n epsilon / (s log d) > 100; each comparison is on the trials that both have.",
    ]


def report() -> None:
    lines = [
        "# Sparse models",
        "",
        "Written by `benchmarks/sparse.py`, which says what is measured; delta = 1e-5. Bold: best private method.",
    ]
    for kind, title in (("linear", "Linear regression: relative error"), ("logistic", "Logistic regression: relative error")):
        rows = read(kind)
        if rows:
            lines += [
                "",
                f"## {title}",
                "",
                f"n = {N}. {trials(rows)}",
                "",
                *verdict(rows),
                "",
                *floors(kind, rows),
                "",
                *table(rows, ("d", "s")),
            ]
            f1 = cells(rows, ("d", "s"), "f1")
            lines += ["", "F1 of the support, `auto` / best other private method:", ""]
            lines += ["| d | s | " + " | ".join(f"epsilon {e:g}" for e in EPSILONS) + " |", "|---|---|" + "---|" * len(EPSILONS)]
            for d, s in sorted({(int(d), int(s)) for d, s, _ in f1}):
                row = [f1[d, s, e] for e in EPSILONS]
                other = [max(v for m, v in by.items() if m not in NOT_PRIVATE and not m.startswith("auto")) for by in row]
                lines.append(
                    f"| {d} | {s} | " + " | ".join(f"{by['auto']:.2f} / {o:.2f}" for by, o in zip(row, other, strict=True)) + " |"
                )
    if rows := read("text"):
        lines += ["", "## Texts: test error, s = 500", "", *table(rows, ("data",))]
    if rows := read("speed"):
        lines += [
            "",
            "## Speed: CSR 20,000 x 47,000, s = 500, secure noise",
            "",
            "| method | seconds | peak memory / data | training error |",
        ]
        lines += ["|---|---|---|---|"]
        lines += [f"| {r['method']} | {r['seconds']:.2f} | {r['peak_over_data']:.2f} | {r['error']:.3f} |" for r in rows]
    (RESULTS / "sparse.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--only", default="linear,logistic,text,speed")
    parser.add_argument("--methods", default="", help="separated by semicolons")
    options = parser.parse_args()
    methods = tuple(filter(None, options.methods.split(";")))
    warnings.simplefilter("ignore", ConvergenceWarning)
    work = {
        "linear": lambda: simulate("linear", options.trials, methods),
        "logistic": lambda: simulate("logistic", options.trials, methods),
        "text": lambda: classify(min(options.trials, 3), methods),
        "speed": race,
    }
    for name in options.only.split(","):
        write(name, work[name]())
    report()


if __name__ == "__main__":
    main()
