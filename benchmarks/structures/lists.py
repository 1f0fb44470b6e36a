"""Lists of documents: LightGBM's ranking example, with trees and with a hundred stumps."""

from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import KFold

from benchmarks.peers.boosters import peer
from benchmarks.runner.protocol import best_fit, row
from structboost import StructBoostRanker
from structboost.learners import TreeFamily
from structboost.objectives import StageWiseRanking

NAME, METRIC, TOP = "lambdarank", "NDCG@10", 10
RANKING = "structures/ranking/lambdarank.npz"
FOLDS, N_STUMPS = 3, 100


class Queries(NamedTuple):
    """Documents, their grades, and how many each query has."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray

    def part(self, queries):
        rows = np.isin(np.repeat(np.arange(len(self.group)), self.group), queries)
        return Queries(self.X[rows], self.y[rows], self.group[np.sort(queries)])


def mean_ndcg(y, scores, group):
    """Mean over the queries with two grades, gains ``2^y - 1``; ties keep their order."""
    values = []
    ends = np.cumsum(group)
    for begin, end in zip(ends - group, ends, strict=True):
        gains = np.exp2(y[begin:end]) - 1.0
        if len(np.unique(gains)) > 1:
            order = np.argsort(-scores[begin:end], kind="stable")
            discounts = 1.0 / np.log2(np.arange(min(TOP, end - begin)) + 2.0)
            gain, best = gains[order][:TOP] @ discounts, np.sort(gains)[::-1][:TOP] @ discounts
            values.append(gain / best)
    return float(np.mean(values))


def _lightgbm(num_leaves, learning_rate, n_estimators):
    own = {"num_leaves": num_leaves, "n_estimators": n_estimators, "learning_rate": learning_rate}
    return peer("lightgbm", "LGBMRanker", random_state=0, n_jobs=1, verbose=-1, **own)


def _trees(depth, shrinkage, max_rounds):
    family = partial(TreeFamily, depth=depth, row_fraction=0.5, random_state=0)
    return _stage_wise(shrinkage, family, max_rounds)


def _stage_wise(shrinkage, family="stump", max_rounds=N_STUMPS):
    objective = StageWiseRanking(shrinkage=shrinkage, largest_step=1.0)
    own = {"weak_learner": family, "C": float("inf"), "max_iter": max_rounds}
    return StructBoostRanker(objective=objective, **own, random_state=0)


def _certified(C):
    return StructBoostRanker(objective="hinge", loss="ndcg", C=C, tol=0.02, max_iter=100)


def measured(method, make, grid, source):
    """The settings of the largest NDCG on folds of the training queries, fitted on all of them."""
    file = source.arrays()
    group = np.unique(file["qid"], return_counts=True)[1]
    is_train = file["train"][np.cumsum(group) - 1]  # of each query
    data = Queries(file["X"], file["y"], group)
    train, test = (data.part(np.flatnonzero(part)) for part in (is_train, ~is_train))
    folds = list(KFold(FOLDS, shuffle=True, random_state=0).split(train.group))

    def fit(settings, part=train):
        return make(*settings).fit(part.X, part.y, group=part.group)

    def ndcg(model, part):
        return mean_ndcg(part.y, model.predict(part.X), part.group)

    def value(settings):
        pairs = [(train.part(rest), train.part(out)) for rest, out in folds]
        return np.mean([ndcg(fit(settings, rest), out) for rest, out in pairs])

    model, facts = best_fit(list(product(*grid)), value, fit)
    return [row(method, METRIC, ndcg(model, test), seconds=facts["seconds"], chosen=facts["C"])]


RATES = (0.05, 0.1, 0.2, 0.3, 0.5)
OF_TREES, OF_STUMPS = "trees", f"{N_STUMPS} stumps"
GRIDS = {
    f"LightGBM, {OF_TREES}": (_lightgbm, ((4, 15, 31), (0.05, 0.1), (100, 300))),
    f"StructBoost, {OF_TREES}": (_trees, ((2, 3, 5), (0.1, 0.3), (100, 300))),
    f"LightGBM, {OF_STUMPS}": (_lightgbm, ((2,), RATES, (N_STUMPS,))),
    f"StructBoost, {OF_STUMPS}": (_stage_wise, (RATES,)),
    "StructBoost, stumps, loss NDCG": (_certified, ((10.0, 30.0, 60.0),)),
}
FILES = {NAME: (RANKING,)}


def learners(source):
    return {name: partial(measured, name, *own) for name, own in GRIDS.items()}
