"""Passes over sequences of tokens with active features, for likelihood and dual ascent.

A pass goes from sequence to sequence: scores of its tokens, sums over its tags, changes of the
weights of its features.  There is no table of all scores.  The time is proportional to
the number of tokens, however they are cut into sequences.

All functions take the same groups of arrays:

tokens : (ndarray of int32, ndarray of int64, ndarray, ndarray (n_tokens, width), ndarray)
    Active features of all tokens, the first entry of each token, the value of each feature, the
    vectors of all tokens, of width 0 without any, and their squared norms.
sequences : (ndarray of int64, ndarray of int64, ndarray of float64, ndarray of bool (n, 2))
    First token of each sequence, true tags of all tokens, C times the weight of each sequence, and
    whether each begins and ends where the sequence that it was cut from does.
penalties : (ndarray, ndarray, ndarray)
    0, or minus infinity for forbidden pairs, first tags and last tags.
weights : ndarray, shape (n_features, n_tags)
    Weights of active features, of the columns of vectors, and of the constant.
transitions : ndarray, shape (1, n_tags * n_tags)
duals : tuple of ndarray
    Probabilities of tags (n_tokens, n_tags) and of pairs of tags, summed over the sequence
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
    NEXT_ROW,
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
    steps: Any,
    sequences: Any,
    penalties: Any,
    order: Any,
    point: Any,
    duals: Any,
    slopes: Any,
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
    is only available after the step.  So the overlap of the features of different tokens is taken
    from the last step on the same sequence.

    With an l1 norm, ``slopes`` are ``(slopes, slopes of pairs, l1_ratio, ridge)``, where slopes are
    the sum above, and the weights are those of :meth:`.ElasticNet.best`.  Without it, ``slopes``
    are None, and the weights are this sum.  The dual has half the squared norm of the weights times
    ``ridge``, and the overlap is that of its change beyond the slope.

    ``point`` is ``(weights, transitions)``.  Where pairs of tags depend on features, and there is
    no l1 norm, ``steps`` is of the form of ``tokens``, followed by the first step of each sequence.
    The transitions are then weights (n_features, n_tags * n_tags) of active features and the
    constant, and ``duals[1]`` probabilities of pairs (n_steps, n_tags * n_tags).
    """
    starts, tags, example_weights, ends = sequences
    of_tags, of_pairs, entropies, overlaps = duals
    emissions, changes, scores, change, of_pair, of_sums = space
    weights, transitions = point
    n_tags = weights.shape[1]
    ridge = 1.0 if slopes is None else slopes[3]
    pair_scores = transitions if steps is None else scores
    total, shift, is_new = 0.0, 0.0, True
    for place in range(len(order)):
        i = order[place]
        begin, n = starts[i], starts[i + 1] - starts[i]
        if n == 0:
            continue
        if steps is None:
            if is_new:
                shift = exponentials(
                    transitions, ONE_ROW, penalties[0], of_sums[3], of_sums[4], of_sums[8]
                )
                is_new = moves
        else:
            _score(steps[5][i], n - 1, steps[:5], transitions, scores)
        for t in range(min(len(change), max(n - 1, 1))):
            for k in range(n_tags * n_tags):
                change[t, k] = 0.0
        _score(begin, n, tokens, weights, emissions)
        true = 0.0
        for t in range(n):
            true += emissions[t, tags[begin + t]]
            if t:
                row = min(t, len(pair_scores)) - 1
                true += pair_scores[row, tags[begin + t - 1] * n_tags + tags[begin + t]]
        add_ends(emissions, n, ends[i], penalties)
        pairs = (pair_scores, penalties[0], ONE_ROW)
        if steps is None:
            log_sum = sum_product(
                emissions, ONE_ROW, n, pairs, of_sums, shift, changes, change, None
            )
        else:
            log_sum = sum_product(
                emissions, ONE_ROW, n, pairs, of_sums, 0.0, changes, change, NEXT_ROW
            )
        total += example_weights[i] * (log_sum - true)
        if not moves:
            continue
        # <scores, p>, <scores, q - p> on the tokens and in all; |q - p|^2 without overlaps.
        if steps is None:
            expected, moved, squares = _compare(begin, n, tokens, emissions, of_tags, changes, True)
            on_tokens, of_steps = moved, 0.0
            for k in range(n_tags * n_tags):
                difference = change[0, k] - of_pairs[i, k]
                change[0, k] = difference
                expected += of_pairs[i, k] * transitions[0, k]
                moved += difference * transitions[0, k]
                of_steps += difference * difference
            norm = example_weights[i] * (overlaps[i] * squares + of_steps / ridge)
        else:
            expected, moved, squares = _compare(
                begin, n, tokens, emissions, of_tags, changes, False
            )
            more = _compare(steps[5][i], n - 1, steps[:5], scores, of_pairs, change, False)
            expected, moved, squares = expected + more[0], moved + more[1], squares + more[2]
            on_tokens = moved
            norm = example_weights[i] * overlaps[i] * squares
        gap = log_sum - entropies[i] - expected
        beta = min(1.0, gap / max(norm, _TINY))
        if not beta > 0.0:
            continue
        entropies[i] += beta * (log_sum - expected - moved - entropies[i])
        factor = -example_weights[i] * beta
        _mix(begin, n, beta, factor, of_tags, changes)
        if steps is None:
            for k in range(n_tags * n_tags):
                of_pairs[i, k] += beta * change[0, k]
                if slopes is None:
                    transitions[0, k] += factor * change[0, k]
                else:
                    slopes[1][0, k] += factor * change[0, k]
                    transitions[0, k] = _shrunk(slopes[1][0, k], slopes[2]) / ridge
        alone = factor * factor * squares
        if slopes is None:
            met = _scatter(begin, n, tokens, changes, weights, of_sums[7])
            if steps is not None:
                _mix(steps[5][i], n - 1, beta, factor, of_pairs, change)
                met += _scatter(steps[5][i], n - 1, steps[:5], change, transitions, of_pair)
            # met is <weights, d> + (|d|^2 - |d|^2 without overlaps) / 2 for the change d.
            whole = 2.0 * (met - factor * on_tokens) + alone
        else:
            rise = _scatter_shrunk(begin, n, tokens, changes, slopes, weights)
            whole = 2.0 * (rise - factor * on_tokens)
        overlaps[i] = max(_LEAST_OVERLAP, whole / max(alone, _TINY))
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
    """Compute the scores of tokens or steps."""
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
    begin: int,
    n: int,
    rows: Any,
    scores: FloatArray,
    duals: FloatArray,
    out: FloatArray,
    vectors_last: bool,
) -> tuple[float, float, float]:
    """Subtract the dual probabilities from those of the weights, in place.

    Returns the sums of the scores times the dual probabilities and times the differences, and the
    squared norm of the features of the differences, as if tokens shared none.  Norms of vectors are
    added before those of active features or last, which changes the last bits of a model.
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
        norm, of_vectors = values[-1] * values[-1], norms[begin + t]
        if not vectors_last:
            norm += of_vectors
        for a in range(at[begin + t], at[begin + t + 1]):
            norm += values[features[a]] * values[features[a]]
        if vectors_last:
            norm += of_vectors
        squares += norm * squared
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


def space_of_pass(starts: IntArray, n_tags: int, *, has_steps: bool) -> Any:
    """Allocate what :func:`dual_pass` works in.

    Emissions and probabilities of the longest sequence, scores and changes of pairs, of all its
    steps or of one, a sum for each pair, and the result of
    :func:`structboost.inference.chain.space_of_sums`.
    """
    of_sums = space_of_sums(starts, n_tags)
    shape = of_sums[0].shape
    pairs = shape[0] if has_steps else 1, n_tags**2
    arrays = [np.empty(of_array) for of_array in (shape, shape, pairs, pairs, n_tags**2)]
    return (*arrays, of_sums)


@compiled(**INSIDE)
def _scatter(
    begin: int, n: int, tokens: Any, change: FloatArray, out: FloatArray, of_tags: FloatArray
) -> float:
    """Add a row to those of all active features of each token.

    Returns the sum of the products of the row with the row that it is added to, before that.
    ``of_tags`` is space for a sum for each tag, so that tags are added up side by side.
    """
    features, at, values, vectors, _norms = tokens
    n_tags, bias = out.shape[1], len(out) - 1
    first = bias - vectors.shape[1]
    met = 0.0
    for k in range(n_tags):
        of_tags[k] = 0.0
    for t in range(n):
        # The constant, then the active features.
        for a in range(at[begin + t] - 1, at[begin + t + 1]):
            f = features[a] if a >= at[begin + t] else bias
            for k in range(n_tags):
                met += values[f] * out[f, k] * change[t, k]
                out[f, k] += values[f] * change[t, k]
        for j in range(vectors.shape[1]):
            for k in range(n_tags):
                step = vectors[begin + t, j] * change[t, k]
                of_tags[k] += step * out[first + j, k]
                out[first + j, k] += step
    for k in range(n_tags):
        met += of_tags[k]
    return met


@compiled(**INSIDE)
def _shrunk(slope: float, threshold: float) -> float:
    return float(np.copysign(max(abs(slope) - threshold, 0.0), slope))


@compiled(**INSIDE)
def _scatter_shrunk(
    begin: int, n: int, tokens: Any, change: FloatArray, of_weights: Any, weights: FloatArray
) -> float:
    """Add a row to the slopes of all active features of each token, and set their weights.

    Returns by how much half the squared norm of the weights, times the ridge, rises.
    """
    features, at, values, vectors, _norms = tokens
    slopes, _, l1_ratio, ridge = of_weights
    n_tags, bias = weights.shape[1], len(weights) - 1
    first = bias - vectors.shape[1]
    before = after = 0.0
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
            for k in range(n_tags):
                before += weights[f, k] * weights[f, k]
                slopes[f, k] += value * change[t, k]
                weights[f, k] = _shrunk(slopes[f, k], l1_ratio * values[f]) / ridge
                after += weights[f, k] * weights[f, k]
    return float(0.5 * ridge * (after - before))
