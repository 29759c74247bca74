"""Blocks of rows in the form that the compiled kernels take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Block = Any  # a 2-D float array, `Apart`, or (data, indices, indptr)

_TALL = 128  # least rows for which columns are summed in place


@dataclass(frozen=True, eq=False)
class Apart:
    """Separate contiguous columns of one float type, given by their addresses.

    ``np.asarray`` of it is one array, made by ``copy``, which also keeps the memory alive.
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


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous, writable array: the compiler would compile again for strided and read-only ones."""
    array = np.ascontiguousarray(array)
    return array if array.flags.writeable else np.asarray(_Alias(array))


def csr_parts(block: Block) -> tuple[NDArray[Any], ...] | None:
    """Return the arrays of a CSR block, None for a dense one."""
    if isinstance(block, np.ndarray | Apart):
        return None
    parts = block if isinstance(block, tuple) else (block.data, block.indices, block.indptr)
    return tuple(plain(part) for part in parts)


def vector(value: Floats | None, size: int, default: float) -> Floats:
    return np.full(size, default) if value is None else plain(np.asarray(value, dtype=np.float64))


def by_columns(block: NDArray[Any] | Apart) -> Apart | None:
    """The columns of a block that is stored column by column and is long enough; otherwise None."""
    if len(block) < _TALL:
        return None
    if isinstance(block, Apart):
        return block
    return Apart.of(block) if block.flags.f_contiguous and not block.flags.c_contiguous else None


def refuse_center(c: Floats | None) -> None:
    if c is not None and np.any(c):
        raise ValueError("sparse rows cannot be centered: pass c=None, or a dense block")
