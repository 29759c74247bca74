"""What the constants of a method change: halve and double each, and compare the error.

    python benchmarks/tuning/vary.py GROUP [--trials 10]    # --help lists the groups

Each group is one frozen dataclass of constants. Errors are averaged over seeds and relative to the constants in use, so a
number below 1 is better than today's; a dash means that a fit refused the value. The laws are made up here and are not those of
the reports: normal, gamma and t(4) columns in mixed units, with normal and t(3) noise; 60 correlated columns; 100 columns of
which four matter.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse

import fattail
from docs.extend.poisson import DPPoisson
from fattail.algorithms.auto import canonical, clusters, em, least_squares, linear, short_rows, sparse_plan
from fattail.algorithms.auto import many_columns as directions
from fattail.algorithms.parts import em as loop
from fattail.algorithms.parts import em_units, joint_moments, label_scale, projection, subspace, support_fit, support_joint
from fattail.columns import units

BETA = np.array([0.3, -0.4, 0.2, 0.0])
UNIT = np.array([10.0, 1e4, 1.0, 0.01])


def columns(rng: np.random.Generator, n: int) -> np.ndarray:
    """Four columns of unit variance."""
    heavy = rng.standard_t(4, n) / 2**0.5
    return np.column_stack([rng.normal(size=n), rng.gamma(2, 0.5**0.5, n), heavy, rng.normal(size=n)])


def counts(seed: int, n: int) -> float:
    rng = np.random.default_rng([seed, n])
    Z = columns(rng, n)
    fit = DPPoisson(random_state=seed).fit(Z * UNIT, rng.poisson(np.exp(0.3 + Z @ BETA)).astype(float))
    return float(np.linalg.norm(fit.coef_ * UNIT - BETA))


def up_to_sign(coef: np.ndarray, truth: np.ndarray) -> float:
    return float(min(np.linalg.norm(coef - truth), np.linalg.norm(coef + truth)))


def two_clusters(seed: int, n: int) -> float:
    rng = np.random.default_rng([seed, n])
    X = rng.choice([-1.0, 1.0], (n, 1)) * [1.0, 1.0, 0.5, 0.0] + rng.normal(size=(n, 4))
    return up_to_sign(fattail.DPGaussianMixture(symmetric=True, random_state=seed).fit(X).coef_, np.array([1.0, 1.0, 0.5, 0.0]))


def many_clusters(seed: int, n: int) -> float:
    rng = np.random.default_rng([seed, n])
    means = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 0.0], [0.0, 6.0, 2.0]])
    X = means[rng.integers(0, 3, n)] + rng.normal(size=(n, 3))
    found = fattail.DPGaussianMixture(n_components=3, random_state=seed).fit(X).means_
    return float(np.linalg.norm(np.min(np.linalg.norm(found[None] - means[:, None], axis=2), axis=1)))


def regressions(seed: int, n: int) -> float:
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, 4))
    y = rng.choice([-1.0, 1.0], n) * (X @ (3 * BETA)) + 0.5 * rng.standard_t(4, n)
    return up_to_sign(fattail.DPMixtureOfRegressions(random_state=seed).fit(X, y).coef_, 3 * BETA)


def missing(seed: int, n: int) -> float:
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, 4))
    y = X @ BETA + 0.5 * rng.standard_t(4, n)
    X[rng.random(X.shape) < 0.1] = np.nan
    return float(np.linalg.norm(fattail.DPMissingCovariateRegression(random_state=seed).fit(X, y).coef_ - BETA))


def words(seed: int, n: int) -> float:
    rng = np.random.default_rng([seed, n])
    X = sparse.random_array((n, 400), density=0.02, rng=rng, format="csr", data_sampler=lambda size: np.ones(size))
    truth = np.where(np.arange(400) < 5, 3.0, 0.0)
    return float(
        np.linalg.norm(fattail.DPSparseRegressor(random_state=seed).fit(X, X @ truth + rng.normal(size=n)).coef_ - truth)
    )


def numbers(seed: int, n: int) -> float:
    rng = np.random.default_rng([seed, n])
    Z = columns(rng, n)
    fit = fattail.DPLinearRegression(random_state=seed).fit(Z * UNIT, Z @ BETA + 0.5 * rng.standard_t(3, n))
    return float(np.linalg.norm(fit.coef_ * UNIT - BETA))


def robust(seed: int, n: int) -> float:
    rng = np.random.default_rng([seed, n])
    Z = columns(rng, n)
    fit = fattail.DPHuberRegressor(random_state=seed).fit(Z * UNIT, Z @ BETA + 0.5 * rng.standard_t(2, n))
    return float(np.linalg.norm(fit.coef_ * UNIT - BETA))


def labels(seed: int, n: int, level: float = 0.0) -> float:
    rng = np.random.default_rng([seed, n])
    Z = columns(rng, n)
    y = (Z @ (3 * BETA) + level + rng.logistic(size=n) > 0).astype(int)
    return float(np.linalg.norm(fattail.DPLogisticRegression(random_state=seed).fit(Z * UNIT, y).coef_[0] * UNIT - 3 * BETA))


def rare_labels(seed: int, n: int) -> float:
    return labels(seed, n, level=-4.0)


def many_columns(seed: int, n: int) -> float:
    """Relative excess error of predictions, 60 correlated columns and half of the rows."""
    rng = np.random.default_rng([seed, n])
    Z = rng.normal(size=(n // 2, 60)) + rng.normal(size=(n // 2, 1))
    truth = rng.normal(size=60)
    fit = fattail.DPLinearRegression(random_state=seed).fit(Z, Z @ truth + 4 * rng.standard_t(4, len(Z)))
    return float(np.linalg.norm(Z @ (fit.coef_ - truth)) / np.linalg.norm(Z @ truth))


def few_columns(seed: int, n: int, unit: float = 1.0) -> float:
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, 100)) * unit ** np.linspace(-1, 1, 100)
    truth = np.where(np.arange(100) % 30 == 0, 1.0, 0.0) / unit ** np.linspace(-1, 1, 100)
    fit = fattail.DPSparseRegressor(random_state=seed).fit(X, X @ truth + rng.standard_t(3, n))
    return float(np.linalg.norm((fit.coef_ - truth) * unit ** np.linspace(-1, 1, 100)))


def few_raw_columns(seed: int, n: int) -> float:
    return few_columns(seed, n, unit=100.0)


Score = Callable[[int, int], float]
GROUPS: dict[str, tuple[ModuleType, str, tuple[Score, ...]]] = {
    "canonical": (canonical, "CONSTANTS", (counts,)),
    "em": (loop, "CONSTANTS", (two_clusters, regressions)),
    "units": (em_units, "CONSTANTS", (regressions, missing)),
    "clusters": (clusters, "CONSTANTS", (many_clusters,)),
    "short_rows": (short_rows, "CONSTANTS", (words,)),
    "em_clusters": (em, "CLUSTERS", (two_clusters,)),
    "em_regressions": (em, "REGRESSIONS", (regressions,)),
    "em_missing": (em, "MISSING", (missing,)),
    "column_units": (units, "DEFAULTS", (numbers,)),
    "joint_moments": (joint_moments, "DEFAULTS", (numbers,)),
    "least_squares": (least_squares, "LEAST", (numbers,)),
    "projection": (projection, "DEFAULTS", (numbers,)),
    "many_columns": (directions, "MANY", (many_columns,)),
    "subspace": (subspace, "DEFAULTS", (many_columns,)),
    "newton": (linear, "NEWTON", (robust, labels)),
    "label_scale": (label_scale, "DEFAULTS", (rare_labels,)),
    "support_fit": (support_fit, "LIMITS", (few_columns,)),
    "support_joint": (support_joint, "DEFAULTS", (few_raw_columns,)),
    "sparse_tables": (sparse_plan, "TABLES", (few_raw_columns,)),
}
SIZES = (4_000, 30_000)


def variants(constants: Any) -> list[tuple[str, Any, Any]]:
    """Name of each float of a group, and the group with it halved and doubled; nested groups included."""
    found = []
    for field in fields(constants):
        value = getattr(constants, field.name)
        if isinstance(value, float) and np.isfinite(value) and value:
            found.append((field.name, *(replace(constants, **{field.name: factor * value}) for factor in (0.5, 2.0))))
        elif is_dataclass(value):
            inner = variants(value)
            found += [(f"{field.name}.{n}", *(replace(constants, **{field.name: v}) for v in both)) for n, *both in inner]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore", fattail.UtilityWarning)
    module, name, scores = GROUPS[options.group]
    today = getattr(module, name)

    def error(constants: Any) -> float:
        setattr(module, name, constants)
        try:
            cells = [np.mean([score(seed, n) for seed in range(options.trials)]) for score in scores for n in SIZES]
        except ValueError:
            return np.nan
        return float(np.exp(np.mean(np.log(cells))))

    base = error(today)
    print(f"error {base:.4f}\n{'constant':28}{'halved':>10}{'doubled':>10}")
    for field, *both in variants(today):
        print(f"{field:28}" + "".join(f"{error(c) / base:10.3f}".replace("nan", "  -") for c in both), flush=True)
    setattr(module, name, today)


if __name__ == "__main__":
    main()
