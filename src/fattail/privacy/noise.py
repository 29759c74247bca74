"""Sources of noise that leave no trace of the data in the low bits.

Noise of a public scale is sampled on the integers: a release is an int64 vector (exact sums, or
floats that ``mechanisms`` put on a grid tied to the noise), and noise is an integer too. Noise of
a private scale is a real number that is rounded once (``exact``). Selections are OpenDP's, which draws from OpenSSL's generator,
seeded by the system; Laplace noise (``geometric``), Gaussian noise (``discrete_normal``) and ``exact`` draw from the system.
``noise.proof.md`` covers forked processes and cloned machines.
"""

from __future__ import annotations

import numbers
import os
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fattail.privacy.discrete_normal import discrete_gaussian
from fattail.privacy.events import DISCRETE_SLACK
from fattail.privacy.exact import smooth_noise
from fattail.privacy.geometric import discrete_laplace

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Beyond this many standard deviations a Gaussian has mass below exp(-1250).
_REACH = 50


class NoiseSource(Protocol):
    """A source of noise, and whether its arithmetic is exact."""

    numerics: str
    seeded: bool

    def gaussian(self, value: Integers, scale: float) -> Integers: ...
    def laplace(self, value: Integers, scale: float) -> Integers: ...
    def top_k(self, scores: Integers, k: int, scale: float, monotone: bool) -> NDArray[np.intp]: ...
    def smooth(self, value: Floats, scale: Floats, width: float) -> Floats: ...
    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]: ...


def check_discrete_gaussian(size: int, scale: float) -> None:
    """Refuse a grid so coarse that the discrete Gaussian is not as good as the continuous one.

    Per coordinate and within fifty standard deviations, the log ratio of a Gaussian on the
    integers to a rounded continuous one is at most (50^2 + 1) / (24 scale^2); see
    ``noise.proof.md``.
    """
    slack = 2 * size * (_REACH**2 + 1) / (24 * scale**2)
    if not slack <= DISCRETE_SLACK:
        raise ValueError(f"noise scale of {scale:g} grid steps is too coarse for {size} coordinates")


class SecureNoise:
    """Exact samplers: OpenDP's for selections, our own for noise."""

    numerics = "exact"
    seeded = False

    def gaussian(self, value: Integers, scale: float) -> Integers:
        check_discrete_gaussian(value.size, scale)
        return discrete_gaussian(os.urandom, value, scale)

    def laplace(self, value: Integers, scale: float) -> Integers:
        return discrete_laplace(os.urandom, value, scale)

    def top_k(self, scores: Integers, k: int, scale: float, monotone: bool) -> NDArray[np.intp]:
        dp = _opendp()
        distance = dp.linf_distance(T="i64", monotonic=monotone)
        select = dp.m.make_noisy_top_k(_integers(), distance, dp.zero_concentrated_divergence(), k=k, scale=scale)
        return np.asarray(select(scores), dtype=np.intp)

    def smooth(self, value: Floats, scale: Floats, width: float) -> Floats:
        return smooth_noise(os.urandom, value, scale, width)

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        draws = np.frombuffer(os.urandom(4 * size), dtype=np.uint32)
        result: NDArray[np.bool_] = draws < np.uint64(rate * 2.0**32)
        return result


class SeededNoise:
    """Reproducible noise for experiments. Whoever knows the seed can subtract it."""

    numerics = "idealized"
    seeded = True

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def gaussian(self, value: Integers, scale: float) -> Integers:
        check_discrete_gaussian(value.size, scale)
        return _saturating_add(value, self._rng.normal(0.0, scale, value.shape))

    def laplace(self, value: Integers, scale: float) -> Integers:
        return _saturating_add(value, self._rng.laplace(0.0, scale, value.shape))

    def top_k(self, scores: Integers, k: int, scale: float, monotone: bool) -> NDArray[np.intp]:
        noisy = scores + self._rng.gumbel(0.0, scale, scores.shape)
        if k == 1:
            return np.array([np.argmax(noisy)], dtype=np.intp)
        return np.argsort(-noisy, kind="stable")[:k]

    def smooth(self, value: Floats, scale: Floats, width: float) -> Floats:
        return smooth_noise(self._rng.bytes, value, scale, width)

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        return self._rng.random(size) < rate


def noise_source(random_state: Any = None) -> NoiseSource:
    """Secure noise by default, seeded noise for an int ``random_state``."""
    if random_state is None:
        return SecureNoise()
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool) and int(random_state) >= 0:
        return SeededNoise(int(random_state))
    raise ValueError(
        f"random_state must be None (secure noise) or a non-negative int (reproducible, not private), got {random_state!r}"
    )


def _saturating_add(value: Integers, noise: NDArray[np.float64]) -> Integers:
    limit = 2**61
    return np.clip(value, -limit, limit) + np.rint(np.clip(noise, -float(limit), float(limit))).astype(np.int64)


@lru_cache(maxsize=1)
def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


@lru_cache(maxsize=1)
def _integers() -> Any:
    dp = _opendp()
    return dp.vector_domain(dp.atom_domain(T="i64"))
