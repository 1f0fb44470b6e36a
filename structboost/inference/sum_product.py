"""Probabilities of tags of all sequences of a batch, in one compiled call (forward-backward)."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.inference.best_sequences import longest
from structboost.inference.exponentials import INSIDE, MANY_TAGS, exponentials, log_sum_exp
from structboost.runtime.compiled import compiled

# Beyond these, products may have lost what counts: logarithms are taken.
_SMALLEST = 1e-250
_LARGEST = 1e250
# What differences leave of their terms, and probabilities differ from 1 by, where digits are lost.
_LOST = 1e-6
# Smaller fractions of the largest pair may be lost beside it.
_LEAST_BASE = 1e-7
# Steps whose pairs are summed together, so that they stay in the cache of the processor.
_STEPS_TOGETHER = 256

# Scores of pairs, which of them are allowed, and the row of the first step.
_Steps = tuple[FloatArray, FloatArray, int]
# Result of space_of_sums.
Space = tuple[
    FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray,
    FloatArray, FloatArray | None,
]  # fmt: skip


@compiled
def tag_probabilities(
    emissions: FloatArray,
    transitions: FloatArray,
    allowed: FloatArray,
    starts: IntArray,
    rows: IntArray,
    row_step: int | None,
    of_tags: FloatArray,
    of_pairs: FloatArray,
    log_sums: FloatArray,
    space: Space,
) -> None:
    """Compute the probabilities of all sequences, as :func:`forward_backward` does of one.

    Parameters
    ----------
    emissions, transitions, allowed, starts, rows, row_step
        As :func:`best_sequences` takes them.
    of_tags : ndarray, shape (n_tokens, n_tags)
        Filled with the probability of each tag of each token.
    of_pairs : ndarray, shape (n_rows, n_tags * n_tags)
        Starts at zero; gains the probability of each pair of tags at each step.
    log_sums : ndarray, shape (n_sequences,)
        Filled with the logarithm of the sum; minus infinity if no tags are allowed.
    space : tuple
        Result of :func:`space_of_sums`.
    """
    last_row, shift = -1, 0.0
    for i in range(len(rows)):
        first, n = starts[i], starts[i + 1] - starts[i]
        if row_step is None:
            if n > 1 and rows[i] != last_row:
                last_row = rows[i]
                shift = exponentials(transitions, last_row, allowed, space[3], space[4], space[8])
        log_sums[i] = sum_product(
            emissions, first, n, (transitions, allowed, rows[i]), space, shift, of_tags, of_pairs,
            row_step,
        )  # fmt: skip


@compiled(**INSIDE)
def sum_product(
    emissions: FloatArray,
    first: int,
    n: int,
    steps: _Steps,
    space: Space,
    shift: float,
    of_tags: FloatArray,
    of_pairs: FloatArray,
    row_step: int | None,
) -> float:
    """Compute the probabilities of one sequence, and return the logarithm of the sum.

    Each token is summed on its scale (Rabiner 1989, section V.A), or by logarithms where a number
    comes near the ends of the range.

    Parameters
    ----------
    emissions, of_tags, of_pairs
        As for :func:`tag_probabilities`.
    first, n : int
        First token of the sequence, and how many it has.
    steps : tuple
        Transitions and what is allowed, and the row of the first step.
    space : tuple
        Result of :func:`space_of_sums`.  Without ``row_step``, it has the exponentials of the one
        row of all steps.
    shift : float
        Largest score that :func:`exponentials` returned.
    row_step
        As for :func:`best_sequences`.
    """
    transitions, allowed, row = steps
    forward, likely, scales, following, preceding, arrived, backward, _values, many = space
    n_tags = emissions.shape[1]
    if n <= 0:
        return 0.0
    log_sum = 0.0
    for t in range(n):
        largest = -np.inf
        for k in range(n_tags):
            largest = max(largest, emissions[first + t, k])
        log_sum += largest
        for k in range(n_tags):
            likely[t, k] = np.exp(emissions[first + t, k] - largest)
    for t in range(n):
        if t == 0:
            for k in range(n_tags):
                forward[t, k] = likely[0, k]
        else:
            if row_step is not None:
                shift = exponentials(transitions, row + t - 1, allowed, following, preceding, many)
            log_sum += shift
            for k in range(n_tags):
                forward[t, k] = 0.0
            for j in range(n_tags):
                before = forward[t - 1, j]
                for k in range(n_tags):
                    forward[t, k] += before * following[j, k]
            for k in range(n_tags):
                forward[t, k] *= likely[t, k]
        total = 0.0
        for k in range(n_tags):
            total += forward[t, k]
        if not total > _SMALLEST:
            log_sum = np.nan
            break
        for k in range(n_tags):
            forward[t, k] /= total
        scales[t] = total
        log_sum += np.log(total)
    for k in range(n_tags):
        backward[k] = 1.0
        of_tags[first + n - 1, k] = forward[n - 1, k]
    for t in range(-1 if np.isnan(log_sum) else n - 2, -1, -1):
        # A tag that nothing leads to may have a sum beyond the range, and inf * 0 is not a number.
        largest = 0.0
        for k in range(n_tags):
            arrived[k] = likely[t + 1, k] * backward[k] / scales[t + 1]
            largest = max(largest, arrived[k])
            backward[k] = 0.0
        if row_step is not None:
            exponentials(transitions, row + t, allowed, following, preceding, many)
        for k in range(n_tags):
            after = arrived[k]
            for j in range(n_tags):
                backward[j] += after * preceding[k, j]
        for j in range(n_tags):
            largest = max(largest, backward[j])
            of_tags[first + t, j] = forward[t, j] * backward[j]
        if not largest < _LARGEST:
            if row_step is not None:
                for later in range(t + 1, n - 1):
                    of_pairs[row + later] = 0.0
            log_sum = np.nan
            break
        if row_step is not None:
            for j in range(n_tags):
                for k in range(n_tags):
                    of_pairs[row + t, j * n_tags + k] = forward[t, j] * following[j, k] * arrived[k]
        if row_step is None:
            for k in range(n_tags):
                likely[t + 1, k] = arrived[k]
    if np.isnan(log_sum):
        return float(_by_logarithms(emissions, first, n, steps, space, of_tags, of_pairs, row_step))
    if row_step is None:
        for last in range(n - 2, -1, -_STEPS_TOGETHER):
            for j in range(n_tags):
                for k in range(n_tags):
                    arrived[k] = 0.0
                for t in range(last, max(-1, last - _STEPS_TOGETHER), -1):
                    for k in range(n_tags):
                        arrived[k] += forward[t, j] * likely[t + 1, k]
                for k in range(n_tags):
                    of_pairs[row, j * n_tags + k] += arrived[k] * following[j, k]
    return float(log_sum)


@compiled
def sum_product_of_pairs(
    emissions: FloatArray,
    pairs: tuple[IntArray, FloatArray, float, float],
    space: Space,
    of_tags: FloatArray,
    of_pairs: FloatArray,
) -> float:
    """Compute the probabilities of one sequence where all but some pairs of tags score 0.

    The time is proportional to the number of tags and listed pairs, for each token.

    Parameters
    ----------
    emissions, of_tags, of_pairs
        As for :func:`sum_product`, with one row of pairs.
    pairs : tuple
        Indices ``from * n_tags + to`` of the listed pairs, the exponentials of their scores, that
        of the score 0, all divided by one factor, and the logarithm of the factor.
    space : tuple
        Result of :func:`space_of_sums`, to work in.

    Returns
    -------
    log_sum : float
        Logarithm of the sum, or NaN if numbers came near the ends of their range, or differences
        lost digits.  Then nothing was added to ``of_pairs``.
    """
    listed, powers, base, shift = pairs
    forward, likely, scales, arrived, backward = space[0], space[1], space[2], space[5], space[6]
    n, n_tags = emissions.shape
    if n == 0:
        return 0.0
    if base < _LEAST_BASE:
        return np.nan
    log_sum = shift * (n - 1)
    for t in range(n):
        largest = -np.inf
        for k in range(n_tags):
            largest = max(largest, emissions[t, k])
        log_sum += largest
        now, total, of_emissions = forward[t], 0.0, 0.0
        for k in range(n_tags):
            likely[t, k] = np.exp(emissions[t, k] - largest)
            of_emissions += likely[t, k]
            # The sums of a token are 1.
            now[k] = base if t else 1.0
        if t:
            for p in range(len(listed)):
                j, k = listed[p] // n_tags, listed[p] % n_tags
                now[k] += forward[t - 1, j] * (powers[p] - base)
        for k in range(n_tags):
            now[k] = max(0.0, now[k]) * likely[t, k]
            total += now[k]
        # Subtracted numbers that leave less than this have lost digits.
        lost = _LOST * base * of_emissions if t else 0.0
        if not total > max(_SMALLEST, lost):
            return np.nan
        for k in range(n_tags):
            now[k] /= total
        scales[t] = total
        log_sum += np.log(total)
    together = np.zeros(len(listed))
    for k in range(n_tags):
        backward[k] = 1.0
        of_tags[n - 1, k] = forward[n - 1, k]
    for t in range(n - 2, -1, -1):
        total = 0.0
        for k in range(n_tags):
            arrived[k] = likely[t + 1, k] * backward[k] / scales[t + 1]
            total += arrived[k]
        for j in range(n_tags):
            backward[j] = base * total
        for p in range(len(listed)):
            j, k = listed[p] // n_tags, listed[p] % n_tags
            backward[j] += arrived[k] * (powers[p] - base)
            together[p] += forward[t, j] * arrived[k]
        of_token = 0.0
        for j in range(n_tags):
            backward[j] = max(0.0, backward[j])
            of_tags[t, j] = forward[t, j] * backward[j]
            of_token += of_tags[t, j]
            if not backward[j] < _LARGEST:
                return np.nan
        if not abs(of_token - 1.0) < _LOST:
            return np.nan
    for p in range(len(listed)):
        of_pairs[0, listed[p]] += together[p] * powers[p]
    return float(log_sum)


def space_of_sums(starts: IntArray, n_tags: int) -> Space:
    """Allocate what sums over the tags of sequences are computed in.

    Parameters
    ----------
    starts : ndarray of int64, shape (n_sequences + 1,)
        First token of each sequence.
    n_tags : int

    Returns
    -------
    forward, likely, scales : ndarray
        Sums up to a token, likelihoods and scales, of the longest sequence.
    following, preceding : ndarray, shape (n_tags, n_tags)
        For :func:`exponentials`.
    arrived, backward, values : ndarray, shape (n_tags,)
    many : ndarray or None
        Numbers for each of many tags, None for few tags.
    """
    n_tokens, pairs = longest(starts), (n_tags, n_tags)
    return (
        np.empty((n_tokens, n_tags)), np.empty((n_tokens, n_tags)), np.empty(n_tokens),
        np.empty(pairs), np.empty(pairs), np.empty(n_tags), np.empty(n_tags), np.empty(n_tags),
        np.empty(n_tags) if n_tags >= MANY_TAGS else None,
    )  # fmt: skip


@compiled(**INSIDE)
def _by_logarithms(
    emissions: FloatArray,
    first: int,
    n: int,
    steps: _Steps,
    space: Space,
    of_tags: FloatArray,
    of_pairs: FloatArray,
    row_step: int | None,
) -> float:
    """Return the logarithm of the sum, computed by logarithms for scores of any size."""
    transitions, allowed, first_row = steps
    forward, arrived, backward, values = space[0], space[5], space[6], space[7]
    n_tags = emissions.shape[1]
    rows_per_step = 0 if row_step is None else 1
    for t in range(n):
        row = first_row + (t - 1) * rows_per_step
        for k in range(n_tags):
            forward[t, k] = emissions[first + t, k]
            if t:
                for j in range(n_tags):
                    at = j * n_tags + k
                    values[j] = forward[t - 1, j] + transitions[row, at] + allowed[at]
                forward[t, k] += log_sum_exp(values)
    for k in range(n_tags):
        values[k] = forward[n - 1, k]
    log_sum = log_sum_exp(values)
    if log_sum == -np.inf:
        return log_sum
    for t in range(n - 1, -1, -1):
        row = first_row + t * rows_per_step
        for j in range(n_tags):
            backward[j] = 0.0
            if t < n - 1:
                for k in range(n_tags):
                    at = j * n_tags + k
                    values[k] = arrived[k] + transitions[row, at] + allowed[at]
                backward[j] = log_sum_exp(values)
        for j in range(n_tags):
            values[j] = forward[t, j] + backward[j]
        # It equals log_sum up to rounding; with log_sum, probabilities of large scores exceed 1.
        of_token = log_sum_exp(values)
        for j in range(n_tags):
            of_tags[first + t, j] = np.exp(forward[t, j] + backward[j] - of_token)
            if t < n - 1:
                for k in range(n_tags):
                    at = j * n_tags + k
                    after = arrived[k] + transitions[row, at] + allowed[at]
                    of_pairs[row, at] += np.exp(forward[t, j] + after - of_token)
        for k in range(n_tags):
            arrived[k] = backward[k] + emissions[first + t, k]
    return float(log_sum)
