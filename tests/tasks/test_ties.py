"""Of equally good outputs every task takes the one that its tie rule names."""

import copy
import pickle
from itertools import islice, product

import numpy as np
import pytest

from structboost import MatchingTask
from structboost.contract.parts import deeply_equal
from tests.helpers.task_problems import task_problems

PROBLEMS = task_problems(6)


def test_pairs_that_score_nothing_are_not_matched_where_members_may_stay_alone():
    x = np.zeros((3, 4, 1))
    assert MatchingTask(unmatched=True).argmax(x, np.zeros((12, 1))).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_tie_is_broken_alike_in_each_call_and_copy(name):
    task, X, _, _ = PROBLEMS[name]
    stack = task.stack(X)
    rows = {
        kind: np.zeros((len(of_kind), task.kinds[kind].n_channels))
        for kind, of_kind in stack.rows.items()
    }
    scores = type(stack)(rows, stack.offsets)
    tasks = task, task, copy.deepcopy(task), pickle.loads(pickle.dumps(task))
    first, *again = ([t.argmax(x, scores.example(i)) for i, x in enumerate(X)] for t in tasks)
    assert all(deeply_equal(first, other) for other in again)


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
