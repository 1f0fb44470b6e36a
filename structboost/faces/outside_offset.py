"""Shift of the score of the tag O, chosen by the F1 of held-out chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.contract.parts import StackedParts
from structboost.linear.linear_trainer import HeldScores
from structboost.tasks.chunk_tags import OUTSIDE, ChunkTags
from structboost.training.boosting import AUTO
from structboost.validation import checked_number, is_same, shown

# Shifts that are tried beside 0.
_CANDIDATES = (-1.0, -0.5, 0.5, 1.0, 1.5)
# Scores are logarithms of odds: a larger shift leaves no O, or nothing else.
_LARGEST = 100
# A shift is taken if F1 gains more than so many standard errors.
_CLEARLY = 1.5
# F1 without a shift below which nothing is shifted, since then F1 rewards chunks that are guessed.
_LEAST_F1 = 0.1
# Folds are used until so many true and predicted chunks are held out.
_ENOUGH_CHUNKS = 1500


def given_offset(offset: Any, classes: NDArray[Any]) -> float | None:
    """Return the shift that a parameter gives, or None if it is to be chosen.

    ValueError or TypeError if it is neither a finite number nor ``"auto"``, or if there is no O.
    """
    if is_same(offset, AUTO):
        return None if ChunkTags.is_scheme(classes) else 0.0
    wanted = f"'auto', 0, or how much to lower the score of O, at most {_LARGEST}"
    if isinstance(offset, str) or not (
        abs(checked_number(offset, "outside_offset", wanted)) <= _LARGEST
    ):
        raise ValueError(f"outside_offset is {shown(offset)}; give {wanted}.")
    if offset and OUTSIDE not in classes.tolist():
        raise ValueError(
            f"outside_offset is {shown(offset)}, and y has no tag {OUTSIDE!r}; leave it out."
        )
    return float(offset)


def chosen_offset(task: Any, classes: NDArray[Any], held_out: Iterable[HeldScores]) -> float:
    """Return the shift of the score of O with the largest F1 of held-out chunks.

    It is 0 unless another candidate gains more than the noise, by the standard error of the
    difference over the sequences (docs/decisions.md).
    """
    chunks = ChunkTags(classes)
    offsets = np.array((0.0, *_CANDIDATES))
    parts, n_chunks = [], 0.0
    for fold, scores in held_out:
        true = np.concatenate([np.asarray(y) for y in fold.held_Y])
        starts = scores.offsets["token"]
        of_fold = [
            chunks.matches(
                true,
                np.concatenate(task.argmax_batch(fold.held_X, lowered(scores, chunks.outside, by))),
                starts,
            )
            for by in offsets
        ]
        weights = 1.0 if fold.held_weight is None else np.asarray(fold.held_weight)
        parts.append(weights * np.array(of_fold))
        n_chunks += of_fold[0][1].sum()
        if n_chunks >= _ENOUGH_CHUNKS:
            break
    correct, total = np.moveaxis(np.concatenate(parts, axis=2), 1, 0)
    sums = np.maximum(total.sum(axis=1), 1.0)
    f1 = 2.0 * correct.sum(axis=1) / sums
    if f1[0] < _LEAST_F1:
        return 0.0
    # How much each sequence moves F1, to first order.
    moves = (2.0 * correct - f1[:, None] * total) / sums[:, None]
    best = int(f1.argmax())
    error = np.linalg.norm(moves[best] - moves[0])
    return float(offsets[best]) if f1[best] - f1[0] > _CLEARLY * error else 0.0


def lowered(scores: StackedParts, tag: int, offset: float) -> StackedParts:
    """Lower the scores of one tag in the scores of tokens."""
    if not offset:
        return scores
    rows: FloatArray = scores.rows["token"].copy()
    rows[:, tag] -= offset
    return StackedParts({**scores.rows, "token": rows}, scores.offsets)
