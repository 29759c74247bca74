"""The base class of all bounded sums.

A robustifier bounds each row's contribution, adds the bounded rows exactly as integers, and
says how far one row can move the result. ``rows(block)`` gives the contributions before
bounding, as ``(V, r)``: row i is ``r[i] * V[i]``, or ``V[i]`` where r is None. For a linear
model V is the block itself and r the derivative of the loss, so no n x d array is made. If r is a `Residual`, it is computed
while the rows are summed, and the rows are read once.

Where a person has several rows, their contributions are averaged first (`per_person`), and the average is bounded. What is
said here of a row then holds for a person with any number of rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fattail import _kernels
from fattail.privacy.bounded import Bounded, Norm, PrivacyError
from fattail.robust.passes import sum_over_blocks
from fattail.rows.data import Block, PrivateData
from fattail.rows.order import Fold, Sample
from fattail.rows.persons import averaged

Floats = NDArray[np.float64]
Sums = NDArray[np.int64]
Factors = _kernels.Factors
Rows = Callable[[Block], tuple[Any, Factors]]

# A row's bounded contribution is an integer of at most this size.
ONE = 1 << 30
# Smallest scale: its inverse is a finite float, also after multiplication by up to 1e8.
_LEAST_SCALE = 1e-300


def own_rows(block: Block) -> tuple[Any, None]:
    """The rows themselves, as for a mean."""
    return block.rows, None


@dataclass(frozen=True)
class Robustifier(ABC):
    """Mean of ``width`` values per row (per person), each bounded around ``center``.

    Parameters
    ----------
    center : float or array of shape (width,)
        Public point around which rows are bounded, and the answer if all rows are missing.
    """

    center: ArrayLike = 0.0

    def mean(
        self,
        data: PrivateData,
        rows: Rows = own_rows,
        fold: Fold | Sample | None = None,
        *,
        width: int | None = None,
        anchor: ArrayLike | None = None,
    ) -> Bounded:
        """Bounded mean over a fold (all rows by default).

        Parameters
        ----------
        data : PrivateData
        rows : callable
            Contributions of a block; see the docstring of the module.
        fold : Fold or Sample, optional
        width : int, optional
            Values per row; the number of columns by default.
        anchor : float or array of shape (width,), optional
            Public point near which the mean is expected, ``center`` by default. Where the number of rows is private, the error
            of that number is multiplied by the distance of the mean from this point. Otherwise it changes nothing. For
            coordinatewise bounds only.
        """
        width = data.d if width is None else width
        center = np.broadcast_to(np.asarray(self.center, dtype=np.float64), (width,))
        if isinstance(fold, Sample) and np.any(center):
            # A row outside of the sample must count as zero, which is the middle of the range only if the center is zero.
            raise PrivacyError("a Poisson sample can only be bounded around zero")
        scale = np.broadcast_to(np.asarray(self._scale(), dtype=np.float64), (width,))
        inverse = 1.0 / scale
        # Without a center the kernels are faster; with one they need a contiguous array.
        shift = np.array(center) if np.any(center) else None

        def partial(block: Block) -> NDArray[np.int64]:
            out = np.zeros(width, dtype=np.int64)
            with np.errstate(all="ignore"):
                V, r = rows(block)
                check_rows(block, V, r, width)
                V, r = per_person(block, V, r, center)
                if block.weight is not None:
                    known = _kernels.factors(V, r)
                    r = block.weight if known is None else block.weight * known
                self._add(V, r, shift, inverse, out)
            return out

        total = sum_over_blocks(data, partial, fold)
        # One row (person) more or fewer moves the sum by half of what a replacement does: `data.swing`.
        reach = data.swing * self._row_range(width)
        if anchor is not None and data.count_noise and self._norm() == "linf":
            step = scale * (self._sup() / ONE)
            place = np.clip(np.rint((np.asarray(anchor, dtype=np.float64) - center) / step), -ONE, ONE).astype(np.int64)
            total, center = total - data._number(fold) * place, center + place * step
            reach = min(reach + float(np.abs(place).max()), self._row_range(width))
        unit = scale * (self._sup() / (ONE * data.size(fold)))
        return Bounded(total, reach, self._norm(), fold, unit=unit, offset=center)

    @abstractmethod
    def _add(self, V: Any, r: Factors, center: Floats | None, inverse: Floats, out: Sums) -> None:
        """Add the bounded rows, in units of 1 / ONE of the largest contribution, to ``out``."""

    @abstractmethod
    def _scale(self) -> ArrayLike:
        """The length of one unit of the bounding function, per column."""

    def _sup(self) -> float:
        """Largest value of the bounding function."""
        return 1.0

    def _norm(self) -> Norm:
        return "linf"

    def _row_range(self, width: int) -> float:
        """Largest change of the integer sum when one row is replaced."""
        return 2.0 * ONE


def per_person(block: Block, V: Any, r: Factors, center: ArrayLike = 0.0) -> tuple[Any, Factors]:
    """One contribution per person: the average over their rows; unchanged where a row is a person.

    A coordinate that is not a number counts as ``center`` in the average. The average may be infinite; the caller bounds it.
    """
    if block.starts is None:
        return V, r
    return averaged(block.starts, V, _kernels.factors(V, r), np.asarray(center, dtype=np.float64)), None


def check_rows(block: Block, V: Any, r: Factors, width: int) -> None:
    """Refuse contributions that are not one per row: kernels would read out of bounds, or a row would count more than once."""
    factors = (len(block),) if r is None or isinstance(r, _kernels.Residual) else np.shape(r)
    if tuple(V.shape) != (len(block), width) or factors != (len(block),):
        raise PrivacyError(
            f"rows of shape {tuple(V.shape)} and factors of shape {factors} for {len(block)} rows of {width} values"
        )


def check_scale(name: str, value: ArrayLike) -> None:
    """Refuse a bound that is not positive, finite and invertible."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim > 1 or not np.all(np.isfinite(array) & (array > _LEAST_SCALE)):
        raise ValueError(f"{name} must be positive and finite, got {value!r}")


def ball_range(width: int) -> float:
    """Integer l2 distance between two rows of norm at most ONE, each rounded coordinatewise."""
    return 2.0 * (ONE + math.sqrt(width) / 2)
