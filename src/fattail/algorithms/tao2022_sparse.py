"""tao2022, sparse part: Algorithm 5 on the peeling of Algorithm 4."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._registry import registered
from fattail.algorithms.iht import Options, Peeling, Units, hard_thresholding, residual_rows
from fattail.algorithms.support_fit import typical
from fattail.data import Block, PrivateData
from fattail.losses import Loss
from fattail.privacy import Bounded, Curator, TopK
from fattail.robust import Truncate

Floats = NDArray[np.float64]


@registered(
    "iht_truncated",
    estimators=("DPSparseRegressor", "DPSparseClassifier"),
    paper="tao2022",
    algorithm="Algorithm 5",
    changed="all rows at each step; Gumbel selection and Gaussian release in place of Laplace peeling (Algorithm 4)",
    test="tests/estimators/test_sparse.py::test_fuzz",
)
def iht_truncated(curator: Curator, data: PrivateData, loss: Loss, options: Options) -> tuple[Floats, float]:
    """Hard thresholding on coordinatewise truncated gradients (Algorithm 5), for any loss of a linear model.

    Deviations: rows are not split unless asked; the truncation ``B`` is a multiple of private
    units in place of a formula in unknown moments.
    """
    n_iter = options.n_iter or 6
    units, peeling = Units(options, loss), Peeling.planned(options, n_iter)
    curator.plan(*units.mechanisms, peeling.select, peeling.release)
    K, tau, level = units.find(curator, data)
    # Truncation throws away what exceeds it, so it starts where clipping would end.
    bound = (2.0 if math.isinf(loss.slope) else 1.0) * tau * K
    step = (2 / loss.curvature) / K**2 * (options.step or 1.0)

    def gradient(w: Floats, fold: Any) -> Bounded:
        return Truncate(bound=bound).mean(data, residual_rows(loss, w, level), fold)

    steps = [(step, fold) for fold in options.folds(data, n_iter)]
    return hard_thresholding(curator, peeling, gradient, data.d, steps, options.radius), level


def sparse_mean(curator: Curator, data: PrivateData, sparsity: int, bound: float | None = None) -> Floats:
    """Mean of rows of which few coordinates are not zero (Algorithm 5 for ``|x - w|^2 / 2``).

    One step of length 1 from 0 lands on the truncated mean, so one peeling with the whole
    budget is all there is to do. ``bound`` is the truncation; without it, twice the private
    size of a row's largest entry.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.data import PrivateData
    >>> from fattail.privacy import Curator
    >>> X = np.random.default_rng(0).standard_t(3, (20000, 50)) + 3 * (np.arange(50) == 7)
    >>> np.flatnonzero(sparse_mean(Curator(1.0, 1e-6, random_state=0), PrivateData(X), 1))
    array([7])
    """
    size = TopK("largest entry", 0.1)
    peeling = Peeling.planned(Options(sparsity), 1)
    curator.plan(*((size,) if bound is None else ()), peeling.select, peeling.release)

    def largest(block: Block) -> Floats:
        X = block.X.toarray() if hasattr(block.X, "toarray") else block.X
        return np.asarray(np.max(np.abs(X), axis=1))

    bound = 2 * typical(curator, size, data, largest, 0.75) if bound is None else bound
    return peeling(curator, Truncate(bound=bound).mean(data))
