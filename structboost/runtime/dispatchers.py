"""Dispatchers of numba for compiled functions, cached where possible, and operations for them.

The operations call scipy's BLAS and LAPACK by names for the linker: numba takes seconds to compile
its matrix products and solvers, and a call by name compiles in no time and runs the same routine.
An address would fail, because compiled code is cached, and another process has other addresses.

numba caches beside the source file, in the user's cache folder, or in ``NUMBA_CACHE_DIR``.  Where
none of them can be written, it raises an error, in place of which there is a warning.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba

# Matrix products and solvers of compiled code import these at their first call, where numba cannot
# pass on a pending Ctrl-C.
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack  # noqa: F401
from llvmlite import binding as typed_binding
from llvmlite import ir
from numba.core import caching, event, types
from numba.core import cgutils as typed_cgutils
from numba.core.dispatcher import Dispatcher
from numba.extending import get_cython_function_address
from numba.extending import intrinsic as typed_intrinsic

from structboost._typing import override
from structboost.errors import warn_user
from structboost.runtime.memory import collector_pause

# The types that numba has for these are incomplete.
binding: Any = typed_binding
cgutils: Any = typed_cgutils
intrinsic: Any = typed_intrinsic
_FunctionCache: Any = caching.FunctionCache

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


# numba would also compile a form for calls from C, which takes a sixth of the time.
_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}


class Compilations(event.Listener):
    """Listener that pauses the garbage collector, which took a tenth of a first fit.

    It calls ``say`` once, if that is set, when numba has compiled for ``patience`` seconds.
    """

    def __init__(self) -> None:
        self.say: Callable[[], None] | None = None
        self.patience = 1.0
        self._depth, self._began, self._seconds = 0, 0.0, 0.0

    @override
    def on_start(self, event: Any) -> None:
        collector_pause.__enter__()
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1
        waited = self._seconds + time.perf_counter() - self._began
        if waited > self.patience and self.say is not None:
            say, self.say = self.say, None
            say()

    @override
    def on_end(self, event: Any) -> None:
        collector_pause.__exit__()
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._began


compilations = Compilations()
_register: Any = event.register
_register("numba:compile", compilations)


# Folders whose files are damaged or cannot be written, each of which is reported once.
_reported: set[str] = set()


class ForgivingCache(_FunctionCache):
    """Cache of a compiled function, which warns where numba would raise an error.

    A file that cannot be read is compiled again.
    """

    @override
    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:
            self._warn(f"is damaged ({error!r}), so its functions are compiled again.")
            with suppress(OSError):
                self.flush()
            return None

    @override
    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self._warn(
                f"cannot be written ({error}), so functions are compiled in each run; set "
                "NUMBA_CACHE_DIR to a folder that can be written."
            )

    def _warn(self, text: str) -> None:
        if self._cache_path not in _reported:
            _reported.add(self._cache_path)
            warn_user(f"The compiled code in {self._cache_path} {text}", RuntimeWarning)


def dispatcher_of(function: Any, options: dict[str, Any]) -> Any:
    """Return numba's dispatcher of a function, with a cache."""
    dispatcher = numba.njit(**_OPTIONS, **options)(function)
    cache = _cache_of(function)
    if cache is not None and isinstance(dispatcher, Dispatcher):
        vars(dispatcher)["_cache"] = cache
    return dispatcher


def _cache_of(function: Any) -> ForgivingCache | None:
    """Return the cache of a function, or None without a folder for it."""
    try:
        return ForgivingCache(function)
    except RuntimeError:
        if "" not in _reported:
            _reported.add("")
            warn_user(
                "No folder for compiled code can be written, so functions are compiled in each "
                "run; set NUMBA_CACHE_DIR to a folder that can be written.",
                RuntimeWarning,
            )
        return None
