"""Prediction by stumps and trees on usps, row by row and in batches."""

from functools import partial

import numpy as np

from benchmarks.runner.datasets import load, split, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.protocol import cpu_timed
from structboost import MultiBoostCWClassifier
from structboost.learners import TreeFamily

RUNS, ROWS_A_RUN = 7, 2_000


def race(source, learner, *, depth, rounds, batches):
    """Microseconds of CPU per row by size of batch, the least of some runs; binning included."""
    data, rows = load("usps", source.folder), []
    X = np.ascontiguousarray(np.resize(data.X, (max(batches), data.X.shape[1])))
    scores, n_trees = learner(data.part(split(data.y, 0).train), depth, rounds)
    for batch in batches:
        n = max(batch, min(ROWS_A_RUN, 100 * batch))
        pieces = np.array_split(X[:n], n // batch)
        runs = [cpu_timed(lambda own=pieces: [scores(x) for x in own])[1] for _ in range(RUNS)]
        rows.append({"batch": batch, "value": 1e6 * min(runs) / n})
    return {"rows": rows, "trees": n_trees}


# Each fit returns a function from a table to raw scores, and the number of trees.


def _ours(train, depth, rounds):
    trees = "stump" if depth == 1 else partial(TreeFamily, depth=depth)
    settings = {"C": float("inf"), "tau_max": 1, "tol": 0.0, "weak_learner": trees}
    model = MultiBoostCWClassifier(max_rounds=rounds, **settings, random_state=0).fit(*train).model_
    return model.scores, model.n_learners


def _lightgbm(train, depth, rounds):
    import lightgbm

    shape = {"num_leaves": 2**depth, "max_depth": depth}
    problem = {"objective": "multiclass", "num_class": train.n_classes}
    settings = {**problem, **shape, "num_threads": 1, "verbose": -1, "seed": 0}
    table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
    booster = lightgbm.train(settings, table, rounds)
    return partial(booster.predict, raw_score=True, num_threads=1), booster.num_trees()


CONTESTANTS = {"structboost": _ours, "lightgbm": _lightgbm}
LARGE = 10_000


def race_cases(source, learner):
    """Stumps in one large batch, and both kinds of trees in some sizes of batches."""
    few = {"rounds": 100, "batches": [1, 100, LARGE]}
    stumps = {"depth": 1, "rounds": 500, "batches": [LARGE]}
    return [{"depth": depth, **few} for depth in (1, 3)] + [stumps]


EXPERIMENTS = [
    Experiment(
        *(tabular("usps"), CONTESTANTS, race, race_cases),
        metrics={"predict_us": "value"},
        by=("depth", "rounds", "batch"),
    )
]
