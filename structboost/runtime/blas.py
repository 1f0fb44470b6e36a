"""Routines of BLAS and LAPACK for compiled code, and linear algebra on one thread."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from structboost._typing import override
from structboost.runtime.compiled import NumbaValue


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
