"""The smoothed truncation of Catoni and Giulini: bounded, smooth, and safe in floating point.

``g(a) = E phi(a W)`` with ``W ~ N(1, 1/beta)``, where ``phi(x) = x - x**3/6`` on
``|x| <= sqrt(2)`` and stays at ``+-2 sqrt(2)/3`` beyond (wang2020 eq. 6-12, dpem2020 eq. 14-18).
The map is odd and increasing, close to the identity near 0, and its supremum is ``sup(beta)``.

The closed form printed in the papers cancels catastrophically for large ``a``: beyond about 1e5 its value exceeds the bound
that the privacy proof needs, and at 0 it is NaN. Here the map is evaluated in three steps, each defined for every float:

1. the core ``a (1 - a**2 (1/6 + 1/(2 beta)))`` for ``|a| <= core``, exact up to an error that is
   exponentially small in ``1/core``;
2. one polynomial in ``1 / (core**2 + a**2)`` beyond: the map is an even, entire function of ``1/a``
   there (``E phi(a W)`` integrates a normal density in ``u = a W`` over a fixed interval), so 16 to 40
   terms reach infinity, without exp, erf or a table;
3. a clamp to the supremum, with NaN counted as 0: the only line that privacy relies on.

The absolute error of `smooth` is below 1e-12 everywhere. The compiled kernels round to 2**-30 of the
supremum, so their table is shorter and errs by up to 1e-10; `scaled` does their operations in their order, but
rounds products in the tail that they add unrounded.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

__all__ = ["SmoothMap", "reference", "scaled", "smooth", "smooth_map", "sup"]

Floats = NDArray[np.float64]

UNIT = 2.0**30
"""Units of the supremum in which the fast map is evaluated and quantized."""

# Range of ``beta``.
_BETA_RANGE = (0.1, 100.0)
# Standard deviations from which on a normal tail underflows to zero.
_FAR_OUT = 40.0
# Arguments below which the map is the identity to the last bit.
_IDENTITY = 1e-150
# Range of the search for the end of the core; the cubic part decreases before the upper end.
_CORE_RANGE = (0.01, 1.5)
# Part of the Chebyshev interval where the error is tested; its end corresponds to infinity.
_PROBED = 0.999
# Largest value of the core, as a part of the supremum.
_BELOW = 0.99
_FIRST, _STEP = 3, 6  # steps of Horner's rule that the kernels take first, and then at a time
_FINE, _QUICK = 9e-13, 1e-10  # errors: of `smooth`, and of the kernels' tables
_ROOT2 = math.sqrt(2.0)
_PLATEAU = 2.0 * _ROOT2 / 3
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_NODES = _ROOT2 * _NODES
_WEIGHTS = _ROOT2 / math.sqrt(2.0 * math.pi) * _WEIGHTS * (_NODES - _NODES**3 / 6)


def sup(beta: float) -> float:
    """Return the supremum of the map, ``(2 sqrt(2)/3) erf(sqrt(beta/2))``; it is never attained."""
    low, high = _BETA_RANGE
    if not low <= beta <= high:
        raise ValueError(f"beta must lie in [{low}, {high}], got {beta!r}")
    return _PLATEAU * math.erf(math.sqrt(beta / 2.0))


def _near(a: Floats, k: float) -> Floats:
    """Evaluate the closed form, for ``0 < a <= k/4`` where it does not cancel."""
    b = a / k
    minus = np.minimum((_ROOT2 - a) / b, _FAR_OUT)
    plus = np.minimum((_ROOT2 + a) / b, _FAR_OUT)
    tail_minus, tail_plus = ndtr(-minus), ndtr(-plus)
    pdf_minus, pdf_plus = (np.exp(-v * v / 2.0) / math.sqrt(2.0 * math.pi) for v in (minus, plus))
    tails = tail_minus + tail_plus
    value: Floats = (
        a * (1.0 - b * b / 2.0)
        - a**3 / 6
        + _PLATEAU * (tail_minus - tail_plus)
        - (a - a**3 / 6) * tails
        + b * (1.0 - a * a / 2.0) * (pdf_plus - pdf_minus)
        + a * b * b / 2.0 * (tails + plus * pdf_plus + minus * pdf_minus)
        + b**3 / 6 * ((2.0 + minus**2) * pdf_minus - (2.0 + plus**2) * pdf_plus)
    )
    return value


def _far(a: Floats, k: float) -> Floats:
    """Integrate the cubic part by Gauss-Legendre in ``u = a W``, for ``a > k/4``."""
    y = 1.0 / a
    cubic = np.exp(-0.5 * (k * (np.multiply.outer(y, _NODES) - 1.0)) ** 2) @ _WEIGHTS
    plateau: Floats = ndtr(k * (1.0 - _ROOT2 * y)) - ndtr(-k * (1.0 + _ROOT2 * y))
    return _PLATEAU * plateau + k * y * cubic


def reference(a: ArrayLike, beta: float) -> Floats:
    """Evaluate the map to 1e-14, slowly: the reference for tables and tests.

    Parameters
    ----------
    a : array_like
        Arguments, any floats; NaN gives 0.
    beta : float
        Concentration of the multiplicative noise that is averaged out.
    """
    a = np.asarray(a, dtype=np.float64)
    k, top = math.sqrt(beta), sup(beta)
    x = np.abs(a.ravel())
    value = np.where(x > 0.0, x, 0.0)  # below 1e-150 the map is the identity; NaN counts as 0
    near, far = (x > _IDENTITY) & (x <= k / 4.0), x > k / 4.0
    value[near] = _near(x[near], k)
    value[far] = _far(x[far], k)
    result: Floats = np.copysign(np.minimum(value, top), a.ravel()).reshape(a.shape)
    return result


class SmoothMap(NamedTuple):
    """The coefficients of the fast map, which takes ``x = kappa a`` and returns units of ``sup / 2**30``.

    With ``kappa**3`` the coefficient of the cube, the core polynomial is ``x (slope - x**2)``: one
    multiplication less in the innermost loop.
    """

    kappa: float
    """Scale of the argument."""
    core: float
    """Largest ``|x|`` for which the core polynomial is used."""
    slope: float
    """Slope at 0."""
    tail: Floats
    """Coefficients beyond the core, leading first, in powers of ``4 core**2 / (core**2 + x**2) - 1``."""
    sup: float


def _core(beta: float, target: float) -> float:
    """Find the largest argument for which the core polynomial is within the target error."""
    grid = np.geomspace(*_CORE_RANGE, 4001)
    error = np.abs(grid * (1.0 - grid**2 * (1 / 6 + 0.5 / beta)) - reference(grid, beta))
    return float(grid[max(int(np.argmax(error > target)) - 1, 0)])


def _tail(beta: float, core: float, target: float) -> Floats:
    """Fit the map beyond the core at Chebyshev points, with as many terms as the target error needs."""
    probes = np.cos(np.pi * np.linspace(0.0, _PROBED, 997))

    def values(u: Floats) -> Floats:
        return reference(core * np.sqrt(4.0 / (u + 1.0) - 1.0), beta)

    for degree in range(_FIRST + _STEP, 50, _STEP):
        nodes = chebyshev.chebpts1(degree + 1)
        fit = chebyshev.cheb2poly(chebyshev.chebfit(nodes, values(nodes), degree))
        if np.abs(np.polyval(fit[::-1], probes) - values(probes)).max() <= target:
            return np.ascontiguousarray(fit[::-1])
    raise AssertionError("no polynomial is close enough to the map")


@lru_cache(maxsize=64)
def smooth_map(beta: float, target: float = _QUICK) -> SmoothMap:
    """Compute the coefficients for one ``beta`` to an absolute error, in milliseconds; public arithmetic only."""
    scale = UNIT / sup(beta)
    kappa = (scale * (1 / 6 + 0.5 / beta)) ** (1 / 3)
    nearest = _core(beta, target)
    core, slope = kappa * nearest, scale / kappa
    # The kernels bound the square of the core polynomial's argument, up to rounding, and not its value.
    if not (3 * core**2 < slope and core * (slope - core**2) < _BELOW * UNIT):
        raise AssertionError("the core polynomial must increase to less than the supremum")
    tail = scale * _tail(beta, nearest, target)
    return SmoothMap(kappa, core, slope, tail, sup(beta))


def scaled(x: ArrayLike, t: SmoothMap) -> Floats:
    """Evaluate the map at ``x = kappa a`` in units of ``sup / 2**30``: the kernels' operations.

    The result lies in ``[-2**30, 2**30]`` whatever the bits of ``x`` and of the table.
    """
    x = np.asarray(x, dtype=np.float64)
    square = t.core * t.core
    with np.errstate(all="ignore"):
        u = 4.0 * square / (square + x * x) - 1.0
        far = np.full(x.shape, t.tail[0])
        for coefficient in t.tail[1:]:
            far = far * u + coefficient
        h = np.where(np.isnan(x), 0.0, np.copysign(far, x))
        h = np.where(x * x <= square, x * (t.slope - x * x), h)
    return np.where(h >= -UNIT, np.where(h <= UNIT, h, UNIT), np.where(h < -UNIT, -UNIT, 0.0))


def smooth(a: ArrayLike, beta: float) -> Floats:
    """Evaluate the map to 1e-12; never beyond ``sup(beta)``, whatever the bits of ``a``.

    Parameters
    ----------
    a : array_like
        Arguments, any floats; NaN gives 0.
    beta : float
        Concentration of the multiplicative noise that is averaged out, in [0.1, 100]: small values
        bound more, large ones distort less.

    Returns
    -------
    ndarray
        Values in ``[-sup(beta), sup(beta)]``, odd in ``a`` to the last bit.

    Notes
    -----
    *Privacy.* The clamp is the last operation, so the mean of ``s g(x_i / s)`` over n rows has
    replace-one sensitivity ``2 s sup(beta) / n`` even if every coefficient above it were wrong.

    Examples
    --------
    >>> from fattail.robust.catoni import smooth, sup
    >>> float(smooth(1.0, beta=2.0).round(12))
    0.660415698927
    >>> bool(smooth(1e300, beta=2.0) <= sup(2.0))
    True
    """
    t = smooth_map(float(beta), _FINE)
    with np.errstate(all="ignore"):
        x = np.asarray(a, dtype=np.float64) * t.kappa
    return scaled(x, t) / UNIT * t.sup
