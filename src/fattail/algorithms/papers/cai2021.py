"""Cai, Wang and Zhang (2021): DP-SLR."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.iht import Options, Peeling, SparseUnits, hard_thresholding
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.losses import Needs, Squared
from fattail.privacy import Bounded, Curator
from fattail.robust import Clip
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@registered(
    "iht_squared",
    estimators=Offered("sparse", "numbers"),
    paper="cai2021",
    algorithm="DP-SLR",
    changed="exact calibration in place of a lemma for epsilon <= 0.5 and s >= 10; all rows at each step",
    test="tests/estimators/test_sparse.py::test_fuzz",
    needs=Needs(only=(Squared,)),
)
def iht_squared(curator: Curator, data: PrivateData, options: Options) -> tuple[Floats, float]:
    """Hard thresholding on the squared loss with clipped responses and predictions (Cai, Wang and Zhang 2021)."""
    n_iter, loss = options.n_iter or 6, Squared()
    units, peeling = SparseUnits(options, loss), Peeling.planned(options, n_iter)
    curator.plan(*units.mechanisms, peeling.select, peeling.release)
    K, tau, level = units.find(curator, data)
    R = 4 * tau if options.response_clip is None else tau  # the method assumes light tails, so the clip is wide

    def gradient(w: Floats, fold: Any) -> Bounded:
        def rows(b: Block) -> tuple[Any, Floats]:
            return b.X, np.clip(b.dot(w), -R, R) - np.clip(-loss.derivative(np.full(len(b), level), b.y), -R, R)

        return Clip(bound=2 * R * K).mean(data, rows, fold)

    steps = [(2 / K**2 * (options.step or 1.0), fold) for fold in options.folds(curator, data.n, n_iter)]
    return hard_thresholding(curator, peeling, gradient, data.d, steps, options.radius), level
