"""Fused multiplication and addition."""

from collections.abc import Callable
from typing import Any

from numba.core import cgutils
from numba.extending import intrinsic

# The instruction builder that numba uses, from the package that it comes with.
_cgutils: Any = cgutils
ir = _cgutils.ir

# By numba's types the decorated function takes the arguments of its generator, the context first.
instruction: Callable[..., Any] = intrinsic


def call_llvm(builder, name, arguments):
    """Call the LLVM intrinsic ``llvm.name`` of floats, or of vectors of them, all of one type."""
    kind = arguments[0].type
    vector = isinstance(kind, ir.VectorType)
    bits = {"float": 32, "double": 64}[str(kind.element if vector else kind)]
    full_name = f"llvm.{name}.{f'v{kind.count}' if vector else ''}f{bits}"
    signature = ir.FunctionType(kind, [kind] * len(arguments))
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, full_name), arguments)


@instruction
def fma(_context, a, b, c):
    """Fused multiply-add a * b + c, rounded once in scalar and vector code alike; type of ``a``."""
    return a(a, a, a), lambda _target, builder, _signature, arguments: call_llvm(builder, "fma", arguments)
