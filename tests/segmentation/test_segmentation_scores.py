"""Scores against counted pixels."""

from __future__ import annotations

import numpy as np
import pytest

from structboost.segmentation.crf_training import superpixel_scores
from structboost.segmentation.scores import SegmentationScores, break_even, confusion


def test_segmentation_scores_of_two_classes_equal_hand_values():
    truth = np.array([[0, 0, 1, 1], [0, 1, 1, 255]], np.uint8)
    found = np.array([[0, 1, 1, 1], [0, 0, 1, 1]], np.uint8)
    scores = SegmentationScores.of([confusion(truth, found, 2)])
    assert scores.as_record() == {
        "iou_foreground": 3 / 5,
        "iou_background": 2 / 4,
        "accuracy": 5 / 7,
    }
    assert scores.mean_iou == pytest.approx((3 / 5 + 2 / 4) / 2)


def test_mean_scores_ignore_classes_that_do_not_occur():
    truth = np.array([[0, 0, 2, 2, 2, 255]], np.uint8)
    found = np.array([[0, 2, 2, 2, 0, 1]], np.uint8)
    record = SegmentationScores.of([confusion(truth, found, 4)]).as_record()
    assert record["global_accuracy"] == pytest.approx(3 / 5)
    assert record["class_accuracy"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert record["mean_iou"] == pytest.approx((1 / 3 + 2 / 4) / 2)


def test_score_of_a_missing_class_is_null():
    nothing = np.zeros((2, 2), np.uint8)
    record = SegmentationScores.of([confusion(nothing, nothing, 2)]).as_record()
    assert record == {"iou_foreground": None, "iou_background": 1.0, "accuracy": 1.0}


@pytest.mark.parametrize("n_labels", [2, 3])
def test_scores_of_void_images_are_null(n_labels):
    record = SegmentationScores.of(
        [confusion(np.full((2, 2), 255), np.zeros((2, 2), np.uint8), n_labels)]
    ).as_record()
    assert set(record.values()) == {None}


def test_scores_of_superpixels_are_those_of_their_pixels():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 6, size=(20, 20))
    truth = rng.choice([0, 1, 2, 255], size=(20, 20)).astype(np.uint8)
    labels = rng.integers(0, 3, size=6)
    counts = np.array([[((numbers == p) & (truth == c)).sum() for c in range(3)] for p in range(6)])
    expected = confusion(truth, labels[numbers].astype(np.uint8), 3)
    np.testing.assert_array_equal(superpixel_scores([counts], [labels]).confusion, expected)


def test_break_even_is_where_precision_equals_recall():
    truth = np.array([[0, 4], [2, 2], [4, 0], [4, 0]])
    # The two best hold 8 pixels, 6 of them foreground: at 6 pixels taken, 4 + 1 are hit.
    assert break_even(truth, np.array([3.0, 2.0, 1.0, 0.0]), truth.sum(axis=1)) == pytest.approx(
        5 / 6
    )
    assert break_even(truth, np.array([0.0, 1.0, 2.0, 3.0]), truth.sum(axis=1)) == 0.0
    assert np.isnan(break_even(np.array([[3, 0]]), np.zeros(1), np.full(1, 3)))


def test_confusion_refuses_other_shapes_and_classes():
    with pytest.raises(ValueError, match="must be equal"):
        confusion(np.zeros((2, 2), int), np.zeros((2, 3), int), 2)
    with pytest.raises(ValueError, match="class 7"):
        confusion(np.zeros((2, 2), np.uint8), np.full((2, 2), 7, np.uint8), 2)
