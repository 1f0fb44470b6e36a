"""Check of sequences that users pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from structboost.validation import shown


def check_ordered(value: Any, name: str, remedy: str, *, is_read_twice: bool = False) -> None:
    """Raise TypeError unless a value is a sequence in a known order.

    Strings, dicts, sets and data frames can be iterated, but not over tokens.  Iterators can be
    read once.
    """
    is_frame = hasattr(value, "columns") and hasattr(value, "shape")
    if (
        isinstance(value, str | bytes | Mapping | Set)
        or (is_read_twice and isinstance(value, Iterator))
        or not isinstance(value, Iterable)
        or getattr(value, "shape", None) == ()
        or is_frame
    ):
        raise TypeError(f"{name} is {shown(value)}; {remedy}.")
