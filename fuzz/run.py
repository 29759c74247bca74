"""Throw damaged files and hostile bits at everything that reads them.

    python fuzz/run.py [--cases N] [--only NAME ...] [--seed S]

Valid files are mutated and read through ``harnesses``; only documented errors may come out.
A fault is printed with the number of its case and the run goes on; the first one of a kind
is saved to ``fuzz/faults``. Appends one line per harness to benchmarks/results/fuzz.csv.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import random
import time
import traceback
from pathlib import Path

from harnesses import HARNESSES, mutate, seeds

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results" / "fuzz.csv"
# Of all cases; what is fast gets most of them.
SHARES = {
    "csv": 0.292,
    "csv_gz": 0.05,
    "parquet": 0.01,
    "svmlight": 0.1,
    "model": 0.25,
    "ledger": 0.003,
    "account": 0.003,
    "rows": 0.17,
    "estimators": 0.01,
    "names": 0.1,
    "card": 0.01,
    "command": 0.002,
}


def run(name: str, cases: int, seed: int) -> dict[str, object]:
    rng = random.Random(f"{seed} {name}")
    harness, pool, faults = HARNESSES[name], list(seeds()[name]), {}
    start = time.perf_counter()
    for case in range(cases):
        # Mostly one step from a valid file, sometimes further.
        data = rng.choice(pool)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            data = mutate(data, rng)
        try:
            harness(data)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            if kind not in faults:
                print(f"{name} case {case}: {kind}: {str(error)[:200]}", flush=True)
                (HERE / "faults").mkdir(exist_ok=True)
                (HERE / "faults" / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
            faults[kind] = faults.get(kind, 0) + 1
    seconds = round(time.perf_counter() - start, 1)
    return {
        "harness": name,
        "seed": seed,
        "cases": cases,
        "kinds_of_fault": len(faults),
        "faults": sum(faults.values()),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="*", default=list(HARNESSES), choices=list(HARNESSES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="replace benchmarks/results/fuzz.csv")
    options = parser.parse_args()
    results = [run(name, max(1, round(options.cases * SHARES[name])), options.seed) for name in options.only]
    for row in results:
        print(*row.values(), flush=True)
    if options.write:
        with RESULTS.open("w", newline="") as file:
            writer = csv.DictWriter(file, results[0])
            writer.writeheader()
            writer.writerows(results)
    raise SystemExit(int(any(row["faults"] for row in results)))


if __name__ == "__main__":
    main()
