"""Losses of linear models, pointwise: they see a prediction and a response, never a row.

``derivative`` is taken with respect to the prediction ``z``. A loss declares what it promises (`Promise`), and a method what it
needs (`Needs`). Before data are read, a loss that does not fit is refused, and `check_loss` refuses one that breaks its
promises on public numbers. Privacy depends on one property only, that a loss is pointwise: sums are bounded afterwards,
whatever a loss promises. Where a proof needs more (``algorithms/parts/ridge.py``), only losses of this file are accepted.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

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
class Squared(Loss):
    """``(z - y)^2 / 2``: its minimizer is the conditional mean.

    Examples
    --------
    >>> Squared().derivative(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    promise = Promise(curvature=1.0, canonical=True)

    def value(self, z: Floats, y: Any) -> Floats:
        return np.asarray(0.5 * (z - y) ** 2)

    def derivative(self, z: Floats, y: Any) -> Floats:
        return np.asarray(z - y, dtype=np.float64)

    def second(self, z: Floats, y: Any) -> Floats:
        return np.ones_like(z)

    def scaled(self, size: float, level: float = 0.0) -> Loss:
        return self


# A threshold must stay positive when the unit of the response is huge.
_LEAST_THRESHOLD = 1e-300


@dataclass(frozen=True)
class Huber(Loss):
    """Squared within ``threshold`` of the response, linear beyond.

    Examples
    --------
    >>> Huber(1.5).derivative(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
    array([1.5, 0. ])
    """

    threshold: float = 1.0

    def __post_init__(self) -> None:
        if not self.threshold > 0:
            raise ValueError(f"threshold must be positive, got {self.threshold!r}")

    @property
    def promise(self) -> Promise:
        return Promise(curvature=1.0, slope=self.threshold)

    def value(self, z: Floats, y: Any) -> Floats:
        r = np.abs(z - y)
        return np.asarray(np.where(r <= self.threshold, 0.5 * r**2, self.threshold * (r - 0.5 * self.threshold)))

    def derivative(self, z: Floats, y: Any) -> Floats:
        return np.asarray(np.clip(z - y, -self.threshold, self.threshold))

    def second(self, z: Floats, y: Any) -> Floats:
        return np.asarray(np.abs(z - y) <= self.threshold, dtype=np.float64)

    def scaled(self, size: float, level: float = 0.0) -> Loss:
        return Huber(max(self.threshold / size, _LEAST_THRESHOLD))


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(z)) - y z`` for labels 0 and 1.

    Examples
    --------
    >>> Logistic().derivative(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    promise = Promise(curvature=0.25, slope=1.0, target="labels", response=expit, canonical=True)

    def value(self, z: Floats, y: Any) -> Floats:
        return np.asarray(np.logaddexp(0.0, z) - y * z)

    def derivative(self, z: Floats, y: Any) -> Floats:
        return np.asarray(expit(z) - y, dtype=np.float64)

    def second(self, z: Floats, y: Any) -> Floats:
        p = expit(z)
        return np.asarray(p * (1.0 - p))


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


OWN = (Squared, Huber, Logistic)
"""Losses whose promises are proved; subclasses are excluded."""


@dataclass(frozen=True)
class Needs:
    """What a method needs of a loss, besides being pointwise.

    Attributes
    ----------
    slope, curvature, convex, canonical : bool
        Whether the derivative must be bounded, the second derivative bounded, the loss convex, and its response canonical.
    targets : tuple of str
        Kinds of responses that the method supports.
    only : tuple of types, optional
        The only losses it supports; a subclass is another loss.
    besides : tuple of types
        Losses that it supports although they lack something of the above.
    because : str
        Why it supports no other loss.

    Examples
    --------
    >>> Needs(slope=True).check(Squared(), "this method")
    Traceback (most recent call last):
        ...
    ValueError: this method needs a loss with a bounded slope, and Squared has none
    """

    slope: bool = False
    curvature: bool = True
    convex: bool = False
    canonical: bool = False
    targets: tuple[Kind, ...] = ("real", "labels")
    only: tuple[type[Loss], ...] | None = None
    besides: tuple[type[Loss], ...] = ()
    because: str = ""

    def check(self, loss: Loss, who: str) -> None:
        """Refuse a loss that ``who`` does not support."""
        name, promise = type(loss).__name__, loss.promise
        if self.only is not None and type(loss) not in self.only:
            known = ", ".join(kind.__name__ for kind in self.only[:-1]) + " and " * (len(self.only) > 1) + self.only[-1].__name__
            reason = f", {self.because}" if self.because else ""
            raise ValueError(f"{who} supports the loss{'es' * (len(self.only) > 1)} {known} only{reason}; got {name}")
        if type(loss) in self.besides:
            return
        if self.slope and not math.isfinite(promise.slope):
            raise ValueError(f"{who} needs a loss with a bounded slope, and {name} has none")
        if self.curvature and not math.isfinite(promise.curvature):
            raise ValueError(f"{who} needs a loss with a bounded second derivative, and {name} has none")
        if self.convex and not promise.convex:
            raise ValueError(f"{who} needs a convex loss, and {name} is not convex")
        if self.canonical and not promise.canonical:
            raise ValueError(f"{who} needs a loss whose derivative is response(z) - y, and {name} promises no canonical response")
        if promise.target not in self.targets:
            raise ValueError(f"{who} supports {' and '.join(self.targets)} responses; {name} is for {promise.target} ones")


# Public numbers on which promises are tested: predictions dense around 0, and a few responses of each kind.
_PREDICTIONS = np.sinh(np.linspace(-4.0, 4.0, 161))
_RESPONSES: dict[Kind, tuple[float, ...]] = {
    "real": (-100.0, -3.0, 0.0, 0.5, 20.0),
    "nonnegative": (0.0, 1.0, 4.0, 50.0),
    "labels": (0.0, 1.0),
}


def check_loss(loss: Any) -> None:
    """Refuse an object that is not a loss, or a loss that breaks its promises on public numbers; no data are read.

    The losses of this file are not tested, because their promises are proved.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Understated(Squared):
    ...     promise = Promise(curvature=0.1)
    >>> check_loss(Understated())
    Traceback (most recent call last):
        ...
    ValueError: Understated promises a curvature of 0.1 but has one of 1
    """
    if not isinstance(loss, Loss) or not isinstance(loss.promise, Promise):
        raise ValueError(f"a loss is an instance of a subclass of fattail.losses.Loss with a promise, got {type(loss).__name__}")
    if type(loss) in OWN:
        return
    name, promise = type(loss).__name__, loss.promise
    y, z = (a.ravel() for a in np.meshgrid(_RESPONSES[promise.target], _PREDICTIONS, indexing="ij"))
    functions = {"value": loss.value, "derivative": loss.derivative, "second": loss.second}
    found = {key: function(z, y) for key, function in functions.items()}
    for key, answer in found.items():
        if not np.all(np.isfinite(answer)):
            raise ValueError(f"the {key} of {name} must be a number for every prediction and response, of their shape")
        _check_pointwise(f"the {key} of {name}", functions[key], z, y, answer)
    for key, of in (("derivative", "value"), ("second", "derivative")):
        _check_differences(f"the {key} of {name} is not that of its {of}", found[key], functions[of], z, y)
    slope, shape = found["derivative"], (-1, _PREDICTIONS.size)
    _check_bound(name, "slope", promise.slope, float(np.max(np.abs(slope))))
    step = np.diff(_PREDICTIONS)
    bend = np.diff(slope.reshape(shape), axis=1) / step
    room = _ROUNDING * float(np.max(np.abs(slope))) / float(np.min(step))  # margin for the rounding of a difference
    _check_bound(name, "curvature", promise.curvature, max(float(np.max(bend)) - room, float(np.max(found["second"]))))
    if promise.canonical and not np.allclose(slope, promise.response(z) - y, rtol=_ROUNDING, atol=_ROUNDING):
        raise ValueError(f"{name} promises a canonical response, and its derivative is not response(z) - y")
    if promise.convex:
        _check_bound(name, "convex derivative, a fall", 0.0, -float(np.min(bend)) - room)
    if not np.max(bend) > 0:
        raise ValueError(f"the derivative of {name} never rises, so no prediction is better than another")


def curvature_near_zero(loss: Loss) -> float:
    """Largest second derivative at public predictions within one of zero, where descents start.

    Examples
    --------
    >>> curvature_near_zero(Logistic())
    0.25
    """
    y, z = np.meshgrid(_RESPONSES[loss.promise.target], _PREDICTIONS[np.abs(_PREDICTIONS) <= 1], indexing="ij")
    return float(np.max(loss.second(z.ravel(), y.ravel())))


# Relative and absolute difference that rounding may cause between two ways to compute one number.
_ROUNDING, _ROUNDING_AT_ZERO = 1e-9, 1e-12
# A promised bound may be exceeded by this share, for a bound that was itself computed.
_PROMISE_MARGIN = 1e-6
# Step of a difference quotient, its relative tolerance, and the share of points at which a function may have a kink.
_STEP, _TOLERANCE, _KINKS = 1e-4, 1e-3, 0.05


def _check_differences(message: str, given: Floats, function: Callable[[Floats, Floats], Floats], z: Floats, y: Floats) -> None:
    """Refuse a derivative that is not the difference quotient of a function, except at kinks."""
    step = _STEP * np.maximum(1.0, np.abs(z))
    quotient = (function(z + step, y) - function(z - step, y)) / (2 * step)
    if np.mean(np.abs(given - quotient) > _TOLERANCE * (1 + np.abs(quotient))) > _KINKS:
        raise ValueError(message)


def _check_bound(name: str, what: str, promised: float, seen: float) -> None:
    if seen > promised * (1 + _PROMISE_MARGIN):
        raise ValueError(f"{name} promises a {what} of {promised:g} but has one of {seen:g}")


def _check_pointwise(what: str, function: Callable[[Floats, Floats], Floats], z: Floats, y: Floats, whole: Floats) -> None:
    """Refuse a function whose result for a row depends on other rows, on their order, or on earlier calls."""
    order = np.random.default_rng(0).permutation(z.size)
    shuffled = np.empty_like(whole)
    shuffled[order] = function(z[order], y[order])
    cut = z.size // 3
    parts = np.concatenate([function(z[:cut], y[:cut]), function(z[cut:], y[cut:])])
    alone = np.concatenate([function(z[[i]], y[[i]]) for i in order[:20]])
    for other, same in ((shuffled, whole), (parts, whole), (alone, whole[order[:20]])):
        if not np.allclose(other, same, rtol=_ROUNDING, atol=_ROUNDING_AT_ZERO, equal_nan=True):
            raise ValueError(f"{what} must depend on one prediction and one response: other rows, or another call, changed it")
