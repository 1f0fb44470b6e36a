"""Rows that the model was not trained on, with the problems of the weights and of the leaves."""

from __future__ import annotations

from math import exp

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from structboost._typing import FloatArray, IntArray
from structboost.solvers.priced_cross_entropy import PricedCrossEntropy, ScoreBlock
from structboost.thinning.leaf_refit import LeafAdditions, added_scores, refitted_leaves
from structboost.thinning.library_trees import TreeResponses, scores_of, softmax_of

# Rows at which the labels weigh as much as the probabilities of the model: where trees are
# weighed, and where their leaves are fitted anew.
_ROWS_OF_MODEL, _ROWS_OF_LEAVES = 2000, 100
# Weight of a row without a label where leaves are fitted anew; others have the weight 1.
_UNLABELLED = 0.2
# Bounds of the logarithm of the sharpness.
_LOG_SHARPNESS = (-4.0, 4.0)
# Smaller probabilities count as this.
_LEAST = float(np.finfo(np.float64).eps)


class HeldOutRows:
    """Held-out rows with the responses of all trees, centred where the format has offsets.

    Parameters
    ----------
    responses : TreeResponses
        Responses to the rows.
    labels : ndarray of int64, shape (n_rows,)
        Indices of the true classes.
    n_classes : int
    more : TreeResponses or None
        Responses to rows without labels.

    Attributes
    ----------
    n_trees : int
    sharpness : float
        Factor of the scores of the whole model at which its log-loss is lowest.
    losses, is_wrong : ndarray, shape (n_rows,)
        Log-loss of the whole model at that factor, and whether its label is wrong.
    label_weight, leaf_label_weight : float
        Weight of the labels in the targets where trees are weighed, and where their leaves are
        fitted anew.
    offset : ndarray, shape (n_classes,)
        Scores of the whole model without any tree.
    prices : ndarray, shape (n_trees,)
        Standard deviation of each tree, which is that of its scores over the rows.
    problem : PricedCrossEntropy
        Problem on the rows, and after them those without labels.
    has_leaves : bool
        Whether leaves can be fitted anew.
    """

    def __init__(
        self,
        responses: TreeResponses,
        labels: IntArray,
        n_classes: int,
        more: TreeResponses | None,
    ) -> None:
        self.labels, self.n_trees = labels, len(responses.values)
        n, ones = len(labels), np.ones(self.n_trees)
        self.offset = np.zeros(n_classes) if responses.offset is None else responses.offset
        scores = scores_of(responses, ones, self.offset)
        self.sharpness = _best_sharpness(scores, labels)
        self.losses = row_losses(self.sharpness * scores, labels)
        self.is_wrong = scores.argmax(axis=1) != labels
        self.label_weight = n / (n + _ROWS_OF_MODEL)
        self.leaf_label_weight = n / (n + _ROWS_OF_LEAVES)
        expected = softmax_of(self.sharpness * scores)
        targets = _mixed(expected, labels, self.label_weight)
        leaf_targets = _mixed(expected, labels, self.leaf_label_weight)
        leaves = responses.leaves
        # A mean "row", by which the responses are centred.
        means = responses.values.mean(axis=1, keepdims=True)
        deviations = ((responses.values - means) ** 2).reshape(self.n_trees, n, -1)
        self.prices = np.sqrt(deviations.sum(axis=2).mean(axis=1))
        # A tree that responds the same to all rows changes nothing, at any price.
        self.prices = np.maximum(self.prices, max(1e-6 * float(self.prices.max()), 1e-300))
        if responses.offset is None:
            means = np.zeros_like(means)
        self._means = responses._replace(values=means)
        values = responses.values - means
        if more is not None:
            values = np.concatenate((values, more.values - means), axis=1)
            others = scores_of(more, ones, self.offset)
            others = softmax_of(self.sharpness * others)
            targets = np.concatenate((targets, others))
            leaf_targets = np.concatenate((leaf_targets, others))
            if leaves is not None and more.leaves is not None:
                leaves = np.concatenate((leaves, more.leaves), axis=1)
        self._channels, self._leaves, self._leaf_targets = responses.channels, leaves, leaf_targets
        self.has_leaves = leaves is not None
        start = self.sharpness * scores_of(self._means, ones, self.offset)[0]
        blocks = _blocks(values, responses.channels)
        self.problem = PricedCrossEntropy(blocks, start, targets)

    def without(self, held: IntArray) -> IntArray:
        """Return the indices of all rows but some, with those that have no label."""
        is_used = np.ones(len(self.problem.targets), bool)
        is_used[held] = False
        return np.flatnonzero(is_used)

    def refitted(self, weights: FloatArray, rows: IntArray, tol: float) -> LeafAdditions:
        """Fit the leaves of the trees of positive weight anew on some of the rows."""
        assert self._leaves is not None
        return refitted_leaves(
            self._leaves[:, rows],
            self._channels,
            np.flatnonzero(weights > 0),
            self.problem.of_rows(rows).scores(weights),
            self._leaf_targets[rows],
            np.where(rows < len(self.labels), 1.0, _UNLABELLED),
            tol,
        )

    def scores(
        self, weights: FloatArray, additions: LeafAdditions | None, rows: IntArray
    ) -> FloatArray:
        """Scores of the classes for some of the rows."""
        out = self.problem.of_rows(rows).scores(weights)
        if additions is None or self._leaves is None:
            return out
        added = added_scores(additions, self._leaves[:, rows], self._channels)
        return out + added + additions.offset

    def offset_at(self, weights: FloatArray, additions: LeafAdditions | None) -> FloatArray:
        """Scores without any tree, for trees whose responses are not centred."""
        means = scores_of(self._means, weights, np.zeros(len(self.offset)))[0]
        added = 0.0 if additions is None else additions.offset
        return np.asarray(self.problem.offset - means + added)


def _mixed(expected: FloatArray, labels: IntArray, label_weight: float) -> FloatArray:
    targets = (1.0 - label_weight) * expected
    targets[np.arange(len(labels)), labels] += label_weight
    return targets


def row_losses(scores: FloatArray, labels: IntArray) -> FloatArray:
    """Log-loss of each row at scores of shape (n_rows, n_classes)."""
    return np.asarray(logsumexp(scores, axis=1) - scores[np.arange(len(labels)), labels])


def mean_loss(probabilities: FloatArray, labels: IntArray) -> float:
    """Mean log-loss of probabilities of shape (n_rows, n_classes)."""
    true = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(true, _LEAST)).mean())


def _best_sharpness(scores: FloatArray, labels: IntArray) -> float:
    def loss(log_factor: float) -> float:
        return float(row_losses(exp(log_factor) * scores, labels).mean())

    return exp(float(minimize_scalar(loss, bounds=_LOG_SHARPNESS, method="bounded").x))


def _blocks(values: FloatArray, channels: IntArray | None) -> list[ScoreBlock]:
    """Blocks of the functions that score each class."""
    if channels is None:
        every = np.arange(len(values))
        return [
            ScoreBlock(every, channel, np.ascontiguousarray(values[:, :, channel]))
            for channel in range(values.shape[2])
        ]
    return [
        ScoreBlock(members, int(channel), np.ascontiguousarray(values[members]))
        for channel in np.unique(channels)
        for members in [np.flatnonzero(channels == channel)]
    ]
