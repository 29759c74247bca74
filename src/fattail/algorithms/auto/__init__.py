"""The default methods, which need no parameter: ``method="auto"`` of each estimator."""
