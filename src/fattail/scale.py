"""Private location and scale, so that nobody has to give bounds.

Magnitudes are counted on a dyadic grid that covers every float that matters, fixed before
any data are seen, and a bin is selected by one Gumbel draw. The grid costs nothing: a wider
one only adds candidates, and the selection error grows with the logarithm of their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels
from fattail.data import Block, PrivateData
from fattail.privacy import Bounded, Curator, Fold, TopK

# Edges 2^LOW .. 2^HIGH. Beyond them, bounds and their inverses would leave the floats.
LOW, HIGH = -900, 900

Values = Callable[[Block], NDArray[Any]]


def magnitude_quantile(
    curator: Curator, selection: TopK, data: PrivateData, values: Values, q: float, fold: Fold | None = None
) -> float:
    """Upper edge of the octave that holds the q-quantile of ``|values|``.

    Parameters
    ----------
    curator : Curator
    selection : TopK
        A planned selection of one candidate.
    data : PrivateData
    values : callable
        One number per row of a block.
    q : float
        In (0, 1).
    fold : Fold, optional

    Returns
    -------
    float
        A power of two, at least ``2**LOW``; that smallest value stands for zero as well.

    Notes
    -----
    *Privacy.* A candidate's score is minus the number of rows by which the wanted rank
    misses its bin. Replacing a row moves each cumulative count by at most one, so the
    scores have sensitivity 1.
    """
    bins = HIGH - LOW + 2

    def partial(block: Block) -> NDArray[np.int64]:
        out = np.zeros(bins, dtype=np.int64)
        with np.errstate(all="ignore"):
            v = np.asarray(values(block), dtype=np.float64)
        _kernels.log_histogram(v, LOW, bins, 1, out)
        return out

    through = np.cumsum(data._reduce(partial, fold))
    before = np.concatenate(([0], through[:-1]))
    rank = q * data.size(fold)
    miss = np.maximum(0.0, np.maximum(before - rank, rank - through))
    chosen = curator.select(selection, Bounded(-miss, 1.0, "linf", fold))[0]
    return float(2.0 ** min(LOW + int(chosen), HIGH))
