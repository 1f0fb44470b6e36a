"""Lists of documents: LightGBM's ranking example, with trees and with a hundred stumps."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from benchmarks.runner.datasets import RANKING, ranking_queries
from benchmarks.runner.experiment import Experiment, Learner, Source
from benchmarks.runner.records import Record, lookup
from benchmarks.runner.targets import Target, reach
from benchmarks.structures.rows import Row, cpu_seconds, rows_of
from structboost import StageWiseRanking, StructBoostRanker, TreeFamily

NAME, METRIC, TOP = "lambdarank", "NDCG@10", 10
FOLDS, N_STUMPS = 3, 100


class Queries(NamedTuple):
    """Documents, their grades, and how many each query has."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray

    def part(self, queries: np.ndarray) -> "Queries":
        rows = np.isin(np.repeat(np.arange(len(self.group)), self.group), queries)
        return Queries(self.X[rows], self.y[rows], self.group[np.sort(queries)])


def mean_ndcg(y: np.ndarray, scores: np.ndarray, group: np.ndarray) -> float:
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


def _lightgbm(num_leaves: int, learning_rate: float, n_estimators: int) -> Any:
    import lightgbm

    fixed = {"random_state": 0, "n_jobs": 1, "verbose": -1}
    shape = {"num_leaves": num_leaves, "n_estimators": n_estimators}
    return lightgbm.LGBMRanker(learning_rate=learning_rate, **shape, **fixed)


def _trees(depth: int, shrinkage: float, max_rounds: int) -> StructBoostRanker:
    family = partial(TreeFamily, depth=depth, row_share=0.5, random_state=0)
    return _stage_wise(shrinkage, family, max_rounds)


def _stage_wise(
    shrinkage: float, family: Any = "stump", max_rounds: int = N_STUMPS
) -> StructBoostRanker:
    objective = StageWiseRanking(shrinkage=shrinkage, largest_step=1.0)
    own = {"weak_learner": family, "C": float("inf"), "max_iter": max_rounds}
    return StructBoostRanker(objective=objective, **own, random_state=0)


def _certified(C: float) -> StructBoostRanker:
    return StructBoostRanker(objective="hinge", loss="ndcg", C=C, tol=0.02, max_iter=100)


def tuned(
    method: str, make: Callable[..., Any], grid: Sequence[Sequence[Any]], source: Source
) -> list[Row]:
    """The settings of the largest NDCG on folds of the training queries, fitted on all of them."""
    train, test = (Queries(*part) for part in ranking_queries(source.folder))
    folds = list(KFold(FOLDS, shuffle=True, random_state=0).split(train.group))
    candidates = list(product(*grid))[: 1 if source.quick else None]

    def value(of_fit: Queries, held: Queries, settings: tuple[Any, ...]) -> float:
        model = make(*settings).fit(of_fit.X, of_fit.y, group=of_fit.group)
        return mean_ndcg(held.y, model.predict(held.X), held.group)

    with threadpool_limits(1):
        trials = [
            np.mean([value(train.part(rest), train.part(out), own) for rest, out in folds])
            for own in candidates
        ]
        chosen = int(np.argmax(trials))
        facts: dict[str, Any] = {"chosen": candidates[chosen], "validation": trials[chosen]}
        with cpu_seconds(facts):
            model = make(*candidates[chosen]).fit(train.X, train.y, group=train.group)
    return [Row(method, METRIC, mean_ndcg(test.y, model.predict(test.X), test.group), facts)]


RATES = (0.05, 0.1, 0.2, 0.3, 0.5)
OF_TREES, OF_STUMPS = "trees", f"{N_STUMPS} stumps"
GRIDS = {
    f"LightGBM, {OF_TREES}": (_lightgbm, ((4, 15, 31), (0.05, 0.1), (100, 300))),
    f"StructBoost, {OF_TREES}": (_trees, ((2, 3, 5), (0.1, 0.3), (100, 300))),
    f"LightGBM, {OF_STUMPS}": (_lightgbm, ((2,), RATES, (N_STUMPS,))),
    f"StructBoost, {OF_STUMPS}": (_stage_wise, (RATES,)),
    "StructBoost, stumps, loss NDCG": (_certified, ((10.0, 30.0, 60.0),)),
}
LEARNERS = {
    name: Learner(partial(tuned, name, *own), ("lightgbm",) if "LightGBM" in name else ())
    for name, own in GRIDS.items()
}
EXPERIMENT = Experiment({NAME: (RANKING,)}, LEARNERS, rows_of, small=(NAME,))


def targets(made: Sequence[Record]) -> list[Target]:
    at = lookup(made, "dataset", "method")
    judged = []
    for kind in (OF_TREES, OF_STUMPS):
        peer = at(NAME, f"LightGBM, {kind}")
        wanted = f"ranking, {kind}: NDCG@10 not below LightGBM's" + (
            f", {peer:.3f}" if peer else ""
        )
        judged.append(reach(wanted, at(NAME, f"StructBoost, {kind}"), ">=", peer))
    return judged
