"""Memory that one pass frees is kept for the next, in processes that hold shards."""

from __future__ import annotations

import ctypes

# Parameters of mallopt in the C library of GNU.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_BLOCK = 32 << 20
_MOST_KEPT = 64 << 20


def keep_freed_memory() -> None:
    """Take blocks of up to 32 MB from memory of the process, and keep it when they are freed.

    A pass takes a few hundred kilobytes again and again.  The C library of GNU sees to it that they
    are not asked of the system each time, but not where it has been told
    ``MALLOC_TRIM_THRESHOLD_``, as Dask tells its workers: there most of a pass may be page faults.
    Of what is free at the end of a heap 64 MB are kept at most.  With other C libraries nothing is
    done.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
    mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT)
