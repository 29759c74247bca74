"""Logistic regression with rare labels, told nothing: what of the possible gain in log-loss is kept.

    python benchmarks/rare_labels.py [--seeds 5] [--epsilons 0.5,1,2] [--only name,name] [--write]

Synthetic tables have ten columns in units of their own, normal, t(4) and log-normal; the intercept sets the share of
positives: 1 %, .2 % and others; two are separable. Real tables are split by seed, four fifths to fit. *Kept* is the gain in
held-out log-loss over the constant prediction, relative to the gain of logistic regression that is not private. *Coverage* is the
share of slopes (of real tables: of slopes of the fit that is not private) in their 95 % intervals.
Writes benchmarks/results/rare_labels.csv and rare_labels.md. Data are read from the folder that FATTAIL_DATA names.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fattail import DPLogisticRegression, UtilityWarning
from real_tables import DELTA, PENSION, RANDHIE, RESULTS, frame
from result_files import write_csv

HEADER = ("table", "n", "d", "positives", "epsilon", "seeds", "kept", "kept worst", "AUC", "AUC not private", "coverage", "width")
SYNTHETIC = {
    "1 %, n = 10,000": (10_000, 0.01, 1.0),
    "1 %, n = 50,000": (50_000, 0.01, 1.0),
    "0.2 %, n = 50,000": (50_000, 0.002, 1.0),
    "5 %, n = 10,000": (10_000, 0.05, 1.0),
    "half, n = 10,000": (10_000, 0.5, 1.0),
    "separable, n = 10,000": (10_000, 0.5, 1e6),
    "separable 0.07 %, n = 50,000": (50_000, 0.01, 1e6),
}
POLICY = ["Exposure", "VehPower", "VehAge", "DrivAge", "BonusMalus", "Density"]
PLACE = ["price", "bedrooms", "sqft_living", "sqft_lot", "view", "grade", "lat", "long"]
HOUSE = ["bedrooms", "bathrooms", "sqft_living", "floors", "view", "condition", "grade", "lat", "yr_built"]
# Name: file, label, columns (None: all other numeric ones)
REAL = {
    "fremtpl2 claim": ("fremtpl2", lambda t: t["ClaimNb"] > 0, POLICY),
    "house waterfront": ("kc_house", lambda t: t["waterfront"] > 0, PLACE),
    "randhie inpatient": ("randhie", lambda t: t["totadm"] > 0, RANDHIE),
    "pension p401": ("pension401k", lambda t: t["p401"] > 0, [c for c in PENSION if c != "e401"]),
    "house costly": ("kc_house", lambda t: t["price"] > 2e6, HOUSE),
}


def synthetic(name, seed):
    n, share, sharp = SYNTHETIC[name]
    rng = np.random.default_rng([seed, 77])
    n = 2 * n
    unit, center = 10.0 ** np.arange(-3, 7)[:10], np.arange(10) * 10.0 ** np.arange(-3, 7)[:10]
    Z = np.column_stack([rng.normal(size=(n, 4)), rng.standard_t(4, (n, 4)) / np.sqrt(2), rng.lognormal(size=(n, 2)) / 2.16])
    slopes = np.array([1.0, -0.7, 0.4, 0.0, 0.6, -0.4, 0.2, 0.0, 0.3, 0.0])
    z = Z @ slopes
    low, high = -30.0, 30.0
    for _ in range(60):  # the intercept that makes so many positives
        level = (low + high) / 2
        low, high = (level, high) if expit(z + level).mean() < share else (low, level)
    y = (rng.random(n) < expit(sharp * (z + level))).astype(int)
    X = center + unit * Z
    return X[: n // 2], y[: n // 2], X[n // 2 :], y[n // 2 :], slopes / unit if sharp == 1.0 else None


def real(name, seed):
    file, label, columns = REAL[name]
    t = frame(file)
    if name == "fremtpl2 claim":
        t = t.sample(50_000, random_state=0)
    t = t[list(dict.fromkeys([*columns, *[c for c in ("ClaimNb", "waterfront", "totadm", "p401", "price") if c in t]]))].dropna()
    X, y = t[columns].to_numpy(float), label(t).to_numpy(int)
    order, cut = np.random.default_rng(seed).permutation(len(y)), 4 * len(y) // 5
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]], None


def log_loss(z, y):
    return float(np.mean(np.logaddexp(0.0, z) - y * z))


def run(name, epsilon, seeds):
    kept, auc, best_auc, covered, width = [], [], [], [], []
    n = d = 0
    positives = 0.0
    for seed in range(seeds):
        X, y, X_test, y_test, truth = (synthetic if name in SYNTHETIC else real)(name, seed)
        (n, d), positives = X.shape, y.mean()
        center, scale = X.mean(axis=0), X.std(axis=0)
        free = LogisticRegression(C=1e6, max_iter=2000).fit((X - center) / scale, y)
        best = free.decision_function((X_test - center) / scale)
        constant = np.full(len(y_test), np.log(y.mean() / (1 - y.mean())))
        model = DPLogisticRegression(epsilon=epsilon, delta=DELTA, random_state=seed).fit(X, y)
        z = model.decision_function(X_test)
        least = log_loss(best, y_test)
        kept.append((log_loss(constant, y_test) - log_loss(z, y_test)) / (log_loss(constant, y_test) - least))
        auc.append(roc_auc_score(y_test, z))
        best_auc.append(roc_auc_score(y_test, best))
        aim = free.coef_[0] / scale if truth is None else truth
        table = model.summary()
        covered.append(np.mean((table.low[:-1] <= aim) & (aim <= table.high[:-1])))
        width.append(np.median(table.standard_error[:-1] * scale))
    return dict(
        zip(
            HEADER,
            (name, n, d, float(positives), epsilon, seeds, float(np.median(kept)), min(kept), float(np.median(auc)),
             float(np.median(best_auc)), float(np.mean(covered)), float(np.median(width))),
            strict=True,
        )
    )  # fmt: skip


def line(r):
    return (
        f"| {r['table']} | {r['n']:,}, {r['d']} | {100 * r['positives']:.2g} % | {r['epsilon']:g} "
        f"| {r['kept']:.2f}, {r['kept worst']:.2f} "
        f"| {r['AUC']:.3f} / {r['AUC not private']:.3f} | {r['coverage']:.2f} | {r['width']:.3f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", default="0.5,1,2")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UtilityWarning)
    rows = []
    for name in options.only.split(";") if options.only else (*SYNTHETIC, *REAL):
        for epsilon in map(float, options.epsilons.split(",")):
            rows.append(run(name, epsilon, options.seeds))
            print(line(rows[-1]), flush=True)
    head = (
        "| table | n, d | positives | epsilon | gain kept: median, worst | AUC / not private | coverage "
        "| median standard error, in deviations |"
    )
    if options.write:
        write_csv(RESULTS / "rare_labels.csv", rows)
        (RESULTS / "rare_labels.md").write_text("\n".join([head, "|---" * 8 + "|", *map(line, rows)]) + "\n")


if __name__ == "__main__":
    main()
