"""Chunks in tags such as B-PER, I-PER and O, and conversions between schemes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from structboost.faces.forms import is_missing_tag
from structboost.tasks.chunk_tags import SCHEMES, ChunkTags, converted, is_chunk_tag
from structboost.validation import check_sequence, checked_choice, shown


class Chunk(NamedTuple):
    """Chunk of a sequence.

    Attributes
    ----------
    start, end : int
        First token, and the one after the last.
    kind : str
        Kind, such as ``"PER"``, or an empty string if tags are prefixes alone.
    """

    start: int
    end: int
    kind: str


def list_chunks(tags: Sequence[str]) -> list[Chunk]:
    """Return the chunks of a sequence of tags, as ``conlleval`` finds them.

    A chunk begins at the prefixes B, S and U, after O, at another kind, and after the prefixes E, S
    and L.  So tags of all schemes can be read, even where they break their scheme.

    Parameters
    ----------
    tags : sequence of str
        Tags of one sequence, such as ``["B-PER", "I-PER", "O"]``.

    Returns
    -------
    chunks : list of Chunk
        The chunks in their order.

    Raises
    ------
    TypeError, ValueError
        If a tag is not O, nor a prefix of B, I, E, S, L or U with a kind.

    Examples
    --------
    >>> from structboost.text import list_chunks
    >>> list_chunks(["B-PER", "I-PER", "O", "I-LOC"])
    [Chunk(start=0, end=2, kind='PER'), Chunk(start=3, end=4, kind='LOC')]
    """
    (listed,) = checked_tags([tags], "tags", unknown=False)
    if not listed:
        return []
    classes, indices = np.unique(np.array(listed, dtype=object), return_inverse=True)
    coder = ChunkTags(classes)
    chunks = coder.find(indices.astype(np.int64), np.zeros(1, np.int64))
    columns = (chunks.first, chunks.first + chunks.sizes, np.array(coder.kinds)[chunks.kinds])
    return [Chunk(*chunk) for chunk in zip(*(of.tolist() for of in columns), strict=True)]


def convert_tags(tags: Sequence[Any], to: str) -> list[list[str]]:
    """Convert tags to another scheme.

    Chunks are read as ``conlleval`` reads them, whatever the scheme.

    Parameters
    ----------
    tags : sequence of sequences of str
        Tags of each sequence.
    to : {"iob1", "iob2", "bioes", "bilou"}
        The scheme to convert to.

    Returns
    -------
    tags : list of list of str
        Tags with the same chunks.

    Raises
    ------
    TypeError, ValueError
        If there is no such scheme, or tags are not those of chunks.

    Examples
    --------
    >>> from structboost.text import convert_tags
    >>> convert_tags([["B-PER", "I-PER", "O", "B-LOC"]], "bioes")
    [['B-PER', 'E-PER', 'O', 'S-LOC']]
    """
    checked_choice(to, "to", SCHEMES)
    sequences = checked_tags(tags, "tags", unknown=False)
    return [converted(list_chunks(sequence), len(sequence), to) for sequence in sequences]


def checked_tags(y: Any, name: str, *, unknown: bool = True) -> list[list[Any]]:
    """Return tags of chunks as lists, None where they are missing.

    TypeError or ValueError, which names the tag, if ``y`` has other tags than those of chunks, or
    one is missing without ``unknown``.
    """
    out = []
    for i, tags in enumerate(y):
        check_sequence(tags, f"{name}[{i}]", "give a list of tags for each sequence")
        out.append([None if is_missing_tag(tag) else tag for tag in tags])
        for t, tag in enumerate(out[-1]):
            if not (is_chunk_tag(tag) or (unknown and tag is None)):
                raise ValueError(
                    f"{name}[{i}][{t}] is {shown(tag)}; give O, or B, I, E, S, L or U with a kind, "
                    "as B-PER."
                )
    return out
