"""What each constant of ``auto`` for losses of one's own changes: halve and double it, and compare the error.

    python benchmarks/tuning/canonical.py [--trials 10]

The laws are counts and labels on normal, gamma and t(4) columns in mixed units, n = 2,000 and 20,000, epsilon 1.
Errors are in units of the linear predictor per standard deviation of a column, averaged over columns (geometric
mean over cells), relative to the constants in use.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
from scipy.special import expit

from docs.extend.poisson import Poisson
from fattail.algorithms.auto.canonical import CONSTANTS, Constants, auto_canonical
from fattail.algorithms.parts.linear_rows import Target
from fattail.losses import Logistic, Loss
from fattail.privacy import Curator
from fattail.rows.data import PrivateData

Law = Callable[[np.random.Generator, np.ndarray], np.ndarray]
LAWS: dict[str, tuple[Loss, Law]] = {
    "counts": (Poisson(), lambda rng, z: rng.poisson(np.exp(z))),
    "labels": (Logistic(), lambda rng, z: rng.random(len(z)) < expit(z)),
}
BETA = np.array([0.3, -0.4, 0.2, 0.0])
UNIT = np.array([10.0, 1e4, 1.0, 0.01])


def error(constants: Constants, law: str, n: int, seed: int) -> float:
    loss, draw = LAWS[law]
    rng = np.random.default_rng([seed, n])
    Z = np.column_stack([rng.normal(size=n), rng.gamma(2, 0.5**0.5, n), rng.standard_t(4, n) / 2**0.5, rng.normal(size=n)])
    y = draw(rng, 0.3 + Z @ BETA).astype(np.float64)
    fit = auto_canonical(Curator(1.0, 1e-6, random_state=seed), PrivateData(Z * UNIT, y), Target(loss), constants)
    return float(np.linalg.norm(fit.coef * UNIT - BETA) / 2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10)
    trials = parser.parse_args().trials

    def score(constants: Constants) -> float:
        cells = [[error(constants, law, n, seed) for seed in range(trials)] for law in LAWS for n in (2_000, 20_000)]
        return float(np.exp(np.mean(np.log(np.mean(cells, axis=1)))))

    base = score(CONSTANTS)
    print(f"error {base:.4f}\n{'constant':12}{'halved':>10}{'doubled':>10}")
    for field in fields(CONSTANTS):
        value = getattr(CONSTANTS, field.name)
        if isinstance(value, float):
            ratios = [score(replace(CONSTANTS, **{field.name: factor * value})) / base for factor in (0.5, 2.0)]
            print(f"{field.name:12}{ratios[0]:10.3f}{ratios[1]:10.3f}")


if __name__ == "__main__":
    main()
