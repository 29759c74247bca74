"""Tie proofs to the code that they are about.

    python scripts/fingerprint.py [--write]

Each ``*.proof.md`` ends with a line ``Proved for `file`, `file`: <hash>``. The hash is that of
the files' syntax trees without docstrings, so comments and formatting may change freely and
logic may not. After a change, read the proof again, correct it if necessary, and run with
``--write``.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "fattail"
LINE = re.compile(r"^Proved for (?P<files>`[^:]+`): (?P<hash>[0-9a-f]{16}|new)$", re.MULTILINE)


def fingerprint(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
                node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
        digest.update(ast.dump(tree, annotate_fields=False).encode())
    return digest.hexdigest()[:16]


def check(proof: Path) -> tuple[str, str]:
    """Recorded and current fingerprint of a proof."""
    match = LINE.search(proof.read_text())
    if match is None:
        raise ValueError(f"{proof.name} does not say what code it proves")
    files = [PACKAGE / name for name in re.findall(r"`([^`]+)`", match["files"])]
    return match["hash"], fingerprint(files)


def main() -> int:
    stale = 0
    for proof in sorted(PACKAGE.rglob("*.proof.md")):
        recorded, current = check(proof)
        if recorded != current:
            stale += 1
            print(f"{proof.relative_to(PACKAGE)}: code changed since it was proved ({recorded} -> {current})")
            if "--write" in sys.argv:
                proof.write_text(LINE.sub(lambda line, to=current: f"Proved for {line['files']}: {to}", proof.read_text()))
    return int(bool(stale) and "--write" not in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
