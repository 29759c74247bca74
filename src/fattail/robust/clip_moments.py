"""Clipped means together with second moments that cost nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fattail.privacy.bounded import Bounded
from fattail.robust.base import ONE, per_person
from fattail.robust.passes import sum_over_blocks
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
HALF_SQUARE = 31
"""Shift that turns a square in units of ``ONE ** -2`` into half of it in units of ``1 / ONE``."""


def clipped_moments(data: PrivateData, center: Floats, bound: Floats) -> Bounded:
    """Mean of each column clipped to ``center +- bound``, then ``bound`` times the mean of ``(1 - u^2) / 2`` of each.

    Here ``u`` is the clipped value seen from the center, in units of the bound. NaN counts as the center. For few columns: it
    makes arrays of the size of a block.

    Notes
    -----
    *Privacy.* Replacing a row moves ``u`` and ``(1 - u^2) / 2`` of a column together by at most 2 in l1, as much as ``u`` alone:
    a row in the middle of the interval moves the mean less than one at an end, and what is left pays for the square. Proof:
    ``clip_moments.proof.md``.
    """
    inverse = 1.0 / bound

    def partial(block: Block) -> NDArray[np.int64]:
        with np.errstate(all="ignore"):
            V, _ = per_person(block, block.table(False), None, center)
            u = np.nan_to_num((V - center) * inverse, nan=0.0, posinf=1.0, neginf=-1.0)
        u = np.rint(ONE * np.clip(u, -1.0, 1.0)).astype(np.int64)
        return np.concatenate((u.sum(axis=0), ((ONE * ONE - u * u) >> HALF_SQUARE).sum(axis=0)))

    total = sum_over_blocks(data, partial)
    unit = np.tile(bound / (ONE * data.n), 2)
    return Bounded(total, 2.0 * ONE * data.d, "l1", unit=unit, offset=np.append(center, np.zeros(data.d)))
