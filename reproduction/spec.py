"""What an experiment is: data, methods, a grid, and what the paper claims about them.

A panel is one figure or table of a paper. Its parts are module-level functions, so that a
panel can be sent to a worker process; which settings a function needs, its signature says.
"""

from __future__ import annotations

import inspect
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Setting = Mapping[str, Any]
Family = Literal["printed", "calibrated", "auto", "not private"]


@dataclass(frozen=True, eq=False)
class TrialData:
    """Data of one trial, and how far an answer is from the truth.

    Attributes
    ----------
    X, y : arrays
        What a method may fit.
    error : callable
        Error of a coefficient vector.
    known : mapping
        What the paper assumes known about the law (moment bounds, noise level, ...).
    names : tuple of str
        Names of the columns where an answer selects some of them.
    """

    X: Any
    y: Any
    error: Callable[[Floats], float]
    known: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()


class Steps(NamedTuple):
    """Coefficients after some numbers of iterations."""

    after: tuple[int, ...]
    rows: Floats


@dataclass(frozen=True)
class Method:
    """One curve.

    Attributes
    ----------
    label : str
    family : str
        ``printed``: noise and steps of the paper; ``calibrated``: this library's version of
        the same algorithm; ``auto``: told nothing; ``not private``: a baseline without noise.
    run : callable
        ``run(problem, seed, **settings)`` gives coefficients, or one row of them per iteration, or
        `Steps`.
    algorithm : str
        What a printed and a calibrated method have in common; they are compared by it.
    flaw : str
        Why a printed method is not private as claimed; empty where it is.
    """

    label: str
    family: Family
    run: Callable[..., Any]
    algorithm: str = ""
    flaw: str = ""

    @property
    def private(self) -> bool:
        return self.family != "not private" and not self.flaw


@dataclass(frozen=True)
class Panel:
    """One figure or table.

    Attributes
    ----------
    key : str
        For example ``wang2020-fig1a``.
    title : str
    problem : callable
        ``problem(rng, **settings)`` gives a `TrialData`.
    methods : tuple of Method
    base : mapping
        Settings that do not vary.
    grid : mapping
        Settings that vary, each a tuple of values.
    x : str
        The name on the horizontal axis: one of the grid, or ``iteration`` where methods give
        one answer per iteration.
    facet : str
        The other name of the grid, one picture for each of its values; empty if there is none.
    error : str
        What is measured, in words.
    chosen : str
        Settings that the paper leaves out.
    claims : tuple
        What the paper says of the result (see `reproduction.claims`).
    needs : str
        Data file without which the panel is skipped.
    table : bool
        Drawn as a table rather than curves.
    in_print : mapping
        Numbers of a printed table: row label to values.
    bound : callable, optional
        A lower bound on the error, drawn under the curves.
    quick, quick_trials
        Settings of the short version.
    """

    key: str
    title: str
    problem: Callable[..., TrialData]
    methods: tuple[Method, ...]
    base: Setting
    grid: Mapping[str, tuple[Any, ...]]
    x: str
    error: str
    facet: str = ""
    chosen: str = ""
    claims: tuple[Any, ...] = ()
    needs: str = ""
    table: bool = False
    in_print: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bound: Callable[..., float] | None = None
    trials: int = 20
    quick: Setting = field(default_factory=dict)
    quick_trials: int = 4

    @property
    def paper(self) -> str:
        return self.key.split("-")[0]

    def resized(self, overrides: Setting, trials: int) -> Panel:
        """The same panel with other settings; a name of the grid takes a tuple of values."""
        unknown = set(overrides) - set(self.base) - set(self.grid)
        if unknown:
            raise ValueError(f"{self.key} has no setting {', '.join(sorted(unknown))}")
        base = {k: overrides.get(k, v) for k, v in self.base.items()}
        grid = {k: tuple(overrides.get(k, v)) for k, v in self.grid.items()}
        return replace(self, base=base, grid=grid, trials=trials)

    def small(self) -> Panel:
        """The quick version."""
        return self.resized(self.quick, min(self.quick_trials, self.trials))

    def points(self) -> Iterator[dict[str, Any]]:
        """Every combination of the grid, with the fixed settings."""
        for values in itertools.product(*self.grid.values()):
            yield {**self.base, **dict(zip(self.grid, values, strict=True))}


def apply(function: Callable[..., Any], setting: Setting, *arguments: Any) -> Any:
    """Call ``function`` with those settings that its signature names."""
    return function(*arguments, **used(function, setting))


def used(function: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    """The settings that a function asks for by name and that are not bound already."""
    bound = function.keywords if isinstance(function, partial) else {}
    names = inspect.signature(function).parameters
    return {k: v for k, v in setting.items() if k in names and k not in bound}


def name_of(function: Callable[..., Any]) -> str:
    """A stable name of a function or of a partial application of one."""
    if isinstance(function, partial):
        return f"{name_of(function.func)}{text(function.keywords)}"
    return f"{function.__module__}.{function.__qualname__}"


def cell(panel: Panel, method: Method, setting: Setting) -> str:
    """What a result depends on besides its trial; panels and points that agree in it share the result."""
    return text(
        {
            "data": [name_of(panel.problem), used(panel.problem, setting)],
            "method": [name_of(method.run), used(method.run, setting)],
        }
    )


def text(setting: Setting) -> str:
    """A setting as one line that is equal for equal settings."""
    return json.dumps(dict(setting), sort_keys=True, default=str)


def seed_of(*parts: Any) -> int:
    """A seed that depends on nothing but the parts."""
    return zlib.crc32("|".join(map(str, parts)).encode())
