"""Constants of the default mean, tried on the tuning laws.

    python benchmarks/tuning/columns.py SHARES.counts_many 0.2 0.25 0.3 [--trials 30]

The first argument names a constant of `fattail.columns.plan.SHARES`, `fattail.columns.location.GRID` (or `DENSE_GRID`),
`fattail.columns.description.READING`, `fattail.columns.looks.LOOKS`, `fattail.columns.closer.HARD`,
`fattail.columns.evidence.RATES`, `fattail.columns.hidden.HIDDEN`, `fattail.columns.alike.ALIKE`, `fattail.columns.sides.SIDES`,
`fattail.columns.ends.RULES` or `fattail.columns.tail_shapes.PRIOR`; the others are values to try. For each value it prints, over
the laws ``column_laws.TUNING`` (never those of the reports), by range of n epsilon: the geometric mean of the error over a tuned
clip's, the median width, average coverages, and how many cells cover less than .9 or have an error above 1.5.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from column_laws import TUNING
from columns import cells
from fattail.columns import alike, closer, description, ends, evidence, hidden, location, looks, plan, sides, tail_shapes, tails

HOMES = {
    "SHARES": plan,
    "GRID": location,
    "DENSE_GRID": location,
    "READING": description,
    "LOOKS": looks,
    "HARD": closer,
    "RATES": evidence,
    "HIDDEN": hidden,
    "ALIKE": alike,
    "RULES": ends,
    "SIDES": sides,
    "PRIOR": tail_shapes,
}
CELLS = (
    (300, 2.0),
    (1_000, 1.0),
    (3_000, 0.5),
    (10_000, 0.2),
    (3_000, 2.0),
    (30_000, 0.2),
    (10_000, 1.0),
    (30_000, 2.0),
    (100_000, 0.5),
)
RANGES = ((0, 700), (700, 2_000), (2_000, 20_000), (20_000, 1e9))


def set_constant(name: str, value: float) -> None:
    home, field = name.split(".")
    changed = dataclasses.replace(getattr(HOMES[home], home), **{field: value})
    for module in (*HOMES.values(), tails):  # whoever imported it holds it under the same name
        if hasattr(module, home):
            setattr(module, home, changed)
    for cached in (evidence.places, tail_shapes.bank, description.evidence_without_bulk, description.evidence_beyond_bulk):
        cached.cache_clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("constant")
    parser.add_argument("values", type=float, nargs="+")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--every", type=int, default=1, help="use every so many-th law")
    options = parser.parse_args()
    for value in options.values:
        set_constant(options.constant, value)
        records = []
        for name in list(TUNING)[:: options.every]:
            for n, epsilon in CELLS:
                records += cells(name, TUNING, (n,), (epsilon,), options.trials)
        for low, high in RANGES:
            part = [r for r in records if low <= r["n"] * r["epsilon"] < high and r["none"] < 0.5 and np.isfinite(r["ratio"])]
            ratio = np.exp(np.mean(np.log([max(r["ratio"], 0.05) for r in part])))
            cover = np.nanmean([r["coverage"] for r in part]), np.mean([r["sample coverage"] for r in part])
            poor = sum(min(r["coverage"], r["sample coverage"]) < 0.9 for r in part), sum(r["ratio"] > 1.5 for r in part)
            width = np.median([r["width"] for r in part])
            print(
                f"{options.constant}={value:g}  n epsilon {low:>6g}..  {len(part)} cells  ratio {ratio:.3f}  width {width:.2f}  "
                f"coverage {cover[0]:.3f} {cover[1]:.3f}  below .9: {poor[0]}  above 1.5: {poor[1]}  "
                f"far {sum(r['far'] for r in part)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
