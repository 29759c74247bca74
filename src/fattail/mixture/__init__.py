"""Latent-variable models: clusters, mixtures of regressions, regression with missing covariates."""

from fattail.mixture.clusters import DPGaussianMixture
from fattail.mixture.missing import DPMissingCovariateRegression
from fattail.mixture.regressions import DPMixtureOfRegressions

__all__ = ["DPGaussianMixture", "DPMissingCovariateRegression", "DPMixtureOfRegressions"]
