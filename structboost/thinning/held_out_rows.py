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
    """Held-out rows with the responses of all trees, centred unless they are averaged.

    Parameters
    ----------
    responses : TreeResponses
        Responses to the rows.
    labels : ndarray of int64, shape (n_rows,)
        Indices of the true classes.
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
    """

    def __init__(
        self, responses: TreeResponses, labels: IntArray, more: TreeResponses | None
    ) -> None:
        self._scored, self._leaves = responses.scored, responses.leaves
        self.labels, self.n_trees = labels, len(self._scored)
        n, ones, self.offset = len(labels), np.ones(self.n_trees), responses.offset
        scores = scores_of(responses.blocks, ones, self.offset)
        self.sharpness = _best_sharpness(scores, labels)
        self.losses = row_losses(self.sharpness * scores, labels)
        self.is_wrong = scores.argmax(axis=1) != labels
        self.label_weight = n / (n + _ROWS_OF_MODEL)
        self.leaf_label_weight = n / (n + _ROWS_OF_LEAVES)
        if more is not None:
            scores = np.vstack((scores, scores_of(more.blocks, ones, self.offset)))
            if self._leaves is not None and more.leaves is not None:
                self._leaves = np.concatenate((self._leaves, more.leaves), axis=1)
        targets, self._leaf_targets = (
            _mixed(softmax_of(self.sharpness * scores), labels, weight)
            for weight in (self.label_weight, self.leaf_label_weight)
        )
        # The responses are centred by those to a mean "row".
        blocks, self._means, variances = [], [], np.zeros(self.n_trees)
        for k, (trees, channel, values) in enumerate(responses.blocks):
            means = values.mean(axis=1, keepdims=True)
            variances[trees] += ((values - means) ** 2).mean(axis=1)
            means = 0.0 * means if responses.averages else means
            joined = values if more is None else np.hstack((values, more.blocks[k].scores))
            blocks.append(ScoreBlock(trees, channel, joined - means))
            self._means.append(ScoreBlock(trees, channel, means))
        self.prices = np.sqrt(variances)
        # A tree that responds the same to all rows changes nothing, at any price.
        self.prices = np.maximum(self.prices, max(1e-6 * float(self.prices.max()), 1e-300))
        start = self.sharpness * scores_of(self._means, ones, self.offset)[0]
        self.problem = PricedCrossEntropy(blocks, start, targets)

    @property
    def has_leaves(self) -> bool:
        """Whether leaves can be fitted anew."""
        return self._leaves is not None

    def refitted(self, weights: FloatArray, rows: IntArray, tol: float) -> LeafAdditions:
        """Fit the leaves of the trees of positive weight anew on some of the rows."""
        assert self._leaves is not None
        return refitted_leaves(
            self._leaves[:, rows],
            self._scored,
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
        return out + added_scores(additions, self._leaves[:, rows]) + additions.offset

    def offset_at(self, weights: FloatArray, additions: LeafAdditions | None) -> FloatArray:
        """Scores without any tree, for trees whose responses are not centred."""
        means = scores_of(self._means, weights, np.zeros(len(self.offset)))[0]
        added = 0.0 if additions is None else additions.offset
        return np.asarray(self.problem.offset - means + added)


def _mixed(expected: FloatArray, labels: IntArray, label_weight: float) -> FloatArray:
    """Targets of the rows, of which the first ones have labels."""
    n, targets = len(labels), expected.copy()
    targets[:n] *= 1.0 - label_weight
    targets[np.arange(n), labels] += label_weight
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
