"""Dispatchers of numba for compiled functions, cached where possible.

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
from numba.core import caching, event
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.extending import typeof_impl

# New operations must be there before a compilation begins.
import structboost.runtime.blas_intrinsics  # noqa: F401
from structboost._typing import override
from structboost.errors import warn_user
from structboost.runtime.blas import NumbaValue
from structboost.runtime.collector import collector_pause

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


_register_type: Any = typeof_impl.register


@_register_type(NumbaValue)
def _type_of_value(value: NumbaValue, context: Any) -> Any:
    """Return the type of the object that a global value of compiled code stands for."""
    typing_context: Any = cpu_target.typing_context
    return typing_context.resolve_value_type(value.value)


# numba is typed in parts only.
_FunctionCache: Any = caching.FunctionCache
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
