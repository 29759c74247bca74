"""How many of a person's rows count, where every row is to count: a private cap."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import Curator, Laplace
from fattail.statistics.units import OCTAVES, Contributions

Floats = NDArray[np.float64]

_DOUBT = 1e-3
"""Chance that noise shows persons in some octave where there are none; it halves with every octave beyond the fullest one, since
a cap that is twice too large costs twice as much."""
_FURTHER = 6
"""Octaves beyond the last one seen that may yet hold rows, each in proportion as the last two seen."""
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


def release_cap(curator: Curator, release: Laplace, sums: Laplace, units: Contributions, groups: int) -> Cap:
    """Noisy numbers of persons by octave of their rows, and the cap that balances noise and lost rows of a typical group.

    Parameters
    ----------
    curator : Curator
    release, sums : Laplace
        Planned for these numbers, and for the sums that will be capped.
    units : Contributions
    groups : int
        As far as known.

    Notes
    -----
    *Privacy.* A person is in one octave: the numbers move by at most ``units.moves`` in l1. Proof: ``cap.proof.md``.
    """
    noisy = curator.release(release, units.row_counts())
    scale = curator.noise(release, units.moves)
    beyond = np.maximum(np.arange(OCTAVES) - int(np.argmax(noisy)), 0)
    seen = np.where(noisy > scale * (math.log(OCTAVES / (2 * _DOUBT)) + math.log(2) * beyond), noisy, 0.0)
    if not seen.any():
        return NO_CAP
    caps = np.exp2(np.arange(1, OCTAVES + 1)) - 1
    rows = float(seen @ _MIDDLES)
    kept = np.minimum(_MIDDLES, caps[:, None]) @ seen
    noise = math.sqrt(6) * curator.noise(sums, units.moves) * caps
    best = int(np.argmin(np.hypot(noise, (rows - kept) / groups)))
    capped = np.minimum(_MIDDLES, caps[best])
    uneven = float(seen @ capped**2 / (caps[best] * (seen @ capped)))
    unseen = _unseen_rows(seen * _MIDDLES)
    return Cap(int(caps[best]), min(uneven, 1.0), max(float((rows + unseen - kept[best]) / (rows + unseen)), 0.0))


def _unseen_rows(rows: Floats) -> float:
    """Rows in octaves that do not show: the numbers of rows by octave go on as the last two that do."""
    last = int(np.flatnonzero(rows)[-1])
    before = float(rows[last - 1]) if last else 0.0
    ratio = min(float(rows[last]) / before, 1.0) if before else 0.0
    return float(rows[last]) * sum(ratio**k for k in range(1, _FURTHER + 1))
