"""The only holder of raw rows.

Only bounded sums read them: `fattail.robust.passes` adds integer vectors over cache-sized blocks, and a few order statistics
gather the values of all rows. `fattail.rows.sources` reads the rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.rows.classes import Labels
from fattail.rows.missing import OneColumn, treated
from fattail.rows.order import Fold, Sample
from fattail.rows.passes import Block, cut, picked
from fattail.rows.persons import Persons, column_of
from fattail.rows.source import Arrays, Chunk, Reader, in_memory
from fattail.rows.sources import as_source

__all__ = ["BLOCK_BYTES", "Block", "PrivateData", "block_rows"]

# Bytes of a block. Measured: with smaller blocks the interpreter's overhead grows (half as fast at 256 kB), larger ones exceed
# the cache.
BLOCK_BYTES = 1 << 22
# Blocks of wide rows exceed the cache anyway. They get at least this many rows, because a vector of sums is as wide as a row.
WIDE_ROWS, WIDE_BYTES = 128, 1 << 25
# A subset of the rows up to this size is copied: otherwise each pass reads all rows to find it.
KEEP_BYTES = 1 << 27
# The rows of a block are a multiple of this: kernels process rows in small groups, and a remainder is slower.
ROW_GROUP = 16


def block_rows(row_bytes: int, block_bytes: int | None = None) -> int:
    """Number of rows of a block of about ``block_bytes``; by default a fast size."""
    row_bytes = max(1, row_bytes)
    rows = (block_bytes or max(BLOCK_BYTES, min(WIDE_ROWS * row_bytes, WIDE_BYTES))) // row_bytes
    return int(np.clip(rows - rows % ROW_GROUP, ROW_GROUP, 1 << 20))


class PrivateData:
    """Rows of people, readable only through bounded sums.

    Parameters
    ----------
    X : array of shape (n, d), CSR matrix, data frame, or any source that `fattail.rows.sources` knows
        float32 or float64 in any memory layout; other numbers are converted block by block.
    y : array of shape (n,) or column name, optional
    labels : Labels, optional
        The two classes that y holds; they are converted to 0 and 1.
    person : array of shape (n,) or column name, optional
        The id of the person each row belongs to. The unit of privacy is then a person, and ``n`` the number of persons. The
        rows are read into memory, because those of a person may be anywhere in the table.
    missing : {"error", "zero", "drop"}, optional
        How missing cells are handled (`fattail.rows.missing`); by default they are kept.
    block_bytes : int, optional
        Size of the blocks handed to partial sums. Changes speed, never a result.

    Examples
    --------
    >>> import numpy as np
    >>> from fattail.rows.data import PrivateData
    >>> PrivateData(np.zeros((10, 3)))
    PrivateData(n=10, d=3, sparse=False)
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        labels: Labels | None = None,
        person: Any = None,
        missing: str | None = None,
        block_bytes: int | None = None,
    ) -> None:
        self._source = as_source(X, y, labels, person, missing)
        self.n, self.d = self._source.n, self._source.d
        self.unit = "row" if person is None else "person"  # what n counts, and what is protected
        self.person = None if person is None else column_of(person)  # the column that identifies persons
        self.is_counted = missing != "drop"  # False if the number of complete rows is private and not released yet
        self.count_noise = 0.0  # standard deviation of n, if n is a release
        self.swing = 1.0  # sensitivity of a bounded sum, relative to that of replacing a row: 1, or 1/2 for add-remove
        self._fold: Fold | None = None  # the fold that these data are, if not all rows of the source
        self._copied: Fold | None = None  # the fold whose rows the source holds, in their secret order
        self._chosen: NDArray[np.intp] | None = None  # the columns that are read, if not all of the source's
        self._block_rows = block_rows(self._source.row_bytes, block_bytes)

    @property
    def has_several_rows(self) -> bool:
        """Whether a person may have several rows, whose contributions are averaged."""
        return isinstance(self._source, Persons)

    @property
    def is_sparse(self) -> bool:
        return self._source.is_sparse

    @property
    def has_target(self) -> bool:
        return self._source.has_target

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, where the source has them."""
        return self._source.columns

    def with_labels(self, labels: Labels) -> PrivateData:
        """The same rows, their target read as labels."""
        other = copy.copy(self)
        other._source = self._source.with_target(None, labels)
        return other

    def for_one_fit(self) -> PrivateData:
        """The same rows, without what the source has stored about earlier fits."""
        other = copy.copy(self)
        other._source = self._source.for_one_fit()
        return other

    def _number(self, fold: Fold | Sample | None = None) -> int:
        """The true number of rows (persons); private where n is a release."""
        if fold is not None or self._fold is not None:
            raise ValueError("the rows of a part are not counted")
        return self._source.n

    def counted(self, n: int, noise: float, *, swing: float) -> PrivateData:
        """The same rows with a released number of rows, which replaces the true one from now on.

        Parameters
        ----------
        n : int
            The released number of rows (persons).
        noise : float
            Its standard deviation.
        swing : float
            1 under replace-one, 1/2 under add-remove: a bounded contribution is at most half of its range away from zero.
        """
        other = copy.copy(self)
        other.n, other.count_noise, other.swing, other.is_counted = n, noise, swing, True
        return other

    def column(self, j: int) -> PrivateData:
        """The rows with a present cell in column j, as data of their own; their number is private."""
        other = copy.copy(self)
        if isinstance(self._source, Persons):
            other._source = self._source.column(j)
        else:
            assert isinstance(self._source, Reader)
            one = OneColumn(self._source, j)
            other._source = treated(Arrays(in_memory(one)[0]) if isinstance(self._source, Arrays) else one, "drop")
        other.n, other.d, other.is_counted = other._source.n, 1, False
        return other

    def averages(self) -> PrivateData:
        """One row per person: the mean of their rows. The target is dropped."""
        if not isinstance(self._source, Persons):
            return self
        other = copy.copy(self)
        other._source = as_source(self._source.averages())
        return other

    def chosen(self, columns: NDArray[np.intp]) -> PrivateData:
        """The same rows, of which only these columns are read from now on; their choice is public."""
        other = copy.copy(self)
        other._chosen = columns if self._chosen is None else self._chosen[columns]
        other.d = len(columns)
        return other

    def part(self, fold: Fold) -> PrivateData:
        """The rows of a fold as data of their own: copied in their secret order, unless that takes much memory."""
        if len(fold) == self.n:
            return self
        held = self._fold or self._copied
        if held is not None and not held.contains(fold):
            raise ValueError("these are not all of the fold's rows")
        if self._copied is not None:
            return self._sliced(fold)
        other = copy.copy(self)
        other.n, other._fold = len(fold), fold
        # A fold by labels has a private size, so it cannot be sliced by its expected size.
        kept = isinstance(self._source, Reader) and not fold.by_label and len(fold) * self._source.row_bytes <= KEEP_BYTES
        return other._gathered() if kept else other

    def _sliced(self, fold: Fold) -> PrivateData:
        """A slice of rows that are in the order of their ranks."""
        assert self._copied is not None and isinstance(self._source, Arrays)
        first = fold.start - self._copied.start
        ((X, y),) = self._source.read(first, first + len(fold))
        return self._holding(X, y, fold)

    def _gathered(self) -> PrivateData:
        """A copy of the fold's rows."""
        assert self._fold is not None and isinstance(self._source, Reader)
        positions = self._fold.positions(self._source.n)
        if isinstance(self._source, Arrays):
            ((X, y),) = self._source.read(0, self._source.n)
            chunks = iter([(X[positions], None if y is None else y[positions])])
            order: Any = slice(None)
        else:
            chunks = picked(self._source.read_alike(), 0, self._fold, self._source.n)
            order = np.searchsorted(np.sort(positions), positions)
        (piece,) = cut(chunks, 0, len(positions))
        block = piece.block()
        return self._holding(block.X[order], None if block.y is None else block.y[order], self._fold)

    def _holding(self, X: Any, y: Any, fold: Fold) -> PrivateData:
        other = copy.copy(self)
        other._source = as_source(X, y)
        other.n, other._fold, other._copied = len(fold), None, fold
        return other

    def size(self, rows: Fold | Sample | None = None) -> float:
        """Rows in a fold; expected rows of a Poisson sample (the actual number is secret)."""
        if isinstance(rows, Sample):
            return self.n * rows.rate
        return self.n if rows is None else len(rows)

    def _selected(self, rows: Fold | Sample | None) -> tuple[Fold | None, NDArray[np.bool_] | None]:
        """The fold of the source to read, None for all rows, and the mask of a Poisson sample."""
        if isinstance(rows, Sample):
            if self._fold is not None or len(rows._mask) != self._source.n:
                raise ValueError("a Poisson sample is drawn from all rows")
            return None, rows._mask
        if rows is not None and (self._fold or self._copied):
            raise ValueError("folds are drawn from all rows")
        return self._fold if rows is None else rows, None

    def _chunks(self, fold: Fold | None) -> Iterator[Chunk] | None:
        """The rows for a pass that selects those of ``fold``; None where the source runs passes itself."""
        if not isinstance(self._source, Reader):
            return None
        return self._source.read(0, self._source.n) if fold is None else self._source.read_alike()

    def _empty_block(self) -> Block:
        """A block without rows."""
        block: Block = self._source.empty_block()
        return block if self._chosen is None else block.narrowed(self._chosen)

    def _narrowed(self, compute: Callable[[Block], NDArray[Any]]) -> Callable[[Block], NDArray[Any]]:
        """A function of blocks that sees only the columns that are read."""
        columns = self._chosen
        return compute if columns is None else lambda block: compute(block.narrowed(columns))

    def check_in_memory(self, who: str) -> None:
        """Refuse a stream for a method that needs more than sums over rows."""
        if not isinstance(self._source, (Arrays, Persons)):
            kind = type(self._source).__name__
            raise ValueError(
                f"{who} needs all rows at once, as order statistics do, not sums over blocks: "
                f"it takes arrays in memory, not {kind} data"
            )

    def _gather(self, compute: Callable[[Block], NDArray[Any]], rows: Fold | None = None) -> NDArray[Any]:
        """Values of each row (of each person), concatenated; for order statistics, which are not sums.

        The values of a fold are in its secret order, so that nothing depends on the order of the table.
        """
        if isinstance(self._source, Persons):
            return self._source.gather(self._narrowed(compute), self._block_rows, self._selected(rows)[0])
        self.check_in_memory("this method")
        assert isinstance(self._source, Arrays)
        fold, _ = self._selected(rows)
        compute = self._narrowed(compute)
        chunks = self._source.read(0, self._source.n)
        if fold is not None:
            ((X, y),) = chunks
            order = fold.positions(self._source.n)
            stretches = (order[a : a + self._block_rows] for a in range(0, len(order), self._block_rows))
            chunks = ((X[part], None if y is None else y[part]) for part in stretches)
        parts = [compute(piece.block()) for piece in cut(chunks, 0, self._block_rows)]
        return np.concatenate(parts or [compute(self._source.empty_block())])

    def _gather_rows(self, compute: Callable[[Block], NDArray[Any]], fold: Fold) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Values of each row of a fold, in its secret order, and the share of each row in its person."""
        if isinstance(self._source, Persons):
            block, shares = self._source.rows_in(fold)
            return self._narrowed(compute)(block), shares
        values = self._gather(compute, fold)
        return values, np.ones(len(values))

    def __repr__(self) -> str:
        return f"PrivateData(n={self.n if self.is_counted else '<hidden>'}, d={self.d}, sparse={self.is_sparse})"

    def __copy__(self) -> PrivateData:
        other = object.__new__(PrivateData)
        vars(other).update(vars(self))
        return other

    def __reduce__(self) -> Any:
        raise TypeError("raw rows are not pickled")
