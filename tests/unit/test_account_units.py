"""An account protects one unit: charges for rows, patients and doctors do not add up."""

import json
import sqlite3

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fattail
from fattail import Ledger
from fattail.privacy.chain import Pages
from fattail.privacy.charges import Subject
from fattail.results.model_files import load_model, save_model

RNG = np.random.default_rng(0)
TABLE = {
    "cost": RNG.lognormal(3, 1, 4000),
    "age": RNG.uniform(20, 80, 4000),
    "patient": RNG.integers(0, 1500, 4000),
    "doctor": RNG.integers(0, 900, 4000),
    "ward": RNG.choice(["a", "b"], 4000),
}
FRAME = pd.DataFrame(TABLE)


def account(tmp_path, name="a"):
    return Ledger(tmp_path / "budget.db").open(name, epsilon=50.0, delta=1e-4)


def ask(ledger, person, data=FRAME, **options):
    return fattail.mean(data, "cost", person=person, ledger=ledger, epsilon=0.5, delta=1e-7, random_state=0, **options)


def fit(ledger, person, data=FRAME):
    model = fattail.DPLinearRegression(epsilon=0.5, delta=1e-7, ledger=ledger, random_state=0)
    return model.fit(data[["age", "cost", "patient", "doctor"]] if person else data[["age", "cost"]], "cost", person=person)


def test_patients_and_doctors_do_not_add_up(tmp_path):
    ledger = account(tmp_path)
    ask(ledger, "patient")
    ask(ledger, "patient", by="ward", groups=["a", "b"])
    fit(ledger, "patient")
    before = len(ledger.history)
    for other in ("doctor", FRAME["doctor"], pl.Series("doctor", TABLE["doctor"]), None):
        with pytest.raises(ValueError, match=r"protects each person of column 'patient'.*needs an account of its own"):
            ask(ledger, other)
    with pytest.raises(ValueError, match="'doctor'"):
        fit(ledger, "doctor")
    assert len(ledger.history) == before
    assert {charge.subject.person for charge in ledger.history} == {"patient"} and ledger.ledger.verify()


@pytest.mark.parametrize(
    "same",
    ["patient", FRAME["patient"], pl.Series("patient", TABLE["patient"]), FRAME[["patient"]]],
    ids=lambda x: type(x).__name__,
)
def test_a_column_is_recognized_by_its_name(tmp_path, same):
    ledger = account(tmp_path)
    ask(ledger, "patient")
    ask(ledger, same)
    assert [charge.subject.person for charge in ledger.history] == ["patient"] * 2


def test_ids_without_a_name_are_a_unit_of_their_own(tmp_path):
    ledger = account(tmp_path)
    ask(ledger, TABLE["patient"])
    ask(ledger, TABLE["patient"].tolist())
    with pytest.raises(ValueError, match="ids without a column name"):
        ask(ledger, "patient")
    other = account(tmp_path, "b")
    ask(other, "patient")
    with pytest.raises(ValueError, match=r"or name the ids: person='patient'"):
        ask(other, TABLE["patient"])


def test_names_that_look_the_same_are_the_same():
    assert Subject.of([], person="caf\u00e9 ").agrees(Subject.of([], person="cafe\u0301"))
    assert not Subject.of([], person="patient").agrees(Subject.of([], person="doctor"))
    assert not Subject.of([], person="").agrees(Subject.of([]))


def without_names(path):
    """The ledger as an earlier version would have written it."""
    with sqlite3.connect(path) as db:
        bodies = [json.loads(text) for (text,) in db.execute("SELECT body FROM entry ORDER BY seq")]
        pages = Pages()
        for body in bodies:
            body.pop("person", None)
            pages.append(body)
        for number, (text, head) in enumerate(zip(pages.texts, pages.heads, strict=True)):
            db.execute("UPDATE entry SET body = ?, hash = ? WHERE seq = ?", (text, head, number))
    return pages


def test_a_ledger_of_an_earlier_version_still_works(tmp_path, monkeypatch):
    ledger = account(tmp_path)
    ask(ledger, "patient")
    without_names(ledger.ledger.path)
    monkeypatch.setattr("fattail.privacy.chain.Witness.check", lambda *_: None)
    assert ledger.history[0].subject.person is None and ledger.history[0].subject.unit == "person"
    assert ledger.ledger.verify()
    ask(ledger, "patient")
    with pytest.raises(ValueError, match="'patient'"):
        ask(ledger, "doctor")
    with pytest.raises(ValueError, match="protects each person"):
        ask(ledger, None)
    assert ledger.ledger.verify()


def test_reports_and_pages_name_the_unit(tmp_path):
    answer, model = ask(None, "patient"), fit(None, "patient")
    for report in (answer.privacy, model.privacy_):
        assert (report.unit, report.person, report.relation) == ("person", "patient", "replace-one")
        assert "replace-one person of column 'patient'" in str(report) and "patient" in report._repr_html_()
        assert report.to_dict()["person"] == "patient"
    assert "person of column 'patient'" in repr(answer)
    assert fattail.count(TABLE, person="patient").privacy.person == "patient"
    assert fattail.mean(TABLE, "cost", random_state=0).privacy.person is None
    path = tmp_path / "model.json"
    save_model(model, path)
    assert load_model(path).privacy_.person == "patient"
