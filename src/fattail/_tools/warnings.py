"""Warnings that point at the caller's line, from any depth of the library."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from types import FrameType


class PrivacyLeakWarning(UserWarning):
    """Something outside the guarantee may reveal data."""


class UtilityWarning(UserWarning):
    """The answer is private but may be useless: the noise is as large as the signal."""


# Packages whose frames are skipped to find the user's line: this library, those that call it, and wrappers of its functions.
INSIDE = frozenset({"fattail", "sklearn", "joblib", "contextlib"})
# Warnings already given within a loop of scikit-learn: Python would repeat them for every fold, because scikit-learn resets its
# registry.
_said: set[tuple[str, str, int]] = set()


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the first frame outside of the library; in a cross-validation only once. The message may use public numbers and
    releases only.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("the noise wins", UtilityWarning)
    >>> str(caught[0].message)
    'the noise wins'
    """
    frames = list(_callers())
    level = next((k for k, frame in enumerate(frames) if _package(frame) not in INSIDE), len(frames) - 1)
    if any(_module(frame).startswith(("sklearn.model_selection", "joblib")) for frame in frames[:level]):
        said = message, frames[level].f_code.co_filename, frames[level].f_lineno
        if said in _said:
            return
        _said.add(said)
    warnings.warn(message, category, stacklevel=level + 1)


def warn_utility(message: str) -> None:
    """Warn about accuracy."""
    warn(message, UtilityWarning)


def warn_leak(message: str) -> None:
    """Warn about what the guarantee does not cover."""
    warn(message, PrivacyLeakWarning)


def scored_by_scikit_learn() -> bool:
    """Whether the caller is a scorer of scikit-learn, and not a ``score`` of this library, which has warned already."""
    for frame in _callers():
        if _package(frame) not in INSIDE or (_package(frame) == "fattail" and frame.f_code.co_name == "score"):
            return False
        if _module(frame).startswith("sklearn.metrics"):
            return True
    return False


def _callers() -> Iterator[FrameType]:
    """Frames from the caller outwards."""
    frame = inspect.currentframe()
    while frame is not None and (frame := frame.f_back) is not None:
        yield frame


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]
