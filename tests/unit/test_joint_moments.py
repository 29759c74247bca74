"""Clips of joint moments, chosen from counts of residuals."""

import numpy as np

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
    assert 1.4 < best_clip(light, 0.01) < 4 < best_clip(heavy, 0.01)
    assert best_clip(heavy, 0.1) < best_clip(heavy, 0.001)
