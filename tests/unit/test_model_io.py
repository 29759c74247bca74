"""Models survive JSON bit for bit; files of another kind or version are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fattail
from fattail import catalog
from fattail.cli.inspect import made_up
from fattail.results.model_files import _decode, _encode, load_model, save_model


@pytest.fixture
def model() -> Any:
    X = np.random.default_rng(0).standard_t(3, (5000, 2))
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
@pytest.mark.parametrize("name", catalog.names())
def test_every_estimator_survives(name: str, tmp_path: Path) -> None:
    entry = catalog.entry(name)
    arrays = made_up(entry, np.random.default_rng(0))
    fitted = catalog.load(name)(random_state=0, **entry.example).fit(*arrays)
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


# -- files that anybody may have written -----------------------------------------------------------


def _changed(path: Path, *keys: str, value: Any) -> None:
    """Put a value into a model file."""
    content = json.loads(path.read_text())
    node = content
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "value",
    [
        {"array": [1.0, 2.0], "dtype": "S1500000000"},
        {"array": ["a", "b"], "dtype": "U400000000"},
        {"array": [0, 1], "dtype": "V1000000000"},
        {"array": [0, 1], "dtype": "O"},
        {"array": [0, 1], "dtype": "complex256"},
        {"array": [0, 1], "dtype": "M8[s]"},
        {"array": [0, 1], "dtype": "i8,i8"},
        {"array": [1.0], "dtype": "float64", "shape": [100_000_000, 1000]},
        {"array": [], "dtype": "float64", "shape": [0, 10**12]},
        {"array": [1.0], "dtype": "float64", "shape": [1] * 60},
        {"array": [1.0], "dtype": "float64", "shape": [True]},
        {"array": ["x" * 900_000, *[""] * 3000], "dtype": "text", "shape": [3001]},
        {"array": [1.0, [2.0]], "dtype": "<f8"},
        {"array": {"a": 1}, "dtype": "float64", "shape": [1]},
    ],
    ids=lambda v: json.dumps(v)[:60],
)
def test_no_array_is_larger_than_its_file(model: Any, tmp_path: Path, value: Any) -> None:
    import tracemalloc

    path = save_model(model, tmp_path / "m.json")
    _changed(path, "fitted", "mean_", value=value)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="is damaged: it holds no fitted DPMean"):
            load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", [b"[" * (1 << 23), b'{"a": [' + b"{}," * (1 << 22) + b"0]}", b" " * (1 << 26) + b"{}"])
def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path, data: bytes, monkeypatch: Any) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(data)
    monkeypatch.setattr(json, "loads", lambda *a, **k: pytest.fail("parsed"))
    with pytest.raises(ValueError, match="larger than a fattail model can be"):
        load_model(path)


@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("fitted", "n_features_in_"), 10**12),
        (("fitted", "n_features_in_"), 3),
        (("fitted", "coef_"), {"array": [1.0, 2.0, 3.0], "dtype": "float64", "shape": [3]}),
        (("fitted", "coef_"), "x"),
        (("fitted", "intercept_"), None),
        (("fitted", "predict"), 1),
        (("fitted", "summary_of_"), {}),
        (("feature_names",), ["a"]),
        (("feature_names",), ["a", 2]),
        (("parameters", "ledger"), "x"),
        (("parameters", "__class__"), "x"),
        (("privacy", "numerics"), 3),
    ],
)
def test_parts_that_do_not_fit_together_are_damage(tmp_path: Path, keys: tuple[str, ...], value: Any) -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = fattail.DPLinearRegression(random_state=0, method="clipped", n_iter=1).fit(X, X[:, 0])
    path = save_model(model, tmp_path / "m.json", feature_names=["a", "b"])
    _changed(path, *keys, value=value)
    with pytest.raises(ValueError, match="is damaged"):
        load_model(path)


@pytest.mark.parametrize("field", ["parameters", "fitted", "about", "privacy", "feature_names"])
def test_the_top_of_a_file_is_of_its_kind(model: Any, tmp_path: Path, field: str) -> None:
    path = save_model(model, tmp_path / "m.json")
    _changed(path, field, value="x")
    with pytest.raises(ValueError, match=f"is damaged: no {field}"):
        load_model(path)


def test_constants_that_are_no_json_are_refused(model: Any, tmp_path: Path) -> None:
    path = save_model(model, tmp_path / "m.json", about_it=1.25)
    path.write_text(path.read_text().replace("1.25", "NaN", 1))
    with pytest.raises(ValueError, match="is not a fattail model"):
        load_model(path)


def test_files_of_version_1_are_read(model: Any, tmp_path: Path) -> None:
    path = save_model(model, tmp_path / "m.json", feature_names=["a", "b"])
    content = json.loads(path.read_text())
    content["schema"] = "fattail-model/1"
    for value in content["fitted"].values():
        if isinstance(value, dict):
            array = np.asarray(value["array"], dtype=value["dtype"]).reshape(value.pop("shape"))
            value.update(array=array.tolist(), dtype=array.dtype.str)
    assert content["fitted"]["interval_"]["dtype"] == "<f8" and len(content["fitted"]["interval_"]["array"][0]) == 2
    path.write_text(json.dumps(content, indent=1))
    again = load_model(path)
    assert np.array_equal(again.mean_, model.mean_) and np.array_equal(again.interval_, model.interval_)
    assert again.privacy_ == model.privacy_ and list(again.feature_names_in_) == ["a", "b"]


def test_a_name_that_occurs_twice_is_refused(model: Any, tmp_path: Path) -> None:
    path = save_model(model, tmp_path / "m.json")
    for text in (
        path.read_text().replace('"about"', '"privacy": {}, "about"'),
        path.read_text().replace('"epsilon"', '"epsilon": 9, "epsilon"', 1),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match="not a fattail model"):
            load_model(path)


def test_a_mean_without_its_mean_is_damage(tmp_path: Path) -> None:
    path = save_model(fattail.DPMean(random_state=0).fit(np.ones((1000, 1))), tmp_path / "m.json")
    path.write_text(path.read_text().replace('"mean_"', '"other_"'))
    with pytest.raises(ValueError, match="damaged"):
        load_model(path)


def test_a_support_beyond_the_columns_is_damage(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(3000, 3))
    path = save_model(fattail.DPSparseRegressor(sparsity=1, epsilon=4.0, random_state=0).fit(X, X[:, 0]), tmp_path / "m.json")
    content = json.loads(path.read_text())
    content["fitted"]["support_"]["array"] = [7]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="damaged"):
        load_model(path)
