"""Objects of a wrong kind, where a user may well pass them, get a sentence of this library."""

import numpy as np
import polars as pl
import pytest

import fattail
from fattail.results import plots
from fattail.results.card import Card

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 2))
Y = X[:, 0] + RNG.normal(size=2000)
MODELS = {
    "DPLinearRegression": (X, Y),
    "DPLogisticRegression": (X, (Y > 0).astype(int)),
    "DPGaussianMixture": (X,),
    "DPMixtureOfRegressions": (X, Y),
    "DPMissingCovariateRegression": (X, Y),
}


@pytest.mark.parametrize("rows", ["t.parquet", pl.DataFrame(X).lazy(), lambda: iter([X])], ids=["path", "query", "stream"])
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_for_rows_in_memory(name, rows):
    model = getattr(fattail, name)(random_state=0).fit(*MODELS[name])
    with pytest.raises(ValueError, match=r"rows to predict must be in memory, .*read them, or use"):
        model.predict(rows)


def test_a_card_needs_a_fit():
    for thing in (fattail.DPMean(), "DPMean", np.ones(3)):
        with pytest.raises(ValueError, match="a card is made of a fitted estimator or of a release"):
            Card.of(thing)


def test_plots_say_what_they_draw():
    pytest.importorskip("matplotlib").use("Agg")
    model = fattail.DPLinearRegression(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="an account or a Budget"):
        plots.budget(model)
    with pytest.raises(ValueError, match="path_"):
        plots.convergence(model)


def test_a_folder_is_not_called_missing(tmp_path):
    with pytest.raises(ValueError, match="is a folder; give one file"):
        fattail.mean(tmp_path, "cost")
