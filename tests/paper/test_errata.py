"""Demonstrations of `docs/errata.md` that no other test gives: each shows the number that the page states."""

import ast
import math
import re
from pathlib import Path

import numpy as np
import pytest

from fattail.algorithms.parts.em_models import missing_log_density, missing_terms, mixture_terms
from fattail.privacy import epsilon_of
from fattail.privacy import events as ev
from reproduction import printed

ROOT = Path(__file__).parents[2]
DELTA = 1e-5


def test_a_sparse_minimizer_jumps():
    """wanggu2020 Theorem 4.3: one row of 801 moves the teacher 49 times further than claimed."""
    n, penalty = 801, 0.1055
    half = (n - 1) // 2
    X = np.repeat(np.eye(2), half, axis=0)
    rows = [np.vstack([X, e]) for e in np.eye(2)]
    teachers = [printed.thresholded_descent(R, np.ones((n, 1)), 1, 500, 1.0, np.array([penalty]), "linear")[:, 0] for R in rows]
    moved = np.linalg.norm(teachers[0] - teachers[1])
    claimed = 2 / (n * penalty)  # 2 sqrt(s) gamma / (n lambda) with s = gamma = 1
    assert moved == pytest.approx(1.168, abs=0.01)
    assert moved / claimed == pytest.approx(49, abs=1)


def test_the_restricted_norm_is_larger_than_assumed():
    """wanggu2020: sqrt(m beta) bounds the norm of the public matrix in expectation only."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 1000))
    few = np.linalg.norm(X[:, :20], 2) / math.sqrt(800 / 3)
    assert 1.05 < few < 1.3
    assert np.linalg.norm(X, 2) / math.sqrt(800 / 3) == pytest.approx(2.09, abs=0.05)


def test_huber_steps_move_twice_as_far_as_peeling_is_told():
    """tian2025 Algorithm 1: replacing one row moves a coordinate by 2 eta tau K / m."""
    m, step, tau, K = 100, 0.5, 1.0, 2.0
    X, r = np.full((m, 1), K), np.zeros(m)
    ends = []
    for value in (-1e9, 1e9):
        r[0] = value
        ends.append(step * np.mean(np.clip(r, -tau, tau) * X[:, 0]))
    assert abs(ends[1] - ends[0]) == pytest.approx(2 * (step * tau * K / m))


def test_the_printed_sign_ascends():
    """tian2025 Algorithm 1, line 6."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X @ [1.0, -1.0, 0.5]

    def loss(w):
        r = np.abs(y - X @ w)
        return np.mean(np.where(r < 1, r**2 / 2, r - 0.5))

    direction = np.clip(y, -1, 1) @ X / len(y)
    assert loss(-0.1 * direction) > loss(np.zeros(3)) > loss(0.1 * direction)


def test_the_printed_posterior_moves_away_from_the_truth():
    """dpem2020 (5): at the true beta the mean gradient is -0.25 where it should be 0 (signal to noise 1)."""
    rng = np.random.default_rng(0)
    beta = np.array([1.0])
    Y = rng.choice([-1.0, 1.0], size=(400_000, 1)) * beta + rng.normal(size=(400_000, 1))
    as_printed = printed.em_gradient("mixture", 1.0)(beta, Y, None).mean()
    assert as_printed == pytest.approx(-0.25, abs=0.01)
    assert mixture_terms(Y, None, beta, 1.0)[0].mean() == pytest.approx(0, abs=0.01)


def test_the_printed_second_moment_is_no_gradient():
    """dpem2020 (11): away from the truth it is not the gradient of the likelihood; ours is."""
    rng = np.random.default_rng(0)
    beta, sigma = np.array([1.0, -0.5]), 0.5
    X = rng.normal(size=(200_000, 2))
    y = X @ beta + sigma * rng.normal(size=len(X))
    X[rng.random(X.shape) < 0.3] = np.nan
    at, h = 1.2 * beta, 1e-4
    slope = [
        sigma**2
        * np.mean(missing_log_density(X, y, at + h * e, sigma**2) - missing_log_density(X, y, at - h * e, sigma**2))
        / (2 * h)
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(missing_terms(X, y, at, sigma**2)[0].mean(axis=0), slope, atol=1e-6)
    assert np.abs(printed.em_gradient("missing", sigma)(at, X, y).mean(axis=0) - slope).max() > 0.01


@pytest.mark.parametrize(("failure", "truth"), [(0.95, 1.26), (0.99, 2.02)])
def test_the_second_variance_is_too_small_in_one_dimension(failure, truth):
    """dpem2020 Algorithm 2: beta^2 in place of beta^4 in the second expression, with d = 1."""
    log = math.log(1 / failure)
    root = math.sqrt(math.log(1 / DELTA) + 1) - math.sqrt(math.log(1 / DELTA))
    # First and second variance differ by the factor log(d / zeta); the map attains erf(sqrt(beta / 2)) of its bound.
    attained = math.erf(math.sqrt(math.sqrt(log) / 2))
    rho = (attained * root) ** 2 / log
    assert epsilon_of([ev.GaussianEvent(1 / math.sqrt(2 * rho))], DELTA) == pytest.approx(truth, abs=0.02)


def test_every_group_holds_all_rows():
    """tao2022 Algorithm 3, line 7: read as printed, the estimate is as many times too large as there are groups."""
    x = np.random.default_rng(0).normal(loc=2.0, size=(1500, 1))
    groups = math.ceil(4 * math.log(2 / 0.05))
    literal = np.median([groups / len(x) * x.sum() for _ in range(groups)])
    meant = printed.median_of_means(x, np.random.default_rng(0), epsilon=1e9, delta=DELTA, bound=10.0)[0]
    assert meant == pytest.approx(2.0, abs=0.1)
    assert literal / meant == pytest.approx(groups, abs=0.5)


def test_a_negative_number_of_steps():
    """tao2022 Theorem 7 with alpha = 1, beta = 10, G = 1000."""
    alpha, beta, G = 1.0, 10.0, 1000.0
    assert math.log((alpha + beta) * G / (alpha * beta)) / math.log(
        (alpha**2 + beta**2 + alpha * beta) / (alpha + beta) ** 2
    ) == pytest.approx(-81, abs=0.5)


def test_trimming_a_constant_number_leaves_a_floor():
    """wang2020 Algorithm 2: ten rows trimmed at epsilon 1 leave noise of 3.8 (b - a), whatever n."""
    deviation_of_sinh = math.sqrt((math.exp(2) - 1) / 2)
    assert 4 * deviation_of_sinh * math.exp(-10 / 16) == pytest.approx(3.83, abs=0.05)


def test_every_demonstration_named_on_the_page_exists():
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "errata.md").read_text()))
    assert len(named) > 15
    for file, function in named:
        tree = ast.parse((ROOT / file).read_text())
        assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (file, function)


def test_what_the_page_says_of_overspending_is_what_the_specimens_show():
    assert printed.smoothed_descent_spends(1.0, DELTA, 50) == pytest.approx(2.03, abs=0.02)
    assert printed.clipped_em_spends(1.0, DELTA) == pytest.approx(2.40, abs=0.02)
