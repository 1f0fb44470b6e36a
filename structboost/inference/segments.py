"""Sequences cut into labelled segments: the best cut, by dynamic programming over their ends.

All sequences of a batch are searched in one compiled call, which releases the interpreter's lock
(semi-Markov models: Sarawagi and Cohen, NIPS 2004, section 2).
"""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


@compiled
def best_segments(
    tokens: FloatArray,
    begins: FloatArray,
    spans: FloatArray,
    pairs: FloatArray,
    starts: IntArray,
    span_rows: IntArray,
    span_step: int,
    max_length: int,
    rewarded: IntArray,
    reward: float,
    lengths: IntArray,
    labels: IntArray,
) -> int:
    """Segments of the highest score of every sequence.

    Parameters
    ----------
    tokens, begins : ndarray, shape (n_tokens, n_labels)
        Scores of a label on each token, and of a segment that begins there.
    spans : ndarray, shape (n_rows, n_labels)
        Scores of whole segments, a row for each length from 1.
    pairs : ndarray, shape (n_sequences, n_labels * n_labels)
        Scores of a label and the next one, entry ``label * n_labels + next_label``; minus infinity
        forbids it.
    starts : ndarray of int64, shape (n_sequences + 1,)
        First token of each sequence.
    span_rows : ndarray of int64, shape (n_sequences,)
        Row in ``spans`` of the segment of length 1 at the first token of each sequence.
    span_step : int
        Rows from a first token to the next one; 0 if all share theirs.
    max_length : int
        Most tokens of a segment.
    rewarded : ndarray of int64, shape (n_tokens, 2)
        Length and label of the segment at each token that scores ``reward`` more; length 0 for
        none.
    reward : float
        What such a segment scores more.
    lengths, labels : ndarray of int64, shape (n_tokens,)
        Are filled in at the first token of each segment; ``lengths`` starts at zero.

    Returns
    -------
    impossible : int
        First sequence without an allowed cut, or -1.
    """
    n_labels = tokens.shape[1]
    longest = 0
    for i in range(len(span_rows)):
        longest = max(longest, starts[i + 1] - starts[i])
    # Row t is about the first t tokens. `best` scores their best cut whose last segment has a
    # label, `entered` their best cut with the step to a following label; the others lead back.
    best = np.empty((longest + 1, n_labels))
    entered = np.empty((longest + 1, n_labels))
    last_length = np.empty((longest + 1, n_labels), np.int64)
    last_label = np.empty((longest + 1, n_labels), np.int64)
    for i in range(len(span_rows)):
        first, n = starts[i], starts[i + 1] - starts[i]
        if n <= 0:
            continue
        for k in range(n_labels):
            entered[0, k] = 0.0
        for end in range(1, n + 1):
            for k in range(n_labels):
                best[end, k] = -np.inf
                last_length[end, k] = 1
                inside = 0.0
                for length in range(1, min(max_length, end) + 1):
                    start = end - length
                    token = first + start
                    inside += tokens[token, k]
                    row = span_rows[i] + start * span_step + length - 1
                    value = entered[start, k] + (inside + begins[token, k] + spans[row, k])
                    if rewarded[token, 0] == length and rewarded[token, 1] == k:
                        value += reward
                    if value > best[end, k]:
                        best[end, k] = value
                        last_length[end, k] = length
            for k in range(n_labels):
                entered[end, k] = -np.inf
                last_label[end, k] = 0
                for j in range(n_labels):
                    value = best[end, j] + pairs[i, j * n_labels + k]
                    if value > entered[end, k]:
                        entered[end, k] = value
                        last_label[end, k] = j
        label = 0
        for k in range(1, n_labels):
            if best[n, k] > best[n, label]:
                label = k
        if best[n, label] == -np.inf:
            return i
        end = n
        while end > 0:
            length = last_length[end, label]
            end -= length
            lengths[first + end] = length
            labels[first + end] = label
            label = last_label[end, label] if end > 0 else 0
    return -1
