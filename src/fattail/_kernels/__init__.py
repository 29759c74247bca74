"""Compiled sums over one block of rows: bounded, quantized to integers, exact in any order.

A block is a float32 or float64 array in C or Fortran order, `Apart` columns, or the three arrays of a CSR matrix.  Callers cut
the data into blocks of about a megabyte and run them on threads: the kernels are serial, release
the lock, and *add* to an int64 array, so blocks, threads and order do not change a result.

Conventions: ``r`` holds one factor per row (``None``: ones; `Residual`: those of a linear model), ``c``
one center per column (``None``: zeros), ``inv_s`` one inverse scale per column; the argument of a map is
``(r_i V_ij - c_j) * inv_s_j``.  A term is an integer in ``[-2**30, 2**30]`` for *any* bits of the
input, NaN counting as 0.
"""

from __future__ import annotations

from .blocks import Apart
from .bounded_sums import ball_sums, clip_sums, exact_gram, smooth_sums, truncate_sums
from .cells import (
    cell_counts,
    column_log_cells,
    column_log_histogram,
    grid_cells,
    log_edges,
    magnitude_cells,
    magnitude_edges,
    octave_cells,
    person_cells,
)
from .row_values import (
    Factors,
    Residual,
    dot,
    factors,
    product,
    row_dots,
    row_norms,
    shaped_rows,
    standard_rows,
    wave_lists,
    waves_of,
)
from .trimmed import exact_sum, smooth_sensitivity

__all__ = [
    "UNIT",
    "Apart",
    "Factors",
    "Residual",
    "ball_sums",
    "cell_counts",
    "clip_sums",
    "column_log_cells",
    "column_log_histogram",
    "dot",
    "exact_gram",
    "exact_sum",
    "factors",
    "grid_cells",
    "log_edges",
    "magnitude_cells",
    "magnitude_edges",
    "octave_cells",
    "person_cells",
    "product",
    "row_dots",
    "row_norms",
    "shaped_rows",
    "smooth_sensitivity",
    "smooth_sums",
    "standard_rows",
    "truncate_sums",
    "wave_lists",
    "waves_of",
]

UNIT = 2**30
"""Integer units of the largest term."""
