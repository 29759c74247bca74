"""Gaussian noise on the integers: its law, and the comparisons that floating point does not decide."""

import math
import os

import numpy as np
import pytest
from scipy import stats

from fattail.privacy import discrete_normal
from fattail.privacy.discrete_normal import discrete_gaussian
from fattail.privacy.exact import exp_bounds
from fattail.privacy.geometric import discrete_laplace


def chance(size: int, scale: float, bits: int) -> int:
    """Whole part, up to 2, of ``2**bits`` times the probability that a proposal of this size is kept."""
    top, bottom = scale.as_integer_ratio()
    return exp_bounds(-((size * bottom - top) ** 2), 2 * top**2, bits)[0] + 1


def queued(data: bytes):
    """A source of these bytes."""
    left = bytearray(data)

    def draw(count):
        part, left[:count] = bytes(left[:count]), b""
        assert len(part) == count
        return part

    return draw


@pytest.mark.parametrize("scale", [0.3, 0.9, 2.0, 5.5])
def test_small_scales_have_the_right_law(scale):
    draws = discrete_gaussian(os.urandom, np.zeros(200_000, dtype=np.int64), scale)
    steps = np.arange(-60, 61)
    for factor in (1.0, 0.95, 1.05):
        weights = np.exp(-((steps / (scale * factor)) ** 2) / 2)
        inside = weights / weights.sum() * draws.size > 10
        counts = np.array([np.sum(draws == k) for k in steps[inside]])
        p = stats.chisquare(counts, counts.sum() * weights[inside] / weights[inside].sum()).pvalue
        assert p > 1e-6 if factor == 1.0 else p < 1e-9


@pytest.mark.parametrize("scale", [1234.5, 2.0**37 * 1.3, 2.0**60])
def test_large_scales_are_normal(scale):
    draws = discrete_gaussian(os.urandom, np.zeros(100_000, dtype=np.int64), scale)
    assert stats.kstest((draws + np.random.default_rng(0).random(draws.size) - 0.5) / scale, "norm").pvalue > 1e-6
    odd = int(np.sum(draws % 2 == 1))
    assert stats.binomtest(odd, draws.size).pvalue > 1e-6


@pytest.mark.parametrize("scale", [1e-3, 0.7, 3.0, 1e5 + 0.1, 2.0**40 * 1.1, 2.0**57])
def test_floating_point_is_far_closer_to_the_probability_than_allowed_for(scale):
    """Proposals whose uniform number is beyond the doubt are decided as exact arithmetic does."""
    sizes = np.unique(np.rint(scale * np.concatenate((np.linspace(0, 9, 80), [20.0, 60.0]))).astype(np.int64))
    exact = np.array([chance(int(k), scale, 128) / 2**128 for k in sizes])
    with np.errstate(under="ignore"):
        found = np.exp(-0.5 * (sizes.astype(np.float64) / scale - 1.0) ** 2)
    assert np.all(np.abs(found - exact) < discrete_normal._DOUBT / 16)


@pytest.mark.parametrize("scale", [2.0, 1000.25, 2.0**40 * 1.1])
@pytest.mark.parametrize("relative", [0.0, 0.4, 2.3])
def test_close_comparisons_are_exact(scale, relative):
    size = int(scale * relative)
    near = chance(size, scale, 64)
    for word in (near - (1 << 20), near - 5, near + 5, near + (1 << 20)):
        draw = queued(word.to_bytes(8, "big") + os.urandom(8))
        assert discrete_normal._accepted(draw, np.array([size]), scale)[0] == (word < near)


def test_ties_ask_for_further_digits():
    size, scale = 3, 2.0
    own = chance(size, scale, 256)
    for step, expected in ((-(1 << 30), True), (1 << 30, False)):
        word = (own + step).to_bytes(32, "big")
        draw = queued(word)
        assert discrete_normal._accepted(draw, np.array([size]), scale)[0] == expected
        with pytest.raises(AssertionError):
            draw(1)


def test_a_proposal_that_is_refused_is_drawn_again(monkeypatch):
    sizes = iter([np.array([5, 6, 7]), np.array([1, 2]), np.array([4])])
    kept = iter([np.array([False, True, False]), np.array([True, False]), np.array([True])])
    monkeypatch.setattr(discrete_normal, "signed_sizes", lambda *_: (np.zeros(len(s := next(sizes)), dtype=bool), s))
    monkeypatch.setattr(discrete_normal, "_accepted", lambda *_: next(kept))
    assert discrete_gaussian(os.urandom, np.zeros(3, dtype=np.int64), 1.0).tolist() == [1, 6, 4]


def test_sums_saturate_and_empty_vectors_stay_empty():
    ends = np.array([2**63 - 1, -(2**63)], dtype=np.int64)
    noisy = discrete_gaussian(os.urandom, ends, 4.0)
    assert all(abs(int(a) - int(b)) < 100 for a, b in zip(noisy, ends, strict=True))
    wide = discrete_gaussian(os.urandom, np.zeros(200, dtype=np.int64), 2.0**80)
    assert np.mean(np.isin(wide, [2**63 - 1, -(2**63)])) > 0.9
    assert discrete_gaussian(os.urandom, np.zeros((0, 3), dtype=np.int64), 1.0).shape == (0, 3)
    assert discrete_gaussian(os.urandom, np.arange(6).reshape(2, 3), 1e-9).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("sample", [discrete_gaussian, discrete_laplace])
def test_sums_near_one_end_alone_do_not_wrap(sample):
    """A vector with both ends has the largest size there is; one of them alone is a little below it."""
    noisy = sample(os.urandom, np.full(500, 2**63 - 1), 50.0)
    assert noisy.min() > 2**63 - 5000 and 100 < np.sum(noisy == 2**63 - 1) < 400
    assert sample(os.urandom, np.full(500, 2**63 - 2**56), 2.0**55).min() > 2**61


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_none_is_refused(scale):
    with pytest.raises(ValueError, match="scale"):
        discrete_gaussian(os.urandom, np.zeros(2, dtype=np.int64), scale)
