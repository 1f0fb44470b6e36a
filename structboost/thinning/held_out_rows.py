"""Rows that the model was not trained on, and the problem of the weights of its trees on them."""

from __future__ import annotations

from math import exp

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from structboost._typing import FloatArray, IntArray
from structboost.solvers.priced_cross_entropy import PricedCrossEntropy, ScoreBlock
from structboost.thinning.tree_model import TreeResponses, scores_of, softmax_of

# Rows at which the labels weigh as much as the probabilities of the model.
_ROWS_OF_MODEL = 2000
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
    label_weight : float
        Weight of the labels in the targets.
    offset : ndarray, shape (n_classes,)
        Scores of the whole model without any tree.
    prices : ndarray, shape (n_trees,)
        Standard deviation of each tree, which is that of its scores over the rows.
    problem : PricedCrossEntropy
        Problem on the rows, and after them those without labels.
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
        targets = (1.0 - self.label_weight) * softmax_of(self.sharpness * scores)
        targets[np.arange(n), labels] += self.label_weight
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
            targets = np.concatenate((targets, softmax_of(self.sharpness * others)))
        start = self.sharpness * scores_of(self._means, ones, self.offset)[0]
        blocks = _blocks(values, responses.channels)
        self.problem = PricedCrossEntropy(blocks, start, targets)

    def without(self, held: IntArray) -> PricedCrossEntropy:
        """Problem without some of the rows, but with all that have no label."""
        is_used = np.ones(len(self.problem.targets), bool)
        is_used[held] = False
        return self.problem.of_rows(np.flatnonzero(is_used))

    def offset_at(self, weights: FloatArray) -> FloatArray:
        """Scores without any tree, for trees whose responses are not centred."""
        means = scores_of(self._means, weights, np.zeros(len(self.offset)))[0]
        return np.asarray(self.problem.offset - means)


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
