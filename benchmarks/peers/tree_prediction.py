"""The prediction race: LightGBM's own trees, which every contestant holds, on one thread."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.peers import prediction
from benchmarks.runner.datasets import Table
from benchmarks.runner.protocol import cpu_timed
from structboost import PartKind
from structboost.model.ensemble import Ensemble, KindEnsemble
from structboost.weak.tree import TreeTable

CONTESTANTS = ("structboost", "lightgbm", "tl2cgen")
BATCHES, LARGE = (1, 100, 10_000), 100
ROUNDS, DEPTHS = 100, (1, 3)
RUNS, ROWS_A_RUN = 7, 2_000


class Contestant(NamedTuple):
    """A function from a table to raw scores, and the numbers that it takes as they are."""

    scores: Callable[[np.ndarray], np.ndarray]
    takes: type


def race(train: Table, X: np.ndarray) -> dict[str, Any]:
    """Microseconds of CPU per row by depth and size of batch, the least of runs in turn."""
    X = np.ascontiguousarray(np.resize(X, (max(BATCHES), X.shape[1])))
    with threadpool_limits(1):
        return {"found": [one for depth in DEPTHS for one in _of_depth(train, X, depth)]}


def _of_depth(train: Table, X: np.ndarray, depth: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        contestants = contestants_of(train, depth, Path(folder))
        reference = contestants["lightgbm"].scores(X)
        for one in contestants.values():
            found = one.scores(X.astype(one.takes))
            np.testing.assert_allclose(found, reference, rtol=0, atol=1e-5)
        return [{"depth": depth, **_paces(contestants, X, batch)} for batch in BATCHES]


def _paces(contestants: dict[str, Contestant], X: np.ndarray, batch: int) -> dict[str, Any]:
    """The record of a size of batch."""
    n_rows = max(batch, min(ROWS_A_RUN, 100 * batch))
    own = {
        name: [X[i : i + batch].astype(one.takes) for i in range(0, n_rows, batch)]
        for name, one in contestants.items()
    }

    def in_batches(name: str) -> None:
        for one in own[name]:
            contestants[name].scores(one)

    spent = [{name: cpu_timed(in_batches, name)[1] for name in own} for _ in range(RUNS)]
    least = {name: min(run[name] for run in spent) for name in own}
    paces = {name: 1e6 * seconds / n_rows for name, seconds in least.items()}
    about = {"method": "structboost", "metric": "cpu_us", "value": paces["structboost"]}
    return {**about, "batch": batch, **paces}


def contestants_of(train: Table, depth: int, folder: Path) -> dict[str, Contestant]:
    """All three; ``folder`` takes the library that tl2cgen compiles."""
    import lightgbm
    import tl2cgen
    import treelite

    shape = {"num_leaves": 2**depth, "max_depth": depth}
    problem = {"objective": "multiclass", "num_class": int(train.y.max()) + 1}
    settings = {**problem, **shape, "num_threads": 1, "verbose": -1, "seed": 0}
    table = lightgbm.Dataset(train.X, train.y, params={"verbose": -1})
    booster = lightgbm.train(settings, table, ROUNDS)
    library = folder / "trees.so"
    their_model = treelite.frontend.from_lightgbm(booster)
    tl2cgen.export_lib(their_model, toolchain="gcc", libpath=library, params={"parallel_comp": 2})
    predictor = tl2cgen.Predictor(library, nthread=1)

    def compiled(X: np.ndarray) -> np.ndarray:
        found = predictor.predict(tl2cgen.DMatrix(X), pred_margin=True)
        return found.reshape(len(X), -1)

    make = prediction.as_ensemble if depth == 1 else partial(as_ensemble, depth=depth)
    model = make(booster, train.X.shape[1])
    theirs = partial(booster.predict, raw_score=True, num_threads=1)
    return {
        "structboost": Contestant(model.scores, np.float32),
        "lightgbm": Contestant(theirs, np.float32),
        "tl2cgen": Contestant(compiled, np.float64),
    }


def as_ensemble(booster: Any, n_features: int, depth: int) -> Ensemble:
    """A LightGBM model as complete trees."""
    trees = [one["tree_structure"] for one in booster.dump_model()["tree_info"]]
    feature = np.zeros((len(trees), 2**depth - 1), np.int64)
    threshold = np.full(feature.shape, np.inf)
    leaf = np.zeros((len(trees), 2**depth))
    for tree, root in enumerate(trees):
        _fill(root, 0, feature[tree], threshold[tree], leaf[tree])
    numbers, ones = np.arange(len(trees)), np.ones(len(trees))
    n_classes = booster.num_model_per_iteration()
    terms = (numbers, numbers, numbers % n_classes, ones, n_features)
    learners = TreeTable(feature, threshold, leaf)
    kinds = {"x": PartKind(n_channels=n_classes)}
    return Ensemble(kinds, {"x": KindEnsemble("tree", learners, *terms)}, ones, ones[None])


def _fill(
    node: dict[str, Any],
    place: int,
    feature: np.ndarray,
    threshold: np.ndarray,
    leaf: np.ndarray,
) -> None:
    """Put a node of theirs where ours has it; all leaves below a leaf of theirs have its value."""
    if place >= len(feature):
        leaf[place - len(feature)] = node["leaf_value"]
        return
    children = [node, node]
    if "split_feature" in node:
        feature[place], threshold[place] = node["split_feature"], node["threshold"]
        children = [node["left_child"], node["right_child"]]
    for side, child in enumerate(children):
        _fill(child, 2 * place + 1 + side, feature, threshold, leaf)
