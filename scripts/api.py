"""The public surface as text: names, signatures, and the fitted attributes and methods of every estimator.

    python scripts/api.py [--write]

The text is kept in ``tests/contracts/api.txt`` and compared by a test, so that a change of the API is seen in review. After an
intended change, run with ``--write`` and read the difference.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fattail
from fattail import catalog
from fattail.cli.inspect import made_up

SNAPSHOT = Path(__file__).resolve().parents[1] / "tests" / "contracts" / "api.txt"
# scikit-learn's, the same for every estimator; which of them exist depends on its version.
INHERITED = ("get_metadata_routing", "get_params", "set_params")


def signature(function: Any) -> str:
    """Parameters and defaults, without types."""
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(function).parameters.values()]
    return str(inspect.Signature(parameters))


def members(cls: Any) -> list[str]:
    """Public functions of a class that this library defines or documents."""
    found = inspect.getmembers(cls, lambda m: inspect.isfunction(m) or isinstance(m, property))
    names = [name for name, _ in found if not name.startswith("_") and name not in INHERITED]
    return [name for name in names if not (name.startswith("set_") and name.endswith("_request"))]


def of_estimator(entry: catalog.Entry) -> Iterator[str]:
    model = catalog.load(entry.name)(random_state=0, **{"epsilon": 50.0, **entry.example})  # so that attributes show
    yield f"class {entry.name}"
    yield from (f"    parameter {name}={value.default!r}" for name, value in inspect.signature(type(model)).parameters.items())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        model.fit(*made_up(entry, np.random.default_rng(0)))
    yield from (f"    attribute {name}" for name in sorted(vars(model)) if name.endswith("_") and not name.startswith("_"))
    yield from (f"    method {name}" for name in members(type(model)))


def surface() -> str:
    """The whole text."""
    lines: list[str] = []
    for name in sorted(set(fattail.__all__) - set(catalog.names()) - {"__version__"}):
        value = getattr(fattail, name)
        if inspect.ismodule(value):
            lines += [f"module {name}", *(f"    {n}" for n in sorted(getattr(value, "__all__", ())))]
        elif inspect.isclass(value):
            lines += [f"class {name}", *(f"    {n}" for n in members(value))]
        else:
            lines.append(f"function {name}{signature(value)}")
    for entry in catalog.entries():
        lines += of_estimator(entry)
    return "\n".join(lines) + "\n"


def main() -> int:
    now = surface()
    if "--write" in sys.argv:
        SNAPSHOT.write_text(now, encoding="utf-8")
        return 0
    same = SNAPSHOT.read_text(encoding="utf-8") == now
    print(
        "the public surface is as recorded"
        if same
        else "the public surface changed: run scripts/api.py --write and read the difference"
    )
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
