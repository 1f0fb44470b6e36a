"""Counts of the words of a text, with and without capitals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from structboost._typing import IntArray

# Lower bounds of the bins of counts, and of fractions of capitals.
_COUNTS = np.array([1, 2, 4, 8, 32])
_FRACTIONS = np.array([0.05, 0.35, 0.65, 0.95])


class Elsewhere(NamedTuple):
    """Bins of the occurrences of a word elsewhere in a text.

    Attributes
    ----------
    frequency : str
        Bin of the number of occurrences.
    capitals : str
        Bin of the fraction that begins with a capital letter, of those inside sentences.  It is
        ``"none"`` without any.
    """

    frequency: str
    capitals: str


class WordCounts:
    """Counts of lower-cased words in a text, inside its sentences, and there with a capital.

    The first word of a sentence is not inside it, because its capital is no hint.

    Parameters
    ----------
    table : dict of str to tuple of int, optional
        The three numbers of each word.
    """

    def __init__(self, table: Mapping[str, tuple[int, int, int]] | None = None) -> None:
        self.table = {} if table is None else dict(table)

    def plus(self, sentences: Iterable[Sequence[str]]) -> WordCounts:
        """Return the counts of the words of these sentences, with those of this text added."""
        table: dict[str, tuple[int, int, int]] = {}
        for sentence in sentences:
            for t, word in enumerate(sentence):
                lower = word.lower()
                n, inside, capital = table.get(lower) or self.table.get(lower, (0, 0, 0))
                table[lower] = (n + 1, inside + (t > 0), capital + (t > 0 and _is_capital(word)))
        return WordCounts(table)

    def elsewhere(self, sentence: Sequence[str]) -> list[Elsewhere]:
        """Return the bins of each word of a sentence of this text, without that occurrence."""
        bins = []
        for t, word in enumerate(sentence):
            n, inside, capital = self.table[word.lower()]
            inside -= t > 0
            capital -= t > 0 and _is_capital(word)
            fraction = _bin(_FRACTIONS, capital / inside) if inside else "none"
            bins.append(Elsewhere(_bin(_COUNTS, n - 1), fraction))
        return bins


def _is_capital(word: str) -> bool:
    return word[:1].isupper()


def _bin(bounds: IntArray, value: float) -> str:
    return str(int(np.searchsorted(bounds, value, side="right")))
