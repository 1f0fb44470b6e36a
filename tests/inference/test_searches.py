"""Public searches against all outputs of small problems, and what they refuse."""

from __future__ import annotations

import doctest
import sys
import traceback
from functools import partial
from itertools import pairwise, permutations, product
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

import structboost
from structboost import inference

PACKAGE = Path(structboost.__file__).parent


def eighths(rng, shape, forbidden=0.0):
    """Random multiples of 1/8: sums are exact, and ties occur."""
    scores = (8 * rng.normal(size=shape)).round() / 8
    return np.where(rng.random(shape) < forbidden, -np.inf, scores)


def complete(n):
    """Edges of the complete graph of n nodes."""
    return [(u, v) for v in range(n) for u in range(v)]


def f1(truth, y):
    size = truth.sum() + y.sum()
    return 2 * (truth @ y) / size if size else 1.0


class Chain:
    best, marginals = inference.viterbi, inference.forward_backward

    def __init__(self, rng):
        n, k = rng.integers(1, 5), rng.integers(2, 4)
        steps = (n - 1, k, k) if rng.random() < 0.5 else (k, k)
        self.arguments = eighths(rng, (n, k), 0.1), eighths(rng, steps, 0.1)

    def outputs(self):
        n, k = self.arguments[0].shape
        return [np.array(y) for y in product(range(k), repeat=n) if self.score(y) > -np.inf]

    def indicators(self, y):
        emissions, transitions = (np.zeros(scores.shape) for scores in self.arguments)
        for t, tag in enumerate(y):
            emissions[t, tag] = 1
            if t:
                step = (t - 1,) if transitions.ndim == 3 else ()
                transitions[(*step, y[t - 1], tag)] += 1
        return emissions, transitions

    def score(self, y):
        """Score of an output, the sum of what it indicates."""
        return sum(
            float((ones[ones > 0] * scores[ones > 0]).sum())
            for ones, scores in zip(self.indicators(y), self.scores(), strict=True)
        )

    def scores(self):
        return self.arguments


class Segments(Chain):
    best, marginals = inference.semi_markov_viterbi, None

    def __init__(self, rng):
        n, longest, k = rng.integers(1, 5), rng.integers(1, 4), rng.integers(1, 3)
        self.arguments = eighths(rng, (n, longest, k), 0.1), eighths(rng, (k, k), 0.1)

    def outputs(self, first=0):
        n, longest, k = self.arguments[0].shape
        cuts = [[]] if first == n else []
        for end in range(first + 1, min(first + longest, n) + 1):
            rests = self.outputs(end)
            cuts += [[(first, end, label), *rest] for label in range(k) for rest in rests]
        return cuts if first else [cut for cut in cuts if self.score(cut) > -np.inf]

    def indicators(self, y):
        spans, pairs = (np.zeros(scores.shape) for scores in self.arguments)
        for i, (first, end, label) in enumerate(y):
            spans[first, end - first - 1, label] = 1
            if i:
                pairs[y[i - 1][2], label] += 1
        return spans, pairs


class Forest(Chain):
    best, marginals = inference.map_labels, inference.graph_marginals

    def __init__(self, rng):
        n, k = rng.integers(1, 5), rng.integers(2, 4)
        edges = self.edges(rng, n)
        self.arguments = eighths(rng, (n, k)), edges, eighths(rng, (len(edges), k, k))

    def edges(self, rng, n):
        pairs = [(rng.integers(v), v) for v in range(1, n) if rng.random() < 0.8]
        return rng.permuted(np.array(pairs, np.int64).reshape(-1, 2), axis=1)

    def indicators(self, y):
        nodes, pairs = np.zeros(self.arguments[0].shape), np.zeros(self.arguments[2].shape)
        nodes[np.arange(len(y)), y] = 1
        for e, (p, q) in enumerate(self.arguments[1]):
            pairs[e, y[p], y[q]] = 1
        return nodes, pairs

    def scores(self):
        return self.arguments[::2]

    def of_result(self, result):
        labels, bound = result
        assert bound == self.score(labels)
        return labels


class Graph(Forest):
    best = None

    def edges(self, rng, n):
        return np.array(complete(n) * 2, np.int64).reshape(-1, 2)


class Submodular(Graph):
    """Two labels, of which equal ones score more on every edge."""

    best, marginals = inference.map_labels, None

    def __init__(self, rng):
        n = rng.integers(1, 6)
        edges = self.edges(rng, n)
        tables = eighths(rng, (len(edges), 2, 2))
        tables[:, 0, 0] += np.maximum(0.0, -tables @ [1, -1] @ [1, -1])
        self.arguments = eighths(rng, (n, 2)), edges, tables


class Cut(Forest):
    best, marginals = inference.min_cut_labels, None

    def __init__(self, rng):
        n = rng.integers(1, 6)
        edges = Graph.edges(self, rng, n)
        self.arguments = eighths(rng, (n, 2)), edges, *np.abs(eighths(rng, (2, len(edges))))

    def score(self, y):
        energies, edges, forward, backward = self.arguments
        left, right = np.asarray(y, int)[edges.T]
        cut = forward @ ((1 - left) * right) + backward @ (left * (1 - right))
        return -float(energies[np.arange(len(y)), np.asarray(y, int)].sum() + cut)

    def of_result(self, result):
        return result


class Matching:
    def __init__(self, rng):
        self.unmatched = bool(rng.random() < 0.5)
        self.arguments = (eighths(rng, rng.integers(1, 4, 2), 0.1),)

    def best(self, scores):
        partners = inference.linear_assignment(scores, unmatched=self.unmatched)
        if self.unmatched:
            pairs = np.argwhere(scores > -np.inf)
            same = inference.sparse_assignment(scores[scores > -np.inf], pairs, scores.shape)
            assert self.score(same) == self.score(partners)
        return partners

    def outputs(self):
        n_left, n_right = self.arguments[0].shape
        n_alone = n_left if self.unmatched else max(0, n_left - n_right)
        everything = product(range(-1, n_right), repeat=n_left)
        one_to_one = (y for y in everything if len({*y} - {-1}) == n_left - y.count(-1))
        some = [y for y in one_to_one if y.count(-1) <= n_alone]
        return [y for y in some if self.score(y) > -np.inf]

    def score(self, y):
        return sum(float(self.arguments[0][i, j]) for i, j in enumerate(y) if j >= 0)


class Arborescence:
    best = inference.maximum_spanning_arborescence
    marginals = inference.arborescence_marginals

    def __init__(self, rng):
        size = rng.choice([0.1, 1.0, 200.0])
        self.arguments = (size * eighths(rng, (rng.integers(1, 6),) * 2, 0.3),)

    def outputs(self):
        n = len(self.arguments[0])

        def leads_to_root(y, node):
            return node == 0 or any((node := y[node]) == 0 for _ in range(n))

        trees = ((-1, *heads) for heads in product(range(n), repeat=n - 1))
        trees = [y for y in trees if all(leads_to_root(y, node) for node in range(n))]
        return [y for y in trees if self.score(y) > -np.inf]

    def score(self, y):
        return sum(float(self.arguments[0][y[d], d]) for d in range(1, len(y)))

    def indicators(self, y):
        arcs = np.zeros(self.arguments[0].shape)
        arcs[list(y[1:]), range(1, len(y))] = 1
        return (arcs,)


class SingleRoot(Arborescence):
    best = partial(inference.maximum_spanning_arborescence, single_root=True)
    marginals = partial(inference.arborescence_marginals, single_root=True)

    def outputs(self):
        return [y for y in super().outputs() if y.count(0) == (len(y) > 1)]


class LabelSet:
    best = inference.most_violated_label_set

    def __init__(self, rng):
        k = rng.integers(1, 5)
        loss = str(rng.choice(["hamming", "subset", "f1"]))
        self.arguments = eighths(rng, k), rng.integers(0, 2, k), loss

    def outputs(self):
        return list(product((0, 1), repeat=len(self.arguments[0])))

    def score(self, y):
        scores, truth, name = self.arguments
        loss = {
            "hamming": np.mean(truth != y),
            "subset": float((truth != y).any()),
            "f1": 1.0 - f1(truth, np.array(y)),
        }[name]
        return float(scores @ y) + loss


class ExpectedF1(LabelSet):
    best = inference.max_expected_f1

    def __init__(self, rng):
        self.arguments = (rng.random(rng.integers(1, 5)),)

    def score(self, y):
        (p,) = self.arguments
        truths = np.array(self.outputs())
        weights = np.where(truths == 1, p, 1 - p).prod(axis=1)
        return float(weights @ [f1(truth, np.array(y)) for truth in truths])


class Closure(LabelSet):
    best = inference.maximum_closure

    def __init__(self, rng):
        k = rng.integers(1, 6)
        self.arguments = eighths(rng, k), rng.permutation(k)[Graph.edges(self, rng, k)]

    def outputs(self):
        parents, children = self.arguments[1].T
        sets = np.array(super().outputs())
        return list(sets[(sets[:, children] <= sets[:, parents]).all(axis=1)])

    def score(self, y):
        return float(self.arguments[0] @ y)

    def indicators(self, y):
        return (np.array(y),)


class TreeClosure(Closure):
    marginals = inference.closure_marginals

    def __init__(self, rng):
        k = rng.integers(1, 6)
        edges = [(rng.integers(v), v) for v in range(1, k) if rng.random() < 0.8]
        self.arguments = eighths(rng, k), np.array(edges, np.int64).reshape(-1, 2)


class Filling(LabelSet):
    best = inference.solve_knapsack

    def __init__(self, rng):
        k, n_sides = rng.integers(1, 9), rng.integers(0, 4)
        weights = rng.integers(0, 21, (n_sides, k) if n_sides else k) / rng.integers(1, 5)
        self.arguments = eighths(rng, k), weights, rng.integers(0, 5 * k, n_sides or None) / 2

    def outputs(self):
        _, weights, capacity = self.arguments
        return [y for y in super().outputs() if (weights @ y <= capacity).all()]

    def score(self, y):
        return float(self.arguments[0] @ y)


class Route(LabelSet):
    best = inference.dag_shortest_path

    def __init__(self, rng):
        n = int(rng.integers(2, 5))
        pairs = [(u, v) for v in range(n) for u in range(v) if v == u + 1 or rng.random() < 0.5]
        arcs = rng.permutation(np.array(pairs))
        self.arguments = eighths(rng, len(arcs)), arcs, 0, n - 1

    def outputs(self):
        _, arcs, first, last = self.arguments

        def is_path(y):
            used = sorted(map(tuple, arcs[np.array(y) == 1].tolist()))
            nodes = [first, *(head for _, head in used)]
            return used == list(pairwise(nodes)) and nodes[-1] == last

        return [y for y in super().outputs() if is_path(y)]

    def score(self, y):
        return -float(self.arguments[0] @ y)


class Tour:
    best = inference.traveling_salesman

    def __init__(self, rng):
        size = rng.choice([1.0, 1e-8, 1e8])
        table = size * np.triu(eighths(rng, (rng.integers(3, 8),) * 2), 1)
        self.arguments = (table + table.T,)

    def outputs(self):
        return [(0, *rest) for rest in permutations(range(1, len(self.arguments[0])))]

    def score(self, y):
        return -float(self.arguments[0][y, np.roll(y, 1)].sum())

    def of_result(self, result):
        return np.roll(result, -int(np.argmin(result)))


class Ranking:
    best = inference.most_violated_ranking

    def __init__(self, rng):
        n = int(rng.integers(2, 6))
        measure = str(rng.choice(["map", "ndcg", "precision"]))
        gains = rng.integers(0, 4 if measure == "ndcg" else 2, n)
        gains[:2] = 0, 1
        k = int(rng.integers(1, 6)) if measure != "map" else None
        self.arguments = eighths(rng, n), gains, measure, k

    def outputs(self):
        return list(permutations(range(len(self.arguments[0]))))

    def loss(self, y):
        _, gains, measure, k = self.arguments
        heights = -np.argsort(y).astype(float)
        value = {
            "map": lambda: average_precision_score(gains, heights),
            "precision": lambda: gains[list(y[:k])].sum() / min(k, gains.sum()),
            "ndcg": lambda: ndcg_score([gains], [heights], k=k),
        }[measure]()
        assert inference.ranking_value(heights, gains, measure, k) == pytest.approx(value)
        return 1 - value

    def score(self, y):
        scores, gains, *_ = self.arguments
        place = np.argsort(y)
        pairs = [(i, j) for i, j in permutations(y, 2) if gains[i] > gains[j]]
        swapped = sum(scores[i] - scores[j] for i, j in pairs if place[i] > place[j])
        return self.loss(y) - swapped / len(pairs)

    def of_result(self, result):
        order, loss = result
        assert loss == pytest.approx(self.loss(order), abs=1e-12)
        return order


STRUCTURES = [
    Chain, Segments, Forest, Graph, Submodular, Cut, Matching, Arborescence, SingleRoot,
    LabelSet, ExpectedF1, Closure, TreeClosure, Filling, Route, Tour, Ranking,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_search_returns_the_best_of_all_outputs_and_sums_over_them(structure):
    for seed in range(40):
        problem = structure(np.random.default_rng(seed))
        outputs = problem.outputs()
        # Searches are attributes of the class: plain functions, or methods that call them.
        best, marginals = structure.best, getattr(structure, "marginals", None)
        if getattr(best, "__module__", None) == __name__:
            best = problem.best
        if not outputs:
            for search in filter(None, (best, marginals)):
                with pytest.raises(ValueError, match=r"forbid|does not reach"):
                    search(*problem.arguments)
            continue
        values = np.array([problem.score(y) for y in outputs])
        if best:
            result = best(*problem.arguments)
            result = getattr(problem, "of_result", lambda result: result)(result)
            assert any(np.array_equal(result, y) for y in outputs)
            assert problem.score(result) == pytest.approx(values.max(), rel=1e-9, abs=1e-12)
        if marginals:
            *probabilities, log_sum = marginals(*problem.arguments)
            largest = values.max()
            total = largest + np.log(np.exp(values - largest).sum())
            assert log_sum == pytest.approx(total, rel=1e-12, abs=1e-12)
            weights = np.exp(values - log_sum)
            listed = [problem.indicators(y) for y in outputs]
            for of_search, *of_outputs in zip(probabilities, *listed, strict=True):
                expected = np.tensordot(weights, np.array(of_outputs, float), 1)
                np.testing.assert_allclose(of_search, expected, atol=1e-12)


EXAMPLES = {
    "alpha_expansion_labels": dict(node_energies=np.eye(3), edges=[[0, 1]], weights=[1.0]),
    "arborescence_marginals": dict(scores=np.eye(3)),
    "candidate_boxes": dict(box=[9.0, 9, 4, 4], radius=2.0, step=1.0, image_shape=(50, 50)),
    "closure_marginals": dict(scores=[[1.0, 2.0]], edges=[[0, 1]]),
    "dag_shortest_path": dict(costs=[1.0, 2.0], arcs=[[0, 1], [1, 2]], source=0, target=2),
    "forward_backward": dict(emissions=np.ones((3, 2)), transitions=np.eye(2)),
    "graph_marginals": dict(node_scores=np.eye(2), edges=[[0, 1]], edge_scores=[np.eye(2)]),
    "intersection_over_union": dict(box=[0.0, 0, 2, 2], boxes=[[1.0, 1, 2, 2]]),
    "linear_assignment": dict(scores=np.eye(2)),
    "map_labels": dict(node_scores=np.eye(2), edges=[[0, 1]], edge_scores=[np.eye(2)]),
    "max_expected_f1": dict(probabilities=[0.5, 0.2]),
    "maximum_closure": dict(scores=[[1.0, 2.0]], edges=[[0, 1]]),
    "maximum_spanning_arborescence": dict(scores=np.eye(3)),
    "min_cut_labels": dict(node_energies=np.eye(2), edges=[[0, 1]], forward=[1.0], backward=[1.0]),
    "most_violated_box": dict(true=0, boxes=[[1.0, 1, 2, 2]], scores=[1.0]),
    "most_violated_label_set": dict(scores=[1.0, 2.0], truth=[0, 1], loss="f1"),
    "most_violated_ranking": dict(scores=[1.0, 2.0], gains=[0.0, 1.0], measure="precision", k=1),
    "ranking_value": dict(scores=[1.0, 2.0], gains=[0.0, 1.0], measure="precision", k=1),
    "semi_markov_viterbi": dict(spans=np.ones((3, 2, 2)), transitions=np.eye(2)),
    "solve_knapsack": dict(values=[1.0, 2.0], weights=[1.5, 2.0], capacity=[3.0]),
    "sparse_assignment": dict(scores=[1.0], pairs=[[0, 1]], shape=(2, 2)),
    "traveling_salesman": dict(costs=1 - np.eye(4)),
    "violated_pairs": dict(scores=[1.0, 2.0], relevance=[1.0, 0.0]),
    "viterbi": dict(emissions=np.ones((3, 2)), transitions=np.eye(2)),
}
HUGE = np.full((2, 2), 1e308)
CASES = [(name, argument) for name, given in EXAMPLES.items() for argument in given]


def faults(value):
    """Values of another shape or type, or out of range, whatever the other arguments are."""
    array = np.asarray(value)
    if array.dtype.kind == "U":
        return ["auc", None, 3]
    wrong = [None, "words", [[1.0], [1.0, 2.0]], array[None, None], array.astype(str), array + 1j]
    wrong += [np.full(array.shape, None), np.nan * array, array - np.inf, array + np.inf]
    return wrong + ([-1 - array] if array.dtype.kind == "i" else [])


def error_of(name, arguments):
    """Message of the error of a search and the file that raised it; None without one."""
    try:
        getattr(inference, name)(**arguments)
    except (TypeError, ValueError) as error:
        return str(error), Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return None


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_a_wrong_argument_of_a_search_is_named(name, argument):
    value = EXAMPLES[name][argument]
    for wrong in faults(value):
        error = error_of(name, {**EXAMPLES[name], argument: wrong})
        assert error is not None, f"{argument}={wrong!r} is not refused"
        assert argument in error[0], error
        assert PACKAGE in error[1].parents, error
    # Arguments that do not fit each other may be either one's fault.
    array = np.asarray(value)
    for other in [array[..., None], array[..., 1:], np.zeros(0)] if array.ndim else []:
        error = error_of(name, {**EXAMPLES[name], argument: other})
        assert error is None or any(one in error[0] for one in EXAMPLES[name]), error
        assert error is None or PACKAGE in error[1].parents, error


def test_every_search_is_tried_with_wrong_arguments():
    assert sorted(EXAMPLES) == sorted(inference.__all__)


@pytest.mark.parametrize("name", inference.__all__)
def test_the_example_of_a_search_runs(name):
    search = getattr(inference, name)
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(search, name, sys.modules[search.__module__])
    assert doctest.DocTestRunner().run(example).failed == 0
    assert example.examples


@pytest.mark.parametrize(
    ("search", "arguments", "message"),
    [
        (
            "graph_marginals",
            (np.zeros((20, 2)), complete(20), np.zeros((190, 2, 2))),
            "too many cycles",
        ),
        ("map_labels", (np.zeros((2, 2)), [[1, 1]], np.zeros((1, 2, 2))), "two different nodes"),
        ("maximum_closure", (np.zeros(3), [[0, 1], [1, 2], [2, 1]]), "cycle at label 1"),
        ("closure_marginals", (np.zeros(3), [[0, 2], [1, 2]]), "label 2 several parents"),
        ("dag_shortest_path", ([1.0, 1.0], [[0, 1], [1, 0]], 0, 1), "cycle"),
        ("dag_shortest_path", ([1.0], [[0, 1]], 1, 0), "no path from source 1 to target 0"),
        ("sparse_assignment", ([1.0, 1.0], [[0, 1], [0, 1]], (2, 2)), "a pair twice"),
        (
            "sparse_assignment",
            ([1.0], [[0, 2]], (2, 2)),
            r"pairs\[0\] is \[0, 2\]; give mem",
        ),
        ("traveling_salesman", (np.triu(np.ones((3, 3))),), "symmetric"),
        ("max_expected_f1", ([0.5, 1.5],), r"probabilities\[1\] is 1.5"),
        ("most_violated_ranking", ([1.0, 2.0], [1, 1], "map"), "all equal"),
        ("most_violated_ranking", ([1.0, 2.0], [2, 1], "map"), "other numbers than 0 and 1"),
        ("ranking_value", ([1.0, 2.0], [0, 1], "precision"), "'precision' needs"),
        ("intersection_over_union", ([0, 0, 1, 1], [[0, 0, 1, 0]]), r"boxes\[0, 3\] is"),
        ("candidate_boxes", ([10, 10, 4, 4], 1e30, 1.0, (50, 50)), r"radius is 1e\+30"),
        (
            "min_cut_labels",
            (np.zeros((0, 2)), [[0, 1]], [1.0], [1.0]),
            r"edges\[0, 0\] is 0; give no",
        ),
        # Numbers whose sum is infinite.
        ("graph_marginals", (HUGE, [[0, 1]], np.zeros((1, 2, 2))), "node_scores has numbers whose"),
        ("map_labels", (np.eye(2), [[0, 1]], [HUGE]), "edge_scores has numbers whose sum"),
        ("viterbi", (HUGE, np.eye(2)), "emissions has numbers whose sum"),
        ("forward_backward", (np.eye(2), -HUGE), "transitions has numbers whose sum"),
        ("closure_marginals", (HUGE, [[0, 1]]), "scores has numbers whose sum"),
        ("maximum_closure", (HUGE, [[0, 1]]), "scores has numbers whose sum"),
    ],
)
def test_a_problem_without_a_result_is_refused(search, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(inference, search)(*arguments)
