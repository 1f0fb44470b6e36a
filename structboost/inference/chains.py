"""Sequences of tags: the best one (Viterbi), and probabilities of tags (forward-backward).

All sequences of a batch are searched in one compiled call, which releases the interpreter's lock.
A sequence is a run of rows of ``emissions``.  Its steps read consecutive rows of ``transitions``,
or one and the same row: ``row_step`` is 1 or 0.
"""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled

# Beyond these, products may have lost what counts: logarithms are taken.
_SMALLEST = 1e-250
_LARGEST = 1e250


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
    """Tags of the highest score of every sequence, by dynamic programming.

    Parameters
    ----------
    emissions : ndarray, shape (n_tokens, n_tags)
        Scores of the tags of each token; minus infinity forbids a tag.
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
        Is filled; of equally good tags the first.

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
    known = -1
    for i in range(len(rows)):
        first, n = starts[i], starts[i + 1] - starts[i]
        if n <= 0:
            continue
        for k in range(n_tags):
            best[0, k] = emissions[first, k]
        for t in range(1, n):
            row = rows[i] + (t - 1) * row_step
            if row != known:
                known = row
                for j in range(n_tags):
                    for k in range(n_tags):
                        at = j * n_tags + k
                        pairs[j, k] = transitions[row, at] + allowed[at]
            _extend(best[t - 1], pairs, emissions[first + t], best[t])
        tag = 0
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


@compiled
def _extend(before: FloatArray, pairs: FloatArray, emissions: FloatArray, best: FloatArray) -> None:
    """Best scores of sequences up to a token, by its tag; np.maximum takes vector registers."""
    n_tags = len(before)
    for k in range(n_tags):
        best[k] = -np.inf
    for j in range(n_tags):
        start = before[j]
        for k in range(n_tags):
            best[k] = np.maximum(best[k], start + pairs[j, k])
    for k in range(n_tags):
        best[k] += emissions[k]


@compiled
def _tag_before(before: FloatArray, transitions: FloatArray, allowed: FloatArray, tag: int) -> int:
    """The tag from which the best sequence came to ``tag``: searched again, for one tag only."""
    n_tags = len(before)
    found, largest = 0, -np.inf
    for j in range(n_tags):
        value = before[j] + (transitions[j * n_tags + tag] + allowed[j * n_tags + tag])
        if value > largest:
            found, largest = j, value
    return found


@compiled
def tag_probabilities(
    emissions: FloatArray,
    transitions: FloatArray,
    allowed: FloatArray,
    starts: IntArray,
    rows: IntArray,
    row_step: int,
    of_tags: FloatArray,
    of_pairs: FloatArray,
    log_sums: FloatArray,
) -> None:
    """Probabilities where a sequence has probability ``exp(score) / sum``, by sum-product.

    Parameters
    ----------
    emissions, transitions, allowed, starts, rows, row_step
        As :func:`best_sequences` takes them.
    of_tags : ndarray, shape (n_tokens, n_tags)
        Is filled with the probability of each tag of each token.
    of_pairs : ndarray, shape (n_rows, n_tags * n_tags)
        Starts at zero; gains the probability of each pair of tags at each step.
    log_sums : ndarray, shape (n_sequences,)
        Is filled with the logarithm of the sum; minus infinity if no tags are allowed.
    """
    n_tags = emissions.shape[1]
    longest = 1
    for i in range(len(rows)):
        longest = max(longest, starts[i + 1] - starts[i])
    forward = np.empty((longest, n_tags))
    likely = np.empty((longest, n_tags))
    following = np.empty((n_tags, n_tags))
    preceding = np.empty((n_tags, n_tags))
    known, shift = -1, 0.0
    for i in range(len(rows)):
        first, n = starts[i], starts[i + 1] - starts[i]
        if not row_step and n > 1 and rows[i] != known:
            known = rows[i]
            shift = exponentials(transitions[known], allowed, following, preceding)
        log_sums[i] = sum_product(
            emissions[first : first + n], transitions, allowed, rows[i], row_step, forward, likely,
            following, preceding, shift, of_tags[first : first + n], of_pairs,
        )  # fmt: skip


@compiled
def sum_product(
    emissions: FloatArray,
    transitions: FloatArray,
    allowed: FloatArray,
    row: int,
    row_step: int,
    forward: FloatArray,
    likely: FloatArray,
    following: FloatArray,
    preceding: FloatArray,
    shift: float,
    of_tags: FloatArray,
    of_pairs: FloatArray,
) -> float:
    """Probabilities of one sequence; returns the logarithm of the sum.

    Parameters
    ----------
    emissions, of_tags : ndarray, shape (n_tokens, n_tags)
        Those of the sequence; ``of_tags`` is filled, and ``of_pairs`` gains.
    transitions, allowed, row_step, of_pairs
        As :func:`tag_probabilities` takes them.
    row : int
        Row of the first step.
    forward, likely : ndarray, shape (at least n_tokens, n_tags)
        Space to work in.
    following, preceding, shift
        What :func:`exponentials` gave for the one row of all steps; where ``row_step`` is 1, space
        to work in.
    """
    if not len(emissions):
        return 0.0
    is_kept, log_sum = _scaled(
        emissions, transitions, allowed, row, row_step, forward, likely, following, preceding,
        shift, of_tags, of_pairs,
    )  # fmt: skip
    if is_kept:
        return float(log_sum)
    return float(
        _by_logarithms(emissions, transitions, allowed, row, row_step, forward, of_tags, of_pairs)
    )


@compiled
def exponentials(
    transitions: FloatArray, allowed: FloatArray, following: FloatArray, preceding: FloatArray
) -> float:
    """Fill in ``exp(score - largest)`` of pairs, and its transpose; returns the largest."""
    n_tags = len(following)
    largest = -np.inf
    for at in range(n_tags * n_tags):
        largest = max(largest, transitions[at] + allowed[at])
    for j in range(n_tags):
        for k in range(n_tags):
            at = j * n_tags + k
            following[j, k] = np.exp(transitions[at] + allowed[at] - largest)
            preceding[k, j] = following[j, k]
    return largest


@compiled
def _scaled(
    emissions: FloatArray,
    transitions: FloatArray,
    allowed: FloatArray,
    row: int,
    row_step: int,
    forward: FloatArray,
    likely: FloatArray,
    following: FloatArray,
    preceding: FloatArray,
    shift: float,
    of_tags: FloatArray,
    of_pairs: FloatArray,
) -> tuple[bool, float]:
    """One sequence by products, each token on a scale of its own (Rabiner 1989, section V.A).

    Returns whether no number came near the ends of the range, and the logarithm of the sum.  If
    False, nothing was added to ``of_pairs``.
    """
    n, n_tags = emissions.shape
    scales = np.empty(n)
    log_sum = 0.0
    for t in range(n):
        largest = -np.inf
        for k in range(n_tags):
            largest = max(largest, emissions[t, k])
        log_sum += largest
        for k in range(n_tags):
            likely[t, k] = np.exp(emissions[t, k] - largest)
    for t in range(n):
        now = forward[t]
        if t == 0:
            for k in range(n_tags):
                now[k] = likely[0, k]
        else:
            if row_step:
                step = row + (t - 1) * row_step
                shift = exponentials(transitions[step], allowed, following, preceding)
            log_sum += shift
            for k in range(n_tags):
                now[k] = 0.0
            for j in range(n_tags):
                before = forward[t - 1, j]
                for k in range(n_tags):
                    now[k] += before * following[j, k]
            for k in range(n_tags):
                now[k] *= likely[t, k]
        total = 0.0
        for k in range(n_tags):
            total += now[k]
        if not total > _SMALLEST:
            return False, log_sum
        for k in range(n_tags):
            now[k] /= total
        scales[t] = total
        log_sum += np.log(total)
    arrived = np.empty(n_tags)
    backward = np.ones(n_tags)
    together = np.zeros((n_tags, n_tags))
    for k in range(n_tags):
        of_tags[n - 1, k] = forward[n - 1, k]
    for t in range(n - 2, -1, -1):
        for k in range(n_tags):
            arrived[k] = likely[t + 1, k] * backward[k] / scales[t + 1]
            backward[k] = 0.0
        if row_step:
            exponentials(transitions[row + t], allowed, following, preceding)
        largest = 0.0
        for k in range(n_tags):
            after = arrived[k]
            for j in range(n_tags):
                backward[j] += after * preceding[k, j]
        for j in range(n_tags):
            largest = max(largest, backward[j])
            of_tags[t, j] = forward[t, j] * backward[j]
        if not largest < _LARGEST:
            if row_step:
                for later in range(t + 1, n - 1):
                    of_pairs[row + later] = 0.0
            return False, log_sum
        if row_step:
            for j in range(n_tags):
                for k in range(n_tags):
                    of_pairs[row + t, j * n_tags + k] = forward[t, j] * following[j, k] * arrived[k]
        else:
            for j in range(n_tags):
                for k in range(n_tags):
                    together[j, k] += forward[t, j] * arrived[k]
    if not row_step and n > 1:
        for j in range(n_tags):
            for k in range(n_tags):
                of_pairs[row, j * n_tags + k] += together[j, k] * following[j, k]
    return True, log_sum


@compiled
def _by_logarithms(
    emissions: FloatArray,
    transitions: FloatArray,
    allowed: FloatArray,
    first_row: int,
    row_step: int,
    forward: FloatArray,
    of_tags: FloatArray,
    of_pairs: FloatArray,
) -> float:
    """The same by logarithms, whatever the scores; returns the logarithm of the sum."""
    n, n_tags = emissions.shape
    backward = np.empty(n_tags)
    arrived = np.empty(n_tags)
    for k in range(n_tags):
        forward[0, k] = emissions[0, k]
    for t in range(1, n):
        row = first_row + (t - 1) * row_step
        for k in range(n_tags):
            largest = -np.inf
            for j in range(n_tags):
                at = j * n_tags + k
                value = forward[t - 1, j] + transitions[row, at] + allowed[at]
                largest = max(largest, value)
            total = 0.0
            if largest > -np.inf:
                for j in range(n_tags):
                    at = j * n_tags + k
                    value = forward[t - 1, j] + transitions[row, at] + allowed[at]
                    total += np.exp(value - largest)
                largest += np.log(total)
            forward[t, k] = largest + emissions[t, k]
    log_sum = _log_sum(forward[n - 1])
    if log_sum == -np.inf:
        return log_sum
    for k in range(n_tags):
        backward[k] = 0.0
        of_tags[n - 1, k] = np.exp(forward[n - 1, k] - log_sum)
    for t in range(n - 2, -1, -1):
        row = first_row + t * row_step
        for k in range(n_tags):
            arrived[k] = backward[k] + emissions[t + 1, k]
        for j in range(n_tags):
            largest = -np.inf
            for k in range(n_tags):
                at = j * n_tags + k
                largest = max(largest, arrived[k] + transitions[row, at] + allowed[at])
            total = 0.0
            if largest > -np.inf:
                for k in range(n_tags):
                    at = j * n_tags + k
                    value = arrived[k] + transitions[row, at] + allowed[at]
                    total += np.exp(value - largest)
                    of_pairs[row, at] += np.exp(forward[t, j] + value - log_sum)
                largest += np.log(total)
            backward[j] = largest
            of_tags[t, j] = np.exp(forward[t, j] + largest - log_sum)
    return float(log_sum)


@compiled
def _log_sum(values: FloatArray) -> float:
    """Logarithm of the sum of exponentials."""
    largest = -np.inf
    for value in values:
        largest = max(largest, value)
    if largest == -np.inf:
        return largest
    total = 0.0
    for value in values:
        total += np.exp(value - largest)
    return float(largest + np.log(total))
