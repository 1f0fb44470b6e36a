"""Labels of graphs against all labellings."""

import numpy as np
import pytest
from numpy.random import default_rng

from structboost import GraphTask, StructBoost, StructuredSVM
from structboost.errors import TaskError
from structboost.tasks import GraphInput


def random_scores(rng, task, x):
    return {
        kind: 1.5 * rng.normal(size=(len(rows), task.kinds[kind].n_channels))
        for kind, rows in task.parts(x).items()
    }


@pytest.mark.slow
def test_large_trees_have_probabilities_and_cycles_are_named():
    rng = default_rng(0)
    n = 400
    edges = [(int(rng.integers(max(0, v - 4), v)), v) for v in range(1, n)]
    task, x = GraphTask(3), GraphInput(np.zeros((n, 1)), edges)
    found = task.marginals(x, random_scores(rng, task, x))
    assert found["node"].sum(axis=1) == pytest.approx(1.0)
    # The pairs of an edge have the labels of its second end as often as the node does.
    of_ends = found["edge"].reshape(-1, 3, 3).sum(axis=1)
    assert of_ends == pytest.approx(found["node"][[v for _, v in edges]])
    ring = GraphInput(np.zeros((3, 1)), [[0, 1], [1, 2], [2, 0]])
    model = StructBoost(task, C=1, formulation="log")
    with pytest.raises(TaskError, match=r"X\[1\] has a cycle.*leave edges out"):
        model.fit([x, ring], [np.zeros(n, int), np.zeros(3, int)])


def drawn_graphs(shape, n=12):
    """Graphs with labels that hang on their features, as trees, single nodes or cycles."""
    rng = default_rng(0)
    X, Y = [], []
    for _ in range(n):
        size = int(rng.integers(3, 7))
        edges = {
            "trees": [[int(rng.integers(0, i)), i] for i in range(1, size)],
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


@pytest.mark.slow
@pytest.mark.parametrize("make", TRAINERS_OF_GRAPHS.values(), ids=TRAINERS_OF_GRAPHS)
def test_training_on_forests_is_certified_and_equals_exact_training(make):
    for shape in ("trees", "single nodes"):
        task, exact = GraphTask(3), GraphTask(3, exact=True)
        last, other = (make(one).fit(*drawn_graphs(shape)).history_[-1] for one in (task, exact))
        assert last["certified"], shape
        assert (last["primal"], last["bound"]) == (other["primal"], other["bound"])
        assert not task.exact_argmax
    for shape in ("cycles", "doubled edges"):
        assert not make(GraphTask(3)).fit(*drawn_graphs(shape)).history_[-1]["certified"], shape


def test_one_cycle_or_another_search_leaves_forests_uncertified():
    X, Y = drawn_graphs("trees")
    cycle, labels = drawn_graphs("cycles", 1)
    for task, more in ((GraphTask(3), (cycle, labels)), (OtherSearch(3), ([], []))):
        trainer = StructBoost(task, C=20.0, tol=0.1).fit(X + more[0], Y + more[1])
        assert not trainer.history_[-1]["certified"]
