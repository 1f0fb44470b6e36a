"""All defaults, no parameter given, beside LightGBM's: errors, NDCG@10, CPU of the fit."""

from functools import partial

import numpy as np

from benchmarks.papers import multiclass
from benchmarks.peers import boosters
from benchmarks.peers.boosters import LIGHTGBM, OURS, peer
from benchmarks.runner.datasets import BUNDLED, RANKING, halves, load, ranking_queries, tabular
from benchmarks.runner.experiment import Experiment, Learner
from benchmarks.runner.pages import across, blocks
from benchmarks.runner.protocol import FEW_ROWS, MANY_REPEATS, REPEATS, cpu_timed, made_classes
from benchmarks.runner.records import less, lookup, pick
from benchmarks.runner.targets import all_of, each, reach
from benchmarks.structures.lists import mean_ndcg
from structboost import StructBoostRanker

TUNED_ON, LISTS, THEIRS = multiclass.NAMES, "lambdarank", "lightgbm"
# Sets that take minutes are split once.
ONCE = ("usps", "mnist")


def cases(source, learner):
    many = MANY_REPEATS if len(load(source.name, source.folder).y) < FEW_ROWS else REPEATS
    return [{"repeat": k} for k in range(1 if source.quick or source.name in ONCE else many)]


def classes(source, learner, *, repeat):
    train, test = halves(load(source.name, source.folder), repeat)
    model, cpu = boosters.timed_fit(learner, *train)
    error = float(np.mean(model.predict(test.X) != test.y))
    return {"value": error, "cpu": cpu, "rows": len(train.y)}


def rankings(source, learner):
    """Mean NDCG@10 of the test queries and CPU of the fit."""
    (X, y, group), (test_X, test_y, test_group) = ranking_queries(source.folder)
    learner.fit().fit(*made_classes(), group=[60])
    model, cpu = cpu_timed(learner.fit().fit, X, y, group=group)
    value = mean_ndcg(test_y, model.predict(test_X), test_group)
    return {"value": value, "cpu": cpu, "rows": len(y)}


BOTH = {OURS: boosters.MAKERS[OURS], THEIRS: LIGHTGBM}
RANKER = partial(peer, "lightgbm", "LGBMRanker", n_jobs=1, verbose=-1)
RANKERS = {OURS: Learner(StructBoostRanker), THEIRS: Learner(RANKER, ("lightgbm",))}
SETS = tabular(*TUNED_ON, *BUNDLED)
EXPERIMENTS = [
    Experiment(SETS, BOTH, classes, cases, small=("glass", "iris")),
    Experiment({LISTS: (RANKING,)}, RANKERS, rankings, metrics={"ndcg": "value"}),
]


def show(made):
    errors, lists = pick(made, metric="error"), pick(made, metric="ndcg")
    return blocks(
        across("Test error", errors, form="{:.1%}"),
        across("CPU seconds of the fit", errors, "cpu", "{:.2f}"),
        across("NDCG@10", lists, form="{:.1%}"),
        across("CPU seconds", lists, "cpu", "{:.2f}"),
    )


def targets(made):
    at = lookup(made, "dataset", "method")

    def holds(wanted, names, factor, slack=0.0, least=None, name="value"):
        near = each(at, names, lambda a, b: a <= factor * b + slack, OURS, THEIRS, name=name)
        return all_of(wanted, near, len(names), least)

    near = "error at most 1 point above LightGBM's"
    bundled = tuple(BUNDLED)
    return [
        holds(near, TUNED_ON, 1, 0.01, 8),
        holds("error at most 1.5 times LightGBM's", TUNED_ON, 1.5),
        holds(f"{near}, sets of scikit-learn", bundled, 1, 0.01),
        holds("at most 1.5 times, sets of scikit-learn", bundled, 1.5),
        holds("CPU of the fit at most 3 times LightGBM's", TUNED_ON, 3, name="cpu"),
        reach("NDCG@10 less LightGBM's", less(at(LISTS, OURS), at(LISTS, THEIRS)), ">=", 0.0),
    ]
