"""Every method of the five papers: where it comes from, what it claims, what was changed."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fattail.catalog import Offered
from fattail.losses import Needs

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
        The source.
    claim : str
        The guarantee.
    changed : str
        What differs from the paper, and why.
    test : str
        The test that attacks the claim.
    function : str
        The function that implements it.
    """

    name: str
    estimators: tuple[str, ...]
    paper: str
    algorithm: str
    claim: str
    changed: str
    test: str
    function: str


_METHODS: list[tuple[Method, Offered | None]] = []
_NEEDS: dict[Callable[..., Any], Needs] = {}


def registered(
    name: str,
    *,
    estimators: tuple[str, ...] | Offered,
    paper: str,
    algorithm: str,
    changed: str,
    test: str,
    claim: str = "(epsilon, delta)-DP, replace one row",
    needs: Needs | None = None,
) -> Callable[[F], F]:
    """Add an algorithm to the registry, with what it needs of a loss.

    ``estimators`` are names, or `Offered` by a family of the catalog: then a new estimator of that family has the method.

    Examples
    --------
    >>> @registered("example", estimators=("DPMean",), paper="none", algorithm="-", changed="-", test="-")  # doctest: +SKIP
    ... def example(curator, data): ...
    """

    def enter(function: F) -> F:
        where = f"{function.__module__}.{function.__qualname__}"
        named, offered = ((), estimators) if isinstance(estimators, Offered) else (estimators, None)
        _METHODS.append((Method(name, named, paper, algorithm, claim, changed, test, where), offered))
        _NEEDS[function] = needs or Needs()
        return function

    return enter


def needs_of(algorithm: Callable[..., Any]) -> Needs:
    """What a registered algorithm needs of a loss."""
    return _NEEDS[algorithm]


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
    methods = [method if of is None else replace(method, estimators=of.names()) for method, of in _METHODS]
    return tuple(sorted(methods, key=lambda m: (m.estimators, m.paper, m.algorithm, m.name)))


def markdown_table() -> str:
    """The registry as a table in Markdown."""
    rows = ["| estimator | `method=` | from | what differs from print |", "|---|---|---|---|"]
    rows += [
        f"| {', '.join(f'`{e}`' for e in m.estimators) or 'your own'} | `{m.name}` | {m.paper}, {m.algorithm} | {m.changed} |"
        for m in registry()
    ]
    return "\n".join(rows)
