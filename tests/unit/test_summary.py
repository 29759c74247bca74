"""The table of a linear model: right numbers, all forms, no name that escapes."""

import math

import numpy as np
import pytest
from scipy import stats

from fattail import DPLinearRegression, DPLogisticRegression, DPSparseClassifier, DPSparseRegressor
from fattail.results.card import Card
from fattail.results.summary import INTERCEPT, Summary

TABLE = Summary(("a", "b", "c"), np.array([2.0, -1.0, 0.5]), np.array([0.5, 1.0, math.nan]), 0.9)


def test_z_p_and_intervals():
    np.testing.assert_allclose(TABLE.z[:2], [4.0, -1.0])
    np.testing.assert_allclose(TABLE.p[:2], 2 * stats.norm.sf([4.0, 1.0]))
    reach = stats.norm.ppf(0.95) * TABLE.standard_error[:2]
    np.testing.assert_allclose(TABLE.high[:2] - TABLE.coefficient[:2], reach)
    np.testing.assert_allclose(TABLE.coefficient[:2] - TABLE.low[:2], reach)
    assert np.isnan([TABLE.z[2], TABLE.p[2], TABLE.low[2], TABLE.high[2]]).all()


def test_joint_intervals_hold_together():
    k, level = 8, 0.95
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(k, k))
    draws = rng.normal(size=(20_000, k)) @ mixing
    errors = np.linalg.norm(mixing, axis=0)
    covered = {}
    for joint in (False, True):
        reach = Summary(("x",) * k, np.zeros(k), errors, level, joint).high
        covered[joint] = (np.abs(draws) <= reach).all(axis=1).mean()
    assert covered[True] >= level - 0.005
    assert covered[False] < level - 0.05


def test_a_column_that_does_not_show_has_an_infinite_interval():
    table = Summary(("flat",), np.array([0.0]), np.array([math.inf]))
    assert (table.low[0], table.high[0]) == (-math.inf, math.inf)
    assert table.p[0] == 1.0
    assert "hides the spread" in str(table)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, math.nan])
def test_confidence_is_a_share(confidence):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Summary((), np.zeros(0), np.zeros(0), confidence)


def test_names_cannot_escape():
    table = Summary(("<script>alert(1)</script>\x1b[2J",), np.ones(1), np.ones(1), title="<b>")
    assert "<script>" not in table._repr_html_() and "<b>" not in table._repr_html_()
    assert "\x1b" not in str(table) and "\x1b" not in table._repr_html_()


def test_many_rows_are_cut_on_the_screen_only():
    table = Summary(tuple(f"x{j}" for j in range(200)), np.arange(200.0), np.ones(200))
    text = str(table)
    assert "x199" in text and "x3 " not in text and "140 more" in text
    assert len(table.to_frame()) == 200


@pytest.mark.parametrize("model", [DPLinearRegression, DPLogisticRegression, DPSparseRegressor, DPSparseClassifier])
@pytest.mark.parametrize("method", ["auto", "papers"])
def test_every_linear_model_has_a_summary_and_the_card_shows_it(model, method):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 4))
    y = X @ [2.0, 0.0, -1.0, 0.0] + 0.1 * rng.normal(size=3000)
    if "Logistic" in model.__name__ or "Classifier" in model.__name__:
        y = (y > 0).astype(float)
    papers = "two_stage" if "Sparse" in model.__name__ else "clipped"
    fitted = model(epsilon=4.0, method="auto" if method == "auto" else papers, random_state=0).fit(X, y)
    table = fitted.summary(confidence=0.8)
    assert table.names[-1] == INTERCEPT
    assert table.confidence == 0.8 and model.__name__ in table.title
    frame = table.to_frame()
    assert list(frame.columns) == ["coefficient", "standard_error", "z", "p", "low", "high"]
    results = Card.of(fitted).results
    assert [r.name for r in results] == list(table.names)
    np.testing.assert_allclose([r.value for r in results], table.coefficient)
    assert frame.to_string() and "std. error" in str(table) and "<table" in table._repr_html_()


def test_a_summary_has_the_confidence_of_its_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    model = DPLinearRegression(confidence=0.8, random_state=0).fit(X, X[:, 0])
    table = model.summary()
    assert table.confidence == 0.8 and np.allclose(np.column_stack([table.low, table.high])[:2], model.interval_)
    assert model.summary(confidence=0.95).confidence == 0.95
