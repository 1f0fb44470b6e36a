"""Scores against counted pixels, and drawings of segmentations."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, jaccard_score

from structboost.segmentation import LabelMap
from structboost.segmentation.crf import superpixel_scores
from structboost.segmentation.descriptors import label_counts
from structboost.segmentation.drawing import contact_sheet, draw_segmentation
from structboost.segmentation.scores import (
    SegmentationScores,
    break_even,
    confusion,
    evaluation,
    summary,
)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_scores_are_those_of_scikit_learn_without_void(n_labels):
    rng = np.random.default_rng(0)
    superpixels = rng.integers(0, 6, size=(20, 20))
    truth = rng.choice([*range(n_labels), 255], size=(20, 20)).astype(np.uint8)
    labels = np.arange(6) % n_labels
    predicted = labels[superpixels].astype(np.uint8)
    matrix = confusion(truth, predicted, n_labels)
    pair = truth[truth < 255], predicted[truth < 255]
    np.testing.assert_array_equal(matrix, confusion_matrix(*pair))
    iou, accuracy = jaccard_score(*pair, average=None), accuracy_score(*pair)
    expected = {"iou_foreground": iou[1], "iou_background": iou[0], "accuracy": accuracy}
    if n_labels == 3:
        expected = {"mean_iou": iou.mean(), "global_accuracy": accuracy}
        expected["class_accuracy"] = balanced_accuracy_score(*pair)
    scores = SegmentationScores.of([matrix, matrix])
    np.testing.assert_allclose(scores.iou, iou)
    assert scores.as_record() == pytest.approx(expected)
    line = summary(evaluation({"a": matrix}, list("xyz")[:n_labels]))
    assert all(f"{value:.4f}" in line for value in (*iou, *expected.values()))
    counts = label_counts(superpixels.astype(np.int32), truth, n_labels)
    np.testing.assert_array_equal(superpixel_scores([counts], [labels]).confusion, matrix)


def test_mean_scores_ignore_classes_that_do_not_occur():
    truth = np.array([[0, 0, 2, 2, 2, 255]], np.uint8)
    found = np.array([[0, 2, 2, 2, 0, 1]], np.uint8)
    record = SegmentationScores(confusion(truth, found, 4)).as_record()
    assert record["class_accuracy"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert record["mean_iou"] == pytest.approx((1 / 3 + 2 / 4) / 2)
    record = SegmentationScores([[4, 0], [0, 0]]).as_record()
    assert record == {"iou_foreground": None, "iou_background": 1.0, "accuracy": 1.0}
    for n_labels in (2, 3):
        void = confusion(0 * truth + 255, found % 2, n_labels)
        assert set(SegmentationScores(void).as_record().values()) == {None}


def test_break_even_is_where_precision_equals_recall():
    truth = np.array([[0, 4], [2, 2], [4, 0], [4, 0]])
    # The two best hold 8 pixels, 6 of them foreground: at 6 pixels taken, 4 + 1 are hit.
    margins, areas = np.array([3.0, 2.0, 1.0, 0.0]), truth.sum(axis=1)
    assert break_even(truth, margins, areas) == pytest.approx(5 / 6)
    assert break_even(truth, margins[::-1], areas) == 0.0
    assert np.isnan(break_even(np.array([[3, 0]]), np.zeros(1), np.full(1, 3)))
    for wrong in ((truth[:, :1], margins), (truth, margins[1:]), (-truth, margins)):
        with pytest.raises(ValueError, match="give"):
            break_even(*wrong, areas)


def test_confusion_refuses_other_shapes_and_classes():
    with pytest.raises(ValueError, match="must be equal"):
        confusion(np.zeros((2, 2), int), np.zeros((2, 3), int), 2)
    with pytest.raises(ValueError, match="class 7"):
        confusion(np.zeros((2, 2), np.uint8), np.full((2, 2), 7, np.uint8), 2)


def test_drawings_show_the_classes_and_a_legend_names_their_colours():
    image = np.full((90, 200, 3), 120, np.uint8)
    mask = np.repeat([0, 1, 2], [100, 50, 50]).astype(np.uint8) * np.ones((90, 1), np.uint8)
    two = draw_segmentation(image, mask // 2, legend=True)
    assert two.shape == image.shape
    assert (two[5, 180] == 120).all()
    assert (two[5, 5] < 120).all()
    drawn = draw_segmentation(image, mask, 3)
    np.testing.assert_array_equal(drawn[:, :98], image[:, :98])
    assert not np.array_equal(drawn[5, 120], drawn[5, 180])
    for background in (None, 1):
        assert (draw_segmentation(image, mask, 3, background=background)[5, 5] != 120).any()
    meaning = LabelMap(names=("sky", "cow", "sheep"), colours=((0, 0, 0), (250, 0, 0), (0, 0, 250)))
    plain, with_legend = (
        draw_segmentation(image, mask, 3, meaning=meaning, legend=legend)
        for legend in (False, True)
    )
    np.testing.assert_array_equal(with_legend[:90], plain)
    for colour in meaning.colours[1:]:
        assert (with_legend[90:] == colour).all(axis=2).any()
    with pytest.raises(ValueError, match="one size"):
        draw_segmentation(image, mask[1:])


def test_a_contact_sheet_has_a_column_for_each_segmentation():
    photograph = np.full((20, 30, 3), 200, np.uint8)
    mask = np.indices((20, 30))[1].astype(np.uint8) // 20
    rows = [("x", photograph, {"truth": mask, "found": 1 - mask})] * 2
    assert contact_sheet(rows, tile_width=60).shape == (22 + 2 * 44, 3 * 60 + 2 * 4, 3)
    one, two = ([("x", photograph, {"truth": k * mask})] for k in (1, 2))
    assert (contact_sheet(two, 3) != contact_sheet(one)).any()
    with pytest.raises(ValueError, match="no segmentation named"):
        contact_sheet([*one, ("y", photograph, {})])
    for wrong in ([], [("x", photograph)]):
        with pytest.raises(TypeError, match="rows"):
            contact_sheet(wrong)
