"""Types and ranges of parameters, checked before data are read and anything is charged. Estimators add checks of parameters
against each other. A parameter of a wrong type or size must not fail in the middle of a fit, after the charge.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

FLAGS = frozenset({"fit_intercept", "split", "splitting", "symmetric"})
COUNTS = frozenset({"batch_size", "blocks", "groups", "n_components", "n_iter", "sparsity", "trim"})
NUMBERS = COUNTS | {
    "alpha", "clip", "confidence", "failure_probability", "feature_clip", "moment", "noise_scale", "radius", "response_clip",
    "step", "threshold",
}  # fmt: skip
# A number, or one for each column.
LISTS = frozenset({"feature_scale", "init", "moment_bound"})

# Numbers outside this range could overflow or underflow when squared; counts must fit into 32 bits.
SMALLEST, LARGEST, MOST = 1e-100, 1e100, 2**31 - 1


def checked_names(cls: type[T]) -> type[T]:
    """A class decorator: the constructor refuses parameters that it does not have in the words of the user's class, which may
    inherit it."""
    init = vars(cls)["__init__"]
    known = list(inspect.signature(init).parameters)[1:]

    @functools.wraps(init)
    def wrapper(self: Any, *values: Any, **parameters: Any) -> None:
        if values or not parameters.keys() <= set(known):
            raise TypeError(_unknown(type(self).__name__, known, bool(values), sorted(parameters.keys() - set(known))))
        init(self, **parameters)

    setattr(cls, "__init__", wrapper)  # noqa: B010 (mypy allows no assignment)
    return cls


def _unknown(name: str, known: list[str], by_place: bool, unknown: Iterable[str]) -> str:
    if by_place:
        return f"{name} takes parameters by name, as in {name}(epsilon=1.0)"
    near = {word: difflib.get_close_matches(word, known, n=1) for word in unknown}
    hints = [f"did you mean {words[0]!r}?" for words in near.values() if words] or [f"it has {', '.join(sorted(known))}"]
    return f"{name} has no parameter {', '.join(map(repr, near))}; {' '.join(hints)}"


def check_type(name: str, value: Any, default: Any) -> None:
    """Refuse a flag that is not a bool, and a number of another type or outside the range.

    Parameters
    ----------
    name : str
    value, default : object
        The given value and the default. A default of "auto" or None is accepted as it is.

    Examples
    --------
    >>> check_type("n_iter", 20, "auto")
    >>> check_type("fit_intercept", "yes", True)
    Traceback (most recent call last):
        ...
    ValueError: fit_intercept must be True or False, got 'yes'
    """
    if value is default or (isinstance(value, str) and (value == default or name == "init")):
        return
    or_default = "" if isinstance(default, (bool, int, float)) else f", or {default!r}"
    if name in FLAGS and not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False{or_default}, got {_short(value)}")
    if name in NUMBERS and not _is_number(value):
        raise ValueError(f"{name} must be a number{or_default}, got {_short(value)}")
    if name in NUMBERS | LISTS:
        _check_size(name, value, MOST if name in COUNTS else LARGEST)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))


def _check_size(name: str, value: Any, most: float) -> None:
    try:
        sizes = np.abs(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        sizes = np.array(math.nan)
    if not (sizes.size and np.all((sizes == 0) | ((sizes >= SMALLEST) & (sizes <= most)))):
        limits = f"neither larger than {most:g} nor, unless zero, smaller than {SMALLEST:g} in size"
        raise ValueError(f"{name} must be finite, {limits}, got {_short(value)}")


def _short(value: Any) -> str:
    try:
        return repr(value)[:60]
    except ValueError:  # an integer of thousands of digits
        return f"a number of about 10^{math.log10(abs(value)):.0f}"
