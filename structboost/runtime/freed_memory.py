"""Reuse of freed memory between passes, in processes that hold shards."""

from __future__ import annotations

import ctypes

# Parameters of mallopt in the C library of GNU.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_BLOCK = 32 << 20
_MOST_KEPT = 64 << 20


def keep_freed_memory() -> None:
    """Make the process keep freed memory for blocks of up to 32 MB.

    A pass allocates a few hundred kilobytes again and again.  The C library of GNU reuses them, but
    not where ``MALLOC_TRIM_THRESHOLD_`` is set, as in Dask's workers, where most of a pass may be
    page faults.  At most 64 MB at the end of a heap stay allocated.  With other C libraries nothing
    is changed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
    mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT)
