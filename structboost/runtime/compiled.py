"""Functions compiled by numba without the interpreter's lock, cached where possible.

numba caches beside the source file, in the user's cache folder, or in ``NUMBA_CACHE_DIR``.  Where
none of them can be written it raises an error when the module is imported.  There the cache goes to
a private folder under the system's temporary directory.  Its files are checked before they are run
(:mod:`structboost.runtime.numba_cache`).

Functions called from Python take arrays, scalars and plain tuples of them, and return them or None.
Boxing a named tuple calls Python, where a pending Ctrl-C raises.  numba ignores the error, and the
interpreter dies.
"""

from __future__ import annotations

import gc
import os
import stat
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, overload

import numba

# Matrix products and solvers of compiled code import these at their first call, where numba cannot
# pass on a pending Ctrl-C.
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack  # noqa: F401
from numba.core import event
from numba.core.dispatcher import Dispatcher

from structboost._typing import override
from structboost.runtime.numba_cache import CheckedCache

# numba would also compile a form for calls from C, which takes a sixth of the time.
_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}


class _CollectorPause(event.Listener):
    """Pause of the garbage collector while numba compiles.

    numba makes many small objects, which the collector visits over and over: a tenth of the time of
    a first fit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._is_ours = False

    @override
    def on_start(self, event: Any) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1 and gc.isenabled():
                self._is_ours = True
                gc.disable()

    @override
    def on_end(self, event: Any) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._is_ours:
                self._is_ours = False
                gc.enable()


_register: Any = event.register
_register("numba:compile", _CollectorPause())

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def compiled(function: Function) -> Function: ...


@overload
def compiled(
    *, fastmath: set[str] | bool = ..., inline: str = ...
) -> Callable[[Function], Function]: ...


def compiled(function: Any = None, **options: Any) -> Any:
    """Compile a function of arrays and scalars at its first call.

    Options are those of :func:`numba.njit`.
    """
    if function is None:
        return lambda of_options: compiled(of_options, **options)
    dispatcher = numba.njit(**_OPTIONS, **options)(function)
    cache = _cache_of(function)
    if cache is not None and isinstance(dispatcher, Dispatcher):
        vars(dispatcher)["_cache"] = cache
    return dispatcher


def _cache_of(function: Any) -> CheckedCache | None:
    """Return the cache of a function, which may be in the private folder, or None without any."""
    try:
        return CheckedCache(function)
    except RuntimeError:  # there is no folder for the cache
        folder = _private_folder()
    if folder is None:
        return None
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        return CheckedCache(function)
    except RuntimeError:
        return None
    finally:
        config.CACHE_DIR = before


def cache_folders(module: ModuleType) -> list[Path]:
    """List the folders that hold the compiled code of a module's functions."""
    functions = [value for value in vars(module).values() if isinstance(value, Dispatcher)]
    return [Path(one.stats.cache_path) for one in functions if one.stats.cache_path]


def _private_folder() -> Path | None:
    """Create a temporary folder that only this user can write, because cached code is run."""
    try:
        owner = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
        folder = Path(tempfile.gettempdir()) / f"structboost-{owner}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077):
        return None
    return folder
