"""Models survive JSON bit for bit; files of another kind or version are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fattail
from fattail.cli.inspect import PROBLEMS
from fattail.model_io import _decode, _encode, load_model, save_model


@pytest.fixture
def model() -> Any:
    X = np.random.default_rng(0).standard_t(3, (500, 2))
    return fattail.DPMean(epsilon=2.0, random_state=0).fit(X)


def test_round_trip(model: Any, tmp_path: Path) -> None:
    path = save_model(model, tmp_path / "m.json", feature_names=["a", "b"], target="none")
    again = load_model(path)
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.mean_, model.mean_) and again.mean_.dtype == model.mean_.dtype
    assert again.privacy_ == model.privacy_
    assert list(again.feature_names_in_) == ["a", "b"]


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_every_estimator_survives(name: str, tmp_path: Path) -> None:
    parameters, arrays = PROBLEMS[name](np.random.default_rng(0))
    fitted = getattr(fattail, name)(random_state=0, **parameters).fit(*arrays)
    again = load_model(save_model(fitted, tmp_path / "m.json"))
    assert again.privacy_ == fitted.privacy_
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(fitted, method):
            assert np.array_equal(getattr(again, method)(arrays[0]), getattr(fitted, method)(arrays[0]))


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.0, np.inf, -np.inf]),
        np.array([[1.5, 2.5]], dtype=np.float32),
        np.array(["no", "yes"]),
        np.array([3, 1]),
        np.array([True, False]),
        (1, 2.5, None),
        [1, "auto"],
        float("inf"),
        np.float64(0.1),
        np.int64(3),
    ],
    ids=str,
)
def test_values_survive(value: Any) -> None:
    again = _decode(json.loads(json.dumps(_encode("v", value), allow_nan=False)))
    assert np.array_equal(again, value)
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype


def test_a_ledger_stays_out(tmp_path: Path) -> None:
    account = fattail.Ledger(tmp_path / "b.db").open("a", epsilon=3, delta=1e-5)
    model = fattail.DPMean(ledger=account).fit(np.ones((2000, 1)))
    path = save_model(model, tmp_path / "m.json")
    assert "ledger" not in json.loads(path.read_text())["parameters"] and load_model(path).ledger is None


def test_refusals(model: Any, tmp_path: Path) -> None:
    path = save_model(model, tmp_path / "m.json")
    content = json.loads(path.read_text())
    for change, message in (
        ({"schema": "fattail-model/3"}, "expected one of fattail-model/1, fattail-model/2"),
        ({"schema": None}, "no schema"),
        ({"estimator": "Ledger"}, "does not exist"),
        ({"estimator": "os.system"}, "does not exist"),
    ):
        path.write_text(json.dumps(content | change))
        with pytest.raises(ValueError, match=message):
            load_model(path)
    del content["privacy"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="damaged: no privacy"):
        load_model(path)
    for text in ("", "[1]", "not json"):
        path.write_text(text)
        with pytest.raises(ValueError, match="not a"):
            load_model(path)
    with pytest.raises(ValueError, match="cannot read model"):
        load_model(tmp_path / "none.json")
    with pytest.raises(ValueError, match="not fitted"):
        save_model(fattail.DPMean(), tmp_path / "m.json")
    with pytest.raises(ValueError, match="only estimators"):
        save_model(object(), tmp_path / "m.json")
