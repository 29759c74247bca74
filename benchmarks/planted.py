"""Plant faults in the library, one at a time, and see whether the recorder's attacks notice them.

    python benchmarks/planted.py [--only NAME]

A fault (``planted.toml``) replaces some lines of a module, in memory: no file changes. It names the attack that should notice
it, a target of ``audit_recorder.py`` or a question of ``audit_statistics.py``. ``results/planted.csv`` has a line for each fault:

- *caught*: a violation, with the neighbors that showed it;
- *refused*: every fit raises, so the fault cannot go unnoticed;
- *missed*: none of the neighbors showed it in ``ROUNDS`` rounds. ``guard`` is a test that fails, where there is one.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import csv
import importlib.abc
import importlib.machinery
import importlib.util
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "planted.csv"
FAULTS: dict[str, dict[str, Any]] = {f["name"]: f for f in tomllib.loads((HERE / "planted.toml").read_text())["fault"]}
ROUNDS = 3


class Planted(importlib.machinery.SourceFileLoader):
    """Compiles a module with some of its lines replaced; nothing is read from or written to a cache."""

    edits: tuple[dict[str, str], ...] = ()

    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text(encoding="utf-8")
        for edit in self.edits:
            if text.count(edit["old"]) != 1:
                raise LookupError(f"{edit['old']!r} occurs {text.count(edit['old'])} times in {self.path}")
            text = text.replace(edit["old"], edit["new"])
        return compile(text, self.path, "exec")


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that a fault changes."""

    def __init__(self, fault: dict[str, Any]) -> None:
        self.edits = fault["edit"]

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        edits = tuple(edit for edit in self.edits if f"fattail.{edit['module']}" == fullname)
        found = importlib.machinery.PathFinder.find_spec(fullname, path) if edits else None
        if found is None or found.origin is None:
            return None
        loader = Planted(fullname, found.origin)
        loader.edits = edits
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=loader)


def halved(bounded: Any) -> Any:
    """The same value with half of its sensitivity; planted lines use it as a builtin."""
    b, value = bounded, bounded._value  # noqa: SLF001
    return type(b)(value, b.raw_sensitivity / 2, b.norm, b.fold, unit=b.unit, offset=b.offset, monotone=b.monotone)


def attacks(wanted: str) -> Iterator[tuple[str, Any]]:
    """Neighbors of the attack of this name, and what was found."""
    import audit_recorder as recorder
    import audit_statistics as statistics

    for target in recorder.targets():
        for name, ours, theirs in recorder.pairs(target) if target.name == wanted else ():
            yield name, recorder.audited(target, ours, theirs)
    for question in statistics.questions():
        for name, ours, theirs in statistics.pairs(question) if question.name == wanted else ():
            yield name, statistics.audited(question, ours, theirs)


def outcome(fault: dict[str, Any]) -> tuple[str, str]:
    """What became of a fault in this process, and what showed it."""
    builtins.halved = halved  # type: ignore[attr-defined]
    sys.meta_path.insert(0, Finder(fault))
    tried = refused = 0
    for _ in range(ROUNDS):
        for name, finding in attacks(fault["attack"]):
            tried += 1
            if finding.violations:
                return "caught", f"{name}: {finding.violations[0][:100]}"
            refused += finding.claim is None
    if not tried:
        raise LookupError(f"there is no attack {fault['attack']!r}")
    return "refused" if refused == tried else "missed", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="faults whose name contains this; nothing is written")
    parser.add_argument("--one", action="store_true", help="plant the one fault with this name in this process")
    options = parser.parse_args()
    name = options.only
    if options.one:
        with contextlib.redirect_stdout(sys.stderr):
            found = outcome(FAULTS[name])
        print(*found, sep="\t")
        return
    lines = []
    for fault in FAULTS.values():
        if name not in fault["name"]:
            continue
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, __file__, "--one", "--only", fault["name"]], capture_output=True, text=True, check=False
        )
        found, by = done.stdout.rstrip("\n").split("\t") if done.returncode == 0 else ("error", done.stderr[-300:])
        lines.append([fault["kind"], fault["name"], fault["attack"], found, by, fault.get("guard", "")])
        print(*lines[-1], f"{time.perf_counter() - start:.0f} s", sep=" | ", flush=True)
    if not name:
        with RESULTS.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["kind", "fault", "attack", "outcome", "by", "guard"])
            writer.writerows(lines)


if __name__ == "__main__":
    main()
