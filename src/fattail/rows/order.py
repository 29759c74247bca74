"""A secret order of the rows, from which folds and subsets are cut.

The guarantee is for a table as a multiset of rows, so nothing may depend on the position of a row. Every position gets a secret
label that is independent of all values, and the rows are ranked by their labels. A fold is an interval of ranks. A label is a
function of a key and the position alone. So a stream is never held in memory, and every worker of a cluster computes the same
labels. Proof: ``order.proof.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

SecretLabels = NDArray[np.uint64]
Positions = NDArray[np.intp]

# Number of positions whose labels come from one call of the hash function.
CHUNK = 1 << 12
# Number of positions whose labels are processed together, and number whose labels are kept between passes.
STRETCH = 1 << 20
HELD = 1 << 23
# Labels are counted by this many first bits, to find those of given ranks without holding all labels.
CELL_BITS = 16


class SecretOrder:
    """Ranks of n positions by secret labels.

    Parameters
    ----------
    key : bytes
        32 secret bytes, drawn by the curator.
    n : int
        Public number of rows.
    by_label : bool
        For a table whose number of rows is private, where n is a release: a fold is then an interval of labels instead of
        ranks, so that adding or removing a row changes one fold. Its size is private; ``len`` is the expected size.

    Examples
    --------
    >>> folds = SecretOrder(bytes(32), 10).folds(2)
    >>> sorted(int(k) for fold in folds for k in fold.positions())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(self, key: bytes, n: int, by_label: bool = False) -> None:
        self._key, self.n, self.by_label = key, n, by_label
        self._held: SecretLabels | None = None
        self._ranked: Positions | None = None
        self._cuts: dict[tuple[int, ...], tuple[Fold, ...]] = {}

    def folds(self, count: int) -> tuple[Fold, ...]:
        """``count`` disjoint folds of all rows, sizes equal to within one row."""
        if not 1 <= count <= self.n:
            raise ValueError(f"cannot split {self.n} rows into {count} folds")
        return self.cut([k * self.n // count for k in range(count + 1)])

    def cut(self, ranks: Sequence[int]) -> tuple[Fold, ...]:
        """Folds between successive ranks; rows with the same label stay together."""
        ranks = tuple(ranks)
        if ranks not in self._cuts:
            ends = enumerate(pairwise(self._expected(ranks) if self.by_label else self._bounds(ranks)))
            self._cuts[ranks] = tuple(
                Fold(k, len(ranks) - 1, start, stop, self, low, high) for k, ((start, low), (stop, high)) in ends
            )
        return self._cuts[ranks]

    def labels(self, start: int, stop: int) -> SecretLabels:
        """Labels of the positions ``[start, stop)``."""
        if self._held is not None:
            return self._held[start:stop]
        return self._drawn(start, stop, b"label")

    def positions(self, start: int, stop: int) -> Positions:
        """Positions of the rows of ranks ``[start, stop)``, in the order of their ranks; all rows are ranked for it, once."""
        if self._ranked is None:
            self._ranked = self.by_rank(np.arange(self.n))
        return self._ranked[start:stop]

    def by_rank(self, positions: Positions, total: int | None = None) -> Positions:
        """Some positions, given in increasing order, in the order of their labels."""
        labels = self._at(positions, b"label", total)
        order = np.argsort(labels)
        if np.any(labels[order[1:]] == labels[order[:-1]]):
            order = np.lexsort((self._at(positions, b"second label", total), labels))
        return np.asarray(positions[order])

    def stretches(self, total: int | None = None) -> Iterator[tuple[int, int]]:
        """Ranges of positions (``total`` of them, n by default) that are processed together; at least one, which may be empty."""
        stop = self.n if total is None else total
        return ((a, min(a + STRETCH, stop)) for a in range(0, max(stop, 1), STRETCH))

    def _at(self, positions: Positions, purpose: bytes, total: int | None = None) -> SecretLabels:
        edges = np.searchsorted(positions, [*(a for a, _ in self.stretches(total)), self.n if total is None else total])
        draw = self.labels if purpose == b"label" else partial(self._drawn, purpose=purpose)
        parts = zip(self.stretches(total), pairwise(edges), strict=True)
        return np.concatenate([draw(a, b)[positions[low:high] - a] for (a, b), (low, high) in parts])

    def _expected(self, ranks: Sequence[int]) -> list[tuple[int, int]]:
        """For each rank, itself and the label below which a share ``rank / n`` of all labels lie; 0 stands for rank n's."""
        return [(rank, (rank << 64) // self.n if rank < self.n else 0) for rank in ranks]

    def _bounds(self, ranks: Sequence[int]) -> list[tuple[int, int]]:
        """For each rank, how many labels are smaller than the one that has it, and that label; 0 stands for rank n's."""
        if self._held is None and self.n <= HELD:
            self._held = self._drawn(0, self.n, b"label")
        shift = np.uint64(64 - CELL_BITS)
        counts = np.zeros(1 << CELL_BITS, dtype=np.int64)
        for a, b in self.stretches():
            counts += np.bincount((self.labels(a, b) >> shift).astype(np.intp), minlength=len(counts))
        before = np.concatenate(([0], np.cumsum(counts)))
        inner = np.array([rank for rank in ranks if rank < self.n], dtype=np.int64)
        cells = np.searchsorted(before, inner, side="right") - 1
        wanted = np.zeros(len(counts), dtype=bool)
        wanted[cells] = True
        parts = (self.labels(a, b) for a, b in self.stretches())
        near = np.sort(np.concatenate([labels[wanted[(labels >> shift).astype(np.intp)]] for labels in parts]))
        first = np.searchsorted(near, cells.astype(np.uint64) << shift)
        edges = near[first + inner - before[cells]]
        smaller = before[cells] + np.searchsorted(near, edges) - first
        bounds = list(zip(smaller.tolist(), edges.tolist(), strict=True))
        return bounds + [(self.n, 0)] * (len(ranks) - len(inner))

    def _drawn(self, start: int, stop: int, purpose: bytes) -> SecretLabels:
        """A pseudo-random function of key, purpose and position: the output of SHAKE-128, chunk by chunk."""
        first, last = start // CHUNK, -(-stop // CHUNK)
        parts = [
            hashlib.shake_128(self._key + purpose + chunk.to_bytes(8, "little")).digest(8 * min(CHUNK, stop - chunk * CHUNK))
            for chunk in range(first, last)
        ]
        return np.frombuffer(b"".join(parts), dtype="<u8")[start - first * CHUNK :]

    def __reduce__(self) -> Any:
        return SecretOrder, (self._key, self.n, self.by_label)  # a worker computes the labels that it needs

    def __repr__(self) -> str:
        return f"SecretOrder(n={self.n})"


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows of ranks ``[start, stop)`` in a secret order, one of ``of`` folds cut from it.

    Its size is public; which rows it holds is not.
    """

    index: int
    of: int
    start: int
    stop: int
    _order: SecretOrder = field(repr=False)
    _low: int = field(repr=False)
    _high: int = field(repr=False)

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def by_label(self) -> bool:
        """Whether its size is private."""
        return self._order.by_label

    def overlaps(self, other: Fold) -> bool:
        """Whether a row may be in both; folds of different orders may always overlap."""
        return self._order is not other._order or (self.start < other.stop and other.start < self.stop)

    def contains(self, other: Fold) -> bool:
        return self._order is other._order and self.start <= other.start and other.stop <= self.stop

    def split(self, count: int) -> tuple[Fold, ...]:
        """``count`` disjoint parts, sizes equal to within one row."""
        if not 1 <= count <= len(self):
            raise ValueError(f"cannot split {len(self)} rows into {count} groups")
        return self._order.cut([self.start + k * len(self) // count for k in range(count + 1)])

    def within(self, start: int, stop: int) -> Positions:
        """Which rows of the positions ``[start, stop)`` are in the fold, counted from ``start``, in increasing order."""
        if self._ranks and (start, stop) == (0, self._order.n):  # all folds will be used: rank the rows once
            return np.sort(self._order.positions(self.start, self.stop))
        labels = self._order.labels(start, stop)
        inside = labels >= np.uint64(self._low)
        if self.stop < self._order.n:
            inside &= labels < np.uint64(self._high)
        return np.flatnonzero(inside)

    @property
    def _ranks(self) -> bool:
        """Whether to rank all rows once, because all folds will be used."""
        return self.of > 1 and not self.by_label

    def positions(self, total: int | None = None) -> Positions:
        """Positions of the fold's rows, in their secret order; ``total`` is the true number of rows where it is private."""
        if self._ranks:
            return self._order.positions(self.start, self.stop)
        stretches = self._order.stretches(total)
        return self._order.by_rank(np.concatenate([a + self.within(a, b) for a, b in stretches]), total)


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """A secret Poisson sample of the rows, drawn by the curator."""

    rate: float
    _mask: NDArray[np.bool_]

    def __repr__(self) -> str:
        return f"Sample(rate={self.rate:g})"
