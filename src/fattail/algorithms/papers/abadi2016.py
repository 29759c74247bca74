"""abadi2016: gradient descent with clipped per-row gradients, the usual baseline."""

from __future__ import annotations

import math

import numpy as np

from fattail.algorithms.parts.defaults import DESCENT_SHARE
from fattail.algorithms.parts.linear_rows import DESCENT_NEEDS, LINEAR, TEST, Descent, LinearFit, Target, Units, prepare
from fattail.algorithms.registry import registered
from fattail.privacy import Curator, Gaussian, SubsampledGaussian
from fattail.robust import Ball
from fattail.rows.data import PrivateData


@registered(
    "clipped",
    estimators=LINEAR,
    paper="abadi2016",
    algorithm="Algorithm 1",
    changed="all rows at each step by default; exact accounting; replace-one sensitivity 2 C / n",
    test=TEST,
    needs=DESCENT_NEEDS,
)
def clipped_descent(
    curator: Curator,
    data: PrivateData,
    target: Target,
    descent: Descent,
    clip: float | None = None,
    batch_size: int | None = None,
) -> LinearFit:
    """Gradient descent on means of gradients clipped to length ``clip``; returns the average of late iterates.

    With ``batch_size`` each step uses a secret Poisson sample of that many rows on average. The
    default clip is the length of a typical gradient in private units, sqrt(d + 1).
    """
    p = data.d + 1
    clip = math.sqrt(p) if clip is None else clip
    units = Units.planned(p)
    gradient: Gaussian = Gaussian("gradient", DESCENT_SHARE, count=descent.n_iter, folds=descent.splitting)
    if batch_size is not None:
        rate = min(1.0, batch_size / data.n)  # a release on a sample costs less, so its share may be larger
        gradient = SubsampledGaussian("gradient", DESCENT_SHARE / rate, count=descent.n_iter, rate=rate)
    curator.plan(*units.mechanisms(p), gradient)
    problem = prepare(curator, units, data, target)
    descent.warn_if_short(problem)
    w, path = np.zeros(p), []
    for fold in descent.folds(curator, data.n):
        rows = curator.sample_rows(gradient, data.n) if isinstance(gradient, SubsampledGaussian) else fold
        mean = Ball(radius=clip).mean(data, problem.gradient_rows(w), rows, width=p)
        w = descent.move(problem, w, curator.release(gradient, mean))
        path.append(w)
    return problem.solution(np.mean(path[descent.n_iter // 2 :], axis=0), descent.n_iter)
