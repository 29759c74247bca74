"""One table in many physical forms: what is stored differs, what is said does not.

``FORMS`` maps the name of a form to a function ``(X, y, folder) -> (X-like, y-like)``; `forms` runs through those
that can hold a given table. Whatever the form, a fit must see the same rows in the same order.

>>> X, y = table(n=50)
>>> sum(1 for _ in forms(X, y)) >= 25
True
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

Form = Callable[[Any, Any, Path], tuple[Any, Any]]
FORMS: dict[str, Form] = {}
# Forms whose rows are CSR behind the door: estimators may treat such rows apart (their schema says so), so these
# are to be compared with one another, and with the others where a method makes no difference.
SPARSE: set[str] = set()
# Forms that hold whole numbers, or zeros and ones, only.
WHOLE: set[str] = set()
BINARY: set[str] = set()
# Forms that are read when needed: methods that need all rows at once refuse them.
STREAMS: set[str] = set()


def table(n: int = 400, d: int = 4, *, binary: bool = False, seed: int = 0) -> tuple[Any, Any]:
    """Heavy-tailed whole numbers with many zeros, the last column 0 or 1, and a response: exact in every form.

    With ``binary`` all columns are 0 or 1.
    """
    rng = np.random.default_rng(seed)
    X = np.clip(np.rint(8 * rng.standard_t(2.0, (n, d))), -(2**14), 2**14)
    X[rng.random((n, d)) < 0.3] = 0.0
    X[:, -1] = X[:, -1] > 0
    if binary:
        X = (X > 0).astype(np.float64)
    y = np.rint(X @ np.linspace(1.0, -1.0, d) + 4 * rng.standard_t(3.0, n))
    return X, y


def labels(y: Any) -> Any:
    """A table's response as two classes, 0 and 1."""
    return (y > 0).astype(np.int64)


def forms(X: Any, y: Any = None, folder: Path | None = None) -> Iterator[tuple[str, Any, Any]]:
    """Every form that holds this table exactly, as ``(name, X-like, y-like)``; ``y`` may be None."""
    whole, binary = np.array_equal(X, np.rint(X)), bool(np.isin(X, (0, 1)).all())
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for k, (name, form) in enumerate(FORMS.items()):
            if (name in WHOLE and not whole) or (name in BINARY and not binary):
                continue
            own = Path(place) / str(k)
            own.mkdir()
            yield (name, *form(X, y, own))


def form(name: str, *kinds: set[str]) -> Callable[[Form], Form]:
    def register(function: Form) -> Form:
        FORMS[name] = function
        for kind in kinds:
            kind.add(name)
        return function

    return register


def simple(name: str, change: Callable[[Any], Any], *kinds: set[str]) -> None:
    """A form of X alone; y stays an array."""
    form(name, *kinds)(lambda X, y, folder: (change(X), y))


# --- dense arrays -------------------------------------------------------------------------------


def strided(X: Any) -> Any:
    room = np.full((2 * len(X), 3 * X.shape[1]), np.pi)
    room[::2, ::3] = X
    return room[::2, ::3]


def readonly(X: Any) -> Any:
    X = X.copy()
    X.flags.writeable = False
    return X


def unaligned(X: Any) -> Any:
    room = np.empty(X.nbytes + 1, dtype=np.uint8)
    out = room[1:].view(np.float64).reshape(X.shape)
    out[:] = X
    return out


simple("C order", lambda X: np.ascontiguousarray(X))
simple("Fortran order", np.asfortranarray)
simple("strided", strided)
simple("negative strides", lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1])
simple("read-only", readonly)
simple("unaligned", unaligned)
simple("float32", lambda X: X.astype(np.float32))
simple("float32, Fortran order", lambda X: np.asfortranarray(X.astype(np.float32)))
simple("big-endian", lambda X: X.astype(">f8"))
simple("int64", lambda X: X.astype(np.int64), WHOLE)
simple("int16", lambda X: X.astype(np.int16), WHOLE)
simple("bool", lambda X: X.astype(bool), BINARY)
simple("nothing masked", lambda X: np.ma.masked_array(X, mask=False))
simple("list of lists", lambda X: X.tolist())


@form("memory map")
def _(X, y, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r"), y


@form("y of another type")
def _(X, y, folder):
    return X, None if y is None else np.asarray(y, dtype=np.float32 if y.dtype.kind == "f" else np.int8)


# --- sparse -------------------------------------------------------------------------------------


def duplicates(X: Any, times: int = 3) -> Any:
    """Each entry stored in parts that sum to it exactly: itself, and pairs that cancel."""
    rows, columns = np.nonzero(X)
    value = X[rows, columns]
    parts = [value, *([value, -value] * ((times - 1) // 2))]
    row, column, data = np.tile(rows, len(parts)), np.tile(columns, len(parts)), np.concatenate(parts)
    order = np.argsort(row, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=len(X)))))
    return sparse.csr_matrix((data[order], column[order], starts), shape=X.shape)


def unsorted(X: Any) -> Any:
    rows = sparse.csr_matrix(X)
    for a, b in pairwise(rows.indptr):
        rows.data[a:b], rows.indices[a:b] = rows.data[a:b][::-1].copy(), rows.indices[a:b][::-1].copy()
    rows.has_sorted_indices = False
    return rows


def stored_zeros(X: Any) -> Any:
    """Every cell stored, zeros too."""
    n, d = X.shape
    return sparse.csr_matrix((X.ravel().copy(), np.tile(np.arange(d), n), d * np.arange(n + 1)), shape=X.shape)


simple("CSR", sparse.csr_matrix, SPARSE)
simple("CSR, duplicates", duplicates, SPARSE)
simple("CSR, unsorted", unsorted, SPARSE)
simple("CSR, stored zeros", stored_zeros, SPARSE)
simple("CSR, float32", lambda X: sparse.csr_matrix(X.astype(np.float32)), SPARSE)
simple("CSR, int64", lambda X: sparse.csr_matrix(X.astype(np.int64)), SPARSE, WHOLE)
simple("CSR array", sparse.csr_array, SPARSE)
simple("CSC", sparse.csc_matrix, SPARSE)
simple("COO", sparse.coo_matrix, SPARSE)
simple("COO array, duplicates", lambda X: sparse.coo_array(duplicates(X)), SPARSE)


# --- frames -------------------------------------------------------------------------------------


def names(X: Any) -> list[str]:
    return [f"x{j}" for j in range(X.shape[1])]


def pandas_frame(X: Any, y: Any) -> tuple[Any, str | None]:
    import pandas as pd

    frame = pd.DataFrame(X, columns=names(X))
    return (frame, None) if y is None else (frame.assign(y=y), "y")


def arrow(X: Any, y: Any) -> tuple[Any, str | None]:
    import pyarrow as pa

    columns = {name: pa.array(np.ascontiguousarray(X[:, j])) for j, name in enumerate(names(X))}
    return (pa.table(columns), None) if y is None else (pa.table(columns | {"y": pa.array(y)}), "y")


@form("pandas")
def _(X, y, folder):
    return pandas_frame(X, y)


@form("pandas, mixed types", WHOLE)
def _(X, y, folder):
    frame, target = pandas_frame(X, y)
    kinds = {name: ("int32", "float64", "float32")[j % 3] for j, name in enumerate(names(X))}
    last = names(X)[-1]
    return frame.astype(kinds | ({last: bool} if np.isin(X[:, -1], (0, 1)).all() else {})), target


@form("pandas, nullable types")
def _(X, y, folder):
    frame, target = pandas_frame(X, y)
    return frame.astype(dict.fromkeys(names(X), "Float64")), target


@form("pandas, Arrow types")
def _(X, y, folder):
    frame, target = pandas_frame(X, y)
    return frame.astype(dict.fromkeys(names(X), "double[pyarrow]")), target


@form("pandas, sparse types", SPARSE)
def _(X, y, folder):
    import pandas as pd

    frame, _ = pandas_frame(X, None)
    return frame.astype(pd.SparseDtype(float, 0.0)), y


@form("pandas, other index")
def _(X, y, folder):
    frame, target = pandas_frame(X, y)
    frame.index = np.arange(len(X))[::-1]
    return frame, target


@form("polars")
def _(X, y, folder):
    import polars as pl

    frame, target = arrow(X, y)
    return pl.from_arrow(frame), target


@form("polars, several chunks")
def _(X, y, folder):
    import polars as pl

    frame, target = arrow(X, y)
    frame = pl.from_arrow(frame)
    return pl.concat([frame[k : k + 37] for k in range(0, len(X), 37)], rechunk=False), target


@form("polars lazy", STREAMS)
def _(X, y, folder):
    import polars as pl

    frame, target = arrow(X, y)
    return pl.from_arrow(frame).lazy(), target


@form("pyarrow, several chunks")
def _(X, y, folder):
    import pyarrow as pa

    frame, target = arrow(X, y)
    return pa.concat_tables([frame.slice(k, 41) for k in range(0, len(X), 41)]), target


# --- files --------------------------------------------------------------------------------------


@form("Parquet file, several row groups", STREAMS)
def _(X, y, folder):
    import pyarrow.parquet as pq

    frame, target = arrow(X, y)
    pq.write_table(frame, folder / "rows.parquet", row_group_size=53)
    return folder / "rows.parquet", target


@form("Parquet folder, several files", STREAMS)
def _(X, y, folder):
    import pyarrow.parquet as pq

    frame, target = arrow(X, y)
    for k, start in enumerate(range(0, len(X), 150)):
        pq.write_table(frame.slice(start, 150), folder / f"part-{k}.parquet", row_group_size=67)
    return str(folder), target


@form("scan of a Parquet file", STREAMS)
def _(X, y, folder):
    import polars as pl
    import pyarrow.parquet as pq

    frame, target = arrow(X, y)
    pq.write_table(frame, folder / "rows.parquet", row_group_size=59)
    return pl.scan_parquet(folder / "rows.parquet"), target


# --- streams ------------------------------------------------------------------------------------


def in_chunks(X: Any, y: Any, size: int, change: Callable[[Any], Any] = np.asarray) -> Callable[[], Iterator[Any]]:
    def factory() -> Iterator[Any]:
        for a in range(0, len(X), size):
            rows = change(X[a : a + size])
            yield rows if y is None else (rows, y[a : a + size])

    return factory


for size in (1, 7, 100, 1 << 20):
    form(f"chunks of {size}", STREAMS)(lambda X, y, folder, size=size: (in_chunks(X, y, size), None))
form("chunks, y apart", STREAMS)(lambda X, y, folder: (in_chunks(X, None, 90), y))
form("chunks, y as a column", STREAMS)(lambda X, y, folder: (in_chunks(X, None if y is None else y[:, None], 90), None))
form("chunks of frames", STREAMS)(lambda X, y, folder: (in_chunks(X, y, 90, lambda rows: pandas_frame(rows, None)[0]), None))
form("chunks of CSR", STREAMS, SPARSE)(lambda X, y, folder: (in_chunks(X, y, 90, duplicates), None))


# --- clusters -----------------------------------------------------------------------------------


@form("Dask array", STREAMS)
def _(X, y, folder):
    import dask.array as da

    return da.from_array(X, (101, 2)), None if y is None else da.from_array(y, 77)


@form("Dask array, small partitions", STREAMS)
def _(X, y, folder):
    import dask.array as da

    return da.from_array(X, (23, X.shape[1])), y


@form("Dask frame", STREAMS)
def _(X, y, folder):
    import dask.dataframe as dd

    frame, target = pandas_frame(X, y)
    return dd.from_pandas(frame, npartitions=5), target
