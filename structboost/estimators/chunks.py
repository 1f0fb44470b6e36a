"""Chunks marked by tags such as B-PER, I-PER and O, and a decision rule for their F1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.parts import StackedParts
from structboost.selection.folds import Fold

OUTSIDE = "O"
# Prefixes of tags, and those that always begin or end a chunk.
_PREFIXES, _BEGIN, _END = "BIESLU", "BSU", "ESLU"
# Fraction of the shift that is best for F1, and the smallest F1 at which to shift.
_FRACTION, _LEAST_F1 = 0.5, 0.1


class ChunkTags:
    """Tags of a chunk scheme, such as ``O``, ``B-kind``, ``I-kind``, ``E-kind`` and ``S-kind``.

    As in ``conlleval``, a chunk begins at a B, after O, and where the kind changes.

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
        """Whether all tags belong to such a scheme and O is one of them."""
        tags = classes.tolist()
        return OUTSIDE in tags and all(
            tag == OUTSIDE
            or (isinstance(tag, str) and tag[:1] in _PREFIXES and tag[1:2] == "-" and len(tag) > 2)
            for tag in tags
        )

    def chunks(self, tags: IntArray, starts: IntArray) -> IntArray:
        """Return an integer for each chunk that encodes its position, length and kind.

        Parameters
        ----------
        tags : ndarray of int, shape (n_tokens,)
            Indices of the tags of all sequences.
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

    def f1(self, true: IntArray, predicted: IntArray, starts: IntArray) -> float:
        """Return the F1 over chunks, from 0 to 1, or 0 if there are none."""
        a, b = self.chunks(true, starts), self.chunks(predicted, starts)
        total = len(a) + len(b)
        return 2.0 * len(np.intersect1d(a, b)) / total if total else 0.0


def chosen_offset(
    task: Any, classes: NDArray[Any], folds: Sequence[Fold], scores: Sequence[StackedParts]
) -> float:
    """Return the amount by which to lower the score of O, for the F1 of held-out chunks.

    The most likely tags leave out rare and uncertain chunks, although finding half of them would
    raise F1.  The largest F1 needs every chunk of a probability of at least F1 / 2.  Half of that
    shift is used, because models are certain of most held-out chunks.  On three corpora the best
    shifts were between 0 and the whole one (docs/decisions/linear-likelihood.md).

    Notes
    -----
    Lipton, Elkan and Naryanaswamy, ECML 2014.
    """
    chunks = ChunkTags(classes)
    of_folds = []
    for fold, held_scores in zip(folds, scores, strict=True):
        predicted = np.concatenate(task.argmax_batch(fold.held_X, held_scores))
        true = np.concatenate([np.asarray(y) for y in fold.held_Y])
        of_folds.append(chunks.f1(true, predicted, held_scores.offsets["token"]))
    threshold = 0.5 * float(np.mean(of_folds))
    if threshold < 0.5 * _LEAST_F1:
        return 0.0
    return round(_FRACTION * float(np.log((1.0 - threshold) / threshold)), 3)


def lowered(scores: StackedParts, tag: int, offset: float) -> StackedParts:
    """Lower the scores of one tag in the scores of tokens."""
    if not offset:
        return scores
    rows: FloatArray = scores.rows["token"].copy()
    rows[:, tag] -= offset
    return StackedParts({**scores.rows, "token": rows}, scores.offsets)
