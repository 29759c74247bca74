"""The command line: right answers, one clear line for every mistake, never a cell in a message."""

from __future__ import annotations

import gzip
import inspect
import json
import shlex
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fattail
from fattail.cli import files, main, statistics

SECRET = "48151623"


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    rng = np.random.default_rng(7)
    path = tmp_path / "claims.csv"
    age, region = rng.uniform(20, 80, 4000), rng.choice(["north", "south"], 4000)
    cost = 50 * age + 400 * (region == "south") + 500 * rng.standard_t(2.5, 4000)
    rows = [
        f"{a:.3f},{r},{c:.2f},{int(c > 2500)},{'yes' if c > 2500 else 'no'}" for a, r, c in zip(age, region, cost, strict=True)
    ]
    path.write_text("\n".join(["age,region,cost,large,flag", *rows]) + "\n")
    return path


def run(capsys: Any, command: str, code: int = 0) -> tuple[str, str]:
    result = main(shlex.split(command))
    captured = capsys.readouterr()
    assert result == code, captured.err
    return captured.out, captured.err


def fails(capsys: Any, command: str, *words: str, code: int = 2) -> None:
    """One line on standard error that says what is wrong, and nothing private."""
    out, err = run(capsys, command, code)
    assert err.startswith("fattail: ") and err.count("\n") == 1 and not out
    assert "Traceback" not in err and SECRET not in err
    for word in words:
        assert word in err


# -- files --------------------------------------------------------------------------------------


def test_csv_gzip_and_parquet_agree(tmp_path: Path, claims: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    plain = files.read(claims, ["cost", "age"])
    zipped = tmp_path / "claims.csv.gz"
    zipped.write_bytes(gzip.compress(claims.read_bytes()))
    parquet = tmp_path / "claims.parquet"
    pq.write_table(pa.table({"age": plain[:, 1], "cost": plain[:, 0], "name": ["x"] * len(plain)}), parquet)
    assert plain.shape == (4000, 2)
    assert np.array_equal(files.read(zipped, ["cost", "age"]), plain)
    assert np.array_equal(files.read(parquet, ["cost", "age"]), plain)


def test_a_bad_cell_is_missing_whatever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"x,y\n1,2\n" + SECRET.encode() + b"x,3\nnan,4\ninf,5\n,6\n7\n\xff\xfe,8\n")
    with pytest.raises(files.FileError, match="'x', 'y'") as caught:
        files.read(path, ["x", "y"])
    assert SECRET not in str(caught.value)
    table = files.read(path, ["x", "y"], missing="zero")
    assert table.tolist() == [[1, 2], [0, 3], [0, 4], [0, 5], [0, 6], [7, 0], [0, 8]]


def test_levels_are_declared_not_found(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("r\nsouth\nnorth\n 2 \nwest\n2.0\n")
    table = files.read(path, ["r"], levels={"r": ["north", "south", "2"]}, missing="zero")
    assert table.ravel().tolist() == [1, 0, 2, 0, 2]


def test_memory_is_bounded_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\n" + "1\n" * 100_000)
    with pytest.raises(files.FileError, match="needs more than"):
        files.read(path, ["x"], memory=1000.0)


def test_svmlight_needs_a_dimension(tmp_path: Path) -> None:
    path = tmp_path / "t.svm"
    path.write_text("1 1:0.5 3:2\n0 2:1\n")
    X, y = files.read_sparse(path, 5)
    assert X.shape == (2, 5) and X[0, 2] == 2 and y.tolist() == [1, 0]
    with pytest.raises(files.FileError, match="columns 1 to 2"):
        files.read_sparse(path, 2)


# -- mistakes -----------------------------------------------------------------------------------


def test_every_mistake_is_one_line(capsys: Any, tmp_path: Path, claims: Path) -> None:
    rows_only, binary, damaged = tmp_path / "rows.csv", tmp_path / "b.csv", tmp_path / "d.csv.gz"
    rows_only.write_text(f"{SECRET},2\n3,4\n")
    binary.write_bytes(bytes(range(256)) * 40)
    damaged.write_bytes(gzip.compress(claims.read_bytes())[:500])
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a,b\n")
    (tmp_path / "fake.parquet").write_text(SECRET)
    (tmp_path / "text.csv").write_text(f"a,b\n{SECRET}z,1\n")
    fails(capsys, f"mean {tmp_path}/nothing.csv -c x", "no such file")
    fails(capsys, f"mean {tmp_path} -c x", "folder")
    fails(capsys, f"mean {claims} -c cots", "no column 'cots'", "did you mean 'cost'?")
    fails(capsys, f"mean {claims} -c ,", "at least one column")
    fails(capsys, f"mean {claims} -c region", "'region'", "--missing zero")
    fails(capsys, f"mean {rows_only} -c {tmp_path.name}", "must hold column names")
    fails(capsys, f"mean {binary} -c x")
    fails(capsys, f"mean {damaged} -c cost", "cannot read")
    fails(capsys, f"mean {tmp_path}/empty.csv -c x", "is empty")
    fails(capsys, f"mean {tmp_path}/header.csv -c a", "no rows")
    fails(capsys, f"mean {tmp_path}/fake.parquet -c a", "not what its name says")
    fails(capsys, f"mean {tmp_path}/text.csv -c a", "finite number")
    fails(capsys, f"mean {claims} -c cost --method trimmed --memory 1e-7", "needs more than")
    fails(capsys, f"mean {claims} -c cost -e 0", "epsilon")
    fails(capsys, f"mean {claims} -c cost -e two", "epsilon")
    fails(capsys, f"mean {claims} -c cost --method nonsense", "method must be one of")
    fails(capsys, f"mean {claims} -c cost --missing forget", "error, zero")
    fails(capsys, f"mean {claims} -c cost,age --by region", "one column at a time")
    fails(capsys, f"mean {claims} -c cost --by region --method trimmed", "default method")
    fails(capsys, f"mean {claims} -c cost --by region --groups ,", "at least one group")
    fails(capsys, f"total {claims} -c cots --by region", "no columns ['cots']")
    fails(capsys, f"total {claims} -c region", "no numbers", "--missing drop")
    fails(capsys, f"count {claims} --relation sideways", "replace-one, add-remove")
    fails(capsys, f"difference {claims} -c cost --by region --groups north", "two groups")
    fails(capsys, f"mean {claims} -c cost --by age --epsilon 0.01 --groups 20,30", "few at epsilon", "Nothing was charged")
    fails(capsys, f"mean {claims} -c cost --ledger {tmp_path}/none.db", "no ledger")
    fails(capsys, f"fit {claims} -m forest -t cost", "--model must be one of")
    fails(capsys, f"fit {claims} -m linear", "needs --target")
    fails(capsys, f"fit {claims} -m linear -t cost --features cost", "both target and feature")
    fails(capsys, f"fit {claims} -m linear -t cost --features age --set speed=9", "speed")
    fails(capsys, f"fit {claims} -m linear -t cost --category region", "--category must look like")
    fails(capsys, f"predict {claims} {claims}", "not a fattail model")
    fails(capsys, "nonsense", "nonsense")


def test_an_unexpected_error_shows_no_message(capsys: Any, monkeypatch: Any, claims: Path) -> None:
    # A ValueError of another module's own, which could quote a cell.
    monkeypatch.setattr(files, "open_table", lambda *a, **k: json.loads(f"[{SECRET}q"))
    fails(capsys, f"mean {claims} -c cost", "unexpected", code=1)


# -- answers ------------------------------------------------------------------------------------


def test_mean_with_ledger_and_card(capsys: Any, tmp_path: Path, claims: Path) -> None:
    ledger, card = tmp_path / "budget.db", tmp_path / "card.html"
    run(capsys, f"ledger open {ledger} claims -e 2 --delta 1e-5")
    command = f"mean {claims} -c cost,age -e 1.5 --ledger {ledger} --json"
    out, _ = run(capsys, f"{command} --card {card}")
    answer = json.loads(out)
    for result, truth, slack in zip(answer["results"], (2700, 50), (300, 5), strict=True):
        assert abs(result["value"] - truth) < slack
        assert result["low"] < result["value"] < result["high"]
    assert answer["privacy"]["epsilon"] == 1.5 and not answer["privacy"]["seeded"]
    assert 0 < answer["account"]["remaining"] < 0.6
    assert card.exists() and json.loads(card.with_suffix(".json").read_text())["results"] == answer["results"]
    fails(capsys, command, "nothing was released", code=3)
    state = json.loads(run(capsys, f"ledger show {ledger} --json")[0])
    assert state["accounts"][0]["charges"] == 1
    charges = json.loads(run(capsys, f"ledger history {ledger} --account claims --json")[0])["charges"]
    assert len(charges) == 1 and "DPMean" in charges[0]["label"]


def test_statistics_by_group(capsys: Any, tmp_path: Path, claims: Path) -> None:
    ledger, card = tmp_path / "budget.db", tmp_path / "card.html"
    run(capsys, f"ledger open {ledger} claims -e 1 --delta 1e-6")
    by = "--by region --groups south,north --json"
    answer = json.loads(run(capsys, f"mean {claims} -c cost {by} --ledger {ledger} --card {card}")[0])
    assert [r["name"] for r in answer["results"]] == ["south", "north"]  # two groups fit into a budget of one
    assert [r["low"] < r["value"] < r["high"] for r in answer["results"]] == [True, True]
    assert "<html" in card.read_text() and json.loads(card.with_suffix(".json").read_text())["results"] == answer["results"]
    fails(capsys, f"count {claims} {by} --ledger {ledger}", "nothing was released", code=3)
    found = json.loads(run(capsys, f"count {claims} --by region --json")[0])["results"]
    assert [r["name"] for r in found] == ["north", "south"] and abs(sum(r["value"] for r in found) - 4000) < 60
    answer = json.loads(run(capsys, f"difference {claims} -c cost {by} -e 4")[0])
    assert answer["facts"]["p-value"] < 0.05 and answer["results"][0]["name"] == "south minus north"
    assert "p-value" in run(capsys, f"difference {claims} -c cost --by region --groups south,north")[0]
    options = "--person age --relation add-remove --missing drop --json --seed 0"
    answer = json.loads(run(capsys, f"total {claims} -c cost {options}")[0])
    assert (answer["privacy"]["unit"], answer["privacy"]["relation"]) == ("person", "add-remove")
    assert "Add any one person" in fattail_card_claim(tmp_path, capsys, claims)


def test_a_file_without_rows_is_like_any_other_where_their_number_is_private(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("x,y\n")
    (tmp_path / "none.svm").write_text("")
    for options in (f"{tmp_path}/none.csv -t y", f"{tmp_path}/none.svm --dimension 2"):
        fails(capsys, f"fit {options} -m linear", "no rows")
        run(capsys, f"fit {options} -m linear --relation add-remove --anyway --json")


def fattail_card_claim(tmp_path: Path, capsys: Any, claims: Path) -> str:
    options = f"--person age --relation add-remove --card {tmp_path}/other.html --json"
    return str(json.loads(run(capsys, f"count {claims} {options}")[0])["claim"])


def test_ledger_verify_and_adopt(capsys: Any, tmp_path: Path, claims: Path) -> None:
    ledger, copy = tmp_path / "budget.db", tmp_path / "copy.db"
    run(capsys, f"ledger open {ledger} claims -e 2 --delta 1e-5 --kind gaussian")
    run(capsys, f"mean {claims} -c cost -e 1 --ledger {ledger} --json")
    assert "each as it was written" in run(capsys, f"ledger verify {ledger}")[0]
    found = json.loads(run(capsys, f"ledger verify {ledger} --json")[0])
    assert found["ok"] and found["entries"] == 3 and found["accounts"][0]["charges"] == 1
    (charge,) = json.loads(run(capsys, f"ledger history {ledger} --json")[0])["charges"]
    assert charge["user"] and charge["data"] and charge["unit"] == "row" and charge["relation"] == "replace-one"
    assert charge["claim"][0] == 1.0

    shutil.copy(ledger, copy)
    assert "is a copy" in run(capsys, f"ledger verify {copy}", code=1)[0]
    run(capsys, f"ledger adopt {copy}")
    run(capsys, f"ledger verify {copy}")

    with sqlite3.connect(ledger) as db:
        db.execute("UPDATE entry SET body = replace(body, '2.0', '9.0') WHERE seq = 1")
    db.close()
    assert "damaged" in json.loads(run(capsys, f"ledger verify {ledger} --json", code=1)[0])["problems"][0]
    fails(capsys, f"mean {claims} -c cost -e 0.1 --ledger {ledger}", "damaged")


def test_fit_and_predict(capsys: Any, tmp_path: Path, claims: Path) -> None:
    model = tmp_path / "model.json"
    command = f"fit {claims} -m linear -t cost --features age,region --category region=north|south -e 4 --out {model} --json"
    answer = json.loads(run(capsys, command.replace("north|south", "'north|south'"))[0])
    coefficients = {r["name"]: r["value"] for r in answer["results"]}
    assert abs(coefficients["age"] - 50) < 10 and abs(coefficients["region=south"] - 400) < 200
    assert (tmp_path / "model-card.html").exists() and (tmp_path / "model-card.json").exists()
    predictions = tmp_path / "predictions.csv"
    run(capsys, f"predict {model} {claims} --out {predictions}")
    lines = predictions.read_text().split()
    assert lines[0] == "cost" and len(lines) == 4001
    truth = files.read(claims, ["cost"])[:, 0]
    assert np.median(np.abs(np.array(lines[1:], dtype=float) - truth)) < 600


def test_classifier_with_text_labels(capsys: Any, tmp_path: Path, claims: Path) -> None:
    model = tmp_path / "model.json"
    run(capsys, f"fit {claims} -m logistic -t flag --features age --classes no,yes -e 4 --out {model}")
    out, _ = run(capsys, f"predict {model} {claims} --json")
    predictions = json.loads(out)["predictions"]
    assert set(predictions) <= {"no", "yes"}
    large = files.read(claims, ["large"])[:, 0] == 1
    assert np.mean((np.array(predictions) == "yes") == large) > 0.7


def test_sparse_from_svmlight(capsys: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3000, 30)) * (rng.random((3000, 30)) < 0.3)
    y = 3 * X[:, 4] - 3 * X[:, 11] + 0.5 * rng.standard_t(2.5, 3000)
    path, model = tmp_path / "rows.svm", tmp_path / "model.json"
    path.write_text(
        "".join(f"{t} {' '.join(f'{j + 1}:{row[j]}' for j in np.flatnonzero(row))}\n" for row, t in zip(X, y, strict=True))
    )
    fails(capsys, f"fit {path} -m sparse --sparsity 2", "--dimension")
    out, _ = run(capsys, f"fit {path} -m sparse --sparsity 2 --dimension 30 -e 4 --out {model} --json")
    names = {r["name"] for r in json.loads(out)["results"]} - {"intercept"}
    assert names == {"5", "12"}
    predictions = json.loads(run(capsys, f"predict {model} {path} --json")[0])["predictions"]
    assert np.corrcoef(predictions, y)[0, 1] > 0.8


# -- looking around -----------------------------------------------------------------------------


def test_methods_and_audit(capsys: Any) -> None:
    listed = json.loads(run(capsys, "methods --estimator DPMean --json")[0])["methods"]
    assert {m["name"] for m in listed} >= {"truncated", "smoothed", "median_of_means"}
    result = json.loads(run(capsys, "audit truncated --estimator DPMean --trials 3 --json")[0])
    assert result["passed"] and 0 < result["worst_ratio"]["DPMean"] <= 1
    fails(capsys, "audit nonsense", "no method 'nonsense'")
    fails(capsys, "methods --estimator DPNothing", "no estimator")


def test_audit_fails_where_a_proof_is_wrong(capsys: Any, monkeypatch: Any) -> None:
    import fattail

    monkeypatch.setattr(fattail.audit, "fuzz", lambda *a, **k: 1.5)
    run(capsys, "audit truncated --estimator DPMean --json", code=1)


def test_mixture(capsys: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path, model = tmp_path / "x.csv", tmp_path / "model.json"
    rows = rng.normal(size=(20000, 2)) + 10.0 * rng.integers(0, 2, 20000)[:, None]
    path.write_text("a,b\n" + "\n".join(f"{a:.4f},{b:.4f}" for a, b in rows) + "\n")
    answer = json.loads(run(capsys, f"fit {path} -m mixture -e 4 --out {model} --json")[0])
    centers = sorted(r["value"] for r in answer["results"])
    assert np.allclose(centers, [0, 0, 10, 10], atol=1.5)
    groups = np.array(json.loads(run(capsys, f"predict {model} {path} --json")[0])["predictions"])
    assert abs(np.mean(groups == groups[0]) - 0.5) < 0.1


def test_doctor(capsys: Any, monkeypatch: Any) -> None:
    assert json.loads(run(capsys, "doctor --json")[0])["healthy"]
    from fattail.privacy.noise import SecureNoise

    good = SecureNoise.gaussian
    monkeypatch.setattr(SecureNoise, "gaussian", lambda self, value, scale: good(self, value, 0.8 * scale))
    run(capsys, "doctor", code=1)


def test_options_that_would_be_ignored_are_refused(capsys: Any, claims: Path) -> None:
    fails(capsys, f"mean {claims} -c cost --groups north", "--groups needs --by")
    fails(capsys, f"mean {claims} -c cost --weight rows", "--weight rows needs --person")
    fails(capsys, f"count {claims} --by region --groups north --weight rows", "--weight rows needs --person")
    fails(capsys, f"mean {claims} -c cost --missing omit", "error, zero, drop")


def test_messages_speak_of_options(capsys: Any, claims: Path) -> None:
    fails(capsys, f"mean {claims} -c flag --by region --groups north", "column 'flag'", "--missing drop", "--missing zero")
    fails(capsys, f"mean {claims} -c cost --by region --delta 0", "with --groups instead")


def test_text_is_declared_where_that_is_possible(capsys: Any, claims: Path) -> None:
    assert "--category" not in run(capsys, f"mean {claims} -c region", 2)[1]
    fails(capsys, f"fit {claims} -m logistic -t region --features age", "--classes", "--category")


def test_an_account_that_is_not_there_is_named(capsys: Any, claims: Path, tmp_path: Path) -> None:
    run(capsys, f"ledger open {tmp_path}/b.db a --epsilon 3")
    fails(capsys, f"mean {claims} -c cost --ledger {tmp_path}/b.db --account other", "no account 'other'", "'a'")


def test_the_version_is_printed(capsys: Any) -> None:
    assert run(capsys, "--version")[0] == f"fattail {fattail.__version__}\n"


def test_a_model_has_the_confidence_that_is_asked_for(capsys: Any, claims: Path) -> None:
    for option in ("--confidence .9", "--set confidence=.9"):
        assert "90 % interval" in run(capsys, f"fit {claims} -m linear -t cost --features age --anyway {option}")[0]


def test_a_refused_relation_is_not_said_to_be_charged(capsys: Any, claims: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "budget.db"
    run(capsys, f"ledger open {ledger} a --epsilon 3 --delta 1e-5")
    run(capsys, f"mean {claims} -c cost --ledger {ledger}")
    _, err = run(capsys, f"mean {claims} -c cost --ledger {ledger} --relation add-remove", 2)
    assert "needs an account of its own" in err and "before this command" not in err


@pytest.mark.parametrize("command", ["mean", "total"])
def test_a_column_has_one_spelling_in_all_commands(capsys: Any, claims: Path, command: str) -> None:
    answers = [run(capsys, f"{command} {claims} {option} cost --seed 1")[0] for option in ("-c", "--column", "--columns")]
    assert answers[0] and len(set(answers)) == 1


# -- persons ------------------------------------------------------------------------------------


def test_a_model_of_persons_with_several_rows(capsys: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    who = rng.integers(0, 1500, 5000)
    age = rng.uniform(20, 80, 1500)[who]
    cost = 50 * age + 300 * rng.standard_t(3, 5000)
    path = tmp_path / "visits.csv"
    rows = [f"p{w},{a:.3f},{c:.2f}" for w, a, c in zip(who, age, cost, strict=True)]
    path.write_text("\n".join(["patient,age,cost", *rows]) + "\n")
    command = f"fit {path} --model huber --target cost --epsilon 4 --json"
    card = json.loads(run(capsys, f"{command} --person patient")[0])
    assert card["privacy"]["unit"] == "person" and "rows" not in card["facts"]
    ledger = tmp_path / "budget.db"
    run(capsys, f"ledger open {ledger} visits --epsilon 9 --delta 1e-5")
    run(capsys, f"mean {path} -c cost --person patient --ledger {ledger}")
    assert "person" in run(capsys, f"ledger history {ledger}")[0]
    (charge,) = json.loads(run(capsys, f"ledger history {ledger} --json")[0])["charges"]
    assert (charge["unit"], charge["relation"]) == ("person", "replace-one")
    assert [r["name"] for r in card["results"]] == ["age", "intercept"]
    assert 40 < card["results"][0]["value"] < 60
    card = json.loads(run(capsys, f"{command} --features age --relation add-remove")[0])
    assert card["privacy"]["relation"] == "add-remove" and "rows" not in card["facts"]
    fails(capsys, f"{command} --person age --features age", "cannot be target or feature")
    fails(capsys, f"{command} --person nobody", "nobody")
    fails(capsys, f"{command} --relation sometimes --features age", "--relation must be one of")


# -- missing cells ------------------------------------------------------------------------------


def test_a_model_of_the_rows_without_missing_cells(capsys: Any, tmp_path: Path, claims: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(claims).drop(columns="flag")
    rng = np.random.default_rng(5)
    for column, share in (("age", 0.1), ("region", 0.05), ("cost", 0.1), ("large", 0.05)):
        frame[column] = frame[column].where(rng.random(len(frame)) > share)
    holes = {kind: tmp_path / f"holes.{kind}" for kind in ("csv", "parquet")}
    frame.to_csv(holes["csv"], index=False)
    frame.to_parquet(holes["parquet"])
    dropped = {"epsilon": 4.0, "missing": "drop", "random_state": 0}
    level = (frame.region == "south").astype(float).where(frame.region.notna())
    X = np.column_stack([frame.age, level])
    line = fattail.DPLinearRegression(**dropped).fit(X, frame.cost.to_numpy())
    labels = fattail.DPLogisticRegression(**dropped).fit(X, frame.large.to_numpy())
    for path in holes.values():
        for model, target, fitted in (("linear", "cost", line), ("logistic", "large", labels)):
            options = "--features age,region --category 'region=north|south' -e 4 --missing drop --seed 0 --json"
            card = json.loads(run(capsys, f"fit {path} -m {model} -t {target} {options}")[0])
            found = [result["value"] for result in card["results"]]
            assert np.allclose(found[:2], np.ravel(fitted.coef_), rtol=1e-9)
    fails(capsys, f"fit {holes['csv']} -m linear -t cost --features age", "--missing zero", "--missing drop")
    sparse = tmp_path / "rows.svm"
    sparse.write_text("1 1:0.5\n")
    fails(capsys, f"fit {sparse} -m sparse --dimension 3 --missing drop --sparsity 1", "--missing drop is for CSV")


# -- the same words as in Python ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["count", "mean", "total", "difference"])
def test_options_have_the_names_and_defaults_of_the_python_functions(name: str) -> None:
    written = {"seed": "random_state", "columns": "column"}
    only_here = {"file", "account", "card", "delimiter", "quoted_newlines", "memory", "anyway", "json", "method"}
    command = inspect.signature(getattr(statistics, name)).parameters
    function = inspect.signature(getattr(fattail, name)).parameters
    options = {written.get(option, option): p.default for option, p in command.items() if option not in only_here}
    arguments = {
        argument: p.default
        for argument, p in function.items()
        if argument != "data" and p.kind is not inspect.Parameter.VAR_KEYWORD
    }
    if "column" in options:  # a command asks about a file, which has several
        arguments["column"] = inspect.Parameter.empty
    assert options == arguments
