"""Time of one pass of each kernel, as a ratio to one read of the data, to two BLAS passes, and to naive numpy.

Everything that is compared is timed in turn within one round, in CPU seconds of all threads, and a ratio is the
median over rounds of the ratios within a round: a shared machine slows all of them alike.  Naive numpy/scipy is timed
after it, on a fraction of the rows (its temporaries would not fit otherwise), and scaled to all of them.

    python benchmarks/speed_kernels.py            # writes benchmarks/results/speed_kernels.csv
    python benchmarks/speed_kernels.py --blocks   # prints the choice of block size
    python benchmarks/speed_kernels.py --jax-privacy PYTHON   # one more line, from an interpreter that has jax-privacy
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial as bind
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from fattail import _kernels as K
from fattail.robust import catoni
from fattail.rows.data import block_rows
from result_files import write_csv

THREADS = min(2, os.cpu_count() or 1)
SHAPES = [(1_000_000, 50), (100_000, 1000), (4000, 25_000)]
ROUNDS = 9
BETA = 2.0
RESULTS = Path(__file__).parent / "results" / "speed_kernels.csv"
POOL = ThreadPoolExecutor(THREADS)

Task = Callable[[], Any]


def heavy_rows(n: int, d: int, seed: int) -> np.ndarray:
    """Student-t(3) rows; a tenth of them drawn, then repeated, which no kernel can notice."""
    drawn = np.random.default_rng(seed).standard_t(3.0, (n // 10, d))
    X = np.empty((n, d))
    X.reshape(10, n // 10, d)[:] = drawn
    return X


def in_blocks(X: Any, part: Callable[[int, int], Any], block_bytes: int | None = None) -> list[Any]:
    """Call ``part(start, stop)`` over cache-sized blocks of rows, on all threads."""
    width = X.nbytes // len(X) if isinstance(X, np.ndarray) else X.data.nbytes // X.shape[0]
    rows = block_rows(width, block_bytes)
    n = X.shape[0]

    def work(thread: int) -> list[Any]:
        starts = range(thread * rows, n, THREADS * rows)
        return [part(start, min(start + rows, n)) for start in starts]

    return [result for results in POOL.map(work, range(THREADS)) for result in results]


def derivative(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Huber's, the n-vector that crosses from loss to kernel."""
    return np.clip(z - y, -2.0, 2.0)


def naive_smooth(V: np.ndarray, r: np.ndarray, s: float) -> np.ndarray:
    """The printed closed form over whole arrays: what a first implementation looks like."""
    a = r[:, None] * V / s
    b = np.abs(a) / np.sqrt(BETA)
    minus, plus = (np.sqrt(2) - a) / b, (np.sqrt(2) + a) / b
    tail_m, tail_p, exp_m, exp_p = ndtr(-minus), ndtr(-plus), np.exp(-(minus**2) / 2), np.exp(-(plus**2) / 2)
    c = 1.0 / np.sqrt(2 * np.pi)
    correction = 2 * np.sqrt(2) / 3 * (tail_m - tail_p) - (a - a**3 / 6) * (tail_m + tail_p)
    correction += b * c * (1 - a**2 / 2) * (exp_p - exp_m)
    correction += a * b**2 / 2 * (tail_p + tail_m + c * (plus * exp_p + minus * exp_m))
    correction += b**3 * c / 6 * ((2 + minus**2) * exp_m - (2 + plus**2) * exp_p)
    return (a * (1 - b**2 / 2) - a**3 / 6 + correction).sum(axis=0)


def naive_ball(V: np.ndarray, r: np.ndarray, radius: float) -> np.ndarray:
    U = r[:, None] * V
    return (U * np.minimum(1.0, radius / np.linalg.norm(U, axis=1))[:, None]).sum(axis=0)


def seconds_of(tasks: dict[str, Task], rounds: int = ROUNDS) -> dict[str, np.ndarray]:
    """CPU seconds by task and round: wall time would count who else is running."""
    for task in tasks.values():
        task()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            time.sleep(0.1)  # the threads of BLAS go on spinning for a while after its task, at the next one's expense
            begin = time.process_time()
            task()
            seconds[name].append(time.process_time() - begin)
    return {name: np.array(times) for name, times in seconds.items()}


def kernel_tasks(
    X: Any, r: np.ndarray, y: np.ndarray, w: np.ndarray, s: float, block_bytes: int | None = None
) -> dict[str, Task]:
    """One full pass each: the kernels alone, and fused with the dot products that a gradient needs."""
    d = X.shape[1]
    inverse, table = np.full(d, 1.0 / s), catoni.smooth_map(BETA)

    def add(kernel: Callable[..., None], *extra: Any, fused: bool = False) -> Task:
        def part(start: int, stop: int) -> np.ndarray:
            block, out = X[start:stop], np.zeros(d, dtype=np.int64)
            factor = K.Residual(w, y[start:stop], limit=2.0) if fused else r[start:stop]
            kernel(block, factor, None, inverse, *extra, out)
            return out

        return lambda: sum(in_blocks(X, part, block_bytes))

    return {
        "truncate": add(K.truncate_sums),
        "clip": add(K.clip_sums),
        "ball": add(K.ball_sums, np.sqrt(d)),
        "smooth": add(K.smooth_sums, table),
        "gradient, clip": add(K.clip_sums, fused=True),
        "gradient, ball": add(K.ball_sums, np.sqrt(d), fused=True),
        "gradient, smooth": add(K.smooth_sums, table, fused=True),
    }


def beyond_core(X: np.ndarray, r: np.ndarray, s: float) -> float:
    return float((np.abs(r[:500, None] * X[:500]) / s > catoni.smooth_map(BETA).core / catoni.smooth_map(BETA).kappa).mean())


def baseline_tasks(X: np.ndarray, r: np.ndarray, w: np.ndarray) -> dict[str, Task]:
    """One read on all threads, and the two BLAS passes of a gradient that bounds nothing."""
    factor, weights = r.astype(X.dtype), w.astype(X.dtype)

    def two_passes() -> None:
        with threadpool_limits(limits=THREADS, user_api="blas"):
            X @ weights
            factor @ X

    return {"one read": lambda: in_blocks(X, lambda a, b: X[a:b].sum()), "X @ w and X.T @ r": two_passes}


def naive_tasks(X: np.ndarray, r: np.ndarray, s: float) -> dict[str, Task]:
    return {
        "naive clip": lambda: np.clip(r[:, None] * X / s, -1.0, 1.0).sum(axis=0),
        "naive ball": lambda: naive_ball(X / s, r, float(np.sqrt(X.shape[1]))),
        "naive smooth": lambda: naive_smooth(X, r, s),
    }


def measure(n: int, d: int) -> Iterator[dict[str, Any]]:
    """Time every pass over one shape; a line of results each."""
    rng = np.random.default_rng(n)
    X, y, w = heavy_rows(n, d, seed=d), rng.standard_t(3.0, n), rng.standard_normal(d) / np.sqrt(d)
    r = derivative(X @ w, y)
    few = max(200, n // 50)
    # The papers' scale grows like sqrt(n); a scale of a thousandth puts all terms beyond the core.
    cases = [("float64", "sqrt(n)", n**0.5), ("float64", "hostile", 1e-3), ("float32", "sqrt(n)", n**0.5)]
    for dtype, regime, s in cases if d < 100 else cases[:2]:
        rows = X.astype(dtype, copy=False)
        kernels = kernel_tasks(rows, r, y, w, s)
        naive: dict[str, Task] = {}
        if regime == "hostile":
            kernels = {name: task for name, task in kernels.items() if "smooth" in name}
        elif dtype == "float64":
            naive = naive_tasks(X[:few], r[:few], s)
        with threadpool_limits(limits=1, user_api="blas"), np.errstate(all="ignore"):
            seconds = seconds_of({**baseline_tasks(rows, r, w), **kernels})
            # By themselves: they take so long and so much memory that the system puts the rows away meanwhile.
            seconds |= seconds_of(naive, rounds=2)
        for name in naive:
            seconds[name] *= n / few
        beyond = round(beyond_core(X, r, s), 4)
        for name, times in seconds.items():
            against = seconds.get("naive " + name.split(", ")[-1])
            yield {
                "n": n,
                "d": d,
                "dtype": dtype,
                "scale": regime,
                "beyond core": beyond,
                "pass": name,
                "cpu ms": round(float(np.median(times)) * 1e3, 2),
                "over one read": over(times, seconds["one read"]),
                "over X @ w and X.T @ r": over(times, seconds["X @ w and X.T @ r"]),
                "naive over this": "" if against is None else over(against, times),
                "load": round(os.getloadavg()[0], 1),
            }


def over(times: np.ndarray, others: np.ndarray) -> float:
    """Median over rounds of the ratio within a round; of medians where rounds are not the same."""
    ratio = times / others if len(times) == len(others) else np.median(times) / np.median(others)
    return round(float(np.median(ratio)), 2)


def measure_sparse(n: int, d: int, density: float) -> Iterator[dict[str, Any]]:
    """CSR blocks against one read of the stored entries and indices."""
    rng = np.random.default_rng(1)
    S = sp.random(n, d, density, format="csr", random_state=rng, data_rvs=lambda k: rng.standard_t(3.0, k))
    inverse, table = np.full(d, n**-0.5), catoni.smooth_map(BETA)

    def add(kernel: Callable[..., None], *extra: Any) -> Task:
        def part(start: int, stop: int) -> np.ndarray:
            out = np.zeros(d, dtype=np.int64)
            low, high = S.indptr[start], S.indptr[stop]
            block = (S.data[low:high], S.indices[low:high], S.indptr[start : stop + 1] - low)
            kernel(block, None, None, inverse, *extra, out)
            return out

        return lambda: sum(in_blocks(S, part))

    def read(start: int, stop: int) -> float:
        low, high = S.indptr[start], S.indptr[stop]
        return float(S.data[low:high].sum() + S.indices[low:high].sum())

    seconds = seconds_of(
        {
            "one read": lambda: in_blocks(S, read),
            "clip": add(K.clip_sums),
            "ball": add(K.ball_sums, 1.0),
            "smooth": add(K.smooth_sums, table),
        }
    )
    for name, times in seconds.items():
        yield {
            "n": n,
            "d": d,
            "dtype": f"CSR {density:.0%}",
            "scale": "sqrt(n)",
            "pass": name,
            "cpu ms": round(float(np.median(times)) * 1e3, 2),
            "over one read": over(times, seconds["one read"]),
        }


FIRST_CALL = """
import time
begin = time.process_time()
import numpy as np, scipy.special
ready = time.process_time()
from fattail import _kernels as K
from fattail.rows.data import block_rows
from fattail.robust import catoni
from result_files import write_csv
loaded = time.process_time()
V, out = np.ones((1000, 50)), np.zeros(50, dtype=np.int64)
def call():
    K.clip_sums(V, None, None, np.ones(50), out)
    K.smooth_sums(V, None, None, np.ones(50), catoni.smooth_map(2.0), out)
    K.ball_sums(V, None, None, np.ones(50), 1.0, out)
call()
first = time.process_time()
call()
print(loaded - ready, first - loaded, time.process_time() - first)
"""


def first_call() -> Iterator[dict[str, Any]]:
    """Start-up of a new process whose compiled kernels are already on disk."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    command = [sys.executable, "-c", FIRST_CALL]
    runs = [[float(x) for x in subprocess.check_output(command, env=env).split()] for _ in range(6)]
    names = ("import of the kernels", "first clip, smooth and ball", "second")
    for name, value in zip(names, np.median(runs[1:], axis=0), strict=True):
        yield {"n": 1000, "d": 50, "dtype": "float64", "pass": f"new process: {name}", "cpu ms": round(float(value) * 1e3, 2)}


JAX_PASS = "gradient, ball, by jax-privacy"
JAX_PRIVACY = """
import time
import numpy as np, jax
jax.config.update("jax_enable_x64", True)
from jax_privacy import clipped_grad
n, d = 1_000_000, 50
rng = np.random.default_rng(d)
X, y, w = np.resize(rng.standard_t(3.0, (n // 10, d)), (n, d)), rng.standard_t(3.0, n), np.zeros(d)
loss = lambda w, x, y: 0.5 * (x @ w - y) ** 2
gradient = jax.jit(clipped_grad(loss, l2_clip_norm=d**0.5, batch_argnums=(1, 2), keep_batch_dim=False))
rows = [jax.device_put(a) for a in (w, X, y)]
gradient(*rows).block_until_ready()
for _ in range(7):
    begin = time.process_time()
    X.sum()
    read = time.process_time()
    gradient(*rows).block_until_ready()
    print(read - begin, time.process_time() - read)
"""


def jax_privacy(python: str) -> dict[str, Any]:
    """Gradients clipped row by row by jax-privacy 2.0, against one read in the same process."""
    read, passed = np.array(subprocess.check_output([python, "-c", JAX_PRIVACY]).split(), dtype=float).reshape(-1, 2).T
    line = {"n": 1_000_000, "d": 50, "dtype": "float64", "pass": JAX_PASS}
    return line | {"cpu ms": round(float(np.median(passed)) * 1e3, 2), "over one read": over(passed, read)}


def choose_block(n: int, d: int) -> None:
    """Print, by block size, the ratio to one read (its median over block sizes)."""
    rng = np.random.default_rng(n)
    X, y, w = heavy_rows(n, d, seed=d), rng.standard_t(3.0, n), rng.standard_normal(d) / np.sqrt(d)
    r = derivative(X @ w, y)
    tasks: dict[str, Task] = {}
    for size in (1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 23):
        every = kernel_tasks(X, r, y, w, n**0.5, size)
        tasks[f"read {size >> 10}K"] = bind(in_blocks, X, lambda a, b: X[a:b].sum(), size)
        tasks[f"smooth {size >> 10}K"] = every["gradient, smooth"]
        tasks[f"ball {size >> 10}K"] = every["gradient, ball"]
    with threadpool_limits(limits=1, user_api="blas"):
        seconds = seconds_of(tasks)
    read = np.median([times for name, times in seconds.items() if name.startswith("read")], axis=0)
    for kind in ("read", "smooth", "ball"):
        print(n, d, kind, {name.split()[1]: over(t, read) for name, t in seconds.items() if name.startswith(kind)}, flush=True)


def main() -> None:
    if "--blocks" in sys.argv:
        for n, d in SHAPES:
            choose_block(n, d)
        return
    before = list(csv.DictReader(RESULTS.open())) if RESULTS.exists() else []
    lines: list[dict[str, Any]]
    if "--jax-privacy" in sys.argv:
        line = jax_privacy(sys.argv[-1])
        lines = [*(old for old in before if old["pass"] != JAX_PASS), line]
        print(*line.values(), sep=", ")
    else:
        lines = [old for old in before if old["pass"] == JAX_PASS]  # until it is measured again
        for source in [*(measure(n, d) for n, d in SHAPES), measure_sparse(200_000, 5000, 0.01), first_call()]:
            for line in source:
                print(*line.values(), sep=", ", flush=True)
                lines.append(line)
    write_csv(RESULTS, lines, digits=None)


if __name__ == "__main__":
    main()
