"""Chunks that tags such as B-PER, I-PER and O mark, and decisions for their F1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.parts import StackedParts
from structboost.selection.folds import Fold

OUTSIDE = "O"
# Prefixes of tags, and those that begin or end a chunk whatever stands beside them.
_PREFIXES, _BEGIN, _END = "BIESLU", "BSU", "ESLU"
# Fraction taken of the shift of decisions that is best for F1, and the least F1 for any.
_FRACTION, _LEAST_F1 = 0.5, 0.1


class ChunkTags:
    """Tags in a scheme of chunks: ``O``, and ``B-kind``, ``I-kind``, ``E-kind`` or ``S-kind``.

    Chunks are counted as ``conlleval`` does: one begins at a B, after O, and where the kind
    changes.

    Parameters
    ----------
    classes : ndarray
        All tags.
    """

    def __init__(self, classes: NDArray[Any]) -> None:
        tags = classes.tolist()
        parts = [str(tag).partition("-") for tag in tags]
        kinds = sorted({kind for _, _, kind in parts})
        self.outside = tags.index(OUTSIDE) if OUTSIDE in tags else -1
        self._kind = np.array([kinds.index(kind) for _, _, kind in parts])
        self._begins = np.array([prefix in _BEGIN for prefix, _, _ in parts])
        self._ends = np.array([prefix in _END for prefix, _, _ in parts])
        self._n_kinds = len(kinds)

    @staticmethod
    def is_scheme(classes: NDArray[Any]) -> bool:
        """Whether all tags are of such a scheme, O among them."""
        tags = classes.tolist()
        return OUTSIDE in tags and all(
            tag == OUTSIDE
            or (isinstance(tag, str) and tag[:1] in _PREFIXES and tag[1:2] == "-" and len(tag) > 2)
            for tag in tags
        )

    def chunks(self, tags: IntArray, starts: IntArray) -> IntArray:
        """Return a number for each chunk, of its place, length and kind.

        Parameters
        ----------
        tags : ndarray of int, shape (n_tokens,)
            Tags of all sequences, by number.
        starts : ndarray of int, shape (n_sequences + 1,)
            First token of each sequence.
        """
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
        return np.asarray((at * (len(tags) + 1) + sizes) * self._n_kinds + kind[at], np.int64)

    def f1(self, true: IntArray, found: IntArray, starts: IntArray) -> float:
        """Return the F1 over chunks, from 0 to 1, which is 0 where there are none."""
        a, b = self.chunks(true, starts), self.chunks(found, starts)
        total = len(a) + len(b)
        return 2.0 * len(np.intersect1d(a, b)) / total if total else 0.0


def chosen_offset(
    task: Any, classes: NDArray[Any], folds: Sequence[Fold], scores: Sequence[StackedParts]
) -> float:
    """Return how far the score of O should be lowered for the chunk F1 of held-out sequences.

    The most likely tags leave out chunks that are rare and doubtful, though finding half of them
    would raise F1.  Decisions of the largest F1 say yes from the probability F1 / 2 on.  Half of
    that shift is taken, because held-out chunks that a model is sure of are many: on three corpora
    the best shifts were between 0 and the whole one (docs/decisions/linear-likelihood.md).

    Parameters
    ----------
    task : ChainTask
    classes : ndarray
        All tags.
    folds : sequence of Fold
        Held-out sequences.
    scores : sequence of StackedParts
        Scores of their parts.

    Notes
    -----
    Lipton, Elkan and Naryanaswamy, ECML 2014.
    """
    chunks = ChunkTags(classes)
    of_folds = []
    for fold, own in zip(folds, scores, strict=True):
        found = np.concatenate(task.argmax_batch(fold.held_X, own))
        true = np.concatenate([np.asarray(y) for y in fold.held_Y])
        of_folds.append(chunks.f1(true, found, own.offsets["token"]))
    threshold = 0.5 * float(np.mean(of_folds))
    if threshold < 0.5 * _LEAST_F1:
        return 0.0
    return round(_FRACTION * float(np.log((1.0 - threshold) / threshold)), 3)


def lowered(scores: StackedParts, tag: int, offset: float) -> StackedParts:
    """Return the scores of tokens with those of one tag lowered."""
    if not offset:
        return scores
    rows: FloatArray = scores.rows["token"].copy()
    rows[:, tag] -= offset
    return StackedParts({**scores.rows, "token": rows}, scores.offsets)
