"""Labels of graphs against all labellings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from structboost import CrossFitted, GraphTask, StructBoost, StructuredSVM, Task
from structboost import check_task as check
from structboost.contract import StackedParts
from structboost.errors import TaskError
from structboost.tasks import GraphInput

TWO_KINDS = {"word": 3, "place": 2}, {"next": ("word", "word"), "at": ("place", "word")}


def random_edges(rng, n, shape, m=None):
    """Edges of a tree or of any graph, in any direction; with ``m`` from n nodes to m others."""
    if m is not None:
        edges = [(u, v) for u in range(n) for v in range(m) if rng.random() < 0.5]
    elif shape == "tree":
        edges = [(int(rng.integers(v)), v) for v in range(1, n) if rng.random() < 0.9]
    else:
        edges = [(u, v) for v in range(n) for u in range(v) if rng.random() < 0.8]
    table = np.array(edges, np.int64).reshape(-1, 2)
    turned = rng.random(len(table)) < (0.5 if m is None else 0.0)
    table[turned] = table[turned][:, ::-1]
    return table


def random_graph(rng, task, shape="any"):
    sizes = {kind: int(rng.integers(1, 4 if task.several else 6)) for kind in task.n_labels}
    edges = {
        kind: random_edges(rng, sizes[a], shape, None if a == b else sizes[b])
        for kind, (a, b) in task.ends.items()
    }
    nodes = {kind: rng.normal(size=(n, 2)) for kind, n in sizes.items()}
    features = {kind: np.abs(rng.normal(size=(len(own), 1))) for kind, own in edges.items()}
    if task.several:
        return GraphInput(nodes, edges, features)
    return GraphInput(nodes["node"], edges["edge"], features["edge"])


def random_scores(rng, task, x, scale=1.5):
    return {
        kind: scale * rng.normal(size=(len(rows), task.kinds[kind].n_channels))
        for kind, rows in task.parts(x).items()
    }


def value(task, x, y, scores):
    measures = task.joint_feature(x, y)
    return sum(m.values @ scores[kind][m.parts, m.channels] for kind, m in measures.items())


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(["ordered", "unordered", "equal", "two kinds"]))
def test_bounds_of_graphs_hold_and_exact_labels_are_the_best(seed, pairs):
    rng = np.random.default_rng(seed)
    arguments = TWO_KINDS if pairs == "two kinds" else (int(rng.integers(2, 4)),)
    options = {} if pairs == "two kinds" else {"pairs": pairs}
    task = GraphTask(*arguments, **options)
    X = [random_graph(rng, task, rng.choice(["tree", "any"])) for _ in range(3)]
    scores = [random_scores(rng, task, x) for x in X]
    sizes = {kind: np.cumsum([0] + [len(s[kind]) for s in scores]) for kind in task.kinds}
    rows = {kind: np.concatenate([s[kind] for s in scores]) for kind in task.kinds}
    found = task.argmax_batch(X, StackedParts(rows, sizes))
    exact = GraphTask(*arguments, **options, exact=True)
    for x, own, y in zip(X, scores, found, strict=True):
        most = max(value(task, x, z, own) for z in task.outputs(x))
        bound = task.upper_bound(x, own)
        assert value(task, x, y, own) == pytest.approx(value(task, x, task.argmax(x, own), own))
        assert value(task, x, y, own) <= most + 1e-9
        assert bound >= most - 1e-8
        assert value(task, x, exact.argmax(x, own), own) == pytest.approx(most)
        assert exact.upper_bound(x, own) == pytest.approx(most)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.booleans())
def test_trees_and_submodular_graphs_of_two_labels_are_proved(seed, tree):
    rng = np.random.default_rng(seed)
    task = GraphTask(3 if tree else 2)
    x = random_graph(rng, task, "tree" if tree else "any")
    scores = random_scores(rng, task, x)
    if not tree:
        gain = scores["edge"] @ [1.0, -1.0, -1.0, 1.0]
        scores["edge"][:, 0] += np.maximum(0.0, -gain)
    most = max(value(task, x, z, scores) for z in task.outputs(x))
    assert task.upper_bound(x, scores) == pytest.approx(most, abs=1e-9)
    assert value(task, x, task.argmax(x, scores), scores) == pytest.approx(most, abs=1e-9)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(["ordered", "unordered", "equal", "two kinds"]))
def test_marginals_of_graphs_equal_enumeration(seed, pairs):
    rng = np.random.default_rng(seed)
    options = {} if pairs == "two kinds" else {"pairs": pairs}
    task = GraphTask(*(TWO_KINDS if pairs == "two kinds" else (3,)), **options)
    X = [random_graph(rng, task, rng.choice(["tree", "any"])) for _ in range(3)]
    scores = [random_scores(rng, task, x) for x in X]
    sizes = {kind: np.cumsum([0] + [len(s[kind]) for s in scores]) for kind in task.kinds}
    rows = {kind: np.concatenate([s[kind] for s in scores]) for kind in task.kinds}
    found = task.marginals_batch(X, StackedParts(rows, sizes))
    for i, (x, own) in enumerate(zip(X, scores, strict=True)):
        assert found.log_sums[i] == pytest.approx(Task.log_sum(task, x, own))
        assert task.log_sum(x, own) == pytest.approx(found.log_sums[i])
        alone = task.marginals(x, own)
        for kind, listed in Task.marginals(task, x, own).items():
            of_graph = found.expected[kind][slice(*sizes[kind][i : i + 2])]
            assert of_graph == pytest.approx(listed, abs=1e-12)
            assert alone[kind] == pytest.approx(listed, abs=1e-12)


@pytest.mark.slow
def test_large_trees_have_probabilities_and_many_cycles_are_named():
    rng = np.random.default_rng(0)
    n = 400
    edges = [(int(rng.integers(max(0, v - 4), v)), v) for v in range(1, n)]
    task, x = GraphTask(3), GraphInput(np.zeros((n, 1)), edges)
    found = task.marginals(x, random_scores(rng, task, x))
    assert found["node"].sum(axis=1) == pytest.approx(1.0)
    # The pairs of an edge have the labels of its second end as often as the node does.
    of_ends = found["edge"].reshape(-1, 3, 3).sum(axis=1)
    assert of_ends == pytest.approx(found["node"][[v for _, v in edges]])
    complete = [(u, v) for v in range(12) for u in range(v)]
    X, Y = [x, GraphInput(np.zeros((12, 1)), complete)], [np.zeros(n, int), np.zeros(12, int)]
    check(task, X[1:], Y[1:])
    model = StructBoost(task, C=1, formulation="log")
    with pytest.raises(TaskError, match=r"X\[1\] has too many cycles .* Leave edges out"):
        model.fit(X, Y)


def test_the_likelihood_of_graphs_is_certified():
    X, Y = zip(*[circle(np.random.default_rng(i)) for i in range(24)], strict=True)
    model = StructBoost(GraphTask(3), C=30, tol=0.05, max_rounds=30, formulation="log")
    model.fit(X[:12], Y[:12])
    assert model.history_[-1]["certified"]
    assert 0 <= model.history_[-1]["gap"] <= 0.05
    assert np.mean(np.concatenate(model.predict(X[12:])) == np.concatenate(Y[12:])) > 0.9
    (first,) = model.predict_marginals(X[12:13])
    assert first["node"].shape == (7, 3)
    assert first["edge"].sum(axis=1) == pytest.approx(1.0)


def test_alpha_expansion_improves_on_message_passing():
    # Among 60 random graphs the one where message passing alone ends .05 below the optimum.
    rng = np.random.default_rng(21)
    edges = np.array([(u, v) for v in range(8) for u in range(v)])
    x = GraphInput(np.zeros((8, 1)), edges)
    scores = {"node": rng.normal(size=(8, 4)), "edge": 0.5 * rng.random((len(edges), 1))}
    best, exact = (GraphTask(4, pairs="equal", exact=exact) for exact in (False, True))
    most = value(exact, x, exact.argmax(x, scores), scores)
    assert exact.upper_bound(x, scores) == pytest.approx(most)
    assert best.upper_bound(x, scores) > most + 0.1
    assert value(best, x, best.argmax(x, scores), scores) == pytest.approx(most)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(3,), TWO_KINDS])
def test_the_graph_task_passes_check_task(arguments):
    rng = np.random.default_rng(1)
    for exact in (False, True):
        task = GraphTask(*arguments, exact=exact)
        X = [random_graph(rng, task) for _ in range(4)]
        Y = [list(task.outputs(x)) for x in X]
        check(task, X, [outputs[rng.integers(len(outputs))] for outputs in Y])


def circle(rng, n=7):
    """Three labels around a circle that follow each other; every second node shows its own."""
    labels = (rng.integers(3) + np.arange(n)) % 3
    shown = np.eye(3)[labels] * (np.arange(n) % 2)[:, None]
    edges = np.column_stack((np.arange(n), np.roll(np.arange(n), -1)))[:-1]
    return GraphInput(shown + 0.1 * rng.normal(size=(n, 3)), np.r_[edges, [[0, 3]]]), labels


@pytest.mark.slow
def test_ordered_pairs_learn_the_direction_of_edges_with_a_certificate():
    X, Y = zip(*[circle(np.random.default_rng(i)) for i in range(24)], strict=True)
    task = GraphTask(3, exact=True)
    svm = StructuredSVM(task, C=30, tol=0.05, random_state=0).fit(X[:8], Y[:8])
    assert svm.history_[-1]["certified"]
    assert np.mean(np.concatenate(svm.predict(X[8:])) == np.concatenate(Y[8:])) > 0.95
    alike = GraphTask(3, pairs="unordered")
    blind = StructuredSVM(alike, C=30, tol=0.05, random_state=0, max_epochs=30).fit(X[:8], Y[:8])
    assert not blind.history_[-1]["certified"]
    assert np.mean(np.concatenate(blind.predict(X[8:])) == np.concatenate(Y[8:])) < 0.95
    boosted = StructBoost(GraphTask(3), C=30, tol=0.1, max_rounds=8).fit(X[:8], Y[:8])
    assert np.mean(np.concatenate(boosted.predict(X[8:])) == np.concatenate(Y[8:])) > 0.9


def test_cross_fitted_predictions_replace_the_features_of_nodes():
    X, Y = zip(*[circle(np.random.default_rng(i)) for i in range(24)], strict=True)
    task = GraphTask(3)
    crossed = CrossFitted(DecisionTreeClassifier(max_depth=3), task=task, folds=3)
    answers = crossed.fit_transform(X[:12], Y[:12])
    assert answers[0].nodes.shape == (7, 3)
    svm = StructuredSVM(task, C=30, tol=0.1, random_state=0).fit(answers, Y[:12])
    found = np.concatenate(svm.predict(crossed.transform(X[12:])))
    assert np.mean(found == np.concatenate(Y[12:])) > 0.9
    kinds = GraphTask({"a": 3}, {"e": ("a", "a")})
    x = kinds.with_features(GraphInput({"a": X[0].nodes}, {"e": X[0].edges}), np.ones((7, 2)))
    assert kinds.parts(x)["a"].shape == (7, 2)
    assert GraphTask(*TWO_KINDS).labelled_kind is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_labels": 1}, "whole number from 2"),
        ({"n_labels": {"a": 2}}, "edges is None"),
        ({"n_labels": {"a": 2}, "edges": {"e": ("a", "b")}}, "'e' join"),
        ({"n_labels": {"a": 2}, "edges": {"a": ("a", "a")}}, "names a kind of nodes"),
        ({"n_labels": 2, "pairs": "both"}, "pairs of 'edge'"),
        (
            {"n_labels": {"a": 2, "b": 2}, "edges": {"e": ("a", "b")}, "pairs": "equal"},
            "joins nodes of two kinds",
        ),
    ],
)
def test_wrong_parameters_of_the_graph_task_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        GraphTask(**arguments)


@pytest.mark.parametrize(
    ("y", "message"),
    [([0, 1], "2 labels for 3 nodes"), ([0, 1, 2], r"0\.\.1"), ([0.5, 0, 0], "whole numbers")],
)
def test_wrong_labels_of_a_graph_are_named(y, message):
    task, x = GraphTask(2), GraphInput(np.zeros((3, 1)), [[0, 1]])
    assert not task.is_valid(x, y)
    with pytest.raises(TaskError, match=message):
        task.joint_feature(x, y)


@pytest.mark.parametrize("Trainer", [StructBoost, StructuredSVM])
@pytest.mark.parametrize("n", [2, 4])
def test_labels_of_another_length_than_their_graph_are_named_in_fit(Trainer, n):
    X = [GraphInput(np.eye(3), [[0, 1]])] * 2
    with pytest.raises(TaskError, match=f"has {n} labels for 3 nodes; give one for each") as caught:
        Trainer(GraphTask(2), C=1.0).fit(X, [np.array([0, 1, 0]), np.arange(n) % 2])
    assert any("example 1, X[1]" in note for note in caught.value.__notes__)


def test_wrong_graphs_are_named():
    nodes = np.zeros((3, 1))
    for x, message in [
        (GraphInput(nodes, [[0, 3]]), "join two of the 3 and 3 nodes"),
        (GraphInput(nodes, [[1, 1]]), "to itself"),
        (GraphInput(nodes, [[0, 1, 0], [1, 2, 2]]), r"shape \(2, 3\); give \(n_edges, 2\)"),
        (GraphInput(nodes, [[0.0, 1.0]]), "type float64; give whole numbers"),
        (GraphInput(nodes, [[0, 1]], np.zeros((2, 1))), "features of 2"),
        (GraphInput({"word": nodes}, [[0, 1]]), "no entry for kind 'node'"),
    ]:
        with pytest.raises(TaskError, match=message):
            GraphTask(2).parts(x)
    with pytest.raises(TaskError, match="edges is None; give an array of numbers"):
        GraphInput(nodes, None)
    with pytest.raises(TaskError, match="One output has 3"):
        GraphTask(2).loss([0, 1, 0], [0])


def drawn_graphs(shape, n=12):
    """Graphs with labels that hang on their features, as paths, trees, single nodes or cycles."""
    rng = np.random.default_rng(0)
    X, Y = [], []
    for _ in range(n):
        size = int(rng.integers(3, 7))
        edges = {
            "paths": [[i, i + 1] for i in range(size - 1)],
            "trees": [[int(rng.integers(0, i)), i] for i in range(1, size)],
            "forests": [[i, i + 1] for i in range(0, size - 1, 2)],
            "single nodes": np.zeros((0, 2), int),
            "cycles": [[i, (i + 1) % size] for i in range(size)],
            "doubled edges": [[0, 1], [1, 0]],
        }[shape]
        nodes = rng.normal(size=(size, 3))
        X.append(GraphInput(nodes, edges))
        Y.append((nodes[:, 0] > 0).astype(int) + (nodes[:, 1] > 0.5))
    return X, Y


class OtherSearch(GraphTask):
    """Labels each node alone."""

    def argmax_batch(self, X, scores, Y=None):
        best = scores.rows["node"].argmax(axis=1)
        return np.split(best, scores.offsets["node"][1:-1])


TRAINERS_OF_GRAPHS = {
    "one_slack": lambda task: StructBoost(task, C=20.0, tol=0.1),
    "m_slack": lambda task: StructBoost(task, C=20.0, tol=0.1, formulation="m_slack"),
    "svm": lambda task: StructuredSVM(task, C=5.0, tol=0.1, random_state=0),
}


@pytest.mark.parametrize("make", TRAINERS_OF_GRAPHS.values(), ids=TRAINERS_OF_GRAPHS)
def test_training_on_forests_is_certified_and_equals_exact_training(make):
    for shape in ("paths", "trees", "forests", "single nodes"):
        task, exact = GraphTask(3), GraphTask(3, exact=True)
        last, other = (make(one).fit(*drawn_graphs(shape)).history_[-1] for one in (task, exact))
        assert last["certified"], shape
        assert (last["primal"], last["bound"]) == (other["primal"], other["bound"])
        assert not task.exact_argmax
    for shape in ("cycles", "doubled edges"):
        assert not make(GraphTask(3)).fit(*drawn_graphs(shape)).history_[-1]["certified"], shape


def test_one_cycle_or_another_search_leaves_forests_uncertified():
    X, Y = drawn_graphs("paths")
    cycle, labels = drawn_graphs("cycles", 1)
    for task, more in ((GraphTask(3), (cycle, labels)), (OtherSearch(3), ([], []))):
        trainer = StructBoost(task, C=20.0, tol=0.1).fit(X + more[0], Y + more[1])
        assert not trainer.history_[-1]["certified"]
