"""The same fit on an array, on files larger than memory and on a cluster: time, memory, growth, start-up.

What is compared is timed in turn within one round, and a ratio is the median over rounds of the
ratios within a round: a shared machine slows all alike. CPU seconds are those of the whole
process and hardly depend on who else is running.

    python benchmarks/scale_out.py              # all parts; writes benchmarks/results/scale_out.csv
    python benchmarks/scale_out.py parquet dask # some parts; replaces their rows
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from fattail import DPMean
from fattail.robust import Clip, Smooth
from fattail.rows.data import PrivateData
from fattail.rows.sources import Chunks, Parquet
from result_files import write_csv

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]  # else Dask takes sparse.py for a package
RESULTS = HERE / "results" / "scale_out.csv"
FIELDS = ["part", "case", "n", "d", "seconds", "cpu_seconds", "compared_with", "ratio", "cpu_ratio", "peak_mb", "rounds", "load"]
ROUNDS = 5
RULES = {"clip": Clip(bound=3.0), "smooth": Smooth(scale=20.0, beta=2.0)}

Task = Callable[[], Any]


def heavy_rows(n: int, d: int) -> np.ndarray:
    """Student-t(3) rows; some drawn, then repeated."""
    drawn = np.random.default_rng(0).standard_t(3.0, (min(n, 100_000), d))
    return np.resize(drawn, (n, d))


def race(tasks: dict[str, Task], against: str, rounds: int = ROUNDS) -> dict[str, dict[str, Any]]:
    """Seconds of each task (median) and its ratio to one of them (median of ratios within a round)."""
    wall, cpu = ({name: np.zeros(rounds) for name in tasks} for _ in range(2))
    for task in tasks.values():
        task()
    for k in range(rounds):
        for name, task in tasks.items():
            before, used = time.perf_counter(), time.process_time()
            task()
            wall[name][k], cpu[name][k] = time.perf_counter() - before, time.process_time() - used
    return {
        name: {
            "case": name,
            "seconds": np.median(wall[name]),
            "cpu_seconds": np.median(cpu[name]),
            "compared_with": against,
            "ratio": np.median(wall[name] / wall[against]),
            "cpu_ratio": np.median(cpu[name] / np.maximum(cpu[against], 1e-9)),
            "rounds": rounds,
        }
        for name in tasks
    }


def peak_mb() -> float:
    """Largest resident memory since this program started (getrusage would count its parent's)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def in_new_process(function: str, *args: Any, **environment: str) -> Any:
    """Call a function of this file in a process of its own; it prints JSON."""
    code = f"import json, scale_out; print(json.dumps(scale_out.{function}(*{args!r})))"
    env = os.environ | environment | {"PYTHONPATH": str(HERE)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


# --- files larger than memory -------------------------------------------------------------------


def write_folder(folder: Path, files: int, n: int = 1_000_000, d: int = 50) -> None:
    """One file of n rows under many names: its logical size is what is read, its disk space is not."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    X = np.random.default_rng(0).standard_t(3.0, (n, d))
    pq.write_table(pa.table({f"x{j:02}": X[:, j] for j in range(d)}), folder / "part-000.parquet")
    for k in range(1, files):
        os.link(folder / "part-000.parquet", folder / f"part-{k:03}.parquet")


def read_only(source: Parquet) -> None:
    for _ in source.read(0, source.n):
        pass


def parquet_speed(folder: str) -> list[dict[str, Any]]:
    source = Parquet(folder)
    data = PrivateData(source)
    tasks: dict[str, Task] = {"read": lambda: read_only(source)}
    tasks |= {name: lambda rule=rule: rule.mean(data) for name, rule in RULES.items()}
    return [row | {"n": data.n, "d": data.d, "peak_mb": peak_mb()} for row in race(tasks, "read", 9).values()]


def parquet_fit(folder: str, cap_gb: float) -> dict[str, Any]:
    """A whole fit with an address space that the data exceed many times."""
    resource.setrlimit(resource.RLIMIT_AS, (int(cap_gb * 2**30),) * 2)
    source = Parquet(folder)
    before, used = time.perf_counter(), time.process_time()
    DPMean(epsilon=1.0, method="smoothed", moment_bound=3.0).fit(source)  # one pass
    seconds, cpu = time.perf_counter() - before, time.process_time() - used
    return {"n": source.n, "d": source.d, "seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak_mb(), "rounds": 1}


def parquet() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folder(folder, 50)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e9
        fit = in_new_process("parquet_fit", str(folder), 3.0)
        for file in sorted(folder.iterdir())[5:]:
            file.unlink()
        rows = in_new_process("parquet_speed", str(folder))
    return [*rows, fit | {"case": f"smoothed DPMean, {size:.1f} GB of files, address space limited to 3 GB"}]


# --- a cluster ----------------------------------------------------------------------------------


def dask() -> list[dict[str, Any]]:
    """Five passes, as in a fit, over rows that lie on the workers, which have one thread each.

    CPU seconds are those of the busiest worker: what the wall clock would show with a core for each. Loops
    that touch no rows, timed in the same rounds, show how much of a second core was to be had.
    """
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    n, d, parts, passes, rounds = 10_000_000, 50, 8, 5, 9
    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": None}
    clusters = {k: LocalCluster(n_workers=k, **options) for k in (1, 2)}
    clients = {k: Client(cluster, set_as_default=False) for k, cluster in clusters.items()}
    tasks: dict[tuple[str, int], Task] = {}
    for k, client in clients.items():
        with client.as_current():
            homes = list(client.scheduler_info()["workers"]) * parts  # Dask alone may give one worker 3 parts, the other 5
            rows = [client.submit(heavy_rows, n // parts, d, workers=homes[j], pure=False) for j in range(parts)]
            X = da.concatenate([da.from_delayed(block, (n // parts, d), float) for block in rows]).persist()
            wait(X)
            del rows
            data = PrivateData(X)
            tasks |= {(name, k): lambda rule=rule, data=data: rule.mean(data) for name, rule in RULES.items()}
            tasks["loops without rows", k] = lambda client=client: client.gather(client.map(_loop, range(parts), pure=False))
            for name in (*RULES, "loops without rows"):
                tasks[name, k]()  # kernels are loaded
    measured: dict[tuple[str, int], list[tuple[float, float]]] = {key: [] for key in sorted(tasks)}
    for _ in range(rounds):
        for (name, k), times in measured.items():
            with clients[k].as_current():
                used, begin = clients[k].run(time.process_time), time.perf_counter()
                for _ in range(passes):
                    tasks[name, k]()
                wall, now = time.perf_counter() - begin, clients[k].run(time.process_time)
            times.append((wall, max(now[worker] - used[worker] for worker in used)))
    for k in clients:
        clients[k].close()
        clusters[k].close()
    lines = []
    for (name, k), times in measured.items():
        wall, cpu = np.array(times).T
        wall_of_two, cpu_of_two = np.array(measured[name, 2]).T
        row = {"case": f"{name}, {passes} passes, {k} worker{'s' * (k > 1)}", "n": n, "d": d, "rounds": rounds}
        row |= {"seconds": np.median(wall), "cpu_seconds": np.median(cpu), "compared_with": "2 workers"}
        lines.append(row | {"ratio": np.median(wall / wall_of_two), "cpu_ratio": np.median(cpu / cpu_of_two)})
    return lines


def _loop(_: int) -> int:
    return sum(range(2_000_000))


# --- growth -------------------------------------------------------------------------------------


def growth() -> list[dict[str, Any]]:
    rows = []
    pool = ThreadPoolExecutor(os.cpu_count())
    shapes = [
        (1000, 1),
        (10_000, 50),
        (100_000, 50),
        (1_000_000, 50),
        (4_000_000, 50),
        (5_000_000, 10),
        (50_000, 1000),
        (2000, 25_000),
    ]
    for n, d in shapes:
        X = heavy_rows(n, d)
        data = PrivateData(X)
        halves = np.array_split(X, os.cpu_count() or 1)
        tasks: dict[str, Task] = {"one read": lambda halves=halves: list(pool.map(np.sum, halves))}
        tasks |= {name: lambda rule=rule, data=data: rule.mean(data) for name, rule in RULES.items()}
        rows += [row | {"n": n, "d": d} for row in race(tasks, "one read").values()]
    return rows


def chunks() -> list[dict[str, Any]]:
    """The same rows in ever smaller chunks, down to a hundred rows each."""
    X = heavy_rows(1_000_000, 50)
    array = PrivateData(X)
    tasks: dict[str, Task] = {"array": lambda: RULES["clip"].mean(array)}
    for count in (1, 100, 10_000):
        data = PrivateData(Chunks(lambda count=count: iter(np.array_split(X, count)), n=len(X)))
        tasks[f"{count} chunks"] = lambda data=data: RULES["clip"].mean(data)
    return [row | {"n": X.shape[0], "d": X.shape[1]} for row in race(tasks, "array").values()]


# --- the first fit of a new process -------------------------------------------------------------


def first_fit() -> dict[str, list[float]]:
    from fattail import DPLinearRegression

    rng = np.random.default_rng(0)
    X = rng.standard_t(3.0, (2000, 5))
    times = {}
    for name in ("first", "second"):
        before, used = time.perf_counter(), time.process_time()
        DPLinearRegression(random_state=0).fit(X, X.sum(axis=1))
        times[name] = [time.perf_counter() - before, time.process_time() - used]
    return times


def startup() -> list[dict[str, Any]]:
    in_new_process("first_fit")  # compiles, if nothing has yet
    warm = [in_new_process("first_fit") for _ in range(3)]
    with tempfile.TemporaryDirectory() as empty:
        cold = [in_new_process("first_fit", NUMBA_CACHE_DIR=empty)]
    rows = []
    for case, runs in (("kernels on disk", warm), ("kernels to compile", cold)):
        for name in ("first", "second"):
            wall, cpu = np.median([run[name] for run in runs], axis=0)
            rows.append(
                {"case": f"{name} fit, {case}", "n": 2000, "d": 5, "seconds": wall, "cpu_seconds": cpu, "rounds": len(runs)}
            )
    return rows


PARTS = {part.__name__: part for part in (parquet, dask, growth, chunks, startup)}


def main(names: list[str]) -> None:
    kept = list(csv.DictReader(RESULTS.open())) if RESULTS.exists() else []
    for name in names or PARTS:
        rows = [{"part": name, **row, "load": os.getloadavg()[0]} for row in PARTS[name]()]
        kept = [row for row in kept if row["part"] != name] + rows
        write_csv(RESULTS, (dict.fromkeys(FIELDS, "") | row for row in kept))
        for row in rows:
            print({k: f"{v:.3g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
