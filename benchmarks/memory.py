"""Peak memory of a fit on Parquet files, against their size: it should not grow.

    python benchmarks/memory.py            # 0.5 and 2 GB; writes benchmarks/results/memory.json
    python benchmarks/memory.py 0.5 2 8    # sizes in GB

A fit runs in a process of its own on one uncompressed file with row groups of a million rows, the worst case for a
reader: twenty float64 columns and a response; once as a fit in Python, once as a command on a terminal. The peak is that
of the resident memory (VmHWM). For the command, ``first_sign_seconds`` is when the first character of its progress came.
"""

from __future__ import annotations

import json
import math
import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results" / "memory.json"
LIMIT_MB = 700
COLUMNS, ROW_GROUP = 20, 1_000_000

FIT = """
import json, sys, time
from pathlib import Path
import fattail, fattail.cli

path, kind, report = sys.argv[1:]
start, cpu = time.perf_counter(), time.process_time()
if kind == "python":
    fattail.DPLinearRegression(epsilon=1.0, random_state=0).fit(path, y="y")
else:
    assert fattail.cli.main(["fit", path, "--model", "linear", "--target", "y", "--seed", "0"]) == 0
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
(line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
found = {"peak_mb": int(line.split()[1]) / 1024, "seconds": seconds, "cpu_seconds": cpu}
Path(report).write_text(json.dumps({name: round(value, 1) for name, value in found.items()}))
"""


def write(path: Path, gigabytes: float) -> int:
    """Heavy-tailed rows and a linear response; returns the number of rows.

    All row groups hold the same rows: what is measured is memory, and to draw a billion numbers takes longer than the fits.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    n, slope = int(gigabytes * 1e9 / 8 / (COLUMNS + 1)), rng.normal(size=COLUMNS)
    names = [*(f"x{j:02}" for j in range(COLUMNS)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
        X = rng.standard_t(3.0, (min(ROW_GROUP, n), COLUMNS))
        y = X @ slope + rng.standard_t(2.5, len(X))
        group = pa.Table.from_arrays([*(pa.array(X[:, j]) for j in range(COLUMNS)), pa.array(y)], schema=schema)
        for first in range(0, n, ROW_GROUP):
            file.write_table(group.slice(0, min(ROW_GROUP, n - first)))
    return n


def run(path: Path, kind: str) -> dict[str, float]:
    """One fit in a process of its own, on a terminal of its own, so that progress is shown."""
    report = path.with_name("report.json")
    terminal, other = pty.openpty()
    start, first = time.perf_counter(), None
    process = subprocess.Popen([sys.executable, "-c", FIT, str(path), kind, str(report)], stdout=other, stderr=other)
    os.close(other)
    shown = b""
    with suppress(OSError):  # the terminal is gone with the process
        while data := os.read(terminal, 1 << 16):
            first = time.perf_counter() - start if first is None else first
            shown = (shown + data)[-4096:]
    os.close(terminal)
    if process.wait():
        raise RuntimeError(shown.decode(errors="replace"))
    return json.loads(report.read_text()) | ({"first_sign_seconds": round(first or math.inf, 1)} if kind == "command" else {})


def measure(gigabytes: float) -> Iterator[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        n = write(path, gigabytes)
        about = {"file_mb": round(path.stat().st_size / 1e6), "rows": n}
        for kind in ("python", "command"):
            yield {"kind": kind, **about, **run(path, kind)}


def main() -> int:
    sizes = [float(size) for size in sys.argv[1:]] or [0.5, 2.0]
    about = {"command": f"python benchmarks/memory.py {' '.join(map(str, sizes))}", "limit_mb": LIMIT_MB, "cores": os.cpu_count()}
    measured: list[dict[str, object]] = []
    for size in sizes:
        for fit in measure(size):
            measured.append(fit)
            print(fit, flush=True)
            RESULTS.write_text(json.dumps(about | {"fits": measured}, indent=2) + "\n")
    return int(any(fit["peak_mb"] > LIMIT_MB for fit in measured))


if __name__ == "__main__":
    sys.exit(main())
