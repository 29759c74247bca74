"""tao2022: DP-SCO for gradients with a (1 + v)-th moment (IJCAI 2022), Algorithm 2."""

from __future__ import annotations

import math

import numpy as np

from fattail._registry import registered
from fattail.algorithms.linear_rows import LinearFit, Target, Units, prepare
from fattail.algorithms.wang2020_sco import LINEAR, TEST, Descent
from fattail.data import PrivateData
from fattail.losses import Squared
from fattail.privacy import Curator, Gaussian
from fattail.robust import Ball, MedianOfMeans


@registered(
    "median_of_means",
    estimators=LINEAR,
    paper="tao2022",
    algorithm="Algorithm 2",
    changed="each step on its own rows or composed, never all rows at full price; whole rows clipped; one group by default",
    test=TEST,
)
def median_of_means_descent(
    curator: Curator, data: PrivateData, target: Target, descent: Descent, groups: int = 1, moment: float = 2.0
) -> LinearFit:
    """Gradient descent on medians of the means of clipped gradients (Algorithm 2).

    Convex targets return the average of the iterates, strongly convex ones (squared loss, or a
    penalty) the last. Deviations: line 8 spends the whole budget on all rows at every step and the
    second branch cannot be reached (SPEC 5.3); gradients are clipped in l2, which saves a factor
    sqrt(d), at the length where clipping bias and noise balance.
    """
    p = data.d + 1
    units, gradient = Units.planned(p), Gaussian("gradient", 0.84, count=descent.n_iter, folds=descent.splitting)
    curator.plan(*units.mechanisms(p), gradient)
    problem = prepare(curator, units, data, target)
    rows = data.n / (descent.n_iter if descent.splitting else 1)
    noise = curator.noise(gradient, 2 * groups / rows) * math.sqrt(p)
    clip = (descent.bound(problem) * p ** (moment / 2) / noise) ** (1 / moment)
    w, path = np.zeros(p), []
    for fold in descent.folds(data):
        mean = MedianOfMeans(Ball(radius=clip), groups).mean(data, problem.gradient_rows(w), fold, width=p)
        w = descent.move(problem, w, curator.release(gradient, mean))
        path.append(w)
    strongly_convex = isinstance(target.loss, Squared) or target.alpha > 0
    return problem.solution(w if strongly_convex else np.mean(path[descent.n_iter // 2 :], axis=0), descent.n_iter)
