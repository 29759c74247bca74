"""pandas objects side by side: rows are matched by position, so different row labels are refused by the holder's check."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fattail
from fattail.rows.data import PrivateData
from fattail.rows.door import Refusal
from fattail.rows.named import NamedColumns

N = 3000
RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
Y = 3 * X.a + RNG.normal(size=N)
SHUFFLED = Y.sample(frac=1, random_state=0)
REFUSED = "different labels"


@pytest.mark.parametrize("y", [SHUFFLED, SHUFFLED.to_frame(), pd.Series(Y.to_numpy(), index=np.arange(N) + 1)])
def test_a_target_with_other_labels_is_refused_before_the_charge(y):
    budget = fattail.Budget(9.0, 1e-3)
    with pytest.raises(Refusal, match=REFUSED) as error:
        fattail.DPLinearRegression(ledger=budget).fit(X, y)
    assert not budget.history
    assert ".loc[table.index]" in str(error.value) and "to_numpy()" in str(error.value)


def test_labels_of_persons_are_compared_too():
    with pytest.raises(Refusal, match=REFUSED):
        fattail.DPMean().fit(X, person=pd.Series(np.arange(N)).sample(frac=1, random_state=0))
    with pytest.raises(Refusal, match=REFUSED):
        PrivateData(X, SHUFFLED, missing="error")


@pytest.mark.parametrize("y", [Y, SHUFFLED.loc[X.index], SHUFFLED.to_numpy(), Y.tolist(), pl.Series(Y.to_numpy())])
def test_what_has_the_same_labels_or_none_is_taken(y):
    fattail.DPLinearRegression(random_state=0).fit(X, y, person=np.arange(N))


def test_labels_may_occur_twice_or_be_of_another_type():
    index = np.arange(N) // 2
    fattail.DPLinearRegression(random_state=0).fit(X.set_index(index), Y.set_axis(index.astype(float)))


@pytest.mark.parametrize("missing", ["zero", "drop"])
def test_no_label_decides_where_no_cell_may(missing):
    models = [fattail.DPLinearRegression(missing=missing, random_state=0).fit(X, y) for y in (SHUFFLED, SHUFFLED.to_numpy())]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_named_columns_compare_labels_where_missing_cells_are_refused():
    for options in ({"labels": [SHUFFLED]}, {"numbers": [SHUFFLED]}):
        with pytest.raises(Refusal, match=REFUSED):
            NamedColumns(X, missing="error", **options)
        for missing in (None, "zero", "drop"):
            NamedColumns(X, missing=missing, **options)
    NamedColumns(X, labels=["a", Y, SHUFFLED.to_numpy()], missing="error")


@pytest.mark.parametrize("name", ["by", "person"])
def test_questions_refuse_series_in_another_order(name):
    frame = pd.DataFrame({"cost": np.arange(60.0), "group": np.arange(60) % 2})
    moved = frame.group.sample(frac=1.0, random_state=0)
    options = {name: moved} | ({"groups": [0, 1]} if name == "by" else {})
    with pytest.raises(Refusal, match="different labels"):
        fattail.mean(frame, "cost", **options)
    assert fattail.mean(frame, "cost", missing="zero", random_state=0, **options) is not None
