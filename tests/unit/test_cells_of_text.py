"""What a cell of a text file means, and what messages say about columns of another form."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fattail
from fattail.cli import files, main
from fattail.rows.door import Refusal
from fattail.rows.named import NamedColumns
from fattail.rows.records import level_parser

WORDS = ["True", "False", "TRUE", "FALSE", "true", "false", " True ", "tRUE", "yes", "T", "1", "nan", ""]
VALUES = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, np.nan, np.nan, np.nan, 1.0, np.nan, np.nan]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def money(tmp_path: Path) -> Path:
    path = tmp_path / "money.csv"
    rng = np.random.default_rng(0)
    rows = (f'"${v:,.2f}",{v > 2000},{k % 2}' for k, v in enumerate(rng.lognormal(7, 1, 3000)))
    path.write_text("cost,high,arm\n" + "\n".join(rows) + "\n")
    return path


def test_words_for_truth_are_numbers_cell_by_cell(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("flag,x\n" + "".join(f"{word},1\n" for word in WORDS))
    np.testing.assert_array_equal(NamedColumns(path, ["flag"]).numbers("flag"), VALUES)
    np.testing.assert_array_equal(files.read(path, ["flag", "x"], missing="zero")[:, 0], np.nan_to_num(VALUES))
    for k, word in enumerate(WORDS):  # no cell changes how others are read
        path.write_text("".join(f"{cell}\n" for cell in ["flag", "0.5", word, "True", "2"]))
        np.testing.assert_array_equal(NamedColumns(path, ["flag"]).numbers("flag"), [0.5, VALUES[k], 1.0, 2.0])


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_boolean_column_is_the_same_in_a_frame_and_in_its_file(tmp_path: Path, library) -> None:
    frame = library.DataFrame({"flag": np.random.default_rng(0).random(2000) < 0.3})
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False) if library is pd else frame.write_csv(path)
    answers = [fattail.mean(data, "flag", random_state=0) for data in (frame, path)]
    assert answers[0].value == answers[1].value and answers[0].interval == answers[1].interval


def test_true_is_the_level_one(tmp_path: Path) -> None:
    parse = level_parser(["0", "1"])
    assert [parse(word) for word in (b"False", b"true", b"1.0")] == [0, 1, 1]
    assert [level_parser(["True", "1"])(word) for word in (b"True", b"1", b"true")] == [0, 1, 1]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_classifier_takes_a_boolean_target(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    frame = pd.DataFrame({"x": x, "y": x + rng.logistic(size=3000) > 0})
    path = tmp_path / f"t.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    code, _, err = run(capsys, "fit", path, "-m", "logistic", "-t", "y")
    assert code == 0, err


COMMANDS = ["mean", "total", "mean --by arm", "mean --relation add-remove", "difference --by arm --groups 0,1"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_column_of_money_is_told_what_a_number_is(money: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    name, *options = command.split()
    code, _, err = run(capsys, name, money, "-c", "cost", *options)
    assert code == 2
    assert "currency" in err and "1200" in err and "1," not in err.replace("1200, -0.5", "")
    assert "if most of its cells are numbers" in err and "--missing drop" in err


@pytest.mark.parametrize("missing", ["drop", "zero"])
def test_an_empty_answer_says_what_a_number_is(money: Path, capsys: pytest.CaptureFixture[str], missing: str) -> None:
    code, _, err = run(capsys, "mean", money, "-c", "cost", "--missing", missing)
    assert code == 0 and "currency" in err


def test_a_text_column_of_parquet_is_refused_by_its_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"cost": ["$1.00"] * 3000, "x": 1.0}).to_parquet(path)
    for missing in ("error", "zero", "drop"):
        code, _, err = run(capsys, "mean", path, "-c", "cost", "--missing", missing)
        assert code == 2 and "cost" in err and "--missing" not in err


@pytest.mark.parametrize(("mark", "said"), [(";", "';'"), ("\t", r"'\t'"), ("|", "'|'")])
@pytest.mark.parametrize("command", ["mean -c cost", "total -c cost", "count --by cost", "fit -m linear -t cost"])
def test_a_header_of_one_name_hints_at_the_delimiter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mark: str, said: str, command: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(mark.join(["id", "cost"]) + "\n" + f"1{mark}2\n" * 3000)
    name, *options = command.split()
    code, _, err = run(capsys, name, path, *options)
    assert code == 2 and f"--delimiter {said}" in err
    with pytest.raises(Refusal, match="delimiter="):
        NamedColumns(path, ["cost"])
    code, _, err = run(capsys, name, path, *options, "--delimiter", said.strip("'"), "--anyway")
    assert code == 0, err


def test_other_headers_get_no_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b,c\n1,2\n")
    for command in ("mean", "total"):
        code, _, err = run(capsys, command, path, "-c", "cost")
        assert code == 2 and "delimiter" not in err


@pytest.mark.parametrize("command", ["mean -c 1", "total -c 1", "count", "difference -c 1 --by 2 --groups 0,1"])
def test_svmlight_files_are_for_models_only(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    path = tmp_path / "t.svm"
    path.write_text("1 1:0.5 2:3\n")
    name, *options = command.split()
    code, _, err = run(capsys, name, path, *options)
    assert code == 2 and "CSV" in err and "has no column" not in err
    code, out, _ = run(capsys, name, "--help")
    assert code == 0 and "svmlight" not in out


@pytest.mark.parametrize("ending", ["json", "xlsx", "feather"])
@pytest.mark.parametrize("command", ["mean -c cost", "total -c cost", "fit -m linear -t cost"])
def test_other_formats_are_not_read_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str, command: str
) -> None:
    path = tmp_path / f"t.{ending}"
    path.write_text('{"cost": {"0": 1}}\n')
    name, *options = command.split()
    code, _, err = run(capsys, name, path, *options)
    assert code == 2 and "CSV" in err and "has no column" not in err
