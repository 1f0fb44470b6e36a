"""Lists of documents: LightGBM's ranking example, with trees and with a hundred stumps."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from benchmarks.runner.datasets import ranking_queries
from benchmarks.runner.records import Record, by, pick
from benchmarks.runner.targets import Target, reach
from benchmarks.runner.units import Unit
from benchmarks.structures.rows import Row, Run, content_of, cpu_seconds, unit
from structboost import StructBoostRanker
from structboost.masters import StageWiseRanking
from structboost.weak import TreeFamily

NAME = "lambdarank"
DATASETS = QUICK_DATASETS = (NAME,)
METRIC = "NDCG@10"
TOP = 10
FOLDS = 3
THEIRS, OURS = "LightGBM", "StructBoost"
TREES, STUMPS, NDCG = "trees", "100 stumps", "stumps, loss NDCG"
N_STUMPS = 100


class Queries(NamedTuple):
    """Documents, their grades, and how many each query has."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray

    def part(self, queries: np.ndarray) -> "Queries":
        rows = np.isin(np.repeat(np.arange(len(self.group)), self.group), queries)
        return Queries(self.X[rows], self.y[rows], self.group[np.sort(queries)])


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    content = content_of(Path(data_dir) / "structures" / "ranking" / "lambdarank.npz")

    def data() -> list[Queries]:
        return [Queries(*part) for part in ranking_queries(data_dir)]

    return [unit(__name__, name, content, data, run, quick) for run in RUNS]


def mean_ndcg(y: np.ndarray, scores: np.ndarray, group: np.ndarray) -> float:
    """Mean over the queries with two grades, gains ``2^y - 1``; ties keep their order."""
    values = []
    ends = np.cumsum(group)
    for begin, end in zip(ends - group, ends, strict=True):
        gains = np.exp2(y[begin:end]) - 1.0
        if len(np.unique(gains)) > 1:
            order = np.argsort(-scores[begin:end], kind="stable")
            discounts = 1.0 / np.log2(np.arange(min(TOP, end - begin)) + 2.0)
            found, best = gains[order][:TOP] @ discounts, np.sort(gains)[::-1][:TOP] @ discounts
            values.append(found / best)
    return float(np.mean(values))


def lightgbm(num_leaves: int, learning_rate: float, n_estimators: int) -> Any:
    import lightgbm as peer

    return peer.LGBMRanker(
        num_leaves=num_leaves, learning_rate=learning_rate, n_estimators=n_estimators,
        random_state=0, n_jobs=1, verbose=-1,
    )  # fmt: skip


def trees(depth: int, shrinkage: float, max_rounds: int) -> StructBoostRanker:
    family = partial(TreeFamily, depth=depth, row_share=0.5, random_state=0)
    return _stage_wise(family, shrinkage, max_rounds)


def stumps(shrinkage: float) -> StructBoostRanker:
    return _stage_wise("stump", shrinkage, N_STUMPS)


def _stage_wise(family: Any, shrinkage: float, max_rounds: int) -> StructBoostRanker:
    return StructBoostRanker(
        objective=StageWiseRanking(shrinkage=shrinkage, largest_step=1.0), weak_learner=family,
        C=float("inf"), max_iter=max_rounds, random_state=0,
    )  # fmt: skip


def certified(C: float) -> StructBoostRanker:
    return StructBoostRanker(objective="hinge", loss="ndcg", C=C, tol=0.02, max_iter=100)


def tuned(
    method: str,
    make: Callable[..., Any],
    candidates: Sequence[tuple[Any, ...]],
    data: Sequence[Queries],
    quick: bool,
) -> list[Row]:
    """The settings of the largest NDCG on folds of the training queries, fitted on all of them."""
    train, test = data
    folds = list(KFold(FOLDS, shuffle=True, random_state=0).split(train.group))

    def value(of_fit: Queries, held: Queries, settings: tuple[Any, ...]) -> float:
        model = make(*settings).fit(of_fit.X, of_fit.y, group=of_fit.group)
        return mean_ndcg(held.y, model.predict(held.X), held.group)

    with threadpool_limits(1):
        trials = [
            np.mean([value(train.part(kept), train.part(held), own) for kept, held in folds])
            for own in (candidates[:1] if quick else candidates)
        ]
        chosen = int(np.argmax(trials))
        facts: dict[str, Any] = {"chosen": candidates[chosen], "validation": trials[chosen]}
        with cpu_seconds(facts):
            model = make(*candidates[chosen]).fit(train.X, train.y, group=train.group)
    return [Row(method, METRIC, mean_ndcg(test.y, model.predict(test.X), test.group), facts)]


def _run(method: str, make: Callable[..., Any], *grid: Sequence[Any], peer: bool = False) -> Run:
    rows = partial(tuned, method, make, list(product(*grid)))
    return Run(method, rows, ("lightgbm",) if peer else ())


RATES = (0.05, 0.1, 0.2, 0.3, 0.5)
RUNS = (
    _run(f"{THEIRS}, {TREES}", lightgbm, (4, 15, 31), (0.05, 0.1), (100, 300), peer=True),
    _run(f"{OURS}, {TREES}", trees, (2, 3, 5), (0.1, 0.3), (100, 300)),
    _run(f"{THEIRS}, {STUMPS}", lightgbm, (2,), RATES, (N_STUMPS,), peer=True),
    _run(f"{OURS}, {STUMPS}", stumps, RATES),
    _run(f"{OURS}, {NDCG}", certified, (10.0, 30.0, 60.0)),
)


def targets(made: Sequence[Record]) -> list[Target]:
    values = {k: own["value"] for k, own in by(pick(made, dataset=NAME), "method").items()}
    targets = []
    for own in (TREES, STUMPS):
        peer = values.get(f"{THEIRS}, {own}")
        wanted = f"ranking, {own}: NDCG@10 not below LightGBM's" + (f", {peer:.3f}" if peer else "")
        targets.append(
            reach(wanted, values.get(f"{OURS}, {own}") if peer else None, ">=", peer or 0.0)
        )
    return targets
