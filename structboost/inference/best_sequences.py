"""Best tags of all sequences of a batch, in one compiled call (Viterbi)."""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.inference.exponentials import MANY_TAGS
from structboost.runtime.compiled import compiled

# First row of one that all sequences share.  numba compiles once more for a literal 0.
ONE_ROW: Any = np.int64(0)
NEXT_ROW: Any = np.int64(1)
# Scores of tags and of pairs, allowed pairs, first token and first row of each sequence, row_step.
Sequences = tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray, int | None]


@compiled
def best_sequences(
    emissions: FloatArray,
    transitions: FloatArray,
    allowed: FloatArray,
    starts: IntArray,
    rows: IntArray,
    row_step: int | None,
    tags: IntArray,
    best: FloatArray,
    pairs: FloatArray,
    ends: FloatArray | None,
) -> int:
    """Find the tags of the highest score of every sequence, as :func:`viterbi` does of one.

    Parameters
    ----------
    emissions : ndarray, shape (n_tokens, n_tags)
        Scores of the tags of each token.
    transitions : ndarray, shape (n_rows, n_tags * n_tags)
        Scores of the pairs of tags of each step, entry ``from * n_tags + to``.
    allowed : ndarray, shape (n_tags * n_tags,)
        0 where a tag may follow a tag, else minus infinity.
    starts : ndarray of int64, shape (n_sequences + 1,)
        First token of each sequence.
    rows : ndarray of int64, shape (n_sequences,)
        Row of the first step of each sequence.
    row_step : int or None
        None where all steps of a sequence have one row, 1 where each has the next one.
    tags : ndarray of int64, shape (n_tokens,)
        Filled with the tags.
    best, pairs, ends
        Result of :func:`space_of_search`.

    Returns
    -------
    impossible : int
        First sequence that has no allowed tags, or -1.
    """
    n_tags = emissions.shape[1]
    rows_per_step = 0 if row_step is None else 1
    row_of_pairs = -1
    bound = -np.inf
    for i in range(len(rows)):
        first, n = starts[i], starts[i + 1] - starts[i]
        if n <= 0:
            continue
        for k in range(n_tags):
            best[0, k] = emissions[first, k]
        for t in range(1, n):
            row = rows[i] + (t - 1) * rows_per_step
            if row != row_of_pairs:
                row_of_pairs = row
                for j in range(n_tags):
                    for k in range(n_tags):
                        at = j * n_tags + k
                        pairs[j, k] = transitions[row, at] + allowed[at]
                if ends is not None:
                    for j in range(n_tags):
                        ends[0, j], ends[1, j] = -np.inf, np.inf
                        for k in range(n_tags):
                            ends[0, j] = max(ends[0, j], pairs[j, k])
                            ends[1, j] = min(ends[1, j], pairs[j, k])
            if ends is not None:
                bound = -np.inf
                for j in range(n_tags):
                    bound = max(bound, best[t - 1, j] + ends[1, j])
            # Tags are left out if their sequences are below the bound with any next tag, where some
            # sequence has at least that with every next tag.
            for k in range(n_tags):
                best[t, k] = -np.inf
            for j in range(n_tags):
                start = best[t - 1, j]
                if ends is not None:
                    if bound > -np.inf and start + ends[0, j] < bound:
                        continue
                for k in range(n_tags):
                    best[t, k] = np.maximum(best[t, k], start + pairs[j, k])  # in vector registers
            for k in range(n_tags):
                best[t, k] += emissions[first + t, k]
        tag = ONE_ROW
        for k in range(1, n_tags):
            if best[n - 1, k] > best[n - 1, tag]:
                tag = k
        if best[n - 1, tag] == -np.inf:
            return i
        for t in range(n - 1, 0, -1):
            tags[first + t] = tag
            row = rows[i] + (t - 1) * rows_per_step
            # The tag from which the best sequence came is searched again, for one tag only.
            before, largest = ONE_ROW, -np.inf
            for j in range(n_tags):
                value = best[t - 1, j] + (
                    transitions[row, j * n_tags + tag] + allowed[j * n_tags + tag]
                )
                if value > largest:
                    before, largest = j, value
            tag = before
        tags[first] = tag
    return -1


def space_of_search(
    emissions: FloatArray,
    transitions: FloatArray,
    allowed: FloatArray,
    starts: IntArray,
    rows: IntArray,
    row_step: int | None,
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Allocate what :func:`best_sequences` of these sequences works in.

    Scores by token and tag, scores of pairs, and the most and the least of a tag and a next one,
    where they are worth their time.
    """
    n_tags = emissions.shape[1]
    is_pruned = n_tags >= MANY_TAGS and row_step is None
    return (
        np.empty((longest(starts), n_tags)),
        np.empty((n_tags, n_tags)),
        np.empty((2, n_tags)) if is_pruned else None,
    )


def longest(starts: IntArray) -> int:
    """Return the number of tokens of the longest sequence, at least 1."""
    return int(np.diff(starts).max(initial=1))
