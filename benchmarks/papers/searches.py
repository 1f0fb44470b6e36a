"""Each search for the best output, against the obvious Python: same problems, equal values."""

from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.peers import searches as peers
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import field, listing
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.targets import all_of
from structboost import (
    ChainTask,
    GraphTask,
    HierarchicalMultiLabelTask,
    MatchingTask,
    SegmentTask,
    SpanningTreeTask,
)
from structboost.contract import StackedParts
from structboost.decisions import GridPath, Knapsack
from structboost.tasks import GraphInput

REPEATS = 5
# All of them are times; that both outputs are equally good is checked when they are measured.
NOT_COMPARED = frozenset({"ours", "theirs", "value"})


class Search(NamedTuple):
    """Problems of one kind, and the value of the best output of each, in two ways."""

    peer: str
    n_problems: int
    ours: object  # gives outputs
    value_of: object  # of outputs, an array
    theirs: object  # gives values


def of_task(peer, task, x, sizes, theirs, quick):
    """The batch search of a task on random scores; a peer takes the scores of one problem.

    ``sizes`` are the numbers of problems of a run and of a quick run.
    """
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

    def value_of(outputs):
        return np.array([_score(task, x, y, o) for y, o in zip(outputs, by_kind, strict=True)])

    return Search(
        *(peer, len(X), lambda: task.argmax_batch(X, scores), value_of),
        lambda: [theirs(of_one) for of_one in by_kind],
    )


def _score(task, x, y, scores):
    """Score of an output by its joint feature."""
    feature = task.joint_feature(x, y)
    of_kinds = feature if isinstance(feature, dict) else {next(iter(scores)): feature}
    total = 0.0
    for kind, measure in of_kinds.items():
        is_sparse = isinstance(measure, tuple)
        own = scores[kind][measure[0], measure[1]] if is_sparse else scores[kind]
        total += float((own * (measure[2] if is_sparse else measure)).sum())
    return total


def of_problem(peer, problem, costs, theirs):
    """The batch solver of a decision problem, on a row of costs or values for each problem."""
    return Search(
        *(peer, len(costs), lambda: problem.solve_all(costs)),
        lambda decisions: (decisions * costs).sum(axis=1),
        lambda: [theirs(own) for own in costs],
    )


def _paths(quick):
    problem = GridPath(8, 8)
    arcs = np.asarray(problem.arcs)
    costs = np.random.default_rng(0).uniform(0.1, 1, size=(20 if quick else 500, len(arcs)))
    return of_problem("scipy", problem, costs, lambda own: peers.grid_path(own, arcs, 64))


def _knapsacks(quick):
    rng = np.random.default_rng(0)
    weights = rng.integers(3, 9, size=32)
    values = rng.uniform(0, 10, size=(5 if quick else 50, 32))
    problem = Knapsack(weights, 60)
    return of_problem("HiGHS", problem, values, lambda own: peers.knapsack(own, weights, 60))


# Labels in a tree: the parent of each. The edges of the grid favour equal labels.
PARENTS = np.arange(400) // 4 - 1
TREE = [(parent, child) for child, parent in enumerate(PARENTS) if parent >= 0]
NODES = np.arange(24 * 24).reshape(24, 24)
SIDES = ((NODES[:, :-1], NODES[:, 1:]), (NODES[:-1], NODES[1:]))
EDGES = np.concatenate([np.column_stack((a.ravel(), b.ravel())) for a, b in SIDES])
GRAPH = GraphInput(np.zeros((NODES.size, 1)), EDGES)
# Peer, task, input, numbers of problems, and the peer's search.
TASKS = {
    "chain, 20 tokens, 26 tags": (
        *("numpy", ChainTask(26), np.zeros((20, 1)), (200, 20)),
        lambda own: peers.viterbi(own["token"], own["step"].reshape(26, 26)),
    ),
    "segments, 40 tokens, 8 labels, up to 8 tokens": (
        *("numpy", SegmentTask(8, 8), np.zeros((40, 1)), (200, 20)),
        lambda own: peers.segments(
            *(own[kind] for kind in ("token", "begin", "span")), own["pair"].reshape(8, 8)
        ),
    ),
    "spanning tree, 25 nodes": (
        *("networkx", SpanningTreeTask(), np.zeros((25, 25, 1)), (50, 5)),
        lambda own: peers.spanning_tree(next(iter(own.values())).reshape(25, 25)),
    ),
    "matching, 30 and 30": (
        *("scipy", MatchingTask(), np.zeros((30, 30, 1)), (200, 20)),
        lambda own: peers.matching(next(iter(own.values())).reshape(30, 30)),
    ),
    "closed set, tree of 400 labels": (
        *("a loop", HierarchicalMultiLabelTask(400, TREE), np.zeros(1), (500, 20)),
        lambda own: peers.closed_set(own["x"][0], PARENTS),
    ),
    "two labels, grid of 24 by 24": (
        *("networkx", GraphTask(2, pairs="equal"), GRAPH, (3, 3)),
        lambda own: peers.minimum_cut(own["node"], EDGES, own["edge"][:, 0]),
    ),
}
SEARCHES = {name: partial(of_task, *own) for name, own in TASKS.items()}
SEARCHES |= {"path, grid of 8 by 8": _paths, "knapsack, 32 items": _knapsacks}


def race(source, make):
    """Least CPU seconds for a problem of each, in turns; their outputs are equally good."""
    search = make(source.quick)
    values = search.value_of(search.ours())
    np.testing.assert_allclose(values, search.theirs(), rtol=1e-9, atol=1e-9)
    both = (search.ours, search.theirs)
    seconds = [[cpu_timed(f)[1] for f in both] for _ in range(1 if source.quick else REPEATS)]
    ours, theirs = 1e6 * np.min(seconds, axis=0) / search.n_problems
    about = {"method": search.peer, "ours": ours, "theirs": theirs}
    return {"rows": [{**about, "value": theirs / ours}]}


EXPERIMENTS = [
    Experiment(
        *(dict.fromkeys(SEARCHES, ()), lambda source: {"all": SEARCHES[source.name]}, race),
        metrics={"times as fast": "value"},
        small=tuple(SEARCHES)[:1],
        code=(peers.__name__,),
    )
]


def show(made):
    return listing(
        made,
        field("search", "dataset"),
        field("ours, us", "ours", "{:.1f}"),
        field("peer", "method"),
        field("its us", "theirs", "{:.1f}"),
        field("times as fast", "value", "{:.1f}"),
    )


def targets(made):
    faster = [(r["dataset"], r["value"] > 1.0) for r in made if r["method"] != "scipy"]
    return [all_of("faster than numpy, a loop, networkx and HiGHS", faster, 6)]
