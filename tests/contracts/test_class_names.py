"""One word, one meaning: no two classes of the package share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import fattail

PACKAGE = Path(fattail.__file__).parent


def classes() -> dict[str, list[str]]:
    """Files that define each class."""
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(PACKAGE).as_posix())
    return found


def test_no_two_classes_share_a_name():
    assert {name: files for name, files in classes().items() if len(files) > 1} == {}
