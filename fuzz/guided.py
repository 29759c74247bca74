"""The same harnesses, steered by coverage: inputs that reach new lines of ours become seeds of the next.

    python fuzz/guided.py model -max_total_time=600     # options after the name are libFuzzer's
    python fuzz/guided.py --all 180                     # the readers of files in turn, 180 seconds each

Needs atheris (the extra ``fuzz``). Stops at the first fault, whose input is left in fuzz/faults;
seeds that were found are kept in fuzz/corpus and used again. ``--all`` writes
benchmarks/results/fuzz_guided.csv.
"""

from __future__ import annotations

import csv
import random
import re
import subprocess
import sys
from pathlib import Path

import atheris

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results" / "fuzz_guided.csv"
READERS = ("csv", "csv_gz", "parquet", "svmlight", "model", "ledger", "account", "names", "card")


def steer(name: str, options: list[str]) -> None:
    """Run one harness until libFuzzer's options say stop."""
    import fattail._kernels  # noqa: F401  # Numba cannot compile them once they are instrumented

    with atheris.instrument_imports(include=["fattail"]):
        from harnesses import HARNESSES, mutate, seeds

    corpus, faults = HERE / "corpus" / name, HERE / "faults"
    corpus.mkdir(parents=True, exist_ok=True)
    faults.mkdir(exist_ok=True)
    for k, data in enumerate(seeds()[name]):
        (corpus / f"valid-{k}").write_bytes(data)

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        # Half of them know JSON, tables and special floats; half are libFuzzer's, which knows what was compared.
        changed = atheris.Mutate(data, most) if seed % 2 else mutate(data, random.Random(seed))
        return changed[:most]

    atheris.Setup(
        [sys.argv[0], f"-artifact_prefix={faults}/{name}-", "-max_len=16384", "-timeout=20", *options, str(corpus)],
        HARNESSES[name],
        custom_mutator=mutator,
    )
    atheris.Fuzz()


def steer_all(seconds: str) -> int:
    """Each reader in a process of its own; the number of those with a fault."""
    rows = []
    for name in READERS:
        command = [sys.executable, __file__, name, f"-max_total_time={seconds}"]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
        cases, places = (re.findall(pattern, done.stderr) or ["0"] for pattern in (r"(?m)^#(\d+)\s", r"cov: (\d+)"))
        if done.returncode:
            print(done.stderr[-3000:])
        rows.append(
            {
                "harness": name,
                "seconds": seconds,
                "cases": cases[-1],
                "places_reached": places[-1],
                "faults": int(done.returncode != 0),
            }
        )
        print(*rows[-1].values(), flush=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return sum(row["faults"] for row in rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--all"]:
        raise SystemExit(steer_all(sys.argv[2]))
    steer(sys.argv[1], sys.argv[2:])
