"""The methods that are told nothing: ``method="auto"`` of each estimator."""
