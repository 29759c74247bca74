"""Whether rows are even enough for Newton steps under narrow bounds, by two releases in the units of a round of joint moments."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail._tools.numbers import TINY
from fattail.algorithms.parts.joint_moments import JointFit
from fattail.algorithms.parts.linear_rows import Frame
from fattail.privacy import Gaussian
from fattail.robust import Ball
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EvennessDefaults:
    """Constants, chosen by hand on the tables that ``benchmarks/real_tables.py`` marks as tuned, and on laws of
    ``benchmarks/regression.py``."""

    uneven: float = 0.5
    """Mean square of pulled-back rows in a direction, over that of all, below which Newton steps would be too short in it.
    It was 0.1 to 0.38 with rare dummies and zero-inflated columns, 0.64 to 0.94 for normal, t(3) and log-normal ones."""
    clip: float = 2.0
    """Clip of sizes of residuals that are compared among rows, in units of the residuals ..."""
    varying: float = 0.2
    """... and length of their covariance with the rows beyond which they differ too much. It was 0.06 to 0.18 with noise of one
    law, 0.25 to 0.37 for net assets of households ..."""
    surely: float = 3.0
    """... and deviations of the noise by which it must exceed that."""
    usual: float = 0.1
    """Length of this covariance with noise of one law."""
    shrunken: float = 2.0
    """Factor of the squared noise that is taken off its square."""


DEFAULTS = EvennessDefaults()


def directions_are_even(joint: JointFit, release: Gaussian, data: PrivateData) -> bool:
    """Whether the last round lost no direction, and none is made up of rows so long that Newton steps pull them back.

    Such a direction, of a rare dummy say, has less curvature than others. Newton steps would be too short in it, and
    leave the error of the start.
    """
    frame, radius = _turned(joint)

    def rows(block: Block) -> tuple[Any, Floats]:
        u, weight, length = frame.rows(block)
        return u**2, (weight * np.minimum(1.0, radius / np.maximum(length, TINY))) ** 2

    squares = joint.curator.release(release, Ball(radius=radius**2).mean(data, rows, width=joint.p))
    return not joint.lost and bool(np.min(squares) > DEFAULTS.uneven * np.mean(squares))


def residuals_are_even(joint: JointFit, release: Gaussian, data: PrivateData) -> bool:
    """Whether the size of residuals hardly depends on the rows. The fit takes over how it does.

    Where it does, a narrow clip moves the fit away from least squares, most of all if residuals are skewed.
    """
    (frame, radius), problem, w, unit, clip = _turned(joint), joint.problem, joint.full, joint.unit, DEFAULTS.clip

    def rows(block: Block) -> tuple[Any, Floats]:
        u, weight, length = frame.rows(block)
        size = np.abs(problem.response(block) - problem.frame.predict(block, w)) / unit
        return u, (np.minimum(size, clip) - clip / 2) * weight * np.minimum(1.0, radius / np.maximum(length, TINY))

    bound = radius * clip / 2
    along = joint.curator.release(release, Ball(radius=bound).mean(data, rows, width=joint.p))
    noise = joint.curator.noise(release, 2 * bound / data.n)
    constant = np.linalg.inv(joint.turn @ joint.shape)[-1]  # the mean row, up to a factor
    along = along - constant * (constant @ along) / (constant @ constant)
    joint.sizes = np.linalg.inv(joint.turn @ joint.shape) @ shrunk(along, noise)
    explained = (joint.p + DEFAULTS.surely * math.sqrt(2 * joint.p)) * noise**2
    return float(along @ along) < DEFAULTS.varying**2 + explained


def shrunk(along: Floats, noise: float) -> Floats:
    """The covariance less what its noise, and noise of one law, explain of its length (as in James and Stein 1961)."""
    explained = DEFAULTS.shrunken * along.size * noise**2 + DEFAULTS.usual**2
    return np.asarray(along * max(0.0, 1 - explained / max(float(along @ along), TINY)))


def _turned(joint: JointFit) -> tuple[Frame, float]:
    """The frame with directions close to columns, and the length to which rows are pulled back."""
    frame = joint.problem.frame
    return replace(frame, shape=joint.turn @ frame.shape), math.sqrt(joint.p)
