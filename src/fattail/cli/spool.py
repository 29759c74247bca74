"""Tables of any length in little memory: parsed once, kept in an unnamed temporary file, read in pieces.

The file has no entry in any folder, so nobody else can open it, and it disappears with the process. ``TMPDIR`` sets its place.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]

# Size of a chunk.
CHUNK_BYTES = 1 << 20


class Spool:
    """Arrays on disk, one after the other."""

    def __init__(self) -> None:
        # Unbuffered, so that a full disk raises at once.
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self.size = 0

    def append(self, values: NDArray[Any]) -> int:
        """Write an array and return where it starts."""
        start, data = self.size, values.tobytes()
        while data:  # one write may take a part of it
            data = data[self._file.write(data) :]
        self.size = start + values.nbytes
        return start

    def read(self, dtype: Any, start: int, count: int) -> NDArray[Any]:
        """``count`` numbers from a place; any number of readers at once."""
        data = os.pread(self._file.fileno(), count * np.dtype(dtype).itemsize, start)
        return np.frombuffer(bytearray(data), dtype=dtype, count=count)


class DenseRows:
    """Rows of ``width`` numbers."""

    def __init__(self, width: int) -> None:
        self.n, self.width, self._spool = 0, width, Spool()

    def append(self, rows: Floats) -> None:
        self._spool.append(rows)
        self.n += len(rows)

    @property
    def size(self) -> int:
        return self._spool.size

    def chunks(self) -> Iterator[Floats]:
        step = max(1, CHUNK_BYTES // (8 * self.width))
        for a in range(0, self.n, step):
            rows = min(step, self.n - a)
            yield self._spool.read(np.float64, 8 * a * self.width, rows * self.width).reshape(rows, self.width)


@dataclass(frozen=True)
class _Part:
    """Where the arrays of some CSR rows lie."""

    rows: int
    entries: int
    starts: tuple[int, int, int]


class SparseRows:
    """CSR rows and their targets."""

    def __init__(self, dimension: int) -> None:
        self.n, self.width, self._parts = 0, dimension, list[_Part]()
        self._spool, self._targets = Spool(), Spool()

    def append(self, X: Any, y: Floats) -> None:
        starts = [self._spool.append(part) for part in (X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data)]
        self._parts.append(_Part(len(y), len(X.data), (starts[0], starts[1], starts[2])))
        self._targets.append(y)
        self.n += len(y)

    @property
    def size(self) -> int:
        return self._spool.size

    def chunks(self) -> Iterator[tuple[Any, Floats]]:
        at = 0
        for part in self._parts:
            kinds = ((np.int64, part.rows + 1), (np.int64, part.entries), (np.float64, part.entries))
            indptr, indices, data = (self._spool.read(t, s, k) for s, (t, k) in zip(part.starts, kinds, strict=True))
            X = sparse.csr_matrix((data, indices, indptr), shape=(part.rows, self.width))
            yield X, self._targets.read(np.float64, 8 * at, part.rows)
            at += part.rows
