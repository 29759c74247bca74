"""Every method of the five papers: where it comes from, what it claims, what was changed."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Method:
    """One row of the registry.

    Attributes
    ----------
    name : str
        The ``method=`` value.
    estimators : tuple of str
        Public estimators that offer it.
    paper, algorithm : str
        Where it comes from.
    claim : str
        The guarantee.
    changed : str
        What differs from print, and why.
    test : str
        The test that attacks the claim.
    function : str
        Where it is implemented.
    """

    name: str
    estimators: tuple[str, ...]
    paper: str
    algorithm: str
    claim: str
    changed: str
    test: str
    function: str


_METHODS: list[Method] = []


def registered(
    name: str,
    *,
    estimators: tuple[str, ...],
    paper: str,
    algorithm: str,
    changed: str,
    test: str,
    claim: str = "(epsilon, delta)-DP, replace one row",
) -> Callable[[F], F]:
    """Enter an algorithm into the registry, next to its code.

    Examples
    --------
    >>> @registered("example", estimators=("DPMean",), paper="none", algorithm="-", changed="-", test="-")  # doctest: +SKIP
    ... def example(curator, data): ...
    """

    def enter(function: F) -> F:
        where = f"{function.__module__}.{function.__qualname__}"
        _METHODS.append(Method(name, estimators, paper, algorithm, claim, changed, test, where))
        return function

    return enter


def registry() -> tuple[Method, ...]:
    """All methods of the library, by estimator, paper and name.

    Examples
    --------
    >>> import fattail
    >>> sorted({m.paper for m in fattail.registry()})[:2]
    ['abadi2016', 'cai2021']
    """
    import fattail.algorithms as package

    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return tuple(sorted(_METHODS, key=lambda m: (m.estimators, m.paper, m.algorithm, m.name)))


def markdown_table() -> str:
    """The registry as the table of the README."""
    rows = ["| estimator | `method=` | from | what differs from print |", "|---|---|---|---|"]
    rows += [
        f"| {', '.join(f'`{e}`' for e in m.estimators)} | `{m.name}` | {m.paper}, {m.algorithm} | {m.changed} |"
        for m in registry()
    ]
    return "\n".join(rows)
