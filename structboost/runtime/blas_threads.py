"""Linear algebra on one thread while our own threads and processes are at work."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """A block in which the BLAS of numpy and scipy uses one thread, and adds in a fixed order."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


@cache
def _controller() -> ThreadpoolController:
    # Looking the libraries up takes 3 ms, which engines would pay in every pass; only loaded ones
    # are found, and compiled code uses that of scipy.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
