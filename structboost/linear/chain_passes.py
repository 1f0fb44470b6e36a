"""Passes over sequences of tokens with active features, for likelihood and dual ascent.

A pass goes from sequence to sequence: scores of its tokens, sums over its tags, changes of the
weights of its features.  There is no table of all scores.  The time is proportional to
the number of tokens, however they are cut into sequences.

All functions take the same groups of arrays:

tokens : (ndarray of int32, ndarray of int64, ndarray, ndarray (n_tokens, width), ndarray)
    Active features of all tokens, the first entry of each token, the value of each feature, the
    vectors of all tokens, of width 0 without any, and their squared norms.
pairs : tuple
    Rows of the pairs of tags in the form of ``tokens``, one without features for each sequence.
sequences : (ndarray of int64, ndarray of int64, ndarray of float64, ndarray of bool (n, 2))
    First token of each sequence, true tags of all tokens, C times the weight of each sequence, and
    whether each begins and ends where the sequence that it was cut from does.
penalties : (ndarray, ndarray, ndarray)
    0, or minus infinity for forbidden pairs, first tags and last tags.
weights : ndarray, shape (n_features, n_tags)
    Weights of active features, of the columns of vectors, and of the constant.
transitions : ndarray, shape (1, n_tags * n_tags)
    Weights of the pairs of tags.
duals : tuple of ndarray
    Probabilities of tags (n_tokens, n_tags), and those of pairs of tags summed over each sequence
    (n_sequences, n_tags * n_tags); entropies (n_sequences,); overlaps (n_sequences,).
space : tuple
    Result of :func:`space_of_pass`, to work in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.inference.chain import (
    INSIDE,
    ONE_ROW,
    exponentials,
    space_of_sums,
    sum_product,
)
from structboost.runtime.compiled import compiled

# Overlap of a sequence that no step was made on yet.
FIRST_OVERLAP = 2.0
_LEAST_OVERLAP = 1e-3
_TINY = 1e-300


@compiled
def dual_pass(
    tokens: Any,
    pairs: Any,
    sequences: Any,
    penalties: Any,
    order: Any,
    point: Any,
    duals: Any,
    moves: bool,
    space: Any,
) -> float:
    """Run dual coordinate ascent over the sequences of ``order``, in place.

    Returns the sum of minus the log-likelihoods of the true tags, each times its weight and C, at
    the weights before the step on its sequence.  Unless it ``moves``, there are no steps: one
    function serves both, since it takes seconds to compile.

    The weights are ``sum_i c_i (truth - p_i)``, where p_i are the features expected under the
    dual distribution of example i.  A step mixes p_i with the expectation q_i at the weights.
    Entropies are concave, so the dual objective rises by at least
    ``beta c_i gap - (beta c_i |p_i - q_i|)^2 / 2``, which beta maximises.  The norm of the change
    is only available after the step.  So the overlap of the features of different rows is taken
    from the last step on the same sequence.

    ``point`` is ``(weights, transitions)``.
    """
    starts, tags, example_weights, ends = sequences
    tag_duals, pair_duals, entropies, overlaps = duals
    emissions, changes, change, met, sums = space
    weights, transitions = point
    n_tags = weights.shape[1]
    total, shift, is_new = 0.0, 0.0, True
    for place in range(len(order)):
        i = order[place]
        begin, n = starts[i], starts[i + 1] - starts[i]
        if n == 0:
            continue
        if is_new:
            shift = exponentials(transitions, ONE_ROW, penalties[0], sums[3], sums[4], sums[8])
            is_new = moves
        for k in range(n_tags * n_tags):
            change[0, k] = 0.0
        _score(begin, n, tokens, weights, emissions)
        true = 0.0
        for t in range(n):
            true += emissions[t, tags[begin + t]]
            if t:
                true += transitions[0, tags[begin + t - 1] * n_tags + tags[begin + t]]
        add_ends(emissions, n, ends[i], penalties)
        log_sum = sum_product(
            emissions, ONE_ROW, n, (transitions, penalties[0], ONE_ROW), sums, shift, changes,
            change,
        )  # fmt: skip
        total += example_weights[i] * (log_sum - true)
        if not moves:
            continue
        # <scores, p>, <scores, q - p> and |q - p|^2 without overlaps, of tokens and of pairs.
        expected, within, squares = _compare(begin, n, tokens, emissions, tag_duals, changes)
        of_pairs = _compare(i, 1, pairs, transitions, pair_duals, change)
        expected, moved = expected + of_pairs[0], within + of_pairs[1]
        gap = log_sum - entropies[i] - expected
        # The only row of pairs of a sequence overlaps with no other.
        norm = example_weights[i] * (overlaps[i] * squares + of_pairs[2])
        beta = min(1.0, gap / max(norm, _TINY))
        if not beta > 0.0:
            continue
        entropies[i] += beta * (log_sum - expected - moved - entropies[i])
        factor = -example_weights[i] * beta
        _mix(begin, n, beta, factor, tag_duals, changes)
        _mix(i, 1, beta, factor, pair_duals, change)
        rise = _scatter(begin, n, tokens, changes, weights, met)
        _scatter(i, 1, pairs, change, transitions, met)
        whole = 2.0 * (rise - factor * within)
        overlaps[i] = max(_LEAST_OVERLAP, whole / max(factor * factor * squares, _TINY))
    return total


@compiled(**INSIDE)
def add_ends(emissions: FloatArray, n: int, ends: Any, penalties: Any) -> None:
    """Add the penalties of first and last tags where a sequence of n tokens begins and ends."""
    for k in range(emissions.shape[1]):
        if ends[0]:
            emissions[0, k] += penalties[1][k]
        if ends[1]:
            emissions[n - 1, k] += penalties[2][k]


@compiled(**INSIDE)
def _score(begin: int, n: int, rows: Any, weights: FloatArray, out: FloatArray) -> None:
    """Compute the scores of tokens or of pairs."""
    features, at, values, vectors, _norms = rows
    n_channels, bias = weights.shape[1], len(weights) - 1
    first = bias - vectors.shape[1]
    for t in range(n):
        for k in range(n_channels):
            out[t, k] = values[bias] * weights[bias, k]
        for a in range(at[begin + t], at[begin + t + 1]):
            f = features[a]
            value = values[f]
            for k in range(n_channels):
                out[t, k] += value * weights[f, k]
        for j in range(vectors.shape[1]):
            value = vectors[begin + t, j]
            for k in range(n_channels):
                out[t, k] += value * weights[first + j, k]


@compiled(**INSIDE)
def _compare(
    begin: int, n: int, rows: Any, scores: FloatArray, duals: FloatArray, out: FloatArray
) -> tuple[float, float, float]:
    """Subtract the dual probabilities from those of the weights, in place.

    Returns the sums of the scores times the dual probabilities and times the differences, and the
    squared norm of the features of the differences, as if rows shared none.
    """
    features, at, values, _vectors, norms = rows
    expected = moved = squares = 0.0
    for t in range(n):
        squared = 0.0
        for k in range(scores.shape[1]):
            p = duals[begin + t, k]
            difference = out[t, k] - p
            out[t, k] = difference
            if p > 0.0:
                expected += p * scores[t, k]
            if difference != 0.0:
                moved += difference * scores[t, k]
            squared += difference * difference
        norm = values[-1] * values[-1]
        for a in range(at[begin + t], at[begin + t + 1]):
            norm += values[features[a]] * values[features[a]]
        squares += (norm + norms[begin + t]) * squared
    return expected, moved, squares


@compiled(**INSIDE)
def _mix(
    begin: int, n: int, beta: float, factor: float, duals: FloatArray, change: FloatArray
) -> None:
    """Add ``beta`` times a change to the dual probabilities, and multiply it by ``factor``."""
    for t in range(n):
        for k in range(duals.shape[1]):
            duals[begin + t, k] += beta * change[t, k]
            change[t, k] *= factor


@compiled(**INSIDE)
def _scatter(
    begin: int,
    n: int,
    rows: Any,
    change: FloatArray,
    weights: FloatArray,
    met: FloatArray,
) -> float:
    """Add a row to the weights of all active features.

    Returns by how much half the squared norm of the weights rises.  ``met`` is space for a sum for
    each channel, so that channels are added up side by side.
    """
    features, at, values, vectors, _norms = rows
    n_channels, bias = weights.shape[1], len(weights) - 1
    first = bias - vectors.shape[1]
    for k in range(n_channels):
        met[k] = 0.0
    for t in range(n):
        n_active = at[begin + t + 1] - at[begin + t]
        for a in range(n_active + vectors.shape[1] + 1):
            if a < n_active:
                f = features[at[begin + t] + a]
                value = values[f]
            elif a < n_active + vectors.shape[1]:
                f = first + a - n_active
                value = vectors[begin + t, a - n_active]
            else:
                f, value = bias, values[bias]
            for k in range(n_channels):
                old = weights[f, k]
                new = old + value * change[t, k]
                weights[f, k] = new
                met[k] += (new - old) * (new + old)
    total = 0.0
    for k in range(n_channels):
        total += met[k]
    return 0.5 * total


def space_of_pass(starts: IntArray, n_tags: int) -> Any:
    """Allocate what :func:`dual_pass` and :func:`slopes_of` work in.

    Emissions and probabilities of the longest sequence, changes of pairs, a sum for each pair, and
    the result of :func:`structboost.inference.chain.space_of_sums`.
    """
    sums = space_of_sums(starts, n_tags)
    shape = sums[0].shape
    return np.empty(shape), np.empty(shape), np.empty((1, n_tags**2)), np.empty(n_tags**2), sums


@compiled
def slopes_of(
    scores: FloatArray,
    transitions: FloatArray,
    sequences: Any,
    penalties: Any,
    space: Any,
    out: FloatArray,
) -> tuple[float, float]:
    """Replace the scores of tags by the slopes of the likelihood, and return its loss and entropy.

    Parameters
    ----------
    scores : ndarray, shape (n_tokens, n_tags)
        Filled with the weight of the sequence times (truth - probability) of each tag.
    transitions, sequences, penalties, space
        As for the other functions of this module.
    out : ndarray of the shape of ``transitions``
        Starts at zero; gains the slopes.

    Returns
    -------
    loss, entropy : float
        Weighted sums over the sequences.
    """
    starts, tags, example_weights, ends = sequences
    n_tags, n_pairs = scores.shape[1], transitions.shape[1]
    emissions, probabilities, of_pairs, _met, sums = space
    shift = exponentials(transitions, ONE_ROW, penalties[0], sums[3], sums[4], sums[8])
    # Probabilities of pairs, summed over sequences of the same weight.
    of_pairs[0] = 0.0
    loss, entropy = 0.0, 0.0
    for i in range(len(example_weights)):
        begin, n, weight = starts[i], starts[i + 1] - starts[i], example_weights[i]
        if n > 0:
            for t in range(n):
                for k in range(n_tags):
                    emissions[t, k] = scores[begin + t, k]
            add_ends(emissions, n, ends[i], penalties)
            log_sum = sum_product(
                emissions, ONE_ROW, n, (transitions, penalties[0], ONE_ROW), sums, shift,
                probabilities, of_pairs,
            )  # fmt: skip
            true = expected = 0.0
            for t in range(n):
                tag = tags[begin + t]
                true += scores[begin + t, tag]
                if t:
                    pair = tags[begin + t - 1] * n_tags + tag
                    true += transitions[0, pair]
                    out[0, pair] += weight
                for k in range(n_tags):
                    expected += probabilities[t, k] * scores[begin + t, k]
                    scores[begin + t, k] = -weight * probabilities[t, k]
                scores[begin + t, tag] += weight
            loss += weight * (log_sum - true)
            entropy += weight * (log_sum - expected)
        if i + 1 == len(example_weights) or example_weights[i + 1] != weight:
            for k in range(n_pairs):
                out[0, k] -= weight * of_pairs[0, k]
                entropy -= weight * of_pairs[0, k] * transitions[0, k]
                of_pairs[0, k] = 0.0
    return loss, entropy
