"""Goodness-of-fit tests of the installed samplers, for ``fattail doctor``.

Versions of the sampling library have been biased: discrete Gaussian noise whose residues were off by 4
to 5 % at scale 2 (OpenDP before 0.14.2). Tests with small scales detect such faults best.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fattail.privacy.discrete_normal import discrete_gaussian
from fattail.privacy.noise import NoiseSource, SecureNoise

# A correct installation fails about once in a million runs, all tests together.
FALSE_ALARMS = 1e-6

_SCALE, _FARTHEST = 2.0, 7


class Check(NamedTuple):
    """One test of one sampler."""

    name: str
    p_value: float
    ok: bool


def self_test() -> list[Check]:
    """Compare each sampler of secure noise with its law."""
    found = list(_p_values(SecureNoise()))
    return [Check(name, p, p > FALSE_ALARMS / len(found)) for name, p in found]


def _p_values(source: NoiseSource) -> Iterator[tuple[str, float]]:
    zeros = np.zeros(80_000, dtype=np.int64)
    steps = np.arange(-200, 201)
    yield "discrete Gaussian", _fit(discrete_gaussian(os.urandom, zeros, _SCALE), np.exp(-(steps**2) / (2 * _SCALE**2)))
    yield "discrete Laplace", _fit(source.laplace(zeros[:40_000], _SCALE), np.exp(-np.abs(steps) / _SCALE))

    fine = 2.0**30
    wide = source.gaussian(zeros[:10_000], fine) / fine
    yield "Gaussian", float(stats.kstest(wide, stats.norm.cdf).pvalue)

    scores = np.array([0, 1, 2, 4], dtype=np.int64) << 20
    picks = [int(source.top_k(scores, 1, 2.0**21, False)[0]) for _ in range(6_000)]
    weights = np.exp(scores / 2.0**21)
    yield "selection", _chi_square(np.bincount(picks, minlength=4), weights)

    width = 0.75
    smooth = source.smooth(np.zeros(4_000), np.ones(4_000), width)
    yield "sinh-normal", float(stats.kstest(np.arcsinh(width * smooth) / width, stats.norm.cdf).pvalue)
    # The last bits of a double should be uniform, because the density is nearly flat at that scale.
    low = (smooth.view(np.uint64) & np.uint64(15)).astype(np.intp)
    yield "low bits", _chi_square(np.bincount(low, minlength=16), np.ones(16))


def _fit(draws: NDArray[np.int64], weights: NDArray[np.float64]) -> float:
    """Chi-square test on the integers near zero, what is farther in one cell at either end."""
    middle = len(weights) // 2
    inside = slice(middle - _FARTHEST, middle + _FARTHEST + 1)
    cells = weights[inside].copy()
    cells[0], cells[-1] = weights[: inside.start + 1].sum(), weights[inside.stop - 1 :].sum()
    return _chi_square(np.bincount(np.clip(draws, -_FARTHEST, _FARTHEST) + _FARTHEST, minlength=len(cells)), cells)


def _chi_square(counts: NDArray[np.intp], weights: NDArray[np.float64]) -> float:
    return float(stats.chisquare(counts, counts.sum() * weights / weights.sum()).pvalue)
