"""The default mean: nothing is assumed, everything it needs is bought from the same budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fattail._registry import registered
from fattail.data import PrivateData
from fattail.privacy import Curator, Gaussian, Laplace, Mechanism, TopK, gaussian_multiplier
from fattail.privacy.curator import warn_utility
from fattail.robust import Clip
from fattail.scale import BELOW, NO_SPREAD, column_medians, column_tails, least_seen
from fattail.tails import Ends, choose_ends
from fattail.columns.description import DescriptionPlan, describe
from fattail.columns.ends import choose_ends as new_ends, clipped_square

Floats = NDArray[np.float64]
Noise = Laplace | Gaussian

_NORMAL = 1.96  # two-sided 95 % of the normal law
# Where a tail was not seen at all, the answer is the center and its interval endless.
_NOTHING = Ends(below=2.0**-60, above=2.0**-60, bias=0.0, bias_variance=math.inf, sampling_variance=0.0, less=0.0, more=0.0)


class Estimate(NamedTuple):
    """A mean and, where they are known, the errors of which an interval is made (per column)."""

    value: Floats
    noise: Floats | None = None
    """Standard deviation of the noise."""
    spread: Floats | None = None
    """Standard deviation of everything else: sampling, and bias as far as it is known; per column, or below and above of each."""
    laplace: bool = False
    """The noise is of the Laplace, not the normal law."""

    def interval(self, confidence: float) -> Floats:
        """Normal quantile of the spread and exact quantile of the noise, added in squares; NaN if unknown."""
        if self.noise is None or self.spread is None:
            return np.full((len(self.value), 2), np.nan)
        normal = float(ndtri((1 + confidence) / 2))
        quantile = -math.log1p(-confidence) / math.sqrt(2) if self.laplace else normal
        spread = np.reshape(self.spread, (len(self.value), -1))
        half = np.sqrt((normal * spread) ** 2 + (quantile * self.noise[:, None]) ** 2)
        return np.asarray(self.value[:, None] + np.array([-1.0, 1.0]) * half)


def additive(name: str, d: int, epsilon: float, delta: float, share: float = 1.0) -> Noise:
    """Laplace noise for few columns, Gaussian noise for many: whichever is smaller."""
    return Laplace(name, share) if pure_is_better(d, epsilon, delta) else Gaussian(name, share)


def pure_is_better(d: int, epsilon: float, delta: float, parts: float = 1.0) -> bool:
    """Whether d columns in l1 get less noise than in l2; a plan in ``parts`` favours l2."""
    return delta == 0 or math.sqrt(2 * d) * parts < epsilon * gaussian_multiplier(epsilon, delta)


def noise_std(curator: Curator, mechanism: Noise, sensitivity: float) -> float:
    """Standard deviation of the noise that a release with this sensitivity gets."""
    return curator.noise(mechanism, sensitivity) * (math.sqrt(2) if isinstance(mechanism, Laplace) else 1.0)


def per_column(mechanism: Noise, d: int) -> float:
    """Sensitivity of d columns together when each alone has 1."""
    return float(d) if mechanism.norm == "l1" else math.sqrt(d)


@dataclass(frozen=True)
class Pilot:
    """Private center, scale and tail counts of every column, and how to plan for them.

    Parameters
    ----------
    location : TopK
    counts, release : Laplace or Gaussian
        ``release`` is what the pilot is for.
    """

    location: TopK
    counts: Noise
    release: Noise

    @classmethod
    def plan(cls, n: int, d: int, epsilon: float, delta: float) -> Pilot:
        """Shares by public arithmetic: the more rows, the smaller the pilot's part.

        Pure releases add their epsilons, so shares of epsilon enter squared, and a selection
        of bounded range is worth four times as much; shares of Gaussian plans are of rho.
        """
        pure = pure_is_better(d, epsilon, delta, parts=1.2)
        multiplier = math.sqrt(2) * d / epsilon if pure else math.sqrt(d) * gaussian_multiplier(epsilon, delta)
        rows = n / multiplier / 10**2.55  # below 1 they are scarce
        t = min(max(math.log10(rows) / 1.3, 0.0), 1.0)
        location, counts = 0.12 - 0.10 * t, 0.42 - 0.12 * t
        _check_rows(n, 2 * d / (location * epsilon) if pure else multiplier / math.sqrt(location / 2))
        location = min(location / min(rows, 1.0), 0.3)  # a median must be found before anything else
        rest = 1 - location - counts
        looks = d * (2 if t > 0.4 else 1)  # where rows allow, the location is refined once
        if pure:
            return cls(
                TopK("location", location**2 / (8 * looks), count=looks),
                Laplace("tail counts", counts**2 / 2),
                Laplace("mean", rest**2 / 2),
            )
        return cls(
            TopK("location", location / 2, count=looks),
            Gaussian("tail counts", counts / 2),
            Gaussian("mean", 1 - (location + counts) / 2),
        )

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        return (self.location, self.counts, self.release)

    def run(
        self, curator: Curator, data: PrivateData, *, symmetric: bool = False, groups: int = 1
    ) -> tuple[Floats, Floats, list[Ends]]:
        """Centers, scales, and the ends chosen for each column, in scales."""
        center = column_medians(curator, self.location, data)
        if self.location.count > data.d:
            center = column_medians(curator, self.location, data, center)
        scale, counts = column_tails(curator, self.counts, data, center)
        count_noise = noise_std(curator, self.counts, {"l1": 2.0 * data.d, "l2": math.sqrt(2.0 * data.d)}[self.counts.norm])
        mean_noise = noise_std(curator, self.release, per_column(self.release, data.d) * groups / data.n)
        rank_noise = 2 * curator.noise(self.location)
        ends = [choose_ends(c, data.n, count_noise, mean_noise, rank_noise, symmetric=symmetric) for c in counts]
        for j, c in enumerate(center):
            if _lost(c, scale[j], counts[j], data.n, count_noise):
                center[j], scale[j], ends[j] = 0.0, abs(c), _NOTHING
            elif c and scale[j] == NO_SPREAD:  # rows too thinly spread to be seen, for hardly any is at the center itself
                ends[j] = _NOTHING
        return center, scale, ends


def _lost(center: float, scale: float, counts: Floats, n: int, noise: float) -> bool:
    """Whether the center is no median, only a large number by bad luck.

    Then most rows lie around zero, seen from there; or nothing was seen, with so few rows that it might be all of them.
    """
    if not center:
        return False
    octave = BELOW + math.floor(math.log2(abs(center) / scale))
    near_zero = counts[int(center > 0), max(octave - 1, 0) : max(octave + 2, 0)]
    return bool(near_zero.sum() > 0.7 * n) or (scale == NO_SPREAD and n < 2 * least_seen(noise))


def _check_rows(n: int, noise: float) -> None:
    """Refuse, or warn, when half of the rows are no match for the noise of a selection."""
    wanted = f"{math.ceil(12 * noise)} rows, or a larger epsilon, would do"
    if n < 2 * noise:
        raise ValueError(f"{n} rows are too few to find even the location of the data privately: about {wanted}")
    if n < 12 * noise:
        warn_utility(f"{n} rows barely show where the data lie at this budget; about {wanted}")


@registered(
    "auto",
    estimators=("DPMean",),
    paper="fattail",
    algorithm="adaptive clipped mean",
    changed="nothing to declare: location, scale and both clipping ends are private estimates from the same budget, "
    "and the clipping bias predicted from the released tail counts is taken out",
    test="tests/estimators/test_means.py::test_fuzz[auto]",
)
def adaptive_mean(curator: Curator, data: PrivateData) -> Estimate:
    """Clipped mean whose ends are chosen from private tail histograms, minus its predicted bias.

    Notes
    -----
    1. Private median c_j of every column on the dyadic grid.
    2. Noisy counts of its rows above and below c_j by octave of the distance.
    3. Public: the scale s_j, beyond which the counts show few rows.
    4. Public: the ends a_j, b_j of the interval with the smallest expected error, and the
       bias that clipping to it causes (``fattail.tails``).
    5. Noisy mean of the rows clipped to the interval, minus the bias.

    *Privacy.* Steps 1, 2 and 5 are one plan; 3 and 4 see releases only. The mean of column j
    moves by at most ``(a_j + b_j) / n``. No assumption on the data.
    """
    plan, release = plan_mean(data.n, data.d, curator.epsilon, curator.delta)
    curator.plan(*plan.mechanisms, release)
    columns = describe(curator, plan, data)
    unit = noise_std(curator, release, per_column(release, data.d) / data.n)
    ends = [new_ends(column, unit) for column in columns]
    low, high = np.array([e.low for e in ends]), np.array([e.high for e in ends])
    center = np.array([c.center for c in columns])
    bound = np.maximum((high - low) / 2, np.maximum(np.abs(center) * 2.0**-50, 2.0**-140))
    clipped = Clip(center=(low + high) / 2, bound=bound).mean(data)
    raw = curator.release(release, clipped.to(release.norm))
    value = raw + np.array([e.bias for e in ends])
    noise = unit * 2 * bound
    spread = np.array([_spread(e, m - c, data.n, u) for e, m, c, u in zip(ends, raw, center, noise, strict=True)])
    return Estimate(value, noise, spread, isinstance(release, Laplace))


def plan_mean(n, d, epsilon, delta):
    pure = pure_is_better(d, epsilon, delta, parts=1.2)
    multiplier = math.sqrt(2) * d / epsilon if pure else math.sqrt(d) * gaussian_multiplier(epsilon, delta)
    rows = n / multiplier * math.sqrt(2)  # n epsilon
    t = min(max(math.log10(rows / 500) / 1.3, 0.0), 1.0)
    stages = 3 if rows > 1500 else 2 if rows > 600 else 1
    location = min(max(60 * stages / rows, 0.03), 0.2)
    counts = 0.42 - 0.12 * t
    rest = 1 - location - counts
    names = ("location", "closer location", "closest location")[:stages]
    if pure:
        return DescriptionPlan(tuple(TopK(k, (location / stages) ** 2 / (8 * d), count=d) for k in names), Laplace("counts", counts**2 / 2)), Laplace("mean", rest**2 / 2)
    return DescriptionPlan(tuple(TopK(k, location / stages / 2, count=d) for k in names), Gaussian("counts", counts / 2)), Gaussian("mean", rest / 2)


def _spread(e, m, n, noise):
    if not e.seen:
        return math.inf, math.inf
    within = max(clipped_square(e, m, noise) - m**2, 0.0) / n
    both = within + e.realized / n + e.bias_variance
    low, high = (math.sqrt(both + (x / _NORMAL) ** 2) for x in (e.less, e.more))
    return math.inf if e.open_low else low, math.inf if e.open_high else high
