"""The papers' algorithms with the noise and steps that they print.

Several of these are *not private*: the panels say which, and why, and `docs/errata.md` points to
the tests that show it. They exist to be compared with and are no part of the public estimators.
Everywhere the radicals are read as the proofs need them (``sqrt(ln(1/delta) + epsilon)``),
sums run over the data of the step, and the smoothed map is evaluated without cancellation;
otherwise these would be comparisons with typing errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from fattail import _kernels
from fattail.algorithms.parts.geometry import hard_threshold, project_ball
from fattail.privacy import epsilon_of, events
from fattail.robust import catoni
from reproduction.spec import Floats, TrialData

Rng = np.random.Generator
Gradient = Callable[[Floats, Any, Any], Floats]


def zcdp_root(epsilon: float, delta: float) -> float:
    """Square root of the rho that rho + 2 sqrt(rho ln(1/delta)) = epsilon allows."""
    log = math.log(1.0 / delta)
    return math.sqrt(log + epsilon) - math.sqrt(log)


def smoothed_sum(X: Any, r: Floats | None, scale: float, beta: float) -> Floats:
    """Mean over rows of ``scale g(r_i x_ij / scale)``."""
    total = np.zeros(X.shape[1], dtype=np.int64)
    table = catoni.smooth_map(beta)
    _kernels.smooth_sums(np.ascontiguousarray(X), r, None, np.full(X.shape[1], 1.0 / scale), table, total)
    return np.asarray(total * (scale * catoni.sup(beta) / (_kernels.UNIT * len(X))))


def derivative(loss: str, z: Floats, y: Floats) -> Floats:
    return np.asarray(z - y if loss == "squared" else expit(z) - y)


# wang2020 ------------------------------------------------------------------------------------


def trimmed_descent(
    problem: TrialData,
    seed: int,
    epsilon: float,
    delta: float,
    n_iter: int,
    step: float,
    radius: float,
    kappa: float = 4.0,
    trim: int = 10,
) -> Floats:
    """Algorithms 2 and 3: trimmed gradients with the printed scale, which is not a smooth sensitivity."""
    rng = np.random.default_rng(seed)
    X, y, loss = problem.X, problem.y, problem.known["loss"]
    n, d = X.shape
    log = math.log(1.0 / delta)
    budget = (math.sqrt(2 * log + 2 * epsilon) - math.sqrt(2 * log)) / math.sqrt(d * n_iter)
    t, s = budget**2 / 16, budget / 4
    w = np.zeros(d)
    path = np.empty((n_iter, d))
    for k in range(n_iter):
        rows = np.sort(derivative(loss, X @ w, y)[:, None] * X, axis=0)
        mean = np.clip(rows[trim : n - trim].mean(axis=0), -kappa / 2, kappa / 2)
        scale = np.maximum((rows[-1] - rows[0]) / (n - 2 * trim), math.exp(-trim * t) * kappa)
        w = path[k] = project_ball(w - step * (mean + scale / s * np.sinh(rng.normal(size=d))), radius)
    return path


def smoothed_descent(
    problem: TrialData,
    seed: int,
    epsilon: float,
    delta: float,
    n_iter: int,
    step: float,
    radius: float,
    batch: int = 0,
    failure: float = 0.01,
) -> Floats:
    """Algorithm 4; with ``batch``, its stochastic version, whose epsilon grows by n / batch for the sampling."""
    rng = np.random.default_rng(seed)
    loss, v = problem.known["loss"], problem.known["moment"]
    n, d = problem.X.shape
    m = min(batch or n, n)
    rho = zcdp_root(epsilon * n / m, delta) ** 2
    scale = math.sqrt(m * v / (2 * math.log(1 / (failure * n_iter))))
    sigma = math.sqrt(8 * v * d * n_iter / (9 * math.log(1 / failure) * m * rho))
    w = np.zeros(d)
    path = np.empty((n_iter, d))
    for k in range(n_iter):
        rows = rng.choice(n, size=m, replace=False) if m < n else slice(None)
        X, y = problem.X[rows], problem.y[rows]
        gradient = smoothed_sum(X, derivative(loss, X @ w, y), scale, math.log(1 / failure))
        w = path[k] = project_ball(w - step * (gradient + rng.normal(scale=sigma, size=d)), radius)
    return path


def smoothed_descent_spends(epsilon: float, delta: float, n_iter: int, failure: float = 0.01) -> float:
    """True epsilon of Algorithm 4: its scale and its noise have different logarithms."""
    beta = math.log(1 / failure)
    attained = math.erf(math.sqrt(beta / 2))
    rho = (attained * zcdp_root(epsilon, delta)) ** 2 * beta / math.log(1 / (failure * n_iter))
    return epsilon_of([events.GaussianEvent(1 / math.sqrt(2 * rho))], delta)


# dpem2020 ------------------------------------------------------------------------------------


def em_gradient(model: str, sigma: float) -> Gradient:
    """Rows of the gradient as printed in (5), (7) and (11): sigmoids without their factor 2."""

    def mixture(beta: Floats, Y: Floats, _: Any) -> Floats:
        return np.asarray((2 * expit(Y @ beta / sigma**2) - 1)[:, None] * Y - beta)

    def regressions(beta: Floats, X: Floats, y: Floats) -> Floats:
        line = X @ beta
        return np.asarray(((2 * expit(y * line / sigma**2) - 1) * y - line)[:, None] * X)

    def missing(beta: Floats, X: Floats, y: Floats) -> Floats:
        seen = ~np.isnan(X)
        hidden = np.where(seen, 0.0, beta)
        e = (y - np.where(seen, X, 0.0) @ beta) / (sigma**2 + np.sum(hidden**2, axis=1))
        m = np.where(seen, X, e[:, None] * hidden)
        # K beta with the printed matrix: the block of missing coordinates is the identity.
        along = m @ beta
        K = hidden + along[:, None] * m - np.where(seen, 0.0, m) * np.sum(np.where(seen, 0.0, m) * beta, axis=1)[:, None]
        return np.asarray(y[:, None] * m - K)

    return {"mixture": mixture, "regressions": regressions, "missing": missing}[model]


def clipped_em(
    problem: TrialData, seed: int, epsilon: float, delta: float, n_iter: int, step: float, clip: float, constant: float = 1.0
) -> Floats:
    """Algorithm 1, whose "some constant c" is taken as 1."""
    rng = np.random.default_rng(seed)
    known = problem.known
    gradient = em_gradient(known["model"], known["sigma"])
    n, d = problem.X.shape
    sigma = clip * math.sqrt(constant * n_iter * math.log(1 / delta)) / (n * epsilon)
    beta = known["start"]
    path = np.empty((n_iter, d))
    for k in range(n_iter):
        rows = gradient(beta, problem.X, problem.y)
        rows = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1) / clip)[:, None]
        beta = path[k] = beta + step * (rows.mean(axis=0) + rng.normal(scale=sigma, size=d))
    return path


def clipped_em_spends(epsilon: float, delta: float, constant: float = 1.0) -> float:
    """True epsilon of Algorithm 1: all steps together are one Gaussian of sensitivity 2 C / n."""
    return epsilon_of([events.GaussianEvent(math.sqrt(constant * math.log(1 / delta)) / (2 * epsilon))], delta)


def smoothed_em(
    problem: TrialData, seed: int, epsilon: float, delta: float, n_iter: int, step: float, failure: float = 0.05
) -> Floats:
    """Algorithm 2: a fresh part of the data for each step, and the first of its two noise variances."""
    rng = np.random.default_rng(seed)
    known = problem.known
    gradient = em_gradient(known["model"], known["sigma"])
    n, d = problem.X.shape
    budget, log = zcdp_root(epsilon, delta), math.log(d / failure)
    parts = np.array_split(np.arange(n), n_iter)
    m = n // n_iter
    scale = math.sqrt(m * known["moment"] * budget) / (2 * log)
    sigma = 4 * scale * math.sqrt(d) / (3 * m * budget)
    beta = known["start"]
    path = np.empty((n_iter, d))
    for k, rows in enumerate(parts):
        y = None if problem.y is None else problem.y[rows]
        mean = smoothed_sum(gradient(beta, problem.X[rows], y), None, scale, math.sqrt(log))
        beta = path[k] = beta + step * (mean + rng.normal(scale=sigma, size=d))
    return path


# tao2022 -------------------------------------------------------------------------------------


def truncated_mean(problem: TrialData, seed: int, epsilon: float, delta: float, failure: float = 0.05) -> Floats:
    """Algorithm 1, told the moment and its order; private for epsilon up to 1."""
    rng = np.random.default_rng(seed)
    u, v = problem.known["moment"], problem.known["order"]
    X = problem.X
    n, d = X.shape
    bound = (u * n * epsilon / (math.log(1 / failure) * math.sqrt(math.log(1.25 / delta)))) ** (1 / (1 + v))
    sigma = math.sqrt(8 * d * math.log(1.25 / delta)) * bound / (n * epsilon)
    mean = np.where(np.abs(X) <= bound, X, 0.0).mean(axis=0)
    return np.asarray(mean + rng.normal(scale=sigma, size=d))


def median_of_means(rows: Floats, rng: Rng, epsilon: float, delta: float, bound: float, failure: float = 0.05) -> Floats:
    """Algorithm 3, each group averaging its own rows (printed: all of them)."""
    n, d = rows.shape
    groups = math.ceil(4 * math.log(2 * d / failure))
    kept = np.where(np.abs(rows) <= bound, rows, 0.0)
    means = np.array([part.mean(axis=0) for part in np.array_split(kept, groups)])
    sigma = math.sqrt(8 * d * math.log(1.25 / delta)) * bound * groups / (epsilon * n)
    return np.asarray(np.median(means, axis=0) + rng.normal(scale=sigma, size=d))


def median_of_means_mean(problem: TrialData, seed: int, epsilon: float, delta: float) -> Floats:
    """Algorithm 3 on the rows themselves, with the bound that balances Theorem 3."""
    u, v = problem.known["moment"], problem.known["order"]
    n, d = problem.X.shape
    bound = (u * epsilon * n / math.sqrt(d * math.log(1 / delta))) ** (1 / (1 + v))
    return median_of_means(problem.X, np.random.default_rng(seed), epsilon, delta, bound)


def median_of_means_descent(
    problem: TrialData, seed: int, epsilon: float, delta: float, n_iter: int, step: float, radius: float
) -> Floats:
    """Algorithm 2, convex branch: all data in every step, the budget split by Lemma 1."""
    rng = np.random.default_rng(seed)
    u, v, loss = problem.known["moment"], problem.known["order"], problem.known["loss"]
    X, y = problem.X, problem.y
    n, d = X.shape
    each, failure = epsilon / (2 * math.sqrt(2 * n_iter * math.log(2 / delta))), delta / (2 * n_iter)
    bound = (u * each * n / math.sqrt(d * math.log(1 / failure))) ** (1 / (1 + v))
    w = np.zeros(d)
    path = np.empty((n_iter, d))
    for k in range(n_iter):
        rows = derivative(loss, X @ w, y)[:, None] * X
        w = path[k] = project_ball(w - step * median_of_means(rows, rng, each, failure, bound), radius)
    return np.asarray(path.mean(axis=0))


def peeling(v: Floats, sparsity: int, noise: float, rng: Rng) -> Floats:
    """Algorithm 4 of tao2022, Algorithm 2 of tian2025: Laplace noise on every look and on what is kept."""
    chosen = np.zeros(len(v), dtype=bool)
    for _ in range(sparsity):
        score = np.where(chosen, -np.inf, np.abs(v) + rng.laplace(scale=noise, size=len(v)))
        chosen[np.argmax(score)] = True
    return np.where(chosen, v + rng.laplace(scale=noise, size=len(v)), 0.0)


def truncated_thresholding(
    problem: TrialData, seed: int, epsilon: float, delta: float, sparsity: int, n_iter: int, step: float
) -> Floats:
    """Algorithm 5: truncated gradients of a fresh part of the data, then peeling."""
    rng = np.random.default_rng(seed)
    u, v = problem.known["moment"], problem.known["order"]
    n, d = problem.X.shape
    m = n // n_iter
    bound = (u * n * epsilon / (n_iter * math.log(d * n_iter) * math.sqrt(sparsity * math.log(1 / delta)))) ** (1 / (1 + v))
    noise = 4 * (2 * bound * step / m) * math.sqrt(2 * sparsity * math.log(1 / delta)) / epsilon
    w = np.zeros(d)
    for rows in np.array_split(np.arange(n), n_iter):
        X = problem.X[rows]
        terms = (X @ w - problem.y[rows])[:, None] * X
        w = peeling(w - step * np.where(np.abs(terms) <= bound, terms, 0.0).mean(axis=0), sparsity, noise, rng)
    return w


# tian2025 ------------------------------------------------------------------------------------


def thresholding(
    problem: TrialData,
    seed: int,
    epsilon: float,
    delta: float,
    sparsity: int,
    n_iter: int,
    loss: str,
    step: float = 0.01,
    tau: float = 1.0,
    radius: float = 10.0,
) -> Floats:
    """Algorithm 1 (``loss="huber"``, sensitivity halved as printed) or 3 (``"absolute"``), descending."""
    rng = np.random.default_rng(seed)
    n, d = problem.X.shape
    m, K = n // n_iter, math.log(d)
    slope = tau if loss == "huber" else 1.0
    noise_scale = step * tau * K / m if loss == "huber" else 2 * step * K / m
    noise = 2 * noise_scale * math.sqrt(3 * sparsity * math.log(1 / delta)) / epsilon
    w = np.zeros(d)
    for rows in np.array_split(np.arange(n), n_iter):
        X = np.clip(problem.X[rows], -K, K)
        r = problem.y[rows] - X @ w
        psi = np.clip(r, -slope, slope) if loss == "huber" else np.sign(r)
        w = project_ball(peeling(w + step * (psi @ X) / len(rows), sparsity, noise, rng), radius)
    return w


def squared_thresholding(
    problem: TrialData,
    seed: int,
    epsilon: float,
    delta: float,
    sparsity: int,
    n_iter: int,
    step: float = 0.01,
    radius: float = 10.0,
) -> Floats:
    """DP-SLR (cai2021): squared loss on clipped responses, all data in every step, epsilon / T for each."""
    rng = np.random.default_rng(seed)
    n, d = problem.X.shape
    K, R = math.log(d), math.sqrt(2 * math.log(n))
    X, y = np.clip(problem.X, -K, K), np.clip(problem.y, -R, R)
    each, failure = epsilon / n_iter, delta / n_iter
    # A record's gradient is at most K (R + |<x, w>|); the prediction is clipped to R to make that so.
    noise = 2 * (step * 4 * K * R / n) * math.sqrt(3 * sparsity * math.log(1 / failure)) / each
    w = np.zeros(d)
    for _ in range(n_iter):
        r = y - np.clip(X @ w, -R, R)
        w = project_ball(peeling(w + step * (r @ X) / n, sparsity, noise, rng), radius)
    return w


# wanggu2020 ----------------------------------------------------------------------------------


def thresholded_descent(X: Any, Y: Floats, sparsity: int, n_iter: int, step: float, penalties: Floats, task: str) -> Floats:
    """IGHT: gradient steps, each cut to its largest coordinates; a column of responses and of coefficients per penalty."""
    W = np.zeros((X.shape[1], len(penalties)))
    for _ in range(n_iter):
        Z = X @ W
        R = (Z - Y) if task == "linear" else expit(Z) - Y
        W -= step * (X.T @ R / len(Y) + penalties * W)
        W = np.column_stack([hard_threshold(w, sparsity) for w in W.T])
    return W


def knowledge_transfer(problem: TrialData, seed: int, epsilon: float, delta: float, sparsity: int, n_iter: int = 30) -> Floats:
    """Algorithm 1: IGHT teacher, noisy labels on public features (Theorem 4.3), IGHT student.

    The penalty is chosen on held-out private rows and the bound on gradients is read from the
    data, as in the paper; neither is private, and the teacher's sensitivity is not what the
    theorem says.
    """
    rng = np.random.default_rng(seed)
    X, y, known = problem.X, problem.y[:, None], problem.known
    n, d = X.shape
    public, task, spread = known["public"], known["task"], known["spread"]
    m = public.shape[0]
    step = 1.0 / spectral(X, rng) if task == "linear" else 4.0 / spectral(X, rng)
    student_step = 1.0 / spectral(public, rng)
    held, taught = slice(n // 5), slice(n // 5, n)
    penalties = np.array([1e-3, 1e-2, 1e-1, 1.0, 10.0]) * math.sqrt(sparsity * math.log(d) * math.log(1 / delta)) / (n * epsilon)
    teachers = thresholded_descent(X[taught], y[taught], sparsity, n_iter, step, penalties, task)
    z = X[taught] @ teachers
    bound = known["bound"] * np.max(np.abs((z if task == "linear" else expit(z)) - y[taught]), axis=0)
    variance = 8 * m * spread * sparsity * bound**2 * math.log(2.5 / delta) / (n * epsilon * penalties) ** 2
    labels = public @ teachers + rng.normal(size=(m, len(penalties))) * np.sqrt(variance)
    students = thresholded_descent(public, labels, sparsity, n_iter, student_step, np.zeros(len(penalties)), "linear")
    z = X[held] @ students
    risk = np.mean((z - y[held]) ** 2 if task == "linear" else np.logaddexp(0, z) - y[held] * z, axis=0)
    return np.asarray(students[:, np.argmin(risk)])


def spectral(X: Any, rng: Rng) -> float:
    """Largest eigenvalue of X'X / n, by power iteration."""
    v = rng.normal(size=X.shape[1])
    for _ in range(15):
        v = X.T @ (X @ v)
        v /= np.linalg.norm(v)
    return float(np.linalg.norm(X @ v) ** 2 / X.shape[0])
