"""A value that has not been released, with its sensitivity."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fattail.rows.order import Fold, Sample

Norm = Literal["l1", "l2", "linf"]
Real = NDArray[np.float64]

# Relative margin for the rounding of floating-point products and sums of a few terms.
_ROUNDING = 1 + 2.0**-40


class PrivacyError(RuntimeError):
    """A step would break the guarantee. Nothing was released."""


class Bounded:
    """A private array with its replace-one sensitivity.

    The released quantity is ``offset + unit * value``. Arithmetic with public numbers acts
    on the public ``offset`` and ``unit`` alone, so exact integer sums stay exact, and the
    sensitivity scales with the unit: ``w - step * gradient`` is again a ``Bounded``.

    Parameters
    ----------
    value : array
        int64 sums, or floats. Never shown.
    sensitivity : float
        Largest change of ``value`` in ``norm`` when one row is replaced.
    norm : {"l1", "l2", "linf"}
    fold : Fold or Sample, optional
        The rows it was computed from; all of them by default.
    unit, offset : float or array, keyword
        Public affine map to the released quantity; a ``unit`` per coordinate means that the
        sensitivity is measured after dividing each coordinate by its unit.
    monotone : bool, keyword
        All coordinates move in one direction when a row is replaced (tail counts).

    Examples
    --------
    >>> g = Bounded([0.2, 0.1], 0.02, "l2")
    >>> g
    Bounded(<hidden>, sensitivity=0.02, norm='l2', shape=(2,))
    >>> (1.0 - 0.5 * g).sensitivity
    0.01
    """

    __slots__ = ("_value", "fold", "monotone", "norm", "offset", "raw_sensitivity", "unit")
    _value: NDArray[Any]
    raw_sensitivity: float
    norm: Norm
    fold: Fold | Sample | None
    unit: float | Real
    offset: float | Real
    monotone: bool

    __array_ufunc__ = None  # so that ndarray * Bounded calls __rmul__ and does not loop over elements

    def __init__(
        self,
        value: ArrayLike,
        sensitivity: float,
        norm: Norm = "l2",
        fold: Fold | Sample | None = None,
        *,
        unit: float | Real = 1.0,
        offset: float | Real = 0.0,
        monotone: bool = False,
    ) -> None:
        if norm not in ("l1", "l2", "linf"):
            raise ValueError(f"norm must be 'l1', 'l2' or 'linf', got {norm!r}")
        if not (
            isinstance(sensitivity, (int, float, np.integer, np.floating)) and math.isfinite(sensitivity) and sensitivity >= 0
        ):
            raise ValueError(f"sensitivity must be finite and non-negative, got {sensitivity!r}")
        array = np.asarray(value)
        if array.dtype != np.int64:
            # Noise does not hide a non-finite value.
            array = np.asarray(value, dtype=np.float64)
            array = np.where(np.isfinite(array), array, 0.0)
        set_ = object.__setattr__
        set_(self, "_value", array)
        set_(self, "raw_sensitivity", float(sensitivity))
        set_(self, "norm", norm)
        set_(self, "fold", fold)
        set_(self, "unit", unit)
        set_(self, "offset", offset)
        set_(self, "monotone", monotone)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Bounded is frozen; cannot set {name!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(np.broadcast_shapes(self._value.shape, np.shape(self.unit), np.shape(self.offset)))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def sensitivity(self) -> float:
        """Largest change of the released quantity in ``norm`` (an upper bound if units differ)."""
        return self.raw_sensitivity * float(np.max(np.abs(self.unit)))

    def to(self, norm: Norm) -> Bounded:
        """The same value with its sensitivity in another norm, by the sharp inequality."""
        k = self.size
        factor = {("linf", "l2"): math.sqrt(k), ("linf", "l1"): k, ("l2", "l1"): math.sqrt(k)}.get((self.norm, norm), 1.0)
        return self._with(raw_sensitivity=self.raw_sensitivity * factor, norm=norm)

    def evaluated(self) -> Bounded:
        """The released quantity itself in floating point, coordinatewise (``linf``).

        Cancellation against the offset leaves rounding of its size, which is public and
        becomes part of the sensitivity.
        """
        real = self.offset + self.unit * self._value
        slack = 2.0**-50 * float(np.max(np.abs(self.offset)))
        return Bounded(real, self.to("linf").sensitivity * _ROUNDING + slack, "linf", self.fold, monotone=self.monotone)

    def magnitudes(self) -> Bounded:
        """Absolute values, as scores for a selection."""
        real = self.evaluated()
        return Bounded(np.abs(real._value), real.raw_sensitivity, "linf", self.fold)

    def largest(self, parts: int) -> Bounded:
        """The largest of several scores of each candidate; the value holds ``parts`` lists of scores, one after another."""
        real = self.evaluated()
        return Bounded(real._value.reshape(parts, -1).max(axis=0), real.raw_sensitivity, "linf", self.fold)

    def __getitem__(self, index: Any) -> Bounded:
        """Coordinates chosen by a public index, each once unless the sensitivity is that of a single one."""
        places = np.broadcast_to(np.arange(self._value.size).reshape(self._value.shape), self.shape)[index]
        if self.norm != "linf" and np.unique(places).size < np.size(places):
            raise PrivacyError(f"a coordinate that is chosen twice moves twice, which the {self.norm} sensitivity does not count")
        pick = [np.broadcast_to(part, self.shape)[index] if np.ndim(part) else part for part in (self.unit, self.offset)]
        return Bounded(
            np.broadcast_to(self._value, self.shape)[index],
            self.raw_sensitivity,
            self.norm,
            self.fold,
            unit=pick[0],
            offset=pick[1],
            monotone=self.monotone,
        )

    def __mul__(self, factor: float | Real) -> Bounded:
        factor = _public(factor)
        # A factor per coordinate is a change of units, which the sensitivity does not see.
        return self._with(unit=self.unit * factor, offset=self.offset * factor, monotone=self.monotone and np.ndim(factor) == 0)

    def __add__(self, shift: float | Real) -> Bounded:
        return self._with(offset=self.offset + _public(shift))

    __rmul__ = __mul__
    __radd__ = __add__

    def __truediv__(self, factor: float | Real) -> Bounded:
        return self * (1.0 / _public(factor))

    def __neg__(self) -> Bounded:
        return self * -1.0

    def __sub__(self, shift: float | Real) -> Bounded:
        return self + (-_public(shift))

    def __rsub__(self, shift: float | Real) -> Bounded:
        return (-self) + shift

    def __repr__(self) -> str:
        return f"Bounded(<hidden>, sensitivity={self.sensitivity:g}, norm={self.norm!r}, shape={self.shape})"

    def __reduce__(self) -> Any:
        raise PrivacyError("a value that has not been released cannot be pickled or copied out")

    def _with(self, **changes: Any) -> Bounded:
        state = {
            "raw_sensitivity": self.raw_sensitivity,
            "norm": self.norm,
            "unit": self.unit,
            "offset": self.offset,
            "monotone": self.monotone,
        } | changes
        return Bounded(
            self._value,
            state["raw_sensitivity"],
            state["norm"],
            self.fold,
            unit=state["unit"],
            offset=state["offset"],
            monotone=state["monotone"],
        )


def _public(number: Any) -> float | Real:
    if isinstance(number, Bounded):
        raise PrivacyError("two unreleased values cannot be combined: release one of them first")
    array = np.asarray(number, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError("a public factor or shift must be finite")
    return array if array.ndim else float(array)
