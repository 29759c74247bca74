"""Printed bounded sums that are not bounded, each caught by the audit that passes ours."""

import numpy as np
import pytest
from scipy.special import ndtr

from fattail import audit
from fattail.privacy import Bounded, Curator, Gaussian, SmoothBounded, SmoothNoise
from fattail.robust import Smooth, Trimmed, catoni
from fattail.rows.data import PrivateData


def released_once(mechanism, statistic):
    def fit(X):
        curator = Curator(1.0, 1e-5, random_state=0)
        curator.plan(mechanism)
        return curator.release(mechanism, statistic(curator, X))

    return fit


def with_row(X, row):
    Y = X.copy()
    Y[0] = row
    return (X,), (Y,)


def printed_trimmed(curator, X, trim=5):
    """wang2020 Algorithm 2: the scale is max((x_(n) - x_(1)) / (n - 2m), e^{-mt} (b - a)), which is not smooth."""
    t = curator.smoothness(NOISE)
    honest = Trimmed(trim, 1e12, t).mean(PrivateData(X))
    spread = (X.max(axis=0) - X.min(axis=0)) / (len(X) - 2 * trim)
    return SmoothBounded(honest._value, np.maximum(spread, np.exp(-trim * t) * 20.0), t)


NOISE = SmoothNoise("mean")


def test_trimmed_mean():
    data, neighbor = with_row(np.zeros((1000, 1)), 1e9)
    assert audit.replay(released_once(NOISE, printed_trimmed), data, neighbor)[0].ratio > 100


def test_trimmed_mean_by_attack():
    """The noise itself tells: with an outlier in the data it is a million times larger."""

    def run(dataset, seed):
        curator = Curator(1.0, 1e-5, random_state=seed)
        curator.plan(NOISE)
        return np.log10(np.abs(curator.release(NOISE, printed_trimmed(curator, *dataset))) + 1e-300)

    bound = audit.attack(run, *with_row(np.zeros((1000, 1)), 1e9), runs=400)
    assert bound.epsilon > 3


def printed_smoothed(curator, X, scale=1.0, beta=3.0):
    """dpem2020 eq. 23 and wang2020 eq. 10 in double precision: cancels to nonsense for large values."""
    with np.errstate(all="ignore"):
        a = X / scale
        b = np.abs(a) / np.sqrt(beta)
        minus, plus = (np.sqrt(2) - a) / b, (np.sqrt(2) + a) / b
        f_minus, f_plus = ndtr(-minus), ndtr(-plus)
        e_minus, e_plus = np.exp(-(minus**2) / 2), np.exp(-(plus**2) / 2)
        c = 1 / np.sqrt(2 * np.pi)
        correction = (
            2 * np.sqrt(2) / 3 * (f_minus - f_plus)
            - (a - a**3 / 6) * (f_minus + f_plus)
            + b * c * (1 - a**2 / 2) * (e_plus - e_minus)
            + a * b**2 / 2 * (f_plus + f_minus + c * (plus * e_plus + minus * e_minus))
            + b**3 * c / 6 * ((2 + minus**2) * e_minus - (2 + plus**2) * e_plus)
        )
        terms = scale * (a * (1 - b**2 / 2) - a**3 / 6 + correction)
    sup = scale * 2 * np.sqrt(2) / 3
    return Bounded(np.nan_to_num(terms, posinf=1e300, neginf=-1e300).mean(axis=0), 2 * sup / len(X), "l2")


@pytest.mark.parametrize("value", [1e6, 1e10])
def test_smoothed_mean_in_floating_point(value):
    gaussian = Gaussian("mean")
    X = np.random.default_rng(0).normal(size=(100, 1))
    assert audit.replay(released_once(gaussian, printed_smoothed), *with_row(X, value))[0].ratio > 1
    ours = released_once(gaussian, lambda _, X: Smooth(scale=1.0, beta=3.0).mean(PrivateData(X)).to("l2"))
    assert audit.replay(ours, *with_row(X, value))[0].ratio <= 1
    # Where the closed form still has digits, the two agree: the specimen is a fair transcription.
    np.testing.assert_allclose(printed_smoothed(None, np.array([[0.7]]))._value, catoni.smooth(np.array([0.7]), 3.0), rtol=1e-9)


def naive_truncation(curator, X):
    """x * 1{|x| <= B}, written so: infinity times zero is NaN, and NaN reaches the sum."""
    with np.errstate(all="ignore"):
        products = X * 1e300
        terms = products * (np.abs(products) <= 1.0)
    return terms.mean(axis=0)


def test_truncation_by_multiplication_leaks_overflow():
    X, Y = with_row(np.ones((10, 1)) * 1e-301, 1e10)
    assert np.isfinite(naive_truncation(None, *X)).all()
    assert np.isnan(naive_truncation(None, *Y)).all()


def aggregated_radius(points, beta, which, diameter=10.0):
    """Scale of wang2020 Algorithm 1: mean of ceil(1/beta) of the t-nearest-neighbor radii, smoothed over t."""
    m = len(points)
    radii = np.sort(np.abs(points[:, None] - points[None, :]), axis=1)
    q, start = int(np.ceil(1 / beta)), (m + 1) // 2 + 1

    def rho(t):
        if t > m:
            return diameter
        r = np.sort(radii[:, t - 1])
        return float((r[-q:] if which == "largest" else r[:q]).mean())

    return max(2 * rho(start + k + 1) * np.exp(-beta * k) for k in range(m))


def test_sample_and_aggregate_with_the_largest_radii_is_not_smooth():
    beta = 0.1
    same = np.zeros(401)
    moved = same.copy()
    moved[0] = 10.0
    jump = abs(np.log(aggregated_radius(moved, beta, "largest")) - np.log(aggregated_radius(same, beta, "largest")))
    assert jump > 100 * beta
    repaired = abs(np.log(aggregated_radius(moved, beta, "smallest")) - np.log(aggregated_radius(same, beta, "smallest")))
    assert repaired <= 2 * beta
