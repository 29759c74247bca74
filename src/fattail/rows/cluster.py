"""Rows on a Dask cluster: each partition is summed by the worker that holds it, and only the sums are sent.

The user chooses the cluster and the placement of the data. Passes run on the active client, or on Dask's local threads if there
is none. A task is a function of rows and of public parameters, without noise, so Dask may repeat it on another worker if the
first one is lost. The curator draws noise once, for the finished sum.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from fattail.rows.beside import take_target
from fattail.rows.classes import Labels
from fattail.rows.digest import CHANGED, Digest
from fattail.rows.door import Refusal, as_form, attempt, number_type, rows_of, schema_of, shown, target_of
from fattail.rows.frames import library, text_only
from fattail.rows.missing import MISSING, present_rows, without_missing
from fattail.rows.source import CHUNK_BYTES, Chunk, Mask, RowPass, Source, Sums, sum_of_parts

# More partial sums than this are added on the workers, in groups of this size.
FAN_IN = 16
# Largest size, in bytes, of parameters that are sent with every task. Longer ones are a task of their own.
SEND_TWICE = 1 << 16


class Dask(Source):
    """A Dask array (rows may be CSR) or data frame, in the order of its partitions.

    Parameters
    ----------
    X : Dask array of shape (n, d) or Dask data frame
        Lengths of partitions that Dask does not know are counted in one pass. If partitions are CSR, say so when the array is
        made, by ``meta=scipy.sparse.csr_array((0, 0))``: some methods treat CSR rows differently.
    """

    def __init__(self, X: Any) -> None:
        self._schema = schema_of(X) if hasattr(X, "dtypes") else None
        if self._schema is not None:
            self.columns = text_only(X.columns)
        elif X.ndim != 2 or number_type(X.dtype) is None:
            kind = shown(X.dtype)
            raise Refusal(f"rows must be a 2-dimensional array of numbers, got {X.ndim} dimensions and type {kind}")
        else:
            from dask.array.utils import meta_from_array

            X = X.rechunk({1: -1})
            self.is_sparse = bool(sparse.issparse(meta_from_array(X)))
        self._X = X  # persisted partitions exist as long as the collection is referenced
        self._parts = np.ravel(X.to_delayed()).tolist()
        self._edges = np.concatenate(([0], np.cumsum(attempt("counting the rows", _lengths, X, self._parts))))
        self.n, self.d = int(self._edges[-1]), int(X.shape[1])
        self._name: str | None = None
        self._targets: list[Any] | None = None
        self._digests: list[bytes] | None = None
        self.fills = False

    def forget(self) -> None:
        self._digests = None

    def take_column(self, name: str) -> None:
        if self.columns is None or name not in self.columns:
            raise Refusal(f"y={name!r} is not a column; there are {self.columns}")
        self._name, self.d = name, self.d - 1
        self.columns = tuple(c for c in self.columns if c != name)

    def check(self) -> None:
        if self._schema is None:
            return
        self._schema.check([name for name in self._schema.kinds if name != self._name])
        if self._name is not None:
            self._check_target(self._schema.types[self._name])

    def take_array(self, y: Any) -> None:
        if library(y) != "dask":
            super().take_array(y)
            return
        if y.ndim not in (1, 2) or (y.ndim == 2 and y.shape[1] != 1):
            raise Refusal(f"y must have one entry per row, got {y.ndim} dimensions")
        y = y[y.columns[0]] if hasattr(y, "dtypes") and y.ndim == 2 else y
        self._check_target(y.dtype)
        lengths = tuple(np.diff(self._edges).tolist())
        is_series = hasattr(y, "npartitions") and not hasattr(y, "rechunk")
        targets = np.ravel((y if is_series else (y if y.ndim == 1 else y[:, 0]).rechunk((lengths,))).to_delayed())
        if len(targets) != len(lengths):
            raise Refusal(f"X has {len(lengths)} partitions and y has {len(targets)}")
        self._targets = targets.tolist()

    def sum(self, job: RowPass, start: int, stop: int, mask: Mask | None) -> Sums | None:
        import cloudpickle
        import dask

        form = self._form()
        if job.fold is not None and self._digests is None:
            first = (dask.delayed(_first_digest)(*part, form) for part in self._rows())
            self._digests = list(attempt("reading the partitions", dask.compute, *first))
        packed = cloudpickle.dumps(job)
        sent = dask.delayed(packed) if len(packed) > SEND_TWICE else packed
        task = dask.delayed(_sum_partition, pure=False, traverse=False)
        sums = []
        for k, ((a, b), part) in enumerate(zip(pairwise(self._edges.tolist()), self._rows(), strict=True)):
            low, high = max(start, a), min(stop, b)
            if low < high:
                seen = None if mask is None else mask[low - start : high - start]
                digest = None if job.fold is None or self._digests is None else self._digests[k]
                sums.append(task(sent, *part, form, a, low, high, seen, digest))
        while len(sums) > FAN_IN:
            sums = [dask.delayed(sum_of_parts)(sums[k : k + FAN_IN]) for k in range(0, len(sums), FAN_IN)]
        return sum_of_parts(attempt("adding up the partitions", dask.compute, *sums))

    def _form(self) -> _PartitionForm:
        return _PartitionForm(self.is_sparse, None if self._y is not None else self._labels, self.fills)

    def check_cells(self) -> None:
        import dask

        tasks = (dask.delayed(_is_whole)(*part, self._form()) for part in self._rows())
        if not all(attempt("looking for missing cells", dask.compute, *tasks)):
            raise Refusal(MISSING)

    def filled(self) -> Source:
        other = copy.copy(self)
        other.fills = True
        return other

    def _rows(self) -> Iterator[tuple[Any, Any, str | None]]:
        """X, y and the name of the target of each partition."""
        for k, (a, b) in enumerate(pairwise(self._edges.tolist())):
            yield self._parts[k], self._targets[k] if self._targets else None if self._y is None else self._y[a:b], self._name


@dataclass(frozen=True)
class _PartitionForm:
    """The form to which the rows and the target of every partition are converted."""

    is_sparse: bool
    labels: Labels | None
    fills: bool = False


@lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> RowPass:
    import cloudpickle

    return cloudpickle.loads(packed)  # type: ignore[no-any-return]


def _sum_partition(
    packed: bytes,
    X: Any,
    y: Any,
    name: str | None,
    form: _PartitionForm,
    at: int,
    low: int,
    high: int,
    mask: Mask | None,
    digest: bytes | None,
) -> Sums | None:
    """On a worker: the sum over rows ``[low, high)`` of a partition that starts at row ``at``.

    A partition that is computed again may come in another order; one with a ``digest`` is compared with it.
    """
    rows, target = _partition(X, y, name, form)
    if digest is not None and _digest(rows, target) != digest:
        raise Refusal(CHANGED)
    # CSR rows of an array that was declared dense are made dense, a few at a time.
    step = high - low if sparse.issparse(rows) == form.is_sparse else max(1, CHUNK_BYTES // (8 * rows.shape[1]))

    def chunks() -> Iterator[Chunk]:
        for a in range(low - at, high - at, step):
            part = slice(a, min(a + step, high - at))
            yield as_form(rows[part], form.is_sparse), None if target is None else target[part]

    return _unpacked(packed)(chunks(), low, mask, threads=1)


def _partition(X: Any, y: Any, name: str | None, form: _PartitionForm) -> tuple[Any, Any]:
    """Rows and target of a partition; cells that are not numbers are missing."""
    if name is not None:
        X, y = take_target(X, name)
    rows = rows_of(X, strict=False)
    target = None if y is None else target_of(y, strict=False) if form.labels is None else form.labels.codes(y, strict=False)
    if target is not None and len(target) != rows.shape[0]:
        raise Refusal(f"a partition has {rows.shape[0]} rows in X and {len(target)} in y")
    return without_missing(rows, target, "zero", form.labels is not None) if form.fills else (rows, target)


def _is_whole(X: Any, y: Any, name: str | None, form: _PartitionForm) -> bool:
    return bool(present_rows(*_partition(X, y, name, form)).all())


def _digest(X: Any, y: Any) -> bytes:
    digest = Digest()
    digest.add(X, y)
    return digest.value()


def _first_digest(X: Any, y: Any, name: str | None, form: _PartitionForm) -> bytes:
    return _digest(*_partition(X, y, name, form))


def _lengths(X: Any, parts: list[Any]) -> list[int]:
    """Rows of each partition; public, and counted only where Dask does not know them."""
    import dask

    known = getattr(X, "chunks", ((np.nan,),))[0]
    if not any(np.isnan(k) for k in known):
        return [int(k) for k in known]
    return [int(shape[0]) for shape in dask.compute(*(dask.delayed(np.shape)(part) for part in parts))]
