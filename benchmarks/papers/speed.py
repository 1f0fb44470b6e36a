"""Prediction by stumps and trees on usps, row by row and in batches."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.runner.datasets import Table, load, split, tabular
from benchmarks.runner.experiment import Experiment, Learner
from benchmarks.runner.pages import across, blocks
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import lookup, ratio
from benchmarks.runner.targets import all_of, reach
from structboost import MultiBoostCWClassifier
from structboost.learners import TreeFamily

RUNS, ROWS_A_RUN = 7, 2_000
Scores = Callable[[np.ndarray], Any]


def race(source, learner, *, depth, rounds, batches):
    """Microseconds of CPU per row by size of batch, the least of some runs; binning included."""
    data = load("usps", source.folder)
    rows = split(data.y, 0).train
    X = np.ascontiguousarray(np.resize(data.X, (max(batches), data.X.shape[1])))
    with tempfile.TemporaryDirectory() as folder:
        table = Table(data.X[rows], data.y[rows])
        scores, n_trees, takes = learner.fit(table, depth, rounds, Path(folder))
        sizes = [max(batch, min(ROWS_A_RUN, 100 * batch)) for batch in batches]
        pieces = [
            np.array_split(X[:n].astype(takes), n // batch)
            for n, batch in zip(sizes, batches, strict=True)
        ]
        spent = [
            [cpu_timed(lambda own=own: [scores(x) for x in own])[1] for own in pieces]
            for _ in range(RUNS)
        ]
    paces = [
        {"metric": "predict_us", "batch": batch, "value": 1e6 * seconds / sum(map(len, own))}
        for batch, own, seconds in zip(batches, pieces, np.min(spent, axis=0), strict=True)
    ]
    return {"rows": [{**one, "trees": n_trees} for one in paces]}


# Each fit returns a function from a table to raw scores, the number of trees, and the type of
# numbers that the function takes as they are.


def _ours(train, depth, rounds, folder):
    trees = "stump" if depth == 1 else partial(TreeFamily, depth=depth)
    settings = {"C": float("inf"), "tau_max": 1, "tol": 0.0, "weak_learner": trees}
    model = MultiBoostCWClassifier(max_rounds=rounds, **settings, random_state=0).fit(*train).model_
    return model.scores, model.n_learners, np.float32


def _booster(train, depth, rounds):
    import lightgbm

    shape = {"num_leaves": 2**depth, "max_depth": depth}
    problem = {"objective": "multiclass", "num_class": int(train.y.max()) + 1}
    settings = {**problem, **shape, "num_threads": 1, "verbose": -1, "seed": 0}
    table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
    return lightgbm.train(settings, table, rounds)


def _lightgbm(train, depth, rounds, folder):
    booster = _booster(train, depth, rounds)
    scores = partial(booster.predict, raw_score=True, num_threads=1)
    return scores, booster.num_trees(), np.float32


def _histgb(train, depth, rounds, folder):
    settings = {"max_leaf_nodes": 2**depth, "max_depth": depth, "random_state": 0}
    model = HistGradientBoostingClassifier(max_iter=rounds, early_stopping=False, **settings)
    model.fit(*train)
    return model.decision_function, model.n_trees_per_iteration_ * model.n_iter_, np.float32


def _tl2cgen(train, depth, rounds, folder):
    """LightGBM's trees, compiled by gcc."""
    import tl2cgen
    import treelite

    booster, library = _booster(train, depth, rounds), folder / "trees.so"
    trees = treelite.frontend.from_lightgbm(booster)
    tl2cgen.export_lib(trees, toolchain="gcc", libpath=library, params={"parallel_comp": 2})
    predictor = tl2cgen.Predictor(library, nthread=1)

    def scores(X):
        return predictor.predict(tl2cgen.DMatrix(X), pred_margin=True)

    return scores, booster.num_trees(), np.float64


CONTESTANTS = {
    "structboost": Learner(_ours),
    "lightgbm": Learner(_lightgbm, ("lightgbm",)),
    "histgb": Learner(_histgb, ("sklearn",)),
    "tl2cgen": Learner(_tl2cgen, ("lightgbm", "treelite", "tl2cgen")),
}


OURS, THEIRS, COMPILED = "structboost", "lightgbm", "tl2cgen"
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


def show(made):
    rows = ("depth", "rounds", "batch")
    return blocks(
        across("Prediction, microseconds of CPU per row", made, form="{:.3f}", rows=rows),
        across("Trees", made, "trees", "{:.0f}", rows=rows[:2]),
    )


def targets(made):
    pace = lookup(made, "depth", "rounds", "batch", "method")
    faster = [
        (f"depth {r['depth']}, {r['batch']:,} rows, {r['method']}", own < r["value"])
        for r in made
        if r["method"] in (THEIRS, COMPILED) and r["batch"] > 1 and r["rounds"] == 100
        if (own := pace(r["depth"], r["rounds"], r["batch"], OURS)) is not None
    ]
    times = ratio(*(pace(1, 500, LARGE, method) for method in (THEIRS, OURS)))
    wanted = "stumps and trees predict faster than LightGBM and tl2cgen from 100 rows on"
    return [
        reach("prediction 5 times as fast as LightGBM's", times, ">=", 5.0),
        all_of(wanted, faster, 8),
    ]
