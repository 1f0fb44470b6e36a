"""RankBoost beside a plain implementation over all pairs."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.peers import rankboost
from benchmarks.runner.datasets import Table, parts


def ranking_tables(seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 8, size=(n, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + rng.normal(scale=3.0, size=n) > 9).astype(np.int64)
    return parts(X, y, y, repeat=0)


def pairwise_rankboost(X, y, criterion, shrinkage, n_rounds):
    """Figure 1 of the RankBoost paper on all pairs, one weight for each."""
    worse, better = np.meshgrid(np.flatnonzero(y == 0), np.flatnonzero(y == 1), indexing="ij")
    worse, better = worse.ravel(), better.ravel()
    smoothing = 1.0 / len(worse)
    stumps = [(f, t, X[:, f] > t) for f in range(X.shape[1]) for t in np.unique(X[:, f])[:-1]]
    D = np.full(len(worse), 1.0 / len(worse))
    scores = np.zeros(len(y))
    for _ in range(n_rounds):
        gains, weights = [], []
        for _, _, h in stumps:
            step = h[better].astype(float) - h[worse]
            right, wrong = D[step > 0].sum(), D[step < 0].sum()
            r = right - wrong
            if criterion == "Z":
                gains.append(-(1 - right - wrong + 2 * np.sqrt(right * wrong)))
                weights.append(0.5 * np.log((right + smoothing) / (wrong + smoothing)))
            else:
                gains.append(abs(r))
                weights.append(0.5 * np.log((1 + r + smoothing) / (1 - r + smoothing)))
        k = int(np.argmax(gains))
        h, weight = stumps[k][2], shrinkage * weights[k]
        scores += weight * h
        D *= np.exp(weight * (h[worse].astype(float) - h[better]))
        D /= D.sum()
    return scores, D, worse, better


@pytest.mark.parametrize("criterion", ["r", "Z"])
@pytest.mark.parametrize("shrinkage", [1.0, 0.3])
def test_rankboost_equals_boosting_all_pairs(criterion, shrinkage):
    train, _, _ = ranking_tables()
    params = {"criterion": criterion, "shrinkage": shrinkage, "rounds": 12}
    method = rankboost.RankBoost()
    scores = method.output(method.fit(train, params), train.X)
    expected, D, worse, better = pairwise_rankboost(train.X, train.y, criterion, shrinkage, 12)
    # Stumps of equal gain may be taken in another order: what they do to the pairs must agree.
    assert np.allclose(
        scores[better] - scores[worse], expected[better] - expected[worse], atol=1e-8
    )
    v = rankboost.pair_factors(scores, train.y == 1)
    assert np.allclose(v[worse] * v[better], D, atol=1e-12)


def test_rankboost_gain_and_weights_equal_those_of_pairs():
    train, _, _ = ranking_tables(seed=1)
    positive = train.y == 1
    v = rankboost.pair_factors(np.random.default_rng(0).normal(size=len(positive)), positive)
    assert v[positive].sum() == pytest.approx(1)
    assert v[~positive].sum() == pytest.approx(1)
    codes = train.X.T.astype(np.int32)
    for minimise_z in (False, True):
        f, b, p, q = rankboost.best_stump(codes, np.full(4, 8), positive, v, minimise_z)
        h = codes[f] > b
        assert p == pytest.approx(v[positive & h].sum())
        assert q == pytest.approx(v[~positive & h].sum())


def test_rankboost_auc_counts_ties_half():
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores = rng.integers(0, 5, 30).astype(float)
        y = np.arange(30) % 3 == 0
        assert rankboost.auc(scores, y) == pytest.approx(roc_auc_score(y, scores))


def test_rankboost_stops_where_nothing_is_left_to_learn():
    constant = Table(np.ones((6, 2), np.float32), np.array([0, 1, 0, 1, 0, 1]))
    model = rankboost.RankBoost().fit(constant, {"criterion": "r", "shrinkage": 1.0, "rounds": 5})
    assert len(model.weight) == 0
