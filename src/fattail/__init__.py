"""Differentially private statistics and learning for data that nobody can bound."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Loaded on first use, so that `import fattail` costs little.
_WHERE = {
    "DPMean": "estimators.means",
    "LocalRandomizer": "estimators.means",
    "Release": "results.release",
    "Summary": "results.summary",
    "mean": "statistics.mean",
    "DPLinearRegression": "estimators.linear",
    "DPHuberRegressor": "estimators.linear",
    "DPLogisticRegression": "estimators.linear",
    "DPSparseRegressor": "estimators.sparse",
    "DPSparseClassifier": "estimators.sparse",
    "DPGaussianMixture": "estimators.mixture",
    "DPMixtureOfRegressions": "estimators.mixture",
    "DPMissingCovariateRegression": "estimators.mixture",
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

__all__ = ["__version__", *sorted(_WHERE), *_MODULES]


def __getattr__(name: str) -> Any:
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
