"""BLAS and LAPACK from compiled code, by the addresses of scipy's routines.

numba compiles a matrix product or a solution of its own for seconds.  A call by address compiles in
no time, and runs the same routine.  The addresses are arguments of compiled functions: as constants
they would be cached, and another process has others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils as typed_cgutils
from numba.core import types
from numba.extending import get_cython_function_address
from numba.extending import intrinsic as typed_intrinsic

from structboost._typing import IntArray

# numba's own types of these are incomplete.
cgutils: Any = typed_cgutils
intrinsic: Any = typed_intrinsic

# Positions in the array of addresses.
DDOT, DGEMV, DGEMM, DGESV = range(4)

BLAS: IntArray = np.array(
    [get_cython_function_address("scipy.linalg.cython_blas", f) for f in ("ddot", "dgemv", "dgemm")]
    + [get_cython_function_address("scipy.linalg.cython_lapack", "dgesv")],
    np.int64,
)


def _call(result: ir.Type, context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    """Code of a call of the routine at ``values[0]``: all else goes by reference."""
    pointer = ir.IntType(8).as_pointer()
    references = []
    arguments = cgutils.unpack_tuple(builder, values[1])
    for kind, value in zip(kinds[1].types, arguments, strict=True):
        if isinstance(kind, types.Array):
            reference = context.make_array(kind)(context, builder, value).data
        else:
            reference = cgutils.alloca_once_value(builder, value)
        references.append(builder.bitcast(reference, pointer))
    routine = ir.FunctionType(result, [pointer] * len(references)).as_pointer()
    return builder.call(builder.inttoptr(values[0], routine), references)


@intrinsic
def subroutine(typing_context: Any, address: Any, arguments: Any) -> Any:
    """Call the Fortran subroutine at ``address`` with a tuple of numbers and contiguous arrays.

    Whole numbers must be int32, characters uint8.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _call(ir.VoidType(), context, builder, signature.args, values)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), code


@intrinsic
def real_function(typing_context: Any, address: Any, arguments: Any) -> Any:
    """The same for a function that returns a real number in double precision."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _call(ir.DoubleType(), context, builder, signature.args, values)

    return types.float64(types.int64, arguments), code
