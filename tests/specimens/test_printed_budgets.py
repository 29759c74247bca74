"""Printed noise that does not pay for what is released, by exact composition."""

import math

import pytest

from fattail.privacy import epsilon_of, gaussian_multiplier
from fattail.privacy import events as ev

DELTA = 1e-5


@pytest.mark.parametrize(("steps", "truth"), [(20, 3.99), (50, 6.82)])
def test_dp_sco_that_spends_the_whole_budget_in_every_step(steps, truth):
    """tao2022 Algorithm 2, line 8: all data in each of T steps, each calibrated to the full (epsilon, delta)."""
    classical = math.sqrt(2 * math.log(1.25 / DELTA))
    assert epsilon_of([ev.GaussianEvent(classical, steps)], DELTA) == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize(("failure", "steps", "truth"), [(0.01, 10, 1.05), (0.05, 10, 1.51), (0.01, 50, 2.03)])
def test_smoothed_gradient_descent_with_two_different_logarithms(failure, steps, truth):
    """wang2020 Algorithm 4: the scale has ln(1/(delta' T)) and the noise ln(1/delta'), so rho is overspent by their ratio."""
    log = math.log(1 / DELTA)
    beta = math.log(1 / failure)
    attained = math.erf(math.sqrt(beta / 2))  # the sup of the map, relative to the printed bound on it
    rho = (attained * (math.sqrt(1 + log) - math.sqrt(log))) ** 2 * beta / math.log(1 / (failure * steps))
    assert epsilon_of([ev.GaussianEvent(1 / math.sqrt(2 * rho))], DELTA) == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize(("epsilon", "truth"), [(1.0, 6.57), (0.5, 2.94), (0.1, 0.50)])
def test_the_radical_as_it_stands_in_the_text(epsilon, truth):
    """dpem2020 Algorithm 2: sqrt(L) + epsilon - sqrt(L) is epsilon; meant is sqrt(L + epsilon) - sqrt(L), L = ln(1/delta)."""
    rho = epsilon**2
    assert epsilon_of([ev.GaussianEvent(1 / math.sqrt(2 * rho))], DELTA) == pytest.approx(truth, abs=0.01)


def test_the_classical_gaussian_fails_for_large_epsilon():
    epsilon, delta = 10.0, 1e-5
    classical = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert classical < gaussian_multiplier(epsilon, delta)
    assert epsilon_of([ev.GaussianEvent(classical)], delta) > epsilon


@pytest.mark.parametrize(("constant", "truth"), [(1, 2.40), (2, 1.63)])
def test_clipped_em_with_a_naive_constant(constant, truth):
    """dpem2020 Algorithm 1 leaves 'some constant c': below 4.84 at epsilon = 1 the claim is false."""
    multiplier = math.sqrt(constant * math.log(1 / DELTA)) / 2  # sensitivity is 2C / n, noise C sqrt(c ln(1/delta)) / n
    assert epsilon_of([ev.GaussianEvent(multiplier)], DELTA) == pytest.approx(truth, abs=0.02)
