"""Sets of labels, against all sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, hamming_loss, zero_one_loss

from structboost import MultiLabelTask, StructBoost
from structboost import check_task as check
from structboost.contract import StackedParts
from structboost.errors import TaskError

LOSSES = ["hamming", "subset", "f1"]
WITH_COSTS = [*LOSSES, "costs", "costs of each side"]


def task_of(rng, n_labels, loss, **options):
    """A task of a loss, or of the Hamming loss with random costs."""
    if loss in LOSSES:
        return MultiLabelTask(n_labels, loss, **options)
    costs = rng.integers(0, 4, (n_labels,) if loss == "costs" else (2, n_labels))
    costs.flat[0] = 2
    return MultiLabelTask(n_labels, costs=costs, **options)


def measured(loss, y, z):
    """The same loss by scikit-learn."""
    y, z = np.atleast_2d(y), np.atleast_2d(z)
    if loss == "hamming":
        return hamming_loss(y, z)
    if loss == "subset":
        return zero_one_loss(y, z)
    return 1.0 - f1_score(y, z, average="samples", zero_division=1.0)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(WITH_COSTS), st.booleans(), st.booleans())
def test_searches_of_label_sets_equal_enumeration(seed, loss, pairs, some):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(2, 5))
    sets = rng.integers(0, 2, (rng.integers(1, 7), n_labels)) if some else None
    task = task_of(rng, n_labels, loss, pairs=pairs, sets=sets)
    outputs = list(task.outputs(None))
    Y = [outputs[k] for k in rng.integers(0, len(outputs), 3)]
    n_channels = task.kinds["x"].n_channels
    rows = (8 * rng.normal(scale=0.6, size=(3, n_channels))).round() / 8
    scores = StackedParts({"x": rows}, {"x": np.arange(4)})
    violations = task.separate(None, Y, scores).violations(scores)
    best = task.argmax_batch([None] * 3, scores)
    for i, y in enumerate(Y):
        values = [float(task.joint_feature(None, z)[0] @ rows[i]) for z in outputs]
        own = float(task.joint_feature(None, y)[0] @ rows[i])
        assert float(task.joint_feature(None, best[i])[0] @ rows[i]) == max(values)
        gains = [v + task.loss(y, z) for v, z in zip(values, outputs, strict=True)]
        assert violations[i] == pytest.approx(max(gains) - own, abs=1e-12)
        found = task.argmax(None, rows[[i]], y)
        gain = float(task.joint_feature(None, found)[0] @ rows[i]) + task.loss(y, found)
        assert gain == pytest.approx(max(gains), abs=1e-12)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_marginals_of_label_sets_equal_enumeration(seed, pairs, some):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(2, 5))
    sets = rng.integers(0, 2, (rng.integers(1, 7), n_labels)) if some else None
    task = MultiLabelTask(n_labels, pairs=pairs, sets=sets)
    rows = rng.normal(scale=3, size=(3, task.kinds["x"].n_channels))
    found = task.marginals_batch([None] * 3, StackedParts({"x": rows}, {"x": np.arange(4)}))
    codes = np.concatenate([task.joint_feature(None, z) for z in task.outputs(None)])
    weights = np.exp(rows @ codes.T)
    expected = weights @ codes / weights.sum(axis=1, keepdims=True)
    assert found.expected["x"] == pytest.approx(expected)
    assert found.log_sums == pytest.approx(np.log(weights.sum(axis=1)))
    assert task.marginals(None, rows[:1]) == pytest.approx(expected[:1])
    assert task.log_sum(None, rows[:1]) == pytest.approx(found.log_sums[0])


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(WITH_COSTS), st.booleans(), st.booleans())
def test_the_least_expected_loss_equals_enumeration(seed, loss, pairs, some):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(2, 6))
    sets = rng.integers(0, 2, (rng.integers(1, 9), n_labels)) if some else None
    task = task_of(rng, n_labels, loss, pairs=pairs, sets=sets)
    rows = rng.normal(scale=2, size=(3, task.kinds["x"].n_channels))
    outputs = np.array(list(task.outputs(None)))
    codes = np.concatenate([task.joint_feature(None, z) for z in outputs])
    chances = np.exp(rows @ codes.T)
    chances /= chances.sum(axis=1, keepdims=True)
    losses = np.array([[task.loss(y, z) for z in outputs] for y in outputs])
    for i, found in enumerate(task.least_expected_loss(rows)):
        assert task.is_valid(None, found)
        of_found = [task.loss(y, found) for y in outputs]
        least = (chances[i] @ losses).min() if loss != "subset" else 1.0 - chances[i].max()
        assert chances[i] @ of_found == pytest.approx(least, abs=1e-12)


def test_costs_of_wrong_labels_add_up():
    alike = MultiLabelTask(3, costs=[3, 1, 2])
    assert alike.loss([1, 0, 0], [0, 0, 1]) == pytest.approx(5 / 3)
    sides = MultiLabelTask(3, costs=[[9, 9, 9], [0, 3, 0]])
    assert sides.loss([1, 0, 0], [0, 1, 0]) == pytest.approx(4.0)
    assert sides.loss([0, 0, 0], [1, 0, 1]) == 0.0
    equal = MultiLabelTask(3, costs=[1, 1, 1])
    assert equal.loss([1, 0, 0], [0, 0, 1]) == pytest.approx(
        MultiLabelTask(3).loss([1, 0, 0], [0, 0, 1])
    )
    rng = np.random.default_rng(0)
    check(sides, rng.normal(size=(6, 2)), rng.integers(0, 2, (6, 3)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "f1", "costs": [1, 1, 1]}, "costs goes with loss='hamming'"),
        ({"costs": [1, 1]}, r"costs has shape \(2,\); give \(3,\), or \(2, 3\)"),
        ({"costs": [1, -1, 1]}, "numbers from 0"),
        ({"costs": [0, 0, 0]}, "some of them above 0"),
        ({"costs": [1, np.nan, 0]}, "finite"),
    ],
)
def test_wrong_costs_are_named(options, message):
    with pytest.raises(TaskError, match=message):
        MultiLabelTask(3, **options)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_of_label_sets_equal_those_of_scikit_learn(loss):
    rng = np.random.default_rng(0)
    task = MultiLabelTask(3, loss)
    for y, z in rng.integers(0, 2, (20, 2, 3)):
        assert task.loss(y, z) == pytest.approx(measured(loss, y, z))
    assert task.loss([0, 0, 0], [0, 0, 0]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "pairs"), [("f1", False), ("subset", True)])
def test_the_multi_label_task_passes_check_task(loss, pairs):
    rng = np.random.default_rng(1)
    check(MultiLabelTask(3, loss, pairs=pairs), rng.normal(size=(6, 2)), rng.integers(0, 2, (6, 3)))


def exclusive(rng, n):
    """Two labels, of which exactly one is there, and only their product shows in the input."""
    X = rng.normal(size=(n, 3))
    first = X[:, 0] + 0.8 * rng.normal(size=n) > 0
    return X, np.column_stack((first, ~first, X[:, 1] > 0)).astype(int)


def test_pairs_and_seen_sets_learn_that_labels_exclude_each_other():
    X, Y = exclusive(np.random.default_rng(2), 240)
    right = {}
    for name, options in [("alone", {}), ("pairs", {"pairs": True}), ("seen", {"sets": Y[:120]})]:
        task = MultiLabelTask(3, "subset", **options)
        fitted = StructBoost(task, C=20, max_rounds=15).fit(X[:120], Y[:120])
        found = np.array(fitted.predict(X[120:]))
        right[name] = float(np.mean((found == Y[120:]).all(axis=1)))
        assert fitted.history_[-1]["certified"]
        if name == "seen":
            assert (found[:, 0] != found[:, 1]).all()
    assert min(right["pairs"], right["seen"]) >= right["alone"] - 0.02
    assert right["seen"] > 0.7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_labels": 1}, "from 2"),
        ({"n_labels": 3, "loss": "auc"}, "loss is 'auc'"),
        ({"n_labels": 11, "pairs": True}, "at most 10 labels"),
        ({"n_labels": 2, "sets": [[0, 2]]}, "neither 0 nor 1"),
        ({"n_labels": 2, "sets": [[0, 1, 1]]}, r"give \(n_sets, 2\)"),
    ],
)
def test_wrong_parameters_of_the_multi_label_task_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelTask(**arguments)


def test_wrong_label_sets_are_named():
    task = MultiLabelTask(2)
    scores = StackedParts({"x": np.zeros((2, 2))}, {"x": np.arange(3)})
    for Y, message in [
        ([[0, 1], [0, 2]], r"Y\[1\]: A set of labels is \[0, 2\]"),
        ([[0, 1], [0]], r"Y\[1\]: A set of labels is \[0\]"),
    ]:
        with pytest.raises(TaskError, match=message):
            task.separate(None, Y, scores)
    assert not task.is_valid(None, [0, 1, 1])
    assert not MultiLabelTask(2, sets=[[0, 1]]).is_valid(None, [1, 1])
