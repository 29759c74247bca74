"""Rows as a plain array, for robustifiers that have no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail import _kernels


def plain_rows(V: Any, r: Any, center: NDArray[np.float64] | None, inverse: NDArray[np.float64]) -> NDArray[np.float64]:
    """``(r[i] * V[i] - center) * inverse`` for all rows of a block, dense; NaN and infinity pass through.

    Examples
    --------
    >>> plain_rows(np.array([[2.0, 4.0]]), np.array([3.0]), None, np.array([1.0, 0.5]))
    array([[6., 6.]])
    """
    rows = np.asarray(V.toarray() if hasattr(V, "toarray") else V, dtype=np.float64)
    factors = _kernels.factors(V, r)
    rows = rows if factors is None else rows * np.asarray(factors)[:, None]
    return (rows if center is None else rows - center) * inverse
