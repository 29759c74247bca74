"""A private cap on the rows per person, for statistics in which every row counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fattail.privacy import Curator, Laplace
from fattail.statistics.units import OCTAVES, Contributions

Floats = NDArray[np.float64]

_DOUBT = 1e-3
"""Probability that noise shows persons in some octave where there are none; it halves with every octave beyond the fullest one,
since a cap that is twice too large costs twice as much."""
_FURTHER = 6
"""Octaves beyond the last visible one that may hold rows."""
_UNSEEN = 0.05
"""Probability that noise hides more persons of one such octave than are allowed for."""
_MIDDLES: Floats = (3 * np.exp2(np.arange(OCTAVES)) - 1) / 2
"""Middle of the row numbers of an octave: 1, 2 to 3, 4 to 7 and so on."""


class Cap(NamedTuple):
    """The cap and its effects; releases and public arithmetic."""

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
    unseen = _unseen_rows(seen * _MIDDLES, np.maximum(noisy, 0.0) + scale * math.log(1 / (2 * _UNSEEN)))
    return Cap(int(caps[best]), min(uneven, 1.0), max(float((rows + unseen - kept[best]) / (rows + unseen)), 0.0))


def _unseen_rows(rows: Floats, most: Floats) -> float:
    """Extrapolated rows in the octaves beyond the last visible one, for at most ``most`` persons per octave.

    Parameters
    ----------
    rows : ndarray
        Rows by octave, 0 where none show.
    most : ndarray
        Upper limits of the numbers of persons by octave.

    Notes
    -----
    A power law has numbers of rows that fall by a constant ratio from octave to octave. If they still rise in the last visible
    octave, as they do if most persons have about equally many rows, the ratio decreases until it is below one.
    """
    last = int(np.flatnonzero(rows)[-1])
    before = float(rows[last - 1]) if last >= 1 else 0.0
    first = float(rows[last - 2] or most[last - 2] * _MIDDLES[last - 2]) if last >= 2 else math.inf
    ratio = float(rows[last]) / before if before else 0.0
    change = min(ratio * first / before, 1.0) if before else 1.0
    octave, unseen = float(rows[last]), 0.0
    for k in range(last + 1, min(last + 1 + _FURTHER, OCTAVES)):
        ratio *= change if ratio >= 1 else 1.0
        octave = min(octave * min(ratio, 1.0), float(most[k] * _MIDDLES[k]))
        unseen += octave
    return unseen
