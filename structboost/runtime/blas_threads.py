"""Linear algebra on one thread while other threads and processes of the library run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """Run a block with BLAS on one thread, which adds in a fixed order."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


@cache
def _controller() -> ThreadpoolController:
    # The look-up of the libraries takes 3 ms, which engines would pay in every pass.  It lists only
    # loaded ones; compiled code uses that of scipy.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
