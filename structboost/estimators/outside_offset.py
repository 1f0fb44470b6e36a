"""Decision rule for the F1 of chunks, which lowers the score of the tag O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.contract.parts import StackedParts
from structboost.selection.folds import Fold
from structboost.tasks.chunk_tags import ChunkTags

# Fraction of the shift that is best for F1, and the smallest F1 at which to shift.
_FRACTION, _LEAST_F1 = 0.5, 0.1


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
