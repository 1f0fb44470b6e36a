"""Sets of labels: losses, costs and weights, and the least expected loss against all sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from sklearn.metrics import f1_score, hamming_loss, zero_one_loss

from structboost import HierarchicalMultiLabelTask, MultiLabelTask

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


@pytest.mark.slow
@settings(max_examples=60, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(WITH_COSTS), st.booleans(), st.booleans())
def test_the_least_expected_loss_equals_enumeration(seed, loss, pairs, some):
    rng = default_rng(seed)
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


def test_no_label_is_turned_that_costs_more_than_a_wrong_set():
    scores = np.array([[1.5, 1.5], [1.5, 0.5]])
    found = MultiLabelTask(2, "subset")._best(scores, np.ones_like(scores, int))
    assert found.tolist() == [[1, 1], [1, 0]]


def test_costs_of_wrong_labels_add_up():
    alike = MultiLabelTask(3, costs=[3, 1, 2])
    assert alike.loss([1, 0, 0], [0, 0, 1]) == pytest.approx(5 / 3)
    sides = MultiLabelTask(3, costs=[[9, 9, 9], [0, 3, 0]])
    assert sides.loss([1, 0, 0], [0, 1, 0]) == pytest.approx(4.0)
    assert sides.loss([0, 0, 0], [1, 0, 1]) == 0.0


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_of_label_sets_equal_those_of_scikit_learn(loss):
    rng = default_rng(0)
    task = MultiLabelTask(3, loss)
    for y, z in rng.integers(0, 2, (20, 2, 3)):
        assert task.loss(y, z) == pytest.approx(measured(loss, y, z))
    assert task.loss([0, 0, 0], [0, 0, 0]) == 0


def test_weights_of_labels_fall_along_the_hierarchy():
    task = HierarchicalMultiLabelTask(4, [[0, 1], [1, 2], [0, 2]])
    total = 2.75 + 0.75 * 0.875
    assert task.label_weights == pytest.approx(np.array([1.0, 0.75, 0.75 * 0.875, 1.0]) / total)
    assert task.loss([1, 1, 1, 0], [1, 0, 0, 0]) == pytest.approx((0.75 + 0.75 * 0.875) / total)
    assert task.closed(np.array([[0, 0, 1, 0], [0, 0, 0, 1]])).tolist() == [
        [1, 1, 1, 0],
        [0, 0, 0, 1],
    ]
    scores = task.closed(np.array([[0.2, 0.1, 0.3, 0.4], [0.5, 0.4, -1.0, -2.0]]))
    assert scores.tolist() == [[0.3, 0.3, 0.3, 0.4], [0.5, 0.4, -1.0, -2.0]]
    rare = HierarchicalMultiLabelTask(500, [[0, 499]]).marginals(None, np.full((1, 500), -800.0))
    assert np.all(rare == 0)
