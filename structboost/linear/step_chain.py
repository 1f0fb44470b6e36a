"""Linear chain whose transitions depend on features, trained by quasi-Newton steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structboost._typing import FloatArray, override
from structboost.inference.chain import NEXT_ROW, ONE_ROW, Space, sum_product
from structboost.linear.chain_passes import add_ends
from structboost.linear.primal_chain import PrimalChain, slopes_of_tags
from structboost.runtime.compiled import compiled


class StepChain(PrimalChain):
    """Minimiser of the likelihood of a :class:`structboost.ChainTask` with features of the steps.

    Scores and probabilities of pairs of tags are in memory for one sequence at a time.

    Parameters
    ----------
    task : ChainTask
        With features of the steps.
    X, Y : sequence
        Tokens and steps as indices of active features, with vectors between them if the task has
        these, and tags.
    example_weights : ndarray, shape (n_examples,)
        Weights of the examples, which sum to 1.
    **settings
        As for :class:`PrimalLikelihood`.
    """

    def __init__(
        self,
        task: Any,
        X: Sequence[Any],
        Y: Sequence[Any],
        example_weights: FloatArray,
        **settings: Any,
    ) -> None:
        super().__init__(task, X, Y, example_weights, **settings)
        matrix, starts = self._matrices["step"], self._offsets["step"]
        self._steps = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), starts
        shape = len(self._space[0]), task.n_tags**2
        self._pairs = np.empty(shape), np.empty(shape)
        curvature = self._split(self._curvature)["step"]
        of_steps = np.repeat(self._sequences[2], np.diff(starts))
        # That of a feature is that of all pairs, by its frequency among the steps.
        frequencies = np.asarray(matrix.T @ of_steps) / max(of_steps.sum(), 1e-300)
        curvature[:] = np.outer(frequencies, curvature[-1])

    @override
    def _slopes(
        self, scores: FloatArray, weights: FloatArray, out: FloatArray
    ) -> tuple[float, float]:
        return slopes_of_steps(
            scores, np.ascontiguousarray(weights), self._steps, self._sequences, self._penalties,
            self._space, self._pairs, out,
        )  # fmt: skip


@compiled
def slopes_of_steps(
    scores: FloatArray,
    weights: FloatArray,
    steps: Any,
    sequences: Any,
    penalties: Any,
    space: tuple[FloatArray, FloatArray, Space],
    pairs: tuple[FloatArray, FloatArray],
    out: FloatArray,
) -> tuple[float, float]:
    """Replace the scores of tags by the slopes of the likelihood, and return its loss and entropy.

    Parameters
    ----------
    scores, sequences, penalties, space
        As for :func:`structboost.linear.primal_chain.slopes_of`.
    weights : ndarray, shape (n_features, n_tags * n_tags)
        Weights of the features of steps.
    steps : (ndarray of int32, ndarray of int64, ndarray of int64)
        Active features of all steps, the first entry of each step, and the first step of each
        sequence.
    pairs : (ndarray, ndarray)
        Two arrays of the longest sequence (n_steps, n_tags * n_tags), to work in.
    out : ndarray of the shape of ``weights``
        Starts at zero; gains the slopes of the weights.

    Returns
    -------
    loss, entropy : float
        Weighted sums over the sequences.
    """
    starts, tags, of_sequences, ends = sequences
    features, at, first_steps = steps
    n_tags, n_pairs = scores.shape[1], weights.shape[1]
    emissions, probabilities, of_sums = space
    transitions, of_pairs = pairs
    loss, entropy = 0.0, 0.0
    for i in range(len(of_sequences)):
        begin, n, weight = starts[i], starts[i + 1] - starts[i], of_sequences[i]
        if n == 0:
            continue
        for t in range(n):
            for k in range(n_tags):
                emissions[t, k] = scores[begin + t, k]
        add_ends(emissions, n, ends[i], penalties)
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
        true = 0.0
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
    return loss, entropy
