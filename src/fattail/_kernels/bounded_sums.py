"""Sums of bounded rows, each term an integer of at most 2**30 in size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import columns, dense, smooth, sparse
from .blocks import Block, Floats, Ints, by_columns, csr_parts, plain, refuse_center, vector
from .row_values import Factors, Residual, factors

_NARROW = 32  # columns below which a row is too short for vector registers
_WIDE = 128


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
    c, inv_s = None if c is None else vector(c, d, 0.0), vector(inv_s, d, 1.0)
    parts = csr_parts(block)
    if parts is not None:
        sparse_kernel(*parts, vector(factors(block, r), len(parts[2]) - 1, 1.0), c, inv_s, *extra, out)
        return
    rows = len(block)
    apart = by_columns(block)
    if apart is not None:
        like = np.empty(0, dtype=apart.dtype)
        column_kernel(apart.places, like, vector(factors(block, r), rows, 1.0), c, inv_s, *extra, out)
        return
    block = plain(block)
    whole = 0
    if d < _NARROW <= rows:  # join several rows, so that the inner loop is long
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
        found = (np.empty(rows), vector(r.w, d, 0.0), vector(r.y, rows, 0.0), float(r.level), float(r.limit))
    else:
        found = (vector(None if r is None else r[whole:], rows - whole, 1.0), None, None, 0.0, 0.0)
    dense_kernel(block[whole:], *found, c, inv_s, *extra, out)


def clip_sums(block: Block, r: Factors, c: Floats | None, inv_s: Floats, out: Ints) -> None:
    """Add to ``out`` the column sums of ``2**30 clip(argument, -1, 1)``, each term rounded."""
    _sum_columns(dense.bound_block, columns.bound_columns, sparse.bound_rows, block, r, c, inv_s, [1.0], out)


def truncate_sums(block: Block, r: Factors, c: Floats | None, inv_s: Floats, out: Ints) -> None:
    """Add to ``out`` the column sums of ``2**30 argument`` where ``|argument| <= 1``, rounded."""
    _sum_columns(dense.bound_block, columns.bound_columns, sparse.bound_rows, block, r, c, inv_s, [0.0], out)


def smooth_sums(block: Block, r: Factors, c: Floats | None, inv_s: Floats, table: Any, out: Ints) -> None:
    """Add to ``out`` the column sums of ``2**30 g(argument) / sup``, each term rounded.

    ``table`` is a `fattail.robust.catoni.SmoothMap`, for the map ``g`` of one ``beta``.
    """
    extra = [table.core, table.slope, table.tail]
    inv_s = dense.scaled(plain(inv_s), table.kappa)
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
    r, parts = factors(block, r), csr_parts(block)
    if parts is None:
        rows = vector(r, len(block), 1.0)
        center = vector(c, len(out), 0.0)
        dense.ball_block(plain(block), rows, center, vector(inv_s, len(out), 1.0), limit / radius, limit, out)
    else:
        refuse_center(c)
        rows = vector(r, len(parts[2]) - 1, 1.0)
        sparse.ball_rows(*parts, rows, vector(inv_s, len(out), 1.0), limit / radius, limit, out)


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
    dense.grid_block(plain(V), vector(factors(V, r), rows, 1.0), vector(c, d, 0.0), vector(inv_s, d, 1.0), inside, limit, Q)
    return (Q.T @ Q).astype(np.int64)
