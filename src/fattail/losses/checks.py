"""Whether a loss keeps its promises, and whether they are what a method needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Floats, Kind, Loss, Promise
from .standard import OWN


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
    >>> from fattail.losses import Needs, Squared
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

    The losses of this library are not tested, because their promises are proved.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from fattail.losses import Promise, Squared, check_loss
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
    margin = _ROUNDING * float(np.max(np.abs(slope))) / float(np.min(step))  # for the rounding of a difference
    _check_bound(name, "curvature", promise.curvature, max(float(np.max(bend)) - margin, float(np.max(found["second"]))))
    if promise.canonical and not np.allclose(slope, promise.response(z) - y, rtol=_ROUNDING, atol=_ROUNDING):
        raise ValueError(f"{name} promises a canonical response, and its derivative is not response(z) - y")
    if promise.convex:
        _check_bound(name, "convex derivative, a fall", 0.0, -float(np.min(bend)) - margin)
    if not np.max(bend) > 0:
        raise ValueError(f"the derivative of {name} never rises, so no prediction is better than another")


def curvature_near_zero(loss: Loss) -> float:
    """Largest second derivative at public predictions within one of zero, where descents start.

    Examples
    --------
    >>> from fattail.losses import Logistic, curvature_near_zero
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
