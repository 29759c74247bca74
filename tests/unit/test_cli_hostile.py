"""The command line against hostile names, cells, files, options and moments."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fattail
from fattail.cli import files, main

ROWS = 4000


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    rng = np.random.default_rng(7)
    age = rng.uniform(20, 80, ROWS)
    cost = 50 * age + 500 * rng.standard_t(2.5, ROWS)
    path = tmp_path / "claims.csv"
    path.write_text("age,cost\n" + "".join(f"{a:.3f},{c:.2f}\n" for a, c in zip(age, cost, strict=True)))
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "budget.db"
    fattail.Ledger(path).open("claims", epsilon=6.0, delta=1e-5)
    return path


def spent(ledger: Path) -> float:
    (account,) = fattail.Ledger(ledger).accounts()
    return account.spent


def run(capsys: Any, *arguments: Any) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys: Any, ledger: Path, *arguments: Any, words: str = "") -> None:
    """Exit code 2, one line, no answer, nothing charged."""
    code, out, err = run(capsys, *arguments, "--ledger", ledger)
    assert code == 2, err
    assert not out and err.count("\n") == 1 and words in err
    assert spent(ledger) == 0


# -- the ledger cannot be passed by ----------------------------------------------------------------


@pytest.mark.parametrize(
    "option", ["ledger=null", "epsilon=50", "delta=0.1", "random_state=1", "method=clipped", "relation=x", "person=x", "unit=x"]
)
def test_set_reaches_no_budget_seed_ledger_or_unit(capsys: Any, claims: Path, ledger: Path, option: str) -> None:
    words = f"--set {option.partition('=')[0]}"
    refused(capsys, ledger, "fit", claims, "-m", "linear", "-t", "cost", "--set", option, words=words)


def test_every_parameter_of_an_estimator_is_tunable_or_reserved() -> None:
    from fattail import catalog
    from fattail.cli.requests import TUNABLE

    reserved = {
        "epsilon",
        "delta",
        "method",
        "random_state",
        "ledger",
        "classes",
        "missing",
        "relation",
        "person",
        "unit",
        "weight",
    }
    parameters = {p for name in catalog.names() for p in getattr(fattail, name)().get_params()}
    assert not TUNABLE & reserved
    assert parameters <= TUNABLE | reserved, "decide whether --set may reach it"


def test_the_card_shows_the_account_that_was_charged(capsys: Any, claims: Path, ledger: Path) -> None:
    command = ("fit", claims, "-m", "linear", "-t", "cost", "-e", 1, "--set", "alpha=0.1", "--json")
    _, out, _ = run(capsys, *command)
    assert json.loads(out)["account"] is None
    _, out, _ = run(capsys, *command, "--ledger", ledger)
    account = json.loads(out)["account"]
    assert account["spent"] == pytest.approx(spent(ledger)) and account["spent"] > 0.5


# -- names -----------------------------------------------------------------------------------------

NAMES = ["[/b]", "[/x]", "[red]", "\x1b[2J", "\u202ex", "=1+1", "<script>", "$x", ":smile:", '"', "a\tb", "\x00", "'"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_column_of_any_name_is_answered(capsys: Any, tmp_path: Path, ledger: Path, name: str) -> None:
    path, model = tmp_path / "t.parquet", tmp_path / "model.json"
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS)
    pq.write_table(pa.table({name: x, "y": 3 * x + rng.normal(size=ROWS)}), path)
    code, out, err = run(capsys, "mean", path, "-c", name, "--ledger", ledger, "-e", 1)
    assert code == 0 and "mean" in out, err
    assert not set(out + err) & set("\x1b\u202e\x00")
    if NAMES.index(name) > 5:
        return
    code, _, err = run(capsys, "fit", path, "-m", "linear", "-t", name, "-e", 3, "--ledger", ledger, "-o", model)
    assert code == 0 and not set(err) & set("\x1b\u202e\x00"), err
    page = (tmp_path / "model-card.html").read_text(encoding="utf-8")
    assert "<script>" not in page and not set(page) & set("\x1b\u202e\x00")
    code, out, _ = run(capsys, "predict", model, path)
    assert code == 0 and out[0] not in "=\t" and "\x1b" not in out and len(out.splitlines()) == ROWS + 1


def test_an_account_of_any_name_is_shown(capsys: Any, tmp_path: Path) -> None:
    book = fattail.Ledger(tmp_path / "b.db")
    for name in ("[/x]", "[/b]", ":smile:", "<script>"):
        book.open(name, epsilon=1.0, delta=1e-6)
    for command in ("show", "history"):
        code, out, err = run(capsys, "ledger", command, book.path)
        assert code == 0 and "\x1b" not in out, err
    assert "[/x]" in run(capsys, "ledger", "show", book.path)[1]


def test_escape_sequences_of_a_header_stay_in_the_file(capsys: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"cost\x1b[2J\x1b]0;x\x07,y\n" + b"1,2\n" * 500)
    for columns in ("cost", "cost\x1b[2J\x1b]0;x\x07", "\x1b[2Jy"):
        code, out, err = run(capsys, "mean", path, "-c", columns)
        assert "\x1b" not in out + err and "\x07" not in out + err
    code, _, err = run(capsys, "mean", tmp_path / "\x1b[2J.csv", "-c", "x")
    assert code == 2 and "\x1b" not in err


def test_predictions_hold_no_formulas(capsys: Any, tmp_path: Path, claims: Path) -> None:
    model = tmp_path / "m.json"
    target = '=HYPERLINK("http://example.org")'
    text = claims.read_text().replace("age,cost", "age," + '"' + target.replace('"', '""') + '"', 1)
    claims.write_text(text)
    assert run(capsys, "fit", claims, "-m", "linear", "-t", target, "--features", "age", "-e", 4, "-o", model)[0] == 0
    _, out, _ = run(capsys, "predict", model, claims)
    assert out.startswith('"\'=HYPERLINK(""http://example.org"")"')


@pytest.mark.slow
def test_an_ascii_terminal_shows_every_answer(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("coût\n" + "".join(f"{k % 97}\n" for k in range(3000)), encoding="utf-8")
    command = [sys.executable, "-m", "fattail", "mean", str(path), "-c", "coût"]
    done = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}, check=False)
    assert done.returncode == 0 and rb"co\xfbt" in done.stdout, done.stderr


# -- cells change themselves and nothing else ------------------------------------------------------

CELLS = {
    "empty": b"",
    "text": b"HIV-positive",
    "stray quote": b'5" pipe',
    "open quote": b'"5',
    "quote at the end": b'5"',
    "two quotes": b'""',
    "quoted": b'"5"',
    "quoted delimiter": b'"5,6"',
    "more cells": b"5,6,7,8",
    "long": b"9" * 140_000,
    "long quoted": b'"' + b"x" * 140_000 + b'"',
    "not text": b"\xff\xfe\x80",
    "nul": b"\x00",
    "carriage return": b"5\r6",
    "nan": b"nan",
    "infinity": b"-1e999",
    "escape": b"\x1b[2J",
    "separators": "5\u2028\x85\x1c6".encode(),
    "formula": b"=1+1",
}


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("columns", [1, 3])
def test_one_cell_changes_its_own_record_only(tmp_path: Path, kind: str, columns: int) -> None:
    path, names = tmp_path / "t.csv", [f"c{j}" for j in range(columns)]
    rows = [[b"%d" % (10 * k + j) for j in range(columns)] for k in range(1, 501)]
    rows[100][0] = CELLS[kind]
    path.write_bytes(",".join(names).encode() + b"\n" + b"".join(b",".join(row) + b"\n" for row in rows))
    table = files.read(path, names, missing="zero")
    expected = np.array([[10.0 * k + j for j in range(columns)] for k in range(1, 501)])
    others = np.arange(500) != 100
    assert table.shape == (500, columns) and np.array_equal(table[others], expected[others])


@pytest.mark.parametrize("kind", CELLS)
def test_no_cell_chooses_the_exit_code(capsys: Any, tmp_path: Path, kind: str) -> None:
    path, rng = tmp_path / "t.csv", np.random.default_rng(1)
    lines = [b"%.3f,%.3f" % tuple(row) for row in rng.normal(size=(1500, 2))]
    path.write_bytes(b"a,b\n" + b"\n".join([*lines, CELLS[kind] + b",1"]) + b"\n")
    code, out, err = run(capsys, "mean", path, "-c", "a", "--missing", "zero", "--json")
    assert code == 0 and json.loads(out)["facts"]["rows"] == 1501, err
    # The default is the holder's check, which names the column and never the cell.
    code, _, err = run(capsys, "mean", path, "-c", "a")
    assert code in (0, 2) and "pipe" not in err and "HIV" not in err


def test_blank_and_ragged_lines_are_records(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\r\n1,2\r\n\r\n3\r\n,\r\n4,5,6\r\n\r\n")
    assert files.read(path, ["a", "b"], missing="zero").tolist() == [[1, 2], [0, 0], [3, 0], [0, 0], [4, 5], [0, 0]]
    path.write_bytes(b"a,b\n1,2\n3,4")  # no end of the last line
    assert files.read(path, ["a", "b"]).tolist() == [[1, 2], [3, 4]]


def test_an_overlong_line_is_a_record_of_missing_cells(tmp_path: Path, monkeypatch: Any) -> None:
    from fattail.rows import records

    monkeypatch.setattr(records, "MOST_LINE", 1000)
    monkeypatch.setattr(records, "_BLOCK_BYTES", 64)
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,2\n3," + b"4" * 5000 + b"\n5,6\n")
    assert files.read(path, ["a", "b"], missing="zero").tolist() == [[1, 2], [0, 0], [5, 6]]


def test_quoted_cells(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('"a,1","b ""x"""\n"1","2"\n" 3 ",4\n')
    assert files.header(path) == ("a,1", 'b "x"')
    assert files.read(path, ["a,1", 'b "x"']).tolist() == [[1, 2], [3, 4]]


def test_quoted_newlines_are_a_promise(capsys: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('note,x\n"two\nlines",1\nplain,2\n')
    assert files.read(path, ["x"], missing="zero").tolist() == [[0], [1], [2]]
    assert files.read(path, ["x"], quoted_newlines=True).tolist() == [[1], [2]]
    path.write_text('note,x\n"' + "1,2\n" * 5_000_000)
    with pytest.raises(files.FileError, match="never ends"):
        files.read(path, ["x"], quoted_newlines=True, missing="zero")


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n", "é"])
def test_a_delimiter_is_one_character(capsys: Any, claims: Path, ledger: Path, delimiter: str) -> None:
    refused(capsys, ledger, "mean", claims, "-c", "cost", "--delimiter", delimiter, words="delimiter")


@pytest.mark.parametrize(
    "line", [b"", b"x 1:2", b"1 0:5", b"1 9:5", b"1 x:5", b"1 1:x", b"1 1:1e999", b"1 1:2 1:3", b"# 1", b"\xff"]
)
def test_every_line_of_an_svmlight_file_is_a_row(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "t.svm"
    path.write_bytes(b"1 1:0.5 3:2\n" * 50 + line + b"\n" + b"0 2:1 qid:7 # remark\n" * 50)
    X, y = files.read_sparse(path, 5, missing="zero")
    assert X.shape == (101, 5) and np.isfinite(y).all() and np.isfinite(X.data).all()
    assert X[0, 2] == 2 and X[100, 1] == 1 and y[100] == 0 and X.has_canonical_format
    if line not in (b"1 1:2 1:3",):
        with pytest.raises(files.FileError, match="columns 1 to 5"):
            files.read_sparse(path, 5)


def test_text_of_a_parquet_file_need_not_be_text(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    broken = pa.array([b"a", b"\xff\xfe", b"1.5", None]).view(pa.string())
    pq.write_table(pa.table({"t": broken, "d": broken.dictionary_encode(), "x": [1.0, 2.0, 3.0, 4.0]}), path)
    levels = {"t": ["b", "a", "2", "1.5"], "d": ["a", "1.5"]}
    table = files.read(path, ["t", "d", "x"], levels=levels, missing="zero")
    assert table.tolist() == [[1, 0, 1], [0, 0, 2], [3, 1, 3], [0, 0, 4]]
    with pytest.raises(files.FileError, match="'t', 'd'"):
        files.read(path, ["t", "d", "x"], levels=levels)


def test_types_are_refused_by_the_schema(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    times = pa.array([0, 2**62], pa.timestamp("us"))  # the second lies beyond the calendar
    pq.write_table(pa.table({"when": times, "x": [1.0, 2.0]}), path)
    for options in ({}, {"levels": {"when": ["a", "b"]}}):
        with pytest.raises(files.FileError, match=r"'when' is of type timestamp"):
            files.read(path, ["when"], missing="zero", **options)


# -- what fails, fails before the charge -----------------------------------------------------------


def _names(kind: str, tmp_path: Path, claims: Path, ledger: Path) -> Path:
    """A path that must not be written to."""
    link = tmp_path / "link.json"
    if kind == "missing folder":
        return tmp_path / "none" / "m.json"
    if kind == "folder":
        (tmp_path / "m.json").mkdir()
        return tmp_path / "m.json"
    if kind == "input":
        return claims
    if kind == "symbolic link to the input":
        link.symlink_to(claims)
    elif kind == "symbolic link to the ledger":
        link.symlink_to(ledger)
    elif kind == "journal of the ledger":
        return Path(f"{ledger}-wal")
    elif kind == "file as folder":
        return claims / "m.json"
    elif kind == "no name":
        return Path("")
    elif kind == "pipe":
        os.mkfifo(link)
        os.mkfifo(link.with_suffix(".html"))
    elif kind == "device":
        link.symlink_to("/dev/null")
    elif kind == "circle of links":
        link.symlink_to(link)
    return link


KINDS = (
    "missing folder",
    "folder",
    "input",
    "symbolic link to the input",
    "symbolic link to the ledger",
    "journal of the ledger",
    "file as folder",
    "no name",
    "pipe",
    "device",
    "circle of links",
)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_checked_before_the_charge(capsys: Any, tmp_path: Path, claims: Path, ledger: Path, kind: str) -> None:
    path, before = _names(kind, tmp_path, claims, ledger), claims.read_bytes()
    refused(capsys, ledger, "fit", claims, "-m", "linear", "-t", "cost", "-o", path)
    if kind not in ("input", "symbolic link to the input", "journal of the ledger"):  # those end in .csv, or make two names
        refused(capsys, ledger, "mean", claims, "-c", "cost", "--card", path)
    assert claims.read_bytes() == before


def test_the_card_beside_a_model_is_checked_too(capsys: Any, tmp_path: Path, claims: Path, ledger: Path) -> None:
    (tmp_path / "m-card.json").symlink_to(claims)
    refused(capsys, ledger, "fit", claims, "-m", "linear", "-t", "cost", "-o", tmp_path / "m.json", words="overwritten")


@pytest.mark.parametrize("name", ["9" * 400, "a\0b", "x/" * 3000, "\udcff" * 300])
def test_what_can_be_no_path_is_one_line(capsys: Any, claims: Path, name: str) -> None:
    fit, mean = ("fit", claims, "-m", "linear", "-t", "cost"), ("mean", claims, "-c", "cost")
    for command in (
        ("mean", name, "-c", "x"),
        (*mean, "--card", name),
        (*mean, "--ledger", name),
        (*fit, "-o", name),
        ("predict", name, claims),
        ("predict", claims, claims, "-o", name),
        ("ledger", "show", name),
        ("ledger", "open", name, "a", "-e", 1),
    ):
        code, out, err = run(capsys, *command)
        assert code == 2 and not out and err.count("\n") == 1, err
    # Long enough for a file, too long for the card beside it.
    assert run(capsys, *mean, "--card", "9" * 252)[0] == run(capsys, *fit, "-o", "9" * 248)[0] == 2


@pytest.mark.parametrize("name", ["card.pdf", "card.csv"])
def test_a_format_that_is_not_written_is_refused(capsys: Any, tmp_path: Path, claims: Path, ledger: Path, name: str) -> None:
    refused(capsys, ledger, "mean", claims, "-c", "cost", "--card", tmp_path / name, words="--card writes .html and .json")


def test_predictions_never_overwrite_what_they_are_made_of(capsys: Any, tmp_path: Path, claims: Path) -> None:
    model, alias = tmp_path / "m.json", tmp_path / "alias.csv"
    assert run(capsys, "fit", claims, "-m", "linear", "-t", "cost", "-e", 4, "-o", model)[0] == 0
    os.link(claims, alias)
    before = claims.read_bytes(), model.read_bytes()
    for target in (claims, alias):
        assert run(capsys, "predict", model, claims, "-o", target)[0] == 2
    assert (claims.read_bytes(), model.read_bytes()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused(capsys: Any, tmp_path: Path, claims: Path, ledger: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    refused(capsys, ledger, "mean", claims, "-c", "cost", "--card", folder / "card.html", words="cannot write")


def test_a_full_temporary_folder_costs_nothing(capsys: Any, claims: Path, ledger: Path, monkeypatch: Any) -> None:
    from fattail.cli.spool import Spool

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(Spool, "append", full)
    refused(capsys, ledger, "mean", claims, "-c", "cost", words="No space left")


# -- what was paid for is printed ------------------------------------------------------------------


@pytest.mark.parametrize("json_", [False, True])
@pytest.mark.parametrize("broken", ["save", "of", "to_html", "to_dict", "interrupt"])
def test_the_answer_is_printed_whatever_happens_to_its_card(
    capsys: Any, tmp_path: Path, claims: Path, ledger: Path, monkeypatch: Any, broken: str, json_: bool
) -> None:
    from fattail.results.card import Card

    def fail(*_: Any, **__: Any) -> Any:
        if broken == "interrupt":
            raise KeyboardInterrupt
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Card, "save" if broken == "interrupt" else broken, fail)
    command = ["mean", claims, "-c", "cost", "-e", 1, "--ledger", ledger, "--card", tmp_path / "card.html"]
    code, out, err = run(capsys, *command, *(["--json"] if json_ else []))
    assert code == 4 and spent(ledger) > 0 and "account 'claims'" in err
    assert "2" in out and ("mean" in out)  # about 2500, by whatever name
    if json_:
        assert json.loads(out)["failed"]


@pytest.mark.parametrize("json_", [False, True])
@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.ENOSPC, "full"), None])
def test_the_answer_goes_to_standard_error_if_nobody_listens(
    capsys: Any, claims: Path, ledger: Path, monkeypatch: Any, error: OSError | None, json_: bool
) -> None:
    class Broken(io.StringIO):
        def flush(self) -> None:
            raise error

    monkeypatch.setattr(sys, "stdout", None if error is None else Broken())
    code, out, err = run(capsys, "mean", claims, "-c", "cost", "--ledger", ledger, *(["--json"] if json_ else []))
    assert code == 4 and not out and "cost" in err and "account 'claims'" in err and "Traceback" not in err


@pytest.mark.slow
@pytest.mark.parametrize("stdout", ["closed", "full", "gone"])
def test_the_answer_goes_to_standard_error_if_there_is_no_other_place(claims: Path, stdout: str) -> None:
    command = f"{sys.executable} -m fattail mean {claims} -c cost --json"
    shell = {"closed": f"{command} >&-", "full": f"{command} > /dev/full", "gone": f"{command} | true; exit ${{PIPESTATUS[0]}}"}
    if stdout == "full" and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    done = subprocess.run(["bash", "-c", shell[stdout]], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert '"results"' in done.stderr and "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_an_interrupted_fit_says_what_was_charged(capsys: Any, claims: Path, ledger: Path, monkeypatch: Any) -> None:
    from fattail.privacy import Curator

    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    command = ["mean", claims, "-c", "cost", "-e", 1, "--ledger", ledger]
    with monkeypatch.context() as patch:
        patch.setattr(files, "open_table", interrupt)
        code, _, err = run(capsys, *command)
        assert code == 130 and "nothing was charged" in err and spent(ledger) == 0
    monkeypatch.setattr(Curator, "release", interrupt)
    code, _, err = run(capsys, *command)
    assert code == 130 and f"account 'claims': epsilon {spent(ledger):.4g} of 6 is spent, 0 before" in err
    code, _, err = run(capsys, "mean", claims, "-c", "cost")
    assert code == 130 and "no ledger was charged" in err


def test_ctrl_c_while_the_program_loads_is_one_line(capsys: Any, monkeypatch: Any) -> None:
    from fattail.__main__ import main as start

    class Interrupted:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "fattail.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "fattail.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert start(["methods"]) == 130 and capsys.readouterr().err == "fattail: stopped; nothing was charged\n"


def test_a_ledger_that_is_locked_or_full_is_one_sentence(capsys: Any, claims: Path, ledger: Path, monkeypatch: Any) -> None:
    connect = sqlite3.connect
    holder = connect(ledger, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **(k | {"timeout": 0.1})))
    code, out, err = run(capsys, "mean", claims, "-c", "cost", "--ledger", ledger)
    holder.close()
    assert code == 2 and not out and "ledger cannot be used now: database is locked" in err and err.count("\n") == 1
    assert spent(ledger) == 0


def test_an_account_is_found_by_every_spelling_of_its_name(capsys: Any, tmp_path: Path, claims: Path) -> None:
    path = tmp_path / "names.db"
    for name in ("caf\u00e9 2026", "other"):
        fattail.Ledger(path).open(name, epsilon=6.0, delta=1e-5)
    for name in ("cafe\u0301 2026", " caf\u00e9\u00a02026 "):
        assert run(capsys, "mean", claims, "-c", "cost", "--ledger", path, "--account", name)[0] == 0
        assert "cost" not in run(capsys, "ledger", "history", path, "--account", "other")[1]
    assert len(fattail.Ledger(path).accounts()[0].history) == 2


def test_an_error_after_the_charge_says_what_was_charged(capsys: Any, claims: Path, ledger: Path, monkeypatch: Any) -> None:
    from fattail.privacy import Curator

    def fail(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("9.99")

    monkeypatch.setattr(Curator, "release", fail)
    code, _, err = run(capsys, "mean", claims, "-c", "cost", "-e", 1, "--ledger", ledger)
    assert code == 1 and "is spent, 0 before this command" in err and "9.99" not in err


@pytest.mark.parametrize("name", ["SIGTERM", *(pytest.param(name, marks=pytest.mark.slow) for name in ("SIGINT", "SIGHUP"))])
def test_a_request_to_stop_waits_for_the_answer(tmp_path: Path, claims: Path, ledger: Path, name: str) -> None:
    """Sent when the answer is paid for and nothing is printed yet."""
    code = (
        "import os, signal, sys; from fattail.cli import main; from fattail.results.card import Card; good = Card.of\n"
        f"def stopped(*a, **k): os.kill(os.getpid(), signal.{name}); return good(*a, **k)\n"
        # Whoever runs the tests in the background may ignore them, and children inherit that.
        f"signal.signal(signal.{name}, {'signal.default_int_handler' if name == 'SIGINT' else 'signal.SIG_DFL'})\n"
        "Card.of = stopped; sys.exit(main(sys.argv[1:]))"
    )
    command = ["mean", claims, "-c", "cost", "--json", "--ledger", ledger, "--card", tmp_path / "card.html"]
    done = subprocess.run([sys.executable, "-c", code, *map(str, command)], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["results"] and (tmp_path / "card.html").exists() and spent(ledger) > 0
    assert done.returncode == (130 if name == "SIGINT" else -getattr(signal, name))


def test_ctrl_c_waits_for_the_answer(capsys: Any, claims: Path, monkeypatch: Any) -> None:
    from fattail.results.card import Card

    good = Card.of

    def interrupted(*arguments: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return good(*arguments, **options)

    monkeypatch.setattr(Card, "of", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background may ignore it
    try:
        code, out, _ = run(capsys, "mean", claims, "-c", "cost", "--json")
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 130 and json.loads(out)["results"]


@pytest.mark.parametrize(
    "options",
    [
        "-m linear -t cost --features age,age",
        "-m logistic -t age --classes 1,1.0 --missing zero",
        "-m linear -t cost --category age=a|b|a --missing zero",
        "-m linear -t cost --memory nan",
        "-m linear -t cost --memory -1",
        "-m linear -t cost --set fit_intercept=1.5",
        "-m linear -t cost --set alpha=1e308",
        "-m linear -t cost --set n_iter=[1]",
    ],
)
def test_requests_that_contradict_themselves_are_refused(capsys: Any, claims: Path, ledger: Path, options: str) -> None:
    refused(capsys, ledger, "fit", claims, *options.split())


def test_a_compressed_line_of_any_length_takes_little_memory(tmp_path: Path, monkeypatch: Any) -> None:
    from fattail.rows import records

    monkeypatch.setattr(records, "MOST_LINE", 1 << 12)
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"x\n" + b"1" * (1 << 24))
    tracemalloc.start()
    with pytest.raises(files.FileError, match="never ends"):
        files.read(path, ["x"], missing="zero", quoted_newlines=True)
    assert tracemalloc.get_traced_memory()[1] < 1 << 21
    tracemalloc.stop()


# -- hopeless requests -----------------------------------------------------------------------------


def test_a_hopeless_request_is_refused_before_the_charge(capsys: Any, tmp_path: Path, ledger: Path) -> None:
    path, rng = tmp_path / "t.csv", np.random.default_rng(0)
    path.write_text("a,b,c,y\n" + "".join("{:.3f},{:.3f},{:.3f},{:.3f}\n".format(*row) for row in rng.normal(size=(60, 4))))
    command = ("fit", path, "-m", "linear", "-t", "y")
    refused(capsys, ledger, *command, words="--anyway")
    refused(capsys, ledger, "mean", path, "-c", "a", words="60 rows")
    code, out, _ = run(capsys, *command, "--ledger", ledger, "--anyway", "--json")
    assert code == 0 and json.loads(out)["warnings"] and spent(ledger) > 0


@pytest.mark.slow
def test_a_table_wider_than_long_is_refused_before_the_charge(capsys: Any, tmp_path: Path, ledger: Path) -> None:
    """2,000 rows of 5,000 columns took minutes once, and all of the budget."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = np.random.default_rng(0).normal(size=(2000, 5000)).astype(np.float32)
    pq.write_table(pa.table({f"x{j}": rows[:, j] for j in range(5000)}), path := tmp_path / "wide.parquet")
    refused(capsys, ledger, "fit", path, "-m", "linear", "-t", "x0", words="--anyway")


# -- memory and progress ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "mean FILE -c age,cost",
        "fit FILE -m linear -t cost -e 4",
        "fit FILE -m logistic -t large --features age,region --category region=north|south -e 4",
        "fit FILE -m sparse -t cost -e 4 --sparsity 1 --features age",
        "fit FILE -m mixture --features age,cost -e 4",
        "fit FILE -m linear -t cost -e 4 --method trimmed",
    ],
)
@pytest.mark.filterwarnings("ignore::fattail.UtilityWarning")
def test_pieces_give_the_same_answer_as_all_rows(capsys: Any, tmp_path: Path, monkeypatch: Any, command: str) -> None:
    from fattail.cli import rows

    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(7)
    age, region = rng.uniform(20, 80, ROWS), rng.choice(["north", "south"], ROWS)
    cost = 50 * age + 500 * rng.standard_t(2.5, ROWS)
    columns = {"age": age, "cost": cost, "large": (cost > 2500).astype(int)} | ({"region": region} if "region" in command else {})
    text, parquet = tmp_path / "t.csv", tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), parquet, row_group_size=1000)
    text.write_text(
        ",".join(columns) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in zip(*columns.values(), strict=True))
    )
    answers = []
    for path, most in ((text, 1 << 26), (text, 0), (parquet, 1 << 26), (parquet, 0)):
        monkeypatch.setattr(rows, "IN_MEMORY", most)
        arguments = [str(path) if word == "FILE" else word for word in command.split()]
        code, out, err = run(capsys, *arguments, "--seed", 0, "--json", "--anyway")
        assert code == 0, err
        answers.append(json.loads(out)["results"])
    assert answers[0] == answers[1] == answers[2] == answers[3]


def test_sparse_rows_in_pieces(capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    from fattail.cli import rows
    from fattail.rows import records

    rng = np.random.default_rng(3)
    X = rng.standard_normal((3000, 30)) * (rng.random((3000, 30)) < 0.3)
    path = tmp_path / "rows.svm"
    pairs = (" ".join(f"{j + 1}:{row[j]}" for j in np.flatnonzero(row)) for row in X)
    path.write_text("".join(f"{3 * row[4]} {pair}\n" for row, pair in zip(X, pairs, strict=True)))
    command = ("fit", path, "-m", "sparse", "--sparsity", 2, "--dimension", 30, "-e", 4, "--seed", 0, "--json")
    whole = json.loads(run(capsys, *command)[1])["results"]
    monkeypatch.setattr(rows, "IN_MEMORY", 0)
    monkeypatch.setattr(records, "_BLOCK_BYTES", 10_000)
    assert json.loads(run(capsys, *command)[1])["results"] == whole


def test_the_temporary_copy_has_no_name(capsys: Any, tmp_path: Path, claims: Path, monkeypatch: Any) -> None:
    from fattail.cli import rows

    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(rows, "IN_MEMORY", 0)
    seen: list[Any] = []
    good = fattail.DPMean.fit
    monkeypatch.setattr(fattail.DPMean, "fit", lambda self, *a: (seen.extend(folder.iterdir()), good(self, *a))[1])
    assert run(capsys, "mean", claims, "-c", "cost")[0] == 0
    assert not seen and not list(folder.iterdir())


def test_progress_shows_from_the_first_read_and_only_on_a_terminal(capsys: Any, claims: Path, monkeypatch: Any) -> None:
    from fattail.cli import paying
    from fattail.cli.shared import Screen

    assert run(capsys, "mean", claims, "-c", "cost")[2] == ""
    stream = io.StringIO()
    monkeypatch.setattr(paying, "err", Screen(file=stream, force_terminal=True))
    good, before = files.records, []
    monkeypatch.setattr(files, "records", lambda *a: (before.append(stream.getvalue()), good(*a))[1])
    assert run(capsys, "mean", claims, "-c", "cost")[0] == 0
    assert "reading claims.csv" in before[-1] and "fitting" in stream.getvalue()
    stream.truncate(0)
    assert run(capsys, "mean", claims, "-c", "cost", "--json")[0] == 0 and not stream.getvalue().strip("\0")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, form: str) -> None:
    path, rng = tmp_path / f"t.{form}", np.random.default_rng(0)
    columns = [f"c{j}" for j in range(20)]
    if form == "csv":
        block = "".join(",".join(f"{v:.6f}" for v in row) + "\n" for row in rng.normal(size=(20_000, 20)))
        with path.open("w") as file:
            file.write(",".join(columns) + "\n")
            for _ in range(80):
                file.write(block)
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = pa.table(dict(zip(columns, rng.normal(size=(20, 100_000)), strict=True)))
        with pq.ParquetWriter(path, table.schema) as writer:
            for _ in range(20):
                writer.write_table(table)
    code = (
        "import resource, sys; from fattail.cli import main; "
        f"code = main(['fit', {str(path)!r}, '-m', 'linear', '-t', 'c0', '--json']); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-1]) < 700_000
