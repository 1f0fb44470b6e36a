"""Bipartite RankBoost with stumps (Freund, Iyer, Schapire and Singer, JMLR 2003).

The weight of a pair factors, D(x0, x1) = v(x0) v(x1) (their section 4), so a round is one pass over
the binned features, whatever the number of pairs.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import softmax
from scipy.stats import rankdata

from benchmarks.runner.protocol import BestRounds, grid

MAX_ROUNDS, PATIENCE = 2000, 300


class StumpRanking(NamedTuple):
    """Score = sum of ``weight[t] * (x[feature[t]] > threshold[t])``."""

    feature: np.ndarray
    threshold: np.ndarray
    weight: np.ndarray


class RankBoost(BestRounds):
    """RankBoost.B; a weak ranking is a stump with values 0 and 1 over all distinct thresholds.

    Candidates differ in the criterion, Z itself or its bound by r ("third method" of section 3.2),
    and in the shrinkage of the weights. Boosting stops when the validation part has not improved
    for a long time.
    """

    name = "rankboost"
    candidates = grid(shrinkage=(1.0, 0.3, 0.1), criterion=("r", "Z"))

    def values(self, train, validation, params, objective):
        return boost(train, params, MAX_ROUNDS, validation)[1]

    def fit(self, train, params):
        return boost(train, params, params["rounds"])[0]

    def output(self, model, X):
        return (X[:, model.feature] > model.threshold) @ model.weight

    def facts(self, model):
        return {"rounds": len(model.weight)}


def boost(train, params, max_rounds, held=None):
    """Rounds of boosting, and the AUC of held-out rows after each of them.

    Where a stump is 1, positives weigh p and negatives q; r = p - q, and Z at the best weight is
    1 - (sqrt(p (1 - q)) - sqrt(q (1 - p)))^2. Weights are smoothed, so that a stump without wrong
    pairs has a finite one.
    """
    values = [np.unique(column) for column in train.X.T]
    offsets = np.cumsum([0, *(len(own) for own in values)])
    thresholds = np.concatenate(values)
    feature = np.repeat(np.arange(len(values)), np.diff(offsets))
    codes = np.column_stack([np.searchsorted(v, x) for v, x in zip(values, train.X.T, strict=True)])
    positive = train.y == 1
    rows = [((codes[side] + offsets[:-1]).ravel(), side) for side in (positive, ~positive)]
    smoothing = 1.0 / (positive.sum() * (~positive).sum())
    scores = np.zeros(len(train.y))
    held_scores = np.zeros(0 if held is None else len(held.y))
    chosen, weights, aucs = [], [], []
    for _ in range(max_rounds):
        v = pair_factors(scores, positive)
        p, q = (_above(own, v[side], offsets) for own, side in rows)
        wrong = q * (1.0 - p)
        right = p * (1.0 - q)
        if params["criterion"] == "Z":
            gains = np.abs(np.sqrt(np.maximum(right, 0.0)) - np.sqrt(np.maximum(wrong, 0.0)))
        else:
            right, wrong, gains = 1.0 + p - q, 1.0 - p + q, np.abs(p - q)
        gains[offsets[1:] - 1] = 0.0  # nothing is above the largest value
        best = int(np.argmax(gains))
        if gains[best] <= 1e-12:
            break
        ratio = (right[best] + smoothing) / (wrong[best] + smoothing)
        weights.append(0.5 * params["shrinkage"] * float(np.log(ratio)))
        chosen.append(best)
        scores += weights[-1] * (train.X[:, feature[best]] > thresholds[best])
        if held is not None:
            held_scores += weights[-1] * (held.X[:, feature[best]] > thresholds[best])
            aucs.append(auc(held_scores, held.y == 1))
            if len(aucs) - 1 - int(np.argmax(aucs)) >= PATIENCE:
                break
    index = np.array(chosen, np.int64)
    return StumpRanking(feature[index], thresholds[index], np.array(weights)), aucs


def pair_factors(scores, positive):
    """v of each row: pair (x0, x1) has weight v(x0) v(x1); v sums to 1 on either side."""
    v = np.empty(len(scores))
    v[positive], v[~positive] = softmax(-scores[positive]), softmax(scores[~positive])
    return v


def _above(rows, v, offsets):
    """Weight of the rows above each value of each feature."""
    n_features = len(offsets) - 1
    at = np.bincount(rows, np.repeat(v, n_features), offsets[-1])
    below = np.cumsum(at)
    return np.repeat(below[offsets[1:] - 1], np.diff(offsets)) - below


def auc(scores, positive):
    """Fraction of the pairs in the right order, ties counting half."""
    n = int(positive.sum())
    ranks = rankdata(scores)[positive].sum()
    return float((ranks - n * (n + 1) / 2) / (n * (len(scores) - n)))
