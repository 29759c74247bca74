"""List float literals without a named origin in the default path, and fail where a file has more than it may.

    python scripts/floats.py [--list] [--write]

A literal is fine where it is 0 or a power of two (with or without a sign), or stands in an assignment of a module or a class
that a comment, a string below it or the docstring of the class explains, or is the default of a parameter that the docstring of
its function lists, itself or by a paragraph of ``documentation.py`` in the same folder. ``ALLOWED`` holds what is left in files
that are still to be done: a file may have fewer and never more, and a file that is not listed may have none. ``--write`` lowers
the numbers.
"""

from __future__ import annotations

import ast
import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "fattail"
PATHS = ("algorithms", "columns", "estimators", "losses", "robust", "statistics")
ALLOWED = Path(__file__).with_suffix(".json")
PLACE = re.compile(r"^\{([a-z_]+)\}$", re.MULTILINE)


def is_trivial(value: float) -> bool:
    """Zero and powers of two, which stand for themselves."""
    return value == 0 or not math.isfinite(value) or abs(math.frexp(value)[0]) == 0.5


def explained(body: list[ast.stmt], k: int, lines: list[str], docstring: str) -> bool:
    """Whether the statement ``body[k]``, an assignment of a module or class, has words of its own."""
    node = body[k]
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    # A string explains the assignments that stand together above it.
    below = next((other for other in body[k + 1 :] if not isinstance(other, ast.AnnAssign)), None)
    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
        return True
    if names & set(re.findall(r"\w+", docstring)):
        return True
    if any("#" in lines[i - 1] for i in range(node.lineno, (node.end_lineno or node.lineno) + 1)):
        return True
    above = node.lineno - 2  # a comment explains the assignments below it up to the next empty line
    while above >= 0 and lines[above].strip():
        if lines[above].lstrip().startswith("#"):
            return True
        above -= 1
    return False


def paragraphs(folder: Path) -> dict[str, str]:
    """The shared paragraphs of the docstrings in a folder, by name."""
    shared = folder / "documentation.py"
    nodes = ast.walk(ast.parse(shared.read_text(encoding="utf-8"))) if shared.exists() else ()
    pairs = [pair for node in nodes if isinstance(node, ast.Dict) for pair in zip(node.keys, node.values, strict=True)]
    return {
        ast.literal_eval(k): ast.literal_eval(v) for k, v in pairs if isinstance(k, ast.Constant) and isinstance(v, ast.Constant)
    }


def documented(function: ast.FunctionDef, shared: dict[str, str]) -> set[int]:
    """Defaults of parameters that the docstring of a function lists, with its shared paragraphs."""
    text = ast.get_docstring(function) or ""
    while (filled := PLACE.sub(lambda found: shared.get(found[1], ""), text)) != text:
        text = filled
    listed = {name for line in text.splitlines() if " : " in line for name in names_of(line)}
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(positional[::-1], arguments.defaults[::-1], strict=False)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return {id(node) for argument, default in pairs if argument.arg in listed for node in ast.walk(default)}


def names_of(line: str) -> list[str]:
    """The parameters of a line such as ``epsilon, delta : float``."""
    return [name.strip() for name in line.partition(" : ")[0].split(",")]


def unnamed(path: Path) -> Iterator[tuple[int, float]]:
    """Line and value of each float literal without a named origin."""
    text = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    fine: set[int] = set()
    shared = paragraphs(path.parent)
    for scope in (tree, *(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef))):
        docstring = ast.get_docstring(scope) or "" if isinstance(scope, ast.ClassDef) else ""
        for k, node in enumerate(scope.body):
            if isinstance(node, ast.Assign | ast.AnnAssign) and explained(scope.body, k, lines, docstring):
                fine |= {id(n) for n in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            fine |= documented(node, shared)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, float)
            and id(node) not in fine
            and not is_trivial(node.value)
        ):
            yield node.lineno, node.value


def counts() -> dict[str, list[tuple[int, float]]]:
    files = sorted(p for part in map(PACKAGE.joinpath, PATHS) for p in ([part] if part.is_file() else part.rglob("*.py")))
    return {p.relative_to(PACKAGE).as_posix(): found for p in files if (found := sorted(unnamed(p)))}


def main() -> int:
    found = counts()
    allowed: dict[str, int] = json.loads(ALLOWED.read_text()) if ALLOWED.exists() else {}
    if "--list" in sys.argv:
        for name, literals in found.items():
            print(*(f"src/fattail/{name}:{line}: {value!r}" for line, value in literals), sep="\n")
    if "--write" in sys.argv:
        lower = {name: min(len(literals), allowed.get(name, 0)) for name, literals in found.items()}
        ALLOWED.write_text(json.dumps({name: count for name, count in lower.items() if count}, indent=1) + "\n")
        allowed = lower
    too_many = {name: literals for name, literals in found.items() if len(literals) > allowed.get(name, 0)}
    for name, literals in too_many.items():
        where = ", ".join(f"line {line}: {value!r}" for line, value in literals)
        print(f"{name}: {len(literals)} float literals without a name and an origin, {allowed.get(name, 0)} allowed ({where})")
    total = sum(map(len, found.values()))
    print(f"{total} float literals without a named origin, in {len(found)} files ({sum(allowed.values())} allowed)")
    return int(bool(too_many))


if __name__ == "__main__":
    sys.exit(main())
