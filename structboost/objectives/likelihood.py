"""Conditional likelihood of the true outputs, and its derivatives by the scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array

from structboost._typing import FloatArray
from structboost.contract.calls import log_sums, marginals
from structboost.contract.parts import StackedParts
from structboost.contract.separation import KeptTruth
from structboost.contract.sum_probe import check_sum, probe_sums
from structboost.contract.task import Task
from structboost.objectives.base import Problem

# Minus a loss, over the size of the sum, from which the rounding of its terms is looked at.
_SUSPICIOUS = 1e-8


class LikelihoodAt(NamedTuple):
    """Losses and marginals at some scores.

    Parameters
    ----------
    losses : ndarray, shape (n_examples,)
        Minus the logarithm of the probability of each true output.
    entropies : ndarray, shape (n_examples,)
        Entropies of the outputs of each example.
    expected : dict of str to ndarray, shape (n_parts, n_channels)
        Expected joint features.
    slopes : dict of str to ndarray, shape (n_channels, n_parts)
        Weight of the example times (truth - expected joint feature).
    """

    losses: FloatArray
    entropies: FloatArray
    expected: Mapping[str, FloatArray]
    slopes: dict[str, FloatArray]


def log_losses(
    task: Task, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts, sharpness: float
) -> FloatArray:
    """Negative log probabilities ``~ exp(sharpness * score)`` of true outputs, shape (n_examples,).

    TaskError if the task has no marginals.
    """
    example_weights = np.full(len(Y), 1.0 / len(Y))
    problem = Problem(task, X, Y, scores.offsets, example_weights, np.random.RandomState(0))
    likelihood = Likelihood(problem, probes=False)
    return likelihood.losses({k: sharpness * of_kind for k, of_kind in scores.rows.items()})


class Likelihood:
    """Likelihood of the true outputs of a problem whose task gives its marginals.

    Parameters
    ----------
    problem : Problem
        Examples and their task.
    probes : bool
        Whether to compare the sums of the task with outputs that are known, on a few examples.

    Raises
    ------
    TaskError
        If a true output is malformed, or the sums are not those over all outputs.

    Attributes
    ----------
    owners : dict of str to ndarray of int64, shape (n_parts,)
        Example of each part.
    counts : dict of str to bool
        Whether joint features are counts, which is if a true one is above 1.
    """

    def __init__(self, problem: Problem, *, probes: bool = True) -> None:
        self._problem = problem
        offsets = problem.offsets
        self._memo = KeptTruth()
        indices = np.arange(len(problem.Y))
        # Sparse tables have no single rows in scipy before 1.15.  Lists show the length of inputs.
        reads = problem.task.reads_inputs or isinstance(problem.X, list | tuple)
        inputs = problem.X if reads else [None] * len(indices)
        self._truth = self._memo.joint_features(problem.task, inputs, problem.Y, offsets)
        if probes:
            probe_sums(problem.task, problem.X, problem.Y, offsets)
        self.counts = {}
        for kind, (parts, channels, values) in self._truth.items():
            shape = int(offsets[kind][-1]), problem.task.kinds[kind].n_channels
            # An entry that comes twice is summed.
            table = coo_array((values, (parts, channels)), shape).tocsr()
            self.counts[kind] = bool((table.data > 1).any())
        self.owners = {kind: np.repeat(indices, np.diff(at)) for kind, at in offsets.items()}

    def losses(self, rows: Mapping[str, FloatArray]) -> FloatArray:
        """Return the losses alone at scores of shape (n_parts, n_channels).

        TaskError if the task has no marginals.
        """
        problem = self._problem
        scores = StackedParts(dict(rows), problem.offsets)
        sums = log_sums(problem.task, problem.X, scores, self._memo)
        losses = sums.copy()
        for kind in self._truth:
            losses -= self._scores_of_truth(kind, rows[kind], len(losses))
        self._check_truth(rows, sums, losses)
        return losses

    def _scores_of_truth(self, kind: str, rows: FloatArray, n: int) -> FloatArray:
        """Return the part of each true output's score that one kind of parts gives."""
        parts, channels, values = self._truth[kind]
        products = np.asarray(values * rows[parts, channels], np.float64)
        return np.bincount(self.owners[kind][parts], products, n).astype(np.float64, copy=False)

    def at(self, rows: Mapping[str, FloatArray]) -> LikelihoodAt:
        """Marginals and losses at scores of shape (n_parts, n_channels).

        TaskError if the task has no marginals.
        """
        problem = self._problem
        scores = StackedParts(dict(rows), problem.offsets)
        expected, sums = marginals(problem.task, problem.X, scores, self._memo)
        losses, entropies = sums.copy(), sums.copy()
        slopes = {}
        for kind, (parts, channels, values) in self._truth.items():
            owners, n = self.owners[kind], len(sums)
            losses -= self._scores_of_truth(kind, rows[kind], n)
            by_row = np.einsum("pc,pc->p", expected[kind], rows[kind])
            entropies -= np.bincount(owners, by_row, n)
            difference = -expected[kind]
            np.add.at(difference, (parts, channels), values)
            difference *= problem.example_weights[owners][:, None]
            slopes[kind] = np.ascontiguousarray(difference.T)
        self._check_truth(rows, sums, losses)
        return LikelihoodAt(losses, entropies, expected, slopes)

    def _check_truth(
        self, rows: Mapping[str, FloatArray], sums: FloatArray, losses: FloatArray
    ) -> None:
        """Raise TaskError if the true output of an example scores more than the sum over all."""
        for i in np.flatnonzero(losses < -_SUSPICIOUS * (1.0 + np.abs(sums))).tolist():
            size = 0.0
            for kind, (parts, channels, values) in self._truth.items():
                here = np.flatnonzero(self.owners[kind][parts] == i)
                size += float(np.abs(values[here] * rows[kind][parts[here], channels[here]]).sum())
            log_sum = float(sums[i])
            check_sum(log_sum, log_sum - float(losses[i]), size, i, "the true output")
