"""Labels of any integer type, read by kernels that are compiled once for all of them.

Converted beforehand they would take as much memory, and time, as the scores of a column.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types

from calibdask.kernels.compiled import inlined
from calibdask.kernels.fused import instruction


class Labels(NamedTuple):
    """The memory of labels, as bytes, and the type they are of.

    Attributes
    ----------
    memory : ndarray of uint8, shape (n * bytes of a label,)
    kind : int
        Bytes of a label, negative for unsigned ones of less than four. From four bytes on a number that is only
        unsigned is read as a negative one, which is no class either.
    """

    memory: Any
    kind: int


def is_packable(labels: Any) -> bool:
    """Whether kernels can read these labels (n,) where they lie."""
    return labels.dtype.kind in "biu" and labels.dtype.isnative and labels.flags.c_contiguous


def packed(labels: Any) -> Labels:
    """Labels (n,) of a type that `is_packable` accepts, as kernels take them."""
    size = labels.dtype.itemsize
    memory = labels.view(np.uint8)
    memory.flags.writeable = False
    return Labels(memory, -size if labels.dtype.kind != "i" and size < 4 else size)


@instruction
def _number_at(_context, memory, r, like):
    """Read number r of a typed array in memory; a view is slower to compile and to read."""

    def generate(target, builder, signature, arguments):
        memory, number, _ = arguments
        data = target.make_array(signature.args[0])(target, builder, memory).data
        there = builder.bitcast(data, target.get_value_type(like).as_pointer())
        return builder.load(builder.gep(there, [number]), align=1)

    return like(memory, types.intp, like), generate


@inlined
def _copied(memory, start, like, into):
    for r in range(into.size):
        into[r] = _number_at(memory, start + r, like)


@inlined
def read_labels(labels, start, stop, buffer):
    """Labels from number ``start`` to before ``stop``, as int64: the beginning of the buffer, filled with them."""
    memory, kind = labels
    into = buffer[: stop - start]
    if kind == 8:
        _copied(memory, start, np.int64(0), into)
    elif kind == 4:
        _copied(memory, start, np.int32(0), into)
    elif kind == 2:
        _copied(memory, start, np.int16(0), into)
    elif kind == -2:
        _copied(memory, start, np.uint16(0), into)
    elif kind == 1:
        _copied(memory, start, np.int8(0), into)
    else:
        _copied(memory, start, np.uint8(0), into)
    return into


@inlined
def label_at(labels, r):
    """The label number ``r``."""
    memory, kind = labels
    if kind == 8:
        return _number_at(memory, r, np.int64(0))
    if kind == 4:
        return np.int64(_number_at(memory, r, np.int32(0)))
    if kind == 2:
        return np.int64(_number_at(memory, r, np.int16(0)))
    if kind == -2:
        return np.int64(_number_at(memory, r, np.uint16(0)))
    if kind == 1:
        return np.int64(_number_at(memory, r, np.int8(0)))
    return np.int64(_number_at(memory, r, np.uint8(0)))
