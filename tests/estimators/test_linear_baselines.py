"""Gradient descent without privacy: right where it should be, robust where it claims to be."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from fattail.baselines import GradientDescent, RobustGradientDescent


def test_descent_reaches_least_squares_and_the_likelihood():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * [1.0, 100.0, 0.01] + 5
    y = X @ [1.0, 0.02, 30.0] + rng.normal(size=2000)
    ours, exact = GradientDescent(n_iter=500).fit(X, y), LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.coef_, exact.coef_, rtol=1e-6)
    assert ours.privacy_ == "none"
    labels = (y > np.median(y)).astype(int)
    logit = LogisticRegression(C=1e8, max_iter=5000, tol=1e-8).fit((X - X.mean(0)) / X.std(0), labels)
    descended = GradientDescent(loss="logistic", n_iter=5000).fit(X, labels)
    np.testing.assert_allclose(descended.coef_ * X.std(0), logit.coef_[0], rtol=0.02)


def test_robust_descent_withstands_what_plain_descent_does_not():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=3000)
    y[:15] += 2e3 * X[:15, 0]
    plain = GradientDescent().fit(X, y).coef_
    robust = RobustGradientDescent(confidence=1e-12).fit(X, y).coef_
    assert np.linalg.norm(robust - [1.0, -1.0]) < 0.7 * np.linalg.norm(plain - [1.0, -1.0])


def test_a_loss_must_exist():
    with pytest.raises(ValueError, match="hinge"):
        GradientDescent(loss="hinge").fit(np.ones((3, 1)), np.ones(3))
