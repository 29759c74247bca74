"""Does the time of a fit tell one row? Measured, not promised.

    python benchmarks/timing.py

Each method of the registry is fitted in turn on a dataset and on a neighbor with one hostile
row (extreme and subnormal numbers), with the same noise. Processor times are compared by
their medians and by a rank test. Writes benchmarks/results/timing.csv.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
from scipy import stats

import fattail
from result_files import write_csv

RESULTS = Path(__file__).parent / "results" / "timing.csv"
FITS, ROWS = 25, 2000
HOSTILE = np.array([1e308, 5e-324, -1e308])


def dataset(estimator: str) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, (ROWS, 3))
    if estimator in ("DPMean", "DPGaussianMixture"):
        return (X,)
    y = X @ [2.0, -1.0, 0.0] + rng.standard_t(2, ROWS)
    return X, (y > 0).astype(int) if estimator in ("DPLogisticRegression", "DPSparseClassifier") else y


def measure(estimator: str, method: str) -> dict[str, object]:
    data = dataset(estimator)
    neighbor = tuple(a.copy() for a in data)
    neighbor[0][ROWS // 2] = HOSTILE
    options = {"sparsity": 2} if "Sparse" in estimator else {}
    times: tuple[list[float], list[float]] = ([], [])
    for seed in range(-1, FITS):
        for arrays, seen in zip((data, neighbor), times, strict=True):
            model = getattr(fattail, estimator)(method=method, random_state=max(seed, 0), **options)
            start = time.process_time()
            model.fit(*arrays)
            if seed >= 0:  # the first fit warms up
                seen.append(time.process_time() - start)
    middle = [float(np.median(seen)) for seen in times]
    return {
        "estimator": estimator,
        "method": method,
        "rows": ROWS,
        "fits": FITS,
        "milliseconds": round(1e3 * middle[0], 2),
        "neighbor_over_data": round(middle[1] / middle[0], 3),
        "p_value": f"{stats.mannwhitneyu(*times).pvalue:.2g}",
    }


def main() -> None:
    methods = sorted({(e, m.name) for m in fattail.registry() for e in m.estimators})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fattail.UtilityWarning)
        rows = []
        for name in methods:
            rows.append(measure(*name))
            print(*rows[-1].values(), flush=True)
    write_csv(RESULTS, rows, digits=None)


if __name__ == "__main__":
    main()
