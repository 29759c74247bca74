"""A checksum that shows whether a stream gives the same rows in the same order again."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fattail.rows.frames import Columns

CHANGED = (
    "the data gave other rows, or the same rows in another order, when they were read again, and this method needs the same "
    "ones each time: write them to a file first and pass its path, or pass them as an array"
)


class Digest:
    """A cryptographic checksum of rows in their order; it does not depend on the chunks.

    Examples
    --------
    >>> import numpy as np
    >>> one, two, other = Digest(), Digest(), Digest()
    >>> one.add(np.array([[1.0], [2.0]]), None)
    >>> two.add(np.array([[1.0]]), None), two.add(np.array([[2.0]]), None)
    (None, None)
    >>> other.add(np.array([[2.0], [1.0]]), None)
    >>> one.value() == two.value(), one.value() == other.value()
    (True, False)
    """

    def __init__(self) -> None:
        self._parts: dict[str, Any] = {}

    def add(self, X: Any, y: NDArray[Any] | None) -> None:
        """The next rows: an array, a CSR matrix or ``Columns``."""
        if sparse.issparse(X):
            self._update("row lengths", np.diff(X.indptr).astype(np.int64))
            self._update("indices", X.indices.astype(np.int64))
            self._update("values", X.data)
        elif isinstance(X, Columns):
            for j, values in enumerate(X.arrays):
                self._update(f"column {j}", values)
        else:
            self._update("rows", X)
        if y is not None:
            self._update("y", y)

    def value(self) -> bytes:
        parts = sorted((name, part.digest()) for name, part in self._parts.items())
        return hashlib.sha256(repr(parts).encode()).digest()

    def _update(self, name: str, values: NDArray[Any]) -> None:
        part = self._parts.setdefault(name, hashlib.sha256(values.dtype.str.encode()))
        part.update(np.ascontiguousarray(values).view(np.uint8).data if values.size else b"")
