"""Estimates on disjoint blocks of rows, as rows of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.data import Block, PrivateData

Table = NDArray[Any]


def block_estimates(
    data: PrivateData, rows: Callable[[Block], Table], estimate: Callable[[Table], Table], blocks: int, width: int
) -> PrivateData:
    """One row per block: ``estimate`` of the block's rows.

    Parameters
    ----------
    data : PrivateData
    rows : callable
        What an estimate needs of each row, as a two-dimensional array.
    estimate : callable
        A deterministic function of one block's rows that gives ``width`` numbers; where it fails or
        is not finite the estimate counts as zero.
    blocks, width : int

    Notes
    -----
    *Privacy.* Blocks are fixed by position, so replacing a row of ``data`` replaces at most one row
    of the result: whatever is differentially private for the estimates, with ``blocks`` rows, is
    so for the data. Proof: ``blocks.proof.md``.
    """
    estimates = np.zeros((blocks, width))
    for k, fold in enumerate(data.folds(blocks)):
        with np.errstate(all="ignore"):
            try:
                value = np.asarray(estimate(data._gather(rows, fold)), dtype=np.float64).ravel()
            except (ArithmeticError, np.linalg.LinAlgError):
                continue
        if value.shape == (width,) and np.all(np.isfinite(value)):
            estimates[k] = value
    return PrivateData(estimates)
