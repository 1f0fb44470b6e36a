"""Schemes of tags that mark chunks, the chunks in tags, and conversions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from structboost.tasks.chunk_tags import (
    SCHEMES,
    ChunkTags,
    converted,
    first_fault,
    forbidden_by_scheme,
    has_tag,
    is_chunk_tag,
    observed_pairs,
    scheme_of,
)
from structboost.validation import checked_choice, is_missing, shown


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
    if isinstance(tags, list | tuple) and any(isinstance(tag, list | tuple) for tag in tags):
        raise TypeError(f"tags is {shown(tags)}; give the tags of one sequence, such as tags[0].")
    return _chunks(checked_tags([tags], "tags", unknown=False)[0])


def detect_scheme(y: Sequence[Any]) -> str | None:
    """Return the scheme of tags.

    Parameters
    ----------
    y : sequence of sequences of str
        Tags of each sequence; None marks unknown ones.

    Returns
    -------
    scheme : {"iob1", "iob2", "bioes", "bilou"} or None
        The scheme that the tags follow without exception, ``"iob2"`` if ``"iob1"`` allows them,
        too.  None if there is no such scheme.

    Raises
    ------
    TypeError, ValueError
        If ``y`` has other tags than those of chunks.

    Examples
    --------
    >>> from structboost.text import detect_scheme
    >>> detect_scheme([["B-PER", "I-PER", "O"], ["S-LOC"]])
    >>> detect_scheme([["B-PER", "E-PER", "O"], ["S-LOC"]])
    'bioes'
    """
    return scheme_of(observed_pairs(checked_tags(y, "y")))


def convert_tags(tags: Sequence[Any], to: str, *, scheme: str | None = None) -> list[Any]:
    """Convert tags to another scheme.

    Parameters
    ----------
    tags : sequence of sequences of str, or sequence of str
        Tags of each sequence, or of a single one.
    to : {"iob1", "iob2", "bioes", "bilou"}
        The scheme to convert to.
    scheme : {"iob1", "iob2", "bioes", "bilou"}, optional
        The scheme of the tags, which they are checked against.  By default, chunks are read as
        ``conlleval`` reads them, whatever the scheme.

    Returns
    -------
    tags : list
        The tags in the form of the argument, with the same chunks.

    Raises
    ------
    TypeError, ValueError
        If there is no such scheme, or the tags do not follow it.

    Examples
    --------
    >>> from structboost.text import convert_tags
    >>> convert_tags(["B-PER", "I-PER", "O", "B-LOC"], "bioes")
    ['B-PER', 'E-PER', 'O', 'S-LOC']
    >>> convert_tags([["I-PER", "O"], ["I-LOC", "B-LOC"]], "iob2", scheme="iob1")
    [['B-PER', 'O'], ['B-LOC', 'B-LOC']]
    """
    checked_choice(to, "to", SCHEMES)
    check_ordered(tags, "tags", "give a list of tags")
    is_single = hasattr(tags, "__len__") and len(tags) > 0 and all(isinstance(t, str) for t in tags)
    sequences = checked_tags([tags] if is_single else tags, "tags", scheme, unknown=False)
    out = [converted(_chunks(sequence), len(sequence), to) for sequence in sequences]
    return out[0] if is_single else out


def forbidden_pairs(tags: Sequence[str], scheme: str) -> list[tuple[str | None, str | None]]:
    """Return the pairs of tags that a scheme forbids.

    ``StructBoostTagger(forbidden=...)`` takes them.  With ``scheme=`` it finds them itself.

    Parameters
    ----------
    tags : sequence of str
        All tags.
    scheme : {"iob1", "iob2", "bioes", "bilou"}
        The scheme.

    Returns
    -------
    pairs : list of (tag, tag)
        A tag and the one after it.  None is the start or the end of the sequence.

    Raises
    ------
    TypeError, ValueError
        If there is no such scheme, or it does not have one of the tags.

    Examples
    --------
    >>> from structboost.text import forbidden_pairs
    >>> forbidden_pairs(["O", "B-PER", "I-PER"], "iob2")
    [(None, 'I-PER'), ('O', 'I-PER')]
    """
    checked_choice(scheme, "scheme", SCHEMES)
    (names,) = checked_tags([tags], "tags", unknown=False)
    strange = next((tag for tag in names if not has_tag(scheme, tag)), None)
    if strange is not None:
        raise ValueError(f"tags has {strange!r}, which {scheme!r} does not have; give its scheme.")
    return forbidden_by_scheme(names, scheme)


def checked_tags(
    y: Any, name: str, scheme: str | None = None, *, unknown: bool = True
) -> list[list[str | None]]:
    """Return tags of chunks as lists, None where they are unknown.

    Parameters
    ----------
    y : sequence of sequences of str
    name : str
        Argument, for errors.
    scheme : str, optional
        Scheme that the tags must follow.
    unknown : bool
        Whether tags may be unknown.

    Raises
    ------
    TypeError, ValueError
        If they are no tags of chunks, or do not follow the scheme; the message names them.
    """
    if scheme is not None:
        checked_choice(scheme, "scheme", SCHEMES)
    remedy = "give a list of tags for each sequence"
    check_ordered(y, name, remedy)
    out: list[list[str | None]] = []
    good: set[str] = set()
    for i, tags in enumerate(y):
        check_ordered(tags, f"{name}[{i}]", remedy)
        sequence = [tag if type(tag) is str else _plain(tag) for tag in tags]
        for t, tag in enumerate(sequence):
            if (tag is None and unknown) or (isinstance(tag, str) and tag in good):
                continue
            if not is_chunk_tag(tag):
                raise ValueError(
                    f"{name}[{i}][{t}] is {shown(tag)}; give O, or B, I, E, S, L or U with a kind, "
                    "as B-PER."
                )
            good.add(tag)
        if scheme is not None:
            fault = first_fault(observed_pairs([sequence]), scheme)
            if fault is not None:
                raise ValueError(
                    f"{name}[{i}] has {fault[1]!r} after {fault[0]!r} (O is also the start and the "
                    f"end), which {scheme!r} forbids; correct it, or give the scheme of the tags."
                )
        out.append(sequence)
    return out


def _chunks(tags: Sequence[Any]) -> list[Chunk]:
    if not tags:
        return []
    classes, indices = np.unique(np.array(tags, dtype=object), return_inverse=True)
    coder = ChunkTags(classes)
    spans = coder.find(indices.astype(np.int64), np.zeros(1, np.int64))
    ends = spans.first + spans.sizes
    kinds = [coder.kinds[kind] for kind in spans.kinds.tolist()]
    return [Chunk(*of) for of in zip(spans.first.tolist(), ends.tolist(), kinds, strict=True)]


def _plain(tag: Any) -> Any:
    """Return a tag as a string of Python, None if it is missing, others unchanged."""
    if isinstance(tag, str):
        return str(tag)
    is_plain = tag is None or isinstance(tag, float) or not hasattr(tag, "__len__")
    return None if is_plain and is_missing(tag) else tag


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
