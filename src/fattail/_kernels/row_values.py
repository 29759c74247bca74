"""Values of each row: products, lengths, standardized rows. A row's values do not depend on the other rows of its block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import dense, products, sparse, standard, waves
from .blocks import Block, Floats, csr_parts, plain, refuse_center, vector


def dot(block: Block, w: Floats) -> Floats:
    """Return the products of the rows with ``w``, in float64 whatever the rows are stored in.

    A row's product does not depend on its block, its position there, or how the row is stored. BLAS does not guarantee that,
    and would copy float32 rows to float64 first.
    """
    parts, w = csr_parts(block), vector(w, len(w), 0.0)
    if parts is not None:
        out = np.empty(len(parts[2]) - 1)
        products.dot_rows(*parts, w, out)
        return out
    if block.dtype not in (np.float32, np.float64):
        block = np.asarray(block, dtype=np.float64)
    out = np.empty(len(block))
    products.dot_block(plain(block), 0, len(block), w, out)
    return out


def product(rows: NDArray[Any], W: NDArray[Any]) -> NDArray[Any]:
    """Return ``rows @ W`` in the wider type of the two; a row's product does not depend on other rows, see `dot`."""
    dtype = np.result_type(np.float32, rows, W)
    out = np.empty((len(rows), W.shape[1]), dtype=dtype)
    products.product_block(plain(np.asarray(rows, dtype=dtype)), plain(np.asarray(W, dtype=dtype)), out)
    return out


def row_dots(V: NDArray[Any], W: NDArray[Any]) -> Floats:
    """Return the products of the rows of V with those of W, in float64; see `dot`."""
    out = np.empty(len(V))
    products.dots_block(plain(np.asarray(V, dtype=np.float64)), plain(np.asarray(W, dtype=np.float64)), out)
    return out


@dataclass(frozen=True, eq=False)
class Residual:
    """Factors ``V w + level - y`` of the rows, clipped to ``+-limit``: the derivative of a squared or Huber loss.

    Kernels that compute these factors themselves, row by row, read the rows only once.
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


def row_norms(block: Block, c: Floats | None, inv_s: Floats, out: Floats) -> None:
    """Write to ``out`` the l2 norms of the rows ``(V - c) inv_s``; non-finite coordinates count 0."""
    parts, inv_s = csr_parts(block), vector(inv_s, len(inv_s), 1.0)
    if parts is None:
        dense.norm_block(plain(block), np.ones(len(out)), vector(c, len(inv_s), 0.0), inv_s, out)
    else:
        refuse_center(c)
        sparse.norm_rows(*parts, inv_s, out)


def standard_rows(block: NDArray[Any], c: Floats, inv_s: Floats, constant: float) -> NDArray[np.float32]:
    """Return the rows ``(V - c) inv_s`` with a constant appended."""
    out, squares = np.empty((len(block), len(c) + 1), dtype=np.float32), np.empty(len(block))
    standard.standard_block(plain(block), plain(c), plain(inv_s), float(constant), out, squares)
    return out


def shaped_rows(
    block: NDArray[Any], c: Floats, inv_s: Floats, constant: float, shape: Floats
) -> tuple[NDArray[np.float32], Floats, Floats]:
    """Return ``u = shape z`` for the rows z of `standard_rows`, the squared lengths of z, and the lengths of u."""
    rows = len(block)
    out, squares, lengths = np.empty((rows, len(shape)), dtype=np.float32), np.empty(rows), np.empty(rows)
    across = np.ascontiguousarray(shape.T, dtype=np.float32)
    standard.shaped_block(plain(block), plain(c), plain(inv_s), float(constant), across, out, squares, lengths)
    return out, squares, lengths


def wave_lists(periods: int) -> int:
    """Number of lists of columns that `waves_of` returns for so many periods."""
    return 2 + waves.PHASES * periods


def waves_of(V: NDArray[Any], periods: Floats) -> NDArray[np.float32]:
    """Signs of a block and waves of its logarithms (see `waves.waves_block`), one list of columns after another."""
    out = np.empty((V.shape[0], wave_lists(len(periods)) * V.shape[1]), dtype=np.float32)
    waves.waves_block(plain(np.ascontiguousarray(V)), periods, out)
    return out
