"""Best tags of all sequences of a batch, in one compiled call (Viterbi)."""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.inference.exponentials import INSIDE, MANY_TAGS
from structboost.runtime.compiled import compiled

# First row, and rows from step to step, where all steps share one.  numba compiles once more for a
# literal 0.
ONE_ROW: Any = np.int64(0)
NEXT_ROW: Any = np.int64(1)


@compiled
def best_sequences(
    emissions: FloatArray,
    transitions: FloatArray,
    allowed: FloatArray,
    starts: IntArray,
    rows: IntArray,
    row_step: int,
    tags: IntArray,
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
    row_step : int
        Rows from a step to the next: 0 or 1.
    tags : ndarray of int64, shape (n_tokens,)
        Filled with the tags.

    Returns
    -------
    impossible : int
        First sequence that has no allowed tags, or -1.
    """
    n_tags = emissions.shape[1]
    longest = 1
    for i in range(len(rows)):
        longest = max(longest, starts[i + 1] - starts[i])
    best = np.empty((longest, n_tags))
    pairs = np.empty((n_tags, n_tags))
    # Most and least score of a tag and a next one, where they are worth their time.
    ends = np.empty((2, n_tags))
    most, least = ends[0], ends[1]
    prunes = n_tags >= MANY_TAGS and not row_step
    row_of_pairs = -1
    for i in range(len(rows)):
        first, n = starts[i], starts[i + 1] - starts[i]
        if n <= 0:
            continue
        for k in range(n_tags):
            best[0, k] = emissions[first, k]
        for t in range(1, n):
            row = rows[i] + (t - 1) * row_step
            if row != row_of_pairs:
                row_of_pairs = row
                for j in range(n_tags):
                    most[j], least[j] = -np.inf, np.inf
                    for k in range(n_tags):
                        at = j * n_tags + k
                        pairs[j, k] = transitions[row, at] + allowed[at]
                        if prunes:
                            most[j], least[j] = (
                                max(most[j], pairs[j, k]),
                                min(least[j], pairs[j, k]),
                            )
            bound = -np.inf
            if prunes:
                for j in range(n_tags):
                    bound = max(bound, best[t - 1, j] + least[j])
            _extend(best[t - 1], pairs, emissions[first + t], best[t], most, bound)
        tag = ONE_ROW
        for k in range(1, n_tags):
            if best[n - 1, k] > best[n - 1, tag]:
                tag = k
        if best[n - 1, tag] == -np.inf:
            return i
        for t in range(n - 1, 0, -1):
            tags[first + t] = tag
            row = rows[i] + (t - 1) * row_step
            tag = _tag_before(best[t - 1], transitions[row], allowed, tag)
        tags[first] = tag
    return -1


@compiled(**INSIDE)
def _extend(
    before: FloatArray,
    pairs: FloatArray,
    emissions: FloatArray,
    best: FloatArray,
    most: FloatArray,
    bound: float,
) -> None:
    """Compute the best scores of sequences up to a token, by its tag.

    Tags before it are left out if their sequences are below ``bound`` with any next tag, where some
    sequence has at least ``bound`` with every next tag.  So the result is the same.
    """
    n_tags = len(before)
    for k in range(n_tags):
        best[k] = -np.inf
    for j in range(n_tags):
        start = before[j]
        if bound > -np.inf and start + most[j] < bound:
            continue
        for k in range(n_tags):
            best[k] = np.maximum(best[k], start + pairs[j, k])  # in vector registers
    for k in range(n_tags):
        best[k] += emissions[k]


@compiled(**INSIDE)
def _tag_before(before: FloatArray, transitions: FloatArray, allowed: FloatArray, tag: int) -> int:
    """Search again, for one tag only, the tag from which the best sequence came to it."""
    n_tags = len(before)
    best, largest = 0, -np.inf
    for j in range(n_tags):
        value = before[j] + (transitions[j * n_tags + tag] + allowed[j * n_tags + tag])
        if value > largest:
            best, largest = j, value
    return best
