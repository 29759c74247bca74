"""Median of the means of disjoint groups (tao2022 Algorithm 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fattail.privacy.bounded import Bounded, PrivacyError
from fattail.robust.base import Robustifier, Rows, own_rows
from fattail.rows.data import PrivateData
from fattail.rows.order import Fold, Sample


@dataclass(frozen=True)
class MedianOfMeans:
    """Coordinatewise median of group means, each bounded by ``within``.

    Parameters
    ----------
    within : Robustifier
        Bounds the rows of a group.
    groups : int
        Odd. If there is more than one, a fold that the curator drew is divided.

    Notes
    -----
    *Privacy.* A replaced row moves one group's mean, and a median moves by no more than the
    largest move among its arguments, coordinate by coordinate; so the sensitivity is that of
    the smallest group, in l_inf or in l2. Proof: ``median_of_means.proof.md``.
    """

    within: Robustifier
    groups: int = 1

    def __post_init__(self) -> None:
        if self.groups < 1 or self.groups % 2 == 0:
            raise ValueError(f"groups must be odd and positive, got {self.groups!r}")

    def mean(
        self, data: PrivateData, rows: Rows = own_rows, fold: Fold | Sample | None = None, *, width: int | None = None
    ) -> Bounded:
        if isinstance(fold, Sample):
            raise PrivacyError("groups are cut from a fold; a Poisson sample has no ranks")
        if self.groups == 1:
            return self.within.mean(data, rows, fold, width=width)
        if fold is None:
            raise PrivacyError("groups are drawn by the curator: pass one of its folds, which may hold all rows")
        parts = [self.within.mean(data, rows, group, width=width) for group in fold.split(self.groups)]
        means = np.stack([part.unit * part._value for part in parts])
        coarsest = max(parts, key=lambda part: float(np.max(np.abs(part.unit))))
        # In units of the smallest group. A median of floats is one of them, so only the group means are rounded.
        return Bounded(
            np.median(means, axis=0) / coarsest.unit,
            coarsest.raw_sensitivity * (1 + 2.0**-40),
            coarsest.norm,
            fold,
            unit=coarsest.unit,
            offset=coarsest.offset,
        )
