"""Linear chain on active features, trained by quasi-Newton steps of its likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray, override
from structboost.inference.chain import (
    INSIDE,
    NEXT_ROW,
    ONE_ROW,
    Space,
    exponentials,
    space_of_sums,
    sum_product,
    sum_product_of_pairs,
)
from structboost.linear.chain_passes import add_ends
from structboost.linear.primal_likelihood import PrimalLikelihood
from structboost.runtime.compiled import compiled
from structboost.tasks.chain import Stretch


class PrimalChain(PrimalLikelihood):
    """Minimiser of the regularised likelihood of a :class:`structboost.ChainTask`.

    It equals :class:`PrimalLikelihood`, with one row of scores of pairs for all sequences, so that
    neither time nor memory depends on how tokens are cut into sequences.  Where the steps have
    features, scores of pairs are in memory for one sequence at a time.  Weights are scaled by the
    curvature that they have at the frequencies of features and tags, which saves steps.

    Parameters
    ----------
    task : ChainTask
        With or without features of the steps.
    X, Y : sequence
        Tokens and steps as indices of active features, with vectors if the task has them, and tags.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    transitions : {"all", "seen"}
        Pairs of tags that have a weight, all of them or those that ``Y`` has.  Others score 0, and
        the time for each token is proportional to the number of tags and seen pairs.
    **settings
        As for :class:`PrimalLikelihood`.
    """

    _uses_sums_of_task = False

    def __init__(
        self,
        task: Any,
        X: Sequence[Any],
        Y: Sequence[Any],
        example_weights: FloatArray,
        *,
        transitions: str = "all",
        **settings: Any,
    ) -> None:
        super().__init__(task, X, Y, example_weights, **settings)
        starts = self._offsets["token"]
        sizes = np.diff(starts)
        self._sequences = sequences_of(task, X, Y, starts, example_weights)
        tags = self._sequences[1]
        self._penalties = task.penalties
        # Kept, since the system clears new memory of a long sequence at each use.
        of_sums = space_of_sums(starts, task.n_tags)
        n_rows = len(of_sums[0]) if task.step_features else 1
        pairs = np.empty((n_rows, task.n_tags**2)), np.empty((n_rows, task.n_tags**2))
        self._space = np.empty(of_sums[0].shape), np.empty(of_sums[0].shape), of_sums, *pairs
        # Pairs of tags that have a weight, or that are forbidden; none means all.
        self._listed = np.zeros(0, np.int64)
        if transitions == "seen":
            inner = np.flatnonzero(np.diff(np.repeat(np.arange(len(sizes)), sizes)) == 0)
            seen = np.zeros(task.n_tags**2, bool)
            seen[tags[inner] * task.n_tags + tags[inner + 1]] = True
            self._has_weight = seen.astype(np.float64)
            self._listed = np.flatnonzero(seen | (self._penalties[0] < 0)).astype(np.int64)
        of_tokens = np.repeat(example_weights, sizes)
        frequencies = np.bincount(tags, of_tokens, task.n_tags)
        frequencies = (frequencies + 1e-9) / (frequencies + 1e-9).sum()
        of_pairs = np.outer(frequencies, frequencies).ravel()
        n_pairs = float(example_weights @ np.maximum(sizes - 1, 0))
        self._of_tokens = [kind for kind in task.kinds if kind != "step"]
        self._curvature = np.zeros(sum(a * b for a, b in self._shapes.values()))
        by_kind = self._split(self._curvature)
        for kind in self._of_tokens:
            matrix = self._matrices[kind]
            of_features = np.asarray((matrix * matrix).T @ of_tokens)
            by_kind[kind][:] = np.outer(of_features, frequencies * (1.0 - frequencies))
        by_kind["step"][-1] = n_pairs * of_pairs * (1.0 - of_pairs)
        self._steps: tuple[IntArray, ...] = ()
        if task.step_features:
            matrix, starts = self._matrices["step"], self._offsets["step"]
            self._steps = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), starts
            curvature = by_kind["step"]
            of_steps = np.repeat(self._sequences[2], np.diff(starts))
            # That of a feature is that of all pairs, by its frequency among the steps.
            frequencies = np.asarray(matrix.T @ of_steps) / max(of_steps.sum(), 1e-300)
            curvature[:] = np.outer(frequencies, curvature[-1])

    @override
    def begin(self, C: float) -> None:
        weights = self._weights()
        self._scale = 1.0 / np.sqrt(self._penalty.ridge + C * self._curvature)
        self._restart(C, weights)

    @override
    def _evaluate(self, weights: FloatArray) -> tuple[float, FloatArray]:
        weights = self._scale * weights
        by_kind = self._split(weights)
        scores = np.asarray(self._matrices["token"] @ by_kind["token"])
        for kind in self._of_tokens[1:]:
            scores += self._matrices[kind] @ by_kind[kind]
        rising = np.zeros(len(weights))
        slopes = self._split(rising)
        at = slice(None) if self._steps else slice(-1, None)
        pairs = slopes["step"][at]
        loss, entropy = slopes_of(
            scores, np.ascontiguousarray(by_kind["step"][at]), self._steps or None, self._sequences,
            self._penalties, self._listed, self._space, pairs,
        )  # fmt: skip
        if len(self._listed):
            pairs *= self._has_weight
        for kind in self._of_tokens:
            slopes[kind][:] = self._matrices[kind].T @ scores
        self._mix(rising, entropy)
        ridge = self._penalty.ridge
        value = self._C * loss + 0.5 * ridge * float(weights @ weights)
        return value, self._scale * (ridge * weights - self._C * rising)


def sequences_of(
    task: Any, X: Sequence[Any], Y: Sequence[Any], starts: IntArray, weights: FloatArray
) -> tuple[IntArray, IntArray, FloatArray, NDArray[np.bool_]]:
    """Return sequences as compiled passes take them."""
    ends = [(x.begins, x.ends) if isinstance(x, Stretch) else (True, True) for x in X]
    tags = task.checked_tags(X, Y, np.diff(starts))
    return starts, tags, np.asarray(weights, np.float64), np.array(ends)


@compiled
def slopes_of(
    scores: FloatArray,
    weights: FloatArray,
    steps: Any,
    sequences: Any,
    penalties: Any,
    listed: IntArray,
    space: tuple[FloatArray, FloatArray, Space, FloatArray, FloatArray],
    out: FloatArray,
) -> tuple[float, float]:
    """Replace the scores of tags by the slopes of the likelihood, and return its loss and entropy.

    Parameters
    ----------
    scores : ndarray, shape (n_tokens, n_tags)
        Filled with the weight of the sequence times (truth - probability) of each tag.
    weights : ndarray, shape (n_features, n_tags * n_tags)
        Scores of pairs in one row, or weights of the features of steps.
    steps : (ndarray of int32, ndarray of int64, ndarray of int64) or None
        Active features of all steps, the first entry of each step, and the first step of each
        sequence; None where pairs do not depend on features.
    sequences : (ndarray of int64, ndarray of int64, ndarray, ndarray of bool (n, 2))
        First token of each sequence, true tags, weights, and whether each begins and ends where
        the sequence that it was cut from does.
    penalties : (ndarray, ndarray, ndarray)
        0, or minus infinity for forbidden pairs, first tags and last tags.
    listed : ndarray of int64
        Indices of the pairs that may score other than 0; none means all.  Read without ``steps``.
    space : tuple
        Two arrays of the longest sequence, the result of :func:`space_of_sums`, and two arrays of
        pairs (n_rows, n_tags * n_tags), a row for each step or one, to work in.
    out : ndarray of the shape of ``weights``
        Starts at zero; gains the slopes of the weights.

    Returns
    -------
    loss, entropy : float
        Weighted sums over the sequences.
    """
    starts, tags, of_sequences, ends = sequences
    n_tags, n_pairs = scores.shape[1], weights.shape[1]
    emissions, probabilities, of_sums, transitions, of_pairs = space
    shift = factor = 0.0
    powers = np.empty(len(listed))
    if steps is None:
        shift = exponentials(weights, ONE_ROW, penalties[0], of_sums[3], of_sums[4], of_sums[8])
        for p in listed:
            factor = max(factor, weights[0, p] + penalties[0][p])
        for p in range(len(listed)):
            powers[p] = np.exp(weights[0, listed[p]] + penalties[0][listed[p]] - factor)
        # Probabilities of pairs, summed over sequences of the same weight.
        of_pairs[0] = 0.0
    pairs = (listed, powers, np.exp(-factor), factor)
    loss, entropy = 0.0, 0.0
    for i in range(len(of_sequences)):
        begin, n, weight = starts[i], starts[i + 1] - starts[i], of_sequences[i]
        if n > 0:
            for t in range(n):
                for k in range(n_tags):
                    emissions[t, k] = scores[begin + t, k]
            add_ends(emissions, n, ends[i], penalties)
            true = 0.0
            if steps is None:
                log_sum = np.nan
                if len(listed):
                    log_sum = sum_product_of_pairs(
                        emissions[:n], pairs, of_sums, probabilities[:n], of_pairs
                    )
                if np.isnan(log_sum):
                    log_sum = sum_product(
                        emissions, ONE_ROW, n, (weights, penalties[0], ONE_ROW), of_sums, shift,
                        probabilities, of_pairs, None,
                    )  # fmt: skip
                for t in range(n):
                    tag = tags[begin + t]
                    true += scores[begin + t, tag]
                    if t:
                        pair = tags[begin + t - 1] * n_tags + tag
                        true += weights[0, pair]
                        out[0, pair] += weight
                expected = slopes_of_tags(scores, begin, n, tags, weight, probabilities)
            else:
                features, at, first_steps = steps
                for t in range(n - 1):
                    step = first_steps[i] + t
                    for p in range(n_pairs):
                        transitions[t, p] = 0.0
                        of_pairs[t, p] = 0.0
                    for e in range(at[step], at[step + 1]):
                        f = features[e]
                        for p in range(n_pairs):
                            transitions[t, p] += weights[f, p]
                log_sum = sum_product(
                    emissions, ONE_ROW, n, (transitions, penalties[0], ONE_ROW), of_sums, 0.0,
                    probabilities, of_pairs, NEXT_ROW,
                )  # fmt: skip
                for t in range(n):
                    true += scores[begin + t, tags[begin + t]]
                expected = slopes_of_tags(scores, begin, n, tags, weight, probabilities)
                for t in range(n - 1):
                    step = first_steps[i] + t
                    pair = tags[begin + t] * n_tags + tags[begin + t + 1]
                    true += transitions[t, pair]
                    for p in range(n_pairs):
                        expected += of_pairs[t, p] * transitions[t, p]
                        of_pairs[t, p] *= -weight
                    of_pairs[t, pair] += weight
                    for e in range(at[step], at[step + 1]):
                        f = features[e]
                        for p in range(n_pairs):
                            out[f, p] += of_pairs[t, p]
            loss += weight * (log_sum - true)
            entropy += weight * (log_sum - expected)
        if steps is None and (i + 1 == len(of_sequences) or of_sequences[i + 1] != weight):
            for k in range(n_pairs):
                out[0, k] -= weight * of_pairs[0, k]
                entropy -= weight * of_pairs[0, k] * weights[0, k]
                of_pairs[0, k] = 0.0
    return loss, entropy


@compiled(**INSIDE)
def slopes_of_tags(
    scores: FloatArray, begin: int, n: int, tags: IntArray, weight: float, probabilities: FloatArray
) -> float:
    """Replace the scores of a sequence by their slopes, and return their sum by probability."""
    expected = 0.0
    for t in range(n):
        for k in range(scores.shape[1]):
            expected += probabilities[t, k] * scores[begin + t, k]
            scores[begin + t, k] = -weight * probabilities[t, k]
        scores[begin + t, tags[begin + t]] += weight
    return expected
