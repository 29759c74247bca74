"""Clips of joint moments, chosen from counts of residuals."""

import numpy as np
import pytest

from fattail.algorithms.parts.joint_moments import best_clip
from fattail.algorithms.parts.lengths import Lengths
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


@pytest.mark.parametrize(("law", "most"), [("normal", 0.05), ("skewed", 1.0)])
def test_counts_say_what_a_clipped_mean_residual_misses(law, most):
    rng = np.random.default_rng(0)
    values = rng.normal(size=20_000) if law == "normal" else rng.exponential(size=20_000) ** 2 / 4.5 - 0.444
    found = counted(values)
    missed = np.mean(np.maximum(np.abs(values) - 4.0, 0.0))
    assert 0.8 * missed < found.doubt(4.0) < most
