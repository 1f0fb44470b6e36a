"""Search for the best cut of a sequence into labelled segments, by dynamic programming.

All sequences of a batch are searched in one compiled call, which releases the interpreter's lock.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import real_array
from structboost.runtime.compiled import compiled


def semi_markov_viterbi(spans: ArrayLike, transitions: ArrayLike) -> IntArray:
    """Cut a sequence into the labelled segments of the highest score.

    A cut scores the sum of its segments, ``spans[start, end - start - 1, label]``, and of
    ``transitions[label, next_label]`` over neighbours.

    Parameters
    ----------
    spans : array-like, shape (n_tokens, max_length, n_labels)
        Score of each label of the segment of each length, from 1, at each first token; minus
        infinity forbids it.  Segments that reach beyond the sequence are not read.
    transitions : array-like, shape (n_labels, n_labels)
        Score of each label (row) followed by each label (column); minus infinity forbids a pair.

    Returns
    -------
    segments : ndarray of int64, shape (n_segments, 3)
        First token, token after the last one, and label of each segment.  Of equally good cuts, the
        one with the first label and the shortest segment, compared from the last segment on.

    Raises
    ------
    ValueError
        If every cut is forbidden.

    Notes
    -----
    Exact, in ``O(n_tokens * n_labels * (max_length + n_labels))``.  Sarawagi and Cohen,
    Semi-Markov conditional random fields for information extraction, NIPS 2004, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost.inference import semi_markov_viterbi
    >>> spans = np.zeros((3, 2, 2))
    >>> spans[0, 1, 1] = 2.0  # tokens 0 and 1 as a segment of label 1
    >>> semi_markov_viterbi(spans, np.zeros((2, 2))).tolist()
    [[0, 2, 1], [2, 3, 0]]
    """
    scores = real_array(spans, "spans", ("n_tokens", "max_length", "n_labels"), forbids=True)
    n, max_length, n_labels = scores.shape
    pairs = real_array(transitions, "transitions", (n_labels, n_labels), forbids=True)
    zeros, (lengths, labels) = np.zeros((n, n_labels)), np.zeros((2, n), np.int64)
    impossible = best_segments(
        (zeros, zeros, scores.reshape(n * max_length, n_labels), pairs.reshape(1, -1)),
        (np.array([0, n]), np.zeros(1, np.int64), max_length, max_length),
        lengths,
        labels,
    )
    if impossible >= 0:
        raise ValueError(
            "spans and transitions forbid every cut by minus infinity; forbid less, or add longer "
            "segments."
        )
    return cut_of(lengths, labels)


def cut_of(lengths: IntArray, labels: IntArray) -> IntArray:
    """List the segments of one sequence, as :func:`semi_markov_viterbi` returns them.

    Parameters
    ----------
    lengths, labels : ndarray of int64, shape (n_tokens,)
        Length and label of the segment at each of its first tokens; length 0 elsewhere.
    """
    start = np.flatnonzero(lengths)
    return np.column_stack((start, start + lengths[start], labels[start]))


@compiled
def best_segments(
    scores: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    layout: tuple[IntArray, IntArray, int, int],
    lengths: IntArray,
    labels: IntArray,
) -> int:
    """Cut every sequence, as :func:`semi_markov_viterbi` does one.

    ``scores`` are the arrays ``tokens``, ``begins``, ``spans`` and ``pairs``.  ``layout`` consists
    of ``starts``, ``span_rows``, ``span_step`` and ``max_length``.

    Parameters
    ----------
    tokens, begins : ndarray, shape (n_tokens, n_labels)
        Scores of a label on each token, and of a segment that begins there.
    spans : ndarray, shape (n_rows, n_labels)
        Scores of whole segments, a row for each length from 1.
    pairs : ndarray, shape (n_sequences, n_labels * n_labels)
        Scores of a label and the next one, entry ``label * n_labels + next_label``.
    starts, span_rows : ndarray of int64, shape (n_sequences + 1,) and (n_sequences,)
        First token of each sequence, and row in ``spans`` of its first segment of length 1.
    span_step, max_length : int
        Rows from a first token to the next one (0 if all share theirs), and most tokens of a
        segment.
    lengths, labels : ndarray of int64, shape (n_tokens,)
        Filled in as :func:`cut_of` reads them; ``lengths`` starts at zero.

    Returns
    -------
    impossible : int
        First sequence without an allowed cut, or -1.
    """
    tokens, begins, spans, pairs = scores
    starts, span_rows, span_step, max_length = layout
    n_labels = tokens.shape[1]
    longest = 0
    for i in range(len(span_rows)):
        longest = max(longest, starts[i + 1] - starts[i])
    # Row t is about the first t tokens. `best` scores their best cut whose last segment has a
    # label, `entered` adds the step to a following label; the others lead back.
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
