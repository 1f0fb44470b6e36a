"""Outputs that are listed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import EnumeratedTask, StructBoost
from structboost import check_task as check
from structboost.contract import StackedParts
from structboost.errors import TaskError
from structboost.objectives import Exponential

PAIRS = list(product("ab", "xyz"))


def pairs_task(losses=None):
    """Pairs of letters: a channel for each letter."""
    codes = [[first == "a", *(second == letter for letter in "xyz")] for first, second in PAIRS]
    return EnumeratedTask(PAIRS, codes, losses)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_argmaxes_of_one_and_of_many_find_the_best_output(seed):
    rng = np.random.default_rng(seed)
    n_outputs, n_channels = rng.integers(2, 7), rng.integers(1, 5)
    outputs = [frozenset({int(k)}) for k in range(n_outputs)]
    codes = rng.integers(-3, 4, (n_outputs, n_channels))
    losses = rng.integers(0, 4, (n_outputs, n_outputs)) * (1.0 - np.eye(n_outputs))
    task = EnumeratedTask(outputs, codes, losses)
    Y = [outputs[k] for k in rng.integers(0, n_outputs, 5)]
    scores = rng.normal(size=(5, n_channels))
    stack = StackedParts({"x": scores}, {"x": np.arange(6)})
    found = task.argmax_batch([None] * 5, stack, Y)
    found_alone = [task.argmax(None, row[None]) for row in scores]
    assert task.argmax_batch([None] * 5, stack) == found_alone
    for i, y in enumerate(Y):
        values = [codes[k] @ scores[i] + losses[outputs.index(y), k] for k in range(n_outputs)]
        assert values[outputs.index(found[i])] == pytest.approx(max(values))


def test_outputs_that_share_channels_learn_from_each_other():
    """A pair never seen in training is found by its letters."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    letters = np.array(["b", "a"])[(X[:, 0] > 0) * 1], np.array(list("xyz"))[(X[:, 1] > 0.5) * 2]
    Y = list(zip(*(of_part.tolist() for of_part in letters), strict=True))
    seen = [i for i in range(200) if Y[i] != ("a", "z")]
    losses = [[(p[0] != q[0]) + (p[1] != q[1]) for q in PAIRS] for p in PAIRS]
    for formulation in ("one_slack", Exponential()):
        fitted = StructBoost(pairs_task(losses), C=100, formulation=formulation, max_rounds=60)
        fitted.fit(X[seen], [Y[i] for i in seen])
        new = [i for i in range(200, 300) if Y[i] == ("a", "z")]
        assert fitted.predict(X[new]) == [("a", "z")] * len(new)
        assert fitted.history_[-1]["certified"]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_enumerated_task_passes_check_task(seed):
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, 4, (6, 6)) * (1.0 - np.eye(6))
    Y = [PAIRS[k] for k in rng.integers(0, 6, 5)]
    check(pairs_task(losses), rng.normal(size=(5, 2)), Y, random_state=seed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a"], [[1]]), "at least 2"),
        ((["a", "a"], [[1], [0]]), r"outputs\[1\] is 'a' again"),
        (([[1], [2]], [[1], [0]]), "cannot be hashed"),
        ((["a", "b"], [[1, 0]]), "a row for each of the 2"),
        ((["a", "b"], [[0.5], [1]]), "whole numbers"),
        ((["a", "b"], [[300], [1]]), "whole numbers"),
        ((["a", "b"], [[0], [1]], [[0, 1]]), "a column for each"),
        ((["a", "b"], [[0], [1]], [[0, -1], [1, 0]]), "not negative"),
        ((["a", "b"], [[0], [1]], [[1, 1], [1, 0]]), "0 on the diagonal"),
    ],
)
def test_arguments_of_wrong_shape_or_values_are_named(arguments, message):
    with pytest.raises(TaskError, match=message):
        EnumeratedTask(*arguments)


def test_outputs_that_are_not_listed_are_named():
    task = pairs_task()
    with pytest.raises(TaskError, match=r"Y\[1\] is .* none of the 6 outputs"):
        StructBoost(task, C=1).fit(np.zeros((2, 1)), [("a", "x"), ("c", "x")])
    assert not task.is_valid(None, ["a", "x"])
