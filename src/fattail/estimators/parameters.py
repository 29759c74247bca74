"""What a parameter can be at all, checked before data are touched and anything is charged.

Estimators add what holds between parameters. What is wrong with the kind or the size of one must
not show in the middle of a fit, when the budget is spent.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FLAGS = frozenset({"fit_intercept", "split", "splitting", "symmetric"})
COUNTS = frozenset({"batch_size", "blocks", "groups", "n_components", "n_iter", "sparsity", "trim"})
NUMBERS = COUNTS | {
    "alpha", "clip", "confidence", "failure_probability", "feature_clip", "moment", "noise_scale", "radius", "response_clip",
    "step", "threshold",
}  # fmt: skip
# A number, or one for each column.
LISTS = frozenset({"feature_scale", "init", "moment_bound"})

# Sizes whose products and squares are floats, too, and counts that machines can count.
SMALLEST, LARGEST, MOST = 1e-100, 1e100, 2**31 - 1


def check_type(name: str, value: Any, default: Any) -> None:
    """Refuse a flag that is neither true nor false, and a number that is none or whose square is none.

    Parameters
    ----------
    name : str
    value, default : object
        What was given, and what the parameter is if nothing is: "auto" and None pass where they are that.

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
