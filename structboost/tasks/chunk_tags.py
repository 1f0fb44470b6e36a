"""Schemes of tags that mark chunks, such as B-PER, I-PER and O, and the chunks in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from structboost._typing import AnyArray, IntArray

OUTSIDE = "O"
# Where tags follow both, they are told to be of the first.
Scheme = Literal["iob2", "iob1", "bioes", "bilou"]
SCHEMES = get_args(Scheme)
# Prefixes of each scheme beside O.
_PREFIXES_OF = {"iob1": "BI", "iob2": "BI", "bioes": "BIES", "bilou": "BILU"}
# Prefixes of tags, and those that always begin or end a chunk.
_PREFIXES, _BEGIN, _END = "BIESLU", "BSU", "ESLU"
# A prefix alone marks chunks of a single, nameless kind.
_TAG = re.compile(f"{OUTSIDE}|[{_PREFIXES}](?:-(.+))?", re.DOTALL)


class Chunks(NamedTuple):
    """Chunks of sequences, in their order.

    Attributes
    ----------
    first, sizes : ndarray of int, shape (n_chunks,)
        First token and number of tokens of each.
    kinds : ndarray of int, shape (n_chunks,)
        Index of the kind of each.
    """

    first: IntArray
    sizes: IntArray
    kinds: IntArray


class ChunkTags:
    """Tags of a chunk scheme, such as ``O``, ``B-kind``, ``I-kind``, ``E-kind`` and ``S-kind``.

    As in ``conlleval``, a chunk begins at a B, after O, and where the kind changes.

    Parameters
    ----------
    classes : ndarray
        All tags.

    Attributes
    ----------
    outside : int
        Index of the tag O, -1 if there is none.
    kinds : list of str
        Kinds of chunks, in ascending order.
    """

    def __init__(self, classes: AnyArray) -> None:
        tags = classes.tolist()
        parts = [str(tag).partition("-") for tag in tags]
        self.kinds = sorted({kind for _, _, kind in parts})
        self.outside = tags.index(OUTSIDE) if OUTSIDE in tags else -1
        self._kind = np.array([self.kinds.index(kind) for _, _, kind in parts], np.int64)
        self._begins = np.array([prefix in _BEGIN for prefix, _, _ in parts], bool)
        self._ends = np.array([prefix in _END for prefix, _, _ in parts], bool)

    @staticmethod
    def is_scheme(classes: AnyArray) -> bool:
        """Whether all tags belong to such a scheme and O is one of them."""
        tags = classes.tolist()
        return OUTSIDE in tags and all(
            tag == OUTSIDE or (is_chunk_tag(tag) and len(tag) > 2) for tag in tags
        )

    def find(self, tags: IntArray, starts: IntArray) -> Chunks:
        """Return the chunks of sequences, of which sequence i begins at token ``starts[i]``."""
        inside = tags != self.outside
        first = np.zeros(len(tags) + 1, bool)
        first[starts] = True
        before, kind = np.roll(tags, 1), self._kind[tags]
        begins = inside & (
            first[:-1] | ~np.roll(inside, 1) | self._begins[tags]
            | self._ends[before] | (self._kind[before] != kind)
        )  # fmt: skip
        at = np.flatnonzero(begins)
        sizes = np.bincount(np.cumsum(begins)[inside], minlength=len(at) + 1)[1:]
        return Chunks(at, sizes.astype(np.int64), kind[at])

    def codes(self, chunks: Chunks, n_tokens: int) -> IntArray:
        """Return an integer for each chunk that encodes its position, length and kind."""
        places = chunks.first * (n_tokens + 1) + chunks.sizes
        return np.asarray(places * len(self.kinds) + chunks.kinds, np.int64)

    def matches(self, true: IntArray, predicted: IntArray, starts: IntArray) -> IntArray:
        """Return the numbers of correct chunks, and of true and predicted ones, of each sequence.

        Sequence i is ``starts[i]:starts[i + 1]``.  F1 is twice the sum of the first numbers over
        that of the second.  The shape is (2, n_sequences).
        """
        of_true, of_predicted = (self.find(tags, starts) for tags in (true, predicted))
        codes, others = (self.codes(chunks, len(true)) for chunks in (of_true, of_predicted))
        correct = of_true.first[np.isin(codes, others)]
        both = np.concatenate((of_true.first, of_predicted.first))
        counts = [
            np.bincount(np.searchsorted(starts, first, side="right") - 1, minlength=len(starts) - 1)
            for first in (correct, both)
        ]
        return np.array(counts, np.int64)


def is_chunk_tag(tag: Any) -> bool:
    """Whether a tag is O, or a prefix of a scheme that a kind may follow."""
    return isinstance(tag, str) and _TAG.fullmatch(tag) is not None


def has_tag(scheme: Scheme, tag: Any) -> bool:
    """Whether a scheme has a tag."""
    return is_chunk_tag(tag) and (tag == OUTSIDE or tag[0] in _PREFIXES_OF[scheme])


def observed_pairs(sequences: Iterable[Sequence[Any]]) -> set[tuple[Any, Any]]:
    """Return the pairs of neighbouring tags, with O before and after each sequence.

    Pairs with an unknown tag, None, are left out.
    """
    pairs = {pair for tags in sequences for pair in pairwise((OUTSIDE, *tags, OUTSIDE))}
    return {pair for pair in pairs if None not in pair}


def scheme_of(pairs: set[tuple[Any, Any]]) -> str | None:
    """Return the scheme that allows all :func:`observed_pairs` of tags, or None.

    ``"iob2"`` comes before ``"iob1"`` where both do.
    """
    return next((name for name in SCHEMES if first_fault(pairs, name) is None), None)


def first_fault(pairs: Iterable[tuple[Any, Any]], scheme: Scheme) -> tuple[Any, Any] | None:
    """Return a pair of neighbouring tags that the scheme forbids, or None."""
    return next((pair for pair in pairs if not can_follow(*pair, scheme)), None)


def can_follow(before: Any, after: Any, scheme: Scheme) -> bool:
    """Whether a tag may follow another one, where O also means the start or the end."""
    if not (has_tag(scheme, before) and has_tag(scheme, after)):
        return False
    p, q = before[0], after[0]
    is_open, is_same_kind = p in "BI", before[2:] == after[2:]
    if scheme in ("iob1", "iob2"):
        # In IOB1 only a chunk after another of its kind begins with B.
        return q != ("I" if scheme == "iob2" else "B") or (is_open and is_same_kind)
    goes_on = q in "IEL"
    return is_open == goes_on and (is_same_kind or not goes_on)


def forbidden_by_scheme(tags: Sequence[Any], scheme: Scheme) -> list[tuple[Any, Any]]:
    """Return the pairs of tags that a scheme forbids, with None for the start or the end."""
    ends = [None, *tags]
    return [
        (a, b)
        for a in ends
        for b in ends
        if (a is not None or b is not None)
        and not can_follow(OUTSIDE if a is None else a, OUTSIDE if b is None else b, scheme)
    ]


def converted(chunks: Iterable[tuple[int, int, str]], n_tokens: int, scheme: Scheme) -> list[str]:
    """Return the tags of a sequence in a scheme.

    The chunks are (start, end, kind), in order.
    """
    tags = [OUTSIDE] * n_tokens
    last = (0, "")
    for start, end, kind in chunks:
        prefixes = ["I"] * (end - start)
        if scheme != "iob1" or ((start, kind) == last and start > 0):
            prefixes[0] = "B"
        if scheme in ("bioes", "bilou"):
            prefixes[-1] = "E" if scheme == "bioes" else "L"
            if len(prefixes) == 1:
                prefixes[0] = "S" if scheme == "bioes" else "U"
        tags[start:end] = [f"{prefix}-{kind}" if kind else prefix for prefix in prefixes]
        last = (end, kind)
    return tags
