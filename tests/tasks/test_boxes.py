"""The box task against enumeration, overlaps against counted pixels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import StructBoost, check_task
from structboost.errors import TaskError
from structboost.inference import candidate_boxes, intersection_over_union, most_violated_box
from structboost.inference.boxes import most_violated
from structboost.tasks.boxes import BoxChoice, BoxOverlapTask, BoxTable, chosen

corners = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(1, 9), st.integers(1, 9))


def pixels(box):
    image = np.zeros((24, 24), bool)
    x, y, w, h = box
    image[y : y + h, x : x + w] = True
    return image


@settings(max_examples=60, deadline=None)
@given(corners, st.lists(corners, min_size=1, max_size=5))
def test_overlaps_of_boxes_equal_fractions_of_pixels(box, others):
    counted = [(pixels(box) & pixels(o)).sum() / (pixels(box) | pixels(o)).sum() for o in others]
    np.testing.assert_allclose(intersection_over_union(box, others), counted)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9999))
def test_a_box_overlaps_itself_wholly_however_its_corners_round(seed):
    boxes = np.random.default_rng(seed).uniform(0.1, 50.0, size=(6, 4))
    for k, box in enumerate(boxes):
        shares = intersection_over_union(box, boxes)
        assert shares[k] == 1.0
        assert (np.delete(shares, k) < 1.0).all()


def frames(seed=0, n=8, n_features=4):
    """Candidates whose features say where they lie, with noise; the object is in the middle."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        k = int(rng.integers(3, 12))
        boxes = np.column_stack((rng.uniform(0, 60, size=(k, 2)), rng.uniform(15, 25, size=(k, 2))))
        center = boxes[:, :2] + boxes[:, 2:] / 2
        X.append(BoxTable(boxes, np.column_stack((center, rng.normal(size=(k, n_features - 2))))))
        Y.append(chosen(X[-1], int(np.argmin(np.abs(center - 40).sum(axis=1)))))
    return X, Y


def test_the_box_task_passes_check_task():
    X, Y = frames(n=12)
    check_task(BoxOverlapTask(), X, Y)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 9999))
def test_the_most_violated_boxes_are_those_of_the_argmax(seed):
    X, Y = frames(seed, n=5)
    rng = np.random.default_rng(seed)
    scores = [rng.normal(0, 0.3, (len(x.boxes), 1)) for x in X]
    offsets = np.concatenate(([0], np.cumsum([len(x.boxes) for x in X])))
    true = np.array([y.place for y in Y])
    boxes, values = np.concatenate([x.boxes for x in X]), np.concatenate(scores)[:, 0]
    found, losses = most_violated(true, boxes, offsets, values)
    task = BoxOverlapTask()
    wanted = [
        task.argmax(x, s + task.loss_scores(x, y)) for x, s, y in zip(X, scores, Y, strict=True)
    ]
    assert found.tolist() == [y.place for y in wanted]
    np.testing.assert_array_equal(
        losses, [task.loss(*pair) for pair in zip(Y, wanted, strict=True)]
    )
    one = most_violated_box(Y[0].place, X[0].boxes, scores[0][:, 0])
    assert one == (found[0], losses[0])


def test_a_boosted_model_finds_the_object():
    X, Y = frames(n=80)
    trainer = StructBoost(BoxOverlapTask(), C=100, tol=0.02).fit(X[:50], Y[:50])
    assert trainer.history_[-1]["gap"] <= 0.02
    assert trainer.history_[-1]["certified"]
    chance = np.mean(
        [
            BoxOverlapTask().loss(y, o)
            for x, y in zip(X[50:], Y[50:], strict=True)
            for o in BoxOverlapTask().outputs(x)
        ]
    )
    assert -trainer.score(X[50:], Y[50:]) < 0.35 * chance


def test_candidate_boxes_fill_a_disc_within_the_image():
    box = np.array([40.0, 30.0, 10.0, 20.0])
    found = candidate_boxes(box, 6.0, 2.0, (100, 120))
    np.testing.assert_array_equal(found[0], box)
    centers = found[:, :2] + found[:, 2:] / 2
    assert (np.hypot(*(centers - [45.0, 40.0]).T) <= 6.0 + 1e-9).all()
    assert len(found) == 29
    assert len(np.unique(found, axis=0)) == len(found)
    np.testing.assert_array_equal(np.unique(found[:, 2]), [10.0])
    edge = candidate_boxes(np.array([0.0, 0.0, 4.0, 4.0]), 5.0, 1.0, (50, 50))
    np.testing.assert_array_equal((edge[:, :2] + 2.0).min(axis=0), [0.0, 0.0])
    corner = candidate_boxes(np.array([46.0, 46.0, 4.0, 4.0]), 5.0, 1.0, (50, 50))
    np.testing.assert_array_equal((corner[:, :2] + 2.0).max(axis=0), [49.0, 49.0])


def test_wrong_box_tables_and_outputs_are_named():
    X = frames(n=2)[0]
    with pytest.raises(ValueError, match="rows of features"):
        BoxTable(X[0].boxes, X[0].table[1:])
    with pytest.raises(TaskError, match="not among"):
        BoxOverlapTask().joint_feature(X[0], BoxChoice(0, (0.0, 0.0, 1.0, 1.0)))
    for number in (-1, len(X[0].boxes)):
        with pytest.raises(TaskError, match="not among"):
            BoxOverlapTask().joint_feature(X[0], BoxChoice(number, tuple(X[0].boxes[-1].tolist())))
