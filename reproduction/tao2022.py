"""The theorems of tao2022 as plots: error against n, epsilon, d and v, the predicted slope, the lower bound below."""

from __future__ import annotations

import math
from functools import partial

from reproduction import methods, printed, problems
from reproduction.claims import Beats, Slope
from reproduction.spec import Method, Panel

P1, P3, P2, P5 = (f"Algorithm {k} as printed" for k in (1, 3, 2, 5))
C1, C3, C2, C5 = (f"Algorithm {k} calibrated" for k in (1, 3, 2, 5))
AUTO, PLAIN, LEAST = "auto", "sample mean", "IGHT"

MEAN = (
    Method(P1, "printed", printed.truncated_mean, "Algorithm 1"),
    Method(C1, "calibrated", partial(methods.mean, method="truncated"), "Algorithm 1"),
    Method(AUTO, "auto", methods.mean_auto),
    Method(PLAIN, "not private", methods.sample_mean),
)
VECTOR = (
    Method(P3, "printed", printed.median_of_means_mean, "Algorithm 3"),
    Method(C3, "calibrated", partial(methods.mean, method="median_of_means"), "Algorithm 3"),
    Method(AUTO, "auto", methods.mean_auto),
    Method(PLAIN, "not private", methods.sample_mean),
)
CONVEX = (
    Method(P2, "printed", printed.median_of_means_descent, "Algorithm 2"),
    Method(C2, "calibrated", partial(methods.regression, method="median_of_means"), "Algorithm 2"),
    Method(AUTO, "auto", methods.regression_auto),
)
SPARSE = (
    Method(P5, "printed", printed.truncated_thresholding, "Algorithm 5"),
    Method(C5, "calibrated", partial(methods.sparse, method="iht_truncated"), "Algorithm 5"),
    Method(AUTO, "auto", partial(methods.sparse, method="auto")),
)
LAW = (
    "The paper has no experiments. Law: Pareto of tail index 1.1 + v, so that hardly more than the (1 + v)-th moment exists; "
    "the printed algorithms are told that moment and its order. "
)
FLOOR = (
    "Lower bound: two points, with the constant of the private Le Cam lemma (Acharya, Sun and Zhang 2021): no private "
    "method has less mean error on the worst law with that moment; on this one it may."
)
SHAPE = (
    "Lower bound: the theorem's rate, its unknown constant drawn as 1/40. It is for the worst law with that moment; on this "
    "one a method may do better."
)


def floor(n: int, epsilon: float, v: float) -> float:
    """Theorem 2 with a constant: masses at 0 and B that 1 / (10 epsilon) rows tell apart.

    Testing fails with probability 0.9 / (2 e) at least, and then the error is half the gap.
    """
    u = (1.1 + v) / 0.1
    gap = u ** (1 / (1 + v)) * (10 * n * epsilon) ** (-v / (1 + v))
    return float(0.9 / (2 * math.e) * gap / 2)


def vector_floor(n: int, epsilon: float, d: int, v: float, delta: float) -> float:
    """Theorem 9's shape: sqrt(d) u^(1/(1+v)) (sqrt(d ln(1/delta)) / (epsilon n))^(v/(1+v)) / 40."""
    u = (1.1 + v) / 0.1
    rate = u ** (1 / (1 + v)) * (math.sqrt(d * math.log(1 / delta)) / (epsilon * n)) ** (v / (1 + v))
    return float(math.sqrt(d) * rate / 40)


def convex_floor(n: int, epsilon: float, d: int, v: float, delta: float) -> float:
    """Theorem 8's shape: d (sqrt(d ln(1/delta)) / (epsilon n))^(2v/(1+v)) / 40, unit moment."""
    return float(d * (math.sqrt(d * math.log(1 / delta)) / (epsilon * n)) ** (2 * v / (1 + v)) / 40)


def sparse_floor(n: int, epsilon: float, d: int, sparsity: int, v: float, delta: float) -> float:
    """Theorem 11's shape: (sqrt(s ln d ln(1/delta)) / (epsilon n))^(2v/(1+v)) / 40, unit moment."""
    return float((math.sqrt(sparsity * math.log(d) * math.log(1 / delta)) / (epsilon * n)) ** (2 * v / (1 + v)) / 40)


def _rate(v: float) -> float:
    return -v / (1 + v)


def _mean(letter: str, title: str, x: str, values: tuple[float, ...], few: tuple[float, ...], v: float) -> Panel:
    base = {"n": 10_000, "d": 1, "epsilon": 1.0, "delta": 1e-5, "v": v}
    del base[x]
    claims: tuple[object, ...] = (Beats(C1, P1, source="library"), Beats(AUTO, C1, source="library"))
    if x in ("n", "epsilon"):
        claims = (Slope(P1, _rate(v)), Slope(C1, _rate(v)), *claims)
    return Panel(
        key=f"tao2022-thm1{letter}",
        title=title,
        problem=problems.pareto_mean,
        methods=MEAN,
        base=base,
        grid={x: values},
        x=x,
        error="error of the mean",
        chosen=LAW + FLOOR,
        claims=claims,
        bound=floor,
        trials=200,
        quick={x: few},
        quick_trials=30,
    )


SIZES, FEW_SIZES = (1000, 3000, 10_000, 30_000, 100_000, 300_000), (1000, 5000, 25_000, 100_000)
EPSILONS, FEW_EPSILONS = (0.1, 0.2, 0.5, 1.0), (0.1, 0.3, 1.0)

PANELS = (
    _mean("a", "one mean by n, v = 1: slope -1/2", "n", SIZES, FEW_SIZES, 1.0),
    _mean("b", "one mean by n, v = 1/2: slope -1/3", "n", SIZES, FEW_SIZES, 0.5),
    _mean("c", "one mean by epsilon, v = 1: slope -1/2", "epsilon", EPSILONS, FEW_EPSILONS, 1.0),
    _mean("d", "one mean by the moments that exist", "v", (0.2, 0.4, 0.6, 0.8, 1.0), (0.2, 0.6, 1.0), 1.0),
    Panel(
        key="tao2022-thm3",
        title="mean of a vector by d, v = 1: slope 3/4",
        problem=problems.pareto_mean,
        methods=VECTOR,
        base={"n": 20_000, "epsilon": 1.0, "delta": 1e-5, "v": 1.0},
        grid={"d": (1, 3, 10, 30, 100)},
        x="d",
        error="error of the mean",
        chosen=LAW + SHAPE,
        claims=(Slope(P3, 0.75, 0.25), Slope(C3, 0.75, 0.25), Beats(C3, P3, source="library"), Beats(AUTO, C3, source="library")),
        bound=vector_floor,
        trials=40,
        quick={"d": (1, 5, 25, 100)},
        quick_trials=8,
    ),
    Panel(
        key="tao2022-thm7",
        title="excess risk of linear regression by n, v = 1/2: slope -2/3",
        problem=problems.pareto_linear,
        methods=CONVEX,
        base={"d": 10, "epsilon": 1.0, "delta": 1e-5, "v": 0.5, "n_iter": 20, "step": 0.3, "radius": 2.0},
        grid={"n": (3000, 10_000, 30_000, 100_000, 300_000)},
        x="n",
        error="excess risk",
        chosen=LAW + "Normal features, signed Pareto noise, 20 steps of 0.3 in a ball of radius 2. " + SHAPE,
        bound=convex_floor,
        claims=(Slope(P2, -2 / 3), Slope(C2, -2 / 3), Beats(C2, P2, source="library"), Beats(AUTO, C2, source="library")),
        quick={"n": (3000, 12_000, 50_000)},
        quick_trials=5,
    ),
    Panel(
        key="tao2022-thm10",
        title="excess risk of sparse regression by n, v = 1/2: slope -2/3",
        problem=problems.pareto_sparse,
        methods=SPARSE,
        base={"d": 500, "sparsity": 5, "epsilon": 1.0, "delta": 1e-5, "v": 0.5, "n_iter": 8, "step": 0.5},
        grid={"n": (2000, 5000, 20_000, 60_000)},
        x="n",
        error="excess risk",
        chosen=LAW + "Normal features, signed Pareto noise, 8 steps of 0.5. " + SHAPE,
        claims=(Slope(P5, -2 / 3), Slope(C5, -2 / 3), Beats(C5, P5, source="library"), Beats(AUTO, C5, source="library")),
        bound=sparse_floor,
        quick={"n": (2000, 6000, 20_000)},
        quick_trials=3,
    ),
)
