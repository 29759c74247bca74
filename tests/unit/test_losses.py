"""Losses against finite differences, and their public bounds."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from docs.extend.poisson import Poisson
from fattail import DPHuberRegressor, DPLinearRegression, DPSparseRegressor
from fattail.algorithms.parts import ridge
from fattail.algorithms.parts.ridge import RidgeDescent
from fattail.losses import Huber, Logistic, Loss, Needs, Promise, Squared, check_loss
from fattail.privacy import Budget
from fattail.rows.data import PrivateData


class LogCosh(Loss):
    """A loss that a user might write, true to what it promises."""

    promise = Promise(curvature=1.0, slope=1.0)

    def value(self, z, y):
        return np.logaddexp(z - y, y - z) - np.log(2)

    def derivative(self, z, y):
        return np.tanh(z - y)

    def second(self, z, y):
        return 1 - np.tanh(z - y) ** 2


# The library's losses, and two that somebody else wrote.
LOSSES = [Squared(), Huber(1.3), Logistic(), LogCosh(), Poisson()]
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
    z = np.concatenate([np.linspace(-300, 300, 10_001), [0.0]])
    y = np.zeros_like(z)
    if math.isfinite(loss.slope):
        assert np.abs(loss.derivative(z, y)).max() == pytest.approx(loss.slope, rel=1e-6)
    assert loss.second(z, y).max() == pytest.approx(loss.curvature, rel=1e-6)


def test_no_overflow_in_the_logistic_loss():
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(Logistic().derivative(np.array([-1e300, 1e300]), np.array([1.0, 0.0]))).all()
        assert np.isfinite(Logistic().second(np.array([-1e300, 1e300]), np.array([1.0, 0.0]))).all()


class Steep(Huber):
    """A step of height two that says it were a ramp of slope one: ridge descent moved 17 times its sensitivity."""

    def derivative(self, z, y):
        return np.sign(z - y)


class Wiggly(LogCosh):
    def derivative(self, z, y):
        return np.sin(z - y)


class Uncurved(LogCosh):
    def second(self, z, y):
        return np.zeros_like(z)


class Uphill(LogCosh):
    promise = Promise(curvature=1.0, slope=1.0, convex=False)

    def derivative(self, z, y):
        return -np.tanh(z - y)


class Flat(LogCosh):
    def value(self, z, y):
        return np.zeros_like(z)

    derivative = second = value


class Tall(LogCosh):
    promise = Promise(curvature=1.0, slope=0.5)


class SeesOthers(LogCosh):
    def derivative(self, z, y):
        return np.tanh(z - y - 1e-3 * np.mean(y))


class Remembers(LogCosh):
    calls = 0

    def derivative(self, z, y):
        type(self).calls += 1
        return np.tanh(z - y) / self.calls


class Column(LogCosh):
    def derivative(self, z, y):
        return np.tanh(z - y)[:, None]


class Undefined(LogCosh):
    def derivative(self, z, y):
        return np.where(y > 0, np.tanh(z - y), np.nan)


class Complex(LogCosh):
    def derivative(self, z, y):
        return np.tanh(z - y) + 0j


class AnotherValue(LogCosh):
    def derivative(self, z, y):
        return 0.5 * np.tanh(z - y)


FALSE = [Steep, Wiggly, Tall, SeesOthers, Remembers, Column, Undefined, Complex, AnotherValue]


@pytest.mark.parametrize("loss", FALSE, ids=lambda x: x.__name__)
def test_false_promises_are_refused_before_data_are_read(loss):
    class Model(DPHuberRegressor):
        def _loss(self):
            return loss()

    budget = Budget(10.0, 1e-5)
    with pytest.raises(ValueError, match=loss.__name__):
        Model(method="smoothed", ledger=budget).fit(None, None)
    assert not budget.history


def test_true_promises_pass_also_in_other_units():
    check_loss(LogCosh())
    check_loss(LogCosh().scaled(3.0, -2.0))
    z, y = np.array([0.5, 2.0]), np.array([1.0, -1.0])
    for loss in (Squared(), Huber(1.3)):
        generic = Loss.scaled(loss, 4.0, 7.0)
        np.testing.assert_allclose(generic.derivative(z, y), loss.scaled(4.0, 7.0).derivative(z, y))
        assert generic.slope == loss.scaled(4.0, 7.0).slope


def test_what_is_no_loss_is_refused():
    @dataclass(frozen=True)
    class Duck:
        slope: float = 1.0
        curvature: float = 1.0

    for bad in (Duck(), "huber", Huber):
        with pytest.raises(ValueError, match="subclass"):
            check_loss(bad)
    with pytest.raises(TypeError):
        Huber(1.0, curvature=0.01)  # a promise is no option
    with pytest.raises(ValueError, match="threshold"):
        Huber(math.nan)


@pytest.mark.parametrize("loss", [Steep(), LogCosh(), Squared()], ids=lambda x: type(x).__name__)
def test_ridge_serves_proved_losses_only(loss):
    """Descent that could not be refused: sensitivity holds for derivatives that never fall and rise no faster than promised."""
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="Huber and Logistic only"):
        RidgeDescent(loss, np.arange(2), 1.0, 0.01).fit(PrivateData(rng.normal(size=(30, 2)), rng.normal(size=30)))


def test_a_ridge_that_trusted_its_loss_would_be_caught(monkeypatch):
    """The mutant: without the refusal, one row moves the answer by many times what is declared."""
    monkeypatch.setattr(ridge, "NEEDS", Needs())
    X, y = np.ones((1000, 1)), np.ones(1000)
    descents = [RidgeDescent(Steep(), np.arange(1), 1.0, 0.05, steps) for steps in range(30, 35)]
    pairs = [(d.fit(PrivateData(X, y)), d.fit(PrivateData(X, np.append(-1e9, y[1:])))) for d in descents]
    assert max(np.linalg.norm(a._value - b._value) / a.raw_sensitivity for a, b in pairs) > 10


def test_methods_refuse_losses_that_they_cannot_serve_and_name_the_loss():
    class Linear(DPLinearRegression):
        def _loss(self):
            return LogCosh()

    class Sparse(DPSparseRegressor):
        def _loss(self):
            return LogCosh()

    for method in ("auto", "iht_huber", "iht_squared", "two_stage", "knowledge_transfer"):
        with pytest.raises(ValueError, match=f"method='{method}' supports the loss.*; got LogCosh"):
            Sparse(method=method).fit(None, None)
    with pytest.raises(ValueError, match=r"method='auto' needs .* LogCosh promises no canonical response"):
        Linear().fit(None, None)

    class Count(LogCosh):
        promise = Promise(curvature=1.0, slope=1.0, target="nonnegative")

    with pytest.raises(ValueError, match="Count is for nonnegative ones"):
        Needs().check(Count(), "this method")


@pytest.mark.parametrize("method", ["smoothed", "median_of_means", "clipped"])
def test_a_loss_of_ones_own_fits_in_the_units_of_the_data(method):
    class Model(DPHuberRegressor):
        def _loss(self):
            return Wide()

    class Wide(LogCosh):
        """Of unit curvature within hundreds, where it bends: the response is of that size."""

        def value(self, z, y):
            return 1e4 * super().value(z / 100, y / 100)

        def derivative(self, z, y):
            return 100 * super().derivative(z / 100, y / 100)

        def second(self, z, y):
            return super().second(z / 100, y / 100)

        promise = Promise(curvature=1.0, slope=100.0)

    rng = np.random.default_rng(0)
    X = rng.standard_t(4, (20_000, 2))
    y = 1000 + X @ [300.0, -200.0] + 100 * rng.standard_t(2.5, 20_000)
    model = Model(epsilon=4.0, method=method, random_state=0).fit(X, y)
    huber = DPHuberRegressor(epsilon=4.0, method=method, threshold=100.0, random_state=0).fit(X, y)  # much the same loss
    np.testing.assert_allclose(model.coef_, huber.coef_, rtol=0.1)


def test_one_row_cannot_make_a_loss_fail_for_others():
    class Raises(LogCosh):
        def derivative(self, z, y):
            if np.any(y > 1e3):
                raise ValueError(f"a response of {y.max()} is absurd")
            return np.tanh(z - y)

    z, y = np.zeros(4), np.array([1.0, 2e3, -1.0, 0.0])
    found = Raises().derivative(z, y)
    assert np.isnan(found[1])
    np.testing.assert_allclose(np.delete(found, 1), np.tanh(np.delete(-y, 1)))
    with pytest.raises(ValueError, match="one of each per row"):
        Squared().derivative(z, y[:, None])


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (Uncurved, "the second of Uncurved is not that of its derivative"),
        (Uphill, "the derivative of Uphill is not that of its value"),
        (Flat, "the derivative of Flat never rises"),
    ],
)
def test_a_loss_that_would_fit_zeros_or_worse_is_refused(loss, message):
    with pytest.raises(ValueError, match=message):
        check_loss(loss())
