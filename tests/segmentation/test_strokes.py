"""Strokes alone, and the window of the example in which they are drawn."""

from __future__ import annotations

import runpy
from pathlib import Path

import cv2
import numpy as np
import pytest

from structboost.segmentation import StrokeSegmenter, make_synthetic_images

EXAMPLE = Path(__file__).parents[2] / "examples" / "draw_strokes.py"
QUICK = StrokeSegmenter(n_segments=300)


def test_strokes_cut_out_an_object_of_their_colour():
    made = make_synthetic_images(4, random_state=5)
    found = [QUICK.predict(i, s) for i, s in zip(made.images, made.scribbles, strict=True)]
    assert np.mean([f == m for f, m in zip(found, made.masks, strict=True)]) > 0.93
    mask, chances = QUICK.mask_and_probabilities(made.images[0], made.scribbles[0])
    np.testing.assert_array_equal(mask, found[0])
    np.testing.assert_array_equal(chances.argmax(axis=2), mask)
    strokes = made.scribbles[0]
    assert (mask[strokes == 1] == 1).mean() > 0.9


def test_strokes_use_paths_where_colours_are_equal():
    """Two discs of one colour on grey: the one with the stroke is the object."""
    y, x = np.indices((100, 200))
    image = np.full((100, 200, 3), 128, np.uint8)
    discs = [np.hypot(x - centre, y - 50) < 30 for centre in (50, 150)]
    image[discs[0] | discs[1]] = (200, 40, 40)
    strokes = np.zeros((100, 200), np.uint8)
    strokes[48:52, 40:60] = 1
    strokes[48:52, 140:160] = 2
    strokes[5, 10:190] = 2
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
