"""Public searches against all outputs of small problems, and what they refuse."""

import traceback
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import structboost
from structboost import inference
from structboost.tasks import CandidatePairs
from structboost.tasks.chain import Stretch
from structboost.tasks.matching import shape_of
from tests.tasks.test_enumeration import by_kind, flat, problem

PACKAGE = Path(structboost.__file__).parent


def eighths(rng, shape):
    """Random multiples of 1/8: sums are exact, and ties occur."""
    return (8 * rng.normal(size=shape)).round() / 8


def test_a_knapsack_holds_the_best_of_all_fillings():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        k, n_sides = rng.integers(1, 9), rng.integers(0, 4)
        weights = rng.integers(0, 21, (n_sides, k) if n_sides else k) / rng.integers(1, 5)
        values, capacity = eighths(rng, k), rng.integers(0, 5 * k, n_sides or None) / 2
        every = np.array(list(product((0, 1), repeat=k)))
        fits = [(weights @ y <= capacity).all() for y in every]
        result = inference.solve_knapsack(values, weights, capacity)
        assert (every[fits] == result).all(axis=1).any()
        most = (every[fits] @ values).max()
        assert result @ values == pytest.approx(most, rel=1e-9, abs=1e-12)


# For a task, an input and scores: the output of a public search, the expected joint features by
# kind, and the logarithm of the sum.
def of_chain(task, x, own):
    pairs, first, last = task.penalties
    emissions = own["token"] + own.get("vector", 0.0)
    whole = not isinstance(x, Stretch)
    if not len(emissions):
        return None
    emissions[0] += first if whole or x.begins else 0.0
    emissions[-1] += last if whole or x.ends else 0.0
    transitions = (own["step"] + pairs).reshape(task.n_tags, task.n_tags)
    tags, steps, log_sum = inference.forward_backward(emissions, transitions)
    expected = {"token": tags, "step": steps.reshape(own["step"].shape)}
    return inference.viterbi(emissions, transitions), expected, log_sum


def of_segments(task, x, own):
    n, longest, k = len(own["token"]), task.max_length, task.n_labels
    spans = np.zeros((n, longest, k))
    for start, length in product(range(n), range(longest)):
        spans[start, length] = own["begin"][start] + own["span"][length]
        spans[start, length] += own["token"][start : start + length + 1].sum(axis=0)
    if not n:
        return None
    pairs = (own["pair"] + task._forbidden).reshape(k, k)
    return inference.semi_markov_viterbi(spans, pairs), {}, None


def of_graph(task, x, own):
    channels = task._channels
    tables = np.column_stack((own["edge"], np.zeros(len(own["edge"]))))[:, channels]
    arguments = own["node"], x.edges, tables
    labels, bound = inference.map_labels(*arguments)
    assert bound >= task.upper_bound(x, own) - 1e-9
    labels = None if task.exact_argmax else labels
    if not task.for_inputs([x]).exact_argmax or task.exact_argmax:
        return labels, {}, None
    nodes, edges, log_sum = inference.graph_marginals(*arguments)
    expected = {"edge": edges.reshape(own["edge"].shape)} if own["edge"].shape[1] == 9 else {}
    return labels, {"node": nodes, **expected}, log_sum


def of_matching(task, x, own):
    scores, is_sparse = own["pair"][:, 0], isinstance(x, CandidatePairs)
    if is_sparse and len(scores) % 2:
        return inference.sparse_assignment(scores, x.pairs, x.shape), {}, None
    table = np.full(shape_of(x), -np.inf)
    table[*(x.pairs if is_sparse else np.argwhere(table < 0)).T] = scores
    return inference.linear_assignment(table, unmatched=task.unmatched), {}, None


def of_trees(task, x, own):
    table = own["arc"].reshape(len(x), len(x))
    of_arcs, log_sum = inference.arborescence_marginals(table)
    heads = inference.maximum_spanning_arborescence(table)
    return heads, {"arc": of_arcs.reshape(-1, 1)}, log_sum


SEARCHES = {
    "chain": of_chain,
    "segments": of_segments,
    "graph": of_graph,
    "matching": of_matching,
    "trees": of_trees,
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_public_search_finds_what_the_task_finds(name):
    """The tasks are compared with all of their outputs."""
    n_compared = 0
    for seed in range(20):
        rng, task, X, _ = problem(name, seed)
        for x in X:
            own = {
                kind: (8 * rng.normal(size=(len(rows), task.kinds[kind].n_channels))).round() / 8
                for kind, rows in by_kind(task, task.parts(x)).items()
            }
            own = {k: np.abs(r) if min(task.kinds[k].response) >= 0 else r for k, r in own.items()}
            found = SEARCHES[name](task, x, own)
            if found is None:
                continue
            n_compared += 1
            scores = own if len(own) > 1 else next(iter(own.values()))
            output, expected, log_sum = found
            wanted = task.argmax(x, scores)
            values = [
                flat(task, task.joint_feature(x, z), own) @ flat(task, own, own)
                for z in (wanted, wanted if output is None else output)
            ]
            assert values[0] == pytest.approx(values[1], abs=1e-9)
            marginals = by_kind(task, task.marginals(x, scores)) if expected else {}
            for kind, table in expected.items():
                np.testing.assert_allclose(table, marginals[kind], atol=1e-9)
            assert log_sum is None or log_sum == pytest.approx(task.log_sum(x, scores), abs=1e-9)
    assert n_compared >= 10


TABLE = {"scores": np.eye(3)}
CHAIN = {"emissions": np.ones((3, 2)), "transitions": np.eye(2)}
GRAPH = {"node_scores": np.eye(2), "edges": [[0, 1]], "edge_scores": [np.eye(2)]}
EXAMPLES = {
    "alpha_expansion_labels": {
        "node_energies": np.eye(3), "edges": [[0, 1]], "weights": [1.0]
    },
    "arborescence_marginals": TABLE,
    "forward_backward": CHAIN,
    "graph_marginals": GRAPH,
    "linear_assignment": TABLE,
    "map_labels": GRAPH,
    "maximum_spanning_arborescence": TABLE,
    "min_cut_labels": {
        "node_energies": np.eye(2), "edges": [[0, 1]], "forward": [1.0], "backward": [1.0]
    },
    "semi_markov_viterbi": {"spans": np.ones((3, 2, 2)), "transitions": np.eye(2)},
    "solve_knapsack": {"values": [1.0, 2.0], "weights": [1.5, 2.0], "capacity": [3.0]},
    "sparse_assignment": {"scores": [1.0], "pairs": [[0, 1]], "shape": (2, 2)},
    "viterbi": CHAIN,
}  # fmt: skip
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


@pytest.mark.parametrize(
    ("search", "arguments", "message"),
    [
        (
            "graph_marginals",
            (np.zeros((2, 2)), [[0, 1], [1, 0]], np.zeros((2, 2, 2))),
            "edges form a cycle",
        ),
        ("map_labels", (np.zeros((2, 2)), [[1, 1]], np.zeros((1, 2, 2))), "two different nodes"),
        ("viterbi", ([[-np.inf]], np.eye(1)), "forbid less"),
        ("forward_backward", ([[-np.inf]], np.eye(1)), "forbid less"),
        ("semi_markov_viterbi", ([[[-np.inf]]], np.eye(1)), "forbid every cut"),
        ("linear_assignment", ([[-np.inf]],), "forbid less"),
        ("maximum_spanning_arborescence", (np.full((2, 2), -np.inf),), "does not reach"),
        ("arborescence_marginals", (np.full((2, 2), -np.inf),), "does not reach"),
        ("sparse_assignment", ([1.0, 1.0], [[0, 1], [0, 1]], (2, 2)), "a pair twice"),
        ("sparse_assignment", ([1.0], [[0, 2]], (2, 2)), r"pairs\[0\] is \[0, 2\]; give mem"),
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
    ],
)
def test_a_problem_without_a_result_is_refused(search, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(inference, search)(*arguments)
