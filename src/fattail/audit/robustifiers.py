"""The contract of robustifiers, tested on made-up rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fattail.audit.replays import fuzz
from fattail.privacy import Curator, Gaussian
from fattail.robust import Robustifier
from fattail.rows.data import PrivateData

# The made-up table: rows, and the share of its cells that are not zero (for CSR rows). Set by hand.
_ROWS, _FULL = 203, 0.7
# Small blocks: the least number of rows that a block may have.
_SMALL_BLOCK = 1


def check_robustifier(robustifier: Robustifier, columns: int = 3, *, trials: int = 60, seed: int = 0) -> None:
    """Refuse a robustifier that breaks its contract on made-up rows; no data are read.

    It tests that one hostile row (huge, tiny, canceling, NaN or infinite) never moves the sum by more than the declared
    sensitivity, and that the sum is the same for other blocks, another order of the rows, and CSR rows. It finds mistakes;
    it does not prove that there are none.

    Parameters
    ----------
    robustifier : Robustifier
    columns : int
        Columns of the made-up rows.
    trials : int
        Hostile rows that are tried.
    seed : int

    Examples
    --------
    >>> from fattail.audit import check_robustifier
    >>> from fattail.robust import Ball, Clip
    >>> check_robustifier(Clip(bound=2.0))
    >>> class Understated(Ball):
    ...     def _row_range(self, width):
    ...         return super()._row_range(width) / 2
    >>> check_robustifier(Understated(radius=1.0))
    Traceback (most recent call last):
        ...
    ValueError: Understated declares too small a sensitivity: a row moved the sum by 2 times as much
    """
    name, rng = type(robustifier).__name__, np.random.default_rng(seed)
    X = np.where(rng.random((_ROWS, columns)) < _FULL, rng.standard_t(2, (_ROWS, columns)), 0.0)
    whole = _sum(robustifier, X)
    same = {
        "the blocks of the table": _sum(robustifier, X, block_bytes=_SMALL_BLOCK),
        "the order of the rows": _sum(robustifier, X[rng.permutation(_ROWS)]),
    }
    if not np.any(np.asarray(robustifier.center)):
        same["the storage of the rows"] = _sum(robustifier, sparse.csr_array(X))
    for what, other in same.items():
        if not np.array_equal(whole, other):
            raise ValueError(f"{name} must bound each row by itself: its sum depends on {what}")

    def fit(X: Any) -> Any:
        curator, release = Curator(1.0, 1e-6, random_state=0), Gaussian("mean")
        curator.plan(release)
        return curator.release(release, robustifier.mean(PrivateData(X)).to("l2"))

    broken = X.copy()
    broken[0], broken[1] = np.nan, np.inf
    worst = max(fuzz(fit, (table,), trials=trials // 2, seed=seed) for table in (X, broken))
    if not worst <= 1:
        raise ValueError(f"{name} declares too small a sensitivity: a row moved the sum by {worst:.3g} times as much")


def _sum(robustifier: Robustifier, X: Any, block_bytes: int | None = None) -> Any:
    return robustifier.mean(PrivateData(X, block_bytes=block_bytes))._value
