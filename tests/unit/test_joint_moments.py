"""Clips of joint moments, chosen from counts of residuals, and what residuals of different sizes show."""

import numpy as np
import pytest

from fattail.algorithms.parts.evenness import residuals_are_even
from fattail.algorithms.parts.joint_moments import JointFit, best_clip
from fattail.algorithms.parts.lengths import Lengths
from fattail.algorithms.parts.linear_rows import Frame, Problem, Target
from fattail.losses import Squared
from fattail.privacy import Curator, Gaussian
from fattail.rows.data import PrivateData


def counted(values):
    curator = Curator(1.0, 1e-6, random_state=0)
    curator.plan(release := Gaussian("counts", 0.1), Gaussian("rest", 0.9))
    return Lengths.counted(curator, release, PrivateData(values[:, None]), lambda block: block.X[:, 0])


def test_heavier_tails_and_less_noise_widen_the_clip():
    rng = np.random.default_rng(0)
    light = counted(rng.normal(size=20_000))
    heavy = counted(rng.standard_t(2.0, 20_000))
    assert 1.4 < best_clip(light.excess, 0.01) < 4 < best_clip(heavy.excess, 0.01)
    assert best_clip(heavy.excess, 0.1) < best_clip(heavy.excess, 0.001)


@pytest.mark.parametrize("varied", [False, True])
def test_residuals_that_grow_with_a_column_are_found(varied):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.gamma(2.0, size=20_000), rng.normal(size=20_000)])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    noise = rng.lognormal(0, 1, 20_000) - np.exp(0.5)
    y = X.sum(axis=1) + noise * (0.2 + X[:, 0] - X[:, 0].min() if varied else 1.0)
    curator = Curator(2.0, 1e-6, random_state=0)
    curator.plan(first := Gaussian("joint moments", 0.5), sizes := Gaussian("sizes", 0.1), Gaussian("rest", 0.4))
    data, problem = PrivateData(X, y), Problem(Target(Squared()), Frame(np.zeros(2), np.ones(2), 1.0, np.eye(3)), 0.0, 2.0)
    joint = JointFit(curator, problem)
    joint.round((first,), data, first=True)
    assert residuals_are_even(joint, sizes, data) != varied
    assert joint.sizes[0] > 0.1 if varied else np.linalg.norm(joint.sizes) < 0.1
    assert abs(joint.sizes[1]) < 0.1


@pytest.mark.parametrize(("law", "most"), [("normal", 0.05), ("skewed", 1.0)])
def test_counts_say_what_a_clipped_mean_residual_misses(law, most):
    rng = np.random.default_rng(0)
    values = rng.normal(size=20_000) if law == "normal" else rng.exponential(size=20_000) ** 2 / 4.5 - 0.444
    found = counted(values)
    missed = np.mean(np.maximum(np.abs(values) - 4.0, 0.0))
    assert 0.8 * missed < found.doubt(4.0) < most


@pytest.mark.parametrize(("level", "least", "most"), [(0.0, 0.0, 0.6), (1.0, 0.85, 1.0)])
def test_the_intercept_follows_a_mean_residual_as_far_as_noise_does_not_explain_it(level, least, most):
    """Over seeds: half of a shift that is noise is left out, a clear one is followed."""
    y = level + np.random.default_rng(0).normal(size=1_000)
    moved, noise = [], []
    for seed in range(40):
        curator = Curator(0.5, 1e-6, random_state=seed)
        curator.plan(mean := Gaussian("mean residual", 0.2), Gaussian("rest", 0.8))
        joint = JointFit(curator, Problem(Target(Squared()), Frame(np.zeros(1), np.ones(1), 1.0, np.eye(2)), reach=(-4.0, 4.0)))
        joint.prior = 1e-4 * np.eye(2)
        variance = joint.move_intercept(mean, PrivateData(np.zeros((1_000, 1)), y))
        moved.append(joint.w[-1])
        noise.append(variance)
    if level:
        assert least < np.mean(moved) / np.mean(y) < most + 0.05
    else:
        released = 2 * 4.0 * curator.noise(mean) / 1_000
        assert np.mean((np.array(moved) - np.mean(y)) ** 2) < most * released**2


def test_a_fit_whose_slopes_are_taken_does_not_follow_the_noise_of_the_intercept():
    """The response is a millionth of its unit: what steps said of the constant is noise, and so is the mean residual."""
    X = np.random.default_rng(0).normal(size=(1_000, 1))
    moved = []
    for seed in range(20):
        curator = Curator(0.5, 1e-6, random_state=seed)
        curator.plan(gain := Gaussian("gain", 0.5), mean := Gaussian("mean residual", 0.5))
        joint = JointFit(curator, Problem(Target(Squared()), Frame(np.zeros(1), np.ones(1), 1.0, np.eye(2)), reach=(-9.0, 9.0)))
        joint.w, data = np.array([5.0, 3.0]), PrivateData(X, 1e-6 * X[:, 0])
        joint.guard(gain, data)
        assert not joint.w.any()
        joint.move_intercept(mean, data)
        moved.append(joint.w[-1])
    assert np.mean(np.array(moved) == 0) > 0.5
