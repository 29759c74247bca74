"""Text that somebody else wrote, in pages, terminals, tables and figures."""

from __future__ import annotations

import ast
import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fattail
from fattail._tools.escape import Html, for_csv, for_figure, for_terminal, fragment, style, tag, write_csv
from fattail.cli.shared import Screen
from fattail.results.card import Card, Result
from fattail.results.plots import price_of_privacy

SOURCES = sorted(Path(fattail.__file__).parent.rglob("*.py"))
HOSTILE = (
    "[/b]",
    "[/x]",
    "[red]x",
    ":smile:",
    "\x1b[2J\x1b]0;title\x07",
    "a\rb",
    "a\nfattail: charged",
    "\x9b31m",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "\x00",
    "\udcff",
    "<script>alert(1)</script>",
    "\"onload='x'",
    "&lt;",
    '=HYPERLINK("http://example.org","x")',
    "$\\frac{$",
)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def parse(page: str) -> _Tags:
    parser = _Tags()
    parser.feed(page)
    return parser


@pytest.fixture(scope="module")
def model() -> Any:
    return fattail.DPMean(random_state=0).fit(np.random.default_rng(0).normal(size=(2000, 1)))


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_reports_escape_every_word(name: str, model: Any) -> None:
    record = replace(model.privacy_.releases[0], name=name, mechanism=name, numerics=name)
    report = replace(model.privacy_, unit=name, relation=name, numerics=name, releases=(record,))
    seen = parse(report._repr_html_())
    assert seen.tags <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert seen.text.count(for_terminal(name, lines=True)) >= 6
    assert not set(str(report)) & set("\x1b\x07\r\x9b\u202e\u2066\x00\udcff")
    assert str(report).count("\n") == 1


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_cards_escape_every_word(name: str, model: Any, tmp_path: Path) -> None:
    account = {"name": name, "epsilon": 4.0, "delta": 1e-5, "spent": 1.0, "remaining": 3.0}
    card = Card(name, model.privacy_, (Result(name, 1.0, 0.0, 2.0),), name, 0.9, {name: name}, account, (name,))
    seen = parse(card.to_html())
    assert "script" not in seen.tags and for_terminal(name, lines=True) in seen.text
    page, data = card.save(tmp_path / "card.html")
    assert page.read_text(encoding="utf-8") and data.read_text(encoding="ascii")


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_the_screen_shows_text_as_it_is(name: str) -> None:
    from rich.table import Table

    stream = io.StringIO()
    screen = Screen(file=stream, force_terminal=True, width=500)
    table = Table(name, title=name)
    table.add_row(name)
    screen.print(table)
    screen.print(f"account '{name}'", style="dim")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())  # its own colors
    assert not set(shown) & set("\x1b\x07\r\x9b\u202e\u2066\x00\udcff")
    assert f"account '{for_terminal(name)}'\n" in shown
    assert shown.count(for_terminal(name)) == 4 or "\n" in name


def test_words_of_many_scripts_stay_as_they_are() -> None:
    for word in ("coût", "می‌خواهم", "क्‍ष", "数値", "a\u00a0b"):
        assert for_terminal(word) == word
    assert for_terminal("a\nb", lines=True) == "a\nb" and for_terminal("a\nb") == r"a\nb"


def test_elements_escape_children_and_attributes_but_no_elements() -> None:
    assert tag("b", "<", tag("i", ">"), None, 3, class_='"') == '<b class="&quot;">&lt;<i>&gt;</i>3</b>'
    assert isinstance(fragment("a"), Html) and fragment("<") == "&lt;"
    with pytest.raises(ValueError, match="style sheet"):
        style("</style><script>")


@pytest.mark.parametrize(
    "cell", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1", "-1\r", "＝1", '=HYPERLINK("x")']
)
def test_no_cell_is_a_formula(cell: str) -> None:
    stream = io.StringIO()
    write_csv(stream, [[cell, -1.5]])
    (row,) = csv.reader(io.StringIO(stream.getvalue(), newline=""))
    assert row[0].startswith("'") and row[1] == "-1.5" and len(row) == 2


def test_a_semicolon_starts_no_cell() -> None:
    """Spreadsheets of many countries take it for the separator; quotes hold there, too."""
    stream = io.StringIO()
    write_csv(stream, [["x;=1+1", 0.5], ["plain", 1.0]])
    assert stream.getvalue() == '"x;=1+1",0.5\r\nplain,1.0\r\n'
    assert next(csv.reader(io.StringIO(stream.getvalue()), delimiter=";"))[0] == "x;=1+1,0.5"


def test_plain_cells_stay_as_they_are() -> None:
    for cell in ("-1", "+1.5", "-1e-3", "cost", "a,b", 'say "x"', "two\nlines", ""):
        stream = io.StringIO()
        write_csv(stream, [[cell, "x"]])
        assert next(csv.reader(io.StringIO(stream.getvalue(), newline=""))) == [cell, "x"]
    assert for_csv("\x1b[2J") == r"\x1b[2J"


def test_a_dollar_sign_is_no_formula_of_a_figure(tmp_path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    ax = price_of_privacy([1, 2], {"cost in $\\frac{$": [[1, 2], [1, 2]]}, ylabel="$\\frac{$")
    ax.figure.savefig(tmp_path / "figure.png")
    matplotlib.pyplot.close(ax.figure)
    assert for_figure("$5") == for_figure(r"\$5") == r"\$5"


# -- nothing else writes for these media -----------------------------------------------------------

TAG = re.compile(r"</?(a|b|i|p|h\d|t[dhr]|d[dlt]|li|ul|ol|br|div|span|table|img|svg|pre|code|style|script|body|main|small)[\s/>]")
ESCAPE = Path(fattail.__file__).parent / "_tools" / "escape.py"


def _strings(tree: ast.AST) -> list[ast.Constant]:
    """All text of a module but its docstrings and lone strings."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in alone]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_html_and_csv_are_written_in_one_place(path: Path) -> None:
    if path == ESCAPE:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tags = [n.value for n in _strings(tree) if TAG.search(n.value)]
    assert not tags, f"build HTML with fattail._tools.escape.tag: {tags}"
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert "html" not in imported
    attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    assert not attributes & {"DictWriter", "from_markup"} and "writer" not in attributes


@pytest.mark.parametrize("path", [p for p in SOURCES if p.parent.name == "cli"], ids=lambda p: p.stem)
def test_the_command_line_prints_through_its_screen(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path.stem != "shared":
        made = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert not made & {"Console", "print"}
        assert not {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} & {"echo", "secho"}
    markup = [n.value for n in _strings(tree) if re.search(r"\[/?(dim|b|bold|red|green|i)\]", n.value)]
    assert not markup
