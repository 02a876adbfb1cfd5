"""Vectors that stay in registers, for loops that keep their sums there: numba's own loops store them at every step.

A vector has 256 bytes, as many registers as the processor needs for it, a short one 64, so that several sums fit into
the registers; every lane is computed by itself, and so is the same wherever it lies.
"""

from typing import Any

from numba import types
from numba.extending import models, register_model

from calibdask.kernels.fused import call_llvm, instruction, ir

_BITS, _SHORT_BITS = 2048, 512


class Vector(types.Type):
    """The numba type of a vector; for variables only, not for arguments of functions."""

    def __init__(self, scalar: Any, bits: int = _BITS) -> None:
        self.scalar = scalar
        self.lanes = bits // scalar.bitwidth
        super().__init__(f"Vector({scalar}, {self.lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        scalar = manager.lookup(vector.scalar).get_value_type()
        super().__init__(manager, vector, ir.VectorType(scalar, vector.lanes))


def _pointer(target: Any, builder: Any, kind: Any, array: Any, at: Any, vector: Any) -> Any:
    """Where the elements of an array from number ``at`` on lie, as a vector."""
    data = target.make_array(kind)(target, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), target.get_value_type(vector).as_pointer())


@instruction
def lanes(_context, array):
    """How many numbers of the type of an array a vector has; a constant."""
    count = Vector(array.dtype).lanes
    return types.intp(array), lambda target, _builder, _signature, _arguments: target.get_constant(types.intp, count)


@instruction
def load(_context, array, at):
    """The elements of a C-contiguous array from number ``at`` of all on."""
    return _load(array, Vector(array.dtype))


@instruction
def load_short(_context, array, at):
    """The short vector of the elements from number ``at`` of all on."""
    return _load(array, Vector(array.dtype, _SHORT_BITS))


def _load(array: Any, vector: Vector) -> Any:
    def generate(target, builder, signature, arguments):
        values, number = arguments
        where = _pointer(target, builder, signature.args[0], values, number, vector)
        return builder.load(where, align=array.dtype.bitwidth // 8)

    return vector(array, types.intp), generate


@instruction
def short_lanes(_context, array):
    """How many numbers of the type of an array a short vector has; a constant."""
    count = Vector(array.dtype, _SHORT_BITS).lanes
    return types.intp(array), lambda target, _builder, _signature, _arguments: target.get_constant(types.intp, count)


@instruction
def load_column(_context, array, row, column):
    """A column of an array (n, m), from one row on, as a short vector of float64.

    Numbers that are written one by one and read back as a vector wait for each other in the processor.
    """
    return _load_column(array, Vector(types.float64, _SHORT_BITS))


@instruction
def load_own_column(_context, array, row, column):
    """Load a column as a short vector of the array's own type."""
    return _load_column(array, Vector(array.dtype, _SHORT_BITS))


def _load_column(array: Any, vector: Vector) -> Any:
    def generate(target, builder, signature, arguments):
        values = target.make_array(signature.args[0])(target, builder, arguments[0])
        number = target.get_value_type(signature.args[0].dtype)
        lanes = ir.Constant(ir.VectorType(number, vector.lanes), ir.Undefined)
        steps = [builder.extract_value(values.strides, axis) for axis in range(2)]
        offset = builder.add(*map(builder.mul, arguments[1:], steps))
        for lane in range(vector.lanes):
            here = builder.add(offset, builder.mul(steps[0], ir.Constant(steps[0].type, lane)))
            address = builder.add(builder.ptrtoint(values.data, here.type), here)
            entry = builder.load(builder.inttoptr(address, number.as_pointer()), align=array.dtype.bitwidth // 8)
            lanes = builder.insert_element(lanes, entry, ir.Constant(ir.IntType(32), lane))
        if array.dtype == vector.scalar:
            return lanes
        return builder.fpext(lanes, target.get_value_type(vector))

    return vector(array, types.intp, types.intp), generate


@instruction
def store(_context, vector, array, at):
    """Write a vector to the elements of a C-contiguous array from number ``at`` of all on."""

    def generate(target, builder, signature, arguments):
        value, values, number = arguments
        where = _pointer(target, builder, signature.args[1], values, number, vector)
        builder.store(value, where, align=array.dtype.bitwidth // 8)
        return target.get_dummy_value()

    return types.void(vector, array, types.intp), generate


@instruction
def splat(_context, x):
    """The vector with x in every lane."""
    vector = Vector(x)

    def generate(target, builder, _signature, arguments):
        return _splat(target, builder, vector, arguments[0])

    return vector(x), generate


@instruction
def splat_short(_context, array, x):
    """The short vector of the type of an array with x in every lane."""
    vector = Vector(array.dtype, _SHORT_BITS)

    def generate(target, builder, signature, arguments):
        number = target.cast(builder, arguments[1], signature.args[1], vector.scalar)
        return _splat(target, builder, vector, number)

    return vector(array, x), generate


def _splat(target: Any, builder: Any, vector: Vector, number: Any) -> Any:
    empty = ir.Constant(target.get_value_type(vector), ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(ir.IntType(32), 0))
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), vector.lanes), [0] * vector.lanes)
    return builder.shuffle_vector(first, empty, everywhere)


@instruction
def plus(_context, a, b):
    """Sums a + b of two vectors."""
    return a(a, b), lambda _target, builder, _signature, arguments: builder.fadd(*arguments)


@instruction
def minus(_context, a, b):
    """Differences a - b of two vectors."""
    return a(a, b), lambda _target, builder, _signature, arguments: builder.fsub(*arguments)


@instruction
def times(_context, a, b):
    """Products a * b of two vectors."""
    return a(a, b), lambda _target, builder, _signature, arguments: builder.fmul(*arguments)


@instruction
def quotient(_context, a, b):
    """Quotients a / b of two vectors."""
    return a(a, b), lambda _target, builder, _signature, arguments: builder.fdiv(*arguments)


@instruction
def larger(_context, a, b):
    """The larger of every two lanes of two vectors; of b where one is NaN."""
    return a(a, b), lambda _target, builder, _signature, both: builder.select(builder.fcmp_ordered(">", *both), *both)


@instruction
def smaller(_context, a, b):
    """The smaller of every two lanes of two vectors; of b where one is NaN."""
    return a(a, b), lambda _target, builder, _signature, both: builder.select(builder.fcmp_ordered("<", *both), *both)


@instruction
def where_larger(_context, a, b, c, d):
    """Lanes of c where a > b, else lanes of d."""

    def generate(_target, builder, _signature, arguments):
        a, b, c, d = arguments
        return builder.select(builder.fcmp_ordered(">", a, b), c, d)

    return a(a, b, c, d), generate


@instruction
def absolute(_context, a):
    """Absolute values of a vector."""
    return a(a), lambda _target, builder, _signature, arguments: call_llvm(builder, "fabs", arguments)
