"""Figures 1 to 8 of dpem2020: private gradient EM for three models with latent variables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reproduction import methods, printed, problems
from reproduction.claims import Beats, Moves, Near
from reproduction.spec import Method, Panel, TrialData

CHOSEN = (
    "Signal to noise is 3, as printed; chosen: beta of length 1, noise 1/3, a tenth missing, a random start of length 1 for "
    "whoever needs a start, second moment bound 1, failure probability 0.05, step 1, delta = 1/n^1.1 at "
    "n = 50,000, clip 1 after figure 1. Errors of GMM and MRM are up to the sign of beta, which the law does not determine."
)

P1, P2 = "Algorithm 1 as printed", "Algorithm 2 as printed"
C1, C2 = "Algorithm 1 calibrated", "Algorithm 2 calibrated"
AUTO, EM = "auto", "gradient EM"
CONSTANT = f"with c = 1 it spends {printed.clipped_em_spends(1.0, 7e-6):.2g} for a nominal epsilon of 1"

METHODS = (
    Method(P1, "printed", printed.clipped_em, "Algorithm 1", CONSTANT),
    Method(P2, "printed", printed.smoothed_em, "Algorithm 2"),
    Method(C1, "calibrated", partial(methods.mixture, method="clipped"), "Algorithm 1"),
    Method(C2, "calibrated", partial(methods.mixture, method="smoothed"), "Algorithm 2"),
    Method(AUTO, "auto", methods.mixture_auto),
    Method(EM, "not private", methods.gradient_em),
)
CLIPS = tuple(m for m in METHODS if m.label != P2)

# Each with its number of steps: two regressions are the slowest to leave a random start.
MODELS = {
    "GMM": (problems.gaussian_mixture, 12),
    "MRM": (problems.mixture_of_regressions, 24),
    "RMC": (problems.missing_covariates, 12),
}
BASE = {"n": 50_000, "d": 10, "n_iter": 12, "step": 1.0, "delta": 7e-6, "epsilon": 0.5, "clip": 1.0}
# What varies: its values, and those of the short version.
CLIP = ((0.1, 1.0, 5.0, 10.0), (0.1, 1.0, 10.0))
GRIDS = {
    "epsilon": ((0.2, 0.5, 1.0), (0.2, 1.0)),
    "d": ((5, 10, 20), (5, 20)),
    "n": ((20_000, 50_000, 100_000), (5_000, 20_000)),
}
FINE = {
    "epsilon": ((0.1, 0.2, 0.5, 1.0, 2.0), (0.2, 0.5, 1.0)),
    "d": ((5, 10, 20, 40), (5, 10, 20)),
    "n": ((10_000, 20_000, 50_000, 100_000), (5_000, 10_000, 20_000)),
}


def _claims(x: str) -> tuple[object, ...]:
    rises = x == "d"
    return (
        Beats(P2, P1),
        Beats(C2, C1),
        Near(P2, EM, 3.0),
        Near(C2, EM, 3.0),
        Moves(P2, x, rises),
        Moves(C2, x, rises),
        Beats(AUTO, C2, source="library"),
    )


def _panel(
    figure: str, model: str, varied: str, values: tuple[tuple[float, ...], tuple[float, ...]], by_iteration: bool = False
) -> Panel:
    """One model, one thing varied: curves by iteration for each of its values, or final errors over them."""
    problem, n_iter = MODELS[model]
    grid, few = values
    claims: tuple[object, ...]
    if varied == "clip":
        title, claims = "Algorithm 1 by clipping threshold", (Beats(C2, C1), Beats(AUTO, C1, source="library"))
    elif by_iteration:
        title, claims = f"by iteration, for several {varied}", (*_claims(varied), Moves(C2, "iteration"))
    else:
        title, claims = f"final error by {varied}", _claims(varied)
    return Panel(
        key=f"dpem2020-fig{figure}",
        title=f"{model}: {title}",
        problem=problem,
        methods=CLIPS if varied == "clip" else METHODS,
        base={k: v for k, v in {**BASE, "n_iter": n_iter}.items() if k != varied},
        grid={varied: grid},
        x="iteration" if by_iteration else varied,
        facet=varied if by_iteration else "",
        error="estimation error",
        chosen=CHOSEN,
        claims=claims,
        quick={"n": 10_000} | {varied: few},
        quick_trials=3,
    )


def _real(letter: str, title: str, problem: Callable[..., TrialData], needs: str, n: int) -> Panel:
    return Panel(
        key=f"dpem2020-fig8{letter}",
        title=title,
        problem=problem,
        methods=METHODS,
        base={**{k: v for k, v in BASE.items() if k not in ("d", "epsilon")}, "n": n},
        grid={"epsilon": (0.2, 0.5, 1.0)},
        x="iteration",
        facet="epsilon",
        error="estimation error",
        chosen="Clusters, midpoint and noise level as in the paper; chosen: three columns that are not mostly one value.",
        claims=(Beats(P2, P1), Beats(C2, C1), Near(C2, EM, 2.0)),
        needs=needs,
        quick={"epsilon": (0.2, 1.0)},
    )


PANELS = (
    *(_panel(f"1{letter}", model, "clip", CLIP, by_iteration=True) for letter, model in zip("abc", MODELS, strict=True)),
    *(
        _panel(f"{figure}{letter}", model, varied, grids[varied], by_iteration)
        for figures, grids, by_iteration in (((2, 3, 4), GRIDS, True), ((5, 6, 7), FINE, False))
        for figure, model in zip(figures, MODELS, strict=True)
        for letter, varied in zip("abc", grids, strict=True)
    ),
    _real("a", "two clusters of Adult", problems.adult_clusters, "adult", 20_000),
    _real("b", "two clusters of IPUMS-BR", partial(problems.ipums_clusters, file="ipums-br"), "ipums-br", 38_000),
    _real("c", "two clusters of IPUMS-US", partial(problems.ipums_clusters, file="ipums-us"), "ipums-us", 40_000),
)
