"""The methods that the papers compare with, on the same footing: private units, all rows, exact composition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._registry import registered
from fattail.algorithms.common.iht import UNITS, Options, Peeling, Units, hard_thresholding, residual_rows
from fattail.algorithms.common.support_fit import typical
from fattail.algorithms.wanggu2020 import ridge_teacher
from fattail.data import Block, PrivateData
from fattail.geometry import cross_polytope_vertex, hard_threshold, project_ball, top_indices
from fattail.losses import Huber, Loss, Squared
from fattail.privacy import Bounded, Curator, Gaussian, TopK
from fattail.robust import Ball, Clip
from fattail.robust.blocks import block_estimates

Floats = NDArray[np.float64]
BOTH = ("DPSparseRegressor", "DPSparseClassifier")
TEST = "tests/estimators/test_sparse.py::test_fuzz"


@registered(
    "iht_squared",
    estimators=("DPSparseRegressor",),
    paper="cai2021",
    algorithm="DP-SLR",
    changed="exact calibration in place of a lemma for epsilon <= 0.5 and s >= 10; all rows at each step",
    test=TEST,
)
def iht_squared(curator: Curator, data: PrivateData, options: Options) -> tuple[Floats, float]:
    """Hard thresholding on the squared loss with clipped responses and predictions (Cai, Wang and Zhang 2021)."""
    n_iter, loss = options.n_iter or 6, Squared()
    units, peeling = Units(options, loss), Peeling.planned(options, n_iter)
    curator.plan(*units.mechanisms, peeling.select, peeling.release)
    K, tau, level = units.find(curator, data)
    R = 4 * tau if options.response_clip is None else tau  # the method assumes light tails: clip far out

    def gradient(w: Floats, fold: Any) -> Bounded:
        def rows(b: Block) -> tuple[Any, Floats]:
            return b.X, np.clip(b.dot(w), -R, R) - np.clip(-loss.derivative(np.full(len(b), level), b.y), -R, R)

        return Clip(bound=2 * R * K).mean(data, rows, fold)

    steps = [(2 / K**2 * (options.step or 1.0), fold) for fold in options.folds(data, n_iter)]
    return hard_thresholding(curator, peeling, gradient, data.d, steps, options.radius), level


@registered(
    "ight",
    estimators=BOTH,
    paper="wanggu2019",
    algorithm="DP-IGHT",
    changed="gradients are clipped, not assumed bounded; exact composition of all steps",
    test=TEST,
)
def dp_ight(curator: Curator, data: PrivateData, loss: Loss, options: Options) -> tuple[Floats, float]:
    """Gradient hard thresholding with Gaussian noise on all d coordinates (Wang and Gu 2019)."""
    n_iter = options.n_iter or 6
    units = Units(options, loss)
    length = TopK("length of a gradient", UNITS)
    release = Gaussian("gradient", count=n_iter, folds=options.splitting)
    curator.plan(*units.mechanisms, length, release)
    K, _, level = units.find(curator, data)

    def lengths(b: Block) -> Floats:
        X = b.X.multiply(b.X).sum(axis=1) if hasattr(b.X, "multiply") else np.einsum("ij,ij->i", b.X, b.X)
        return np.sqrt(np.asarray(X, dtype=np.float64).ravel()) * np.abs(loss.derivative(np.full(len(b), level), b.y))

    radius = typical(curator, length, data, lengths, 0.5)
    step = (1 / loss.curvature) * 3 / K**2 * (options.step or 1.0)
    w = np.zeros(data.d)
    for fold in options.folds(data, n_iter):
        noisy = curator.release(release, w - step * Ball(radius=radius).mean(data, residual_rows(loss, w, level), fold))
        w = project_ball(hard_threshold(noisy, options.sparsity), options.radius)
    return w, level


@registered(
    "frank_wolfe",
    estimators=BOTH,
    paper="talwar2015",
    algorithm="private Frank-Wolfe",
    changed="Gumbel selection over the 2d vertices with exact composition in place of Laplace noisy minima",
    test=TEST,
)
def frank_wolfe(curator: Curator, data: PrivateData, loss: Loss, options: Options) -> tuple[Floats, float]:
    """Frank-Wolfe on an l1 ball, each vertex chosen by the exponential mechanism (Talwar, Thakurta and Zhang 2015).

    The ball's radius, unless given, is that of ``sparsity`` equal coefficients that explain a
    response of private size; the result is cut to ``sparsity`` entries.
    """
    n_iter, d = options.n_iter or int(np.clip(3 * options.sparsity, 10, 60)), data.d
    units, choose = Units(options, loss), TopK("vertex", count=n_iter, folds=options.splitting)
    curator.plan(*units.mechanisms, choose)
    K, tau, level = units.find(curator, data)
    size = tau if math.isinf(loss.slope) else 2.0
    radius = options.radius if math.isfinite(options.radius) else math.sqrt(options.sparsity) * size * 2 / K
    both = np.concatenate([np.arange(d), np.arange(d)])
    signs = np.repeat([-1.0, 1.0], d)
    # Where the loss has no slope, residuals are clipped at tau: its Huber version.
    slope: Loss = Huber(tau) if math.isinf(loss.slope) else loss
    w = np.zeros(d)
    for t, fold in enumerate(options.folds(data, n_iter)):
        gradient = Clip(bound=tau * K).mean(data, residual_rows(slope, w, level), fold)
        vertex = int(curator.select(choose, (gradient[both] * signs).evaluated())[0])
        w += (options.step or 1.0) * 2 / (t + 2) * (cross_polytope_vertex(vertex, d, radius) - w)
    return hard_threshold(w, options.sparsity), level


@registered(
    "two_stage",
    estimators=BOTH,
    paper="kifer2012",
    algorithm="two-stage",
    changed="blocks vote by marginal scores instead of by a lasso each; a contraction bounds the second stage, so no "
    "convergence is assumed",
    test=TEST,
)
def two_stage(curator: Curator, data: PrivateData, loss: Loss, options: Options) -> tuple[Floats, float]:
    """Columns that most blocks of rows vote for, then a private ridge fit on them (Kifer, Smith and Thakurta 2012).

    Deviations: a block votes for the columns with its largest marginal scores; the second
    stage perturbs the output of regularised descent rather than its objective, with the same
    rate and without the need to reach the minimum.
    """
    s, blocks = options.sparsity, max(1, round(math.sqrt(data.n)))
    units = Units(options, loss)
    select, release = TopK("support", 0.5, k=s), Gaussian("coefficients", 0.5)
    curator.plan(*units.mechanisms, select, release)
    K, tau, level = units.find(curator, data)

    def table(b: Block) -> Floats:
        X = b.X.toarray() if hasattr(b.X, "toarray") else b.X
        response = np.clip(-loss.derivative(np.full(len(b), level), b.y), -tau, tau)
        return np.column_stack([np.clip(X, -K, K), response])

    def vote(rows: Floats) -> Floats:
        ballot = np.zeros(data.d)
        ballot[top_indices(rows[:, :-1].T @ rows[:, -1], s)] = 1.0
        return ballot

    votes = Clip(center=0.5, bound=0.5).mean(block_estimates(data, table, vote, blocks, data.d))
    support = np.sort(curator.select(select, votes.magnitudes()))
    teacher = ridge_teacher(curator, release, data, loss, support, K, tau, level)
    w = np.zeros(data.d)
    w[support] = curator.release(release, teacher.fit(data))
    return w, level
