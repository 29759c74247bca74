"""How many of a person's rows count, where every row is to count: a private cap."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import Curator, Laplace
from fattail.statistics.units import OCTAVES, Units

Floats = NDArray[np.float64]

_DOUBT = 0.05
"""Chance that noise shows persons in some octave where there are none."""
_MIDDLES: Floats = (3 * np.exp2(np.arange(OCTAVES)) - 1) / 2
"""Middle of the row numbers of an octave: 1, 2 to 3, 4 to 7 and so on."""


class Cap(NamedTuple):
    """The cap and what it does; releases and public arithmetic."""

    most: int
    """A person with more rows counts as this many."""
    unevenness: float
    """Sum of squared weights over the sum of weights, where ``most`` rows have a weight of one."""
    lost: float
    """Estimated share of the rows beyond the cap."""


NO_CAP = Cap(1, 1.0, 0.0)


def release_cap(curator: Curator, release: Laplace, sums: Laplace, units: Units, groups: int) -> Cap:
    """Noisy numbers of persons by octave of their rows, and the cap that balances noise and lost rows of a typical group.

    Parameters
    ----------
    curator : Curator
    release, sums : Laplace
        Planned for these numbers, and for the sums that will be capped.
    units : Units
    groups : int
        As far as known.

    Notes
    -----
    *Privacy.* A person is in one octave: the numbers move by at most ``units.moves`` in l1. Proof: ``cap.proof.md``.
    """
    noisy = curator.release(release, units.row_counts())
    scale = curator.noise(release, units.moves)
    seen = np.where(noisy > scale * math.log(OCTAVES / (2 * _DOUBT)), noisy, 0.0)
    if not seen.any():
        return NO_CAP
    caps = np.exp2(np.arange(1, OCTAVES + 1)) - 1
    rows = float(seen @ _MIDDLES)
    kept = np.minimum(_MIDDLES, caps[:, None]) @ seen
    noise = math.sqrt(6) * curator.noise(sums, units.moves) * caps
    best = int(np.argmin(np.hypot(noise, (rows - kept) / groups)))
    capped = np.minimum(_MIDDLES, caps[best])
    uneven = float(seen @ capped**2) / (caps[best] * float(seen @ capped))
    return Cap(int(caps[best]), min(uneven, 1.0), float(1 - kept[best] / rows))
