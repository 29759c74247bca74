"""The problem that a paper's gradient EM solves: the model, what the user knows, the start, and the budget of each step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.em import Schedule, mixture_start, regressions_start
from fattail.algorithms.parts.em_models import MODELS, Model, missing_terms
from fattail.algorithms.parts.em_units import bounded_size, response
from fattail.algorithms.parts.scale import magnitude_quantile
from fattail.privacy import Curator, Gaussian, Mechanism, TopK
from fattail.rows.data import PrivateData

Floats = NDArray[np.float64]

# Numbers that the paper leaves open, set by hand in the first version: early and late steps, and the length of a step.
_STEPS = {"gaussian_mixture": (4, 4), "mixture_of_regressions": (7, 5), "missing_covariates": (7, 5)}
_STEP = {"gaussian_mixture": 1.3, "mixture_of_regressions": 1.3, "missing_covariates": 1.2}
_SIZE, _START = 0.04, 0.16  # shares of a private start: the size of a row or response, and second moments
_LATE = 3.0  # budget of a late step over that of an early one


@dataclass(frozen=True)
class LatentProblem:
    """A model of ``em_models``, with the numbers that the user knows.

    Parameters
    ----------
    model : str
        Key of ``em_models.MODELS``.
    noise_scale : float or None
        Standard deviation of the noise; None to learn it.
    init : array or None
        Public starting point; None for a private start.
    n_iter, step : or None for a default of the model
    """

    model: str
    noise_scale: float | None = None
    init: Floats | None = None
    n_iter: int | None = None
    step: float | None = None

    @property
    def known(self) -> float | None:
        return None if self.noise_scale is None else self.noise_scale**2

    def terms(self, cut: float = math.inf) -> Model:
        return partial(missing_terms, cut=cut) if self.model == "missing_covariates" else MODELS[self.model]

    def printed_schedule(self, folds: bool = False) -> Schedule:
        """Equal steps and the last iterate, as printed in the paper."""
        n_iter = 20 if self.n_iter is None else self.n_iter
        return Schedule(0, n_iter, 0.0, 1.0, 1.0 if self.step is None else self.step, averaged=1, folds=folds)

    def schedule(self) -> Schedule:
        """Early steps, then late ones with three times the budget each, which are averaged."""
        early, late = _STEPS[self.model]
        if self.n_iter is not None:
            late = max(self.n_iter // 3, 1)
            early = self.n_iter - late
        unit = 1.0 / (early + _LATE * late)
        return Schedule(early, late, early * unit, _LATE * late * unit, self.step or _STEP[self.model], averaged=late)

    def start(self, curator: Curator, data: PrivateData, mechanisms: tuple[Mechanism, ...]) -> tuple[Floats, float]:
        """The given public start, or a private one, with a matching noise variance."""
        if not mechanisms:
            assert self.init is not None
            return self.init, self.known if self.known is not None else 1.0
        size, floor = mechanisms[0], self.known or 0.0
        assert isinstance(size, TopK)
        if self.model == "gaussian_mixture":
            moments = mechanisms[1]
            assert isinstance(moments, Gaussian)
            beta, variance = mixture_start(curator, size, moments, data, floor)
        else:
            height = bounded_size(magnitude_quantile(curator, size, data, response, 0.5))
            beta, variance = np.zeros(data.d), max(height**2, floor)
            if self.model == "mixture_of_regressions":
                moments = mechanisms[1]
                assert isinstance(moments, Gaussian)
                beta, variance = regressions_start(curator, moments, data, lambda b: np.asarray(b.X), 0.0, height, floor)
        return (beta if self.init is None else self.init), variance

    @property
    def start_mechanisms(self) -> tuple[Mechanism, ...]:
        if self.init is not None and self.known is not None:
            return ()
        if self.model == "missing_covariates":
            return (TopK("size of the response", _SIZE),)
        return (TopK("size of a row", _SIZE), Gaussian("spectral start", _START))
