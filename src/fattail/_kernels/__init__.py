"""Compiled sums over one block of rows: bounded, quantized to integers, exact in any order.

A block is a float32 or float64 array in C or Fortran order, `Apart` columns, or the three arrays of a CSR matrix.  Callers cut
the data into blocks of about a megabyte and run them on threads: the kernels are serial, release
the lock, and *add* to an int64 array, so blocks, threads and order cannot change a result.

Conventions: ``r`` holds one factor per row (``None``: ones; `Residual`: those of a linear model), ``c``
one center per column (``None``: zeros), ``inv_s`` one inverse scale per column; the argument of a map is
``(r_i V_ij - c_j) * inv_s_j``.  A term is an integer in ``[-2**30, 2**30]`` for *any* bits of the
input, NaN counting as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import columns, dense, histogram, products, smooth, sparse, standard, waves
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
    "log_histogram",
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
    "waves_of",
]

UNIT = 2**30
"""Integer units of the largest term."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = Any  # a 2-D float array, `Apart`, or (data, indices, indptr)

_NARROW = 32  # columns below which a row is too short for vector registers
_WIDE = 128
_TALL = 128  # rows from which on columns are swept as they are


@dataclass(frozen=True, eq=False)
class Apart:
    """Contiguous columns of one float type that lie here and there, by their addresses.

    Whoever needs them side by side takes ``np.asarray`` of it, which calls ``copy``; that also keeps
    the memory alive.
    """

    places: Ints
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    copy: Callable[[], NDArray[Any]]

    @classmethod
    def of(cls, block: NDArray[Any]) -> Apart:
        """The columns of an array in Fortran order."""
        places = block.ctypes.data + block.strides[1] * np.arange(block.shape[1])
        return cls(places, (block.shape[0], block.shape[1]), block.dtype, lambda: block)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.copy(), dtype=dtype)


class _Alias:
    """The same memory without the read-only flag; kernels never write to their inputs."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Give the compiler one kind of array: it would compile anew for strided and read-only ones."""
    array = np.ascontiguousarray(array)
    return array if array.flags.writeable else np.asarray(_Alias(array))


def _parts(block: Block) -> tuple[NDArray[Any], ...] | None:
    """Return the arrays of a CSR block, None for a dense one."""
    if isinstance(block, np.ndarray | Apart):
        return None
    parts = block if isinstance(block, tuple) else (block.data, block.indices, block.indptr)
    return tuple(_plain(part) for part in parts)


def _vector(value: Floats | None, size: int, default: float) -> Floats:
    return np.full(size, default) if value is None else _plain(np.asarray(value, dtype=np.float64))


def _by_columns(block: NDArray[Any] | Apart) -> Apart | None:
    """The columns of a block that lies in memory column by column, and long enough ones."""
    if len(block) < _TALL:
        return None
    if isinstance(block, Apart):
        return block
    return Apart.of(block) if block.flags.f_contiguous and not block.flags.c_contiguous else None


@dataclass(frozen=True, eq=False)
class Residual:
    """Factors ``V w + level - y`` of the rows, clipped to ``+-limit``: the derivative of a squared or Huber loss.

    Kernels that find them themselves, row by row, read the rows once.
    """

    w: Floats
    y: NDArray[Any]
    level: float = 0.0
    limit: float = math.inf

    def factors(self, block: Block) -> Floats:
        """The same factors as an array."""
        with np.errstate(all="ignore"):
            return np.asarray(np.clip(dot(block, self.w) + self.level - self.y, -self.limit, self.limit))


Factors = Floats | Residual | None


def factors(block: Block, r: Factors) -> Floats | None:
    """Return the factors of the rows as an array; None is ones."""
    return r.factors(block) if isinstance(r, Residual) else r


def _sum_columns(
    dense_kernel: Any,
    column_kernel: Any,
    sparse_kernel: Any,
    block: Block,
    r: Factors,
    c: Floats | None,
    inv_s: Floats,
    extra: Sequence[Any],
    out: Ints,
) -> None:
    d = len(out)
    c, inv_s = None if c is None else _vector(c, d, 0.0), _vector(inv_s, d, 1.0)
    parts = _parts(block)
    if parts is not None:
        sparse_kernel(*parts, _vector(factors(block, r), len(parts[2]) - 1, 1.0), c, inv_s, *extra, out)
        return
    rows = len(block)
    apart = _by_columns(block)
    if apart is not None:
        like = np.empty(0, dtype=apart.dtype)
        column_kernel(apart.places, like, _vector(factors(block, r), rows, 1.0), c, inv_s, *extra, out)
        return
    block = _plain(block)
    whole = 0
    if d < _NARROW <= rows:  # lay several rows side by side, so that the inner loop is long
        r = factors(block, r)
        fold = _WIDE // d
        whole = rows - rows % fold
        with np.errstate(all="ignore"):
            wide = block[:whole] if r is None else block[:whole] * r[:whole, None]
        wide = wide.reshape(-1, fold * d)
        sums = np.zeros(fold * d, dtype=np.int64)
        center = None if c is None else np.tile(c, fold)
        dense_kernel(wide, np.ones(len(wide)), None, None, 0.0, 0.0, center, np.tile(inv_s, fold), *extra, sums)
        out += sums.reshape(fold, d).sum(axis=0)
    if whole == rows:
        return
    if isinstance(r, Residual):
        found = (np.empty(rows), _vector(r.w, d, 0.0), _vector(r.y, rows, 0.0), float(r.level), float(r.limit))
    else:
        found = (_vector(None if r is None else r[whole:], rows - whole, 1.0), None, None, 0.0, 0.0)
    dense_kernel(block[whole:], *found, c, inv_s, *extra, out)


def clip_sums(block: Block, r: Factors, c: Floats | None, inv_s: Floats, out: Ints) -> None:
    """Add to ``out`` the column sums of ``2**30 clip(argument, -1, 1)``, each term rounded."""
    _sum_columns(dense.bound_block, columns.bound_columns, sparse.bound_rows, block, r, c, inv_s, [1.0], out)


def truncate_sums(block: Block, r: Factors, c: Floats | None, inv_s: Floats, out: Ints) -> None:
    """Add to ``out`` the column sums of ``2**30 argument`` where ``|argument| <= 1``, rounded."""
    _sum_columns(dense.bound_block, columns.bound_columns, sparse.bound_rows, block, r, c, inv_s, [0.0], out)


def smooth_sums(block: Block, r: Factors, c: Floats | None, inv_s: Floats, table: Any, out: Ints) -> None:
    """Add to ``out`` the column sums of ``2**30 g(argument) / sup``, each term rounded.

    ``table`` is `fattail.robust.catoni.table`'s, for the map ``g`` of one ``beta``.
    """
    extra = [table.core, table.slope, table.tail]
    inv_s = dense.scaled(_plain(inv_s), table.kappa)
    _sum_columns(smooth.smooth_block, columns.smooth_columns, sparse.smooth_rows, block, r, c, inv_s, extra, out)


def ball_sums(
    block: Block,
    r: Factors,
    c: Floats | None,
    inv_s: Floats,
    radius: float,
    out: Ints,
) -> None:
    """Add to ``out`` the sums of the argument rows shrunk to norm ``radius``, which is 2**30 units.

    One row's integers have an l2 norm of at most ``2**30 + sqrt(d)/2``: the factor leaves room for
    the rounding of the norm (less than ``(d + 32) 2**-53`` relatively) before the last rounding.
    """
    if not 1e-290 < radius < 1e290:
        raise ValueError(f"radius must lie in (1e-290, 1e290), got {radius!r}")
    limit = 1.0 - (len(out) + 32) * 2.0**-52
    r, parts = factors(block, r), _parts(block)
    if parts is None:
        rows = _vector(r, len(block), 1.0)
        center = _vector(c, len(out), 0.0)
        dense.ball_block(_plain(block), rows, center, _vector(inv_s, len(out), 1.0), limit / radius, limit, out)
    else:
        _refuse_center(c)
        rows = _vector(r, len(parts[2]) - 1, 1.0)
        sparse.ball_rows(*parts, rows, _vector(inv_s, len(out), 1.0), limit / radius, limit, out)


def dot(block: Block, w: Floats) -> Floats:
    """Return the products of the rows with ``w``, in float64 whatever the rows are stored in.

    A row's product does not depend on the block it is in, nor on its place there, nor on how the row is stored. BLAS
    promises no such thing, and would copy float32 rows to float64 first.
    """
    parts, w = _parts(block), _vector(w, len(w), 0.0)
    if parts is not None:
        out = np.empty(len(parts[2]) - 1)
        products.dot_rows(*parts, w, out)
        return out
    if block.dtype not in (np.float32, np.float64):
        block = np.asarray(block, dtype=np.float64)
    out = np.empty(len(block))
    products.dot_block(_plain(block), 0, len(block), w, out)
    return out


def product(rows: NDArray[Any], W: NDArray[Any]) -> NDArray[Any]:
    """Return ``rows @ W`` in the wider type of the two, each row's without regard to the others; see `dot`."""
    dtype = np.result_type(np.float32, rows, W)
    out = np.empty((len(rows), W.shape[1]), dtype=dtype)
    products.product_block(_plain(np.asarray(rows, dtype=dtype)), _plain(np.asarray(W, dtype=dtype)), out)
    return out


def row_dots(V: NDArray[Any], W: NDArray[Any]) -> Floats:
    """Return the products of the rows of V with those of W, in float64; see `dot`."""
    out = np.empty(len(V))
    products.dots_block(_plain(np.asarray(V, dtype=np.float64)), _plain(np.asarray(W, dtype=np.float64)), out)
    return out


def row_norms(block: Block, c: Floats | None, inv_s: Floats, out: Floats) -> None:
    """Write to ``out`` the l2 norms of the rows ``(V - c) inv_s``; non-finite coordinates count 0."""
    parts, inv_s = _parts(block), _vector(inv_s, len(inv_s), 1.0)
    if parts is None:
        dense.norm_block(_plain(block), np.ones(len(out)), _vector(c, len(inv_s), 0.0), inv_s, out)
    else:
        _refuse_center(c)
        sparse.norm_rows(*parts, inv_s, out)


def standard_rows(block: NDArray[Any], c: Floats, inv_s: Floats, constant: float) -> NDArray[np.float32]:
    """Return the rows ``(V - c) inv_s`` with a constant appended."""
    out, squares = np.empty((len(block), len(c) + 1), dtype=np.float32), np.empty(len(block))
    standard.standard_block(_plain(block), _plain(c), _plain(inv_s), float(constant), out, squares)
    return out


def shaped_rows(
    block: NDArray[Any], c: Floats, inv_s: Floats, constant: float, shape: Floats
) -> tuple[NDArray[np.float32], Floats, Floats]:
    """Return ``u = shape z`` for the rows z of `standard_rows`, the squared lengths of z, and the lengths of u."""
    rows = len(block)
    out, squares, lengths = np.empty((rows, len(shape)), dtype=np.float32), np.empty(rows), np.empty(rows)
    across = np.ascontiguousarray(shape.T, dtype=np.float32)
    standard.shaped_block(_plain(block), _plain(c), _plain(inv_s), float(constant), across, out, squares, lengths)
    return out, squares, lengths


def _refuse_center(c: Floats | None) -> None:
    if c is not None and np.any(c):
        raise ValueError("sparse rows cannot be centered: pass c=None, or a dense block")


def log_edges(lo_exponent: int, n_bins: int, steps_per_octave: int) -> Floats:
    """Return the ``n_bins - 1`` edges of the dyadic grid: bin k holds ``edge[k-1] <= |v| < edge[k]``."""
    k = np.arange(n_bins - 1)
    with np.errstate(over="ignore"):
        return np.ldexp(np.exp2(k % steps_per_octave / steps_per_octave), lo_exponent + k // steps_per_octave)


def _grid(lo_exponent: int, n_bins: int, steps_per_octave: int) -> tuple[int, int, int, Floats]:
    if lo_exponent < -1022 or n_bins < 2 or steps_per_octave not in (1, 2, 4, 8, 16):
        raise ValueError(
            "need lo_exponent >= -1022, n_bins >= 2 and steps_per_octave in {1, 2, 4, 8, 16}, got "
            f"{lo_exponent!r}, {n_bins!r}, {steps_per_octave!r}"
        )
    fractions = np.exp2(np.arange(1, 16) / steps_per_octave)
    return lo_exponent, n_bins, steps_per_octave, fractions


def log_histogram(v: NDArray[Any], lo_exponent: int, n_bins: int, steps_per_octave: int, out: Ints) -> None:
    """Add to ``out`` the counts of ``|v|`` on the grid of `log_edges`.

    Bin 0 takes what lies below the grid, 0 and NaN; the last bin what lies above, and infinity.
    """
    histogram.histogram_block(_plain(v), *_grid(lo_exponent, n_bins, steps_per_octave), out)


def column_log_histogram(
    V: NDArray[Any],
    c: Floats | None,
    lo_exponent: int,
    n_bins: int,
    steps_per_octave: int,
    out: Ints,
) -> None:
    """Add to ``out[j, 0]`` and ``out[j, 1]`` the counts of the non-negative and negative ``V_j - c_j``.

    Bins as in `log_histogram`; NaN counts as 0, so in ``out[j, 0, 0]``.
    """
    grid = _grid(lo_exponent, n_bins, steps_per_octave)
    if steps_per_octave == 1:
        histogram.column_octaves_block(_plain(V), _vector(c, V.shape[1], 0.0), lo_exponent, n_bins, out)
    else:
        histogram.column_histogram_block(_plain(V), _vector(c, V.shape[1], 0.0), *grid, out)


def column_log_cells(
    V: NDArray[Any], c: Floats | None, lo_exponent: int, n_bins: int, steps_per_octave: int
) -> NDArray[np.int16]:
    """Bins of `column_log_histogram`, those of negative entries ``n_bins`` further."""
    out = np.empty(V.shape, dtype=np.int16)
    grid = _grid(lo_exponent, n_bins, steps_per_octave)
    histogram.column_codes_block(_plain(V), _vector(c, V.shape[1], 0.0), *grid, out)
    return out


def person_cells(codes: NDArray[Any], starts: Ints, unit: int, out: Ints) -> None:
    """Add to ``out[j, k]`` the share of each person's ``codes[:, j]`` in cell k (see `histogram.person_cells_block`)."""
    codes = _plain(codes if codes.dtype == np.int16 else np.asarray(codes, dtype=np.float64))
    histogram.person_cells_block(codes, _plain(starts), unit, out)


def octave_cells(V: NDArray[Any], lowest: int, shift: int, cells: int) -> NDArray[np.int16]:
    """Cells of the entries by sign and magnitude (see `histogram.octaves_block`); NaN counts as zero."""
    out = np.empty(V.shape, dtype=np.int16)
    histogram.octaves_block(_plain(V), lowest, shift, cells, out)
    return out


def grid_cells(V: NDArray[Any], low: Floats, step: Floats, cells: int) -> NDArray[np.int16]:
    """Cells of the entries on a grid per column (see `histogram.grid_cells_block`); NaN is in cell 0."""
    out = np.empty(V.shape, dtype=np.int16)
    histogram.grid_cells_block(_plain(V), _plain(low), _plain(step), cells, out)
    return out


def magnitude_cells(V: NDArray[Any], lo_exponent: int, octaves: int, first: int, last: int, digits: int) -> NDArray[np.int16]:
    """Cells of the entries by sign and magnitude (see `histogram.magnitude_cells_block`); NaN counts as zero."""
    out = np.empty(V.shape, dtype=np.int16)
    histogram.magnitude_cells_block(_plain(V), lo_exponent, octaves, first, last, digits, out)
    return out


def magnitude_edges(lo_exponent: int, octaves: int, first: int, last: int, digits: int) -> Floats:
    """Lower edges of all cells of `magnitude_cells` but the first."""
    parts = [np.arange(1 << digits) / (1 << digits) if first <= k < last else np.zeros(1) for k in range(octaves + 1)]
    return np.concatenate([np.ldexp(1.0 + part, lo_exponent + k) for k, part in enumerate(parts)])


def cell_counts(codes: NDArray[Any], out: Ints) -> None:
    """Add to ``out[j, k]`` the number of ``codes[:, j]`` in cell k: clipped to the range, NaN as cell 0."""
    histogram.cells_block(_plain(codes if codes.dtype == np.int16 else np.asarray(codes, dtype=np.float64)), out)


def exact_gram(
    V: NDArray[Any],
    r: Factors = None,
    c: Floats | None = None,
    inv_s: Floats | None = None,
    starts: Ints | None = None,
) -> Ints:
    """Return the Gram matrix of the argument rows, shrunk to norm 1, in units of 2**-30, exactly.

    With ``starts``, each row of a person with m rows counts 1/m: it is divided by the square root of m, as is the norm that
    it may have, before it is rounded.

    Rows are cleaned of non-finite coordinates, shrunk, and rounded to multiples of 2**-15 within a
    margin that keeps the rounded norm at most 1.  Products and sums are then integers below 2**53:
    a float64 matrix product is exact, whatever the order in which BLAS adds.  Replacing a row
    moves the result by at most ``sqrt(2) 2**30`` in Frobenius norm.
    """
    rows, d = V.shape
    counts = np.ones(rows, dtype=np.int64) if starts is None else np.diff(starts)
    if len(counts) > 1 << 20:
        raise ValueError(f"a block may have at most 2**20 rows, or persons, got {len(counts)}")
    inside = 2.0**15 / np.sqrt(np.repeat(counts, counts))
    limit = np.maximum(inside * (1.0 - (d + 32) * 2.0**-52) - np.sqrt(d) / 2.0, 0.0)
    Q = np.empty((rows, d))
    dense.grid_block(_plain(V), _vector(factors(V, r), rows, 1.0), _vector(c, d, 0.0), _vector(inv_s, d, 1.0), inside, limit, Q)
    return (Q.T @ Q).astype(np.int64)


def waves_of(V: NDArray[Any], periods: Floats) -> NDArray[np.float32]:
    """Signs of a block and waves of its logarithms (see `waves.waves_block`), one list of columns after another."""
    out = np.empty((V.shape[0], (1 + 2 * len(periods)) * V.shape[1]), dtype=np.float32)
    waves.waves_block(_plain(np.ascontiguousarray(V)), periods, out)
    return out
