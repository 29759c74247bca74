"""What the contract tests run over: every estimator of the catalog and every method of the registry."""

import fattail
from fattail import catalog


def methods():
    """Pairs of an estimator and a method it offers."""
    return sorted({(estimator, m.name) for m in fattail.registry() for estimator in m.estimators})


def with_target(kind):
    """Estimators whose ``fit`` takes this beside the rows: "none", "numbers" or "labels"."""
    return tuple(e.name for e in catalog.entries() if e.target == kind)


def example(name):
    """Parameters that a fit of a small table needs."""
    return dict(catalog.entry(name).example)


METHODS = methods()
UNSUPERVISED = with_target("none")
CLASSIFIERS = with_target("labels")
DENSE = tuple(e.name for e in catalog.entries() if e.dense)
