"""Tao, Wu, Cheng and Wang (IJCAI 2022): heavy tails with only a (1+v)-th moment.

Algorithm 1 is ``truncated_mean``, Algorithm 2 ``median_of_means_descent``, Algorithm 3 ``median_of_means``,
Algorithm 4 the peeling of ``iht.Peeling``, Algorithm 5 ``iht_truncated``.

=======  ====================================  ===============================================
paper    here                                  where
=======  ====================================  ===============================================
1 + v    ``moment``                            Algorithm 1, line 1
u        ``moment_bound``                      Algorithm 1, line 1
B        ``bound``                             Algorithm 1, line 1; Algorithm 5, line 5
mu~      ``value``                             Algorithm 1, line 3; Algorithm 3, line 12
m        ``groups``                            Algorithm 3, line 1
tau      ``clip``, of whole rows               Algorithm 2, line 8; Algorithm 3, line 5
X_t      ``fold``                              Algorithm 2, lines 3 and 5; Algorithm 5, line 1
eta, T   ``descent.step``, ``descent.n_iter``  Algorithm 2, lines 1 and 9
Proj_W   ``descent.move``                      Algorithm 2, line 9
s        ``options.sparsity``, in ``Peeling``  Algorithm 4
g~^t     ``gradient``                          Algorithm 5, line 8
eta_0    ``step``                              Algorithm 5, line 9
Peeling  ``peeling``                           Algorithm 5, line 10
=======  ====================================  ===============================================
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.defaults import DESCENT_SHARE, is_auto
from fattail.algorithms.parts.estimates import Estimate, additive, noise_std, per_column
from fattail.algorithms.parts.iht import Options, Peeling, SparseUnits, hard_thresholding, residual_rows
from fattail.algorithms.parts.linear_rows import DESCENT_NEEDS, LINEAR, TEST, Descent, LinearFit, Target, Units, prepare
from fattail.algorithms.parts.pilot import locations_alone, run_pilot
from fattail.algorithms.parts.support_fit import typical
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.losses import Loss, Squared
from fattail.privacy import Bounded, Curator, Gaussian, Laplace, TopK
from fattail.robust import Ball, Clip, MedianOfMeans, Truncate
from fattail.robust.base import Robustifier
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@registered(
    "truncated",
    estimators=("DPMean",),
    paper="tao2022",
    algorithm="Algorithm 1",
    changed="clips instead of zeroing, exact calibration for any epsilon, bound from the actual noise; "
    "NaN-safe; without a moment bound, center and bound are private estimates",
    test="tests/estimators/test_means.py::test_fuzz[truncated]",
)
def truncated_mean(curator: Curator, data: PrivateData, moment: float = 2.0, moment_bound: Any = "auto") -> Estimate:
    """Noisy mean of the values truncated to ``[-B, B]``.

    Parameters
    ----------
    curator : Curator
    data : PrivateData
    moment : float
        Order ``1 + v`` of the moment that is known to exist.
    moment_bound : float, array of shape (d,) or "auto"
        Upper bound of ``E|x|^(1+v)``; "auto" replaces this assumption by a private pilot.
    """
    return _bounded_mean(curator, data, moment, moment_bound, 1, lambda center, bound: Clip(center=center, bound=bound))


@registered(
    "median_of_means",
    estimators=("DPMean",),
    paper="tao2022",
    algorithm="Algorithm 3",
    changed="groups hold their own rows (line 7 sums all of them); one group by default, since truncation already "
    "concentrates and m groups cost m times the noise; odd groups on request",
    test="tests/estimators/test_means.py::test_fuzz[median_of_means]",
)
def median_of_means(
    curator: Curator, data: PrivateData, groups: int = 1, moment: float = 2.0, moment_bound: Any = "auto"
) -> Estimate:
    """Noisy coordinatewise median of the truncated means of ``groups`` groups of rows."""

    def groupwise(center: Floats, bound: Floats) -> MedianOfMeans:
        return MedianOfMeans(Truncate(center=center, bound=bound), groups)

    return _bounded_mean(curator, data, moment, moment_bound, groups, groupwise)


def _bounded_mean(curator: Curator, data: PrivateData, moment: float, moment_bound: Any, groups: int, robust: Any) -> Estimate:
    n, d = data.n, data.d
    if is_auto(moment_bound):
        pilot = run_pilot(curator, data, groups)
        if pilot is None:
            return locations_alone(curator, data)
        center, bound, spread, release = pilot
    else:
        release = additive("mean", d, curator.epsilon, curator.delta)
        curator.plan(release)
        center, u = np.zeros(d), np.broadcast_to(np.asarray(moment_bound, dtype=np.float64), (d,))
        # Half the bound that balances the guarantees: clipping is milder than its worst case.
        bound = 0.5 * (u * n / (2 * groups * noise_std(curator, release, per_column(release, d)))) ** (1 / moment)
        spread = np.sqrt(u * bound ** (2 - moment) / n + (u * bound ** (1 - moment)) ** 2)
    robustifier: Robustifier = robust(center, bound)
    everybody = curator.subset(n, n) if groups > 1 else None
    value = curator.release(release, robustifier.mean(data, fold=everybody).to(release.norm))
    noise = 2 * bound * noise_std(curator, release, per_column(release, d)) / (n // groups)
    return Estimate(value, noise, spread, isinstance(release, Laplace))


@registered(
    "median_of_means",
    estimators=LINEAR,
    paper="tao2022",
    algorithm="Algorithm 2",
    changed="each step on its own rows or composed, never all rows at full price; whole rows clipped; one group by default",
    test=TEST,
    needs=DESCENT_NEEDS,
)
def median_of_means_descent(
    curator: Curator, data: PrivateData, target: Target, descent: Descent, groups: int = 1, moment: float = 2.0
) -> LinearFit:
    """Gradient descent on medians of the means of clipped gradients (Algorithm 2).

    Convex targets return the average of the iterates, strongly convex ones (squared loss, or a
    penalty) the last. Deviations: line 8 spends the whole budget on all rows at every step and the
    second branch cannot be reached; gradients are clipped in l2, which saves a factor
    sqrt(d), at the length where clipping bias and noise balance.
    """
    p = data.d + 1
    units, gradient = Units.planned(p), Gaussian("gradient", DESCENT_SHARE, count=descent.n_iter, folds=descent.splitting)
    curator.plan(*units.mechanisms(p), gradient)
    problem = prepare(curator, units, data, target)
    descent.warn_if_short(problem)
    rows = data.n / (descent.n_iter if descent.splitting else 1)
    noise = curator.noise(gradient, 2 * groups / rows) * math.sqrt(p)
    clip = (descent.bound(problem) * p ** (moment / 2) / noise) ** (1 / moment)
    w, path = np.zeros(p), []
    everybody = curator.subset(data.n, data.n) if groups > 1 else None
    for fold in descent.folds(curator, data.n):
        mean = MedianOfMeans(Ball(radius=clip), groups).mean(data, problem.gradient_rows(w), fold or everybody, width=p)
        w = descent.move(problem, w, curator.release(gradient, mean))
        path.append(w)
    strongly_convex = isinstance(target.loss, Squared) or target.alpha > 0
    return problem.solution(w if strongly_convex else np.mean(path[descent.n_iter // 2 :], axis=0), descent.n_iter)


@registered(
    "iht_truncated",
    estimators=Offered("sparse"),
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
    units, peeling = SparseUnits(options, loss), Peeling.planned(options, n_iter)
    curator.plan(*units.mechanisms, peeling.select, peeling.release)
    K, tau, level = units.find(curator, data)
    # Truncation discards larger values, so its bound is wider than a clip's.
    bound = (2.0 if math.isinf(loss.slope) else 1.0) * tau * K
    step = (2 / loss.curvature) / K**2 * (options.step or 1.0)

    def gradient(w: Floats, fold: Any) -> Bounded:
        return Truncate(bound=bound).mean(data, residual_rows(loss, w, level), fold)

    steps = [(step, fold) for fold in options.folds(curator, data.n, n_iter)]
    return hard_thresholding(curator, peeling, gradient, data.d, steps, options.radius), level


# Budget of the private size of a row's largest entry, and the quantile of it; set by hand in the first version.
LARGEST_SHARE, LARGEST_QUANTILE = 0.1, 0.75


def sparse_mean(curator: Curator, data: PrivateData, sparsity: int, bound: float | None = None) -> Floats:
    """Mean of rows of which few coordinates are not zero (Algorithm 5 for ``|x - w|^2 / 2``).

    One step of length 1 from 0 is the truncated mean, so the algorithm is one peeling with the whole budget. ``bound`` is the
    truncation; without it, twice the private
    size of a row's largest entry.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.rows.data import PrivateData
    >>> from fattail.privacy import Curator
    >>> X = np.random.default_rng(0).standard_t(3, (20000, 50)) + 3 * (np.arange(50) == 7)
    >>> np.flatnonzero(sparse_mean(Curator(1.0, 1e-6, random_state=0), PrivateData(X), 1))
    array([7])
    """
    size = TopK("largest entry", LARGEST_SHARE)
    peeling = Peeling.planned(Options(sparsity), 1)
    curator.plan(*((size,) if bound is None else ()), peeling.select, peeling.release)

    def largest(block: Block) -> Floats:
        X = block.X.toarray() if hasattr(block.X, "toarray") else block.X
        return np.asarray(np.max(np.abs(X), axis=1))

    bound = 2 * typical(curator, size, data, largest, LARGEST_QUANTILE) if bound is None else bound
    return peeling(curator, Truncate(bound=bound).mean(data))
