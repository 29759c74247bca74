"""Smooth sensitivity of the center of attention, and the noise scaled to it."""

import math

import numpy as np
import pytest

from fattail.privacy.smooth_gaussian import smooth_delta, smooth_multiplier
from fattail.robust.attention import Attention, attention
from fattail.rows.data import PrivateData


def clouds(rng, m):
    Z = rng.normal(size=(m, 2)) * rng.choice([0.02, 0.1, 0.3])
    if rng.random() < 0.5:
        Z[: m // 2] = Z[0] + rng.normal(size=(m // 2, 2)) * 1e-3
    return Z * np.minimum(1, 0.5 / np.maximum(np.linalg.norm(Z, axis=1), 1e-12))[:, None]


@pytest.mark.parametrize("m", [13, 31])
def test_no_neighbor_moves_the_center_or_the_scale_too_far(m):
    rng = np.random.default_rng(m)
    beta = 0.5
    for _ in range(400):
        Z = clouds(rng, m)
        other = Z.copy()
        direction = rng.normal(size=2)
        other[rng.integers(m)] = direction / np.linalg.norm(direction) * rng.choice([1e-3, 0.1, 0.5])
        (a, s), (b, t) = attention(Z, 1.0, beta), attention(other, 1.0, beta)
        assert np.linalg.norm(a - b) <= min(s, t) * (1 + 1e-9)
        assert abs(math.log(s / t)) <= beta * (1 + 1e-9)


def test_a_row_can_move_the_center_by_more_than_half_of_the_scale():
    """Two poles are nearer to a ring than its points are to half of each other: without one pole, the other is the center."""
    angle = np.linspace(0.0, 2 * np.pi, 40, endpoint=False)
    ring, poles = np.column_stack([0.72 * np.cos(angle), 0.72 * np.sin(angle), 0 * angle]), [[0, 0, 0.690], [0, 0, -0.694]]
    ours = np.concatenate([poles, ring])
    theirs = ours.copy()
    theirs[0] = ring[0]
    a, b = (Attention(2.0, 0.5).mean(PrivateData(Z)) for Z in (ours, theirs))
    moved = np.linalg.norm(a._value - b._value)
    assert moved > 1.3 and 0.5 < moved / min(a._smooth[0], b._smooth[0]) <= 1


def test_the_center_lies_in_the_ball():
    """Every point lies far outside, in a direction of its own."""
    angle = np.linspace(0.0, 2 * np.pi, 31, endpoint=False)
    far = 10.0 ** np.linspace(1, 150, 31)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    found = Attention(0.5, 0.2).mean(PrivateData(far))
    assert np.linalg.norm(found._value) <= 0.5 * (1 + 1e-9) and found._smooth[0] <= 2.001


def test_identical_points_still_have_noise():
    _, size = attention(np.zeros((31, 2)), 1.0, 0.5)
    assert size > 0


def test_multiplier_agrees_with_the_gaussian_and_with_the_tables():
    # Roots found independently: epsilon 1, d = 10, delta 1e-5.
    assert smooth_multiplier(1.0, 1e-5, 10, 0.0040) == pytest.approx(3.95, rel=0.02)
    assert smooth_multiplier(1.0, 1e-5, 10, 0.0158) == pytest.approx(4.98, rel=0.02)
    assert smooth_delta(1.0, 3, 1 / 3.730632, 0.0) == pytest.approx(1e-5, rel=1e-3)


def test_divergence_against_sampling():
    rng = np.random.default_rng(0)
    epsilon, d, shift, log_scale = 0.5, 3, 0.6, 0.15
    z = rng.normal(size=(400_000, d))
    log_p = -0.5 * np.sum(z**2, axis=1)
    moved = z - shift * np.eye(d)[0]
    log_q = -0.5 * np.sum(moved**2, axis=1) * math.exp(-2 * log_scale) - d * log_scale
    sampled = np.mean(np.maximum(0.0, 1 - np.exp(epsilon + log_q - log_p)))
    assert smooth_delta(epsilon, d, shift, log_scale) == pytest.approx(sampled, rel=0.02)


@pytest.mark.parametrize(("epsilon", "d"), [(0.5, 1), (1.0, 10), (2.0, 3)])
def test_the_multiplier_holds_for_every_ratio_of_scales(epsilon, d):
    delta = 1e-5
    smoothness = epsilon / (4 * (d + math.log(2 / delta)))
    shift = 1 / smooth_multiplier(epsilon, delta, d, smoothness)
    for log_scale in np.linspace(-smoothness, smoothness, 101):
        assert smooth_delta(epsilon, d, shift * min(1.0, math.exp(log_scale)), log_scale) <= delta


def test_equal_points_have_noise_however_many_they_are():
    """Terms decay with the number of points until they underflow; a constant remains."""
    assert np.all(Attention(1.0, 1.0).mean(PrivateData(np.zeros((3100, 1))))._smooth > 0)
