"""Write the figures of a benchmark, one line of a CSV file per cell."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], *, digits: int | None = 4) -> None:
    """Write rows with the same keys; floats with this many significant digits, all of them if None. No rows, no file."""
    rows = list(rows)
    if not rows:
        return
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), restval="")
        writer.writeheader()
        writer.writerows({key: _shown(value, digits) for key, value in row.items()} for row in rows)


def _shown(value: Any, digits: int | None) -> Any:
    return f"{value:.{digits}g}" if digits is not None and isinstance(value, float) else value
