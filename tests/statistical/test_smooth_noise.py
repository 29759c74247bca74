"""Numerical verification of the smooth-sensitivity noise: its constants have no closed-form proof."""

import numpy as np
import pytest

from fattail.privacy import SmoothNoise

ORDERS = np.array([1.001, 1.05, 1.3, 2, 3, 5, 8, 14, 25, 60, 150, 500])


def log_cosh(x):
    return np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - np.log(2)


def log_densities(width, tau, u):
    """Densities of Z = sinh(width Y) / width and of e^tau Z + u, on a grid in Y, with its Jacobian."""
    reach = 14 + 1.3 * ORDERS.max() * abs(tau) / width
    y = np.linspace(-reach, reach, 40001)
    # arcsinh(sinh) loses nothing below 30; beyond, shift and scale act additively on the exponent.
    inner = np.clip(width * y, -30, 30)
    z = np.sinh(inner) / width
    back = np.arcsinh(width * (z - u) * np.exp(-tau)) / width
    back = np.where(np.abs(width * y) > 30, y - np.sign(y) * tau / width, back)
    normal = -0.5 * np.log(2 * np.pi)
    ours = normal - y**2 / 2 - log_cosh(width * y)
    theirs = normal - back**2 / 2 - log_cosh(width * back) - tau
    return y, ours, theirs, log_cosh(width * y)


def pairs(t, s):
    for tau in (t, t / 2, 0.0, -t / 2, -t):
        for u in (0.0, 0.5, 1.0):
            if tau or u:
                yield tau, u * s * min(1.0, np.exp(tau))


def worst_rho(width, t, s):
    worst = 0.0
    for tau, u in pairs(t, s):
        y, p, q, jacobian = log_densities(width, tau, u)
        for order in ORDERS:
            f = order * p + (1 - order) * q + jacobian
            divergence = (np.max(f) + np.log(np.trapezoid(np.exp(f - np.max(f)), y))) / (order - 1)
            worst = max(worst, divergence / order)
    return worst


@pytest.mark.parametrize("epsilon", [0.003, 0.03, 0.3, 1.0])
def test_concentrated_constants_hold_with_a_margin(epsilon):
    mechanism = SmoothNoise("noise")
    width, t, s = mechanism._constants
    rho = epsilon**2 / 2
    assert mechanism.smoothness(rho) == pytest.approx(t * epsilon)
    assert worst_rho(width, t * epsilon, s * epsilon) <= 0.96 * rho
    # The check can fail: a tenth more shift is too much.
    assert worst_rho(width, t * epsilon, 1.1 * s * epsilon) > rho


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0])
def test_one_shot_constants_are_almost_pure(epsilon):
    width, t, s = SmoothNoise("noise", one_shot=True)._constants

    def delta(s):
        worst = 0.0
        for tau, u in pairs(t * epsilon, s):
            y, p, q, jacobian = log_densities(width, tau, u)
            excess = np.exp(p + jacobian) * np.maximum(-np.expm1(epsilon + q - p), 0.0)
            worst = max(worst, float(np.trapezoid(excess, y)))
        return worst

    assert delta(s * epsilon) < 1e-40
    assert delta(1.3 * s * epsilon) > 1e-8
