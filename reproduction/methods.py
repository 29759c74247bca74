"""The library's estimators as the curves of a panel: calibrated, auto, and baselines without privacy.

A calibrated method is told what its paper assumes known (moments, noise level, radius, sparsity)
and uses the same number of steps as the printed one; auto is told nothing but the sparsity.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import fattail
from fattail.algorithms.parts.geometry import project_ball
from fattail.privacy import Curator, SubsampledGaussian
from fattail.robust import Smooth, catoni
from fattail.rows.data import Block, PrivateData
from reproduction.printed import derivative, smoothed_sum
from reproduction.spec import Floats, Steps, TrialData

BETA = 4.6
"""Concentration of the smoothed map, ln 100."""


def mean(problem: TrialData, seed: int, epsilon: float, delta: float, method: str) -> Floats:
    """A paper's mean, told the moment that the paper assumes known."""
    known = problem.known
    model = fattail.DPMean(
        epsilon=epsilon, delta=delta, method=method, random_state=seed, moment=1.0 + known["order"], moment_bound=known["moment"]
    )
    return np.asarray(model.fit(problem.X).mean_)


def mean_auto(problem: TrialData, seed: int, epsilon: float, delta: float) -> Floats:
    return np.asarray(fattail.DPMean(epsilon=epsilon, delta=delta, random_state=seed).fit(problem.X).mean_)


def sample_mean(problem: TrialData, seed: int) -> Floats:
    return np.asarray(problem.X.mean(axis=0))


_LATENT = {"mixture": "DPGaussianMixture", "regressions": "DPMixtureOfRegressions", "missing": "DPMissingCovariateRegression"}


def mixture(
    problem: TrialData, seed: int, epsilon: float, delta: float, n_iter: int, step: float, method: str, clip: float = 1.0
) -> Floats:
    """Algorithms 1 and 2 of dpem2020, calibrated: the released iterates, the last being the answer."""
    known = problem.known
    told: dict[str, Any] = {"clip": clip} if method == "clipped" else {}
    model = getattr(fattail, _LATENT[known["model"]])(
        epsilon=epsilon,
        delta=delta,
        method=method,
        noise_scale=known["sigma"],
        init=known["start"],
        n_iter=n_iter,
        step=step,
        random_state=seed,
        **told,
    )
    return _path(_fit(model, problem), model)


def mixture_auto(problem: TrialData, seed: int, epsilon: float, delta: float) -> Floats:
    kind = problem.known["model"]
    options = {"symmetric": True} if kind == "mixture" else {}
    model = getattr(fattail, _LATENT[kind])(epsilon=epsilon, delta=delta, random_state=seed, **options)
    return np.asarray(_fit(model, problem).coef_)


def _fit(model: Any, problem: TrialData) -> Any:
    return model.fit(problem.X) if problem.y is None else model.fit(problem.X, problem.y)


def _path(fitted: Any, model: Any) -> Floats:
    path = np.array(fitted.path_, dtype=float)
    path[-1] = fitted.coef_
    return path


PROBES = (1, 3, 8, 20)


def regression(
    problem: TrialData, seed: int, epsilon: float, delta: float, n_iter: int, step: float, radius: float, method: str
) -> Floats:
    """A paper's descent, calibrated. It finds its own units, so the step is in units of the curvature."""
    return _linear(problem, epsilon=epsilon, delta=delta, method=method, n_iter=n_iter, radius=radius, random_state=seed)


def regression_by_steps(
    problem: TrialData, seed: int, epsilon: float, delta: float, n_iter: int, step: float, radius: float, method: str
) -> Steps:
    """One whole fit for each of a few numbers of steps, each with the whole budget."""
    after = (*(t for t in PROBES if t < n_iter), n_iter)
    return Steps(after, np.array([regression(problem, seed + t, epsilon, delta, t, step, radius, method) for t in after]))


def stochastic_smoothed(
    problem: TrialData, seed: int, epsilon: float, delta: float, n_iter: int, step: float, radius: float, batch: int
) -> Floats:
    """Algorithm 4 of wang2020 on secret Poisson samples, with exact accounting of the sampling."""
    data = PrivateData(problem.X, problem.y)
    curator = Curator(epsilon, delta, random_state=seed)
    mechanism = SubsampledGaussian("gradient", count=n_iter, rate=min(1.0, batch / data.n))
    curator.plan(mechanism)
    noise = curator.noise(mechanism, 2 * catoni.sup(BETA) * math.sqrt(data.d) / batch)
    bounded = Smooth(scale=math.sqrt(problem.known["moment"] / (2 * noise)), beta=BETA)
    w = np.zeros(data.d)
    path = np.empty((n_iter, data.d))
    for k in range(n_iter):
        sample = curator.sample_rows(mechanism, data.n)
        rows = partial(_gradient_rows, problem.known["loss"], w)
        w = path[k] = project_ball(w - step * curator.release(mechanism, bounded.mean(data, rows, sample).to("l2")), radius)
    return path


def _gradient_rows(loss: str, w: Floats, block: Block) -> tuple[Any, Floats]:
    return block.X, derivative(loss, block.X @ w, np.asarray(block.y))


def regression_auto(problem: TrialData, seed: int, epsilon: float, delta: float) -> Floats:
    return _linear(problem, epsilon=epsilon, delta=delta, random_state=seed)


def _linear(problem: TrialData, **options: Any) -> Floats:
    """Coefficients of a linear model; that of a constant last column is the intercept."""
    kind = fattail.DPLinearRegression if problem.known["loss"] == "squared" else fattail.DPLogisticRegression
    constant = bool(problem.known.get("constant"))
    X = problem.X[:, :-1] if constant else problem.X
    return _coefficients(kind(fit_intercept=constant, **options).fit(X, problem.y), constant)


def _coefficients(model: Any, intercept: bool) -> Floats:
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_)[:1] if intercept else [])


def gradient_em(problem: TrialData, seed: int, n_iter: int, step: float) -> Floats:
    known = problem.known
    names = {"mixture": "gaussian_mixture", "regressions": "mixture_of_regressions", "missing": "missing_covariates"}
    model = fattail.baselines.GradientEM(
        model=names[known["model"]], noise_scale=known["sigma"], n_iter=n_iter, step=step, init=known["start"]
    )
    return np.asarray(_fit(model, problem).path_)


def robust_descent(problem: TrialData, seed: int, n_iter: int, step: float, radius: float, batch: int = 0) -> Floats:
    """RGD as wang2020 has it (Holland 2019): descent on smoothed means of gradients, of a batch if one is given; no noise."""
    rng = np.random.default_rng(seed)
    n, d = problem.X.shape
    m = min(batch or n, n)
    scale = math.sqrt(m * problem.known["moment"] / (2 * BETA))
    w = np.zeros(d)
    path = np.empty((n_iter, d))
    for k in range(n_iter):
        rows = rng.choice(n, size=m, replace=False) if m < n else slice(None)
        X, y = problem.X[rows], problem.y[rows]
        gradient = smoothed_sum(X, derivative(problem.known["loss"], X @ w, y), scale, BETA)
        w = path[k] = project_ball(w - step * gradient, radius)
    return path


def sparse(
    problem: TrialData, seed: int, epsilon: float, delta: float, sparsity: int, method: str, radius: float | None = None
) -> Floats:
    """A sparse model, told the sparsity, the radius of a paper, and public rows where they are used."""
    kind = fattail.DPSparseRegressor if problem.known["task"] == "linear" else fattail.DPSparseClassifier
    intercept = bool(problem.known.get("intercept"))
    told: dict[str, Any] = {"public_features": problem.known["public"]} if method == "knowledge_transfer" else {}
    if method.startswith("iht"):
        told["radius"] = radius
    told |= {"sparsity": sparsity, "method": method, "fit_intercept": intercept}
    model = kind(epsilon=epsilon, delta=delta, random_state=seed, **told)
    return _coefficients(model.fit(problem.X, problem.y), intercept)


def ight(problem: TrialData, seed: int, sparsity: int) -> Floats:
    loss = "squared" if problem.known["task"] == "linear" else "logistic"
    model = fattail.baselines.IGHT(sparsity=sparsity, loss=loss).fit(problem.X, problem.y)
    return _coefficients(model, bool(problem.known.get("free_intercept")))


def ada_huber(problem: TrialData, seed: int, sparsity: int) -> Floats:
    model = fattail.baselines.AdaHuber(sparsity=sparsity).fit(problem.X, problem.y)
    return _coefficients(model, bool(problem.known.get("free_intercept")))
