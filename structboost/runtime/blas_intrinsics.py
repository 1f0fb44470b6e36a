"""Calls of scipy's BLAS and LAPACK from compiled code, by names for the linker.

numba takes seconds to compile its matrix products and solvers.  A call by name compiles in no time,
and runs the same routine.  An address would fail, because compiled code is cached, and another
process has other addresses.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding as typed_binding
from llvmlite import ir
from numba.core import cgutils as typed_cgutils
from numba.core import types
from numba.extending import get_cython_function_address
from numba.extending import intrinsic as typed_intrinsic

# The types that numba has for these are incomplete.
binding: Any = typed_binding
cgutils: Any = typed_cgutils
intrinsic: Any = typed_intrinsic

_ROUTINES = {"cython_blas": ("ddot", "dgemv", "dgemm"), "cython_lapack": ("dgesv",)}
for _module, _names in _ROUTINES.items():
    for _name in _names:
        binding.add_symbol(
            f"structboost.{_name}", get_cython_function_address(f"scipy.linalg.{_module}", _name)
        )


def _call(result: ir.Type, context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    """Generate a call of the routine that the first argument names, by reference."""
    pointer = ir.IntType(8).as_pointer()
    references = []
    arguments = cgutils.unpack_tuple(builder, values[1])
    for kind, value in zip(kinds[1].types, arguments, strict=True):
        if isinstance(kind, types.Array):
            reference = context.make_array(kind)(context, builder, value).data
        else:
            reference = cgutils.alloca_once_value(builder, value)
        references.append(builder.bitcast(reference, pointer))
    routine = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(result, [pointer] * len(references)),
        f"structboost.{kinds[0].literal_value}",
    )
    return builder.call(routine, references)


@intrinsic(prefer_literal=True)
def subroutine(typing_context: Any, name: Any, arguments: Any) -> Any:
    """Call a Fortran subroutine with a tuple of numbers and contiguous arrays.

    Whole numbers must be int32, characters uint8.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _call(ir.VoidType(), context, builder, signature.args, values)
        return context.get_dummy_value()

    return types.void(name, arguments), code


@intrinsic(prefer_literal=True)
def real_function(typing_context: Any, name: Any, arguments: Any) -> Any:
    """Call a Fortran function that returns a real number in double precision."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _call(ir.DoubleType(), context, builder, signature.args, values)

    return types.float64(name, arguments), code
