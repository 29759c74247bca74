"""scikit-learn estimators: they check parameters, validate the data, call one algorithm and store its result."""
