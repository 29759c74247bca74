"""Talwar, Thakurta and Zhang (2015): private Frank-Wolfe."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.geometry import cross_polytope_vertex, hard_threshold
from fattail.algorithms.parts.iht import Options, SparseUnits, residual_rows
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.losses import Huber, Loss, Needs, Squared
from fattail.privacy import Curator, TopK
from fattail.robust import Clip
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]


@registered(
    "frank_wolfe",
    estimators=Offered("sparse"),
    paper="talwar2015",
    algorithm="private Frank-Wolfe",
    changed="Gumbel selection over the 2d vertices with exact composition in place of Laplace noisy minima",
    test="tests/estimators/test_sparse.py::test_fuzz",
    # The squared loss is replaced by its Huber version; other losses without a bounded slope are refused.
    needs=Needs(slope=True, besides=(Squared,)),
)
def frank_wolfe(curator: Curator, data: PrivateData, loss: Loss, options: Options) -> tuple[Floats, float]:
    """Frank-Wolfe on an l1 ball, each vertex chosen by the exponential mechanism (Talwar, Thakurta and Zhang 2015).

    The ball's radius, unless given, is that of ``sparsity`` equal coefficients that explain a
    response of private size; the result is cut to ``sparsity`` entries.
    """
    n_iter, d = options.n_iter or int(np.clip(3 * options.sparsity, 10, 60)), data.d
    units, choose = SparseUnits(options, loss), TopK("vertex", count=n_iter, folds=options.splitting)
    curator.plan(*units.mechanisms, choose)
    K, tau, level = units.find(curator, data)
    size = 2.0 if loss.promise.target == "labels" else tau
    radius = options.radius if math.isfinite(options.radius) else math.sqrt(options.sparsity) * size * 2 / K
    both = np.concatenate([np.arange(d), np.arange(d)])
    signs = np.repeat([-1.0, 1.0], d)
    # If the loss has no bounded slope, residuals are clipped at tau: the Huber loss.
    slope: Loss = Huber(tau) if math.isinf(loss.slope) else loss
    w = np.zeros(d)
    for t, fold in enumerate(options.folds(curator, data.n, n_iter)):
        gradient = Clip(bound=tau * K).mean(data, residual_rows(slope, w, level), fold)
        vertex = int(curator.select(choose, (gradient[both] * signs).evaluated())[0])
        w += (options.step or 1.0) * 2 / (t + 2) * (cross_polytope_vertex(vertex, d, radius) - w)
    return hard_threshold(w, options.sparsity), level
