"""Differentially private statistics and learning for data that nobody can bound."""

from __future__ import annotations

import importlib
from typing import Any

from fattail import catalog

__version__ = "0.2.0.dev0"

# Loaded on first use, so that `import fattail` costs little. Estimators are listed in the catalog.
_WHERE = {
    "LocalRandomizer": "estimators.means",
    "Release": "results.release",
    "Summary": "results.summary",
    "count": "statistics.count",
    "difference": "statistics.mean",
    "mean": "statistics.mean",
    "total": "statistics.mean",
    "Budget": "privacy.budget",
    "BudgetExceededError": "privacy.ledger",
    "Ledger": "privacy.ledger",
    "PrivacyReport": "privacy.report",
    "PrivacyError": "privacy.bounded",
    "PrivacyLeakWarning": "_tools.warnings",
    "UtilityWarning": "_tools.warnings",
    "registry": "algorithms.registry",
}
_MODULES = ("audit", "baselines", "privacy", "robust")

__all__ = ["__version__", *sorted([*_WHERE, *catalog.names()]), *_MODULES]


def __getattr__(name: str) -> Any:
    if name in catalog.names():
        return catalog.load(name)
    if name in _WHERE:
        value = getattr(importlib.import_module(f"fattail.{_WHERE[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"fattail.{name}")
    else:
        raise AttributeError(f"module 'fattail' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
