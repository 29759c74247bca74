"""Printed sparse methods that are not private, each caught by the audit that passes ours."""

import numpy as np
import pytest

from fattail import DPSparseRegressor, audit
from fattail.losses import Huber
from fattail.privacy import Bounded, Curator, Gaussian
from fattail.robust import Clip
from fattail.rows.data import PrivateData

GAUSSIAN = Gaussian("released")


def counterexample(n=801):
    """Half of the rows vote for the first column, half for the second, and one decides."""
    X = np.zeros((n, 2))
    X[: n // 2, 0] = 1.0
    X[n // 2 :, 1] = 1.0
    decided = X.copy()
    decided[-1] = [1.0, 0.0]
    y = np.ones(n)
    return (decided, y), (X, y)


def printed_knowledge_transfer(X, y):
    """wanggu2020 Theorem 4.3: a hard-thresholded teacher, released as if it moved by 2 sqrt(s) gamma / (n lambda)."""
    n, penalty = len(y), 0.1055
    rows, targets = np.vstack([X, np.sqrt(n * penalty) * np.eye(X.shape[1])]), np.append(y, np.zeros(X.shape[1]))
    w = np.zeros(X.shape[1])
    for _ in range(50):  # gradient steps on the regularized loss, each cut to one coordinate
        step = w + rows.T @ (targets - rows @ w) / n
        w = np.where(np.abs(step) >= np.abs(step).max(), step, 0.0)
    curator = Curator(1.0, 1e-5, random_state=0)
    curator.plan(GAUSSIAN)
    return curator.release(GAUSSIAN, Bounded(w, 2 / (n * penalty)))


def test_a_hard_thresholded_teacher_jumps():
    data, neighbor = counterexample()
    (step,) = audit.replay(printed_knowledge_transfer, data, neighbor)
    assert step.ratio > 40


def test_our_teacher_does_not():
    data, neighbor = counterexample()
    model = DPSparseRegressor(sparsity=1, method="knowledge_transfer", fit_intercept=False, random_state=0)
    assert all(step.ratio <= 1 for step in audit.replay(lambda X, y: model.fit(X, y), data, neighbor))


def huber_step(X, y, halved, sign):
    """tian2025 Algorithm 1, lines 6 and 7: a gradient step with tau = K = eta = 1 from 0."""
    rows = lambda b: (b.X, sign * Huber(1.0).derivative(np.zeros(len(b)), b.y))  # noqa: E731
    step = Clip(bound=1.0).mean(PrivateData(X, y), rows)
    if halved:  # lambda = eta tau K / m as printed
        step = Bounded(step._value, step.raw_sensitivity / 2, "linf", unit=step.unit)
    curator = Curator(1.0, 1e-5, random_state=0)
    curator.plan(GAUSSIAN)
    return curator.release(GAUSSIAN, (np.zeros(X.shape[1]) - step).to("l2"))


@pytest.mark.parametrize(("halved", "ratio"), [(True, 2.0), (False, 1.0)])
def test_the_printed_huber_step_declares_half_its_sensitivity(halved, ratio):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (50, 3)), rng.standard_t(1.75, 50)
    X[7], y[7] = 1.0, 1e308
    changed = y.copy()
    changed[7] = -1e308
    (step,) = audit.replay(lambda X, y: huber_step(X, y, halved, 1.0), (X, y), (X, changed))
    assert step.ratio == pytest.approx(ratio, rel=1e-6)


def test_the_printed_huber_step_climbs():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 3))
    y = X @ [2.0, -1.0, 0.0] + rng.standard_t(1.75, 20_000)

    def loss(w):
        return Huber(1.0).value(X @ w, y).mean()

    ours, printed = (huber_step(X, y, False, sign) for sign in (1.0, -1.0))
    assert loss(ours) < loss(np.zeros(3)) < loss(printed)
