"""Notices that numba compiles, which appear once per process, with or without a progress bar."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from tqdm.auto import tqdm

_lock = threading.Lock()


def when_compiling(say: Callable[[], None], patience: float = 1.0) -> None:
    """Call ``say`` once, when numba has compiled for some seconds.

    A single function for one more type of an array compiles faster, without a call.
    """
    # A thread that asks for numba.core first does not wait for another one that imports numba.
    import numba  # noqa: F401
    from numba.core import event

    from structboost.runtime.compilation_notice import Notice

    register: Any = event.register
    register("numba:compile", Notice(say, patience))


def announce_compilation() -> None:
    """Print once why the first use takes long."""
    with _lock:
        _announce()


@cache
def _announce() -> None:
    text = "structboost compiles its inner loops, once per installation: up to a minute"
    when_compiling(lambda: tqdm.write(text, file=sys.stderr))


def is_compiling() -> bool:
    """Whether this thread compiles a function, or loads it from the cache."""
    module: Any = sys.modules.get("numba.core.compiler_lock")
    return module is not None and bool(module.global_compiler_lock.is_locked())
