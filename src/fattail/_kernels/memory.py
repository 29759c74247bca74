"""Memory by address: prefetching, columns at any address, and arrays on the stack."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic

LINE = 64  # bytes of a cache line


@intrinsic
def prefetch(typing, place):
    """Prefetch the cache line at an address, which need not be mapped."""

    def generate(context, builder, signature, arguments):
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), (pointer, number, number, number))
        function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
        read, nearest, data = number(0), number(3), number(1)
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, nearest, data])
        return context.get_dummy_value()

    return types.void(types.uint64), generate


@njit(cache=True, nogil=True)
def address(V, i, j):
    """Return the address of an entry of a C-ordered array."""
    return np.uint64(V.ctypes.data) + (np.uint64(i) * np.uint64(V.shape[1]) + np.uint64(j)) * np.uint64(V.itemsize)


@njit(cache=True, nogil=True)
def prefetch_range(place, size):
    """Prefetch the cache lines of ``size`` bytes from an address on."""
    for line in range(np.uint64(0), np.uint64(size), np.uint64(LINE)):
        prefetch(place + line)


@intrinsic(prefer_literal=True)
def stack_array(typing, size, like):
    """Return a pointer to a constant number of entries of the type of ``like`` on the stack of the caller.

    The compiler knows that this memory overlaps nothing else. For `np.empty` it does not, and tests for overlaps before every
    loop, which takes as long as a short loop.
    """
    count = size.literal_value

    def generate(context, builder, signature, arguments):
        with builder.goto_entry_block():
            place = builder.alloca(context.get_data_type(like), size=ir.Constant(ir.IntType(64), count))
        place.align = LINE
        return place

    return types.CPointer(like)(size, like), generate


@intrinsic
def _pointer(typing, place, like):
    """Turn an address into a pointer to what the array ``like`` holds."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(types.uint64, like), generate


@njit(cache=True, nogil=True)
def column_at(place, n, like):
    """Return the n numbers from an address on, of the type of the array ``like``."""
    return carray(_pointer(np.uint64(place), like), n)
