"""Data of the experiments: the papers' laws, and the papers' files.

Each function makes one trial. What a paper leaves out (the law of the features, the true
coefficients, scales of columns) is chosen here, the same for every method, and said in the
panel that uses it.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np

from reproduction import datasets
from reproduction.spec import Floats, TrialData

Rng = np.random.Generator


def distance(truth: Floats, w: Floats) -> float:
    """Euclidean error."""
    return float(np.linalg.norm(w - truth))


def relative(truth: Floats, w: Floats) -> float:
    return float(np.linalg.norm(w - truth) / np.linalg.norm(truth))


def up_to_sign(truth: Floats, w: Floats) -> float:
    """Euclidean error where the law does not tell beta from -beta."""
    return min(distance(truth, w), distance(-truth, w))


# wang2020 ------------------------------------------------------------------------------------


def lognormal_linear(rng: Rng, n: int, d: int) -> TrialData:
    """Linear model, standard normal features, centered log-normal(0, 1) noise, unit coefficients."""
    truth = _direction(rng, d)
    X = rng.normal(size=(n, d))
    y = X @ truth + rng.lognormal(size=n) - math.exp(0.5)
    variance = math.e * (math.e - 1.0)
    return TrialData(X, y, partial(distance, truth), {"moment": 3.0 + variance, "loss": "squared"})


def loglogistic_classes(rng: Rng, n: int, d: int) -> TrialData:
    """Labels of the paper's second model: the sign of a linear score with log-logistic noise.

    The noise is not logistic, so the target is the minimizer of the population's logistic
    risk: a multiple of the score's direction, found on a large sample.
    """
    direction = _direction(rng, d)
    X = rng.normal(size=(n, d))
    y = (X @ direction + _loglogistic(rng, n) < 0).astype(float)
    return TrialData(X, y, partial(distance, -_population_size() * direction), {"moment": 1.0, "loss": "logistic"})


def _loglogistic(rng: Rng, n: int, sigma: float = 0.5) -> Floats:
    """Log-logistic(0, sigma) noise minus its mean."""
    mean = math.pi * sigma / math.sin(math.pi * sigma)
    return np.asarray(np.exp(sigma * rng.logistic(size=n)) - mean)


@lru_cache(maxsize=1)
def _population_size() -> float:
    """Length of the population's logistic minimizer, by Newton steps in the one dimension that matters."""
    rng = np.random.default_rng(2020)
    score = rng.normal(size=400_000)
    y = (score + _loglogistic(rng, len(score)) < 0).astype(float)
    b = 0.0
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(b * score))
        b -= np.mean((p - y) * -score) / np.mean(p * (1 - p) * score**2)
    return float(b)


def adult_split(rng: Rng, n: int, task: str) -> TrialData:
    """UCI Adult: n training rows and 2,000 others for the risk; columns in public units, the last constant."""
    columns, rich = datasets.adult()
    units = {"age": 40.0, "education_num": 10.0, "hours_per_week": 40.0, "capital_gain": 1e4, "capital_loss": 1e3, "fnlwgt": 2e5}
    X = np.column_stack([columns[name] / units.get(name, 1.0) for name in columns] + [np.ones(len(rich))])
    order = rng.permutation(len(X))[: n + 2000]
    train, test = order[:n], order[n:]
    if task == "logistic":
        risk: Any = partial(logistic_risk, X[test], rich[test])
        return TrialData(X[train], rich[train], risk, {"moment": 2.0, "loss": "logistic", "constant": True})
    signs = 2.0 * rich - 1.0
    known = {"moment": 4.0, "loss": "squared", "constant": True}
    return TrialData(X[train], signs[train], partial(squared_risk, X[test], signs[test]), known)


def squared_risk(X: Floats, y: Floats, w: Floats) -> float:
    return float(np.mean((y - X @ w) ** 2))


def logistic_risk(X: Floats, y: Floats, w: Floats) -> float:
    z = X @ w
    return float(np.mean(np.logaddexp(0.0, z) - y * z))


# dpem2020 ------------------------------------------------------------------------------------


def gaussian_mixture(rng: Rng, n: int, d: int) -> TrialData:
    """Two clusters at +-beta, beta of length 1, noise of 1/3 per coordinate (signal to noise 3)."""
    beta = _direction(rng, d)
    Y = rng.choice([-1.0, 1.0], size=n)[:, None] * beta + rng.normal(scale=1 / 3, size=(n, d))
    return TrialData(Y, None, partial(up_to_sign, beta), _em("mixture", rng, d))


def mixture_of_regressions(rng: Rng, n: int, d: int) -> TrialData:
    """Two regressions +-beta on standard normal features, beta of length 1, noise 1/3."""
    beta = _direction(rng, d)
    X = rng.normal(size=(n, d))
    y = rng.choice([-1.0, 1.0], size=n) * (X @ beta) + rng.normal(scale=1 / 3, size=n)
    return TrialData(X, y, partial(up_to_sign, beta), _em("regressions", rng, d))


def missing_covariates(rng: Rng, n: int, d: int) -> TrialData:
    """Regression with a tenth of the covariates missing at random, beta of length 1, noise 1/3."""
    beta = _direction(rng, d)
    X = rng.normal(size=(n, d))
    y = X @ beta + rng.normal(scale=1 / 3, size=n)
    X[rng.random(size=X.shape) < 0.1] = np.nan
    return TrialData(X, y, partial(distance, beta), _em("missing", rng, d))


def adult_clusters(rng: Rng, n: int) -> TrialData:
    """UCI Adult by income: as many rows of either class, moved to their midpoint (the paper's recipe)."""
    columns, rich = datasets.adult()
    names, units = ("age", "education_num", "hours_per_week"), (13.0, 2.5, 12.0)
    X = np.column_stack([columns[name] / unit for name, unit in zip(names, units, strict=True)])
    return _clusters(rng, X, rich.astype(np.int64), n)


def ipums_clusters(rng: Rng, n: int, file: str) -> TrialData:
    """IPUMS by income, columns divided by their interquartile range: preparation from the data, as in the paper."""
    X, rich = datasets.ipums(file)
    spread = np.subtract(*np.quantile(X, [0.75, 0.25], axis=0))
    return _clusters(rng, X / np.where(spread > 0, spread, 1.0), rich, n)


def _clusters(rng: Rng, X: Floats, label: Any, n: int) -> TrialData:
    half = min(n // 2, int(label.sum()), int((1 - label).sum()))
    parts = [X[rng.permutation(np.flatnonzero(label == k))[:half]] for k in (1, 0)]
    centers = [part.mean(axis=0) for part in parts]
    beta = (centers[0] - centers[1]) / 2.0
    rows = rng.permutation(np.concatenate(parts) - (centers[0] + centers[1]) / 2.0)
    variance = max(float(np.linalg.eigvalsh(np.cov(part.T))[-1]) for part in parts)
    known = {**_em("mixture", rng, X.shape[1]), "sigma": math.sqrt(variance), "moment": 4.0 * variance}
    return TrialData(rows, None, partial(up_to_sign, beta), known)


def _em(model: str, rng: Rng, d: int) -> dict[str, Any]:
    """What the paper's algorithms are told: the noise level, a moment bound, a random start of the right length."""
    return {"model": model, "sigma": 1 / 3, "moment": 1.0, "start": _direction(rng, d)}


# wanggu2020 ----------------------------------------------------------------------------------


def uniform_sparse(rng: Rng, n: int, d: int, sparsity: int, task: str) -> TrialData:
    """U(-1, 1) features, s standard normal coefficients, noise of variance 0.1 or logistic labels."""
    truth = np.zeros(d)
    truth[rng.permutation(d)[:sparsity]] = rng.normal(size=sparsity)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    z = X @ truth
    if task == "linear":
        y = z + rng.normal(scale=math.sqrt(0.1), size=n)
    else:
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(float)
    public = rng.uniform(-1.0, 1.0, size=(n, d))
    return TrialData(X, y, partial(relative, truth), {"public": public, "task": task, "spread": 1 / 3, "bound": 1.0})


def reuters_stand_in(rng: Rng, task: str, columns: int) -> TrialData:
    """Reuters-21578 for E2006 (log document length) or RCV1 (corporate news): half private, half public features."""
    X, corporate, length, split = datasets.reuters()
    document_count = np.asarray((X > 0).sum(axis=0)).ravel()
    keep = np.sort(np.argsort(-document_count, kind="stable")[:columns])
    y = corporate.astype(float) if task == "logistic" else length - 4.4
    train = rng.permutation(np.flatnonzero(split == 0))
    test = np.flatnonzero(split == 1)
    private, public = train[: len(train) // 2], train[len(train) // 2 :]
    # Rows have length 1; times 10 their entries are of order 1, a public unit.
    T, P = 10.0 * X[private][:, keep], 10.0 * X[public][:, keep]
    held = 10.0 * X[test][:, keep]
    judge: Any = partial(sparse_error_rate, held, y[test]) if task == "logistic" else partial(sparse_risk, held, y[test])
    known = {"public": P, "task": task, "spread": 100.0 / columns, "bound": 10.0, "intercept": True, "free_intercept": True}
    return TrialData(T, y[private], judge, known)


def e2006_split(rng: Rng, columns: int) -> TrialData:
    """E2006 as in the paper: random columns, half of the training rows private; a tenth of all for the error."""
    X, y = datasets.e2006()
    return _text_split(rng, X, y, columns, "linear")


def rcv1_split(rng: Rng, columns: int) -> TrialData:
    """RCV1 as in the paper: random columns, half of the rows private."""
    X, y = datasets.rcv1()
    return _text_split(rng, X, (y > 0).astype(float), columns, "logistic")


def _text_split(rng: Rng, X: Any, y: Floats, columns: int, task: str) -> TrialData:
    keep = np.sort(rng.permutation(X.shape[1])[:columns])
    order = rng.permutation(X.shape[0])
    cut = len(order) // 10
    test, private, public = order[:cut], order[cut : cut + (len(order) - cut) // 2], order[cut + (len(order) - cut) // 2 :]
    T, P, held = (10.0 * X[rows][:, keep] for rows in (private, public, test))
    judge: Any = partial(sparse_error_rate, held, y[test]) if task == "logistic" else partial(sparse_risk, held, y[test])
    known = {"public": P, "task": task, "spread": 100.0 / columns, "bound": 10.0, "intercept": True, "free_intercept": True}
    return TrialData(T, y[private], judge, known)


def sparse_risk(X: Any, y: Floats, w: Floats) -> float:
    return float(np.mean((predictor(X, w) - y) ** 2))


def sparse_error_rate(X: Any, y: Floats, w: Floats) -> float:
    return float(np.mean((predictor(X, w) > 0) != (y > 0.5)))


def predictor(X: Any, w: Floats) -> Floats:
    """Linear predictor; one coefficient more than columns is an intercept."""
    d = X.shape[1]
    return np.asarray(X @ w[:d]) + (w[d] if len(w) > d else 0.0)


# tian2025 ------------------------------------------------------------------------------------


def student_sparse(rng: Rng, n: int, d: int, sparsity: int, zeta: float) -> TrialData:
    """Standard normal features, s coefficients of standard normal law scaled to unit length, t noise."""
    truth = np.zeros(d)
    truth[rng.permutation(d)[:sparsity]] = rng.normal(size=sparsity)
    truth /= np.linalg.norm(truth)
    X = rng.normal(size=(n, d))
    y = X @ truth + rng.standard_t(1.75 if zeta < 1 else 3.0, size=n)
    return TrialData(X, y, partial(distance, truth), {"task": "linear"})


def genes(rng: Rng, file: str) -> TrialData:
    """A gene file: four fifths of the rows to fit, the mean absolute error on the rest."""
    if file == "nci60":
        X, y, names = datasets.nci60()
        X = (X - 6.0) / 2.0
    else:
        X, y, names = datasets.metabric()
        y = y - 4.0
    order = rng.permutation(len(X))
    cut = len(X) // 5
    judge = partial(absolute_error, X[order[:cut]], y[order[:cut]])
    return TrialData(
        X[order[cut:]], y[order[cut:]], judge, {"task": "linear", "intercept": file != "nci60", "free_intercept": True}, names
    )


def absolute_error(X: Floats, y: Floats, w: Floats) -> float:
    return float(np.mean(np.abs(y - predictor(X, w))))


# tao2022 -------------------------------------------------------------------------------------


def pareto_mean(rng: Rng, n: int, d: int, v: float) -> TrialData:
    """Pareto rows of tail index 1.1 + v: the (1 + v)-th moment exists, hardly more does."""
    index = 1.1 + v
    X = rng.pareto(index, size=(n, d)) + 1.0
    truth = np.full(d, index / (index - 1.0))
    return TrialData(X, None, partial(distance, truth), {"moment": index / (index - 1.0 - v), "order": v})


def pareto_linear(rng: Rng, n: int, d: int, v: float) -> TrialData:
    """Linear model with signed Pareto noise of tail index 1.1 + v; the error is the excess risk."""
    truth = _direction(rng, d)
    X = rng.normal(size=(n, d))
    y = X @ truth + rng.choice([-1.0, 1.0], size=n) * rng.pareto(1.1 + v, size=n)
    return TrialData(
        X, y, partial(excess_risk, truth), {"moment": _gradient_moment(v), "order": v, "loss": "squared", "task": "linear"}
    )


def pareto_sparse(rng: Rng, n: int, d: int, sparsity: int, v: float) -> TrialData:
    """The same with few coefficients."""
    truth = np.zeros(d)
    truth[rng.permutation(d)[:sparsity]] = rng.choice([-1.0, 1.0], size=sparsity) / math.sqrt(sparsity)
    X = rng.normal(size=(n, d))
    y = X @ truth + rng.choice([-1.0, 1.0], size=n) * rng.pareto(1.1 + v, size=n)
    return TrialData(X, y, partial(excess_risk, truth), {"moment": _gradient_moment(v), "order": v, "task": "linear"})


def excess_risk(truth: Floats, w: Floats) -> float:
    """Half the squared distance: the excess of the squared risk for standard normal features."""
    return float(np.sum((w - truth) ** 2) / 2.0)


@lru_cache(maxsize=8)
def _gradient_moment(v: float) -> float:
    """A bound on the (1 + v)-th moment of a gradient coordinate at 0, by simulation of the law."""
    rng = np.random.default_rng(2022)
    size = 1_000_000
    score = rng.normal(size=size) + rng.pareto(1.1 + v, size=size)
    return float(np.mean(np.abs(rng.normal(size=size) * score) ** (1.0 + v)))


def _direction(rng: Rng, d: int) -> Floats:
    w = rng.normal(size=d)
    return np.asarray(w / np.linalg.norm(w))
