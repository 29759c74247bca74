"""Latent-variable models: clusters, mixtures of regressions, regression with missing covariates."""

from fattail.estimators.mixture.clusters import DPGaussianMixture
from fattail.estimators.mixture.missing import DPMissingCovariateRegression
from fattail.estimators.mixture.regressions import DPMixtureOfRegressions

__all__ = ["DPGaussianMixture", "DPMissingCovariateRegression", "DPMixtureOfRegressions"]
