"""Privacy loss between two draws of noise ``center + scale sinh(width Z) / width``, computed from scratch.

The three numbers are determined by passing known normal draws to a sampler, so nothing here depends on the constants in the
proofs of the mechanisms. Width 0 is the normal distribution itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.stats import ncx2

from fattail.privacy import epsilon_of, events
from fattail.privacy.accountant import gaussian_delta

Floats = NDArray[np.float64]

# Normal quantiles: beyond 40 the mass is below exp(-800).
_Z = np.linspace(-40.0, 40.0, 16_001)
_LOG_MASS = -(_Z**2) / 2 - 0.5 * math.log(2 * math.pi) + math.log(_Z[1] - _Z[0])
_ORDERS = np.concatenate([1 + np.geomspace(1e-3, 1.0, 8), np.geomspace(2.5, 500.0, 24)])


@dataclass(frozen=True)
class SinhNormal:
    """Independent coordinates of one such noise."""

    center: Floats
    scale: Floats
    width: float

    @classmethod
    def of(cls, sample: Callable[[float], Floats]) -> SinhNormal:
        """From ``sample(z)``, what a sampler gives when every normal draw is ``z``.

        Raises
        ------
        NotImplementedError
            If the sampler is not of this kind.
        """
        at = {z: np.ravel(sample(z)) for z in (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0)}
        one, two = at[1.0] - at[-1.0], at[2.0] - at[-2.0]
        width = float(np.median(np.arccosh(np.maximum(two / (2 * one), 1.0))))
        width = 0.0 if width < 1e-4 else width
        found = cls(at[0.0], one / (2 * sinh_map(1.0, width)), width)
        if not np.allclose(at[3.0] - found.center, found.scale * sinh_map(3.0, width), rtol=1e-3):
            raise NotImplementedError("noise of another shape")
        return found

    def lattice(self, outputs: Floats) -> int | None:
        """Binary digits of the normal draws behind ``outputs``, if they have few, which would be visible in the last bits.

        Draws on a grid of ``2**-b`` are whole multiples of it when they are computed back, and their phases agree.
        Real draws have phases that cancel: 0.5 is seven standard deviations for 100 outputs. ``outputs`` are one
        row per draw.
        """
        away = (outputs - self.center) / self.scale
        draws = np.arcsinh(self.width * away) / self.width if self.width else away
        blur = np.spacing(np.abs(outputs)) / self.scale  # of the double in which an output is written
        for bits in range(16, 61):
            seen = blur * 2.0**bits < 0.05
            if np.sum(seen) >= 100 and np.mean(np.cos(2 * np.pi * np.mod(draws[seen] * 2.0**bits, 1.0))) > 0.5:
                return bits
        return None


def sinh_map(z: float | Floats, width: float) -> Floats:
    return np.asarray(np.sinh(width * np.asarray(z)) / width if width else z, dtype=np.float64)


def losses(ours: SinhNormal, theirs: SinhNormal, j: int) -> Floats:
    """Log odds of ``ours`` against ``theirs`` in coordinate ``j``, at the outputs of ``ours`` for the normal quantiles."""
    width = ours.width
    shifted = (ours.scale[j] * sinh_map(_Z, width) + ours.center[j] - theirs.center[j]) / theirs.scale[j]
    back = np.arcsinh(width * shifted) / width if width else shifted

    def log_density(z: Floats, scale: float) -> Floats:
        log_cosh = np.logaddexp(width * z, -width * z) - math.log(2)
        return np.asarray(-(z**2) / 2 - log_cosh - math.log(scale))

    return log_density(_Z, ours.scale[j]) - log_density(back, theirs.scale[j])


def epsilon_at(ours: SinhNormal, theirs: SinhNormal, j: int, delta: float) -> float:
    """Smallest epsilon at which coordinate ``j`` is (epsilon, delta)-indistinguishable, both ways."""
    return max(_epsilon(losses(a, b, j), delta) for a, b in ((ours, theirs), (theirs, ours)))


def _epsilon(loss: Floats, delta: float) -> float:
    def exceeds_delta(epsilon: float) -> bool:
        over = loss > epsilon
        if not np.any(over):
            return False
        terms = _LOG_MASS[over] + np.log(-np.expm1(epsilon - loss[over]))
        return float(special.logsumexp(terms)) > math.log(delta)

    low, high = 0.0, max(float(np.max(loss)), 0.0)
    if not exceeds_delta(low):
        return 0.0
    for _ in range(60):
        mid = (low + high) / 2
        low, high = (mid, high) if exceeds_delta(mid) else (low, mid)
    return high


def rho_of(ours: SinhNormal, theirs: SinhNormal, j: int) -> float:
    """Smallest rho for which coordinate ``j`` is rho-zCDP, both ways, over a grid of Renyi orders."""
    worst = 0.0
    for loss in (losses(ours, theirs, j), losses(theirs, ours, j)):
        for order in _ORDERS:
            divergence = float(special.logsumexp(_LOG_MASS + (order - 1) * loss)) / (order - 1)
            worst = max(worst, divergence / order)
    return worst


def mu_of(ours: SinhNormal, theirs: SinhNormal, j: int) -> float:
    """Smallest mu for which coordinate ``j`` is mu-Gaussian DP, both ways, over a grid of epsilons."""
    worst = 0.0
    for loss in (losses(ours, theirs, j), losses(theirs, ours, j)):
        for epsilon in np.linspace(0.0, float(np.max(loss[np.abs(_Z) < 8])), 24, endpoint=False):
            over = loss > epsilon
            log_delta = float(special.logsumexp(_LOG_MASS[over] + np.log(-np.expm1(epsilon - loss[over]))))
            low, high = 1e-9, 1e3
            for _ in range(50):
                mid = math.sqrt(low * high)
                low, high = (low, mid) if gaussian_delta(epsilon, mid) >= math.exp(log_delta) else (mid, high)
            worst = max(worst, low)
    return worst


def normal_epsilon(ours: SinhNormal, theirs: SinhNormal, delta: float) -> float:
    """Smallest epsilon for two round normal distributions in d dimensions, of different scales."""
    d = len(ours.center)
    shift = float(np.linalg.norm(ours.center - theirs.center))
    return max(
        _normal_epsilon(d, shift / a.scale[0], math.log(b.scale[0] / a.scale[0]), delta)
        for a, b in ((ours, theirs), (theirs, ours))
    )


def _normal_epsilon(d: int, shift: float, log_scale: float, delta: float) -> float:
    """Of N(0, I) against N(shift, exp(2 log_scale) I): where the loss exceeds epsilon is a ball, or all but one."""
    if abs(log_scale) < 1e-7:  # a ball so large that it is a half-space
        return epsilon_of([events.GaussianEvent(1 / shift)], delta) if shift > 0 else 0.0
    a = 0.5 * math.expm1(-2 * log_scale)
    center = (a + 0.5) * shift / a

    def delta_at(epsilon: float) -> float:
        # loss(x) = d log_scale + |x - shift|^2 / (2 s^2) - |x|^2 / 2 = a |x - center|^2 + rest
        rest = d * log_scale + (a + 0.5) * shift**2 - a * center**2
        radius2 = (epsilon - rest) / a
        if radius2 <= 0:
            return max(0.0, 1 - math.exp(epsilon)) if a > 0 else 0.0
        mass = ncx2.sf if a > 0 else ncx2.cdf
        s2 = math.exp(2 * log_scale)
        p, q = mass(radius2, d, center**2), mass(radius2 / s2, d, (center - shift) ** 2 / s2)
        return float(p - math.exp(epsilon) * q)

    low, high = 0.0, 64.0
    if delta_at(low) <= delta:
        return 0.0
    for _ in range(60):
        mid = (low + high) / 2
        low, high = (mid, high) if delta_at(mid) > delta else (low, mid)
    return high
