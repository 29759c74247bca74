"""What may come out of a file that anybody may have written: an answer or a documented error.

Each harness takes bytes, writes them to a file of its kind and reads it as a user would. Any
exception but the documented ones is a fault. `SEEDS` are valid files to start from; `mutate`
damages them, and knows enough of JSON and of tables to get past the first check.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from csv import reader
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
from rich.table import Table

import fattail
from fattail import catalog
from fattail._tools import escape
from fattail.cli import files, main
from fattail.cli.shared import Screen
from fattail.privacy import Budget, BudgetExceededError, Curator, Gaussian, Ledger, chain
from fattail.results import model_files as model_io
from fattail.results.card import Card
from fattail.robust import Ball, Clip, Gram, MedianOfMeans, Smooth, Trimmed, Truncate
from fattail.rows.data import PrivateData
from fattail.rows.order import SecretOrder

FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


@contextmanager
def only(*documented: type[Exception]) -> Iterator[None]:
    """Let documented errors pass, and warnings be errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            yield
        except documented as error:
            assert str(error), "an error must say something"


def _file(name: str, data: bytes) -> Path:
    path = FOLDER / name
    path.write_bytes(data)
    return path


def _table(path: Path) -> None:
    with only(files.FileError):
        names = files.header(path)
        table = files.read(path, names[:3], missing="zero", memory=1e8)
        assert np.isfinite(table).all() and table.shape[1] == len(names[:3])
    with only(files.FileError):
        files.read(path, ("cost", "group"), levels={"group": ("a", "b", "1")}, memory=1e8)


def csv(data: bytes) -> None:
    """Comma-separated values."""
    _table(_file("table.csv", data))


def csv_gz(data: bytes) -> None:
    """The same, compressed."""
    _table(_file("table.csv.gz", data))


def parquet(data: bytes) -> None:
    _table(_file("table.parquet", data))


def svmlight(data: bytes) -> None:
    with only(files.FileError):
        X, y = files.read_sparse(_file("rows.svm", data), 6, missing="zero")
        assert X.shape == (len(y), 6) and np.isfinite(X.data).all() and np.isfinite(y).all()


def model(data: bytes) -> None:
    """Model JSON, and what one does with a model."""
    with only(ValueError):
        estimator = model_io.load_model(_file("model.json", data))
        assert type(estimator).__name__ in catalog.names()
        assert callable(estimator.fit) and isinstance(estimator.privacy_, fattail.PrivacyReport)
        str(estimator.privacy_), estimator.get_params()


def ledger(data: bytes) -> None:
    """A ledger file: listed, read, charged."""
    for extra in ("-wal", "-shm", "-journal"):
        (FOLDER / f"ledger.db{extra}").unlink(missing_ok=True)
    with only(ValueError, BudgetExceededError):
        book = Ledger(_file("ledger.db", data))
        found = book.verify()
        assert bool(found) == (not found.problems) and str(found) and all(isinstance(text, str) for text in found.notes)
        for account in book.accounts():
            with only(ValueError, BudgetExceededError):
                assert account.spent >= 0 and account.remaining >= 0
                assert all(charge.label is not None for charge in account.history)
                curator = Curator(0.1, 1e-6, random_state=0, ledger=account)
                curator.plan(Gaussian("total"))


def account(data: bytes) -> None:
    """What entries hold, in a file whose seals are sound."""
    with only(ValueError):
        content = json.loads(data)
        if not isinstance(content, dict):
            return
        path = _file("ledger.db", seeds()["ledger"][0])
        pages = chain.Pages()  # sealed as if they had been written so
        with only(sqlite3.Error, OverflowError), sqlite3.connect(path) as db:
            bodies = [json.loads(text) for (text,) in db.execute("SELECT body FROM entry ORDER BY seq")]
            bodies[0]["inode"] = path.stat().st_ino
            for body in bodies:
                kind = body.get("type")
                with only(ValueError):
                    pages.append(body | content if kind in ("opened", "charged") else body)
            db.execute("DELETE FROM entry")
            chain.Chain(path).store(db, pages, 0)
        db.close()
        ledger(path.read_bytes())


def rows(data: bytes) -> None:
    """Any bits at all as rows of a bounded mean: the sum stays exact, finite and inside its range."""
    values = np.frombuffer(data[: len(data) // 8 * 8], dtype=np.float64)
    n = len(values) // 2
    if n < 7:
        return
    X = values[: 2 * n].reshape(n, 2)
    private, factor = PrivateData(X), values[:n]
    robust, largest = ROBUST[crc32(data) % len(ROBUST)]  # one byte would seldom change
    # A fold's rows come in another order; all of them in the table's, as their factors are.
    contributions = (lambda b: (b.X, None)) if isinstance(robust, MedianOfMeans) else (lambda b: (b.X, factor[b.start : b.stop]))
    everybody = SecretOrder(bytes(32), n).cut([0, n])[0] if isinstance(robust, MedianOfMeans) else None
    bounded = robust.mean(private, contributions, everybody)
    value = bounded.unit * bounded._value  # noqa: SLF001
    assert np.isfinite(value).all() and np.abs(value).max() <= largest * (1 + 1e-6), type(robust).__name__


ROBUST = (
    (Clip(bound=2.0), 2.0),
    (Truncate(bound=2.0), 2.0),
    (Smooth(scale=2.0, beta=3.0), 2.0),
    (Ball(radius=2.0), 2.0),
    (Gram(radius=2.0), 4.0),
    (MedianOfMeans(Clip(bound=2.0), 3), 2.0),
    (Trimmed(2, 2.0, 0.1), 2.0),
)


def estimators(data: bytes) -> None:
    """Any finite bits as a dataset of an estimator."""
    values = np.nan_to_num(np.frombuffer(data[: len(data) // 8 * 8], dtype=np.float64))
    n = len(values) // 3
    if n < 20:
        return
    X, y = values[: 2 * n].reshape(n, 2), values[2 * n : 3 * n]
    kind = crc32(data) % 5
    with warnings.catch_warnings(), only(ValueError):
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        if kind == 0:
            fitted: Any = fattail.DPMean(epsilon=4.0, delta=1e-5, method="truncated", random_state=0, moment_bound=1.0).fit(X)
            found = fitted.mean_
        elif kind == 1:
            found = fattail.DPMean(epsilon=4.0, delta=1e-5, method="trimmed", random_state=0, moment_bound=1.0).fit(X).mean_
        elif kind == 2:
            options = {"sparsity": 1, "feature_clip": 1.0, "response_clip": 1.0, "n_iter": 1, "fit_intercept": False}
            found = fattail.DPSparseRegressor(method="iht_huber", random_state=0, **options).fit(X, y).coef_
        elif kind == 3:
            found = fattail.DPLinearRegression(method="clipped", n_iter=1, random_state=0).fit(X, y).coef_
        else:
            found = (
                fattail.DPMissingCovariateRegression(method="clipped", n_iter=1, noise_scale=1.0, init=np.ones(2), random_state=0)
                .fit(X, y)
                .coef_
            )
        assert np.isfinite(found).all()


# What a terminal obeys, a page runs and a spreadsheet computes.
CONTROL = frozenset(map(chr, (*range(32), *range(127, 160), 0x202A, 0x202B, 0x202C, 0x202D, 0x202E, *range(0x2066, 0x206A))))
OWN_COLORS = re.compile(r"\x1b\[[0-9;]*m")


def names(data: bytes) -> None:
    """Any text in every medium."""
    text = data.decode("utf-8", "surrogateescape" if data[-1:] < b"\x80" else "surrogatepass" if _is_utf8(data) else "replace")
    assert not set(escape.for_terminal(text)) & CONTROL
    escape.for_terminal(text).encode()
    page = _Page()
    page.feed(escape.tag("p", text, title=text))
    page.close()
    assert page.seen == ["p"], page.seen
    stream = io.StringIO()
    escape.write_csv(stream, [[text, "x"]])
    (cells,) = reader(io.StringIO(stream.getvalue(), newline=""))
    assert len(cells) == 2 and not (set(cells[0]) & CONTROL - {"\n"})
    assert cells[0][:1] not in tuple("=@\t\r") and (cells[0][:1] not in tuple("+-") or np.isreal(float(cells[0])))
    screen_text = io.StringIO()
    screen = Screen(file=screen_text, force_terminal=True, width=200)
    lines = Table(text)
    lines.add_row(text)
    screen.print(lines)
    screen.print(text)
    assert not (set(OWN_COLORS.sub("", screen_text.getvalue())) & CONTROL - {"\n"})


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except ValueError:
        return False
    return True


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)

    def handle_comment(self, data: str) -> None:
        self.seen.append("comment")

    def handle_decl(self, decl: str) -> None:
        self.seen.append("declaration")


def card(data: bytes) -> None:
    """A card of a model that anybody may have written, with names to match."""
    with only(ValueError):
        loaded = model_io.load_model(_file("model.json", data))
        text = data[:40].decode("utf-8", "replace")
        labels = [text] * loaded.n_features_in_
        account = SimpleNamespace(name=text, epsilon=3.0, delta=1e-5, spent=1.0, remaining=2.0)
        with only(ValueError, TypeError, OverflowError, ZeroDivisionError):
            # Numbers of a file need not be sensible; what they are shown as must be.
            shown = Card.of(loaded, names=labels, title=text, facts={text: text}, account=account, notes=[text])
            page = _Page()
            page.feed(shown.to_html() + loaded.privacy_._repr_html_())
            assert not {"script", "iframe", "comment", "object"} & set(page.seen)
            assert not (set(shown.to_html()) & CONTROL - {"\n"})
            json.loads(shown.to_json())


def command(data: bytes) -> None:
    """A command line, word by word: an exit code, at most one line of complaint, and no answer that was not charged."""
    words = data.decode("utf-8", "surrogateescape").split("\n")[:24]
    folder = _workspace()
    if any("reproduce" in w or "audit" in w or "doctor" in w for w in words):
        return  # what they read are no files of others, and they take their time
    words = [w.replace("@", f"{folder}/") for w in words]
    before = _spent(folder)
    out, err = io.StringIO(), io.StringIO()
    # Whatever a command writes, it writes there.
    with warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(err), chdir(folder):
        warnings.simplefilter("error")
        code = main(words)
    assert code in (0, 2, 3, 4), (code, err.getvalue()[:300])
    complaint = err.getvalue()
    assert not (set(out.getvalue() + complaint) & CONTROL - {"\n"}) and "Traceback" not in complaint
    assert code in (0, 4) or (complaint.count("\n") == 1 and complaint.startswith("fattail: ")) or "Usage" in complaint, complaint
    paid = _spent(folder) - before
    assert paid >= 0 and (paid == 0 or code in (0, 4)), "charged without an answer"
    if code == 0 and "differentially private" in out.getvalue() and "--ledger" in words:
        assert paid > 0, "answered without a charge"
    assert (folder / "t.csv").read_bytes() == seeds()["csv"][2], "the data were written to"


@lru_cache(maxsize=1)
def _workspace() -> Path:
    folder = FOLDER / "work"
    folder.mkdir(exist_ok=True)
    (folder / "t.csv").write_bytes(seeds()["csv"][2])
    (folder / "m.json").write_bytes(seeds()["model"][1])
    Ledger(folder / "b.db").open("[/b]", epsilon=1e6, delta=1e-2)
    return folder


def _spent(folder: Path) -> float:
    (account,) = Ledger(folder / "b.db").accounts()
    return account.spent


HARNESSES: dict[str, Callable[[bytes], None]] = {
    f.__name__: f for f in (csv, csv_gz, parquet, svmlight, model, ledger, account, rows, estimators, names, card, command)
}


@lru_cache(maxsize=1)
def seeds() -> dict[str, list[bytes]]:
    """Valid files of each kind."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    text = b"cost,group,age\n" + b"\n".join(
        b"%.3f,%s,%d" % (x, b"ab1"[k % 3 : k % 3 + 1], k) for k, x in enumerate(rng.normal(size=9))
    )
    quoted = b'"cost";"group"\r\n"1,5";a\r\n\xff\xfe,"b\n",\x00\r\n'
    buffer = io.BytesIO()
    table = pa.table({"cost": rng.normal(size=9), "group": ["a", "b", "1"] * 3, "age": pa.array([1, None, 3] * 3)})
    pq.write_table(table, buffer)
    X = rng.normal(size=(60, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: list[Any] = [
            fattail.DPMean(epsilon=4.0, delta=1e-5, method="truncated", random_state=0, moment_bound=1.0).fit(X),
            fattail.DPLogisticRegression(method="clipped", n_iter=1, random_state=0).fit(X, X[:, 0] > 0),
            fattail.DPSparseRegressor(sparsity=1, method="iht_huber", n_iter=1, random_state=0).fit(X, X[:, 0]),
        ]
    models = [model_io.save_model(m, FOLDER / "seed.json", feature_names=["a", "b"]).read_bytes() for m in made]
    path = FOLDER / "seed.db"
    path.unlink(missing_ok=True)
    account = Ledger(path).open("claims", epsilon=3.0, delta=1e-5)
    budget = Budget(1.0, 1e-5)
    fattail.DPMean(epsilon=1.0, delta=1e-6, method="truncated", random_state=0, moment_bound=1.0, ledger=budget).fit(X)
    account.charge(budget.history[0].events, "mean")
    with sqlite3.connect(path) as db:
        body = json.loads(db.execute("SELECT body FROM entry ORDER BY seq DESC LIMIT 1").fetchone()[0])
    db.close()
    hostile = np.array([0.0, -0.0, 5e-324, 1e-160, 1e160, 1.7e308, -1.7e308, 2.0**53, np.pi, 1.0, -1.0] * 8)
    sound = b"cost,age\n" + b"".join(b"%.3f,%d\n" % (x, k) for k, x in enumerate(rng.normal(size=1500)))
    commands = (
        "mean @t.csv -c cost --ledger @b.db -e 0.5 --method truncated",
        "mean @t.csv --columns cost,age --missing zero --json --ledger @b.db --card @card.html --anyway",
        "fit @t.csv -m linear -t cost --method clipped --set n_iter=1 --ledger @b.db --out @o.json --anyway -e 2",
        "fit @t.csv -m logistic -t age --classes 0,1 --missing zero --method clipped --set n_iter=1 --ledger @b.db --anyway",
        "predict @m.json @t.csv --missing zero --out @p.csv --delimiter ,",
        "ledger show @b.db",
        "ledger history @b.db --account [/b] --json",
        "methods --estimator DPMean",
    )
    return {
        "csv": [text, quoted, sound],
        "names": [
            b"cost",
            b"[/b]",
            b"\x1b[2J",
            b"=HYPERLINK(1)",
            b"<script>alert(1)</script>",
            b"$x_1$",
            "\u202e\u2066".encode(),
        ],
        "card": models,
        "command": [c.replace(" ", "\n").encode() for c in commands],
        "csv_gz": [gzip.compress(text)],
        "parquet": [buffer.getvalue()],
        "svmlight": [b"1 1:0.5 3:2\n-1 2:1e300 6:-4 # note\n0\n", b"3 1:1 1:2\n"],
        "model": models,
        "ledger": [path.read_bytes()],
        "account": [
            json.dumps({k: body[k] for k in ("events", "claim", "label", "columns", "at")}).encode(),
            json.dumps({"epsilon": 3.0, "delta": 1e-5, "kind": "mixed", "account": "claims"}).encode(),
        ],
        "rows": [hostile.tobytes(), rng.normal(size=64).tobytes()],
        "estimators": [hostile.tobytes(), rng.normal(size=96).tobytes()],
    }


TOKENS = (
    b"nan", b"inf", b"-1e999", b"1e308", b"0", b"-0", b"null", b"true", b"{}", b"[]", b'""', b",", b'"', b"\n", b"\r", b"\x00",
    b"\xff", b"\x1b[2J", b"[/b]", b"<b>", b"\xe2\x80\xae", b"--json", b"--set", b"ledger=null", b"@t.csv", b"@b.db",
    b"NaN", b"Infinity", b":", b"1:", b"999999999999:1", b"qid:1", b"#", b"__class__", b"fit", b"9" * 400,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, 10**400, "", "x", "nan", [], {}, [[]], {"array": [1], "dtype": "<f8"}, {"array": "x", "dtype": "O"},
    {"array": [[1], [2, 3]], "dtype": "<f8"}, {"tuple": 3}, {"number": "inf"}, {"number": []}, {"kind": "Gaussian"},
)  # fmt: skip


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A damaged copy: structured where the data are JSON, otherwise bits, tokens, cuts and copies."""
    if data[:1] == b"{" and rng.random() < 0.7:
        with only(ValueError, RecursionError):
            content = json.loads(data)
            for _ in range(rng.choice((1, 1, 2, 4))):
                _mutate_json(content, rng)
            return json.dumps(content).encode()
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at, kind = rng.randrange(len(out) + 1), rng.randrange(7)
        size = min(rng.choice((1, 2, 4, 8, 16, 64)), len(out) - at)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at:at] = rng.choice(TOKENS)
        elif kind == 2:
            out[at : at + size] = rng.choice(TOKENS)
        elif kind == 3:
            del out[at : at + size]
        elif kind == 4:
            out[at:at] = out[at : at + size] * rng.choice((1, 1, 3))
        elif kind == 5 and size == 8:
            out[at : at + 8] = np.float64(rng.choice((np.nan, np.inf, -np.inf, 5e-324, 1.7e308, -1.0, 0.0))).tobytes()
        elif at < len(out):
            out[at] = rng.randrange(256)
    return bytes(out)


def _mutate_json(node: Any, rng: random.Random) -> None:
    """Walk to a random place and put something else there."""
    while isinstance(node, (dict, list)) and node:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.8:
            node = node[key]
            continue
        kind = rng.randrange(5)
        if kind == 0:
            del node[key]
        elif kind == 1 and isinstance(node, dict):
            node[rng.choice(("fit", "__class__", "x_", "privacy_", "kind", "", "count"))] = rng.choice(VALUES)
        elif kind == 2 and isinstance(node[key], (int, float)):
            node[key] = rng.choice((-node[key], 0, 1e-320, 1e320, node[key] * 2, str(node[key])))
        else:
            node[key] = rng.choice(VALUES)
        return
