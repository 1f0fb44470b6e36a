"""Probabilities of tags of all sequences of a batch, in one compiled call (forward-backward)."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.inference.exponentials import INSIDE, exponentials, log_sum_exp
from structboost.runtime.compiled import compiled

# Beyond these, products may have lost what counts: logarithms are taken.
_SMALLEST = 1e-250
_LARGEST = 1e250
# Steps whose pairs are summed together, so that they stay in the cache of the processor.
_STEPS_TOGETHER = 256

# Scores of pairs, which of them are allowed, row of the first step, rows from step to step, and the
# space of many tags.
_Steps = tuple[FloatArray, FloatArray, int, int, FloatArray | None]


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
    many: FloatArray | None,
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
    many : ndarray or None
        Result of :func:`space_of_tags`.
    """
    n_tags = emissions.shape[1]
    longest = 1
    for i in range(len(rows)):
        longest = max(longest, starts[i + 1] - starts[i])
    forward = np.empty((longest, n_tags))
    likely = np.empty((longest, n_tags))
    following = np.empty((n_tags, n_tags))
    preceding = np.empty((n_tags, n_tags))
    last_row, shift = -1, 0.0
    for i in range(len(rows)):
        first, n = starts[i], starts[i + 1] - starts[i]
        if not row_step and n > 1 and rows[i] != last_row:
            last_row = rows[i]
            shift = exponentials(transitions[last_row], allowed, following, preceding, many)
        log_sums[i] = sum_product(
            emissions[first : first + n], (transitions, allowed, rows[i], row_step, many),
            (forward, likely, following, preceding), shift, of_tags[first : first + n], of_pairs,
        )  # fmt: skip


@compiled(inline="always")
def sum_product(
    emissions: FloatArray,
    steps: _Steps,
    space: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    shift: float,
    of_tags: FloatArray,
    of_pairs: FloatArray,
) -> float:
    """Compute the probabilities of one sequence, and return the logarithm of the sum.

    Parameters
    ----------
    emissions, of_tags, of_pairs
        As for :func:`tag_probabilities`.
    steps : tuple
        Transitions and what is allowed, row of the first step, rows from a step to the next, and
        the result of :func:`space_of_tags`.
    space : tuple
        Forward sums and likelihoods, of at least the shape of ``emissions``, to work in; then the
        two arrays of :func:`exponentials` for the one row of all steps.  Where rows differ, these
        are space to work in, too.
    shift : float
        Largest score that :func:`exponentials` returned.
    """
    if not len(emissions):
        return 0.0
    is_accurate, log_sum = _scaled(emissions, steps, space, shift, of_tags, of_pairs)
    if is_accurate:
        return float(log_sum)
    return float(_by_logarithms(emissions, steps, space[0], of_tags, of_pairs))


@compiled
def sum_product_of_pairs(
    emissions: FloatArray,
    pairs: tuple[IntArray, FloatArray, float, float],
    space: tuple[FloatArray, FloatArray],
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
        Forward sums and likelihoods, of at least the shape of ``emissions``, to work in.

    Returns
    -------
    log_sum : float
        Logarithm of the sum, or NaN if numbers came near the ends of their range.  Then nothing was
        added to ``of_pairs``.
    """
    listed, powers, base, shift = pairs
    forward, likely = space
    n, n_tags = emissions.shape
    if n == 0:
        return 0.0
    scales = np.empty(n)
    log_sum = shift * (n - 1)
    for t in range(n):
        largest = -np.inf
        for k in range(n_tags):
            largest = max(largest, emissions[t, k])
        log_sum += largest
        now, total = forward[t], 0.0
        for k in range(n_tags):
            likely[t, k] = np.exp(emissions[t, k] - largest)
            # The sums of a token are 1.
            now[k] = base if t else 1.0
        if t:
            for p in range(len(listed)):
                j, k = listed[p] // n_tags, listed[p] % n_tags
                now[k] += forward[t - 1, j] * (powers[p] - base)
        for k in range(n_tags):
            now[k] = max(0.0, now[k]) * likely[t, k]
            total += now[k]
        if not total > _SMALLEST:
            return np.nan
        for k in range(n_tags):
            now[k] /= total
        scales[t] = total
        log_sum += np.log(total)
    arrived, backward = np.empty(n_tags), np.ones(n_tags)
    together = np.zeros(len(listed))
    for k in range(n_tags):
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
        for j in range(n_tags):
            backward[j] = max(0.0, backward[j])
            of_tags[t, j] = forward[t, j] * backward[j]
            if not backward[j] < _LARGEST:
                return np.nan
    for p in range(len(listed)):
        of_pairs[0, listed[p]] += together[p] * powers[p]
    return float(log_sum)


@compiled(**INSIDE)
def _scaled(
    emissions: FloatArray,
    steps: _Steps,
    space: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    shift: float,
    of_tags: FloatArray,
    of_pairs: FloatArray,
) -> tuple[bool, float]:
    """Sum over one sequence by products, each token on its scale (Rabiner 1989, section V.A).

    Returns whether no number came near the ends of the range, and the logarithm of the sum.  If
    False, nothing was added to ``of_pairs``.
    """
    transitions, allowed, row, row_step, many = steps
    forward, likely, following, preceding = space
    n, n_tags = emissions.shape
    # Rows of tables: numba compiles once more for each way of allocating.
    scales = np.empty((1, n))[0]
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
                shift = exponentials(transitions[step], allowed, following, preceding, many)
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
    of_token = np.empty((2, n_tags))
    arrived, backward = of_token[0], of_token[1]
    for k in range(n_tags):
        backward[k] = 1.0
        of_tags[n - 1, k] = forward[n - 1, k]
    for t in range(n - 2, -1, -1):
        for k in range(n_tags):
            arrived[k] = likely[t + 1, k] * backward[k] / scales[t + 1]
            backward[k] = 0.0
        if row_step:
            exponentials(transitions[row + t], allowed, following, preceding, many)
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
            for k in range(n_tags):
                likely[t + 1, k] = arrived[k]
    if not row_step:
        for last in range(n - 2, -1, -_STEPS_TOGETHER):
            for j in range(n_tags):
                for k in range(n_tags):
                    arrived[k] = 0.0
                for t in range(last, max(-1, last - _STEPS_TOGETHER), -1):
                    for k in range(n_tags):
                        arrived[k] += forward[t, j] * likely[t + 1, k]
                for k in range(n_tags):
                    of_pairs[row, j * n_tags + k] += arrived[k] * following[j, k]
    return True, log_sum


@compiled(**INSIDE)
def _by_logarithms(
    emissions: FloatArray,
    steps: _Steps,
    forward: FloatArray,
    of_tags: FloatArray,
    of_pairs: FloatArray,
) -> float:
    """Return the logarithm of the sum, computed by logarithms for scores of any size."""
    transitions, allowed, first_row, row_step, _ = steps
    n, n_tags = emissions.shape
    of_token = np.empty((2, n_tags))
    arrived, backward = of_token[0], of_token[1]
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
    log_sum = log_sum_exp(forward[n - 1])
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
