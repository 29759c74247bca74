"""After ``python -m fattail.warmup`` no fit waits for the compiler."""

import os
import subprocess
import sys

import pytest

FITS = """
import warnings
import numpy as np
from scipy import sparse
import fattail
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.standard_t(3, (300, 3))
y = X[:, 0] + rng.standard_t(3, 300)
for rows in (X, X.astype(np.float32), sparse.csr_array(X), sparse.csr_array(X.astype(np.float32)), np.asfortranarray(X)):
    fattail.DPMean(method="smoothed").fit(rows)
    for method in ("auto", "smoothed", "clipped", "median_of_means"):
        fattail.DPLinearRegression(method=method).fit(rows, y)
    fattail.DPSparseRegressor(sparsity=1).fit(rows, y)
for method in ("auto", "truncated", "trimmed", "median_of_means", "local"):
    fattail.DPMean(method=method).fit(X)
fattail.DPLogisticRegression().fit(X, y > 0)
fattail.DPGaussianMixture().fit(X)
fattail.DPMixtureOfRegressions().fit(X, y)
"""


def compiled(folder, *command):
    subprocess.run([sys.executable, *command], env=os.environ | {"NUMBA_CACHE_DIR": str(folder)}, check=True)
    return {path.name for path in folder.rglob("*.nbc")}


@pytest.mark.slow
def test_no_fit_compiles_after_a_warm_up(tmp_path):
    ready = compiled(tmp_path, "-m", "fattail.warmup")
    assert len(ready) > 20
    assert compiled(tmp_path, "-c", FITS) == ready
