"""Wang and Gu (2019): DP-IGHT."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.algorithms.parts.geometry import hard_threshold, project_ball
from fattail.algorithms.parts.iht import UNITS, Options, SparseUnits, residual_rows
from fattail.algorithms.parts.support_fit import squared_lengths, typical
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.losses import Loss
from fattail.privacy import Curator, Gaussian, TopK
from fattail.robust import Ball
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@registered(
    "ight",
    estimators=Offered("sparse"),
    paper="wanggu2019",
    algorithm="DP-IGHT",
    changed="gradients are clipped, not assumed bounded; exact composition of all steps",
    test="tests/estimators/test_sparse.py::test_fuzz",
)
def dp_ight(curator: Curator, data: PrivateData, loss: Loss, options: Options) -> tuple[Floats, float]:
    """Gradient hard thresholding with Gaussian noise on all d coordinates (Wang and Gu 2019)."""
    n_iter = options.n_iter or 6
    units = SparseUnits(options, loss)
    length = TopK("length of a gradient", UNITS)
    release = Gaussian("gradient", count=n_iter, folds=options.splitting)
    curator.plan(*units.mechanisms, length, release)
    K, _, level = units.find(curator, data)

    ones = np.ones(data.d)  # a pass must not keep a reference to the rows

    def lengths(b: Block) -> Floats:
        squares = squared_lengths(b.X, ones) if hasattr(b.X, "multiply") else _kernels.row_dots(b.X, b.X)
        return np.sqrt(squares) * np.abs(loss.derivative(np.full(len(b), level), b.y))

    radius = typical(curator, length, data, lengths, 0.5)
    step = (1 / loss.curvature) * 3 / K**2 * (options.step or 1.0)
    w = np.zeros(data.d)
    for fold in options.folds(curator, data.n, n_iter):
        noisy = curator.release(release, w - step * Ball(radius=radius).mean(data, residual_rows(loss, w, level), fold))
        w = project_ball(hard_threshold(noisy, options.sparsity), options.radius)
    return w, level
