"""How often intervals of the default linear regression hold what least squares would find.

    python benchmarks/coverage_linear.py [--fits 40] [--epsilons 0.5,1,4] [--only name,name] [--write]

*Laws*: the truth is the best linear prediction in the population, whether or not the model is linear. *Tables*: rows are drawn
with replacement from a real table, and the truth is least squares on the table itself. A cell is a law or table at one epsilon;
its coverage is the share of all coefficients of all fits whose 95 % interval holds the truth, and *least* that of the
coefficient that is covered least often. *width* is the median half-width over that of the classical interval
(heteroscedasticity-consistent, not private). Coefficients with an infinite interval count as covered, and their
share is *infinite*. *heavy* marks laws and tables in which both a column and the response have heavy tails, so that few rows may
decide least squares; least squares of two million rows, or of the whole table, is then far from that of a sample.
Writes benchmarks/results/coverage_linear.csv. Tables are read from the folder that FATTAIL_DATA names.
"""

from __future__ import annotations

import argparse
import math
import warnings
from functools import lru_cache
from itertools import product as product_of
from pathlib import Path

import numpy as np

import real_tables
from fattail import DPLinearRegression, UtilityWarning
from result_files import write_csv

DELTA = 1e-5
POPULATION = 2_000_000
MOST_ROWS = 60_000  # of a table
LONGEST = 1000.0  # what an infinite or longer interval counts as
RESULTS = Path(__file__).parent / "results" / "coverage_linear.csv"
HEADER = (
    "data",
    "held out",
    "heavy",
    "n",
    "d",
    "epsilon",
    "fits",
    "coverage",
    "least",
    "intercept",
    "width",
    "intercept width",
    "infinite",
    "n epsilon >= 5000",
)


def normal(rng, n):
    X = rng.normal(size=(n, 5))
    return X, X @ np.arange(1, 6) / 5 + rng.normal(size=n)


def t3(rng, n):
    X = rng.standard_t(3, size=(n, 5))
    return X, X @ np.arange(1, 6) / 5 + rng.standard_t(2.5, size=n)


def lognormal(rng, n):
    X = rng.lognormal(size=(n, 5))
    return X, X @ np.arange(1, 6) / 5 + rng.lognormal(0, 1.2, n)


def curved(rng, n):
    """A slope that grows with a skewed column."""
    X = rng.gamma(2.0, size=(n, 3)) * np.array([1.0, 50.0, 1000.0])
    return X, X[:, 0] + 0.3 * X[:, 0] ** 2 + 0.02 * X[:, 1] + rng.normal(size=n)


def saturated(rng, n):
    """An effect that levels off: long rows have the least slope."""
    X = rng.lognormal(0, 0.8, size=(n, 4))
    return X, 3 * np.log(X[:, 0]) + X[:, 1] + np.minimum(X[:, 2], 3.0) + rng.normal(size=n)


def heteroscedastic(rng, n):
    """Noise that grows with the columns."""
    X = np.column_stack([rng.gamma(1.5, size=n), rng.normal(size=n), rng.random(n) < 0.2])
    return X, X @ [1.0, 0.5, 2.0] + rng.normal(size=n) * (0.2 + X[:, 0] + 2 * X[:, 2])


def dummies(rng, n):
    """Groups of 40 % to 2 %, and a slope that differs between them."""
    X = np.column_stack([rng.random(n) < share for share in (0.4, 0.1, 0.02)] + [rng.normal(50, 12, n)])
    return X, X @ [1.0, -2.0, 3.0, 0.05] + 0.08 * X[:, 1] * (X[:, 3] - 50) + rng.normal(size=n)


def interacting(rng, n):
    """Correlated columns whose product matters."""
    Z = rng.normal(size=(n, 4))
    X = np.column_stack([Z[:, 0], Z[:, 0] + 0.5 * Z[:, 1], np.exp(0.7 * Z[:, 2]), Z[:, 3] + 0.3 * Z[:, 2]])
    return X, X @ [1.0, 1.0, 0.5, -1.0] + 0.5 * X[:, 1] * X[:, 2] + rng.normal(size=n)


def threshold(rng, n):
    """An effect that sets in at a level."""
    X = rng.normal(size=(n, 4))
    return X, 2.0 * (X[:, 0] > 1) + X[:, 1] + 0.5 * X[:, 2] + rng.normal(size=n)


def product(rng, n):
    """Skewed columns whose product is left out."""
    X = rng.exponential(size=(n, 4)) * [1.0, 1.0, 30.0, 5.0]
    return X, X[:, 0] + X[:, 1] + 0.5 * X[:, 0] * X[:, 1] + 0.02 * X[:, 2] + rng.standard_t(4, n)


def growing(rng, n):
    """Noise that grows with the size of a heavy-tailed column."""
    X = rng.standard_t(5, size=(n, 5))
    return X, X @ [1.0, -1.0, 0.5, 0.0, 0.2] + rng.normal(size=n) * (0.3 + np.abs(X[:, 0]))


def rare(rng, n):
    """Dummies of 5 %, 2 % and 1 %, one with an effect that depends on a number."""
    X = np.column_stack([rng.random(n) < share for share in (0.5, 0.05, 0.02, 0.01)] + [rng.exponential(size=n)])
    return X, X @ [1.0, 2.0, -2.0, 1.0, 0.5] + X[:, 1] * X[:, 4] + rng.normal(size=n)


def skewed(rng, n):
    """Skewed noise, independent of the columns."""
    X = rng.normal(size=(n, 6)) + rng.normal(size=(n, 1))
    return X, X @ np.arange(6) / 5 + rng.gamma(0.3, 2.0, n)


def waves(rng, n):
    """Bounded columns and an effect that rises and falls."""
    X = rng.random(size=(n, 4)) * [1.0, 10.0, 100.0, 2.0]
    return X, np.sin(4 * X[:, 0]) + 0.1 * X[:, 1] + X[:, 3] ** 3 + 0.5 * rng.normal(size=n)


def counts(rng, n):
    """Numbers of events that grow exponentially with the columns."""
    X = np.column_stack([rng.poisson(2.0, n), rng.normal(size=n), rng.exponential(size=n)])
    return X, rng.poisson(np.exp(0.25 * X[:, 0] + 0.3 * X[:, 1] - 0.3 * X[:, 2])).astype(float)


def exponential(rng, n):
    """A response whose logarithm is linear."""
    X = np.column_stack([rng.normal(12, 3, n), rng.normal(40, 12, n), rng.random(n) < 0.5])
    return X, np.exp(0.08 * X[:, 0] + 0.01 * X[:, 1] + 0.2 * X[:, 2] + 0.5 * rng.normal(size=n))


def thirty(rng, n):
    """Thirty correlated columns, one of them with a square."""
    Z = rng.normal(size=(n, 30))
    X = Z + 0.7 * np.roll(Z, 1, axis=1)
    return X, X[:, :6] @ [3.0, -2.0, 1.0, 1.0, 0.5, 0.5] + 0.2 * X[:, 0] ** 2 + rng.standard_t(4, n)


def plots(rng, n):
    """Land and that of neighbors: large plots have large neighbors in half of the cases."""
    base, z = 7000 * rng.lognormal(0, 0.3, n), rng.normal(size=(n, 2))
    factor = np.where(rng.random(n) < 0.12, np.minimum((1 - rng.random(n)) ** (-1 / 1.1), 150), 1.0)
    other = base * np.where(rng.random(n) < 0.5, factor, 1.0) * rng.lognormal(0, 0.2, n)
    X = np.column_stack([base * factor * rng.lognormal(0, 0.2, n), z + 0.2 * np.log(factor)[:, None]])
    return X, other + 500 * z[:, 0]


def areas(rng, n):
    """Two areas of land in one place: a tenth of the places are large."""
    place = np.where(rng.random(n) < 0.1, (1 - rng.random(n)) ** (-1 / 1.2), 1.0) * rng.lognormal(0, 0.2, n)
    place, grade = np.minimum(place, 200), rng.normal(7, 1.2, n)
    X = np.column_stack([7600 * place * rng.lognormal(0, 0.4, n), grade, rng.normal(size=n)])
    return X, 7600 * place**0.9 * rng.lognormal(0, 0.4, n) + 300 * grade


def claims(rng, n):
    """Claims in proportion to a log-normal exposure."""
    exposure, age = rng.lognormal(0, 1.8, n), rng.normal(40, 12, n)
    return np.column_stack([exposure, age]), exposure * rng.gamma(0.5, 2, n) + 0.02 * age


def cities(rng, n):
    """A response that grows faster than a population whose variance does not exist."""
    people, z = (1 - rng.random(n)) ** (-1 / 1.6), rng.normal(size=(n, 2))
    return np.column_stack([people, z]), people**1.15 * rng.lognormal(0, 0.4, n) + z[:, 0]


def turnover(rng, n):
    """Price times size."""
    X = np.column_stack([rng.lognormal(0, 1.2, n), rng.lognormal(0, 1.2, n), rng.normal(size=n)])
    return X, X[:, 0] * X[:, 1]


def spread(rng, n):
    """Log-normal columns of spread 2 and 1.5, and noise of spread 1.5; the model is right."""
    X = np.column_stack([rng.lognormal(0, 2, n), rng.lognormal(0, 1.5, n), rng.normal(size=n)])
    return X, X @ [1.0, 2.0, 1.0] + rng.lognormal(0, 1.5, n)


def pareto(rng, n):
    """A Pareto column with noise in proportion."""
    x, z = (1 - rng.random(n)) ** (-1 / 2.2), rng.random((n, 2)) < 0.4
    return np.column_stack([x, z]), x * (1 + 0.5 * rng.normal(size=n)) + z[:, 0]


def costs(rng, n):
    """Log-normal costs that grow with age."""
    age = rng.normal(50, 15, n)
    return age[:, None], np.exp(0.03 * age + 1.2 * rng.normal(size=n))


TUNED = (normal, t3, lognormal, curved, saturated, heteroscedastic, dummies, interacting)
HELD_OUT = (threshold, product, growing, rare, skewed, waves, counts, exponential, thirty)
HEAVY = (plots, areas, claims, cities, turnover, spread, pareto, costs)
"""Laws on which constants for heavy tails were chosen."""
LAWS = {law.__name__: law for law in (*TUNED, *HELD_OUT, *HEAVY)}
TUNED_SIZES, HELD_OUT_SIZES = (5_000, 20_000), (8_000, 40_000)
# Table: (file, response, columns)
TABLES = {
    "kc_house": ("kc_house", "price", ["bedrooms", "sqft_living", "grade"]),
    "kc_house wide": ("kc_house", "price", ["bedrooms", "bathrooms", "sqft_living", "sqft_lot", "floors", "condition", "grade"]),
    "kc_house age": ("kc_house", "price", ["sqft_living", "yr_built", "lat"]),
    "pension": ("pension401k", "inc", ["age", "fsize", "educ", "marr", "twoearn"]),
    "pension wealth": ("pension401k", "net_tfa", ["age", "inc", "educ", "e401"]),
    "randhie": ("randhie", "mdvis", ["xage", "female", "educdec", "disea", "physlm", "income"]),
    "adult": ("adult", "hours_per_week", ["age", "education_num", "capital_gain"]),
    "sp500": ("sp500_returns", "JPM", ["SP500", "AMD", "XOM", "MRK"]),
    "bike": ("uci", "bike", None),
    "pension educ": ("pension401k", "educ", ["age", "inc", "fsize", "hown"]),
    "house living": ("kc_house", "sqft_living", ["bedrooms", "price", "yr_built", "floors"]),
    "house lot": ("kc_house", "sqft_lot15", ["sqft_lot", "grade", "lat"]),
    "randhie income": ("randhie", "income", ["xage", "educdec", "num", "female", "black"]),
    "randhie ghindx": ("randhie", "ghindx", ["xage", "educdec", "disea", "physlm", "child"]),
    "adult age": ("adult", "age", ["education_num", "hours_per_week", "capital_loss"]),
    "sp500 amd": ("sp500_returns", "AMD", ["SP500", "AAPL", "GE"]),
    "fremtpl2 bonus": ("fremtpl2", "BonusMalus", ["DrivAge", "VehAge", "VehPower", "Density"]),
    "fremtpl2 claims": ("fremtpl2", "ClaimCount", ["BonusMalus", "Exposure", "DrivAge"]),
    "house plot": ("kc_house", "sqft_lot", ["sqft_lot15", "grade", "lat"]),
    "house lot price": ("kc_house", "sqft_lot15", ["sqft_lot", "sqft_living", "price"]),
    "house price lot": ("kc_house", "price", ["sqft_lot", "sqft_living", "sqft_above"]),
    "pension income": ("pension401k", "net_tfa", ["inc"]),
    "pension assets": ("pension401k", "net_tfa", ["inc", "hval", "hmort"]),
    "pension home": ("pension401k", "hval", ["net_tfa", "inc"]),
    "randhie costs": ("randhie", "meddol", ["mdvis", "income", "xage"]),
    "adult gain": ("adult", "capital_gain", ["age", "education_num", "hours_per_week"]),
    "danish": ("danish_fire", "Total", ["Building", "Contents"]),
}
HEAVY_TABLES = {"house lot", *list(TABLES)[18:]}
TUNED_TABLES = 9
"""The first tables, on which constants were chosen, as on the laws in ``TUNED``; the other laws and tables are held out."""


@lru_cache
def population(name):
    """Rows to draw from, and least squares on them."""
    if name in LAWS:
        X, y = LAWS[name](np.random.default_rng(0), POPULATION)
    elif TABLES[name][0] == "uci":
        X, y = real_tables.load(name)
        X = X[:, 1:7]  # the first column is a copy of another
    else:
        file, response, columns = TABLES[name]
        t = real_tables.frame(file)[[*columns, response]].dropna()
        X, y = t[columns].to_numpy(float)[:MOST_ROWS], t[response].to_numpy(float)[:MOST_ROWS]
    return X, y, least_squares(X, y)[0]


def least_squares(X, y):
    """Coefficients with the intercept last, and heteroscedasticity-consistent standard errors."""
    Z = np.column_stack([X, np.ones(len(y))])
    size = np.linalg.norm(Z, axis=0)
    Q, R = np.linalg.qr(Z / size)
    w = np.linalg.solve(R, Q.T @ y)
    r = y - Z @ (w / size)
    half = np.linalg.solve(R, (Q * r[:, None]).T)
    return w / size, np.sqrt(np.sum(half**2, axis=1)) / size


def one_cell(name, n, epsilon, fits):
    X, y, truth = population(name)
    held_out = name not in {law.__name__ for law in (*TUNED, *HEAVY)} | set(list(TABLES)[:TUNED_TABLES])
    heavy = name in {law.__name__ for law in HEAVY} | HEAVY_TABLES
    covered, width, infinite = [], [], []
    for seed in range(fits):
        rng = np.random.default_rng([seed, n])
        if name in LAWS:
            A, b = LAWS[name](rng, n)
        else:
            rows = rng.integers(len(y), size=n)
            A, b = X[rows], y[rows]
        model = DPLinearRegression(epsilon=epsilon, delta=DELTA, random_state=seed).fit(A, b)
        value = np.append(model.coef_, model.intercept_)
        error = np.append(model.standard_errors_, model.intercept_standard_error_)
        covered.append(np.abs(value - truth) <= 1.96 * error)
        width.append(error / least_squares(A, b)[1])
        infinite.append(~np.isfinite(error))
    width, each = np.array(width), np.mean(covered, axis=0)
    return (
        name, held_out, heavy, n, X.shape[1], epsilon, fits, float(each[:-1].mean()), float(each[:-1].min()), float(each[-1]),
        float(np.median(width[:, :-1])), float(np.median(width[:, -1])), float(np.mean(infinite)), n * epsilon >= 5000,
    )  # fmt: skip


def typical(rows, k):
    """Geometric mean of a figure of cells."""
    return math.exp(np.mean(np.log([min(row[k], LONGEST) for row in rows])))


def report(label, rows):
    if not rows:
        return
    each, least, intercept = (np.array([row[k] for row in rows]) for k in (7, 8, 9))
    print(
        f"{label}: {len(rows)}; coverage {each.mean():.3f}, least cell {each.min():.3f}, {np.sum(each < 0.9)} below .90; "
        f"least coefficient {least.min():.2f}, {np.sum(least < 0.9)} cells with one below .90; "
        f"intercepts {intercept.mean():.3f}, {np.sum(intercept < 0.9)} below .90; "
        f"widths {typical(rows, 10):.2f}, of intercepts {typical(rows, 11):.2f}"
    )


def main():
    warnings.simplefilter("ignore", UtilityWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=40)
    parser.add_argument("--epsilons", default="0.5,1,4")
    parser.add_argument("--only", default=",".join([*LAWS, *TABLES]))
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args()
    rows = []
    for name in options.only.split(","):
        sizes = [len(population(name)[1])]
        if name in LAWS:
            sizes = HELD_OUT_SIZES if LAWS[name] in HELD_OUT else TUNED_SIZES
        for n in sizes:
            for epsilon in map(float, options.epsilons.split(",")):
                rows.append(one_cell(name, n, epsilon, options.fits))
                print(*[f"{v:.3g}" if isinstance(v, float) else v for v in rows[-1]], sep="  ", flush=True)
    for heavy, held_out in product_of((False, True), repeat=2):
        part = [row for row in rows if row[1:3] == (held_out, heavy)]
        large = [row for row in part if row[-1]]
        label = "heavy, " * heavy + ("held out" if held_out else "tuned")
        report(f"{label}, all cells", part)
        report(f"{label}, n epsilon >= 5000", large)
    if options.write:
        write_csv(RESULTS, (dict(zip(HEADER, row, strict=True)) for row in rows))


if __name__ == "__main__":
    main()
