"""Coordinatewise clipping and truncation (tao2022 Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from fattail import _kernels
from fattail.robust.base import Factors, Floats, Robustifier, Sums, check_scale


@dataclass(frozen=True)
class Clip(Robustifier):
    """Clip values to ``center +- bound``; NaN counts as ``center``.

    Notes
    -----
    *Privacy.* Each coordinate of a row lies in an interval of length ``2 bound`` whatever its
    bits, so replacing a row moves each coordinate of the mean by at most ``2 bound / n``.
    Proof: ``clip.proof.md``.
    """

    bound: ArrayLike = 1.0

    def __post_init__(self) -> None:
        check_scale("bound", self.bound)

    def _scale(self) -> ArrayLike:
        return self.bound

    def _add(self, V: Any, r: Factors, center: Floats | None, inverse: Floats, out: Sums) -> None:
        _kernels.clip_sums(V, r, center, inverse, out)


@dataclass(frozen=True)
class Truncate(Clip):
    """Values outside ``center +- bound`` count as ``center``. Same bound as ``Clip``."""

    def _add(self, V: Any, r: Factors, center: Floats | None, inverse: Floats, out: Sums) -> None:
        _kernels.truncate_sums(V, r, center, inverse, out)
