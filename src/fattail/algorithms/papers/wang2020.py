"""Wang, Xiao, Devadas and Xu (ICML 2020): smoothed and trimmed means, and convex optimization on them.

Algorithm 1 is ``sample_aggregate``, Algorithm 2 ``trimmed_mean``, Algorithm 3 ``trimmed_descent``,
Algorithm 4 ``smoothed_descent``. The descents work on rows in private units (``linear_rows.prepare``),
which cost a tenth of the budget: the paper assumes that features have about unit size. By default a
step uses all rows and steps compose exactly; ``splitting`` gives each step its own rows, as printed,
which costs a factor sqrt(T) in noise.

=============  ============================================  ======================================================
paper          here                                          where
=============  ============================================  ======================================================
m              ``blocks``                                    Algorithm 1, line 2
s_i = f(D_Si)  ``fits``, each by ``_newton``                 Algorithm 1, line 3
g(S), S(S)     ``Attention``, with ``aggregation="smooth"``  Algorithm 1, lines 4 and 5
t              ``smoothness``                                Algorithm 2, line 1
S^t            ``Trimmed``, its smooth sensitivity           Algorithm 2, line 1
m              ``trim``                                      Algorithm 2, line 2
a, b           ``bound``: the range is symmetric             Algorithm 2, line 2
Z              ``SmoothNoise``                               Algorithm 2, line 3
D_(t-1,j)      ``problem.gradient_rows(w)``                  Algorithm 3, line 3; Algorithm 4, line 3
s              ``scale``                                     Algorithm 4, line 1
v              ``descent.bound(problem)``                    Algorithm 4, line 1
beta           ``beta``                                      Algorithm 4, line 1
T, eta         ``descent.n_iter``, ``descent.step``          Algorithm 3, lines 2 and 5; Algorithm 4, lines 2 and 5
P_W            ``descent.move``                              Algorithm 3, line 5; Algorithm 4, line 5
=============  ============================================  ======================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.defaults import DESCENT_SHARE, is_auto
from fattail.algorithms.parts.estimates import Estimate
from fattail.algorithms.parts.linear_rows import (
    DESCENT_NEEDS,
    LINEAR,
    REACH,
    TEST,
    Descent,
    LinearFit,
    Problem,
    Target,
    Units,
    prepare,
)
from fattail.algorithms.parts.scale import column_scales
from fattail.algorithms.registry import registered
from fattail.columns import DENSE_GRID, find_locations
from fattail.losses import OWN
from fattail.privacy import Curator, Gaussian, SmoothNoise, TopK
from fattail.privacy.smooth_gaussian import SmoothGaussian
from fattail.robust import Ball, Smooth, Trimmed, catoni
from fattail.robust.attention import Attention
from fattail.robust.blocks import block_estimates
from fattail.rows.data import Block, PrivateData

# Shares of the trimmed mean: each selection (location, scale) and the mean.
SELECTION, MEAN = 0.1, 0.8
# Range of bounds and scales whose squares and ratios do not overflow.
SMALL, HUGE = 1e-150, 1e150
# Precision of the smoothing noise in Algorithm 4, set by hand in the first version; the paper leaves it free.
PRECISION = 4.6
# Bound of a gradient in Algorithm 3, in private units: wide, because trimming removes large values first.
FAR = 1e3
# Algorithm 1: exponent of the number of blocks, shares of the three stages, radius of a ball in standard deviations of the
# fits, and the ridge penalty that makes the fit of a small block unique. Set by hand in the first version.
BLOCKS, STAGES, SPREAD, RIDGE = 0.6, (0.2, 0.25, 0.39), 1.5, 1e-3


@registered(
    "trimmed",
    estimators=("DPMean",),
    paper="wang2020",
    algorithm="Algorithm 2",
    changed="noise scaled to the exact smooth sensitivity (the printed scale is not smooth and leaks an outlier), "
    "constants of a single release, trimming count from public numbers",
    test="tests/estimators/test_means.py::test_fuzz[trimmed]",
)
def trimmed_mean(curator: Curator, data: PrivateData, moment: float = 2.0, moment_bound: Any = "auto") -> Estimate:
    """Mean without the m smallest and m largest values of each column, noise by smooth sensitivity.

    Values are first clipped to a huge range, which enters the noise only through a factor
    ``exp(-t m)``; m is the smallest number for which that factor is negligible. The range comes from the moment
    bound, or from a private median and scale.
    """
    n, d = data.n, data.d
    # One column composes by adding epsilons (0.1, 0.1 and 0.8), several by adding rho.
    release = SmoothNoise("mean", MEAN**2 / 2 if d == 1 else MEAN, coordinates=d, one_shot=d == 1)
    if is_auto(moment_bound):
        share = SELECTION**2 / 8 if d == 1 else SELECTION
        selections = TopK("location", share, count=d), TopK("scale", share, count=d)
        curator.plan(*selections, release)
        center = find_locations(curator, selections[:1], data, DENSE_GRID)[0]
        typical = column_scales(curator, selections[1], data, center)
        reach = np.abs(center) + 64 * typical
    else:
        curator.plan(release)
        u = np.broadcast_to(np.asarray(moment_bound, dtype=np.float64), (d,))
        typical, reach = u ** (1 / moment), 10 * (n * u) ** (1 / moment)
    smoothness = curator.smoothness(release)
    bound = np.minimum(reach, HUGE)
    trim = math.ceil(float(np.max(np.log(2 * bound / np.maximum(typical, SMALL)))) / smoothness)
    return Estimate(curator.release(release, Trimmed(min(max(trim, 1), n // 4), bound, smoothness).mean(data)))


Floats = NDArray[np.float64]


@registered(
    "smoothed",
    estimators=LINEAR,
    paper="wang2020",
    algorithm="Algorithm 4",
    changed="scale and noise use the same logarithm; exact supremum; stable evaluation; all rows at each step",
    test=TEST,
    needs=DESCENT_NEEDS,
)
def smoothed_descent(curator: Curator, data: PrivateData, target: Target, descent: Descent, beta: float = PRECISION) -> LinearFit:
    """Gradient descent on coordinatewise smoothed means (Algorithm 4).

    Deviations: the printed scale and noise disagree by a logarithm and overspend, so noise
    follows from the scale in use; the scale balances the bias ``v / 2s`` with that noise.
    """
    p = data.d + 1
    units, gradient = Units.planned(p), Gaussian("gradient", DESCENT_SHARE, count=descent.n_iter, folds=descent.splitting)
    curator.plan(*units.mechanisms(p), gradient)
    problem = prepare(curator, units, data, target)
    descent.warn_if_short(problem)
    rows_per_step = data.n / (descent.n_iter if descent.splitting else 1)
    noise = curator.noise(gradient, 2 * catoni.sup(beta) * math.sqrt(p) / rows_per_step)
    scale = math.sqrt(descent.bound(problem) / (2 * noise))
    w = np.zeros(p)
    for fold in descent.folds(curator, data.n):
        mean = Smooth(scale=scale, beta=beta).mean(data, problem.gradient_rows(w), fold, width=p)
        w = descent.move(problem, w, curator.release(gradient, mean.to("l2")))
    return problem.solution(w, descent.n_iter)


@registered(
    "trimmed",
    estimators=LINEAR,
    paper="wang2020",
    algorithm="Algorithm 3",
    changed="exact smooth sensitivity in place of an expression that is not smooth; verified noise constants",
    test=TEST,
    needs=DESCENT_NEEDS,
)
def trimmed_descent(curator: Curator, data: PrivateData, target: Target, descent: Descent, trim: int | None = None) -> LinearFit:
    """Gradient descent on trimmed means with smooth sensitivity (Algorithm 3).

    Deviations: the printed noise scale leaks an outlier, so the exact smooth sensitivity is
    used, on gradients clipped to a huge bound. ``trim`` grows until that bound is negligible, up to a quarter of the rows.
    """
    p, bound = data.d + 1, FAR
    units = Units.planned(p)
    gradient = SmoothNoise("gradient", DESCENT_SHARE, count=descent.n_iter, folds=descent.splitting, coordinates=p)
    curator.plan(*units.mechanisms(p), gradient)
    problem = prepare(curator, units, data, target)
    descent.warn_if_short(problem)
    smoothness = curator.smoothness(gradient)
    rows = data.n // descent.n_iter if descent.splitting else data.n
    if trim is None:
        trim = min(math.ceil(math.log(bound * rows) / smoothness), rows // 4)
    w = np.zeros(p)
    for fold in descent.folds(curator, data.n):
        mean = Trimmed(trim, bound, smoothness).mean(data, problem.gradient_rows(w), fold)
        w = descent.move(problem, w, curator.release(gradient, mean))
    return problem.solution(w, descent.n_iter)


@registered(
    "sample_aggregate",
    estimators=LINEAR,
    paper="wang2020",
    algorithm="Algorithm 1",
    changed="disjoint blocks drawn in secret; clipped means in shrinking balls by default; the aggregator's scale made smooth",
    test=TEST,
    needs=DESCENT_NEEDS,
)
def sample_aggregate(
    curator: Curator, data: PrivateData, target: Target, blocks: int | None = None, aggregation: str = "clipped"
) -> LinearFit:
    """Fit each block without privacy, then aggregate the fits privately (Algorithm 1).

    Deviations: random subsets become disjoint blocks, so that a row is in one of them. The printed
    aggregator (``aggregation="smooth"``) has a scale that is not smooth, which is corrected,
    and noise of the size of the spread of the fits whatever their number. By default the mean of fits
    clipped to a ball is released three times instead, each time in a smaller ball around the last,
    with noise smaller by the number of blocks.
    """
    p = data.d + 1
    blocks = max(1, min(data.n // (8 * p), round(data.n**BLOCKS))) if blocks is None else blocks
    units = Units.planned(p)
    stages = [Gaussian(f"mean of fits {k + 1}", share) for k, share in enumerate(STAGES)]
    smooth = SmoothGaussian("center of fits", 4.0, coordinates=p, delta=curator.delta / 2)
    curator.plan(*units.mechanisms(p), *([smooth] if aggregation == "smooth" else stages))
    problem = prepare(curator, units, data, target)
    inverse = np.linalg.inv(problem.frame.shape).T

    def rows(block: Block) -> Floats:
        return np.column_stack([problem.frame.standard(block), problem.response(block)])

    fits = block_estimates(data, curator.folds(data.n, blocks), rows, lambda *table: inverse @ _newton(problem, *table), p)
    if aggregation == "smooth":
        center = curator.release(smooth, Attention(REACH, curator.smoothness(smooth)).mean(fits))
    else:
        spread = SPREAD * math.sqrt(p / (data.n / blocks) / problem.loss.curvature)
        center, radius = np.zeros(p), REACH
        for stage in stages:
            center = curator.release(stage, Ball(center=center, radius=radius).mean(fits))
            radius = min(radius, spread + SPREAD * math.sqrt(p) * curator.noise(stage, 2 * radius / blocks))
    w = problem.frame.shape.T @ center
    return problem.solution(problem.move(w, np.zeros(p), 0.0, REACH), 1)


def _newton(problem: Problem, table: Floats, shares: Floats, steps: int = 15, penalty: float = RIDGE) -> Floats:
    """Minimize the loss of one block by a fixed number of Newton steps with a little ridge; not private."""
    table = np.where(np.isfinite(table), table, 0.0)
    z, y, loss = table[:, :-1], table[:, -1], problem.fixed_loss
    weights = shares * problem.frame.weights(np.einsum("ij,ij->i", z, z))
    persons = shares.sum()
    w, ridge = np.zeros(problem.p), np.diag(problem.ridge + penalty)
    for _ in range(steps):
        prediction = z @ w
        slope = weights * loss.derivative(prediction, y)
        hessian = (z * (weights * loss.second(prediction, y))[:, None]).T @ z / persons + ridge
        step: Floats = np.asarray(np.linalg.solve(hessian, z.T @ slope / persons + ridge @ w), dtype=np.float64)
        w = w - (step if type(loss) in OWN else _shortened(step, lambda v: float(loss.value(z @ v, y) @ weights), w))
    return w


def _shortened(step: Floats, value: Callable[[Floats], float], w: Floats, halvings: int = 40) -> Floats:
    """A step halved until it lowers the loss: far from the minimum a loss can be so flat that Newton's step overshoots."""
    before = value(w)
    for _ in range(halvings):
        if value(w - step) <= before:
            return step
        step = step / 2
    return np.zeros_like(step)
