"""Tables that are made from the code and the measurements, so that they cannot go stale."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import inspect
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

import fattail

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ("wang2020", "dpem2020", "tao2022", "wanggu2020", "tian2025")
MOST_ROWS = 40


class _Generated(SphinxDirective):
    """A directive that writes MyST Markdown, with tables in reStructuredText."""

    def parse(self, lines: list[str]) -> list[nodes.Node]:
        parent = nodes.section()
        parent.document = self.state.document
        nested_parse_with_titles(self.state, StringList(lines, "generated"), parent)
        return parent.children


class Paper(_Generated):
    """Every method of one paper: print to code, with line numbers, and what changed."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse(self.of(self.arguments[0]))

    def of(self, paper: str) -> list[str]:
        found = [m for m in fattail.registry() if m.paper == paper]
        if not found:
            return ["No method of this paper is in the registry of this version.", ""]
        lines: list[str] = []
        described: set[str] = set()
        for m in found:
            users = ", ".join(f":class:`~fattail.{e}`" for e in m.estimators) or "linear models with a loss of your own"
            lines += ["", f".. rubric:: {m.algorithm}: {m.name}", "", f'``method="{m.name}"`` of {users}.']
            lines += [f"In code :func:`~{m.function}`, {_lines(m.function)}.", "", f"*What differs from print.* {m.changed}", ""]
            # A function that serves two papers is described on the page that comes first.
            if _pages(self.env).setdefault(m.function, self.env.docname) == self.env.docname and m.function not in described:
                described.add(m.function)
                lines += ["", f".. autofunction:: {m.function}", ""]
        return _rst(lines)


class OtherPapers(Paper):
    """The same for every source that has no page of its own."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for paper in sorted({m.paper for m in fattail.registry()} - set(PAPERS)):
            lines += ["", f"## {paper}", "", *self.of(paper)]
        return self.parse(lines)


class Layers(SphinxDirective):
    """The layers of the package, drawn from its imports."""

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", _script("layers").picture(), format="html")]


class Walk(_Generated):
    """The functions that one fit enters, each where it is entered first."""

    option_spec = {"depth": int}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        _script("layers")  # which the walk imports
        walk = _script("walk")
        name, fit = next(iter(walk.walks().items()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit()
            seen = walk.Walk().of(fit)
        steps = [(depth, *to) for depth, to in seen.tree if depth <= self.options.get("depth", 3)]
        lines = [f"{'  ' * (depth - 1)}- ``{function}``, {file}.py" for depth, file, function in steps]
        spaced = [
            line for k, line in enumerate(lines) for line in ([""] if k and steps[k][0] != steps[k - 1][0] else []) + [line]
        ]
        facts = ", ".join(f"{key} {value}" for key, value in seen.summary().items())
        return self.parse([f"`{name}`: {facts}.", "", *_rst(spaced)])


class Results(_Generated):
    """The figures of ``benchmarks/results``, as they are."""

    def run(self) -> list[nodes.Node]:
        results = ROOT / "benchmarks" / "results"
        lines: list[str] = []
        for path in sorted(results.rglob("*.md")):
            self.env.note_dependency(str(path))
            lines += ["", *_lowered(path), ""]
        for path in sorted(results.rglob("*.csv")):
            self.env.note_dependency(str(path))
            with path.open(newline="") as stream:
                head, *rows = list(csv.reader(line for line in stream if not line.startswith("#")))
            title = path.relative_to(ROOT).as_posix()
            lines += ["", f"## {path.stem}", "", f"`{title}`", ""]
            lines += [f"The first {MOST_ROWS} of {len(rows)} lines.", ""] if len(rows) > MOST_ROWS else []
            table = [".. csv-table::", f"   :header: {_csv(head)}", "   :class: figures", ""]
            lines += _rst(table + [f"   {_csv(row + [''] * (len(head) - len(row)))}" for row in rows[:MOST_ROWS]])
        return self.parse(lines) if lines else [nodes.paragraph(text="No figures were measured yet.")]


def _script(name: str) -> Any:
    """A module of ``scripts``."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _lowered(path: Path) -> list[str]:
    """A summary with its headings one level down and its relative links as seen from this folder."""
    text = re.sub(r"^#", "##", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return re.sub(r"\]\((?![a-z]+:|#)", "](../benchmarks/results/", text).splitlines()


def _pages(env: Any) -> dict[str, str]:
    """Which page describes which function."""
    if not hasattr(env, "fattail_pages"):
        env.fattail_pages = {}
    pages: dict[str, str] = env.fattail_pages
    return pages


def _lines(function: str) -> str:
    module, _, name = function.rpartition(".")
    target = inspect.unwrap(getattr(importlib.import_module(module), name))
    source, start = inspect.getsourcelines(target)
    path = Path(inspect.getsourcefile(target) or "").resolve()
    where = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return f"{where}, lines {start} to {start + len(source) - 1}"


def _rst(lines: list[str]) -> list[str]:
    return ["````{eval-rst}", *lines, "````", ""]


def _short(cell: str) -> str:
    """Four digits of a number, and sixty letters of a text, are enough to read."""
    try:
        return f"{float(cell):.4g}" if "." in cell or "e" in cell else cell
    except ValueError:
        return cell if len(cell) <= 60 else f"{cell[:57]}..."


def _csv(cells: list[str]) -> str:
    return ", ".join(
        '"' + _short(c).replace('"', '""').replace("*", r"\*").replace("|", r"\|").replace("`", r"\`") + '"' for c in cells
    )


def _inline_math(writer: Any, node: Any) -> None:
    """MathML, which browsers draw by themselves: no scripts, no network."""
    writer.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _display_math(writer: Any, node: Any) -> None:
    writer.body.append(f'<div class="formula">{tex2mathml(node.astext().strip(), as_block=True)}</div>')
    raise nodes.SkipNode


def _skip_routing(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool:
    """scikit-learn's metadata routing adds ``set_fit_request`` and the like to every estimator."""
    return skip or (name.startswith("set_") and name.endswith("_request"))


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline_math, None), (_display_math, None))
    app.connect("autodoc-skip-member", _skip_routing)
    app.add_directive("paper", Paper)
    app.add_directive("other-papers", OtherPapers)
    app.add_directive("benchmark-results", Results)
    app.add_directive("layers", Layers)
    app.add_directive("walk", Walk)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
