"""What a loss is: three functions of a prediction and a response, and what it promises about them."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kind = Literal["real", "nonnegative", "labels"]


def identity(z: Floats) -> Floats:
    """The identity, the response of a model that predicts numbers."""
    return z


@dataclass(frozen=True)
class Promise:
    """What a loss declares about itself.

    Attributes
    ----------
    curvature : float
        Largest second derivative; infinity if there is none.
    slope : float
        Largest absolute derivative; infinity if there is none.
    convex : bool
        Whether the derivative never decreases in the prediction.
    target : {"real", "nonnegative", "labels"}
        What responses must be. Labels reach a loss as 0 and 1.
    response : callable
        From the linear predictor to the expected response, for ``predict``.
    canonical : bool
        Whether the derivative is ``response(z) - y``, as in a generalized linear model with its canonical link. Then the
        second derivative depends on the prediction alone, and the model without columns predicts the mean response.
    """

    curvature: float
    slope: float = math.inf
    convex: bool = True
    target: Kind = "real"
    response: Callable[[Floats], Floats] = identity
    canonical: bool = False

    def __post_init__(self) -> None:
        if not (self.curvature > 0 and self.slope > 0):
            raise ValueError(f"slope and curvature must be positive, got {self.slope!r} and {self.curvature!r}")
        if self.target not in ("real", "nonnegative", "labels"):
            raise ValueError(f"target must be 'real', 'nonnegative' or 'labels', got {self.target!r}")


class Loss(ABC):
    """The base class of losses. Subclass it and give ``promise``, ``value``, ``derivative`` and ``second``.

    The three functions take arrays ``z`` and ``y`` of one shape and give numbers of that shape. Each is wrapped when the class
    is made, so that one row cannot affect another: a row for which the function fails, or a result of another shape or type,
    counts as NaN, which sums treat as zero.
    """

    @property
    @abstractmethod
    def promise(self) -> Promise:
        """What the loss declares; it may be a class attribute."""

    @property
    def slope(self) -> float:
        """Largest absolute derivative; infinity if there is none."""
        return self.promise.slope

    @property
    def curvature(self) -> float:
        """Largest second derivative."""
        return self.promise.curvature

    @abstractmethod
    def value(self, z: Floats, y: Any) -> Floats: ...

    @abstractmethod
    def derivative(self, z: Floats, y: Any) -> Floats: ...

    @abstractmethod
    def second(self, z: Floats, y: Any) -> Floats: ...

    def scaled(self, size: float, level: float = 0.0) -> Loss:
        """The same loss for predictions and responses in units of ``size`` around ``level``."""
        return _Scaled(self, size, level)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("value", "derivative", "second"):
            if name in vars(cls):
                setattr(cls, name, _pointwise(vars(cls)[name]))


def _pointwise(function: Callable[[Any, Floats, Any], Any]) -> Callable[[Any, Floats, Any], Floats]:
    """The function with results of the right shape, where a failure affects only its own row."""

    def answers(loss: Any, z: Floats, y: Any) -> Floats | None:
        try:
            found = np.asarray(function(loss, z, y))
        except MemoryError:
            raise
        except Exception:  # its message may quote a value
            return None
        return np.asarray(found, dtype=np.float64) if found.shape == z.shape and found.dtype.kind in "fiub" else None

    @functools.wraps(function)
    def guarded(self: Any, z: Floats, y: Any) -> Floats:
        z, shape = np.asarray(z, dtype=np.float64), np.shape(y)
        if shape not in ((), z.shape):
            raise ValueError(f"predictions have shape {z.shape} and responses {shape}: there must be one of each per row")
        with np.errstate(all="ignore"):
            found = answers(self, z, y)
            if found is not None:
                return found
            one_by_one = np.full(z.shape, math.nan)
            for i in np.ndindex(z.shape):
                alone = answers(self, z[i].reshape(1), np.asarray(y)[i].reshape(1) if shape else y)
                one_by_one[i] = math.nan if alone is None else alone[0]
            return one_by_one

    return guarded


@dataclass(frozen=True)
class _Scaled(Loss):
    """``loss(size z + level, size y + level) / size^2``: the same curvature, and a slope in units of ``size``."""

    loss: Loss
    size: float
    level: float

    @property
    def promise(self) -> Promise:
        old = self.loss.promise
        return Promise(old.curvature, old.slope / self.size, old.convex, old.target, old.response)

    def _raw(self, v: Any) -> Any:
        return self.size * np.asarray(v, dtype=np.float64) + self.level

    def value(self, z: Floats, y: Any) -> Floats:
        return self.loss.value(self._raw(z), self._raw(y)) / self.size**2

    def derivative(self, z: Floats, y: Any) -> Floats:
        return self.loss.derivative(self._raw(z), self._raw(y)) / self.size

    def second(self, z: Floats, y: Any) -> Floats:
        return self.loss.second(self._raw(z), self._raw(y))
