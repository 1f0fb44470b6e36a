"""Check of sequences that users pass, and their words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
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


def words_of(sentence: Any, i: int, names: Sequence[str]) -> list[str]:
    """Return the words of sentence ``i``, whose tokens are words or dicts.

    Parameters
    ----------
    sentence : sequence
        Tokens.
    i : int
        Index of the sentence, for errors.
    names : sequence of str
        Keys of a dict that may hold the word, of which the first one that it has is read.

    Raises
    ------
    TypeError
        If it is no sequence of words, or of dicts with one.
    """
    words = []
    check_ordered(sentence, f"X[{i}]", "give a list of words or of dicts", is_read_twice=True)
    for t, token in enumerate(sentence):
        is_dict = isinstance(token, Mapping)
        word = next((token[name] for name in names if name in token), None) if is_dict else token
        if not isinstance(word, str):
            wanted = " or ".join(map(repr, names))
            remedy = f"give it a string {wanted}" if is_dict else "give words or dicts"
            raise TypeError(f"X[{i}][{t}] is {shown(token)}; {remedy}.")
        words.append(str(word))
    return words
