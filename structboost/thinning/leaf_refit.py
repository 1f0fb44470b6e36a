"""Leaves of the selected trees fitted anew on held-out rows.

With scores S of the weighted trees, targets q, weights v of the rows that sum to 1, and d the
additions to the leaves and the offsets, the problem is ::

    min_d  sum_i v_i [log sum_c exp(F_ic) - <q_i, F_i>] + ridge/2 |d|^2,
           F_i = S_i + sum of the additions that row i reaches

It is strongly convex, so the squared norm of a gradient over twice the ridge bounds how far a point
is from the optimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp

from structboost._typing import BoolArray, FloatArray, IntArray
from structboost.solvers.priced_cross_entropy import PricedCrossEntropy, ScoreBlock, scores_of
from structboost.thinning.library_trees import TreeResponses, softmax_of

# Square of an addition, in log-odds, against the mean cross-entropy (docs/decisions.md).
RIDGE = 0.01
_MAX_STEPS = 1000


class LeafAdditions(NamedTuple):
    """Additions to the leaves of some trees, and to the offsets.

    Parameters
    ----------
    trees : dict of int to ndarray, shape (n_leaves, n_classes)
        Additions to the scores of the leaves of each tree.  Leaves beyond the last one have none.
    offset : ndarray, shape (n_classes,)
    gap : float
        Relative gap of the refit; NaN where leaves stayed as they were.
    """

    trees: Mapping[int, FloatArray]
    offset: FloatArray
    gap: float


def refitted_leaves(
    leaves: IntArray,
    scored: BoolArray,
    trees: IntArray,
    scores: FloatArray,
    targets: FloatArray,
    row_weights: FloatArray,
    tol: float,
) -> LeafAdditions:
    """Minimise the cross-entropy over additions to the leaves of some trees.

    Parameters
    ----------
    leaves : ndarray of int, shape (n_trees, n_rows)
        Leaf that each row reaches, for all trees.
    scored : ndarray of bool, shape (n_trees, n_classes)
        Classes that each tree scores.
    trees : ndarray of int64, shape (n_selected,)
        Trees whose leaves change.
    scores, targets : ndarray, shape (n_rows, n_classes)
        Scores of the weighted trees, and probabilities of the classes.
    row_weights : ndarray, shape (n_rows,)
    tol : float
        Relative gap at which the search stops.
    """
    n_leaves, row_weights = int(leaves.max()) + 1, row_weights / row_weights.sum()
    # All rows reach the offsets, which come last, as if they were the leaf of a further tree.
    places = np.vstack((leaves[trees], np.zeros_like(leaves[:1])))
    places += np.arange(len(places))[:, None] * n_leaves
    reached, columns = np.unique(places, return_inverse=True)
    indptr = np.arange(0, places.size + 1, len(places))
    entries = np.ones(places.size), columns.reshape(places.shape).T.ravel(), indptr
    by_row = sparse.csr_array(entries, shape=(len(scores), len(reached)))
    by_leaf = by_row.T.tocsr()
    may_change = np.vstack((scored[trees], np.ones_like(scored[:1])))[reached // n_leaves]

    def objective(d: FloatArray) -> tuple[float, FloatArray]:
        moved = scores + by_row @ _filled(may_change, d)
        sums = logsumexp(moved, axis=1)
        value = row_weights @ (sums - (targets * moved).sum(axis=1))
        slopes = row_weights[:, None] * (np.exp(moved - sums[:, None]) - targets)
        return float(value + RIDGE / 2 * (d @ d)), RIDGE * d + (by_leaf @ slopes)[may_change]

    def gap(d: FloatArray) -> float:
        value, gradient = objective(d)
        return float(gradient @ gradient) / (2 * RIDGE) / max(value, 1e-300)

    def stop(intermediate_result: object) -> None:
        if gap(intermediate_result.x) <= tol:  # type: ignore[attr-defined]
            raise StopIteration

    start = np.zeros(may_change.sum())
    options = {"maxiter": _MAX_STEPS, "maxfun": 2 * _MAX_STEPS, "gtol": 0.0, "ftol": 0.0}
    d = minimize(objective, start, jac=True, method="L-BFGS-B", callback=stop, options=options).x
    additions = np.zeros((len(places), n_leaves, scores.shape[1]))
    additions[reached // n_leaves, reached % n_leaves] = _filled(may_change, d)
    of_trees = dict(zip(trees.tolist(), additions[:-1], strict=True))
    return LeafAdditions(of_trees, additions[-1, 0], gap(d))


def added_scores(additions: LeafAdditions, leaves: IntArray) -> FloatArray:
    """Scores that additions give to rows by the leaves that they reach, without the offsets.

    Parameters
    ----------
    additions : LeafAdditions
    leaves : ndarray of int, shape (n_trees, n_rows)

    Returns
    -------
    scores : ndarray, shape (n_rows, n_classes)
    """
    out = np.zeros((leaves.shape[1], len(additions.offset)))
    for tree, values in additions.trees.items():
        out += np.pad(values, ((0, 1), (0, 0)))[np.minimum(leaves[tree], len(values))]
    return out


def _filled(is_set: BoolArray, values: FloatArray) -> FloatArray:
    """Array of the values in their places, and of zeros elsewhere."""
    out = np.zeros(is_set.shape)
    out[is_set] = values
    return out


# Rows at which the labels weigh as much as the probabilities of the model: where trees are
# weighed, and where their leaves are fitted anew.
_ROWS_OF_MODEL, _ROWS_OF_LEAVES = 2000, 100
# Weight of a row without a label where leaves are fitted anew; others have the weight 1.
_UNLABELLED = 0.2
# Bounds of the logarithm of the sharpness.
_LOG_SHARPNESS = (-4.0, 4.0)


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
    sharpness : float
        Factor of the scores of the whole model at which its log-loss is lowest.
    losses, is_wrong : ndarray, shape (n_rows,)
        Log-loss of the whole model at that factor, and whether its label is wrong.
    label_weight : float
        Weight of the labels in the targets where trees are weighed.
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
        self.labels, self.offset = labels, responses.offset
        n, ones = len(labels), np.ones(len(self._scored))
        scores = scores_of(responses.blocks, ones, self.offset)
        best = minimize_scalar(
            lambda log_factor: row_losses(exp(log_factor) * scores, labels).mean(),
            bounds=_LOG_SHARPNESS,
            method="bounded",
        )
        self.sharpness = exp(float(best.x))
        self.losses = row_losses(self.sharpness * scores, labels)
        self.is_wrong = scores.argmax(axis=1) != labels
        self.label_weight = n / (n + _ROWS_OF_MODEL)
        if more is not None:
            scores = np.vstack((scores, scores_of(more.blocks, ones, self.offset)))
            if self._leaves is not None and more.leaves is not None:
                self._leaves = np.concatenate((self._leaves, more.leaves), axis=1)
        targets, self._leaf_targets = (
            _mixed(softmax_of(self.sharpness * scores), labels, weight)
            for weight in (self.label_weight, n / (n + _ROWS_OF_LEAVES))
        )
        # The responses are centred by those to a mean "row".
        blocks, self._means, variances = [], [], np.zeros_like(ones)
        for k, (trees, channel, values) in enumerate(responses.blocks):
            means = values.mean(axis=1, keepdims=True)
            variances[trees] += ((values - means) ** 2).mean(axis=1)
            means = 0.0 * means if responses.leaves is None else means
            joined = values if more is None else np.hstack((values, more.blocks[k].scores))
            blocks.append(ScoreBlock(trees, channel, joined - means))
            self._means.append(ScoreBlock(trees, channel, means))
        self.prices = np.sqrt(variances)
        # A tree that responds the same to all rows changes nothing, at any price.
        self.prices = np.maximum(self.prices, max(1e-6 * float(self.prices.max()), 1e-300))
        start = self.sharpness * scores_of(self._means, ones, self.offset)[0]
        self.problem = PricedCrossEntropy(blocks, start, targets)

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
