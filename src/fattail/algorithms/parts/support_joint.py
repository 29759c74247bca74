"""Tables among sparse models: whether columns are alike, how many a fit can have, and which coefficients it keeps.

Columns of real tables have units and centers of their own, and are correlated. The steps of `SupportFit` (``support_fit.py``) are
for columns that are alike. The chosen columns of a table are fitted by the dense default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fattail import _kernels
from fattail._tools.numbers import TINY
from fattail.algorithms.parts.linear_rows import LinearFit
from fattail.algorithms.parts.support_plan import SparseFit
from fattail.columns.units import ColumnUnits
from fattail.privacy import Curator, Gaussian
from fattail.robust.histogram import Histogram
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class JointSupportDefaults:
    """Constants, set by hand on the tables that ``benchmarks/real_tables.py`` marks as tuned."""

    blur: float = 0.12
    """Largest blur (``auto/many_columns.py``) of joint moments: it limits the number of columns."""
    typical: float = 1.3
    """Squared length of rows over the number of columns, as in ``auto/many_columns.py``."""
    doubt: float = 2.0
    """Standard errors are doubted if they exceed those by which most coefficients are noise by more than this factor."""
    least_z: float = 2**0.5
    """A coefficient below at least this many standard errors is dropped: it then explains less than its noise adds (Akaike)."""
    noise: float = 0.15
    """Share of the kept columns that may be noise."""
    unit_ratio: tuple[float, float] = (2.0, 100.0)
    """Scales within a factor of their median are alike. The factor is the first number plus the second times the noise of a
    count, as a share of the rows. Uniform columns had up to 6.3 with a noise of 0.05."""
    center_ratio: tuple[float, float] = (1.0, 80.0)
    """Centers within a multiple of the scale, computed in the same way, are about zero. Uniform columns had up to 2.5 with a
    noise of 0.05."""
    may_differ: float = 0.05
    """Share of the columns that may differ: in one of 20 fits of d = s = 50, one of fifty units was noise."""
    sign_excess: float = 1.5
    """In a row that looks scaled, the numbers of positive and negative entries differ by at most this multiple of the root of
    their sum, as in 87 % of rows with random signs."""
    row_quantiles: tuple[float, float] = (0.5, 0.9)
    """Quantiles of the magnitudes of a row whose ratio is compared with ``magnitude_ratio``."""
    magnitude_ratio: float = 8.0
    """Largest such ratio in a row that looks scaled; 1.8 is typical of uniform entries, 2.4 of normal ones, 6.3 of Cauchy
    ones."""
    row_square: float = 32.0
    """Largest mean square of the entries of a row that looks scaled, over the square of the middle one: 2 is typical of normal
    entries, 5 of t(3) ones. A few columns in other units show in no quantile; one log-normal cost among 100 normal columns has
    thousands, and steps of one length diverge."""


DEFAULTS = JointSupportDefaults()
# Relative error of a difference of variances: the intercept of columns around 1e9 loses nearly all digits of its variance.
ROUNDING = 16 * float(np.finfo(np.float64).eps)
HALF_OF_NOISE = 0.6745
"""Median of the magnitude of a normal number."""


def most_columns(n: int, multiplier: float) -> int:
    """Columns whose joint moments are more than noise: public arithmetic on the rows and the fit's noise multiplier."""
    width = (DEFAULTS.blur * n / (DEFAULTS.typical * math.sqrt(2) * multiplier)) ** (2 / 3)
    return max(1, int(width) - 1)


def columns_are_alike(units: ColumnUnits, noise: float) -> bool:
    """Whether all columns that show, but for a few, are around zero and in about one unit, as if somebody had scaled them.

    ``noise`` is that of a count, as a share of the rows.
    """
    shown = np.isfinite(units.scale)
    if 2 * np.sum(shown) <= shown.size:
        return False
    center, scale = units.center[shown], units.scale[shown]
    farthest, widest = (clean + rate * noise for clean, rate in (DEFAULTS.center_ratio, DEFAULTS.unit_ratio))
    apart = np.exp(np.abs(np.log(scale / np.median(scale))))
    differ = (apart > widest) | (np.abs(center) > farthest * scale)
    return bool(np.sum(differ) <= DEFAULTS.may_differ * scale.size)


def rows_look_scaled(curator: Curator, release: Gaussian, data: PrivateData) -> bool:
    """Whether most rows look like draws around zero in one unit: about as many positive as negative entries, of similar size.

    Entries that are zero are ignored. The number of such rows is one release, of sensitivity ``sqrt(2)`` with the number of
    the other rows. It needs no units, so it is reliable where those of single columns are not.
    """

    def looks_scaled(block: Block) -> Floats:
        X = np.asarray(block.dense, dtype=np.float64)
        magnitudes = np.sort(np.abs(X), axis=1)
        filled = np.count_nonzero(magnitudes, axis=1)
        places = [np.minimum(X.shape[1] - filled + (q * filled).astype(np.intp), X.shape[1] - 1) for q in DEFAULTS.row_quantiles]
        middle, large = (magnitudes[np.arange(len(X)), place] for place in places)
        length = np.sqrt(_kernels.row_dots(magnitudes, magnitudes) / np.maximum(filled, 1))
        is_balanced = np.abs(np.sum(np.sign(X), axis=1)) <= DEFAULTS.sign_excess * np.sqrt(filled)
        is_similar = (large <= DEFAULTS.magnitude_ratio * middle) & (length <= math.sqrt(DEFAULTS.row_square) * middle)
        return np.asarray(is_balanced & is_similar, dtype=np.float64)[:, None]

    others, alike = curator.release(release, Histogram(cells=2).counts(data, looks_scaled))[0]
    return bool(alike > others)


def without_noise(fit: LinearFit, d: int, support: Indices, sparsity: int | None) -> SparseFit:
    """A fit of some of d columns, without the coefficients that noise could explain."""
    # Of d / k estimates that are only noise, the largest has about so many standard errors. A given sparsity says how many
    # are not.
    most_z = max(DEFAULTS.least_z, math.sqrt(2 * math.log(d / support.size)) if sparsity is None else 0.0)
    if fit.covariance is None:  # too few rows to show any column
        return SparseFit.of(d, support, fit.coef, fit.intercept, np.full(support.size + 1, math.inf))
    sizes = np.abs(fit.coef) / np.sqrt(np.maximum(np.diag(fit.covariance)[:-1], TINY))
    # If most coefficients are far smaller than their standard errors say, these are too large to judge the others by.
    doubt = min(1.0, DEFAULTS.doubt * float(np.median(sizes)) / HALF_OF_NOISE)
    fit = eliminated(fit, sparsity or support.size, (DEFAULTS.least_z * doubt, most_z * doubt))
    assert fit.covariance is not None
    found = SparseFit.of(d, support, fit.coef, fit.intercept, np.sqrt(np.diag(fit.covariance)))
    return replace(found, response_range=fit.response_range)


def eliminated(fit: LinearFit, most: int, least: tuple[float, float]) -> LinearFit:
    """Backward elimination: drop the coefficient of fewest standard errors until ``most`` are left and all exceed a threshold.

    The threshold rises from the first to the second of ``least`` as fewer are left. If m of k are, about a share of ``noise`` of
    them would be noise that exceeds it (Benjamini and Hochberg 1995): where nearly all columns count, one may.
    The others change to their expected values given that it is zero, by the covariance of the errors. A column without a visible
    spread keeps its coefficient of zero and its infinite error.
    """
    assert fit.covariance is not None
    theta, covariance = np.append(fit.coef, fit.intercept), fit.covariance.copy()
    left = [j for j in range(fit.coef.size) if math.isfinite(covariance[j, j])]
    hidden = np.isinf(np.diag(covariance))
    covariance[hidden], covariance[:, hidden] = 0.0, 0.0
    tried, rounding = len(left), ROUNDING * np.diag(covariance)
    while left:
        size = np.abs(theta[left]) / np.sqrt(np.maximum(np.diag(covariance)[left], TINY))
        smallest = int(np.argmin(size))
        shown = -float(ndtri(DEFAULTS.noise * len(left) / (2 * tried)))
        if len(left) <= most and size[smallest] >= np.clip(shown, *least):
            break
        j = left.pop(smallest)
        along = covariance[:, j] / max(float(covariance[j, j]), TINY)
        theta = theta - along * theta[j]
        covariance = covariance - np.outer(along, covariance[j])
        theta[j], covariance[j], covariance[:, j] = 0.0, 0.0, 0.0
        others = [*left, theta.size - 1]
        covariance[others, others] = np.maximum(covariance[others, others], rounding[others])
    covariance[hidden, hidden] = math.inf
    return replace(fit, coef=theta[:-1], intercept=float(theta[-1]), covariance=covariance)
