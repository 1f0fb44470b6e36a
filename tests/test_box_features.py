"""Integral features against sums over pixels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.tracking.box_features import (
    GRADIENT_GRID,
    GREY_GRID,
    N_FEATURES,
    N_GREY,
    N_ORIENTATIONS,
    FrameBoxes,
    box_features,
    frame_planes,
)

IMAGE = np.random.default_rng(0).integers(0, 256, size=(50, 60)).astype(np.uint8)


def plain_gradients(image):
    """Lengths by orientation, pixel by pixel, shape (height, width, 9); edges mirrored without repeating them."""
    padded = np.pad(image.astype(float), 1, mode="reflect")
    gx = padded[1:-1, 2:] - padded[1:-1, :-2]
    gy = padded[2:, 1:-1] - padded[:-2, 1:-1]
    length = np.hypot(gx, gy)
    angle = np.arctan2(gy, gx) / np.pi * N_ORIENTATIONS
    out = np.zeros((*image.shape, N_ORIENTATIONS))
    low = np.floor(angle).astype(int)
    rows, columns = np.indices(image.shape)
    np.add.at(out, (rows, columns, low % N_ORIENTATIONS), (1 - (angle - low)) * length)
    np.add.at(out, (rows, columns, (low + 1) % N_ORIENTATIONS), (angle - low) * length)
    return out, length


def plain_features(image, box):
    """Means over the cells' pixels."""
    x, y, w, h = box
    orientations, lengths = plain_gradients(image)

    def pixels(plane, cx, cy, cw, ch):
        first_row, first_column = int(np.floor(cy + 0.5)), int(np.floor(cx + 0.5))
        last_row, last_column = int(np.floor(cy + ch + 0.5)), int(np.floor(cx + cw + 0.5))
        rows = slice(max(first_row, 0), max(last_row, first_row + 1, 0))
        return plane[rows, max(first_column, 0) : max(last_column, first_column + 1, 0)]

    grey = image.astype(float)
    whole = pixels(grey, x, y, w, h)
    if not whole.size:
        return np.zeros(N_FEATURES)
    mean, spread = whole.mean(), whole.std() + 4.0
    gradient = pixels(lengths, x, y, w, h).mean() + 4.0
    out = []
    for r in range(GREY_GRID):
        for c in range(GREY_GRID):
            cell = pixels(grey, x + c * w / GREY_GRID, y + r * h / GREY_GRID, w / GREY_GRID, h / GREY_GRID)
            out.append((cell.mean() - mean) / spread if cell.size else 0.0)
    for r in range(GRADIENT_GRID):
        for c in range(GRADIENT_GRID):
            size = (w / GRADIENT_GRID, h / GRADIENT_GRID)
            cell = pixels(orientations, x + c * size[0], y + r * size[1], *size)
            out += list(cell.mean(axis=(0, 1)) / gradient) if cell.size else [0.0] * N_ORIENTATIONS
    return np.array(out)


@settings(max_examples=25, deadline=None)
@given(st.floats(-8, 45), st.floats(-8, 40), st.floats(5, 40), st.floats(5, 40))
def test_features_are_means_over_pixels(x, y, w, h):
    box = np.array([x, y, w, h])
    found = box_features(frame_planes(IMAGE), box[None])[0]
    np.testing.assert_allclose(found, plain_features(IMAGE, box), rtol=1e-4, atol=1e-4)


def test_a_region_gives_the_same_features_inside():
    boxes = np.array([[20.0, 15.0, 12.0, 14.0], [22.5, 17.0, 10.0, 9.0]])
    part = frame_planes(IMAGE, (15, 10, 30, 30))
    np.testing.assert_allclose(box_features(part, boxes), box_features(frame_planes(IMAGE), boxes), atol=1e-4)


def test_selected_features_are_the_same_ones():
    candidates = FrameBoxes(np.array([[3.0, 4.0, 20.0, 21.0], [30.0, 20.0, 25.0, 13.0]]), frame_planes(IMAGE))
    which = np.array([5, N_FEATURES - 1, N_GREY, 0])
    np.testing.assert_array_equal(candidates.features(which), candidates.features()[:, which])


def test_brightness_and_contrast_change_little():
    dim = (IMAGE * 0.5 + 60).astype(np.uint8)
    box = np.array([[10.0, 10.0, 30.0, 24.0]])
    one, other = (box_features(frame_planes(image), box)[0] for image in (IMAGE, dim))
    assert np.abs(one - other).max() < 0.1 * np.abs(one).max()


def test_colour_is_turned_to_grey():
    colour = np.repeat(IMAGE[:, :, None], 3, axis=2)
    box = np.array([[10.0, 10.0, 30.0, 24.0]])
    np.testing.assert_allclose(
        box_features(frame_planes(colour), box), box_features(frame_planes(IMAGE), box), atol=1e-5
    )


@pytest.mark.parametrize(
    ("image", "region", "message"),
    [
        (IMAGE.astype(float), None, "8 bit"),
        (np.zeros((4, 4, 2), np.uint8), None, "shape"),
        (IMAGE, (100, 0, 5, 5), "nothing of it lies"),
    ],
)
def test_bad_frames_are_named(image, region, message):
    with pytest.raises(ValueError, match=message):
        frame_planes(image, region)
    with pytest.raises(ValueError, match="there are 468"):
        box_features(frame_planes(IMAGE), np.ones((1, 4)), np.array([468]))
