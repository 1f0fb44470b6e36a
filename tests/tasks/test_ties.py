"""Of equally good outputs every task takes the one that its tie rule names."""

from __future__ import annotations

import copy
import inspect
import pickle
from itertools import islice, product

import numpy as np
import pytest

from structboost import MatchingTask
from structboost.contract.equality import deeply_equal
from structboost.inference import linear_assignment
from tests.helpers.task_problems import task_problems

PROBLEMS = task_problems(6)


@pytest.mark.slow
@pytest.mark.parametrize("unmatched", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_first_of_equally_good_matchings_is_taken(seed, unmatched):
    rng = np.random.default_rng(seed)
    task = MatchingTask(unmatched=unmatched)
    for _ in range(100):
        n_left, n_right = rng.integers(1, 6, 2)
        scores = rng.integers(-2, 3, (n_left, n_right)) * rng.choice([1.0, 0.1, 1 / 3])
        x = np.zeros((n_left, n_right, 1))

        def value(y, scores=scores):
            return sum(scores[i, j] for i, j in enumerate(y) if j >= 0)

        # A pair is matched only if it scores above 0, where members may stay alone.
        outputs = [
            y
            for y in task.outputs(x)
            if not unmatched or all(scores[i, j] > 0 for i, j in enumerate(y) if j >= 0)
        ]
        values = np.array([value(y) for y in outputs])
        first = outputs[int(np.argmax(values >= values.max() - 1e-9))]
        assert task.argmax(x, scores.reshape(-1, 1)).tolist() == first.tolist()
        assert linear_assignment(scores, unmatched=unmatched).tolist() == first.tolist()


def test_a_matching_without_scores_is_the_first():
    x = np.zeros((3, 4, 1))
    assert MatchingTask().argmax(x, np.zeros((12, 1))).tolist() == [0, 1, 2]
    assert MatchingTask(unmatched=True).argmax(x, np.zeros((12, 1))).tolist() == [-1, -1, -1]
    tall = np.zeros((4, 2, 1))
    assert MatchingTask().argmax(tall, np.zeros((8, 1))).tolist() == [-1, -1, 0, 1]


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_tie_is_broken_alike_in_each_call_and_copy(name):
    task, X, _, _ = PROBLEMS[name]
    stack = task.stack(X)
    rows = {
        kind: np.zeros((len(of_kind), task.kinds[kind].n_channels))
        for kind, of_kind in stack.rows.items()
    }
    scores = type(stack)(rows, stack.offsets)
    first = [task.argmax(x, scores.example(i)) for i, x in enumerate(X)]
    for other in (task, copy.deepcopy(task), pickle.loads(pickle.dumps(task))):
        again = [other.argmax(x, scores.example(i)) for i, x in enumerate(X)]
        assert deeply_equal(first, again)


@pytest.mark.parametrize("task", dict.fromkeys(type(problem.task) for problem in PROBLEMS.values()))
def test_a_task_states_its_tie_rule(task):
    text = " ".join(inspect.getdoc(task).split())
    assert "equally good" in text


@pytest.mark.parametrize("unmatched", [False, True])
@pytest.mark.parametrize("shape", [(0, 2), (1, 0), (3, 3), (2, 4), (4, 2)])
def test_all_matchings_are_listed_in_order(unmatched, shape):
    task, x = MatchingTask(unmatched=unmatched), np.zeros((*shape, 1))
    everything = product(range(-1, shape[1]), repeat=shape[0])
    wanted = [y for y in everything if task.is_valid(x, np.array(y, np.int64))]
    assert [tuple(y.tolist()) for y in task.outputs(x)] == wanted


def test_the_first_matchings_of_large_sets_come_at_once():
    listed = list(islice(MatchingTask().outputs(np.zeros((40, 40, 1))), 3))
    assert listed[0].tolist() == list(range(40))
    assert listed[2][-3:].tolist() == [38, 37, 39]
