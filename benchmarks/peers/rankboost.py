"""Bipartite RankBoost with stumps (Freund, Iyer, Schapire and Singer, JMLR 2003).

The weight of a pair factors, D(x0, x1) = v(x0) v(x1) (their section 4), so a round is one pass over
the binned features, whatever the number of pairs.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from benchmarks.runner.datasets import Table
from benchmarks.runner.protocol import BestRounds, Objective, Params, grid

MAX_ROUNDS = 2000
PATIENCE = 300


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

    def values(self, train: Table, validation: Table, params: Params, objective: Objective) -> Any:
        return _fit(train, validation, params, MAX_ROUNDS, PATIENCE)[-1]

    def fit(self, train: Table, params: Params) -> StumpRanking:
        no_rows, rounds = Table(train.X[:0], train.y[:0]), params["rounds"]
        features, bins, weights, _ = _fit(train, no_rows, params, rounds, rounds)
        values = [np.unique(train.X[:, f])[b] for f, b in zip(features, bins, strict=True)]
        return StumpRanking(features, np.array(values, dtype=np.float32), weights)

    def output(self, model: StumpRanking, X: np.ndarray) -> np.ndarray:
        return stump_scores(np.ascontiguousarray(X.T), *model)

    def warm_up(self) -> None:
        table = Table(np.array([[0.0], [1.0]], np.float32), np.array([0, 1]))
        self.output(self.fit(table, {"criterion": "r", "shrinkage": 1.0, "rounds": 1}), table.X)

    def facts(self, model: StumpRanking) -> dict[str, Any]:
        return {"rounds": len(model.weight)}


def _fit(
    train: Table, validation: Table, params: Params, max_rounds: int, patience: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Bin on the training values, then boost."""
    values = [np.unique(column) for column in train.X.T]
    codes, held_out = (
        np.stack([np.searchsorted(*pair) for pair in zip(values, X.T, strict=True)])
        for X in (train.X, validation.X)
    )
    n_bins = np.array([len(v) for v in values])
    own = (train.y.astype(np.bool_), params["criterion"] == "Z", params["shrinkage"])
    watched = (held_out.astype(np.int32), validation.y.astype(np.bool_))
    return boost(codes.astype(np.int32), n_bins, *own, max_rounds, patience, *watched)


@njit(cache=True, nogil=True)
def boost(
    codes: np.ndarray,
    n_bins: np.ndarray,
    positive: np.ndarray,
    minimise_z: bool,
    shrinkage: float,
    max_rounds: int,
    patience: int,
    held_out: np.ndarray,
    held_out_positive: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Boosting rounds on binned features, a feature a row.

    Returns
    -------
    features, bins, weights : ndarray, shape (n_rounds,)
        Stump t is 1 where ``codes[features[t]] > bins[t]``.
    values : ndarray, shape (n_rounds,)
        AUC of the held-out rows after each round; without such rows, zeros.
    """
    features = np.zeros(max_rounds, np.int64)
    bins = np.zeros(max_rounds, np.int64)
    weights = np.zeros(max_rounds)
    values = np.zeros(max_rounds)
    n_positive = np.sum(positive)
    smoothing = 1.0 / (n_positive * (len(positive) - n_positive))
    scores = np.zeros(codes.shape[1])
    held_out_scores = np.zeros(held_out.shape[1])
    best, best_round, n_rounds = -1.0, 0, 0
    for t in range(max_rounds):
        v = pair_factors(scores, positive)
        f, b, p, q = best_stump(codes, n_bins, positive, v, minimise_z)
        if f < 0:
            break
        weight = shrinkage * stump_weight(p, q, minimise_z, smoothing)
        features[t], bins[t], weights[t] = f, b, weight
        add_stump(scores, codes[f], b, weight)
        n_rounds = t + 1
        if len(held_out_scores) > 0:
            add_stump(held_out_scores, held_out[f], b, weight)
            values[t] = auc(held_out_scores, held_out_positive)
            if values[t] > best:
                best, best_round = values[t], t
            if t - best_round >= patience:
                break
    return features[:n_rounds], bins[:n_rounds], weights[:n_rounds], values[:n_rounds]


@njit(cache=True, nogil=True)
def pair_factors(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """v of each row: pair (x0, x1) has weight v(x0) v(x1); v sums to 1 on either side."""
    exponents = np.where(positive, -scores, scores)
    v = np.empty(len(scores))
    for side in (True, False):
        top = -np.inf
        for i in range(len(v)):
            if positive[i] == side:
                top = max(top, exponents[i])
        total = 0.0
        for i in range(len(v)):
            if positive[i] == side:
                v[i] = np.exp(exponents[i] - top)
                total += v[i]
        for i in range(len(v)):
            if positive[i] == side:
                v[i] /= total
    return v


@njit(cache=True, nogil=True)
def best_stump(
    codes: np.ndarray, n_bins: np.ndarray, positive: np.ndarray, v: np.ndarray, minimise_z: bool
) -> tuple[int, int, float, float]:
    """Feature and bin of the best stump; where it is 1, positives weigh p and negatives q.

    r = p - q; Z at its best weight is 1 - (sqrt(p (1 - q)) - sqrt(q (1 - p)))^2.
    """
    best, feature, bin_, best_p, best_q = 1e-12, -1, -1, 0.0, 0.0
    above = np.empty((n_bins.max(), 2))
    for f in range(codes.shape[0]):
        above[: n_bins[f]] = 0.0
        row = codes[f]
        for i in range(len(row)):
            above[row[i], 0 if positive[i] else 1] += v[i]
        p, q = 0.0, 0.0
        for b in range(n_bins[f] - 2, -1, -1):
            p += above[b + 1, 0]
            q += above[b + 1, 1]
            if minimise_z:
                right = np.sqrt(max(0.0, p * (1.0 - q)))
                gain = abs(right - np.sqrt(max(0.0, q * (1.0 - p))))
            else:
                gain = abs(p - q)
            if gain > best:
                best, feature, bin_, best_p, best_q = gain, f, b, p, q
    return feature, bin_, best_p, best_q


@njit(cache=True, nogil=True)
def stump_weight(p: float, q: float, minimise_z: bool, smoothing: float) -> float:
    """Weight alpha of a stump, smoothed so that a stump without wrong pairs has a finite one."""
    if minimise_z:
        return 0.5 * np.log((p * (1.0 - q) + smoothing) / (q * (1.0 - p) + smoothing))
    return 0.5 * np.log((1.0 + p - q + smoothing) / (1.0 - p + q + smoothing))


@njit(cache=True, nogil=True)
def add_stump(scores: np.ndarray, codes: np.ndarray, bin_: int, weight: float) -> None:
    """Scores after one more stump."""
    for i in range(len(scores)):
        if codes[i] > bin_:
            scores[i] += weight


@njit(cache=True, nogil=True)
def auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Share of (positive, negative) pairs in the right order, ties counting half."""
    order = np.argsort(scores)
    n_below, n_right, start = 0, 0.0, 0
    while start < len(order):
        end, n_positive = start, 0
        while end < len(order) and scores[order[end]] == scores[order[start]]:
            n_positive += positive[order[end]]
            end += 1
        n_negative = end - start - n_positive
        n_right += n_positive * (n_below + 0.5 * n_negative)
        n_below += n_negative
        start = end
    return n_right / (n_below * (len(order) - n_below))


@njit(cache=True, nogil=True)
def stump_scores(
    columns: np.ndarray, feature: np.ndarray, threshold: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Scores of rows given by columns."""
    scores = np.zeros(columns.shape[1])
    for t in range(len(weight)):
        add_stump(scores, columns[feature[t]], threshold[t], weight[t])
    return scores
