"""Indices of strings in a list, found for columns of values in one compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import IntArray
from structboost.runtime.compiled import compiled

_END = "\0"
# A byte that UTF-8 does not have, for strings with a null character, which are never found.
_NEVER = b"\xff"
# The hash of Fowler, Noll and Vo, FNV-1a.
_SEED, _FACTOR = np.uint64(14695981039346656037), np.uint64(1099511628211)


class StringIndex:
    """Hash table of the bytes of strings.

    A look-up in a dict of Python touches five places in memory for each value.  This one touches
    three, and takes no step of the interpreter for each value.

    Parameters
    ----------
    strings : sequence of str
        Of equal ones the last counts.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        encoded = [_NEVER if _END in string else _bytes(string) for string in strings]
        pool = np.frombuffer(b"".join(string + b"\0" for string in encoded), np.uint8)
        starts: IntArray = np.cumsum([0, *(len(string) + 1 for string in encoded)], dtype=np.int64)
        n_slots = 1 << (2 * len(encoded)).bit_length()
        slots = np.zeros(n_slots, np.uint64), np.full(n_slots, -1, np.int32)
        self._table = pool, starts, *slots
        none, out = np.frombuffer(b"\0", np.uint8), np.empty((1, len(encoded)), np.int32)
        _find(none, pool, *self._table, out, True)

    def find(
        self, prefixes: Sequence[str], columns: Sequence[Sequence[Any]]
    ) -> dict[int, NDArray[np.int32]]:
        """Return the indices of ``prefix + value`` for each column of values, -1 where absent.

        Columns with other values than strings are left out, and all of them if a string has a null
        character.
        """
        texts: dict[int, str] = {}
        for k, column in enumerate(columns):
            try:
                texts[k] = _END.join(column)
            except TypeError:
                continue
        if not texts:
            return {}
        values = _bytes(_END.join([*texts.values(), ""]))
        heads = _bytes(_END.join([*(prefixes[k] for k in texts), ""]))
        out = np.empty((len(texts), len(columns[0])), np.int32)
        ends = _find(
            np.frombuffer(heads, np.uint8), np.frombuffer(values, np.uint8), *self._table, out,
            False,
        )  # fmt: skip
        if ends != len(heads) + len(values):
            return {}
        return dict(zip(texts, out, strict=True))


def _bytes(string: str) -> bytes:
    return string.encode("utf-8", "surrogatepass")


@compiled
def _find(
    heads: Any, values: Any, pool: Any, starts: Any, hashes: Any, places: Any, out: Any, adds: bool
) -> int:
    """Fill in the indices, and return the number of bytes of heads and values that were read.

    If it ``adds`` the strings, their rows become their indices.
    """
    last = len(places) - 1
    head, begin = 0, 0
    for column in range(out.shape[0]):
        n_head, seed = 0, _SEED
        while heads[head + n_head] != 0:
            seed = (seed ^ np.uint64(heads[head + n_head])) * _FACTOR
            n_head += 1
        for row in range(out.shape[1]):
            n, value = n_head, seed
            while values[begin + n - n_head] != 0:
                value = (value ^ np.uint64(values[begin + n - n_head])) * _FACTOR
                n += 1
            slot = np.int64((value ^ (value >> np.uint64(32))) & np.uint64(last))
            while places[slot] >= 0:
                first = starts[places[slot]]
                if hashes[slot] == value and starts[places[slot] + 1] - first == n + 1:
                    at = 0
                    while at < n_head and pool[first + at] == heads[head + at]:
                        at += 1
                    while n_head <= at < n and pool[first + at] == values[begin + at - n_head]:
                        at += 1
                    if at == n:
                        break
                slot = (slot + 1) & last
            if adds:
                hashes[slot], places[slot] = value, row
            out[column, row] = places[slot]
            begin += n - n_head + 1
        head += n_head + 1
    return head + begin
