"""Each search for the best output, against the obvious Python: same problems, same answers."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.peers import searches as peers
from benchmarks.runner import tables
from benchmarks.runner.records import Record, record
from benchmarks.runner.sources import code_version
from benchmarks.runner.tables import field
from benchmarks.runner.targets import Target, all_of
from benchmarks.runner.units import Finished, Result, Unit
from structboost import (
    ChainTask,
    GraphInput,
    GraphTask,
    GridPath,
    HierarchicalMultiLabelTask,
    Knapsack,
    MatchingTask,
    SegmentTask,
    SpanningTreeTask,
    StackedParts,
    Task,
)

REPEATS, QUICK_REPEATS = 5, 1
# All of them are times; that both answers are equally good is checked when they are measured.
NOT_COMPARED = frozenset({"ours", "theirs", "value"})


class Search(NamedTuple):
    """Problems of one kind, and the value of the best answer of each, found in two ways."""

    peer: str
    n_problems: int
    ours: Callable[[], Any]
    value_of: Callable[[Any], np.ndarray]
    theirs: Callable[[], Sequence[float]]


def of_task(
    peer: str, task: Task, X: Sequence[Any], theirs: Callable[[dict[str, np.ndarray]], float]
) -> Search:
    """The batch search of a task on random scores; a peer takes the scores of one problem."""
    rng = np.random.default_rng(0)
    stack = task.stack(X)
    rows = {
        kind: rng.normal(size=(len(of_kind), task.kinds[kind].n_channels))
        for kind, of_kind in stack.rows.items()
    }
    for kind, part in task.kinds.items():
        if part.response == (0.0, 1.0):
            rows[kind] = np.abs(rows[kind])
    scores = StackedParts(rows, stack.offsets)
    own = [scores.example(i) for i in range(len(X))]
    by_kind = [of_one if isinstance(of_one, dict) else {"x": of_one} for of_one in own]

    def value_of(outputs: Sequence[Any]) -> np.ndarray:
        return np.array(
            [_score(task, x, y, of_one) for x, y, of_one in zip(X, outputs, own, strict=True)]
        )

    return Search(
        peer,
        len(X),
        lambda: task.argmax_batch(X, scores),
        value_of,
        lambda: [theirs(of_one) for of_one in by_kind],
    )


def _score(task: Task, x: Any, y: Any, scores: Any) -> float:
    """Score of an output by its joint feature."""
    feature = task.joint_feature(x, y)
    pairs = (
        [(feature[kind], scores[kind]) for kind in feature]
        if isinstance(feature, dict)
        else [(feature, scores)]
    )
    return float(
        sum(
            (own[measure[0], measure[1]] * measure[2]).sum()
            if isinstance(measure, tuple)
            else (own * measure).sum()
            for measure, own in pairs
        )
    )


def chains(quick: bool) -> Search:
    n_tags, n = 26, 20 if quick else 200
    X = [np.zeros((20, 1))] * n
    return of_task(
        "numpy",
        ChainTask(n_tags),
        X,
        lambda own: peers.viterbi(own["token"], own["step"].reshape(n_tags, n_tags)),
    )


def segments(quick: bool) -> Search:
    n_labels, n = 8, 20 if quick else 200
    return of_task(
        "numpy",
        SegmentTask(n_labels, 8),
        [np.zeros((40, 1))] * n,
        lambda own: peers.segments(
            own["token"], own["begin"], own["span"], own["pair"].reshape(n_labels, n_labels)
        ),
    )


def trees(quick: bool) -> Search:
    n = 25
    return of_task(
        "networkx",
        SpanningTreeTask(),
        [np.zeros((n, n, 1))] * (5 if quick else 50),
        lambda own: peers.spanning_tree(next(iter(own.values())).reshape(n, n)),
    )


def matchings(quick: bool) -> Search:
    n = 30
    return of_task(
        "scipy",
        MatchingTask(),
        [np.zeros((n, n, 1))] * (20 if quick else 200),
        lambda own: peers.matching(next(iter(own.values())).reshape(n, n)),
    )


def hierarchies(quick: bool) -> Search:
    n_labels = 400
    parents = np.arange(n_labels) // 4 - 1
    edges = [(parent, label) for label, parent in enumerate(parents) if parent >= 0]
    return of_task(
        "a loop",
        HierarchicalMultiLabelTask(n_labels, edges),
        [np.zeros(1)] * (20 if quick else 500),
        lambda own: peers.closed_set(own["x"][0], parents),
    )


def grids(quick: bool) -> Search:
    """Two labels whose edges favour equal labels."""
    side = 8 if quick else 24
    number = np.arange(side * side).reshape(side, side)
    edges = np.concatenate(
        (
            np.column_stack((number[:, :-1].ravel(), number[:, 1:].ravel())),
            np.column_stack((number[:-1].ravel(), number[1:].ravel())),
        )
    )
    x = GraphInput(np.zeros((side * side, 1)), edges)

    return of_task(
        "networkx",
        GraphTask(2, pairs="equal"),
        [x] * 3,
        lambda own: peers.minimum_cut(own["node"], edges, own["edge"][:, 0]),
    )


def paths(quick: bool) -> Search:
    problem = GridPath(8, 8)
    arcs = np.asarray(problem.arcs)
    costs = np.random.default_rng(0).uniform(0.1, 1, size=(20 if quick else 500, len(arcs)))
    return Search(
        "scipy",
        len(costs),
        lambda: problem.solve_all(costs),
        lambda found: (found * costs).sum(axis=1),
        lambda: [peers.grid_path(own, arcs, 64) for own in costs],
    )


def knapsacks(quick: bool) -> Search:
    rng = np.random.default_rng(0)
    weights = rng.integers(3, 9, size=32)
    values = rng.uniform(0, 10, size=(5 if quick else 50, 32))
    problem = Knapsack(weights, 60)
    return Search(
        "HiGHS",
        len(values),
        lambda: problem.solve_all(values),
        lambda found: (found * values).sum(axis=1),
        lambda: [peers.knapsack(own, weights, 60) for own in values],
    )


SEARCHES: dict[str, Callable[[bool], Search]] = {
    "chain, 20 tokens, 26 tags": chains,
    "segments, 40 tokens, 8 labels, up to 8 tokens": segments,
    "spanning tree, 25 nodes": trees,
    "matching, 30 and 30": matchings,
    "closed set, tree of 400 labels": hierarchies,
    "two labels, grid of 24 by 24": grids,
    "path, grid of 8 by 8": paths,
    "knapsack, 32 items": knapsacks,
}
DATASETS = tuple(SEARCHES)
QUICK_DATASETS = ("chain, 20 tokens, 26 tags",)


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    run = partial(race, SEARCHES[name], quick)
    code = code_version([__name__, peers.__name__])
    return [Unit("searches", name, "all", {"quick": quick}, code, run, None, True)]


def race(make: Callable[[bool], Search], quick: bool) -> Result:
    """Least CPU seconds for a problem of each, in turns; their answers are equally good."""
    search = make(quick)
    values = search.value_of(search.ours())
    np.testing.assert_allclose(values, search.theirs(), rtol=1e-9, atol=1e-9)
    with threadpool_limits(1):
        seconds = [
            [_cpu(run) for run in (search.ours, search.theirs)]
            for _ in range(QUICK_REPEATS if quick else REPEATS)
        ]
    ours, theirs = np.min(seconds, axis=0) / search.n_problems
    return {"ours": ours, "theirs": theirs, "peer": search.peer, "value": theirs / ours}


def _cpu(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def records(name: str, finished: Finished) -> list[Record]:
    return [
        record(
            name, result["peer"], "times as fast", result["value"],
            ours=1e6 * result["ours"], theirs=1e6 * result["theirs"],
        )
        for _, result in finished
    ]  # fmt: skip


COLUMNS = [
    field("search", "dataset"),
    field("ours, us", "ours", "{:.1f}"),
    field("peer", "method"),
    field("its us", "theirs", "{:.1f}"),
    field("times as fast", "value", "{:.1f}"),
]


def show(made: Sequence[Record]) -> str:
    return tables.table(made, COLUMNS)


def targets(made: Sequence[Record]) -> list[Target]:
    faster = [(r["dataset"], r["value"] > 1.0) for r in made if r["method"] != "scipy"]
    return [all_of("faster than numpy, a loop, networkx and HiGHS", faster, 6)]
