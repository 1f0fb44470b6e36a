"""Each search for the best output, against the obvious Python: same problems, same answers."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.peers import searches as peers
from benchmarks.runner import tables
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import Record, record
from benchmarks.runner.sources import code_version
from benchmarks.runner.tables import field
from benchmarks.runner.targets import Target, all_of
from benchmarks.runner.units import Finished, Result, Unit
from structboost import (
    ChainTask,
    GraphTask,
    HierarchicalMultiLabelTask,
    MatchingTask,
    SegmentTask,
    SpanningTreeTask,
    Task,
)
from structboost.contract import StackedParts
from structboost.decisions import GridPath, Knapsack
from structboost.tasks import GraphInput

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
    peer: str,
    task: Task,
    x: Any,
    sizes: tuple[int, int],  # numbers of problems, the second one in a quick run
    theirs: Callable[[dict[str, np.ndarray]], float],
    quick: bool,
) -> Search:
    """The batch search of a task on random scores; a peer takes the scores of one problem."""
    X = [x] * sizes[quick]
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
    by_kind = [one if isinstance(one, dict) else {next(iter(rows)): one} for one in own]

    def value_of(outputs: Sequence[Any]) -> np.ndarray:
        return np.array([_score(task, x, y, o) for y, o in zip(outputs, by_kind, strict=True)])

    return Search(
        *(peer, len(X), lambda: task.argmax_batch(X, scores), value_of),
        lambda: [theirs(of_one) for of_one in by_kind],
    )


def _score(task: Task, x: Any, y: Any, scores: dict[str, np.ndarray]) -> float:
    """Score of an output by its joint feature."""
    feature = task.joint_feature(x, y)
    of_kinds = feature if isinstance(feature, dict) else {next(iter(scores)): feature}
    total = 0.0
    for kind, measure in of_kinds.items():
        is_sparse = isinstance(measure, tuple)
        own = scores[kind][measure[0], measure[1]] if is_sparse else scores[kind]
        total += float((own * (measure[2] if is_sparse else measure)).sum())
    return total


def of_problem(
    peer: str, problem: Any, costs: np.ndarray, theirs: Callable[[np.ndarray], float]
) -> Search:
    """The batch solver of a decision problem, on a row of costs or values for each problem."""
    return Search(
        *(peer, len(costs), lambda: problem.solve_all(costs)),
        lambda found: (found * costs).sum(axis=1),
        lambda: [theirs(own) for own in costs],
    )


def paths(quick: bool) -> Search:
    problem = GridPath(8, 8)
    arcs = np.asarray(problem.arcs)
    costs = np.random.default_rng(0).uniform(0.1, 1, size=(20 if quick else 500, len(arcs)))
    return of_problem("scipy", problem, costs, lambda own: peers.grid_path(own, arcs, 64))


def knapsacks(quick: bool) -> Search:
    rng = np.random.default_rng(0)
    weights = rng.integers(3, 9, size=32)
    values = rng.uniform(0, 10, size=(5 if quick else 50, 32))
    problem = Knapsack(weights, 60)
    return of_problem("HiGHS", problem, values, lambda own: peers.knapsack(own, weights, 60))


def square(scores: dict[str, np.ndarray], n: int) -> np.ndarray:
    """The scores of the only kind as a matrix."""
    return next(iter(scores.values())).reshape(n, n)


# Labels in a tree: the parent of each.
PARENTS = np.arange(400) // 4 - 1
NODES = np.arange(24 * 24).reshape(24, 24)
# The edges of the grid favour equal labels.
EDGES = np.concatenate(
    [
        np.column_stack((one.ravel(), other.ravel()))
        for one, other in ((NODES[:, :-1], NODES[:, 1:]), (NODES[:-1], NODES[1:]))
    ]
)
SEARCHES: dict[str, Callable[[bool], Search]] = {
    "chain, 20 tokens, 26 tags": partial(
        *(of_task, "numpy", ChainTask(26), np.zeros((20, 1)), (200, 20)),
        lambda own: peers.viterbi(own["token"], own["step"].reshape(26, 26)),
    ),
    "segments, 40 tokens, 8 labels, up to 8 tokens": partial(
        *(of_task, "numpy", SegmentTask(8, 8), np.zeros((40, 1)), (200, 20)),
        lambda own: peers.segments(
            own["token"], own["begin"], own["span"], own["pair"].reshape(8, 8)
        ),
    ),
    "spanning tree, 25 nodes": partial(
        *(of_task, "networkx", SpanningTreeTask(), np.zeros((25, 25, 1)), (50, 5)),
        lambda own: peers.spanning_tree(square(own, 25)),
    ),
    "matching, 30 and 30": partial(
        *(of_task, "scipy", MatchingTask(), np.zeros((30, 30, 1)), (200, 20)),
        lambda own: peers.matching(square(own, 30)),
    ),
    "closed set, tree of 400 labels": partial(
        *(of_task, "a loop"),
        HierarchicalMultiLabelTask(400, [(p, c) for c, p in enumerate(PARENTS) if p >= 0]),
        *(np.zeros(1), (500, 20)),
        lambda own: peers.closed_set(own["x"][0], PARENTS),
    ),
    "two labels, grid of 24 by 24": partial(
        *(of_task, "networkx", GraphTask(2, pairs="equal")),
        *(GraphInput(np.zeros((NODES.size, 1)), EDGES), (3, 3)),
        lambda own: peers.minimum_cut(own["node"], EDGES, own["edge"][:, 0]),
    ),
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
    runs = QUICK_REPEATS if quick else REPEATS
    with threadpool_limits(1):
        seconds = [[cpu_timed(f)[1] for f in (search.ours, search.theirs)] for _ in range(runs)]
    ours, theirs = np.min(seconds, axis=0) / search.n_problems
    return {"ours": ours, "theirs": theirs, "peer": search.peer, "value": theirs / ours}


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
