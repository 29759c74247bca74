"""Persons with several rows: what it costs to protect all of them.

    python benchmarks/persons.py [--trials 200] [--parts means rows relation randhie]

Writes benchmarks/results/persons.csv (means), persons_rows.csv (error by rows per person), persons_relation.csv
(add-remove against replace-one) and persons_randhie.csv. Real data are read from the folder that FATTAIL_DATA names.

Means. A person has an effect of their own and rows that scatter around it, both heavy-tailed; the truth is the mean of effects.
Row counts are all 10, or Zipf(1.6) up to 1,000. Competitors keep at most k rows of each person, k tuned on the truth:
  k rows, auto   the default mean of the kept rows at epsilon / k, as a person has k of them (delta / (k exp(epsilon)));
  k rows, clip   the mean of the kept rows clipped to [-B, B], B a power of the root of two, tuned on the truth as k is, with
                 Laplace noise for k rows: what a library does whose user knows the best bound;
  k rows, told   the same with quantiles of the law as ends, up to 5 % cut per side. It knows where the law lies: around a
                 symmetric one the clip is centered at the very mean that is to be estimated, so the narrower the better, and
                 it beats the mean that is not private. It is reported, and is no reference. (Nor are two free ends that are
                 tuned on the truth: a narrow clip whose two biases cancel has no error at all.)
randhie. log(1 + medical dollars) on 14 columns; 20,190 rows of 5,912 persons (`zper`), resampled by persons. The truth is the
least-squares fit of all persons, each counted once. The fit that is not private is least squares with weights 1 / rows and
cluster-robust intervals.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fattail import DPLinearRegression, DPMean
from pictures import persons_rows
from result_files import write_csv

RESULTS = Path(__file__).parent / "results"
Floats = NDArray[np.float64]
Tables = list[tuple[Floats, NDArray[np.int64]]]
PERSONS, DELTA = 5_000, 1e-6
LAWS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "t(2.5)": lambda rng, n: 20 + rng.standard_t(2.5, n),
    "Pareto(2.2)": lambda rng, n: 1 + rng.pareto(2.2, n),
    "log-normal(1)": lambda rng, n: rng.lognormal(0.0, 1.0, n),
}
TRUTH = {"t(2.5)": 20.0, "Pareto(2.2)": 2.2 / 1.2, "log-normal(1)": float(np.exp(0.5))}
CAPS = (1, 2, 3, 5, 10)
BOUNDS = (2.0 ** (np.arange(0, 25) / 2)).tolist()


def sizes(kind: str, rng: np.random.Generator, persons: int) -> NDArray[np.int64]:
    return np.full(persons, int(kind)) if kind.isdigit() else np.minimum(rng.zipf(1.6, persons), 1000)


def people(law: str, kind: str, seed: int, persons: int = PERSONS) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Effects of the law, rows and whose they are: an effect plus t(3) scatter of the same size."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(persons), sizes(kind, rng, persons))
    effects = LAWS[law](rng, persons)
    return effects, effects[ids] + rng.standard_t(3, len(ids)), ids


def table(law: str, kind: str, seed: int, persons: int = PERSONS) -> tuple[Floats, NDArray[np.int64]]:
    """Rows and whose they are."""
    return people(law, kind, seed, persons)[1:]


def kept(ids: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """The first k rows of each person."""
    first = np.concatenate(([0], np.flatnonzero(np.diff(ids)) + 1))
    return np.arange(len(ids)) - np.repeat(first, np.diff(np.append(first, len(ids)))) < k


_FIRST: dict[tuple[int, int, int], Floats] = {}


def first_rows(seed: int, k: int, x: Floats, ids: NDArray[np.int64]) -> Floats:
    """The first k rows of each person, cut once for all ends."""
    key = (seed, k, id(x))
    if key not in _FIRST:
        _FIRST[key] = x[kept(ids, k)]
    return _FIRST[key]


def rmse(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def clipped_errors(tables: Tables, truth: float, epsilon: float, k: int, low: float, high: float) -> float:
    errors = []
    for seed, (x, ids) in enumerate(tables):
        rows = first_rows(seed, k, x, ids)
        noise = np.random.default_rng(10**6 + seed).laplace(scale=(high - low) * k / (epsilon * len(rows)))
        errors.append(np.clip(rows, low, high).mean() + noise - truth)
    return rmse(errors)


def means(trials: int, epsilon: float = 1.0) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for law in LAWS:
        for kind in ("10", "zipf"):
            tables, truth = [table(law, kind, seed) for seed in range(trials)], TRUTH[law]
            _FIRST.clear()
            numbered = list(enumerate(tables))
            fits = [DPMean(epsilon=epsilon, delta=DELTA, random_state=s).fit(x[:, None], person=i) for s, (x, i) in numbered]
            ours = rmse([float(fit.mean_[0]) - truth for fit in fits])
            covered = float(np.mean([fit.interval_[0, 0] <= truth <= fit.interval_[0, 1] for fit in fits]))
            many = table(law, "1", 77, 10**6)[0]
            ends = [(float(np.quantile(many, q)), float(np.quantile(many, 1 - q))) for q in np.geomspace(1e-5, 0.05, 16)]
            told = min(clipped_errors(tables, truth, epsilon, k, *e) for k in CAPS for e in ends)
            clips = {(k, b): clipped_errors(tables, truth, epsilon, k, -b, b) for k in CAPS for b in BOUNDS}
            autos = {}
            for k in (1, 2, 5):
                budget = {"epsilon": epsilon / k, "delta": DELTA / (k * np.exp(epsilon))}
                few = [DPMean(random_state=s, **budget).fit(x[kept(i, k)][:, None]).mean_[0] for s, (x, i) in numbered]
                autos[k] = rmse([float(m) - truth for m in few])
            plain = rmse([float(np.mean(np.bincount(i, x) / np.bincount(i))) - truth for x, i in tables])
            best_k, best = min(clips, key=clips.__getitem__)[0], min(clips.values())
            found.append(
                {
                    "law": law, "rows per person": kind, "persons": PERSONS, "epsilon": epsilon, "trials": trials, "ours": ours,
                    "coverage": covered, "not private": plain, "k rows, clip": best, "k of clip": best_k,
                    "B of clip": min(clips, key=clips.__getitem__)[1], "k rows, told": told,
                    "k rows, auto": min(autos.values()), "k of auto": min(autos, key=autos.__getitem__),
                    "ratio to clip": ours / best, "ratio to told": ours / told, "ratio to auto": ours / min(autos.values()),
                }
            )  # fmt: skip
            print(found[-1], flush=True)
    return found


def by_rows(trials: int, epsilon: float = 1.0) -> list[dict[str, object]]:
    """Rows scatter around a person's effect about four times as much as in the means above."""
    found = []
    for rows in (1, 3, 10, 30, 100):
        ours, plain, spread = [], [], []
        for seed in range(trials):
            effects, x, ids = people("t(2.5)", str(rows), seed, 2_000)
            x = x - 20 + 4 * np.random.default_rng(seed + 999).standard_t(3, len(ids))
            ours.append(float(DPMean(epsilon=epsilon, delta=DELTA, random_state=seed).fit(x[:, None], person=ids).mean_[0]))
            plain.append(float(np.mean(np.bincount(ids, x) / rows)))
            spread.append(float(effects.mean()) - 20)
        found.append(
            {"rows": rows, "ours": rmse(ours), "not private": rmse(plain), "effects themselves": rmse(spread), "trials": trials}
        )
        print(found[-1], flush=True)
    return found


def relation(trials: int) -> list[dict[str, object]]:
    found = []
    for law in LAWS:
        for n in (1_000, 10_000):
            errors: dict[str, list[float]] = {"replace-one": [], "add-remove": []}
            for seed in range(trials):
                x = LAWS[law](np.random.default_rng(seed + 5000), n)[:, None]
                for name, own in errors.items():
                    fit = DPMean(epsilon=1.0, delta=DELTA, relation=name, random_state=seed).fit(x)
                    own.append(float(fit.mean_[0]) - TRUTH[law])
            ratio = rmse(errors["add-remove"]) / rmse(errors["replace-one"])
            found.append({"estimator": "DPMean", "law": law, "n": n, "epsilon": 1.0, "trials": trials, "ratio": ratio})
            print(found[-1], flush=True)
    for n in (3_000, 20_000):
        errors = {"replace-one": [], "add-remove": []}
        for seed in range(trials):
            rng = np.random.default_rng(seed)
            X = rng.standard_t(4, (n, 5))
            y = X @ np.arange(1.0, 6.0) + rng.standard_t(3, n)
            for name, own in errors.items():
                coef = DPLinearRegression(epsilon=1.0, delta=DELTA, relation=name, random_state=seed).fit(X, y).coef_
                own.append(float(np.linalg.norm(coef - np.arange(1.0, 6.0))))
        ratio = rmse(errors["add-remove"]) / rmse(errors["replace-one"])
        found.append(
            {"estimator": "DPLinearRegression", "law": "t(4), t(3)", "n": n, "epsilon": 1.0, "trials": trials, "ratio": ratio}
        )
        print(found[-1], flush=True)
    return found


COLUMNS = ("logc", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp", "linc", "lfam", "xage", "female", "child")


def weighted(X: Floats, y: Floats, ids: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Least squares in which each person counts once, and cluster-robust standard errors."""
    Z, weight = np.column_stack([X, np.ones(len(X))]), 1.0 / np.bincount(ids)[ids]
    bread = np.linalg.inv((Z * weight[:, None]).T @ Z)
    w = bread @ (Z * weight[:, None]).T @ y
    scores = np.zeros((ids.max() + 1, Z.shape[1]))
    np.add.at(scores, ids, Z * (weight * (y - Z @ w))[:, None])
    return w, np.sqrt(np.diag(bread @ scores.T @ scores @ bread))


def randhie(trials: int) -> list[dict[str, object]]:
    import pandas as pd

    path = Path(os.environ.get("FATTAIL_DATA", "data")) / "randhie.csv.gz"
    if not path.is_file():
        print("randhie not found: set FATTAIL_DATA")
        return []
    rows = pd.read_csv(path)
    X, y = rows[list(COLUMNS)].to_numpy(float), np.log1p(rows["meddol"].to_numpy(float))
    ids = np.unique(rows["zper"], return_inverse=True)[1]
    truth, _ = weighted(X, y, ids)
    weight = 1.0 / np.bincount(ids)[ids]
    middle = float(weight @ y / weight.sum())

    def r2(coef: Floats, intercept: float) -> float:
        return 1 - float(weight @ (y - X @ coef - intercept) ** 2 / (weight @ (y - middle) ** 2))

    starts = np.split(np.argsort(ids, kind="stable"), np.cumsum(np.bincount(ids))[:-1])
    seen: dict[str, list[tuple[float, Floats, Floats]]] = {"rows": [], "persons": [], "cluster-robust, not private": []}
    for seed in range(trials):
        drawn = np.random.default_rng(seed).integers(0, len(starts), len(starts))
        take = np.concatenate([starts[k] for k in drawn])
        who = np.repeat(np.arange(len(drawn)), [len(starts[k]) for k in drawn])
        w, error = weighted(X[take], y[take], who)
        for name, person in (("rows", None), ("persons", who)):
            fit = DPLinearRegression(epsilon=1.0, delta=DELTA, random_state=seed).fit(X[take], y[take], person=person)
            inside = (fit.interval_[:, 0] <= truth[:-1]) & (truth[:-1] <= fit.interval_[:, 1])
            width = np.diff(fit.interval_, axis=1)[:, 0] / (2 * 1.96 * error[:-1])
            seen[name].append((r2(fit.coef_, fit.intercept_), inside.astype(float), width))
        inside = np.abs(w - truth)[:-1] <= 1.96 * error[:-1]
        seen["cluster-robust, not private"].append((r2(w[:-1], w[-1]), inside.astype(float), np.ones(len(inside))))
    found: list[dict[str, object]] = [
        {
            "fit": name, "epsilon": 1.0, "trials": trials, "R2": float(np.mean([r for r, _, _ in own])),
            "coverage": float(np.mean([c for _, c, _ in own])), "R2 of the truth": r2(truth[:-1], truth[-1]),
            "width over cluster-robust": float(np.median([v for _, _, v in own])),
        }
        for name, own in seen.items()
    ]  # fmt: skip
    print(*found, sep="\n", flush=True)
    return found


def write(name: str, lines: list[dict[str, object]]) -> None:
    write_csv(RESULTS / name, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in options.parts:
        name, run = PARTS[part]
        write(name, run(options.trials))
        if part == "rows":
            persons_rows()


PARTS: dict[str, tuple[str, Callable[[int], list[dict[str, object]]]]] = {
    "randhie": ("persons_randhie.csv", randhie),
    "relation": ("persons_relation.csv", relation),
    "rows": ("persons_rows.csv", by_rows),
    "means": ("persons.csv", means),
}


if __name__ == "__main__":
    main()
