"""Sums of products in vector registers, in a fixed order.

IEEE 754 defines the rounding of each lane, and a fused multiply-add is rounded once. So the same row gives the same bits on
every call. The compiler would be as fast only with permission to reorder sums.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8  # of float64; twice as many of float32 in a tile
ROWS, VECTORS = 4, 2  # of a tile: what the registers of a core hold

_NUMBER = ir.IntType(32)


@intrinsic
def fma(typing, a, b, c):
    """Return ``a b + c``, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return a(a, a, a), generate


@intrinsic
def partial_dot(typing, V, i, W, k, size):
    """Return the product of row i of V and row k of W in float64, over as many of the first ``size`` columns as are multiples of
    16. Both have rows of ``size`` columns, in C order.

    Column j is added to partial sum j mod 16, and the 16 sums are added in halves.
    """

    def generate(context, builder, signature, arguments):
        double = ir.VectorType(ir.DoubleType(), LANES)
        size = arguments[4]
        rows = [
            builder.gep(_array(context, builder, signature, arguments, k).data, [builder.mul(arguments[k + 1], size)])
            for k in (0, 2)
        ]
        sums = [cgutils.alloca_once_value(builder, _zeros(double)) for _ in range(2)]
        step = ir.Constant(size.type, 2 * LANES)
        with cgutils.for_range(builder, builder.udiv(size, step)) as loop:
            for k, total in enumerate(sums):
                at = builder.add(builder.mul(loop.index, step), ir.Constant(step.type, k * LANES))
                a, b = (_loaded(builder, row, at, LANES) for row in rows)
                a, b = (x if x.type == double else builder.fpext(x, double) for x in (a, b))
                builder.store(_fma(builder, a, b, builder.load(total)), total)
        both = builder.fadd(*map(builder.load, sums))
        lanes = [builder.extract_element(both, _NUMBER(k)) for k in range(LANES)]
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [builder.fadd(a, b) for a, b in zip(lanes[:half], lanes[half:], strict=True)]
        return lanes[0]

    return types.float64(V, types.uint64, W, types.uint64, types.uint64), generate


@intrinsic
def tile(typing, V, i0, i1, i2, i3, W, column, out):
    """Write to the four rows of ``out`` some columns of four rows of ``V`` times ``W``: `tile_width` of them from ``column`` on.

    All are in C order and of one type; ``W`` and ``out`` have that many columns to give. An entry is the sum over the columns of
    ``V`` from first to last.
    """

    def generate(context, builder, signature, arguments):
        V, W, out = (_array(context, builder, signature, arguments, k) for k in (0, 5, 7))
        number = context.get_data_type(signature.args[0].dtype)
        lanes = tile_lanes(signature.args[0].dtype)
        depth, width, column = builder.extract_value(V.shape, 1), builder.extract_value(W.shape, 1), arguments[6]
        at = [builder.add(column, ir.Constant(column.type, k * lanes)) for k in range(VECTORS)]
        zeros = _zeros(ir.VectorType(number, lanes))
        sums = [[cgutils.alloca_once_value(builder, zeros) for _ in range(VECTORS)] for _ in range(ROWS)]
        with cgutils.for_range(builder, depth) as loop:
            row = builder.gep(W.data, [builder.mul(loop.index, width)])
            weights = [_loaded(builder, row, place, lanes) for place in at]
            for r in range(ROWS):
                entry = builder.load(builder.gep(V.data, [builder.add(builder.mul(arguments[1 + r], depth), loop.index)]))
                spread = _spread(builder, entry, lanes)
                for weight, total in zip(weights, sums[r], strict=True):
                    builder.store(_fma(builder, spread, weight, builder.load(total)), total)
        wide = builder.extract_value(out.shape, 1)
        for r in range(ROWS):
            row = builder.gep(out.data, [builder.mul(ir.Constant(wide.type, r), wide)])
            for place, total in zip(at, sums[r], strict=True):
                pointer = builder.bitcast(builder.gep(row, [place]), zeros.type.as_pointer())
                builder.store(builder.load(total), pointer).align = _bytes(number)
        return context.get_dummy_value()

    return types.void(V, *[types.int64] * ROWS, W, types.int64, out), generate


def tile_lanes(dtype: types.Float) -> int:
    """Entries of a vector of this type."""
    return LANES * 8 // (dtype.bitwidth // 8)


def _array(context, builder, signature, arguments, k):
    return context.make_array(signature.args[k])(context, builder, arguments[k])


def _bytes(number):
    return 4 if isinstance(number, ir.FloatType) else 8


def _zeros(kind):
    return ir.Constant(kind, [ir.Constant(kind.element, 0.0)] * kind.count)


def _loaded(builder, data, at, lanes):
    """Load some entries from an address, aligned or not."""
    number = data.type.pointee
    vector = builder.load(builder.bitcast(builder.gep(data, [at]), ir.VectorType(number, lanes).as_pointer()))
    vector.align = _bytes(number)
    return vector


def _spread(builder, entry, lanes):
    """A vector of one entry."""
    kind = ir.VectorType(entry.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), entry, _NUMBER(0))
    everywhere = ir.Constant(ir.VectorType(_NUMBER, lanes), [_NUMBER(0)] * lanes)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), everywhere)


def _fma(builder, a, b, c):
    name = f"llvm.fma.v{a.type.count}f{8 * _bytes(a.type.element)}"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(a.type, [a.type] * 3), name)
    return builder.call(function, [a, b, c])
