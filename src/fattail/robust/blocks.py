"""Estimates on disjoint blocks of rows, as the rows of new data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.rows.data import Block, PrivateData
from fattail.rows.order import Fold

Rows = NDArray[Any]


def block_estimates(
    data: PrivateData,
    blocks: Sequence[Fold],
    rows: Callable[[Block], Rows],
    estimate: Callable[[Rows, Rows], Rows],
    width: int,
) -> PrivateData:
    """One row per block: ``estimate`` of the block's rows.

    Parameters
    ----------
    data : PrivateData
    blocks : sequence of Fold
        Disjoint folds of all rows, drawn by the curator.
    rows : callable
        The input of the estimate for each row, as a two-dimensional array.
    estimate : callable
        A deterministic function of one block's rows, in their secret order, and of the weight of each (one over the number of
        its person's rows), that gives ``width`` numbers; where it fails or is not finite the estimate counts as zero.
    width : int

    Notes
    -----
    *Privacy.* Blocks are drawn independently of all values, so replacing a row (a person) of ``data`` replaces at most
    one row of the result: whatever is differentially private for the estimates, with as many rows as
    there are blocks, is so for the data. Proof: ``blocks.proof.md``.
    """
    estimates = np.zeros((len(blocks), width))
    for k, fold in enumerate(blocks):
        with np.errstate(all="ignore"):
            try:
                value = np.asarray(estimate(*data._gather_rows(rows, fold)), dtype=np.float64).ravel()
            except (ArithmeticError, np.linalg.LinAlgError):
                continue
        if value.shape == (width,) and np.all(np.isfinite(value)):
            estimates[k] = value
    return PrivateData(estimates)
