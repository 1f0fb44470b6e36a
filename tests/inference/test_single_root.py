"""Tasks of spanning trees whose root has one child."""

from __future__ import annotations

import numpy as np
import pytest

from structboost import SpanningTreeTask, StructBoost, check_task
from structboost.errors import TaskError
from structboost.tasks import CandidatePairs


@pytest.mark.slow
def test_a_task_with_a_single_root_passes_check_task_and_trains():
    rng = np.random.default_rng(0)
    task = SpanningTreeTask(single_root=True)
    X = [rng.normal(size=(4, 4, 2)) for _ in range(20)]
    Y = [task.argmax(x, x[:, :, :1].reshape(-1, 1)) for x in X]
    assert all((y == 0).sum() == 1 for y in Y)
    assert len(list(task.outputs(X[0]))) == 9
    check_task(task, X, Y)
    for formulation in ("one_slack", "log"):
        trainer = StructBoost(task, C=20.0, tol=0.2, max_rounds=30, formulation=formulation)
        trainer.fit(X, Y)
        assert trainer.history_[-1]["certified"]
        assert all((y == 0).sum() == 1 for y in trainer.predict(X))


def test_a_tree_of_two_children_is_named():
    task = SpanningTreeTask(single_root=True)
    X = [np.ones((3, 3, 1))] * 3
    with pytest.raises(TaskError, match=r"Y\[2\]: A tree has 2 children of node 0; give one"):
        StructBoost(task, C=1.0).fit(X, [[-1, 0, 1], [-1, 2, 0], [-1, 0, 0]])
    arcs = CandidatePairs(3, 3, np.array([(0, 1), (0, 2)]), np.ones((2, 1)))
    with pytest.raises(TaskError, match="does not reach with a single child; add arcs"):
        task.argmax(arcs, np.ones((2, 1)))
    with pytest.raises(TypeError, match="single_root is 1; give True or False"):
        SpanningTreeTask(single_root=1)
