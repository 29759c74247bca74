"""Estimators in scikit-learn's manner: parameters, validation, one call of an algorithm, attributes."""
