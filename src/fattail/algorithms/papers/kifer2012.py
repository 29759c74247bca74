"""Kifer, Smith and Thakurta (2012): two-stage selection and fit."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.papers.wanggu2020 import TEACHER_NEEDS, ridge_teacher
from fattail.algorithms.parts.geometry import top_indices
from fattail.algorithms.parts.iht import Options, SparseUnits
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.losses import Loss
from fattail.privacy import Curator, Gaussian, TopK
from fattail.robust import Clip
from fattail.robust.blocks import block_estimates
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@registered(
    "two_stage",
    estimators=Offered("sparse"),
    paper="kifer2012",
    algorithm="two-stage",
    changed="blocks vote by marginal scores instead of by a lasso each; a contraction bounds the second stage, so no "
    "convergence is assumed",
    test="tests/estimators/test_sparse.py::test_fuzz",
    needs=TEACHER_NEEDS,
)
def two_stage(curator: Curator, data: PrivateData, loss: Loss, options: Options) -> tuple[Floats, float]:
    """Columns that most blocks of rows vote for, then a private ridge fit on them (Kifer, Smith and Thakurta 2012).

    Deviations: a block votes for the columns with its largest marginal scores; the second
    stage perturbs the output of regularized descent rather than its objective, with the same rate, and without having to reach
    the minimum.
    """
    s, blocks = options.sparsity, max(1, round(math.sqrt(data.n)))
    units = SparseUnits(options, loss)
    select, release = TopK("support", 0.5, k=s), Gaussian("coefficients", 0.5)
    curator.plan(*units.mechanisms, select, release)
    K, tau, level = units.find(curator, data)

    def table(b: Block) -> Floats:
        X = np.asarray(b.X.toarray() if hasattr(b.X, "toarray") else b.X, dtype=np.float64)
        response = np.clip(-loss.derivative(np.full(len(b), level), b.y), -tau, tau)
        return np.column_stack([np.clip(X, -K, K), response])

    def vote(rows: Floats, shares: Floats) -> Floats:
        ballot = np.zeros(data.d)
        ballot[top_indices(rows[:, :-1].T @ (shares * rows[:, -1]), s)] = 1.0
        return ballot

    votes = Clip(center=0.5, bound=0.5).mean(block_estimates(data, curator.folds(data.n, blocks), table, vote, data.d))
    support = np.sort(curator.select(select, votes.magnitudes()))
    teacher = ridge_teacher(curator, release, data, loss, support, K, tau, level)
    w = np.zeros(data.d)
    w[support] = curator.release(release, teacher.fit(data))
    return w, level
