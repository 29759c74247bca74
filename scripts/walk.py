"""Walk one fit from the call to the fitted attribute, and count its hops.

    python scripts/walk.py [--tree]

A hop is a step into another function of the package; dunder methods, lambdas and comprehensions do not count. ``distinct`` counts
each function once, ``longest`` is the deepest chain of calls, ``files`` counts pairs of caller and called in different files, and
``upwards`` those that go into a layer above (``scripts/layers.py``): functions that were passed down to be called with the rows.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import fattail
from layers import RANK, layer_of

PACKAGE = Path(fattail.__file__).parent


@dataclass
class Walk:
    """Hops seen while a function runs."""

    stack: list[tuple[str, str]] = field(default_factory=list)
    hops: list[tuple[int, tuple[str, str], tuple[str, str]]] = field(default_factory=list)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(str(PACKAGE)):
            return
        name = frame.f_code.co_qualname
        if name.endswith(">") or name.rpartition(".")[2].startswith("__"):
            return
        here = Path(frame.f_code.co_filename).relative_to(PACKAGE).with_suffix("").as_posix(), name
        if event == "return":
            if self.stack and self.stack[-1] == here:
                self.stack.pop()
            return
        if self.stack:
            self.hops.append((len(self.stack), self.stack[-1], here))
        self.stack.append(here)

    def of(self, function: Callable[[], Any]) -> Walk:
        sys.setprofile(self)
        try:
            function()
        finally:
            sys.setprofile(None)
        return self

    @property
    def tree(self) -> list[tuple[int, tuple[str, str]]]:
        """Each function at the place where it is first entered."""
        seen: set[tuple[str, str]] = set()
        found = []
        for depth, _, to in self.hops:
            if to not in seen:
                seen.add(to)
                found.append((depth, to))
        return found

    def summary(self) -> dict[str, int]:
        pairs = dict.fromkeys((a, b) for _, a, b in self.hops)
        return {
            "distinct": len(self.tree),
            "longest": max(depth for depth, *_ in self.hops),
            "files": sum(a[0] != b[0] for a, b in pairs),
            "upwards": sum(rank(a[0]) > rank(b[0]) for a, b in pairs),
        }


def rank(file: str) -> int:
    """The layer of a file; lower layers have higher numbers."""
    return RANK.get(layer_of(file.replace("/", ".")), -1)


def walks() -> dict[str, Callable[[], Any]]:
    """Three fits of 2,000 rows in memory."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, (2000, 3))
    y = X @ [1.0, -1.0, 0.0] + rng.standard_t(3, 2000)
    return {
        'DPMean(method="smoothed").fit': lambda: fattail.DPMean(method="smoothed", random_state=0).fit(X),
        "DPLinearRegression().fit": lambda: fattail.DPLinearRegression(random_state=0).fit(X, y),
        "DPSparseRegressor().fit": lambda: fattail.DPSparseRegressor(random_state=0).fit(X, y),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    for name, fit in walks().items():
        fit()  # imports, caches and compilers first
        walk = Walk().of(fit)
        print(name, *(f"{key} {value}" for key, value in walk.summary().items()), sep=", ")
        if "--tree" in sys.argv:
            for depth, (file, function) in walk.tree:
                print(f"{'  ' * depth}{function}  [{file}.py]")


if __name__ == "__main__":
    main()
