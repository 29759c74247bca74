"""Budgets, mechanisms, and the curator, through which every release goes."""

from fattail._tools.warnings import PrivacyLeakWarning, UtilityWarning
from fattail.privacy.accountant import delta_of, epsilon_of, satisfies
from fattail.privacy.bounded import Bounded, PrivacyError
from fattail.privacy.budget import Budget
from fattail.privacy.calibration import check_budget, gaussian_multiplier, largest_rho
from fattail.privacy.charges import Subject, Verification
from fattail.privacy.curator import Curator
from fattail.privacy.ledger import BudgetExceededError, Ledger, LedgerAccount
from fattail.privacy.mechanisms import Gaussian, Laplace, Mechanism, SmoothBounded, SmoothNoise, SubsampledGaussian, TopK
from fattail.privacy.report import PrivacyReport, ReleaseRecord
from fattail.rows.order import Fold, Sample

__all__ = [
    "Bounded",
    "Budget",
    "BudgetExceededError",
    "Curator",
    "Fold",
    "Gaussian",
    "Laplace",
    "Ledger",
    "LedgerAccount",
    "Mechanism",
    "PrivacyError",
    "PrivacyLeakWarning",
    "PrivacyReport",
    "ReleaseRecord",
    "Sample",
    "SmoothBounded",
    "SmoothNoise",
    "Subject",
    "SubsampledGaussian",
    "TopK",
    "UtilityWarning",
    "Verification",
    "check_budget",
    "delta_of",
    "epsilon_of",
    "gaussian_multiplier",
    "largest_rho",
    "satisfies",
]
