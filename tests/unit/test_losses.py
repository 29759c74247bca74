"""Losses against finite differences, and their public bounds."""

import math

import numpy as np
import pytest

from fattail.losses import Huber, Logistic, Squared

LOSSES = [Squared(), Huber(1.3), Logistic()]
Z = np.linspace(-4, 4, 41) + 0.013
Y = np.where(np.arange(41) % 2, 1.0, 0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda x: type(x).__name__)
def test_derivatives_are_those_of_the_value(loss):
    h = 1e-5
    slope = (loss.value(Z + h, Y) - loss.value(Z - h, Y)) / (2 * h)
    np.testing.assert_allclose(loss.derivative(Z, Y), slope, atol=1e-8)
    bend = (loss.derivative(Z + h, Y) - loss.derivative(Z - h, Y)) / (2 * h)
    np.testing.assert_allclose(loss.second(Z, Y), bend, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda x: type(x).__name__)
def test_public_bounds_hold_and_are_attained(loss):
    z = np.concatenate([np.linspace(-800, 800, 10_001), [0.0]])
    y = np.zeros_like(z)
    if math.isfinite(loss.slope):
        assert np.abs(loss.derivative(z, y)).max() == pytest.approx(loss.slope, rel=1e-6)
    assert loss.second(z, y).max() == pytest.approx(loss.curvature, rel=1e-6)


def test_no_overflow_in_the_logistic_loss():
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(Logistic().derivative(np.array([-1e300, 1e300]), np.array([1.0, 0.0]))).all()
        assert np.isfinite(Logistic().second(np.array([-1e300, 1e300]), np.array([1.0, 0.0]))).all()
