"""Refusal of sizes that cannot fit into memory, before memory is taken."""

from __future__ import annotations

import os


def check_memory(n_bytes: float, what: str, remedy: str) -> None:
    """Raise MemoryError, with a remedy, if something needs more bytes than the machine has."""
    if n_bytes > physical_memory():
        raise MemoryError(
            f"{what} take {n_bytes / 1e9:.3g} GB, and this machine has "
            f"{physical_memory() / 1e9:.3g} GB; {remedy}."
        )


def physical_memory() -> float:
    """Return the bytes of memory, infinite if the system does not report them."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")
