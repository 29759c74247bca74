"""The mean of one array, in one call."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from fattail.estimators.means import DPMean
from fattail.results.release import Release
from fattail.rows.door import array_of, target_of
from fattail.rows.frames import is_column


def mean(x: ArrayLike, *, epsilon: float = 1.0, delta: float = 1e-6, **options: Any) -> Release:
    """Private mean of one array, with nothing to declare.

    Parameters
    ----------
    x : array of shape (n,) or (n, d)
        One person per entry, or per row.
    epsilon, delta : float
        Privacy budget.
    **options
        As for ``DPMean``.

    Returns
    -------
    Release
        ``value``, ``interval`` (95 % unless ``confidence`` says otherwise) and ``privacy``.

    Examples
    --------
    >>> import numpy as np, fattail
    >>> incomes = np.random.default_rng(1).lognormal(10, 1, 5000)
    >>> answer = fattail.mean(incomes, epsilon=1.0, random_state=0)
    >>> bool(30_000 < answer.value < 40_000)
    True
    """
    array: Any = x if hasattr(x, "tocsr") else target_of(x) if is_column(x) else array_of(x)
    if array.ndim not in (1, 2):
        raise ValueError(f"mean needs an array of shape (n,) or (n, d), got {array.ndim} dimensions")
    fitted = DPMean(epsilon=epsilon, delta=delta, **options).fit(array.reshape(-1, 1) if array.ndim == 1 else array)
    if array.ndim == 1:
        low, high = fitted.interval_[0]
        return Release(float(fitted.mean_[0]), (float(low), float(high)), fitted.privacy_)
    return Release(fitted.mean_, fitted.interval_, fitted.privacy_)
