"""Kinds of columns that tables have, as laws to draw from.

``TUNING`` are the laws on which constants were chosen and faults were hunted. ``REPORTING`` are others, written down before
they were run for the first time, and used for nothing but the figures that are reported. Both hold every kind: yes/no
answers, zero-inflated money, codes, years, ages, percentages, counts, dates, heavy tails far from zero, caps, sentinels,
constants, clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Draw = Callable[[np.random.Generator, int], np.ndarray]


class Law(NamedTuple):
    """How to draw a column, and the mean of its law (NaN where there is none)."""

    draw: Draw
    mean: float


def yes_no(p: float) -> Law:
    return Law(lambda r, n: (r.random(n) < p).astype(float), p)


def inflated(zeros: float, mu: float, sigma: float) -> Law:
    def draw(r: np.random.Generator, n: int) -> np.ndarray:
        return np.where(r.random(n) < zeros, 0.0, r.lognormal(mu, sigma, n))

    return Law(draw, (1 - zeros) * math.exp(mu + sigma**2 / 2))


def claims(zeros: float, index: float, unit: float) -> Law:
    """Zero-inflated Pareto amounts, rounded to cents."""

    def draw(r: np.random.Generator, n: int) -> np.ndarray:
        return np.where(r.random(n) < zeros, 0.0, np.round(unit * (1 + r.pareto(index, n)), 2))

    return Law(draw, (1 - zeros) * unit * index / (index - 1))


def atom_and(value: float, share: float, rest: Draw, mean: float) -> Law:
    def draw(r: np.random.Generator, n: int) -> np.ndarray:
        return np.where(r.random(n) < share, value, rest(r, n))

    return Law(draw, share * value + (1 - share) * mean)


def codes(values: list[float], shares: list[float]) -> Law:
    return Law(lambda r, n: r.choice(values, n, p=shares), float(np.dot(values, shares)))


def whole(low: int, high: int) -> Law:
    return Law(lambda r, n: r.integers(low, high + 1, n).astype(float), (low + high) / 2)


def normal(mean: float, sd: float) -> Law:
    return Law(lambda r, n: r.normal(mean, sd, n), mean)


def student(df: float, center: float, scale: float) -> Law:
    return Law(lambda r, n: center + scale * r.standard_t(df, n), center if df > 1 else math.nan)


def pareto(index: float, unit: float = 1.0) -> Law:
    return Law(lambda r, n: unit * (1 + r.pareto(index, n)), unit * index / (index - 1) if index > 1 else math.nan)


def lognormal(mu: float, sigma: float) -> Law:
    return Law(lambda r, n: r.lognormal(mu, sigma, n), math.exp(mu + sigma**2 / 2))


def poisson(rate: float) -> Law:
    return Law(lambda r, n: r.poisson(rate, n).astype(float), rate)


def negative_binomial(size: float, p: float) -> Law:
    return Law(lambda r, n: r.negative_binomial(size, p, n).astype(float), size * (1 - p) / p)


def beta(a: float, b: float, top: float) -> Law:
    return Law(lambda r, n: top * r.beta(a, b, n), top * a / (a + b))


def capped(law: Law, cap: float, mean: float) -> Law:
    return Law(lambda r, n: np.minimum(law.draw(r, n), cap), mean)


def floor_and_ceiling(low: float, below: float, high: float, above: float, rest: Draw, mean: float) -> Law:
    """Shares of the rows at both ends of a column, and the rest between them."""

    def draw(r: np.random.Generator, n: int) -> np.ndarray:
        return np.choose(r.choice(3, n, p=[below, above, 1 - below - above]), [np.full(n, low), np.full(n, high), rest(r, n)])

    return Law(draw, below * low + above * high + (1 - below - above) * mean)


def constant(value: float) -> Law:
    return Law(lambda _, n: np.full(n, value), value)


def clusters(centers: list[float], shares: list[float], sd: float) -> Law:
    return Law(lambda r, n: r.choice(centers, n, p=shares) + r.normal(0, sd, n), float(np.dot(centers, shares)))


def gamma(shape: float, scale: float, low: float = 0.0) -> Law:
    return Law(lambda r, n: low + r.gamma(shape, scale, n), low + shape * scale)


def rare(one_in: float, factor: float, shape: float, scale: float) -> Law:
    """Gamma amounts, of which one in so many is larger by a factor."""

    def draw(r: np.random.Generator, n: int) -> np.ndarray:
        return np.where(r.random(n) < 1 / one_in, factor, 1.0) * r.gamma(shape, scale, n)

    return Law(draw, shape * scale * (1 + (factor - 1) / one_in))


def prices(mu: float, sigma: float) -> Law:
    """Log-normal prices that end in .99."""

    def draw(r: np.random.Generator, n: int) -> np.ndarray:
        return np.ceil(r.lognormal(mu, sigma, n)) - 0.01

    big = draw(np.random.default_rng(1), 4_000_000)
    return Law(draw, float(big.mean()))


def _lognormal_capped(mu: float, sigma: float, cap: float) -> float:
    """E min(X, cap) of a log-normal X."""
    from scipy.special import ndtr

    z = (math.log(cap) - mu) / sigma
    return math.exp(mu + sigma**2 / 2) * float(ndtr(z - sigma)) + cap * float(ndtr(-z))


TUNING: dict[str, Law] = {
    "yes/no .4": yes_no(0.4),
    "yes/no .07": yes_no(0.07),
    "yes/no .015": yes_no(0.015),
    "zeros 85 %, money": inflated(0.85, 5.0, 1.2),
    "zeros 97 %, money": inflated(0.97, 8.0, 1.0),
    "1 in 70 %, rest in (0, 1)": atom_and(1.0, 0.7, lambda r, n: r.beta(2, 2, n), 0.5),
    "years 1990-2005": whole(1990, 2005),
    "labels 0/3": codes([0.0, 3.0], [0.6, 0.4]),
    "codes 1..7": codes([1, 2, 3, 4, 5, 6, 7], [0.1, 0.1, 0.2, 0.3, 0.1, 0.1, 0.1]),
    "percentages": beta(2, 6, 100.0),
    "Poisson 1": poisson(1.0),
    "negative binomial": negative_binomial(0.5, 0.05),
    "dates": normal(1.4237e9, 3e7),
    "t(3) around 12": student(3.0, 12.34, 2.0),
    "t(3) around 3e5": student(3.0, 312345.678, 2.0),
    "t(2.2) around 0": student(2.2, 0.0, 1.0),
    "identifiers": whole(200_000, 700_000),
    "constant": constant(12.5),
    "two far values": codes([0.0, 2000.0], [0.93, 0.07]),
    "clusters": clusters([10.0, 200.0, 5000.0], [0.5, 0.4, 0.1], 1.0),
    "top-coded": capped(lognormal(10.0, 1.0), 60_000.0, _lognormal_capped(10.0, 1.0, 60_000.0)),
    "log-normal 1.2": lognormal(0.0, 1.2),
    "Pareto 1.3": pareto(1.3),
    "Pareto 1.8": pareto(1.8),
    "Pareto 3": pareto(3.0),
    "Pareto 0.9": pareto(0.9),
    "claims": claims(0.94, 2.0, 300.0),
    "returns": student(3.5, 0.0003, 0.008),
    "prices": prices(2.5, 0.9),
    "sentinel 999": atom_and(999.0, 0.04, lambda r, n: r.normal(60, 12, n), 60.0),
    "exponential": gamma(1.0, 3.0),
}

TUNING |= {
    "yes/no .5": yes_no(0.5),
    "yes/no .05": yes_no(0.05),
    "yes/no .01": yes_no(0.01),
    "zeros 90 %, money": inflated(0.9, 4.0, 1.0),
    "zeros 98.5 %, money": inflated(0.985, 7.0, 1.1),
    "1 in 76 %, rest in (0, 1)": atom_and(1.0, 0.76, lambda r, n: r.random(n), 0.5),
    "years 2012-2020": whole(2012, 2020),
    "labels 1/2": codes([1.0, 2.0], [0.55, 0.45]),
    "codes 1..5": codes([1, 2, 3, 4, 5], [0.35, 0.25, 0.2, 0.15, 0.05]),
    "percentages, second": beta(5, 2, 100.0),
    "ages": Law(lambda r, n: np.floor(np.clip(r.gamma(6.0, 7.0, n), 0, 99)), math.nan),
    "Poisson 0.3": poisson(0.3),
    "Poisson 20": poisson(20.0),
    "negative binomial, second": negative_binomial(0.3, 0.02),
    "dates, second": normal(1.6e9, 1e7),
    "50.76 +- .3": normal(50.76, 0.3),
    "t(2.5) around 0": student(2.5, 0.0, 3.0),
    "t(2.5) around 1000": student(2.5, 1000.123, 3.0),
    "t(2.5) around 1e6": student(2.5, 1e6 + 77.7, 3.0),
    "t(2.5) around 1e9": student(2.5, 1.023456789e9, 3.0),
    "identifiers, second": whole(1_000_001, 9_000_000),
    "constant, second": constant(-0.37),
    "two far values, second": codes([0.0, 5000.0], [0.95, 0.05]),
    "clusters, second": clusters([-3.0, 4.0, 60.0], [0.3, 0.6, 0.1], 0.5),
    "cap at 99": capped(gamma(1.0, 40.0), 99.0, 40.0 * (1 - math.exp(-99 / 40))),
    "log-normal 1": lognormal(0.0, 1.0),
    "log-normal 1.8": lognormal(3.0, 1.8),
    "Pareto 1.2": pareto(1.2),
    "Pareto 1.5": pareto(1.5),
    "Pareto 2.5": pareto(2.5),
    "Cauchy": student(1.0, 0.0, 1.0),
    "claims, second": claims(0.96, 1.7, 1000.0),
    "returns, second": student(3.0, 0.0005, 0.01),
    "rounded prices": prices(3.0, 1.0),
    "sentinel -9": atom_and(-9.0, 0.06, lambda r, n: r.normal(27, 4, n), 27.0),
    "sentinel 999, second": atom_and(999.0, 0.02, lambda r, n: np.floor(r.uniform(18, 80, n)), 48.5),
    "Weibull .6": Law(lambda r, n: 5.0 * r.weibull(0.6, n), 5.0 * math.gamma(1 + 1 / 0.6)),
}
TUNING |= {
    "points, 5 % at 0, 7 % at 10": floor_and_ceiling(0.0, 0.05, 10.0, 0.07, lambda r, n: r.normal(5.7, 0.9, n), 5.7),
    "slider, 7 % at 0, 6 % at 100": floor_and_ceiling(0.0, 0.07, 100.0, 0.06, lambda r, n: r.normal(55, 14, n), 55.0),
    "grade, 3 % at 0, 4 % at 20": floor_and_ceiling(0.0, 0.03, 20.0, 0.04, lambda r, n: r.normal(11.5, 2, n), 11.5),
    "share, 10 % at 0, 7 % at 1": floor_and_ceiling(0.0, 0.1, 1.0, 0.07, lambda r, n: r.beta(6, 4, n), 0.6),
    "fees 0/100/200/500": codes([0.0, 100.0, 200.0, 500.0], [0.1, 0.5, 0.3, 0.1]),
    "rebates 0 to 25 %": codes([0.0, 0.05, 0.1, 0.25], [0.5, 0.3, 0.15, 0.05]),
    "expression levels": Law(lambda r, n: 0.6 * r.normal(0, 1, n) + 0.8 * (r.gamma(1.5, 1.0, n) - 1.5), 0.0),
    "skewed, logs of sums": Law(lambda r, n: np.log(r.gamma(4.0, 1.0, n)) + r.normal(0, 0.3, n), 1.2561176684318003),
}
"""Masses at both ends of a column, coarse codes, and columns that are a little skewed."""

TUNING |= {
    "rare, 1 in 150, 60 times": rare(150, 60.0, 4.0, 5.0),
    "rare, 1 in 300, 200 times": rare(300, 200.0, 3.0, 2.0),
    "rare, 1 in 1000, 600 times": rare(1000, 600.0, 2.0, 10.0),
    "code 99, 1 %": atom_and(99.0, 0.01, lambda r, n: r.integers(1, 8, n).astype(float), 4.0),
    "code 999, .5 %": atom_and(999.0, 0.005, lambda r, n: r.normal(60, 12, n), 60.0),
    "code 9999, .25 %": atom_and(9999.0, 0.0025, lambda r, n: np.floor(r.uniform(18, 80, n)), 48.5),
    "code -9999, 1 %": atom_and(-9999.0, 0.01, lambda r, n: r.normal(27, 4, n), 27.0),
    "code 999999, .3 %": atom_and(999_999.0, 0.003, lambda r, n: r.gamma(3.0, 20.0, n), 60.0),
}
"""Rows far beyond the others, too few to be visible in a single count of a small part of the budget."""

TUNING["ages"] = TUNING["ages"]._replace(mean=float(TUNING["ages"].draw(np.random.default_rng(1), 4_000_000).mean()))

REPORTING: dict[str, Law] = {
    "yes/no .3": yes_no(0.3),
    "yes/no .9": yes_no(0.9),
    "yes/no .03": yes_no(0.03),
    "zeros 75 %, money": inflated(0.75, 6.0, 0.9),
    "zeros 95 %, money": inflated(0.95, 3.0, 1.3),
    "100 in 60 %, rest percentages": atom_and(100.0, 0.6, lambda r, n: 100 * r.beta(4, 2, n), 200 / 3),
    "years 1955-2004": whole(1955, 2004),
    "labels -1/1": codes([-1.0, 1.0], [0.35, 0.65]),
    "codes 0..9": codes(list(range(10)), [0.3, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.04, 0.03, 0.03]),
    "shares in (0, 1)": beta(0.5, 0.5, 1.0),
    "hours a week": Law(lambda r, n: np.where(r.random(n) < 0.45, 40.0, np.floor(r.uniform(5, 70, n))), 0.45 * 40 + 0.55 * 37),
    "Poisson 3": poisson(3.0),
    "Poisson 200": poisson(200.0),
    "negative binomial 2": negative_binomial(2.0, 0.1),
    "dates in days": normal(18_500.0, 400.0),
    "seconds of a day": whole(0, 86_399),
    "98.6 +- .7": normal(98.6, 0.7),
    "t(4) around -7": student(4.0, -7.3, 5.0),
    "t(2.3) around 2e4": student(2.3, 20_123.4, 15.0),
    "t(3) around 5e7": student(3.0, 5.4321e7, 40.0),
    "postal codes": whole(10_000, 99_999),
    "constant": constant(7.0),
    "two far values": codes([3.0, 700.0], [0.9, 0.1]),
    "clusters": clusters([-20.0, 0.0, 35.0], [0.25, 0.5, 0.25], 2.0),
    "cap at 40": capped(gamma(2.0, 12.0), 40.0, 24.0 - 12.0 * math.exp(-40 / 12) * (2 + 40 / 12)),
    "log-normal .6": lognormal(8.0, 0.6),
    "log-normal 1.4": lognormal(-2.0, 1.4),
    "Pareto 1.35": pareto(1.35, 50.0),
    "Pareto 1.9": pareto(1.9, 0.01),
    "Pareto 3.5": pareto(3.5, 1000.0),
    "claims 2.5": claims(0.9, 2.5, 150.0),
    "returns": student(4.0, 0.0002, 0.02),
    "prices": prices(4.0, 0.7),
    "sentinel -1": atom_and(-1.0, 0.1, lambda r, n: r.gamma(3.0, 20.0, n), 60.0),
    "sentinel 99": atom_and(99.0, 0.05, lambda r, n: r.integers(1, 8, n).astype(float), 4.0),
    "Weibull .8": Law(lambda r, n: 300.0 * r.weibull(0.8, n), 300.0 * math.gamma(1 + 1 / 0.8)),
    "Laplace": Law(lambda r, n: r.laplace(2.0, 1.5, n), 2.0),
    "logistic mixture": Law(lambda r, n: r.logistic(0, np.where(r.random(n) < 0.9, 1.0, 6.0), n), 0.0),
}

LATE: dict[str, Law] = {
    "yes/no .12": yes_no(0.12),
    "yes/no .985": yes_no(0.985),
    "ratings 1..5, most 5": codes([1, 2, 3, 4, 5], [0.08, 0.04, 0.08, 0.2, 0.6]),
    "visits, Poisson .08": poisson(0.08),
    "children": codes([0, 1, 2, 3, 4, 5, 6], [0.42, 0.2, 0.24, 0.09, 0.03, 0.015, 0.005]),
    "blood pressure": Law(lambda r, n: np.round(r.normal(128, 17, n)), 128.0),
    "minutes, rounded to 5": Law(lambda r, n: 5.0 * r.integers(1, 37, n), 92.5),
    "months 1..12": whole(1, 12),
    "birth years": Law(lambda r, n: 1990.0 - np.floor(r.gamma(4.0, 9.0, n)), math.nan),
    "income in thousands, 3 % -1": atom_and(-1.0, 0.03, lambda r, n: r.lognormal(3.4, 0.7, n), math.exp(3.4 + 0.49 / 2)),
    "debt, 70 % none": inflated(0.7, 8.5, 1.1),
    "temperature": clusters([4.0, 21.0], [0.4, 0.6], 5.0),
    "longitudes": normal(-73.97, 0.04),
    "file sizes": pareto(1.5, 4096.0),
    "score, 8 % at 0, 5 % at 100": atom_and(
        0.0, 0.08, lambda r, n: np.where(r.random(n) < 0.054, 100.0, r.normal(62, 11, n)), 64.052
    ),
    "differences": student(2.8, 0.0, 120.0),
}
"""Written after all constants were set, and run once."""
LATE["birth years"] = LATE["birth years"]._replace(
    mean=float(LATE["birth years"].draw(np.random.default_rng(1), 4_000_000).mean())
)

OUTSIDE: dict[str, Law] = {
    "yes/no .62": yes_no(0.62),
    "yes/no .008": yes_no(0.008),
    "coded 1/2, .97": codes([1.0, 2.0], [0.97, 0.03]),
    "Likert 1..5, top heavy": codes([1, 2, 3, 4, 5], [0.02, 0.03, 0.1, 0.35, 0.5]),
    "children 0..6": codes([0, 1, 2, 3, 4, 5, 6], [0.45, 0.2, 0.22, 0.08, 0.03, 0.015, 0.005]),
    "years of birth": Law(lambda r, n: np.round(r.triangular(1925, 1962, 2003, n)), (1925 + 1962 + 2003) / 3),
    "school years, 12 in 38 %": atom_and(12.0, 0.38, lambda r, n: r.integers(8, 21, n).astype(float), 14.0),
    "deductible 0/250/500/1000": codes([0.0, 250.0, 500.0, 1000.0], [0.12, 0.28, 0.5, 0.1]),
    "weights in kg": normal(74.2, 14.1),
    "blood pressure, even numbers": Law(lambda r, n: 2 * np.round(r.normal(64, 8.5, n)), 128.0),
    "length of stay": Law(lambda r, n: 1.0 + r.negative_binomial(1.2, 0.25, n), 1.0 + 1.2 * 0.75 / 0.25),
    "visits, 55 % none": Law(
        lambda r, n: np.where(r.random(n) < 0.4, 0.0, r.negative_binomial(0.9, 0.2, n)), 0.6 * 0.9 * 0.8 / 0.2
    ),
    "hospital cost": inflated(0.88, 8.2, 1.1),
    "wage and debt": Law(
        lambda r, n: np.where(r.random(n) < 0.25, -r.lognormal(8, 1.2, n), r.lognormal(9.5, 0.8, n)),
        0.75 * math.exp(9.5 + 0.32) - 0.25 * math.exp(8 + 0.72),
    ),
    "latitudes": Law(lambda r, n: 47.5 + 0.14 * r.beta(2.5, 1.5, n), 47.5 + 0.14 * 2.5 / 4),
    "timestamps in ms": Law(lambda r, n: 1.72e12 + r.uniform(0, 2.6e9, n), 1.72e12 + 1.3e9),
    "GPA": Law(lambda r, n: np.round(4.0 * r.beta(6, 2, n), 2), 3.0),
    "discount, many 0 and 10 %": Law(
        lambda r, n: r.choice([0.0, 0.1, 0.15, 0.2, 0.5], n, p=[0.6, 0.25, 0.08, 0.05, 0.02]), 0.025 + 0.012 + 0.01 + 0.01
    ),
    "bimodal eruptions": clusters([2.0, 4.3], [0.36, 0.64], 0.35),
    "t(2.8) around -400": student(2.8, -412.5, 9.0),
    "skewed t": Law(
        lambda r, n: np.where(r.random(n) < 0.5, -1.0, 2.0) * np.abs(r.standard_t(3.0, n)), 0.5 * 2 * math.sqrt(3) / math.pi
    ),
    "Pareto 1.7": pareto(1.7, 20.0),
    "Pareto 2.2": pareto(2.2, 3.0),
    "Burr-like incomes": Law(lambda r, n: 30_000.0 * (r.pareto(2.6, n)) ** 0.8, float("nan")),
    "log-normal 1.6": lognormal(1.0, 1.6),
    "gamma .3": gamma(0.3, 900.0),
    "inverse Gaussian": Law(lambda r, n: r.wald(3.0, 1.5, n), 3.0),
    "file sizes": Law(lambda r, n: np.floor(r.lognormal(8.5, 1.9, n)), float("nan")),
    "capped balance 0..10000": capped(lognormal(7.5, 1.3), 10_000.0, _lognormal_capped(7.5, 1.3, 10_000.0)),
    "unknown = -99": atom_and(-99.0, 0.08, lambda r, n: np.round(r.normal(31, 6, n)), 31.0),
    "rare huge 1 in 400": Law(
        lambda r, n: np.where(r.random(n) < 1 / 400, 250.0, 1.0) * r.gamma(4.0, 5.0, n), 20.0 * (1 + 249 / 400)
    ),
    "exam score /30": Law(lambda r, n: r.binomial(30, 0.71, n).astype(float), 21.3),
}
"""Written down by somebody who had not seen how the method does on them, before it was finished, and run once."""
for _name in ("Burr-like incomes", "file sizes"):
    OUTSIDE[_name] = OUTSIDE[_name]._replace(mean=float(OUTSIDE[_name].draw(np.random.default_rng(2), 4_000_000).mean()))
