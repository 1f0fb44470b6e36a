"""Each search for the best output, against the obvious Python: same problems, equal values."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import LinearConstraint, linear_sum_assignment, milp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

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


def viterbi(emissions, pairs):
    """Score of the best tags: array expressions over the tags, a loop over the tokens."""
    best, back = emissions[0], []
    for own in emissions[1:]:
        extended = best[:, None] + pairs
        back.append(extended.argmax(axis=0))
        best = extended.max(axis=0) + own
    tags = [int(best.argmax())]
    for pointers in reversed(back):
        tags.append(int(pointers[tags[-1]]))
    return float(best.max())


def segments(tokens, begins, spans, pairs):
    """Score of the best cut into labelled segments, in the same manner."""
    n, n_labels = tokens.shape
    inside = np.concatenate((np.zeros((1, n_labels)), tokens.cumsum(axis=0)))
    entered = np.zeros((n + 1, n_labels))
    best = np.zeros(n_labels)
    for end in range(1, n + 1):
        start = np.arange(end - 1, max(-1, end - len(spans) - 1), -1)
        values = entered[start] + inside[end] - inside[start] + begins[start] + spans[: len(start)]
        best = values.max(axis=0)
        entered[end] = (best[:, None] + pairs).max(axis=0)
    return float(best.max())


def spanning_tree(scores):
    """Score of the best arborescence with root 0, by networkx."""
    import networkx

    n = len(scores)
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from(
        (head, node, scores[head, node])
        for head in range(n)
        for node in range(1, n)
        if head != node
    )
    found = networkx.maximum_spanning_arborescence(graph)
    return float(sum(scores[arc] for arc in found.edges))


def matching(scores):
    """Score of the best matching of all, by scipy."""
    return float(scores[linear_sum_assignment(scores, maximize=True)].sum())


def closed_set(scores, parents):
    """Score of the best set of labels that is closed upwards in a tree, by a loop over labels."""
    total = scores.copy()
    for label in range(len(scores) - 1, -1, -1):
        if parents[label] >= 0 and total[label] > 0:
            total[parents[label]] += total[label]
    return float(np.maximum(total[parents < 0], 0.0).sum())


def grid_path(costs, arcs, n_nodes):
    """Cost of the cheapest path, by scipy's Dijkstra."""
    graph = csr_array((costs, arcs.T), (n_nodes, n_nodes))
    return float(dijkstra(graph, indices=0)[-1])


def knapsack(values, weights, capacity):
    """Value of the best filling, by HiGHS."""
    found = milp(
        -values,
        integrality=np.ones(len(values)),
        bounds=(0, 1),
        constraints=LinearConstraint(weights[None], ub=capacity),
    )
    return float(-found.fun)


def minimum_cut(unaries, edges, weights):
    """Score of the best labels 0 and 1 where equal neighbours gain a weight, by networkx."""
    import networkx

    graph = networkx.DiGraph()
    gain = unaries[:, 1] - unaries[:, 0]
    for node, own in enumerate(gain):
        graph.add_edge("s", node, capacity=max(0.0, own))
        graph.add_edge(node, "t", capacity=max(0.0, -own))
    for (a, b), weight in zip(edges, weights, strict=True):
        graph.add_edge(int(a), int(b), capacity=float(weight))
        graph.add_edge(int(b), int(a), capacity=float(weight))
    all_won = unaries[:, 0].sum() + np.maximum(gain, 0.0).sum() + np.sum(weights)
    return float(all_won - networkx.minimum_cut_value(graph, "s", "t"))


REPEATS = 5


class Search(NamedTuple):
    """Problems of one kind, and the value of the best output of each, in two ways."""

    peer: str
    n_problems: int
    ours: object  # gives outputs
    value_of: object  # of outputs, an array
    theirs: object  # gives values


def of_task(peer, task, x, n, theirs):
    """The batch search of a task on ``n`` problems; a peer takes the scores of one of them."""
    X = [x] * n
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


def _paths():
    problem = GridPath(8, 8)
    arcs = np.asarray(problem.arcs)
    costs = np.random.default_rng(0).uniform(0.1, 1, size=(500, len(arcs)))
    return of_problem("scipy", problem, costs, lambda own: grid_path(own, arcs, 64))


def _knapsacks():
    rng = np.random.default_rng(0)
    weights = rng.integers(3, 9, size=32)
    values = rng.uniform(0, 10, size=(50, 32))
    problem = Knapsack(weights, 60)
    return of_problem("HiGHS", problem, values, lambda own: knapsack(own, weights, 60))


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
        *("numpy", ChainTask(26), np.zeros((20, 1)), 200),
        lambda own: viterbi(own["token"], own["step"].reshape(26, 26)),
    ),
    "segments, 40 tokens, 8 labels, up to 8 tokens": (
        *("numpy", SegmentTask(8, 8), np.zeros((40, 1)), 200),
        lambda own: segments(
            *(own[kind] for kind in ("token", "begin", "span")), own["pair"].reshape(8, 8)
        ),
    ),
    "spanning tree, 25 nodes": (
        *("networkx", SpanningTreeTask(), np.zeros((25, 25, 1)), 50),
        lambda own: spanning_tree(next(iter(own.values())).reshape(25, 25)),
    ),
    "matching, 30 and 30": (
        *("scipy", MatchingTask(), np.zeros((30, 30, 1)), 200),
        lambda own: matching(next(iter(own.values())).reshape(30, 30)),
    ),
    "closed set, tree of 400 labels": (
        *("a loop", HierarchicalMultiLabelTask(400, TREE), np.zeros(1), 500),
        lambda own: closed_set(own["x"][0], PARENTS),
    ),
    "two labels, grid of 24 by 24": (
        *("networkx", GraphTask(2, pairs="equal"), GRAPH, 3),
        lambda own: minimum_cut(own["node"], EDGES, own["edge"][:, 0]),
    ),
}
SEARCHES = {name: partial(of_task, *own) for name, own in TASKS.items()}
SEARCHES |= {"path, grid of 8 by 8": _paths, "knapsack, 32 items": _knapsacks}


def race(source, make):
    """Least CPU seconds for a problem of each, in turns; their outputs are equally good."""
    search = make()
    values = search.value_of(search.ours())
    np.testing.assert_allclose(values, search.theirs(), rtol=1e-9, atol=1e-9)
    both = (search.ours, search.theirs)
    seconds = [[cpu_timed(f)[1] for f in both] for _ in range(REPEATS)]
    ours, theirs = 1e6 * np.min(seconds, axis=0) / search.n_problems
    about = {"method": search.peer, "ours": ours, "theirs": theirs}
    return {"rows": [{**about, "value": theirs / ours}]}


EXPERIMENTS = [
    Experiment(
        *(dict.fromkeys(SEARCHES, ()), lambda source: {"all": SEARCHES[source.name]}, race),
        metrics={"times as fast": "value"},
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
