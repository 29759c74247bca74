"""Wang et al. (2020), private EM: the smoothed mean, its local version, and gradient EM.

Theorem 2 is ``smoothed_mean``, Theorem 3 ``local_mean``, Algorithm 1 ``clipped_em``, Algorithm 2 ``smoothed_em``, and
Theorem 3 applied to gradients ``local_em``. Common to the EM variants: corrected gradients
(``em_models``), exact sensitivities and composition, full batches by default (a factor ``sqrt(T)`` less noise
than splitting), and a released estimate for each number that the paper assumes known and that is not given.

================  =========================================  ======================================================
paper             here                                       where
================  =========================================  ======================================================
tau               ``moment_bound``                           Theorems 2 and 3; Algorithm 2, input
s                 ``s``, ``scale``                           Theorems 2 and 3; Algorithm 2, line 1
beta (precision)  ``BETA``, ``math.sqrt(log_d)``             Theorem 2; Algorithm 2, line 1
epsilon~          ``_epsilon_tilde``                         Algorithm 2, line 1
zeta              ``failure``                                Algorithm 2, line 1
D_t               ``folds`` of the schedule, with ``split``  Algorithm 2, line 1
beta^0            ``problem.start``                          Algorithms 1 and 2, input
nabla q_i         ``_terms(problem)``                        Algorithm 1, line 2; Algorithm 2, line 3
C                 ``clip``, the radius of ``InBall``         Algorithm 1, line 3
g^(t-1)           ``Smoothed``                               Algorithm 2, lines 3 and 4
eta, T            ``schedule.step``, ``schedule.steps``      Algorithm 1, lines 1 and 4; Algorithm 2, lines 2 and 5
beta^t            ``beta`` of ``run``                        Algorithm 1, line 4; Algorithm 2, line 5
================  =========================================  ======================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.defaults import is_auto
from fattail.algorithms.parts.em import InBall, LatentFit, Rows, radius_factor, run
from fattail.algorithms.parts.em_models import Terms
from fattail.algorithms.parts.em_problem import LatentProblem
from fattail.algorithms.parts.estimates import Estimate, Noise, additive, noise_std, per_column
from fattail.algorithms.parts.pilot import locations_alone, run_pilot
from fattail.algorithms.parts.scale import local_octaves
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.privacy import Bounded, Curator, Fold, Gaussian, Laplace
from fattail.robust import Ball, Smooth, catoni
from fattail.robust.base import ONE
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]

BETA = math.sqrt(math.log(20.0))
"""Precision of the multiplicative noise that smooths the influence function: sqrt(ln(1/zeta)) at zeta = 5 %."""


@registered(
    "smoothed",
    estimators=("DPMean",),
    paper="dpem2020",
    algorithm="Theorem 2 (wang2020 eq. 12)",
    changed="stable evaluation clamped to its exact supremum (the printed closed form leaves its bound in floating "
    "point), exact sensitivity and calibration, scale that balances bias and actual noise",
    test="tests/estimators/test_means.py::test_fuzz[smoothed]",
)
def smoothed_mean(curator: Curator, data: PrivateData, moment_bound: Any = "auto") -> Estimate:
    """Noisy mean of ``s g(x / s)`` with the Catoni-Giulini map g.

    Parameters
    ----------
    curator : Curator
    data : PrivateData
    moment_bound : float, array of shape (d,) or "auto"
        Upper bound of the second moment; "auto" replaces this assumption by a private pilot.
    """
    n, d, sup = data.n, data.d, catoni.sup(BETA)
    if is_auto(moment_bound):
        pilot = run_pilot(curator, data)
        if pilot is None:
            return locations_alone(curator, data)
        center, bound, spread, release = pilot
        s = bound / sup
    else:
        release = additive("mean", d, curator.epsilon, curator.delta)
        curator.plan(release)
        center, tau = np.zeros(d), np.broadcast_to(np.asarray(moment_bound, dtype=np.float64), (d,))
        s = balanced_scale(tau, n, noise_std(curator, release, per_column(release, d)))
        spread = np.sqrt(tau / n + (tau / (2 * s) * (1 + 1 / BETA)) ** 2)
    value = curator.release(release, Smooth(center=center, scale=s, beta=BETA).mean(data).to(release.norm))
    noise = 2 * s * sup * noise_std(curator, release, per_column(release, d)) / n
    return Estimate(value, noise, spread, isinstance(release, Laplace))


def balanced_scale(second_moment: Floats, n: float, noise: float) -> Floats:
    """Scale at which the bias ``tau (1 + 1/beta) / (2 s)`` equals the noise ``2 s M noise / n``."""
    result: Floats = np.sqrt(second_moment * (1 + 1 / BETA) * n / (4 * catoni.sup(BETA) * noise))
    return result


@registered(
    "local",
    estimators=("DPMean",),
    paper="dpem2020",
    algorithm="Theorem 3",
    changed="exact range of the smoothed map and exact calibration; without a moment bound, a fifth of the rows tell "
    "their noisy order of magnitude and the others are asked for their value",
    claim="(epsilon, delta)-DP for each row by itself (local model)",
    test="tests/estimators/test_means.py::test_fuzz[local]",
)
def local_mean(curator: Curator, data: PrivateData, moment_bound: Any = "auto") -> Estimate:
    """Mean of rows each of which was smoothed and perturbed by itself.

    Notes
    -----
    *Privacy.* The matrix of all smoothed rows changes in one row when that row is replaced, so
    noise for the range of one row on every entry protects each row on its own; rows of the two
    rounds are disjoint.
    """
    n, d, sup = data.n, data.d, catoni.sup(BETA)
    rounds = 2 if is_auto(moment_bound) else 1
    if n < 5 * (rounds - 1):
        raise ValueError(f"n_samples={n} is too few to ask a fifth of the rows for the scale: at least 5 are needed")
    kind = additive("rows", d, curator.epsilon, curator.delta)
    release: Noise = (Laplace if isinstance(kind, Laplace) else Gaussian)("rows", count=rounds, folds=rounds > 1)
    curator.plan(release)
    noise = noise_std(curator, release, per_column(release, d))
    # In a secret order, so that the position of an answer does not identify its row.
    fold = curator.subset(n, n)
    if is_auto(moment_bound):
        asked = min(max(n // 5, 1), 4000)
        first, fold = curator.cut(n, asked, n - asked)
        magnitude, share, error = local_octaves(curator, release, data, first)
        s = np.array([_scale_of(magnitude, p, error, 2 * sup * noise / math.sqrt(len(fold))) for p in share])
        spread = None
    else:
        tau = np.broadcast_to(np.asarray(moment_bound, dtype=np.float64), (d,))
        s = balanced_scale(tau, math.sqrt(n), noise)
        spread = np.sqrt(tau / n + (tau / (2 * s) * (1 + 1 / BETA)) ** 2)
    rows = curator.release(release, Smooth(scale=s, beta=BETA).rows(data, release.norm, fold))
    return Estimate(rows.mean(axis=0), 2 * s * sup * noise / math.sqrt(len(rows)), spread)


def _scale_of(magnitude: Floats, share: Floats, error: float, noise: float) -> float:
    """Scale with the smallest sum of squared bias and noise, given noisy shares of rows per octave."""
    visible = np.where(share > _VISIBLE * error, share, 0.0)
    bias = np.maximum(magnitude - magnitude[:, None], 0.0) @ visible
    return float(magnitude[np.argmin(bias**2 + (noise * magnitude) ** 2)])


# Numbers that the paper leaves open, set by hand in the first version: scale of the smoothed map, in typical gradients; radius of
# the ball around it.
_SCALES = {"gaussian_mixture": 1.0, "mixture_of_regressions": 1.5, "missing_covariates": 2.0}
_BALL = 0.45
_CLIPPED_EXCESS = 6.0  # clip of the excess of a squared residual, over the noise level, in the clipped method
_DEVIATIONS = 3.0  # bound of the excess and of standardized residuals with missing cells, in the smoothed method
_LEAST_RATIO = 1.2  # least ratio of d to the failure probability: the paper takes its logarithm, which must be positive
_SHORTEST = 0.2  # least step of the local method
_SKEW_FACTOR = 1.3  # further factor of the radius for missing covariates, whose gradients are skewed
_VISIBLE = 4.5  # standard deviations of the noise that a share of rows must exceed to be used


@dataclass(frozen=True)
class Smoothed:
    """Coordinates of gradients under the Catoni map, eq. (16): the paper's bounding.

    Parameters
    ----------
    multiple : float
        The map's scale s in units of the noise level.
    scale : float or None
        s itself, which overrides ``multiple``.
    excess : float
        Scale of the excess; 0 to leave it out.
    beta : float
    ball : float
        Smoothed rows are shrunk to this many root mean coordinates, in units of s: a row is rarely
        near a corner of its box, and the ball has no ``sqrt(d)``. 0 for the box.
    reports : int
        1 in the central model, where the mean gets the noise; n in the local one, where each report does.
    """

    multiple: float
    scale: float | None
    excess: float
    beta: float
    ball: float = 0.0
    reports: int = 1

    def mean(self, data: PrivateData, terms: Rows, width: int, variance: float, fold: Fold | None) -> Bounded:
        s = self.scale if self.scale is not None else self.multiple * math.sqrt(variance)
        scale = np.append(np.full(width, s), self.excess) if self.excess else np.full(width, s)

        def rows(block: Block) -> tuple[Floats, None]:
            gradient, excess = terms(block)
            return np.column_stack([gradient, excess]) if self.excess else gradient, None

        if not self.ball:
            bound = LocalSmooth(scale=scale, beta=self.beta, reports=self.reports)
            return bound.mean(data, rows, fold, width=len(scale)).to("l2")
        ball = Ball(radius=self.ball * math.sqrt(len(scale)), scale=scale)
        return ball.mean(data, lambda b: (scale * catoni.smooth(rows(b)[0] / scale, self.beta), None), fold, width=len(scale))


@dataclass(frozen=True)
class LocalSmooth(Smooth):
    """Mean of ``reports`` reports to which each user has added noise for the whole range of a report.

    Notes
    -----
    *Privacy.* n users who each add Gaussian noise for a range r give a mean with the noise that one
    curator would add for a sensitivity of ``r / sqrt(n)``, ``sqrt(n)`` times the central one. That mean is computed here, on
    one machine, to simulate the local model. For users who trust no curator, ``fattail.LocalRandomizer`` runs on their devices.
    """

    reports: int = 1

    def _row_range(self, width: int) -> float:
        return 2.0 * ONE * math.sqrt(self.reports)


def _terms(problem: LatentProblem, cut: float = math.inf) -> Callable[[Block, Floats, float], Terms]:
    model = problem.terms(cut)
    return lambda block, beta, variance: model(np.asarray(block.X, dtype=np.float64), block.y, beta, variance)


@registered(
    "clipped",
    estimators=Offered("mixture"),
    paper="dpem2020",
    algorithm="Algorithm 1",
    changed="exact noise (2C/n) sqrt(T) sigma instead of an unnamed constant; corrected gradients",
    test="tests/estimators/test_mixture.py::test_fuzz",
)
def clipped_em(curator: Curator, data: PrivateData, problem: LatentProblem, clip: float) -> LatentFit:
    """Algorithm 1: gradients clipped to ``clip`` in l2, T full-batch steps, the last iterate.

    *Privacy.* Two clipped gradients differ by at most ``2 clip`` in l2.
    """
    schedule = problem.printed_schedule()
    mechanisms = problem.start_mechanisms
    curator.plan(*mechanisms, *schedule.mechanisms)
    beta, variance = problem.start(curator, data, mechanisms)
    excess = 0.0 if problem.known is not None else _CLIPPED_EXCESS
    if problem.known is not None:
        variance = problem.known
    bounding = InBall(clip, excess, absolute=True)
    beta, variance, path = run(curator, data, _terms(problem), bounding, schedule, beta, variance, problem.known)
    return LatentFit(beta, variance, path=path)


@registered(
    "smoothed",
    estimators=Offered("mixture"),
    paper="dpem2020",
    algorithm="Algorithm 2",
    changed="eq. (23) sums over one batch and is clamped to its supremum; epsilon~ with its radical; "
    "full batch and average of late iterates by default; s from released quantities",
    test="tests/estimators/test_mixture.py::test_fuzz",
)
def smoothed_em(
    curator: Curator, data: PrivateData, problem: LatentProblem, moment_bound: float | None, failure: float, split: bool
) -> LatentFit:
    """Algorithm 2: every coordinate of the gradient by the smoothed mean.

    As printed with ``split`` (disjoint batches, last iterate) and a ``moment_bound`` tau:
    ``s = sqrt(m tau eps~) / (2 log(d / zeta))``. Without tau, s follows the released noise level.

    *Privacy.* A coordinate moves by at most ``2 s M / m`` with M the supremum of the map.
    """
    schedule = problem.printed_schedule(folds=True) if split else problem.schedule()
    if split:
        curator.folds(data.n, schedule.steps)  # raises for too few rows, before anything is charged
    mechanisms = problem.start_mechanisms
    curator.plan(*mechanisms, *schedule.mechanisms)
    log_d = math.log(max(data.d / failure, _LEAST_RATIO))
    scale = None
    if moment_bound is not None:
        m = data.n / schedule.steps if split else data.n
        scale = math.sqrt(m * moment_bound * _epsilon_tilde(curator.epsilon, curator.delta)) / (2.0 * log_d)
    multiple = _SCALES[problem.model] * _margin(curator, data, problem)
    bounding = Smoothed(multiple, scale, _excess(problem, data), math.sqrt(log_d), 0.0 if split else _BALL)
    beta, variance = problem.start(curator, data, mechanisms)
    cut = math.inf if split else _DEVIATIONS
    beta, variance, path = run(curator, data, _terms(problem, cut), bounding, schedule, beta, variance, problem.known)
    return LatentFit(beta, variance if problem.known is None else problem.known, path=path)


@registered(
    "local",
    estimators=Offered("mixture"),
    paper="dpem2020",
    algorithm="Theorem 3 in Algorithm 2",
    changed="exact range of a report; T reports per user composed; needs a public start",
    test="tests/estimators/test_mixture.py::test_fuzz",
    claim="(epsilon, delta)-local DP for each user's T reports",
)
def local_em(
    curator: Curator, data: PrivateData, problem: LatentProblem, moment_bound: float | None, failure: float
) -> LatentFit:
    """Algorithm 2 with Theorem 3: every user smooths and adds noise to the gradient, in each of T rounds.

    A private local start costs more than it helps, so the start is public, and the data should be in units in which parameters
    are of order one.

    *Privacy.* A report lies in a box of side ``2 s M``; T reports of one user compose.
    """
    schedule = problem.schedule()
    curator.plan(*schedule.mechanisms)
    if problem.step is None:  # half the noise's standard deviation, in units of s
        noise = curator.noise(schedule.mechanisms[-1], 2.0 * math.sqrt(data.d / data.n))
        schedule = replace(schedule, step=min(max(0.5 / noise, _SHORTEST), schedule.step))
    beta, variance = problem.start(curator, data, ())
    log_d = math.log(max(data.d / failure, _LEAST_RATIO))
    scale = None
    if moment_bound is not None:
        log_delta = math.log(1.0 / curator.delta)
        scale = data.n**0.25 * math.sqrt(curator.epsilon * moment_bound) / (log_d * log_delta**0.25)
    bounding = Smoothed(_SCALES[problem.model], scale, 0.0, math.sqrt(log_d), reports=data.n)
    beta, variance, path = run(curator, data, _terms(problem), bounding, schedule, beta, variance, problem.known)
    return LatentFit(beta, variance if problem.known is None else problem.known, path=path)


def _margin(curator: Curator, data: PrivateData, problem: LatentProblem) -> float:
    """A wider bound as n grows; gradients of missing covariates are skewed and need a wider one."""
    if problem.model == "missing_covariates":
        return _SKEW_FACTOR * radius_factor(curator, data)
    return radius_factor(curator, data, least=1.0)


def _excess(problem: LatentProblem, data: PrivateData) -> float:
    """Three standard deviations of the excess under the model."""
    return _DEVIATIONS * math.sqrt(2.0 / (data.d if problem.model == "gaussian_mixture" else 1))


def _epsilon_tilde(epsilon: float, delta: float) -> float:
    """``sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta))``, without cancellation."""
    root = math.sqrt(math.log(1.0 / delta))
    return epsilon / (math.sqrt(root * root + epsilon) + root)
