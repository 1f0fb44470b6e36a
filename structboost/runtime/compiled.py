"""Functions compiled by numba without the interpreter's lock, which import it at their first call.

Functions called from Python take arrays, scalars and plain tuples of them, and return them or None.
Boxing a named tuple calls Python, where a pending Ctrl-C raises.  numba ignores the error, and the
interpreter dies.

The routines of BLAS and LAPACK for them are here as well, and linear algebra on one thread.
"""

from __future__ import annotations

import functools
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cache
from typing import Any, TypeVar, overload

from structboost._typing import override
from structboost.errors import usable
from structboost.runtime.memory import collector_pause

Function = TypeVar("Function", bound=Callable[..., Any])

_lock = threading.RLock()
_announcing = threading.Lock()


class NumbaValue(ABC):
    """Global value of compiled code that stands for an object of numba.

    numba takes a fifth of the time in which this package is imported, and a program that only
    reads a file or parses a command compiles nothing.
    """

    @property
    @abstractmethod
    def value(self) -> Any:
        """Object of numba, which the first use makes."""

    @property
    def _numba_type_(self) -> Any:
        """Type of the object, for which numba asks by this name."""
        from numba.core.registry import cpu_target

        typing_context: Any = cpu_target.typing_context
        return typing_context.resolve_value_type(self.value)


class CompiledFunction(NumbaValue):
    """Function whose dispatcher is made at the first call or use in compiled code.

    Other attributes are those of the dispatcher.

    Parameters
    ----------
    function : callable
    options : dict
        Options of :func:`numba.njit`.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._options = function, options

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the dispatcher."""
        return self.value(*arguments, **named)

    @functools.cached_property
    @override
    def value(self) -> Any:
        with collector_pause:  # numba has 150,000 objects
            from structboost.runtime.dispatchers import dispatcher_of

        with _lock:
            if "value" not in vars(self):
                vars(self)["value"] = dispatcher_of(self._function, self._options)
        return vars(self)["value"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def __reduce__(self) -> str:
        return str(self._function.__qualname__)


@overload
def compiled(function: Function) -> Function: ...


@overload
def compiled(
    *, fastmath: set[str] | bool = ..., inline: str = ..., no_cpython_wrapper: bool = ...
) -> Callable[[Function], Function]: ...


def compiled(function: Any = None, **options: Any) -> Any:
    """Compile a function of arrays and scalars at its first call.

    Options are those of :func:`numba.njit`.
    """
    if function is None:
        return lambda of_options: compiled(of_options, **options)
    return CompiledFunction(function, options)


def announce_compilation() -> None:
    """Print once why the first use takes long."""
    with _announcing:
        _announce()


@functools.cache
def _announce() -> None:
    # A thread that asks for numba.core first does not wait for another one that imports numba.
    import numba  # noqa: F401
    from tqdm.auto import tqdm

    from structboost.runtime.dispatchers import compilations

    text = "structboost compiles its inner loops, once per installation: up to a minute"

    def say_so() -> None:
        with suppress(OSError):
            tqdm.write(text, file=usable(sys.stderr))

    compilations.say = say_so


def is_compiling() -> bool:
    """Whether this thread compiles a function, or loads it from the cache."""
    module: Any = sys.modules.get("numba.core.compiler_lock")
    return module is not None and bool(module.global_compiler_lock.is_locked())


class _Routine(NumbaValue):
    """Form of call of :mod:`structboost.runtime.dispatchers`, by its name there."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    @override
    def value(self) -> Any:
        from structboost.runtime import dispatchers

        return getattr(dispatchers, self._name)

    def __call__(self, name: str, arguments: tuple[Any, ...]) -> Any:
        raise TypeError("Routines are called from compiled code only.")


subroutine, real_function = _Routine("subroutine"), _Routine("real_function")


def one_blas_thread() -> AbstractContextManager[Any]:
    """Run a block with BLAS on one thread, which adds in a fixed order."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


@cache
def _controller() -> Any:
    # The look-up of the libraries takes 3 ms, which engines would pay in every pass.  It lists only
    # loaded ones; compiled code uses that of scipy.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
