"""The estimators of the library, in one list.

Public names, the registry of methods, the command line, model files, documentation and contract tests
all read it. To add an estimator, write its class and add an entry here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

Family = Literal["mean", "linear", "sparse", "mixture"]
Target = Literal["none", "numbers", "labels"]


@dataclass(frozen=True)
class Entry:
    """One estimator.

    Attributes
    ----------
    name : str
        The public name of the class.
    module : str
        The module of the class; it is imported on first use.
    family : {"mean", "linear", "sparse", "mixture"}
        Methods are offered by families, see `Offered`.
    target : {"none", "numbers", "labels"}
        What ``fit`` takes beside the rows.
    word : str, optional
        The value of ``fattail fit --model``; without one, the command line does not fit it.
    dense : bool
        Whether it refuses CSR rows.
    example : mapping
        Parameters that a fit of a small table needs.

    Examples
    --------
    >>> from fattail import catalog
    >>> catalog.entry("DPSparseRegressor").word
    'sparse'
    """

    name: str
    module: str
    family: Family
    target: Target
    word: str | None = None
    dense: bool = False
    example: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Offered:
    """The estimators that offer a method: those of a family, or those of them with one kind of target."""

    family: Family
    target: Target | None = None

    def names(self) -> tuple[str, ...]:
        """Their public names, in the order of the catalog."""
        return tuple(e.name for e in entries() if e.family == self.family and self.target in (None, e.target))


_ENTRIES: dict[str, Entry] = {
    e.name: e
    for e in (
        Entry("DPMean", "fattail.estimators.means", "mean", "none"),
        Entry("DPLinearRegression", "fattail.estimators.linear", "linear", "numbers", "linear"),
        Entry("DPHuberRegressor", "fattail.estimators.linear", "linear", "numbers", "huber"),
        Entry("DPLogisticRegression", "fattail.estimators.linear", "linear", "labels", "logistic"),
        Entry("DPSparseRegressor", "fattail.estimators.sparse", "sparse", "numbers", "sparse", example={"sparsity": 2}),
        Entry("DPSparseClassifier", "fattail.estimators.sparse", "sparse", "labels", "sparse-logistic", example={"sparsity": 2}),
        Entry("DPGaussianMixture", "fattail.estimators.mixture", "mixture", "none", "mixture", dense=True),
        Entry("DPMixtureOfRegressions", "fattail.estimators.mixture", "mixture", "numbers", "mixture-of-regressions", dense=True),
        Entry("DPMissingCovariateRegression", "fattail.estimators.mixture", "mixture", "numbers", dense=True),
    )
}


def entries() -> tuple[Entry, ...]:
    """All estimators."""
    return tuple(_ENTRIES.values())


def names() -> tuple[str, ...]:
    """Their public names."""
    return tuple(_ENTRIES)


def entry(name: str) -> Entry:
    """The entry of an estimator."""
    return _ENTRIES[name]


def load(name: str) -> Any:
    """The class of an estimator.

    Examples
    --------
    >>> from fattail import catalog
    >>> catalog.load("DPMean")().epsilon
    1.0
    """
    return getattr(importlib.import_module(_ENTRIES[name].module), name)


@contextmanager
def added(new: Entry) -> Iterator[None]:
    """Add an estimator for the duration of a ``with`` block, for tests and for an estimator of your own."""
    if new.name in _ENTRIES:
        raise ValueError(f"{new.name} is in the catalog already")
    _ENTRIES[new.name] = new
    try:
        yield
    finally:
        del _ENTRIES[new.name]
