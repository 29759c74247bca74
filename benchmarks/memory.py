"""Peak memory of a fit on Parquet files, against their size: it should not grow.

    python benchmarks/memory.py            # 0.5 and 2 GB; writes benchmarks/results/memory.json
    python benchmarks/memory.py 0.5 2 8    # sizes in GB

A fit runs in a process of its own on one uncompressed file with row groups of a million rows, the worst case for a
reader: twenty float64 columns and a response. The peak is that of the resident memory (VmHWM).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results" / "memory.json"
LIMIT_MB = 700
COLUMNS, ROW_GROUP = 20, 1_000_000

FIT = """
import json, sys, time
from pathlib import Path
import fattail

def memory():
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024

start, cpu = time.perf_counter(), time.process_time()
fattail.DPLinearRegression(epsilon=1.0, random_state=0).fit(sys.argv[1], y="y")
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
found = {"peak_mb": memory(), "seconds": seconds, "cpu_seconds": cpu}
print(json.dumps({name: round(value) for name, value in found.items()}))
"""


def write(path: Path, gigabytes: float) -> int:
    """Heavy-tailed rows and a linear response; returns the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    n, slope = int(gigabytes * 1e9 / 8 / (COLUMNS + 1)), rng.normal(size=COLUMNS)
    names = [*(f"x{j:02}" for j in range(COLUMNS)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
        for first in range(0, n, ROW_GROUP):
            X = rng.standard_t(3.0, (min(ROW_GROUP, n - first), COLUMNS))
            y = X @ slope + rng.standard_t(2.5, len(X))
            file.write_table(pa.Table.from_arrays([*(pa.array(X[:, j]) for j in range(COLUMNS)), pa.array(y)], schema=schema))
    return n


def measure(gigabytes: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        n = write(path, gigabytes)
        run = subprocess.run([sys.executable, "-c", FIT, str(path)], capture_output=True, text=True, check=True)
        return {"file_mb": round(path.stat().st_size / 1e6), "rows": n, **json.loads(run.stdout)}


def main() -> int:
    sizes = [float(size) for size in sys.argv[1:]] or [0.5, 2.0]
    measured = [measure(size) for size in sizes]
    RESULTS.write_text(json.dumps({"limit_mb": LIMIT_MB, "cores": os.cpu_count(), "fits": measured}, indent=2) + "\n")
    for fit in measured:
        print(fit)
    return int(any(fit["peak_mb"] > LIMIT_MB for fit in measured))


if __name__ == "__main__":
    sys.exit(main())
