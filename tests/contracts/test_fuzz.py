"""A short run of ``fuzz/run.py``, arrays in every layout, and the faults that the long run has found."""

import importlib.util
import json
import random
import sqlite3
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fattail
from fattail.cli import files
from fattail.privacy import Ledger
from fattail.privacy.chain import Pages
from fattail.privacy.events import Pure
from fattail.results.model_files import load_model, save_model

PATH = Path(__file__).parents[2] / "fuzz" / "harnesses.py"
spec = importlib.util.spec_from_file_location("harnesses", PATH)
harnesses = sys.modules["harnesses"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(harnesses)


@pytest.mark.parametrize("name", harnesses.HARNESSES)
def test_only_documented_errors_come_out_of_damaged_files(name):
    rng, pool = random.Random(name), harnesses.seeds()[name]
    for data in pool:
        harnesses.HARNESSES[name](data)
    for _ in range(60 if name in ("ledger", "account", "command") else 200):
        harnesses.HARNESSES[name](harnesses.mutate(rng.choice(pool), rng))


@pytest.mark.slow
@pytest.mark.parametrize("name", harnesses.HARNESSES)
@settings(max_examples=2000, deadline=None)
@given(seed=st.integers(0, 2**64))
def test_only_documented_errors_come_out_of_badly_damaged_files(name, seed):
    rng = random.Random(seed)
    data = rng.choice(harnesses.seeds()[name])
    for _ in range(rng.choice((1, 5, 20))):
        data = harnesses.mutate(data, rng)
    harnesses.HARNESSES[name](data)


def test_the_harness_notices_a_fault(monkeypatch):
    monkeypatch.setattr(harnesses.model_io, "load_model", lambda path: {}["missing"])
    with pytest.raises(KeyError):
        harnesses.model(b"{}")


HOSTILE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=64),
    st.sampled_from([0.0, -0.0, 5e-324, 2.0**-1022, 1e-160, 1e160, 1.7e308, -1.7e308, 2.0**53, 2.0**63, 1.0, -1.0]),
)
LAYOUTS = {
    "fortran": np.asfortranarray,
    "big-endian": lambda X: X.astype(">f8"),
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "masked": lambda X: np.ma.masked_array(X, mask=False),
    "read-only": lambda X: _frozen(X.copy()),
    "list": lambda X: X.tolist(),
}


def _frozen(X):
    X.setflags(write=False)
    return X


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=25, deadline=None)
@given(values=st.lists(HOSTILE, min_size=40, max_size=40))
def test_layout_and_type_change_no_bit_of_a_fit(layout, values):
    X = np.array(values).reshape(20, 2)
    before = X.copy()

    def means(rows):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return fattail.DPMean(epsilon=4.0, delta=1e-5, method="truncated", random_state=0, moment_bound=1.0).fit(rows).mean_

    assert np.array_equal(means(X), means(LAYOUTS[layout](X)))
    assert np.array_equal(X, before)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64, np.float32, np.float16, bool])
def test_integers_do_not_overflow(dtype):
    ends = (False, True) if dtype is bool else (np.finfo(dtype).min, np.finfo(dtype).max) if np.dtype(dtype).kind == "f" else None
    low, high = ends or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    X = np.array([low, high] * 20, dtype=dtype)[:, None]
    model = fattail.DPMean(epsilon=4.0, delta=1e-5, method="truncated", random_state=0, moment_bound=1.0)
    assert np.array_equal(model.fit(X).mean_, model.fit(X.astype(np.float64)).mean_)


@pytest.fixture
def saved(tmp_path):
    model = fattail.DPMean(epsilon=4.0, delta=1e-5, method="truncated", random_state=0, moment_bound=1.0).fit(np.ones((50, 2)))
    return save_model(model, tmp_path / "m.json")


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c["fitted"].update(fit="x"),  # would replace a method
        lambda c: c["fitted"].update(__class__="x"),
        lambda c: c["parameters"].update(color="red"),
        lambda c: c.update(parameters=None),
        lambda c: c["privacy"].pop("releases"),
        lambda c: c["privacy"].update(epsilon={}),
        lambda c: c["privacy"].update(epsilon=10**400),
        lambda c: c["privacy"]["releases"][0].update(sensitivity=None),
        lambda c: c["fitted"].update(mean_={"array": [1.0]}),
        lambda c: c["fitted"].update(mean_={"number": []}),
        lambda c: c["privacy"]["events"][0].update(kind="nothing"),
    ],
)
def test_a_damaged_model_is_one_error(saved, damage):
    content = json.loads(saved.read_text())
    damage(content)
    saved.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="is damaged"):
        load_model(saved)


def test_json_too_deep_is_no_model(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000)
    with pytest.raises(ValueError, match="not a fattail model"):
        load_model(path)


@pytest.mark.parametrize(
    "change",
    [
        {"events": [{"kind": "gaussian", "noise_multiplier": 5.0, "count": -1}]},
        {"events": [{"kind": "gaussian", "noise_multiplier": "x"}]},
        {"events": [{"kind": "pure", "epsilon": 0.1, "color": 1}]},
        {"events": {}},
        {"events": None},
        {"claim": [1.0]},
        {"claim": [-1.0, 0.0]},
        {"account": "nobody"},
        {"columns": 3},
        {"at": "soon"},
        {"type": "refund"},
    ],
)
def test_an_entry_that_means_nothing_is_an_error_and_never_a_smaller_balance(tmp_path, change):
    """Even if its seal is sound, as that of somebody who wrote the chain anew."""
    ledger = Ledger(tmp_path / "l.db")
    account = ledger.open("a", epsilon=1.0, delta=1e-5)
    account.charge([Pure(0.1)])
    with ledger._chain.reading() as pages:
        bodies = [*pages.bodies[:-1], pages.bodies[-1] | change]
    forged = Pages()
    for body in bodies:
        forged.append(body)
    with sqlite3.connect(ledger.path) as db:
        db.execute("DELETE FROM entry")
        ledger._chain.store(db, forged, 0)
    db.close()
    assert not ledger.verify()
    with pytest.raises(ValueError, match="damaged"):
        _ = account.spent
    with pytest.raises(ValueError, match="damaged"):
        fattail.DPMean(epsilon=0.1, delta=1e-6, method="truncated", moment_bound=1.0, ledger=account).fit(np.ones((50, 1)))


def test_text_that_is_no_text_is_a_damaged_ledger(tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    account = ledger.open("a", epsilon=1.0, delta=1e-5)
    with sqlite3.connect(ledger.path) as db:
        db.execute("UPDATE entry SET body = CAST(x'7B80227D' AS TEXT)")
    db.close()
    with pytest.raises(ValueError, match="not a fattail ledger"):
        _ = account.spent


def test_a_ledger_with_other_columns_is_refused(tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    ledger.open("a", epsilon=1.0, delta=1e-5)
    with sqlite3.connect(ledger.path) as db:
        db.execute("ALTER TABLE entry RENAME COLUMN body TO other")
    db.close()
    with pytest.raises(ValueError, match="not a fattail ledger"):
        ledger.accounts()


def test_a_damaged_page_of_a_parquet_file_is_one_error(tmp_path):
    data = bytearray(harnesses.seeds()["parquet"][0])
    refused = 0
    for at in range(4, len(data) // 2):
        broken = bytearray(data)
        broken[at] ^= 0xFF
        path = tmp_path / "t.parquet"
        path.write_bytes(broken)
        try:
            files.read(path, ("cost", "age"), missing="zero")
        except files.FileError:
            refused += 1
    assert refused
