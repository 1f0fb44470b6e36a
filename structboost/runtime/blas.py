"""Routines of BLAS and LAPACK for compiled code, which import numba when they are first needed."""

from __future__ import annotations

from typing import Any

from structboost._typing import override
from structboost.runtime.numba_values import NumbaValue


class _Routine(NumbaValue):
    """Form of call of :mod:`structboost.runtime.blas_intrinsics`, by its name there."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    @override
    def value(self) -> Any:
        from structboost.runtime import blas_intrinsics

        return getattr(blas_intrinsics, self._name)

    def __call__(self, name: str, arguments: tuple[Any, ...]) -> Any:
        raise TypeError("Routines are called from compiled code only.")


subroutine, real_function = _Routine("subroutine"), _Routine("real_function")
