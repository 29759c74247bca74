"""Compile the kernels once per machine: ``python -m fattail.warmup``.

The kernels are compiled for the processor at hand when they are first called, which takes some
seconds, and kept on disk, beside the package or in numba's cache folder (``NUMBA_CACHE_DIR``).
Later processes load them in a fraction of a second. Compiled code cannot be shipped in a wheel: its
cache is valid for one processor and one installation. Run this after installing, for instance as the last step of a container
image; then no fit waits for the compiler.
"""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse

from fattail import _kernels
from fattail._kernels.groups import group_cells
from fattail.columns.evidence import CountNoise
from fattail.columns.tail_shapes import EDGES
from fattail.columns.tails import Posterior
from fattail.robust import Ball, Clip, Gram, Smooth, Trimmed
from fattail.rows.data import PrivateData

__all__ = ["warmup"]


def warmup() -> float:
    """Call every kernel with every type of rows that users may have; return the seconds it took."""
    began = time.perf_counter()
    for dtype in (np.float64, np.float32):
        X = np.ones((200, 3), dtype=dtype)
        wide = np.ones((40, 64), dtype=dtype)
        for rows in (X, wide, np.asfortranarray(X), sparse.csr_array(X)):
            data = PrivateData(rows)
            for rule in (Clip(), Smooth(), Ball(), Gram()):
                rule.mean(data, lambda block: (block.rows, np.ones(len(block))))
                rule.mean(data, lambda block: (block.rows, _kernels.Residual(np.ones(block.rows.shape[1]), np.ones(len(block)))))
            for rule in (Clip(center=1.0), Smooth(center=1.0)):  # with a center they are compiled separately
                rule.mean(data)
        _kernels.dot(X, np.ones(3))
        _kernels.row_dots(X, X)
        _kernels.product(X, np.eye(3))
        for steps in (1, 2):  # whole octaves have a kernel of their own
            _kernels.column_log_histogram(X, None, -4, 8, steps, np.zeros((3, 2, 8), dtype=np.int64))
        _kernels.column_log_cells(X, None, -4, 8, 1)
        _kernels.waves_of(X, np.ones(1))
        _kernels.standard_rows(X, np.zeros(3), np.ones(3), 1.0)
        _kernels.shaped_rows(X, np.zeros(3), np.ones(3), 1.0, np.eye(4))
        _kernels.grid_cells(X, np.zeros(3), np.ones(3), 8)
        _kernels.octave_cells(X, -4, 8)
        _kernels.magnitude_cells(X, -4, 8, 2, 4, 1)
    _kernels.row_norms(sparse.csr_array(X.astype(np.float64)), None, np.ones(3), np.zeros(200))
    for codes in (np.zeros((40, 3)), np.zeros((40, 3), dtype=np.int16)):
        _kernels.cell_counts(codes, np.zeros((3, 8), dtype=np.int64))
    group = np.zeros(40, dtype=np.int64)
    group_cells(np.ones(40), group, group, 0.0, 1.0, np.zeros((1, 3), dtype=np.int64))
    Posterior.of(np.ones(EDGES.size), 40.0, CountNoise(1.0, laplace=True), 1.0, 1.0).tail(1.0)
    Trimmed(2, 1.0, 0.1).mean(PrivateData(np.ones((40, 3))))
    return time.perf_counter() - began


if __name__ == "__main__":
    print(f"kernels ready after {warmup():.1f} s")
