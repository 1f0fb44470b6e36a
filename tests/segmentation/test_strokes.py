"""Strokes alone, the window of the example in which they are drawn, and outlines at full size."""

from __future__ import annotations

import runpy
from pathlib import Path

import cv2
import numpy as np
import pytest

from structboost.segmentation import StrokeSegmenter, make_synthetic_images
from structboost.segmentation.image_files import resized_mask
from structboost.segmentation.refinement import refine_mask

EXAMPLE = Path(__file__).parents[2] / "examples" / "draw_strokes.py"
QUICK = StrokeSegmenter(n_segments=300)


def test_strokes_cut_out_an_object_of_their_colour():
    made = make_synthetic_images(4, random_state=5)
    found = [QUICK.predict(i, s) for i, s in zip(made.images, made.scribbles, strict=True)]
    assert np.mean([f == m for f, m in zip(found, made.masks, strict=True)]) > 0.93
    mask, probabilities = QUICK.mask_and_probabilities(made.images[0], made.scribbles[0])
    np.testing.assert_array_equal(mask, found[0])
    np.testing.assert_array_equal(probabilities.argmax(axis=2), mask)
    assert (mask[made.scribbles[0] == 1] == 1).mean() > 0.9


def test_strokes_use_paths_where_colours_are_equal():
    """Two discs of one colour on grey: the one with the stroke is the object."""
    y, x = np.indices((100, 200))
    image = np.full((100, 200, 3), 128, np.uint8)
    discs = [np.hypot(x - centre, y - 50) < 30 for centre in (50, 150)]
    image[discs[0] | discs[1]] = (200, 40, 40)
    strokes = np.zeros((100, 200), np.uint8)
    strokes[48:52, 40:60], strokes[48:52, 140:160], strokes[5, 10:190] = 1, 2, 2
    found = QUICK.predict(image, strokes)
    assert (found[discs[0]] == 1).mean() > 0.95
    assert (found[discs[1]] == 0).mean() > 0.95


@pytest.mark.parametrize("shape", [(1, 2), (5, 300), (700, 40)])
def test_stroke_segmenter_accepts_images_of_any_size(shape):
    image = np.random.default_rng(0).integers(0, 256, size=(*shape, 3)).astype(np.uint8)
    strokes = np.zeros(shape, np.uint8)
    strokes[:, 0], strokes[:, -1] = 1, 2
    assert StrokeSegmenter(30, longest=500).predict(image, strokes).shape == shape
    with pytest.raises(ValueError, match="needs strokes on the object"):
        QUICK.predict(image, np.minimum(strokes, 1))
    with pytest.raises(ValueError, match="one size"):
        QUICK.predict(image, strokes[:, 1:])


def test_the_window_of_the_example_draws_corrects_and_segments():
    image = np.full((60, 90, 3), 90, np.uint8)
    image[20:40, 30:60] = (220, 180, 30)
    strokes = runpy.run_path(str(EXAMPLE))["Strokes"](image)

    def stroke(down, up, *places):
        for event, place in zip((down, cv2.EVENT_MOUSEMOVE, up), places, strict=True):
            strokes.mouse(event, *place)

    left = cv2.EVENT_LBUTTONDOWN, cv2.EVENT_LBUTTONUP
    right = cv2.EVENT_RBUTTONDOWN, cv2.EVENT_RBUTTONUP
    stroke(*left, (36, 30), (45, 30), (54, 30))
    assert strokes.mask is None
    stroke(*left, (9, 6), (40, 6), (80, 6))  # by mistake
    strokes.undo()
    stroke(*right, (9, 6), (40, 6), (80, 6))
    truth = np.zeros((60, 90), np.uint8)
    truth[20:40, 30:60] = 1
    assert (strokes.mask == truth).mean() > 0.97
    assert (strokes.picture()[6, 40] == (235, 50, 50)).all()
    strokes.undo()
    assert strokes.mask is None


def scene(n_classes):
    """Discs of several colours on grey, with noise, and their mask: 240 x 360 pixels."""
    y, x = np.indices((240, 360))
    mask = np.zeros((240, 360), np.uint8)
    for k in range(1, n_classes):
        mask[np.hypot(x - 110 * k, y - 120) < 52] = k
    colours = np.array([(128, 128, 128), (200, 60, 60), (60, 60, 200)])
    noise = np.random.default_rng(0).normal(scale=60.0, size=(240, 360, 3))
    return np.clip(colours[mask] + noise, 0, 255).astype(np.uint8), mask


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("times", [4, 7])
def test_refined_outlines_follow_the_photograph(n_classes, times):
    image, truth = scene(n_classes)
    coarse = resized_mask(truth, (240 // times, 360 // times))
    nearest = resized_mask(coarse, truth.shape)
    found = refine_mask(image, coarse)
    assert (nearest != truth).sum() > 150
    assert (found != truth).sum() < 0.25 * (nearest != truth).sum()
    assert set(np.unique(found)) == set(range(n_classes))


def test_refinement_keeps_masks_without_outlines_or_of_full_size():
    image, truth = scene(2)
    assert refine_mask(image, truth) is truth
    np.testing.assert_array_equal(refine_mask(image, truth[:60, :30] * 0), 0 * truth)
    tiny = np.array([[0, 3]], np.uint8)
    assert refine_mask(image[:2, :5], tiny).shape == (2, 5)
    strokes = np.zeros_like(truth)
    strokes[118:122, 90:130], strokes[10:14] = 1, 2
    segmenter = StrokeSegmenter(200, longest=90)
    coarse = segmenter.segment(segmenter.prepare(image), strokes)[0]
    found = segmenter.predict(image, strokes)
    assert (found != truth).sum() < 0.3 * (coarse != truth).sum()
