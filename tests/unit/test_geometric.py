"""Laplace noise on the integers: its digits, its thresholds, and the rare cases of its comparisons."""

import decimal
import math
import os
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fattail._tools.numbers import decimals
from fattail.privacy import geometric
from fattail.privacy.exact import exp_bounds
from fattail.privacy.geometric import digits_of, discrete_laplace, thresholds


def exp_below(x: Fraction, terms: int = 400) -> tuple[Fraction, Fraction]:
    """Rationals around exp(x) for 0 <= x <= 64, by the series and a bound of its rest."""
    total, term = Fraction(0), Fraction(1)
    for k in range(1, terms):
        total += term
        term = term * x / k
    return total, total + 2 * term


@pytest.mark.parametrize("scale", [0.04, 0.3, 1.0, 2.5, 1000.0, 2.0**31 * 1.1])
def test_thresholds_are_the_bytes_of_the_probabilities(scale):
    digits = digits_of(scale)
    found = [int.from_bytes(row.tobytes(), "big") for row in thresholds(scale, 8)]
    assert len(found) == digits + 2 and found[-1] == 2**63
    for j in (0, digits // 2, digits - 1, digits):
        if not 0 <= j <= digits:
            continue
        low, high = exp_below(Fraction(2**j) / Fraction(scale))
        least, most = ((1 / e if j == digits else 1 / (1 + e)) * 2**64 for e in (high, low))
        assert math.floor(least) == math.floor(most) == found[j]


@pytest.mark.parametrize("scale", [0.3, 2.0, 5.5])
def test_small_scales_have_the_right_law(scale):
    draws = discrete_laplace(os.urandom, np.zeros(200_000, dtype=np.int64), scale)
    steps = np.arange(-100, 101)
    for factor in (1.0, 0.9, 1.1):
        weights = np.exp(-np.abs(steps) / (scale * factor))
        inside = weights / weights.sum() * draws.size > 10
        counts = np.array([np.sum(draws == k) for k in steps[inside]])
        p = stats.chisquare(counts, counts.sum() * weights[inside] / weights[inside].sum()).pvalue
        assert p > 1e-6 if factor == 1.0 else p < 1e-9


def test_ties_ask_for_further_bytes():
    """A uniform number that agrees with its threshold in twenty bytes is compared by the next one."""
    scale = 3.0
    own = thresholds(scale, 32)[0]
    for last, expected in ((-1, True), (1, False)):
        queue = [*own[:20].tolist(), int(own[20]) + last]

        def draw(count, queue=queue):
            return bytes(queue.pop(0) for _ in range(count))

        assert geometric._bernoulli(draw, np.array([0]), 1, scale)[0, 0] == expected
        assert not queue


def test_noise_beyond_the_digits_is_a_whole_number_of_them_more():
    scale = 3.0
    digits = digits_of(scale)
    # Digits all zero, beyond them twice, a positive sign.
    first = bytes([255] * digits + [0, 200])
    beyond = bytes(thresholds(scale, 16)[digits].tolist())
    start = beyond[1 : beyond.index(max(beyond)) + 1]  # what follows the first tied byte, up to one that can be undercut
    small = start[:-1] + bytes([start[-1] - 1])
    queue = list(first + small + beyond[:1] + small + b"\xff")

    def draw(count):
        return bytes(queue.pop(0) for _ in range(count))

    assert discrete_laplace(draw, np.array([7]), scale)[0] == 7 + (2 << digits)
    assert not queue


def test_a_negative_zero_is_drawn_again():
    scale = 0.5
    digits = digits_of(scale)
    none = [255] * digits
    queue = [*none, 255, 0, *none, 255, 200]

    def draw(count):
        return bytes(queue.pop(0) for _ in range(count))

    assert discrete_laplace(draw, np.array([0]), scale)[0] == 0 and not queue


@pytest.mark.parametrize("scale", [4.0, 2.0**40])
def test_sums_saturate_instead_of_wrapping(scale):
    ends = np.array([2**63 - 1, -(2**63)], dtype=np.int64)
    for _ in range(20):
        noisy = discrete_laplace(os.urandom, ends, scale)
        assert all(abs(int(a) - int(b)) < 100 * scale for a, b in zip(noisy, ends, strict=True))


def test_scales_beyond_64_bits_saturate():
    noisy = discrete_laplace(os.urandom, np.zeros(200, dtype=np.int64), 2.0**80)
    assert np.mean(np.isin(noisy, [2**63 - 1, -(2**63)])) > 0.9


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_none_is_refused(scale):
    with pytest.raises(ValueError, match="scale"):
        discrete_laplace(os.urandom, np.zeros(2, dtype=np.int64), scale)


def test_tiny_scales_give_no_noise_and_empty_vectors_none():
    assert discrete_laplace(os.urandom, np.arange(5), 1e-300).tolist() == list(range(5))
    assert discrete_laplace(os.urandom, np.zeros((0, 3), dtype=np.int64), 1.0).shape == (0, 3)


@pytest.mark.parametrize("scale", [0.03, 1.0, 12345.678])
def test_thresholds_do_not_depend_on_the_callers_decimal_context(scale):
    """A narrow context of the caller rounded the width of the enclosure to 0, and one with traps raised after the charge."""
    expected = thresholds.__wrapped__(scale, 16)
    for around in (decimal.Context(prec=1, Emin=-5, Emax=5, traps=[]), decimal.Context(prec=1, Emin=0, traps=[decimal.Inexact])):
        with decimal.localcontext(around) as context:
            assert np.array_equal(thresholds.__wrapped__(scale, 16), expected)
            assert not any(context.flags.values())


def test_exact_noise_does_not_depend_on_the_default_decimal_context(monkeypatch):
    """A context takes what it is not given from ``decimal.DefaultContext``: a trap there raised after the charge, and rounding
    up broke the premise of both proofs."""
    expected = thresholds.__wrapped__(3.3, 16), exp_bounds(-7, 3, 128)
    monkeypatch.setitem(decimal.DefaultContext.traps, decimal.Inexact, True)
    monkeypatch.setattr(decimal.DefaultContext, "rounding", decimal.ROUND_CEILING)
    assert decimals(9).rounding == decimal.ROUND_HALF_EVEN
    assert np.array_equal(thresholds.__wrapped__(3.3, 16), expected[0]) and exp_bounds(-7, 3, 128) == expected[1]
